# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate providers`: duplicated, stale and used providers that no compute node has."""

import functools
import itertools
import json
import os
import signal
import threading
import time
import types

import pytest
import sqlalchemy as sa

from osc_placement.batch import gate
from osc_placement.batch.reshape import Replacement, ReshapeRefused
from osc_placement.errors import Conflict, Forbidden, ServerError
from osc_placement.migrate import repair, runner
from osc_placement.model import Inventory
from tests.functional import reference_server
from tests.functional.migrate.cloud import KVM, NODE, NOW
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, all_held, give, held_by, hold, provide

# what differs between databases is tested with the source, and by few tests here
pytestmark = pytest.mark.nova_on("sqlite")

VCENTER = "VMware vCenter Server"
AGGREGATE = "6f8c3d52-1111-4a5b-9c0d-000000000001"
TRAITS = ["COMPUTE_NODE", "CUSTOM_RACK_7", "HW_CPU_X86_AVX"]


#: with openstack-placement too
BOTH = pytest.mark.parametrize("server_url", ["ours", "openstack-placement"], indirect=True)


@pytest.fixture(scope="module")
def reference_url(tmp_path_factory):
    """The URL of openstack-placement."""
    directory = tmp_path_factory.mktemp("reference")
    with reference_server.running(directory, f"sqlite:///{directory}/theirs.db", sync=True) as url:
        yield url


@pytest.fixture(scope="module", params=["ours"])
def server_url(request):
    """The URL of a server that lets administrators reshape; both go on while tests change between them."""
    return request.getfixturevalue({"ours": "reshaping_url"}.get(request.param, "reference_url"))


@pytest.fixture
def add_former(cloud):
    """A function that adds a compute node that nova has deleted; returns its UUID."""

    def add(host, node=None, cell="cell1", uuid=None, table="compute_nodes", hypervisor_type=KVM):
        uuid = uuid or new_uuid()
        values = {**NODE, "hypervisor_type": hypervisor_type, "uuid": uuid, "deleted": 99, "deleted_at": NOW}
        cloud.insert(cell, table, host=host, hypervisor_hostname=node or host, **values)
        return uuid

    return add


def disable(cloud, host, cell="cell1"):
    """Disable the nova-compute service of a host."""
    cloud.update(cell, "UPDATE services SET disabled = 1 WHERE host = :host", host=host)


@pytest.fixture
def reinstall(cloud, client, add_former):
    """A function that adds a host which was installed anew, so that its provider has the former UUID.

    Its compute service is disabled. Returns the UUID of the old provider and that of the compute node.
    """

    client.create_trait("CUSTOM_RACK_7")

    def add(host, cell="cell1", former=True, inventories=SIZES):
        old = add_former(host, cell=cell) if former else new_uuid()
        new = cloud.add_host(host, cell)[host]
        disable(cloud, host, cell)
        provide(client, [(host, old, inventories, TRAITS, [AGGREGATE])])
        return old, new

    return add


@pytest.fixture
def end_leaps(monkeypatch):
    """A function that sets the clock of rates right; until then, each look at it is a minute later."""
    leaps = itertools.count(0, 60)
    leaping = types.SimpleNamespace(monotonic=lambda: time.monotonic() + next(leaps))
    monkeypatch.setattr(gate, "time", leaping)
    return lambda: monkeypatch.setattr(gate, "time", time)


@pytest.fixture
def judged(migrate_json):
    """A function that returns the kind of each provider by name, and the exit status."""

    def judge(*arguments):
        document, status = migrate_json("providers", *arguments)
        return {each["name"]: each["kind"] for each in document["providers"]}, status

    return judge


def test_each_kind_is_named(cloud, client, add_host, add_former, reinstall, judged):
    """Duplicated, stale, in use, held and foreign providers are told apart, and nothing is written."""
    add_host("good")
    reinstall("again")
    former = {name: add_former(name) for name in ("gone", "used", "leaked")}
    for name, uuid in former.items():
        client.create_provider(name, uuid=uuid)
        give(client, uuid, SIZES)
    hold(client, cloud.add_instance("used"), {former["used"]: CLAIM})
    hold(client, cloud.add_instance("good"), {former["leaked"]: CLAIM})
    storage = new_uuid()
    client.create_provider("ceph", uuid=storage)
    give(client, storage, {"DISK_GB": Inventory(5000)}, ["MISC_SHARES_VIA_AGGREGATE"], [storage])
    client.create_provider("cyborg", uuid=new_uuid())
    before = _describe(client), all_held(client)
    assert judged() == (
        {
            "again": "duplicated",
            "gone": "stale",
            "used": "in use",
            "leaked": "held",
            "ceph": "of another service",
            "cyborg": "of another service",
        },
        3,
    )
    assert (_describe(client), all_held(client)) == before


@pytest.mark.parametrize(
    ("server_url", "former"),
    [("ours", True), ("ours", False), ("openstack-placement", True)],
    indirect=["server_url"],
)
def test_duplicated_provider_is_replaced(cloud, client, add_host, reinstall, migrate_json, migrate, former):
    """The provider of the compute node has all that the old one had, which is gone; the undo restores it."""
    add_host("good")
    old, new = reinstall("h1", former=former)
    instance = cloud.add_instance("h1")
    hold(client, instance, {old: CLAIM})
    before = _describe(client)
    document, status = migrate_json("providers", "--repair")
    assert (status, document["halted"], len(document["runs"])) == (0, "", 3)
    assert held_by(client, instance) == {new: CLAIM}
    after = _describe(client)
    assert old not in after
    assert after[new] == before[old]
    assert migrate_json("providers")[1] == 0
    for run in reversed(document["runs"]):
        done = migrate("run", "undo", "--yes", run)
        assert done.returncode == 0, done.stdout
    assert _describe(client) == before
    assert held_by(client, instance) == {old: CLAIM}


def _describe(client):
    """Return by UUID the name and all parts of the providers."""
    return {
        record.provider.uuid: (
            record.provider.name,
            record.provider.parent_provider_uuid,
            record.inventories,
            record.traits,
            record.aggregates,
        )
        for record in client.read_providers(want=("inventories", "traits", "aggregates"))
    }


