# SPDX-License-Identifier: Apache-2.0
"""What the server would refuse of an apply is known before anything is written, and the rest is done."""

import re
import uuid

import pytest
import yaml

from osc_placement.batch.execute import execute_plan
from osc_placement.state import read
from osc_placement.state.document import parse_document
from osc_placement.state.plan import plan_apply, plan_run
from osc_placement.state.results import list_results
from osc_placement.state.text import format_document
from tests.functional.cleaning import clear
from tests.functional.commands.pty_run import run_on_terminal
from tests.functional.commands.test_batch import Terminal
from tests.functional.commands.test_prune import Cloud

APPLY = ("resource", "provider", "apply", "-f", "-")
EXPORT = ("resource", "provider", "export")
RUN = ("resource", "provider", "batch", "run")
NOT_NAMED = (
    "allocated; the file does not name it, and --prune deletes what it does not name: name there what is to "
    "stay"
)


@pytest.fixture(scope="module")
def endpoint(server_apart):
    """A server that no other test writes to."""
    return server_apart.url


@pytest.fixture
def cloud(client):
    """Two racks, and nothing else: each has a host with 8 VCPU, 1 of them allocated, and a disk below it."""
    clear(client)
    return Cloud(client)


@pytest.fixture
def document(openstack, cloud):
    """The state of the cloud, as a file has it."""
    return yaml.safe_load(openstack.run(*EXPORT).out)


def entry(document, name):
    """The entry of a provider."""
    return next(each for each in document["providers"] if each["name"] == name)


def remove_inventory(document, cloud):
    entry(document, "r1-disk")["inventories"] = {}
    del document["allocations"]
    return (
        "resource provider r1-disk: in use: 2 CUSTOM_DISK allocated; the file names its inventories without "
        "CUSTOM_DISK, and so removes what it does not name: name there what is to stay"
    )


def overcommit(document, cloud):
    entry(document, "r1-disk")["inventories"]["CUSTOM_DISK"]["total"] = 1
    return (
        "resource provider r1-disk: CUSTOM_DISK would be over capacity by 1: 2 allocated, "
        "the capacity would be 1; --force does it all the same"
    )


def delete_in_use(document, cloud):
    document["providers"].remove(entry(document, "r1-disk"))
    del document["allocations"]
    return f"resource provider r1-disk: in use: 2 CUSTOM_DISK {NOT_NAMED}"


def delete_parent(document, cloud):
    for name in ("r1-host", "r1-disk"):
        document["providers"].remove(entry(document, name))
    document["allocations"] = []
    document["providers"].append({"name": "r1-disk", "uuid": cloud.uuids["r1-disk"]})
    return "resource provider r1-host: it has children that stay: r1-disk; move or delete these first"


def delete_class(document, cloud):
    document["resource_classes"] = []
    for name in ("r1-disk", "r2-disk"):
        del entry(document, name)["inventories"]
    return "resource class CUSTOM_DISK: resource providers have it: r1-disk, r2-disk"


def delete_trait(document, cloud):
    document["traits"] = []
    del entry(document, "r1-host")["traits"]
    entry(document, "r2-host")["traits"] = []
    return "trait CUSTOM_RACK: resource providers have it: r1-host"


def claim(document, cloud, amounts):
    consumer = str(uuid.uuid4())
    document["allocations"].append(
        {
            "consumer": consumer,
            "project": "p",
            "user": "u",
            "type": "INSTANCE",
            "resources": {"r1-host": amounts},
        }
    )
    return f"consumer {consumer}: "


def claim_too_much(document, cloud):
    return f"{claim(document, cloud, {'VCPU': 8})}r1-host has 7 VCPU free, not 8"


def claim_too_large_a_unit(document, cloud):
    entry(document, "r1-host")["inventories"]["VCPU"]["max_unit"] = 2
    return f"{claim(document, cloud, {'VCPU': 3})}r1-host gives 1 to 2 VCPU in steps of 1, not 3"


def claim_missing_class(document, cloud):
    del entry(document, "r1-host")["inventories"]
    return f"{claim(document, cloud, {'DISK_GB': 1})}r1-host has no inventory of DISK_GB"


def make_loop(document, cloud):
    entry(document, "r1-host")["parent"] = "r1-disk"
    del entry(document, "r1-disk")["parent"]
    return "resource provider r1-host: it would be below itself, as its parent r1-disk is below it"


CASES = (
    remove_inventory,
    overcommit,
    delete_in_use,
    delete_parent,
    delete_class,
    delete_trait,
    claim_too_much,
    claim_too_large_a_unit,
    claim_missing_class,
    make_loop,
)


