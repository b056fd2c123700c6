# SPDX-License-Identifier: Apache-2.0
"""What `placement-migrate` prints on a terminal: no more than a screen."""

import re
import signal

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.errors import PlacementError
from tests.functional.commands.conftest import fork_server  # noqa: F401
from tests.functional.commands.pty_run import WholeTerminal, run_on_terminal
from tests.functional.forking import ForkedProcess, find_server
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import PROJECT, USER, Cloud, add_flavor, tell_time
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, all_held, clear, provide
from tests.functional.servers import make_environment

# what differs between databases is tested with the source
pytestmark = pytest.mark.nova_on("sqlite")

#: more than a screen has lines, with a row for each; of them, those that placement does not know
HOSTS, UNKNOWN = 120, 30
WIDTH, MOST_LINES = 80, 60
NAMES = ("mirror-aggregates", "carry-ratios", "move-baremetal", "heal-allocations", "audit")
#: no progress is drawn
PLAIN = {"TERM": "dumb"}


@pytest.fixture(scope="module")
def nova_databases(tmp_path_factory):
    """The databases of the cloud of all tests here."""
    with nova.copy_files(tmp_path_factory.mktemp("nova")) as made:
        yield made


@pytest.fixture(scope="module")
def client(server_url):
    """A client of placement; `hosts` empties it."""
    return PlacementClient(Session(auth=Token(server_url, "admin")))


@pytest.fixture(scope="module")
def cloud(nova_databases):
    """The cloud of all tests here."""
    return Cloud(nova_databases.urls)