#: instances in every state: columns of the row, and the status of a move of it away from its host, if any
STATES = {
    "active": ({}, None),
    "building": ({"vm_state": "building", "task_state": "spawning"}, None),
    "stopped": ({"vm_state": "stopped"}, None),
    "paused": ({"vm_state": "paused"}, None),
    "rescued": ({"vm_state": "rescued"}, None),
    "shelved": ({"vm_state": "shelved"}, None),
    "error": ({"vm_state": "error"}, None),
    "soft-deleted": ({"vm_state": "soft-delete"}, None),
    "deleting": ({"task_state": "deleting"}, None),
}


def _ground_truth(cloud, client):
    """Return by consumer what must be allocated: amounts by the UUID of the live compute node of its machine.

    It is found with SQL and what each held before, and shares nothing with the code under test.
    """
    truth = {}
    with cloud.engines["cell1"].connect() as connection:
        nodes = dict(
            connection.execute(
                sa.text("SELECT hypervisor_hostname, uuid FROM compute_nodes WHERE deleted = 0")
            ).all()
        )
        places = connection.execute(
            sa.text("SELECT uuid, node FROM instances WHERE deleted = 0 AND node IS NOT NULL")
        ).all()
        moves = connection.execute(
            sa.text(
                "SELECT uuid, source_node FROM migrations WHERE deleted = 0 AND status IN "
                "('running', 'finished', 'migrating', 'preparing')"
            )
        ).all()
    held = all_held(client)
    for consumer, node in [*places, *moves]:
        if consumer in held:
            truth[consumer] = nodes[node]
    return truth


@pytest.fixture
def every_state(cloud, client, add_host, reinstall):
    """A reinstalled host with instances in every state, whose claims are on its old provider."""
    good = add_host("good")
    old, new = reinstall("h1")
    made = {}
    for name, (columns, _) in STATES.items():
        made[name] = cloud.add_instance("h1", **columns)
        hold(client, made[name], {old: CLAIM})
    made["resized away"] = cloud.add_instance("good", vm_state="resized")
    hold(client, made["resized away"], {good: CLAIM})
    made["its move"] = cloud.add_migration(made["resized away"], "h1", "good", status="finished")
    hold(client, made["its move"], {old: CLAIM}, consumer_type="MIGRATION")
    made["live"] = cloud.add_instance("good", task_state="migrating")
    hold(client, made["live"], {old: CLAIM})
    made["its live migration"] = cloud.add_migration(made["live"], "good", "h1", status="running")
    hold(client, made["its live migration"], {good: CLAIM}, consumer_type="MIGRATION")
    made["evacuated"] = cloud.add_instance("good")
    hold(client, made["evacuated"], {good: CLAIM, old: CLAIM})
    cloud.add_migration(made["evacuated"], "h1", "good", status="done")
    made["deleted"] = cloud.add_instance("h1", deleted=7)
    hold(client, made["deleted"], {old: CLAIM})
    made["unknown"] = new_uuid()
    hold(client, made["unknown"], {old: CLAIM}, consumer_type=None)
    made["untyped"] = cloud.add_instance("h1")
    hold(client, made["untyped"], {old: CLAIM}, consumer_type=None)
    return old, new, good, made


@pytest.mark.parametrize(
    ("server_url", "nova_databases"),
    [("ours", "sqlite"), ("ours", "mariadb"), ("openstack-placement", "sqlite")],
    indirect=True,
)
def test_no_claim_is_lost_in_any_state(cloud, client, every_state, migrate):
    """Whatever was claimed of the machine is claimed of it, to the unit; no other claim is touched."""
    old, new, _, made = every_state
    before = all_held(client)
    owners = {uuid: client.list_allocations(uuid) for uuid in made.values()}
    assert migrate("providers", "--repair").returncode == 0
    after = all_held(client)
    assert after == {
        consumer: {(new if provider == old else provider): amounts for provider, amounts in claims.items()}
        for consumer, claims in before.items()
    }
    truth = _ground_truth(cloud, client)
    assert len(truth) > len(STATES)
    live = made["live"]
    assert {uuid for uuid, node in truth.items() if after[uuid].get(node) != CLAIM} == {live}
    assert after[live] == {new: CLAIM}  # on its destination, while its migration holds the source
    for uuid, document in owners.items():
        now = client.list_allocations(uuid)
        kept = ("project_id", "user_id", "consumer_type")
        assert [now.get(key) for key in kept] == [document.get(key) for key in kept]


def test_unreadable_cell_prevents_everything(cloud, client, every_state, add_former, migrate):
    """While a cell cannot be read nothing is judged, and status 4 says so."""
    add_former("gone", uuid=(gone := new_uuid()))
    client.create_provider("gone", uuid=gone)
    give(client, gone, SIZES)
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    before = _describe(client), all_held(client)
    done = migrate("providers", "--repair", "--delete")
    assert done.returncode == 4
    assert "cell cell2: there is no file /no/x" in done.stdout
    assert "where it cannot be read" in done.stdout
    assert (_describe(client), all_held(client)) == before


def test_disabled_cell_is_left_alone(cloud, client, add_host, reinstall, add_former, migrate, judged):
    """Nothing of a disabled cell is repaired or deleted."""
    add_host("good")
    old, _ = reinstall("h2", "cell2")
    add_former("gone", cell="cell2", uuid=(gone := new_uuid()))
    client.create_provider("gone", uuid=gone)
    give(client, gone, SIZES)
    cloud.update("api", "UPDATE cell_mappings SET disabled = 1 WHERE name = 'cell2'")
    before = _describe(client)
    assert judged()[0] == {"h2": "duplicated", "gone": "unknown"}
    assert migrate("providers", "--repair", "--delete").returncode == 3
    assert _describe(client) == before
    cloud.update("api", "UPDATE cell_mappings SET disabled = 0 WHERE name = 'cell2'")
    assert migrate("providers", "--repair", "--delete").returncode == 0
    assert {old, gone}.isdisjoint(_describe(client))


def test_both_providers_exist(cloud, client, add_host, reinstall, migrate):
    """The right one keeps its inventories, and gets the allocations, aggregates and custom traits."""
    add_host("good")
    old, new = reinstall("h1")
    client.update_provider(old, "h1.example.org")
    client.create_provider("h1", uuid=new)
    sizes = {**SIZES, "VCPU": Inventory(32)}
    give(client, new, sizes, ["COMPUTE_NODE"])
    instance, built = cloud.add_instance("h1"), cloud.add_instance("h1")
    hold(client, instance, {old: CLAIM})
    hold(client, built, {new: CLAIM})
    assert migrate("providers", "--repair").returncode == 0
    assert (held_by(client, instance), held_by(client, built)) == ({new: CLAIM}, {new: CLAIM})
    name, _, inventories, traits, aggregates = _describe(client)[new]
    assert (name, inventories["VCPU"].total, old in _describe(client)) == ("h1", 32, False)
    assert (traits, aggregates) == ({"COMPUTE_NODE", "CUSTOM_RACK_7"}, {AGGREGATE})