@pytest.mark.parametrize("break_rule", CASES, ids=lambda case: case.__name__)
def test_a_refusal_is_told_by_a_dry_run_and_by_the_run_which_does_the_rest(
    openstack, cloud, document, break_rule
):
    """The exit status is that of batch commands; nothing advises to repeat what would be refused again."""
    refusal = break_rule(document, cloud)
    document["providers"].append({"name": "new"})
    text = yaml.safe_dump(document)
    before = openstack.run(*EXPORT).out
    shown = openstack.run(*APPLY, "--prune", "--dry-run", text=text)
    assert (shown.status, shown.err) == (3, "")
    assert f"! {refusal}" in shown.out.splitlines()
    assert shown.out.splitlines()[-2].startswith("refused: 1 ")
    assert openstack.run(*EXPORT).out == before
    done = openstack.run(*APPLY, "--prune", "--yes", text=text)
    assert (done.status, done.complaints) == (3, f"Refused: {refusal}\n")
    assert "1 created" in done.out
    assert "1 refused" in done.out
    assert "failed" not in done.out
    assert "new" in cloud.names()


@pytest.mark.parametrize(
    "break_rule", [case for case in CASES if case is not overcommit], ids=lambda case: case.__name__
)
@pytest.mark.parametrize("server", ["client", "reference_client"])
def test_the_server_refuses_what_is_refused_before(request, server, break_rule):
    """Without the judgement the server refuses the same, so nothing is refused that could be done."""
    client = request.getfixturevalue(server)
    clear(client)
    cloud = Cloud(client)
    document = yaml.safe_load("".join(format_document(read.read_document(client))))
    kind_and_name = break_rule(document, cloud).partition(": ")[0]
    part, current = read.read_current(client, parse_document(document), prune=True)
    report = list_results(execute_plan(client, plan_run(plan_apply(part, current), "apply")))
    assert [f"{each.kind} {each.name}" for each in report.failures] == [kind_and_name]


def test_what_depends_on_a_refused_change_is_refused_too(openstack, cloud, document):
    """The name of a provider that stays is not free, so nothing is created below the one that wants it."""
    document["providers"] = [each for each in document["providers"] if not each["name"].startswith("r2")]
    document["providers"] += [{"name": "r2-host", "uuid": str(uuid.uuid4())}]
    document["providers"] += [{"name": "leaf", "parent": "r2-host", "inventories": {"VCPU": {"total": 2}}}]
    del document["allocations"]
    runs = openstack.run(*RUN, "list", "-f", "json").json
    done = openstack.run(*APPLY, "--prune", "--yes", text=yaml.safe_dump(document))
    assert (done.status, done.out.splitlines()[-1]) == (3, "resource providers: 4 refused, 2 unchanged")
    host = cloud.uuids["r2-host"]
    assert sorted(done.complaints.splitlines()) == [
        "Refused: resource provider leaf: its parent r2-host is not there",
        f"Refused: resource provider r2-disk: in use: 2 CUSTOM_DISK {NOT_NAMED}",
        f"Refused: resource provider r2-host: in use: 1 VCPU {NOT_NAMED}",
        f"Refused: resource provider r2-host: resource provider {host} keeps the name r2-host",
    ]
    assert openstack.run(*RUN, "list", "-f", "json").json == runs


def test_overcommitment_can_be_allowed_and_is_warned_of(openstack, cloud, document):
    """As in batch commands."""
    overcommit(document, cloud)
    text = yaml.safe_dump(document)
    warning = (
        "Warning: r1-disk: CUSTOM_DISK would be over capacity by 1: 2 allocated, the capacity would be 1\n"
    )
    shown = openstack.run(*APPLY, "--force", "--dry-run", text=text)
    assert (shown.status, shown.err) == (0, warning)
    done = openstack.run(*APPLY, "--force", text=text)
    assert (done.status, done.complaints) == (0, warning)
    inventories = cloud.client.list_inventories(cloud.uuids["r1-disk"])["inventories"]
    assert inventories["CUSTOM_DISK"]["total"] == 1


def test_prune_without_a_terminal_needs_yes(openstack, cloud):
    """It fails at once and every time, not only when there is something to delete."""
    result = openstack.run(*APPLY, "--prune", text="providers: []\nallocations: []\n")
    assert (result.status, result.out) == (1, "")
    assert result.complaints == (
        "Nothing was changed: without a terminal to confirm on, give --yes to change or --dry-run to see the "
        "plan\n"
    )
    assert len(cloud.names()) == 4


def remove_unused_class(document):
    entry(document, "r1-host")["inventories"] = {"VCPU": {"total": 8}}
    return "1 inventory, such as MEMORY_MB of r1-host"


def remove_traits(document):
    for name in ("r1-host", "r2-host"):
        entry(document, name)["traits"] = ["HW_CPU_X86_AVX"]
    return "2 traits, such as CUSTOM_RACK of r1-host, CUSTOM_RACK of r2-host"