@pytest.fixture(scope="module")
def filled(cloud, client):
    """A function that makes a cloud in which something is to be done for each host, by each migration.

    It does so unless placement is as it left it; the rows of nova are made once.
    """
    names = [f"compute{number:05}" for number in range(HOSTS)]
    known = [name for number, name in enumerate(names) if number >= UNKNOWN]
    nodes, orphans = {}, [new_uuid() for _ in known]
    with cloud.together():
        for name in names:
            nodes |= cloud.add_host(name)
            cloud.add_instance(name)
        cloud.add_aggregate("az1", names, cpu_allocation_ratio="8.0")
        for rack in range(HOSTS // 40):
            cloud.add_aggregate(f"rack{rack}", names[rack * 40 : rack * 40 + 40])
    left = []

    def describe():
        records = client.read_providers(want=("inventories", "traits", "aggregates"))
        return [(each.provider, each.inventories, each.traits, each.aggregates) for each in records]

    def fill():
        if left == [describe(), all_held(client)]:
            return
        clear(client)
        provide(client, [(name, nodes[name], SIZES, (), ()) for name in known])
        payload = {
            uuid: {
                "allocations": {nodes[name]: {"resources": CLAIM}},
                "project_id": PROJECT,
                "user_id": USER,
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            for uuid, name in zip(orphans, known, strict=True)
        }
        client.set_many_allocations(payload)
        left[:] = [describe(), all_held(client)]

    return fill


@pytest.fixture
def hosts(filled):
    """The cloud as it was made; tests that change nova's rows are the last."""
    filled()


class Program:
    """`placement-migrate` with a nova.conf, started as `OpenStack` starts its command."""

    def __init__(self, nova_conf, home):
        self.access = ["--config-file", str(nova_conf)]
        self.environment = make_environment(XDG_STATE_HOME=str(home / "state"))

    def start(self, *arguments, endpoint=None, environment=(), **settings):
        """Begin one command."""
        environment = {**self.environment, **dict(environment)}
        words = [*self.access, *arguments]
        return ForkedProcess(find_server("placement-migrate"), words, env=environment, **settings)


@pytest.fixture
def program(nova_conf, tmp_path):
    return Program(nova_conf, tmp_path)


def show(program, *arguments, answer=""):
    """Run a command on a terminal; the lines that it takes there, and the exit status."""
    shown, status = run_on_terminal(program, *arguments, columns=WIDTH, environment=PLAIN, answer=answer)
    lines = []
    for line in shown.splitlines():
        lines += [line[start : start + WIDTH] for start in range(0, max(1, len(line)), WIDTH)]
    return lines, status


@pytest.mark.parametrize("name", NAMES)
def test_plan_and_run_fit_a_screen(hosts, program, migrate_json, name):
    """They say how many differ and how, and what is left alone and why; JSON has a row for each."""
    document, _ = migrate_json(name, *(() if name == "audit" else ("--dry-run",)))
    lines, _ = show(program, name, "--dry-run")
    assert len(lines) <= MOST_LINES
    text = "\n".join(lines)
    if document["rows"]:
        assert f"{len(document['rows'])} to change" in text
        assert "(--full shows each of them)" in lines
    whole, _ = show(program, name, "--dry-run", "--full")
    assert len(whole) > len(document["rows"])
    delete = ("--delete", "--max-removals", str(HOSTS)) if name == "audit" else ()
    lines, _ = show(program, name, *delete)
    assert len(lines) <= MOST_LINES
    if document["rows"]:
        assert re.search(r"(?m)^show:\s+placement-migrate run show \S+$", "\n".join(lines))
        assert f"{len(document['rows'])} applied" in "\n".join(lines)


@pytest.mark.parametrize("command", ["status", "online_data_migrations"])
def test_status_and_all_migrations_fit_a_screen(hosts, program, command):
    """With the reasons, and how many have them."""
    lines, _ = show(program, command)
    assert len(lines) <= MOST_LINES
    assert re.search(rf"instance \S+ and {UNKNOWN - 1} more: placement has no", " ".join(lines))


def test_mirror_names_aggregates_and_counts_hosts(hosts, program):
    """The names are those of nova; which host is left alone is told for the first of a reason."""
    lines, status = show(program, "mirror-aggregates", "--dry-run")
    assert status == 3
    assert lines[0] == f"{HOSTS - UNKNOWN:>9,}  +az1"
    assert re.search(rf"Left alone: host compute\d+ and {UNKNOWN - 1} more: placement has", " ".join(lines))


def test_runs_are_shown_listed_and_undone_on_a_terminal(hosts, program, migrate, migrate_json, tmp_path):
    """Those for this cloud only, unless those for all are asked for; one that was undone is shown as such."""
    document, _ = migrate_json("mirror-aggregates")
    run = document["run"]
    changes = HOSTS - UNKNOWN
    lines, status = show(program, "run", "show", run)
    assert (status, lines[0]) == (0, f"run:       {run}")
    assert f"changes:   {changes} of {changes} applied" in lines
    assert len(lines) <= MOST_LINES
    last, status = show(program, "run", "show", "--last")
    assert (status, last) == (0, lines)
    lines, status = show(program, "run", "undo", "--last", "--yes")
    assert (status, len(lines) <= MOST_LINES) == (0, True)
    assert lines[0].startswith(f"Last run: {run}, ")
    lines, status = show(program, "run", "list")
    assert (status, [line.split()[0] for line in lines][:2]) == (0, ["id", run])
    assert " undone " in lines[1]
    assert len(lines) == 3
    program.access += ["--placement-endpoint", "http://127.0.0.1:1/elsewhere"]
    lines, _ = show(program, "run", "list")
    assert " ".join(lines) == (
        "There are no runs for http://127.0.0.1:1/elsewhere. --all-clouds lists 2 runs of other clouds."
    )
    lines, _ = show(program, "run", "list", "--all-clouds", "--last", "1")
    assert len(lines) == 3
    assert lines[2].startswith("All of them are for http://")
    lines, status = show(program, "run", "delete", run, answer="n\n")
    assert (f"Delete run {run}, of which nothing is left to undo? [y/N]" in " ".join(lines), status) == (
        True,
        1,
    )
    lines, _ = show(program, "run", "delete", run, "--yes")
    assert (lines, len(migrate_json("run", "list")[0])) == ([f"Deleted run {run}"], 1)


def test_undo_is_confirmed_on_a_terminal(hosts, program, migrate_json):
    """It shows what it will change; any other answer than yes changes nothing and leaves no run."""
    run = migrate_json("mirror-aggregates")[0]["run"]
    number = HOSTS - UNKNOWN
    question = f"Change {number} resource providers, removing {2 * number} aggregates? [y/N] "
    lines, status = show(program, "run", "undo", run, answer="n\n")
    text = " ".join(lines)
    assert (status, question in text, "Nothing was changed: not confirmed" in text) == (1, True, True)
    assert any(line.startswith(f"{HOSTS - UNKNOWN:>9,}  -") for line in lines)
    assert len(migrate_json("run", "list")[0]) == 1
    lines, status = show(program, "run", "undo", run, answer="y\n")
    assert (status, question in " ".join(lines), len(lines) <= MOST_LINES) == (0, True, True)
    assert [each["state"] for each in migrate_json("run", "list")[0]] == ["undone", "done"]


def test_undo_warns_once(hosts, client, program, migrate_json):
    """What was said before the confirmation is not said of the result again."""
    for ratio, options in ((3.0, []), (5.0, ["--full"])):
        document = migrate_json("carry-ratios")[0]
        for row in document["rows"][:2]:
            inventory = client.show_inventory(row["uuid"], "VCPU")
            generation = inventory.pop("resource_provider_generation")
            client.set_inventory(row["uuid"], "VCPU", inventory | {"allocation_ratio": ratio}, generation)
        lines, status = show(program, "run", "undo", document["run"], *options, answer="y\n")
        assert status == 3
        text = "".join(lines).replace(" ", "")
        assert text.count("willnotbeundone,becausewhattherunsetwaschangedsince") == 1


def test_failures_are_counted_by_their_reason(hosts, program, migrate, monkeypatch):
    """The reason is one line, also if it has the UUID of the instance."""

    def refuse(*arguments, **_options):
        raise PlacementError(f"No room for {arguments[1:]}")

    for method in ("set_allocations", "set_many_allocations"):
        monkeypatch.setattr(PlacementClient, method, refuse)
    done = migrate("heal-allocations")
    run = re.search(r"(?m)^Run ([^;\s]+)", done.stdout)[1]
    lines, status = show(program, "run", "show", run, "--failed-only")
    assert (status, len(lines) <= MOST_LINES) == (0, True)
    assert sum(line.startswith("Failed: ") for line in lines) <= 40
    assert done.stdout.count("No room for ") == HOSTS - UNKNOWN


def test_status_is_watched_until_ctrl_c(hosts, program):
    """The screen shows the same as the command, again and again, and the exit status is 0."""
    terminal = WholeTerminal(program, "status", "--watch", "0.1", columns=WIDTH)
    seen = terminal.read_until("Every 0.1 s: placement-migrate status")
    terminal.read_until("It is not safe yet to leave the caching scheduler", seen)
    terminal.process.send_signal(signal.SIGINT)
    _, status = terminal.finish()
    assert status == 0


def test_holds_of_a_host_fit_a_screen(hosts, cloud, program):
    """Many instances on a host are counted by what has to be done with them."""
    name = "compute00100"
    cloud.update("cell1", "UPDATE instances SET node = :name", name=name)
    lines, status = show(program, "decommission", name)
    assert (len(lines) <= MOST_LINES, status) == (True, 3), "\n".join(lines)
    whole, _ = show(program, "decommission", name, "--full")
    assert len(whole) > HOSTS
    cloud.update("cell1", "UPDATE instances SET node = host")


def test_host_is_freed_after_a_question_that_names_its_provider(hosts, cloud, client, program):
    """It shows first what is freed and last what is deleted, which any other answer than yes leaves alone."""
    name = "compute00110"
    before = all_held(client)
    cloud.stop(name)
    cloud.update("cell1", f"UPDATE instances SET deleted = id WHERE host = '{name}'")  # noqa: S608
    try:
        lines, status = show(program, "decommission", name, "--free", "--delete", answer="n\n")
    finally:
        cloud.update("cell1", f"UPDATE instances SET deleted = 0 WHERE host = '{name}'")  # noqa: S608
        cloud.update("cell1", "UPDATE services SET last_seen_up = :seen", seen=tell_time())
    text = "\n".join(lines)
    assert (status, all_held(client)) == (1, before)
    assert f"-{name}:" in text
    assert text.index(f"-{name}:") < text.index("deleted")


def test_providers_without_a_compute_node_fit_a_screen(hosts, cloud, client, program):
    """Many that are stale, in use or held are counted, and so is their deletion."""
    gone = "host > 'compute00060'"
    cloud.update("cell1", f"UPDATE compute_nodes SET deleted = id WHERE {gone}")  # noqa: S608
    cloud.update("cell1", "UPDATE instances SET deleted = id WHERE host > 'compute00080'")
    cloud.update("api", f"DELETE FROM host_mappings WHERE {gone}")  # noqa: S608
    held = {
        uuid["uuid"]: {**EMPTY, "consumer_generation": uuid["consumer_generation"]} for uuid in _last(client)
    }
    client.set_many_allocations(held)
    for arguments in ((), ("--delete", "--max-removals", "20"), ()):
        lines, status = show(program, "providers", *arguments)
        assert (len(lines) <= MOST_LINES, status) == (True, 3), "\n".join(lines)


EMPTY = {"allocations": {}, "project_id": PROJECT, "user_id": USER, "consumer_type": "INSTANCE"}


def _last(client):
    """Return the consumers of the last twenty hosts."""
    names = {record.provider.uuid: record.provider.name for record in client.read_providers(want=())}
    found = client.list_consumers()
    return [each for each in found if names[next(iter(each["allocations"]))] >= "compute00100"]


@pytest.fixture
def flavors(cloud, add_host, client):
    """A cloud with many flavors of every kind that is reported; the traits that tests create are deleted."""
    clear(client)
    add_host("h1")
    with cloud.together():
        for number in range(HOSTS // 2):
            add_flavor(cloud, f"new{number:05}", **{f"trait:CUSTOM_TEST_OF_{number}": "forbidden"})
            add_flavor(cloud, f"old{number:05}", **{f"trait:HW_NO_SUCH_{number}": "required"})
            add_flavor(cloud, f"big{number:05}", **{"resources:VCPU": str(100 + number)})
            add_flavor(cloud, f"odd{number:05}", **{"resources:VCPU": "abc"})
            add_flavor(cloud, f"lop{number:05}", {"root_gb": 501 + number})
            add_flavor(cloud, f"bad{number:05}", **{"hw:cpu_policy": "mixed"})
    yield
    clear(client)
    for name in client.list_traits(name="startswith:CUSTOM_TEST_OF_"):
        client.delete_trait(name)


@pytest.mark.usefixtures("flavors")
def test_findings_of_flavors_fit_a_screen(program, client, migrate):
    """Each kind of finding has some lines of a terminal; a pipe gets a line for each."""
    for arguments, told in (((), "60 names to create"), (("--create",), "60 applied")):
        lines, status = show(program, "flavors", *arguments)
        text = "\n".join(lines)
        assert (status, told in text) == (3, True)
        assert len(lines) <= MOST_LINES
        for kind in ("does not know", "fits on no empty host", "nova ignores", "leaves", "no boot can"):
            assert kind in text
    assert len(client.list_traits(name="startswith:CUSTOM_TEST_OF_")) == 60
    whole = migrate("flavors").stdout.splitlines()
    assert len([line for line in whole if line.startswith("flavor ")]) == 5 * 60