@pytest.mark.parametrize(
    ("sizes", "double", "text"),
    [
        ({**SIZES, "VCPU": Inventory(3)}, False, "4 of VCPU would be allocated in all, and provider h1 "),
        ({"VCPU": Inventory(64)}, False, "has no inventory of it"),
        (SIZES, True, "of h1.example.org and of the provider of the compute node too"),
    ],
)
def test_what_does_not_fit_is_refused(cloud, client, add_host, reinstall, migrate, sizes, double, text):
    """Nothing is written if the right provider cannot hold all, with one line that says why."""
    add_host("good")
    old, new = reinstall("h1")
    client.update_provider(old, "h1.example.org")
    client.create_provider("h1", uuid=new)
    give(client, new, sizes)
    first, second = cloud.add_instance("h1"), cloud.add_instance("h1")
    hold(client, first, {old: CLAIM, new: CLAIM} if double else {old: CLAIM})
    hold(client, second, {old: CLAIM})
    before = _describe(client), all_held(client)
    done = migrate("providers", "--repair")
    assert (done.returncode, text in done.stdout) == (3, True)
    assert (_describe(client), all_held(client)) == before


@BOTH
def test_nested_providers_of_nova_go_along(cloud, client, add_host, reinstall, migrate):
    """A child that nova reports gets the right parent and keeps what is allocated from it."""
    add_host("good")
    old, new = reinstall("h1")
    child = new_uuid()
    client.create_provider("h1_0000:81:00.0", uuid=child, parent=old)
    client.ensure_resource_class("CUSTOM_PCI")
    give(client, child, {"CUSTOM_PCI": Inventory(1)}, ["COMPUTE_MANAGED_PCI_DEVICE"])
    instance = cloud.add_instance("h1")
    hold(client, instance, {old: CLAIM, child: {"CUSTOM_PCI": 1}})
    assert migrate("providers", "--repair").returncode == 0
    assert held_by(client, instance) == {new: CLAIM, child: {"CUSTOM_PCI": 1}}
    assert _describe(client)[child][1] == new


def test_nested_providers_of_others_prevent_the_repair(cloud, client, add_host, reinstall, migrate):
    """A child that may be Neutron's is never touched, and the message names it."""
    add_host("good")
    old, _ = reinstall("h1")
    child = new_uuid()
    client.create_provider("h1:Open vSwitch agent", uuid=child, parent=old)
    before = _describe(client)
    done = migrate("providers", "--repair")
    assert (done.returncode, "h1:Open vSwitch agent" in done.stdout) == (3, True)
    assert _describe(client) == before


@pytest.mark.nova_on("sqlite", "mariadb")
def test_stale_provider_is_deleted(client, add_host, add_former, migrate, migrate_json):
    """What nova had and nothing holds is deleted, with its empty children; the undo restores it."""
    add_host("good")
    gone, archived = add_former("gone"), add_former("archived", table="shadow_compute_nodes")
    child = new_uuid()
    provide(client, [("gone", gone, SIZES, (), ()), ("archived", archived, SIZES, (), ())])
    client.create_provider("gone_pci", uuid=child, parent=gone)
    give(client, child, {}, ["OWNER_NOVA"])
    before = _describe(client)
    assert migrate("providers").returncode == 3
    assert _describe(client) == before
    document, status = migrate_json("providers", "--delete")
    assert status == 0
    assert {gone, archived, child}.isdisjoint(_describe(client))
    assert migrate("run", "undo", "--yes", document["runs"][0]).returncode == 0
    assert _describe(client) == before


def test_mapped_host_is_in_use(cloud, client, add_host, add_former, judged, migrate):
    """A host that nova maps to a cell is not gone, whatever became of its compute node."""
    add_host("good")
    client.create_provider("h1", uuid=add_former("h1"))
    cloud.insert("api", "host_mappings", host="h1", cell_id=2)
    assert judged("--delete") == ({"h1": "in use"}, 3)
    assert "placement-migrate decommission h1 shows what is left of it" in migrate("providers").stdout
    assert len(_describe(client)) == 2


def test_provider_without_a_record_is_deleted_if_it_is_named(client, add_host, judged):
    """A trait of nova-compute alone is no proof that nova deleted the compute node; a name is asked for."""
    add_host("good")
    client.create_provider("purged", uuid=(uuid := new_uuid()))
    give(client, uuid, SIZES, ["COMPUTE_NODE"])
    assert judged("--delete") == ({"purged": "unknown"}, 3)
    assert uuid in _describe(client)
    assert judged("--delete", "--resource-provider", "purged") == ({"purged": "stale"}, 0)
    assert uuid not in _describe(client)


def test_too_many_deletions_need_an_option(client, add_host, add_former, migrate):
    """More than five stale providers are deleted only if their number is given."""
    add_host("good")
    for number in range(6):
        client.create_provider(f"gone{number}", uuid=add_former(f"gone{number}"))
    done = migrate("providers", "--delete")
    assert (done.returncode, "--max-removals 6" in done.stderr) == (1, True)
    assert len(_describe(client)) == 7
    assert migrate("providers", "--delete", "--max-removals", "6").returncode == 0
    assert len(_describe(client)) == 1


@BOTH
def test_instance_that_is_built_meanwhile_moves_too(cloud, client, add_host, reinstall, migrate, monkeypatch):
    """A claim that is made after the reshape was planned is moved by the next attempt."""
    add_host("good")
    old, new = reinstall("h1")
    hold(client, cloud.add_instance("h1"), {old: CLAIM})
    late = cloud.add_instance("h1", vm_state="building", task_state="spawning")
    reshape = type(client).reshape
    calls = []

    def build_first(self, payload, *arguments):
        if payload["inventories"] and not calls:
            calls.append(late)
            hold(client, late, {old: CLAIM})
        return reshape(self, payload, *arguments)

    monkeypatch.setattr(type(client), "reshape", build_first)
    assert migrate("providers", "--repair").returncode == 0
    assert calls == [late]
    assert held_by(client, late) == {new: CLAIM}