def remove_aggregate(document):
    (aggregate,) = entry(document, "r2-host")["aggregates"]
    entry(document, "r2-host")["aggregates"] = []
    return f"1 aggregate, such as {aggregate} of r2-host"


def remove_allocation(document):
    consumer = document["allocations"][0]
    consumer["resources"] = {"r1-host" if "r1-host" in consumer["resources"] else "r2-host": {"VCPU": 1}}
    return f"1 allocation, such as CUSTOM_DISK of {consumer['consumer']}"


@pytest.mark.parametrize(
    "remove",
    [remove_unused_class, remove_traits, remove_aggregate, remove_allocation],
    ids=lambda remove: remove.__name__,
)
def test_what_a_file_removes_of_what_stays_needs_yes_without_a_terminal(openstack, cloud, document, remove):
    """A file that names some of its inventories removes the others, which its reader may not see."""
    uuid = cloud.uuids["r1-host"]
    inventories = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8}}
    cloud.client.set_inventories(uuid, inventories, cloud.client.show_provider(uuid)["generation"])
    entry(document, "r1-host")["inventories"] = inventories
    removed = remove(document)
    document["providers"].append({"name": "new"})
    before = openstack.run(*EXPORT).out
    result = openstack.run(*APPLY, text=yaml.safe_dump(document))
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        f"Nothing was changed: standard input removes {removed}: name there what is to stay, or give --yes, "
        "as there is no terminal to confirm on; --dry-run shows the plan\n"
    )
    assert openstack.run(*EXPORT).out == before
    assert openstack.run(*APPLY, "--dry-run", text=yaml.safe_dump(document)).status == 0
    done = openstack.run(*APPLY, "--yes", text=yaml.safe_dump(document))
    assert (done.status, "new" in cloud.names()) == (0, True)


def test_a_terminal_counts_what_a_file_removes(openstack, cloud, document):
    """Beside what it changes, creates and deletes; what is refused is not removed."""
    remove_traits(document)
    remove_aggregate(document)
    remove_inventory(document, cloud)
    document["providers"].append({"name": "new"})
    file = openstack.home / "state.yaml"
    file.write_text(yaml.safe_dump(document))
    terminal = Terminal(openstack, "resource", "provider", "apply", "-f", file)
    terminal.read_until("[y/N] ")
    question = (
        "Create 1 resource provider; change 2 resource providers, removing 2 traits, 1 aggregate? [y/N]"
    )
    assert question in " ".join(terminal.shown.split())
    terminal.answer("n")


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_terminal_shows_the_plan_and_asks(openstack, cloud, document, answer):
    """Also without --prune; what is the same for many is shown once, and of many lines some."""
    document["providers"] += [{"name": f"new-{number:02}"} for number in range(30)]
    inventories = [{"VCPU": {"total": number}} for number in range(1, 31)]
    document["providers"] += [
        {"name": f"unlike-{one['VCPU']['total']:02}", "inventories": one} for one in inventories
    ]
    claim_too_much(document, cloud)
    file = openstack.home / "state.yaml"
    file.write_text(yaml.safe_dump(document))
    terminal = Terminal(openstack, "resource", "provider", "apply", "-f", file)
    terminal.read_until("Create 60 resource providers? [y/N] ")
    assert "+ 30 resource providers, such as new-00\r\n+ resource provider unlike-01\r\n" in terminal.shown
    assert (
        "... and 38 more lines (equal changes once); --dry-run | less shows each\r\nRefused: consumer"
        in terminal.shown
    )
    out, status = terminal.answer(answer)
    assert ("new-29" in cloud.names(), status) == ((True, 3) if answer == "y" else (False, 1))
    assert ("60 created" in out) is (answer == "y")
    # as after a batch, so that they can be copied; what was refused would be refused again
    run = "openstack resource provider batch run"
    verbs = re.findall(rf"^(show|resume|undo):\s+{run} \1 \S+?(?: --failed-only)?\r?$", terminal.shown, re.M)
    assert verbs == (["show", "undo"] if answer == "y" else [])