def _die_at_write(client, migrate, number, is_sent):
    """Run the repair in a process that dies at a write, before or after it is sent; return whether it did."""
    child = os.fork()
    if child == 0:
        send, writes = type(client)._send, itertools.count(1)

        def die(self, method, path, **options):
            # the question whether the caller may reshape writes nothing
            is_write = method != "GET" and (options.get("json") or {}).get("inventories") != {}
            if is_write and next(writes) == number:
                if is_sent:
                    send(self, method, path, **options)
                os._exit(9)
            return send(self, method, path, **options)

        try:
            type(client)._send = die
            os._exit(migrate("providers", "--repair").returncode)
        finally:
            os._exit(99)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


@pytest.mark.parametrize("is_sent", [True, False])
def test_killed_repair_loses_no_claim(cloud, client, add_host, reinstall, migrate, is_sent):
    """After a kill at any write the claims are whole; the same command finishes it, or names the resume.

    After every second one the run is resumed first, so that of a kill after a write and the one before the
    next, which leave placement alike, one is resumed and one is not.
    """
    add_host("good")
    for number in itertools.count(1):
        old, new = reinstall(f"h{number}")
        resumes = number % 2 == 0
        instances = [cloud.add_instance(f"h{number}") for _ in range(2)]
        for instance in instances:
            hold(client, instance, {old: CLAIM})
        was_killed = _die_at_write(client, migrate, number, is_sent)
        if was_killed:
            held = {next(iter(claims)) for claims in map(functools.partial(held_by, client), instances)}
            assert held in ({old}, {new})
            if resumes:
                migrate("run", "resume", "--yes", "--last")
            done = migrate("providers", "--repair")
            if not resumes and done.returncode == 3:
                assert "run resume continues it" in done.stdout
                migrate("run", "resume", "--yes", "--last")
                done = migrate("providers", "--repair")
            assert done.returncode == 0, (number, done)
        assert [held_by(client, instance) for instance in instances] == [{new: CLAIM}] * 2
        described = _describe(client)
        assert (old in described, described[new][0]) == (False, f"h{number}")
        assert described[new][2:] == (SIZES, frozenset(TRAITS), frozenset([AGGREGATE]))
        if not was_killed:
            break
    assert number > 4


def test_repair_without_the_right_writes_nothing(cloud, client, add_host, reinstall, migrate, monkeypatch):
    """The right to reshape is asked for before the first write."""
    add_host("good")
    old, _ = reinstall("h1")
    hold(client, cloud.add_instance("h1"), {old: CLAIM})
    before = _describe(client), all_held(client)

    def refuse(_self):
        raise Forbidden(403, "Policy does not allow it")

    monkeypatch.setattr(type(client), "require_reshape", refuse)
    done = migrate("providers", "--repair")
    assert (done.returncode, "by default only the role 'service' may reshape" in done.stderr) == (1, True)
    assert (_describe(client), all_held(client)) == before


@pytest.mark.parametrize("option", ["--repair", "--delete"])
def test_api_of_nova_is_no_source_for_changes(migrate, option):
    """It shows no compute node that is deleted, so nothing could be told from it for certain."""
    done = migrate("--source", "api", "providers", option)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "placement-migrate: Nova's API does not show deleted compute nodes; use --source db with --repair "
        "and --delete\n"
    )


def test_unknown_provider_is_a_one_line_error(add_host, migrate):
    """A provider that placement does not have is a mistake of the command line."""
    add_host("good")
    done = migrate("providers", "--resource-provider", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "placement-migrate: Placement has no resource provider nobody\n"


def test_names_that_differ_by_their_domain_are_no_evidence(cloud, client, add_host, migrate_json):
    """Without a deleted compute node nothing says that h1 is h1.example.org, and it is left alone."""
    add_host("good")
    cloud.add_host("h1.example.org")
    client.create_provider("h1", uuid=(old := new_uuid()))
    give(client, old, SIZES)
    document, status = migrate_json("providers", "--repair", "--delete")
    assert [each["reason"] for each in document["findings"]] == ["ambiguous"]
    assert (status, document["rows"], old in _describe(client)) == (3, [], True)


def test_nova_compute_may_create_its_provider_first(cloud, client, add_host, reinstall, migrate, monkeypatch):
    """If it is faster, the run stops with all claims in place, and the same command goes on from there."""
    add_host("good")
    old, new = reinstall("h1")
    instance = cloud.add_instance("h1")
    hold(client, instance, {old: CLAIM})
    create = type(client).create_provider

    def create_twice(self, *arguments, **options):
        document = create(self, *arguments, **options)
        give(self, new, {"VCPU": Inventory(64), "MEMORY_MB": Inventory(4096), "DISK_GB": Inventory(99)})
        return document if arguments[0] != "h1" else create(self, *arguments, **options)

    monkeypatch.setattr(type(client), "create_provider", create_twice)
    first = migrate("providers", "--repair")
    assert held_by(client, instance) in ({old: CLAIM}, {new: CLAIM}), first
    monkeypatch.setattr(type(client), "create_provider", create)
    assert migrate("providers", "--repair").returncode == 0
    assert held_by(client, instance) == {new: CLAIM}
    assert _describe(client)[new][2]["VCPU"].total == 64
    assert old not in _describe(client)


def test_several_providers_are_replaced_up_to_a_number(cloud, client, add_host, reinstall, migrate_json):
    """--max-count limits the replacements, and the status says that some are left."""
    add_host("good")
    pairs = [reinstall(name) for name in ("h1", "h2", "h3")]
    for number, (old, _) in enumerate(pairs, 1):
        hold(client, cloud.add_instance(f"h{number}"), {old: CLAIM})
    document, status = migrate_json("providers", "--repair", "--max-count", "2")
    assert (status, len(document["runs"]), document["not_tried"]) == (3, 6, 1)
    assert sum(old in _describe(client) for old, _ in pairs) == 1
    assert migrate_json("providers", "--repair")[1] == 0
    assert {new for _, new in pairs} < _describe(client).keys()


def test_shards_divide_the_hosts(client, add_host, add_former, reinstall, migrate_json):
    """Each provider is judged, replaced and deleted by one of them; the limit counts those of all."""
    add_host("good")
    old = {name: reinstall(name)[0] for name in ("h1", "h2", "h3", "h4")}
    gone = {f"gone{number}": add_former(f"gone{number}") for number in range(6)}
    provide(client, [(name, uuid, SIZES, (), ()) for name, uuid in gone.items()])
    shards = ["1/2", "2/2"]
    parts = []
    for shard in shards:
        document, status = migrate_json("providers", "--shard", shard)
        parts.append({each["name"] for each in document["providers"]})
        assert (status, len(parts[-1] & gone.keys()) <= 5) == (3, True)
        (text,) = [each["text"] for each in document["findings"] if each["reason"] == "too many removals"]
        assert text.startswith("6 providers would be deleted, more than the 5 that ")
        assert f"add --max-removals {len(parts[-1] & gone.keys())} to this command" in text
    assert (parts[0] & parts[1], parts[0] | parts[1]) == (set(), {*old, *gone})
    assert 0 < len(parts[0]) < len(old) + len(gone)
    for shard, part in zip(shards, parts, strict=True):
        number = len(part & gone.keys())
        limit = ("--max-removals", str(number)) if number else ()
        document, status = migrate_json("providers", "--repair", "--delete", "--shard", shard, *limit)
        assert (status, len(document["runs"])) == (0, 3 * len(part & old.keys()) + bool(number))
        assert part.isdisjoint({each for each in gone if gone[each] in _describe(client)})
    assert {*old.values(), *gone.values()}.isdisjoint(_describe(client))


def test_throttle_holds_over_all_runs_of_a_repair(client, add_host, reinstall, migrate, monkeypatch):
    """The first change of a run waits for the last one of the run before."""
    add_host("good")
    reinstall("h1")
    send, times = type(client)._send, []

    def note(self, method, path, **options):
        # a provider that is created gets its traits and aggregates as a part of that change
        is_part = path.endswith(("/traits", "/aggregates"))
        if method != "GET" and not is_part and (options.get("json") or {}).get("inventories") != {}:
            times.append(time.monotonic())
        return send(self, method, path, **options)

    monkeypatch.setattr(type(client), "_send", note)
    assert migrate("providers", "--repair", "--throttle", "3").returncode == 0
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert (len(times) > 3, min(pauses) > 0.3) == (True, True), pauses


@pytest.mark.parametrize("is_reported", [False, True])
def test_domain_was_added_to_the_name(cloud, client, add_host, add_former, migrate, is_reported):
    """A deleted compute node of the host tells that h1 and h1.example.org are one machine.

    It does so too when nova-compute has reported the new one, and instances were built there since.
    """
    add_host("good")
    old, new = add_former("h1"), cloud.add_host("h1", nodes=["h1.example.org"])["h1.example.org"]
    disable(cloud, "h1")
    client.create_provider("h1", uuid=old)
    give(client, old, SIZES)
    held = {cloud.add_instance("h1"): old}
    if is_reported:
        provide(client, [("h1.example.org", new, SIZES, ["COMPUTE_NODE"], [])])
        held[cloud.add_instance("h1", node="h1.example.org")] = new
    for instance, provider in held.items():
        hold(client, instance, {provider: CLAIM})
    assert migrate("providers", "--repair").returncode == 0
    assert all_held(client) == {instance: {new: CLAIM} for instance in held}
    assert (_describe(client)[new][0], old in _describe(client)) == ("h1.example.org", False)


@pytest.mark.parametrize(("node", "kind"), [("domain-c2", "stale"), ("domain-c1", "in use")])
def test_other_node_of_a_host_is_another_machine(cloud, client, add_host, add_former, judged, node, kind):
    """A host of vCenter that lost a cluster keeps the others, and nothing of the lost one goes to them."""
    other = add_host("vcenter", nodes=["domain-c2"])
    lost = add_former("vcenter", node="domain-c1")
    client.create_provider("domain-c1", uuid=lost)
    give(client, lost, SIZES)
    cloud.add_instance("vcenter", node=node)
    before = _describe(client)[other]
    assert judged("--repair") == ({"domain-c1": kind}, 3)
    assert _describe(client)[other] == before


@pytest.mark.parametrize("case", ["domain", "capitals", "reinstalled twice"])
def test_no_command_takes_the_only_claim_of_a_live_instance(
    cloud, client, add_host, add_former, migrate, case
):
    """A provider whose machine may be live under another name is left alone, and its claims are too."""
    add_host("good")
    live = {"domain": "h1.example.org", "capitals": "h1", "reinstalled twice": "h1"}[case]
    add_host(live)
    old = add_former("H1") if case == "capitals" else new_uuid()
    name = {"domain": "h1", "capitals": "H1", "reinstalled twice": f"replaced-by-{new_uuid()}"}[case]
    client.create_provider(name, uuid=old)
    give(client, old, SIZES, ["COMPUTE_NODE"])
    instance = cloud.add_instance(live)
    hold(client, instance, {old: CLAIM})
    done = migrate("providers", "--repair", "--delete", "-f", "json")
    document = json.loads(done.stdout)
    assert [(each["name"], each["kind"]) for each in document["providers"]] == [(name, "unknown")]
    assert [each["reason"] for each in document["findings"]] == ["ambiguous"]
    assert ("unset" in done.stdout, "provider delete" in done.stdout) == (False, False)
    assert held_by(client, instance) == {old: CLAIM}


@pytest.mark.parametrize("holder", ["ended migration", "reservation", "instance elsewhere"])
def test_claim_of_a_stale_provider_is_shown_and_not_judged(
    cloud, client, add_host, add_former, migrate, holder
):
    """What another consumer may need has no command that removes it."""
    good = add_host("good")
    old = add_former("h1")
    client.create_provider("h1", uuid=old)
    give(client, old, SIZES)
    if holder == "reservation":
        hold(client, consumer := new_uuid(), {old: CLAIM}, consumer_type="RESERVATION")
    elif holder == "ended migration":
        consumer = cloud.add_migration(cloud.add_instance("good"), "h1", "good", status="error")
        hold(client, consumer, {old: CLAIM}, consumer_type="MIGRATION")
    else:
        hold(client, consumer := cloud.add_instance("good"), {good: CLAIM, old: CLAIM})
    done = migrate("providers", "--delete")
    assert (done.returncode, f"consumer {consumer} holds something of h1" in done.stdout) == (3, True)
    assert "placement-migrate decommission h1 finds out which of these are orphans" in done.stdout


def test_live_host_whose_node_has_its_domain_is_not_called_gone(cloud, client, add_host, migrate, judged):
    """A mapped host that has a compute node of another name is neither unmapped nor deleted."""
    add_host("good")
    add_host("compute1", nodes=["compute1.example.org"])
    client.create_provider("compute1", uuid=(old := new_uuid()))
    give(client, old, SIZES, ["COMPUTE_NODE"])
    assert judged("--delete", "--resource-provider", "compute1") == ({"compute1": "unknown"}, 3)
    assert "delete_host" not in migrate("providers").stdout
    assert old in _describe(client)


def test_other_domain_is_no_evidence_if_the_live_provider_is_in_use(
    cloud, client, add_host, add_former, judged
):
    """Two clusters of one vCenter whose names differ by their domain may be two machines."""
    add_host("good")
    live = add_host("vc", nodes=["c1.b.example.org"], hypervisor_type=VCENTER)
    old = add_former("vc", node="c1.a.example.org", hypervisor_type=VCENTER)
    client.create_provider("c1.a.example.org", uuid=old)
    give(client, old, SIZES)
    hold(client, cloud.add_instance("vc", node="c1.b.example.org"), {live: CLAIM})
    hold(client, cloud.add_instance("vc", node="c1.b.example.org"), {old: CLAIM})
    before = _describe(client), all_held(client)
    assert judged("--repair", "--delete") == ({"c1.a.example.org": "unknown"}, 3)
    assert (_describe(client), all_held(client)) == before


def test_rest_of_the_nested_providers_goes_along(cloud, client, add_host, reinstall, migrate):
    """A repair that was interrupted among them is finished by the same command."""
    add_host("good")
    old, new = reinstall("h1")
    client.update_provider(old, f"replaced-by-{new}")
    client.create_provider("h1", uuid=new)
    children = {}
    for name, parent in (("h1_a", new), ("h1_b", old)):
        client.create_provider(name, uuid=(children.setdefault(name, new_uuid())), parent=parent)
        give(client, children[name], {}, ["OWNER_NOVA"])
    assert migrate("providers", "--repair").returncode == 0
    described = _describe(client)
    assert old not in described
    assert {described[child][1] for child in children.values()} == {new}


def test_only_host_of_a_cell_was_reinstalled(cloud, client, add_host, reinstall, migrate):
    """An instance that holds something of its old provider proves that the cell belongs to this placement."""
    good = add_host("good")
    old, new = reinstall("h2", "cell2", former=False)
    hold(client, instance := cloud.add_instance("h2", "cell2"), {old: CLAIM})
    hold(client, orphan := new_uuid(), {good: CLAIM})
    done = migrate("audit", "--delete")
    assert (done.returncode, "cell cell2" in done.stdout, held_by(client, orphan)) == (3, False, {})
    assert "as after a re-install; placement-migrate providers" in done.stdout
    assert migrate("status").returncode == 3
    assert held_by(client, instance) == {old: CLAIM}
    assert migrate("providers", "--repair").returncode == 0
    assert held_by(client, instance) == {new: CLAIM}
    cloud.update("cell2", "UPDATE services SET disabled = 0")
    assert [migrate(command).returncode for command in ("audit", "status")] == [0, 0]


def test_deleted_compute_nodes_do_not_prove_a_cell_to_the_audit(cloud, client, add_host, reinstall, migrate):
    """A host that moved to this cloud keeps the UUID of its compute node, which its former cloud deleted."""
    good = add_host("good")
    old, _ = reinstall("h2", "cell2")
    cloud.add_instance("h2", "cell2")
    hold(client, moved := new_uuid(), {old: CLAIM})
    hold(client, orphan := new_uuid(), {good: CLAIM})
    done = migrate("audit", "--delete")
    assert (done.returncode, "cell cell2: 0 of its 1 compute nodes have" in done.stdout) == (4, True)
    assert (held_by(client, moved), held_by(client, orphan)) == ({old: CLAIM}, {good: CLAIM})


def test_names_do_not_prove_that_a_cell_is_of_this_cloud(cloud, client, add_host, reinstall, migrate):
    """A cell of another cloud may have hosts of the same names; it has instances of its own."""
    add_host("good")
    old, _ = reinstall("h2", "cell2", former=False)
    cloud.add_instance("h2", "cell2")
    hold(client, instance := new_uuid(), {old: CLAIM})
    before = _describe(client)
    for command in (["providers", "--repair"], ["audit", "--delete"]):
        done = migrate(*command)
        assert (done.returncode, "cell cell2: 0 of its 1 compute nodes have" in done.stdout) == (4, True)
    assert (_describe(client), held_by(client, instance)) == (before, {old: CLAIM})


def test_nodes_without_a_host_are_not_on_one_host(cloud, client, add_host, add_former, judged):
    """A column that nova left empty is no evidence that two compute nodes are of one machine."""
    add_host("good")
    old = add_former(None, node="h1.a.example.org")
    cloud.add_host(None, nodes=["h1.b.example.org"], mapped=False)
    client.create_provider("h1.a.example.org", uuid=old)
    give(client, old, SIZES)
    assert judged("--repair", "--delete") == ({"h1.a.example.org": "unknown"}, 3)
    assert old in _describe(client)


def test_uuid_of_two_cells_is_left_alone_if_one_is_disabled(cloud, client, add_host, add_former, judged):
    """The compute node of a host that was moved between cells is in both, and a disabled one counts."""
    add_host("good")
    for cell in ("cell1", "cell2"):
        add_host(f"other-{cell}", cell)
    uuid = new_uuid()
    for cell in ("cell1", "cell2"):
        add_former("h1", cell=cell, uuid=uuid)
    client.create_provider("h1", uuid=uuid)
    cloud.update("api", "UPDATE cell_mappings SET disabled = 1 WHERE name = 'cell1'")
    assert judged("--delete") == ({"h1": "unknown"}, 3)


@pytest.mark.parametrize("name", ["good", "good_pci"])
def test_repair_of_nothing_says_so(client, add_host, migrate, name):
    """A provider that has a compute node, or a nested one, is left as it is with a line that says why."""
    node = add_host("good")
    client.create_provider("good_pci", uuid=new_uuid(), parent=node)
    done = migrate("providers", "--repair", "--delete", "--resource-provider", name)
    assert done.returncode == 0
    told = "Found no root provider of a host without a compute node"
    assert done.stdout.splitlines() == [told, "Nothing was changed"]


def test_repair_to_another_domain_goes_on_when_nova_compute_has_reported(
    cloud, client, add_host, add_former, migrate, monkeypatch
):
    """The old provider is marked before anything moves, so that its machine is known in every later state."""
    add_host("good")
    old, new = add_former("h1"), cloud.add_host("h1", nodes=["h1.example.org"])["h1.example.org"]
    disable(cloud, "h1", "cell1")
    client.create_provider("h1", uuid=old)
    give(client, old, SIZES)
    hold(client, instance := cloud.add_instance("h1"), {old: CLAIM})
    reshape = type(client).reshape

    def refuse(_self, payload, *arguments):
        if payload["inventories"]:
            raise Forbidden(403, "Stopped here")
        return reshape(_self, payload, *arguments)

    monkeypatch.setattr(type(client), "reshape", refuse)
    assert migrate("providers", "--repair").returncode != 0
    assert held_by(client, instance) == {old: CLAIM}
    give(client, new, SIZES, ["COMPUTE_NODE"])
    monkeypatch.setattr(type(client), "reshape", reshape)
    assert migrate("providers", "--repair").returncode == 0
    assert (held_by(client, instance), old in _describe(client)) == ({new: CLAIM}, False)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            "UPDATE services SET disabled = 0",
            "openstack compute service set --disable h1 nova-compute, give this command again",
        ),
        ("DELETE FROM services", "nova has no nova-compute service of host h1, so it is unknown"),
    ],
)
def test_host_is_repaired_only_while_it_is_disabled(
    cloud, client, add_host, reinstall, migrate, change, text
):
    """The scheduler would take it for empty between two runs; nothing is written, and a line says so."""
    add_host("good")
    old, new = reinstall("h1")
    instance = cloud.add_instance("h1")
    hold(client, instance, {old: CLAIM})
    cloud.update("cell1", change)
    before = _describe(client), all_held(client)
    done = migrate("providers", "--repair")
    assert (done.returncode, done.stderr) == (3, "")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("provider h1 was not replaced: ")]
    assert text in line
    assert (_describe(client), all_held(client)) == before
    if "UPDATE" in change:
        disable(cloud, "h1")
        assert migrate("providers", "--repair").returncode == 0
        assert held_by(client, instance) == {new: CLAIM}