@pytest.mark.parametrize("allocations", ["named", "left out"])
def test_a_terminal_is_told_what_the_file_does_not_name(openstack, cloud, document, allocations):
    """How each change is shown, and how many consumers stay if the file is about consumers."""
    document["providers"] += [{"name": f"new-{number:02}"} for number in range(30)]
    if allocations == "named":
        document["allocations"] = []
    else:
        del document["allocations"]
    file = openstack.home / "state.yaml"
    file.write_text(yaml.safe_dump(document))
    terminal = Terminal(openstack, "resource", "provider", "apply", "-f", file)
    terminal.read_until("Create 30 resource providers? [y/N] ")
    shown = " ".join(terminal.shown.split())
    assert "+ 30 resource providers, such as new-00 (--dry-run --full shows each of them)" in shown
    told = "Not in the file: 2 consumers with allocations of its resource providers, which stay"
    assert (told in shown) is (allocations == "named")
    terminal.answer("n")
    dry_run = ("resource", "provider", "apply", "-f", file, "--dry-run")
    # of a plan that is only shown, 40 lines are few
    document["providers"] += [{"name": f"more-{number:02}"} for number in range(30)]
    file.write_text(yaml.safe_dump(document))
    shown, _ = run_on_terminal(openstack, *dry_run, columns=80)
    assert "+ 60 resource providers, such as new-00 (--full shows each of them)" in " ".join(shown.split())
    assert (told in " ".join(shown.split())) is (allocations == "named")
    shown, _ = run_on_terminal(openstack, *dry_run, "--full", columns=80)
    assert shown.count("+ resource provider ") == 60
    assert "shows each" not in shown


def test_a_terminal_is_told_what_was_done_before_the_commands_that_can_follow(openstack, cloud, document):
    """As after a batch."""
    document["providers"].append({"name": "new"})
    file = openstack.home / "state.yaml"
    file.write_text(yaml.safe_dump(document))
    command = ("resource", "provider", "apply", "-f", file, "--yes")
    shown, status = run_on_terminal(openstack, *command, columns=80)
    assert status == 0
    words = [line.split(" ")[0].rstrip(":") for line in shown.splitlines()]
    assert words[-4:] == ["consumers", "Run", "show", "undo"]


def test_a_terminal_is_told_each_reason_of_refusals_once(openstack, cloud, document):
    """What is deleted is in the order of names, and a reason has the number of things it holds for."""
    file = openstack.home / "pruned.yaml"
    unused = [f"unused-{number:02}" for number in (3, 1, 2)]
    document["providers"] += [{"name": name} for name in unused]
    assert openstack.run(*APPLY, text=yaml.safe_dump(document)).status == 0
    document["providers"] = []
    document.pop("allocations", None)
    file.write_text(yaml.safe_dump(document))
    command = ("resource", "provider", "apply", "-f", file, "--prune", "--dry-run")
    shown, status = run_on_terminal(openstack, *command, columns=200)
    assert status == 3
    deleted = re.findall("- resource provider (unused-..)", shown)
    assert deleted == sorted(deleted) != []
    reasons = [line.split(": ", 2)[2] for line in shown.splitlines() if line.startswith("! ")]
    assert len(reasons) == len(set(reasons)) > 0
    assert re.search(r"^refused: \d+ resource providers?\r?$", shown, re.MULTILINE)


def test_with_yes_a_terminal_is_not_asked(openstack, cloud, document):
    """What is refused is told all the same."""
    document["providers"].append({"name": "new"})
    claim_too_much(document, cloud)
    file = openstack.home / "state.yaml"
    file.write_text(yaml.safe_dump(document))
    terminal = Terminal(openstack, "resource", "provider", "apply", "-f", file, "--yes")
    _, status = terminal.finish()
    assert (status, "new" in cloud.names()) == (3, True)
    assert "[y/N]" not in terminal.shown
    assert terminal.shown.startswith("Refused: consumer")


def test_a_resume_refuses_what_the_apply_refused(openstack, cloud, document):
    """As long as the cause is there; the run stays partly done, and nothing is sent."""
    told = claim_too_much(document, cloud)
    document["allocations"][0]["project"] = "other"
    assert openstack.run(*APPLY, text=yaml.safe_dump(document)).status == 3
    for option in ("--dry-run", "--yes"):
        resumed = openstack.run(*RUN, "resume", "--last", option, "-f", "json")
        (row,) = resumed.json
        assert told.split(": ")[1] in f"{row}"
        assert (resumed.status, "1 refused" in resumed.err) == (3, True)
    assert openstack.last_run()["state"] == "partly done"
    document["allocations"].pop(0)
    cloud.client.delete_allocations(cloud.consumers["r1"])
    assert openstack.run(*RUN, "resume", "--last", "--yes").status == 0


def test_the_undo_of_an_apply_refuses_what_the_server_would_refuse(openstack, cloud, document):
    """A trait that another host has since is not deleted; the plan says so."""
    document["traits"].append("CUSTOM_COOLED")
    assert openstack.run(*APPLY, text=yaml.safe_dump(document)).status == 0
    generation = cloud.client.show_provider(cloud.uuids["r2-host"])["generation"]
    cloud.client.set_provider_traits(cloud.uuids["r2-host"], ["CUSTOM_COOLED"], generation)
    for option in ("--dry-run", "--yes"):
        undone = openstack.run(*RUN, "undo", "--last", option, "-f", "json")
        (row,) = undone.json
        assert "resource providers have it: r2-host" in f"{row}"
        assert (undone.status, "1 refused" in undone.err) == (3, True)