def test_nova_is_read_again_before_each_repair(cloud, client, add_host, reinstall, migrate_json, monkeypatch):
    """A host that is enabled, or gets its old compute node again, while others are repaired is left alone."""
    add_host("good")
    pairs = {name: reinstall(name) for name in ("h1", "h2", "h3")}
    run_job, calls = runner.run_job, []

    def act_first(*arguments):
        if not calls:
            cloud.update("cell1", "UPDATE services SET disabled = 0 WHERE host = 'h2'")
            statement = "UPDATE compute_nodes SET deleted = 0, hypervisor_hostname = 'x' WHERE uuid = :uuid"
            cloud.update("cell1", statement, uuid=pairs["h3"][0])
        calls.append(1)
        return run_job(*arguments)

    monkeypatch.setattr(runner, "run_job", act_first)
    document, status = migrate_json("providers", "--repair")
    assert (status, len(document["runs"]), document["not_tried"], document["halted"]) == (3, 3, 0, "")
    texts = {each["provider"]: each["text"] for each in document["failures"]}
    assert texts.keys() == {"h2", "h3"}
    assert "--disable h2 nova-compute" in texts["h2"]
    assert f"nova has compute node {pairs['h3'][0]} again" in texts["h3"]
    assert {uuid: uuid in _describe(client) for uuid, _ in pairs.values()} == {
        pairs["h1"][0]: False,
        pairs["h2"][0]: True,
        pairs["h3"][0]: True,
    }


def test_failure_of_a_host_does_not_stop_the_others(cloud, client, add_host, reinstall, migrate, monkeypatch):
    """The line of the host says that it is half done and has to stay disabled; the others are repaired."""
    add_host("good")
    pairs = {name: reinstall(name) for name in ("h1", "h2", "h3")}

    class Refusing(Replacement):
        def plan(self, world):
            if self.old == pairs["h2"][0]:
                raise ReshapeRefused("4 of VCPU do not fit")
            return super().plan(world)

    monkeypatch.setattr(repair, "Replacement", Refusing)
    done = migrate("providers", "--repair")
    assert (done.returncode, done.stderr) == (3, "")
    (line,) = [line for line in done.stdout.splitlines() if "was not replaced" in line]
    assert line.startswith("provider h2 was not replaced: 4 of VCPU do not fit; the replacement is half done")
    assert f"still of provider {pairs['h2'][0]}: keep nova-compute of this host disabled" in line
    assert "not tried" not in done.stdout
    assert [old in _describe(client) for old, _ in pairs.values()] == [False, True, False]
    monkeypatch.setattr(repair, "Replacement", Replacement)
    cloud.update("cell1", "UPDATE services SET disabled = 0 WHERE host = 'h2'")
    again = migrate("providers", "--repair")
    assert "h2 is enabled" in again.stdout
    assert "; the replacement is half done" in again.stdout
    disable(cloud, "h2")
    assert migrate("providers", "--repair").returncode == 0
    assert pairs["h2"][0] not in _describe(client)


def test_repair_that_only_leaves_the_old_provider_says_so(
    cloud, client, add_host, reinstall, migrate, monkeypatch
):
    """After the second run all claims are moved, which is another state than before it."""
    add_host("good")
    old, new = reinstall("h1")
    hold(client, cloud.add_instance("h1"), {old: CLAIM})

    def refuse(*_):
        raise ReshapeRefused("h1 got inventories again")

    monkeypatch.setattr(repair, "read_state", refuse)
    done = migrate("providers", "--repair")
    assert done.returncode == 3
    assert (
        f"h1 got inventories again; all allocations are moved to provider {new}, and {old} is" in done.stdout
    )


def test_interrupted_repair_names_its_state(client, add_host, reinstall, migrate_json, monkeypatch):
    """A signal between two runs leaves a host half done, which has to stay disabled, and others not tried."""
    add_host("good")
    pairs = [reinstall(name) for name in ("h1", "h2")]
    run_job = runner.run_job

    def stop_after(client, job, execution):
        run = run_job(client, job, execution)
        execution.stop.set()
        return run

    monkeypatch.setattr(runner, "run_job", stop_after)
    document, status = migrate_json("providers", "--repair")
    assert (status, document["not_tried"], len(document["runs"])) == (130, 1, 1)
    assert "it was stopped; the replacement is half done" in document["failures"][0]["text"]
    assert all(old in _describe(client) for old, _ in pairs)


def test_signal_between_two_runs_of_a_slow_repair_is_reported(
    client, add_host, reinstall, migrate_json, monkeypatch, end_leaps
):
    """Ctrl-C while the rate lets nothing be written ends the command with its report, not without."""
    add_host("good")
    pairs = [reinstall(name) for name in ("h1", "h2")]
    run_job = runner.run_job

    def interrupt_later(client, job, execution):
        run = run_job(client, job, execution)
        end_leaps()
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        return run

    monkeypatch.setattr(runner, "run_job", interrupt_later)
    document, status = migrate_json("providers", "--repair", "--throttle", "0.2")
    assert (status, document["not_tried"], len(document["runs"])) == (130, 1, 1)
    assert "it was stopped; the replacement is half done" in document["failures"][0]["text"]
    assert all(old in _describe(client) for old, _ in pairs)


def test_last_run_of_a_slow_repair_ends_the_command(
    client, add_host, reinstall, migrate, monkeypatch, end_leaps
):
    """Nothing is written after it, so nothing has to wait."""
    add_host("good")
    reinstall("h1")
    run_job, ends = runner.run_job, []

    def note_end(client, job, execution):
        run = run_job(client, job, execution)
        ends.append(time.monotonic())
        if len(ends) == 3:
            end_leaps()
        return run

    monkeypatch.setattr(runner, "run_job", note_end)
    assert migrate("providers", "--repair", "--throttle", "0.4").returncode == 0
    assert (len(ends), time.monotonic() - ends[-1] < 2) == (3, True)


def test_nova_compute_that_was_faster_stops_only_its_host(client, add_host, reinstall, migrate, monkeypatch):
    """A conflict about the name of one host, found while it is written, is no reason to leave the others."""
    add_host("good")
    pairs = {name: reinstall(name) for name in ("h1", "h2")}
    create = type(client).create_provider

    def refuse(self, name, *arguments, **options):
        if name == "h1":
            raise Conflict(409, "Conflicting resource provider name: h1 already exists.")
        return create(self, name, *arguments, **options)

    monkeypatch.setattr(type(client), "create_provider", refuse)
    done = migrate("providers", "--repair")
    assert done.returncode == 3
    assert "provider h1 was not replaced: " in done.stdout
    assert [old in _describe(client) for old, _ in pairs.values()] == [True, False]


def test_failure_of_all_tells_how_many_were_not_tried(client, add_host, reinstall, migrate_json, monkeypatch):
    """A server that fails would fail for the next host as well."""
    add_host("good")
    for name in ("h1", "h2", "h3"):
        reinstall(name)
    reshape = type(client).reshape

    def fail(self, payload, *arguments):
        if payload["inventories"]:
            raise ServerError(503, "Service Unavailable")
        return reshape(self, payload, *arguments)

    monkeypatch.setattr(type(client), "reshape", fail)
    document, status = migrate_json("providers", "--repair")
    assert (status, document["not_tried"], len(document["failures"])) == (3, 2, 1)
    assert document["halted"].startswith("stopped: ")
    assert "half done" in document["failures"][0]["text"]
    assert "which is not known" in document["failures"][0]["text"]


def test_resume_does_not_double_a_claim(cloud, client, add_host, reinstall, migrate, monkeypatch):
    """An instance that got its claim on the right provider meanwhile is refused in one line."""
    add_host("good")
    old, new = reinstall("h1")
    client.update_provider(old, "h1.example.org")
    client.create_provider("h1", uuid=new)
    give(client, new, SIZES, TRAITS, [AGGREGATE])
    instance = cloud.add_instance("h1")
    hold(client, instance, {old: CLAIM})
    reshape = type(client).reshape

    def fail(self, payload, *arguments):
        if payload["inventories"]:
            raise ServerError(503, "Service Unavailable")
        return reshape(self, payload, *arguments)

    monkeypatch.setattr(type(client), "reshape", fail)
    assert migrate("providers", "--repair").returncode == 3
    monkeypatch.setattr(type(client), "reshape", reshape)
    client.delete_allocations(instance)
    hold(client, instance, {old: CLAIM, new: CLAIM})
    done = migrate("run", "resume", "--yes", "--last")
    assert (done.returncode, done.stdout) == (1, "")
    named, line = done.stderr.splitlines()
    assert named.startswith("Last run: ")
    classes = " ".join(f"--resource-class {name}" for name in sorted(CLAIM))
    assert f"Consumer {instance} got {', '.join(sorted(CLAIM))} of h1 meanwhile" in line
    assert line.endswith(f"allocation unset --provider {old} {classes} {instance}")
    assert held_by(client, instance) == {old: CLAIM, new: CLAIM}


def test_repair_of_a_provider_with_its_own_inventories_is_undone(
    cloud, client, add_host, reinstall, migrate, migrate_json
):
    """The reshape left the inventories of the right provider alone; its undo gives the claims back."""
    add_host("good")
    old, new = reinstall("h1")
    client.update_provider(old, "h1.example.org")
    client.create_provider("h1", uuid=new)
    give(client, new, {**SIZES, "VCPU": Inventory(32)}, TRAITS, [AGGREGATE])
    instance = cloud.add_instance("h1")
    hold(client, instance, {old: CLAIM})
    before = _describe(client), all_held(client)
    document, _ = migrate_json("providers", "--repair")
    assert held_by(client, instance) == {new: CLAIM}
    for run in reversed(document["runs"]):
        done = migrate("run", "undo", "--yes", run)
        assert done.returncode == 0, done
    assert (_describe(client), all_held(client)) == before


def test_nothing_to_repair_is_said(add_host, migrate):
    """A repair without a provider to replace has a line that says so."""
    add_host("good")
    for arguments in (["--repair"], ["--delete"]):
        done = migrate("providers", *arguments)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Nothing was changed")
        assert done.stderr == ""
