# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate audit`, beside the real `nova-manage placement audit`."""

import pytest

from osc_placement.model import Inventory
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import FOUND_BY_NOVA, PROJECT, TRACES, tell_time
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, all_held, give, held_by, hold

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

STATUS = "COMPUTE_STATUS_DISABLED"
#: instances that hold something of h1, by what nova has of them: the columns, whether `nova-manage` names
#: them, and what ours does: names them ("stuck"), removes what they hold ("orphaned"), or neither ("live")
OLD = dict.fromkeys(("created_at", "updated_at"), tell_time(ago=2 * 3600))
STATES = {
    "active": ({"host": "h1"}, False, "live"),
    "in a task": ({"host": "h1", "task_state": "rebooting", **OLD}, False, "live"),
    "in error": ({"host": "h1", "vm_state": "error", **OLD}, False, "live"),
    "paused": ({"host": "h1", "vm_state": "paused"}, False, "live"),
    "suspended": ({"host": "h1", "vm_state": "suspended"}, False, "live"),
    "stopped": ({"host": "h1", "vm_state": "stopped"}, False, "live"),
    "rescued": ({"host": "h1", "vm_state": "rescued"}, False, "live"),
    "resized": ({"host": "h1", "vm_state": "resized"}, False, "live"),
    "shelved": ({"host": "h1", "vm_state": "shelved"}, False, "live"),
    "soft-deleted": ({"host": "h1", "vm_state": "soft-delete"}, False, "live"),
    "being spawned": ({"host": "h1", "vm_state": "building", "task_state": "spawning"}, False, "live"),
    "being unshelved on its host": (
        {"host": "h1", "vm_state": "shelved_offloaded", "task_state": "spawning"},
        False,
        "live",
    ),
    # what nova's resource tracker does not count any more
    "being offloaded": ({"host": "h1", "vm_state": "shelved_offloaded"}, False, "orphaned"),
    "being scheduled": ({"vm_state": "building", "task_state": "scheduling"}, True, "live"),
    "taken up by nova-compute": ({"vm_state": "building"}, True, "live"),
    "being unshelved": ({"vm_state": "shelved_offloaded", "task_state": "unshelving"}, True, "live"),
    "in error and a task": ({"vm_state": "error", "task_state": "deleting"}, True, "live"),
    "scheduled long ago": ({"vm_state": "building", "task_state": "scheduling", **OLD}, True, "stuck"),
    "taken up long ago": ({"vm_state": "building", **OLD}, True, "stuck"),
    "unshelved long ago": (
        {"vm_state": "shelved_offloaded", "task_state": "unshelving", **OLD},
        True,
        "stuck",
    ),
    "deleted long ago": ({"vm_state": "error", "task_state": "deleting", **OLD}, True, "stuck"),
    "in no state": ({"vm_state": None, **OLD}, True, "stuck"),
    "in error on no host": ({"vm_state": "error"}, True, "orphaned"),
    "offloaded": ({"vm_state": "shelved_offloaded"}, True, "orphaned"),
    "active on no host": ({"vm_state": "active"}, True, "orphaned"),
    "buried": ({"vm_state": "error", "cell": "cell0"}, True, "orphaned"),
    "deleted": ({"host": "h1", "deleted": 7}, True, "orphaned"),
}


@pytest.fixture
def orphaned(cloud, client, add_host):
    """A cloud with an instance in order, a consumer that nova has lost, and an instance held twice."""
    h1, h2 = add_host("h1"), add_host("h2", "cell2")
    made = {"h1": h1, "h2": h2, "good": cloud.add_instance("h1"), "lost": new_uuid()}
    made["double"] = cloud.add_instance("h1")
    hold(client, made["good"], {h1: CLAIM})
    hold(client, made["lost"], {h2: CLAIM})
    hold(client, made["double"], {h1: CLAIM, h2: CLAIM})
    return made


def test_audit_finds_what_nova_manage_finds(orphaned, client, migrate, migrate_json, nova_conf):
    """The orphans are the same, and after our removal theirs finds none."""
    document, status = migrate_json("audit")
    assert {row["uuid"] for row in document["rows"]} == {orphaned["lost"], orphaned["double"]}
    assert status == 3
    theirs = nova.manage(nova_conf, "placement", "audit", "--verbose")
    assert theirs.returncode == 3
    assert all(orphaned[name] in theirs.stdout for name in ("lost", "double"))
    assert orphaned["good"] not in theirs.stdout
    assert held_by(client, orphaned["lost"])
    assert migrate("audit", "--delete").returncode == 0
    assert nova.manage(nova_conf, "placement", "audit").returncode == 0
    assert held_by(client, orphaned["lost"]) == {}
    assert held_by(client, orphaned["double"]) == {orphaned["h1"]: CLAIM}
    assert held_by(client, orphaned["good"]) == {orphaned["h1"]: CLAIM}


@pytest.fixture
def in_states(cloud, client, add_host):
    """Instances in every state, each with allocations of h1; their UUIDs by state."""
    node = add_host("h1")
    made = {state: cloud.add_instance(**columns) for state, (columns, _, _) in STATES.items()}
    for uuid in made.values():
        hold(client, uuid, {node: CLAIM})
    return made


def test_every_state_of_an_instance_is_judged(in_states, client, migrate, migrate_json, nova_conf):
    """Claims of instances on no host are found as nova-manage finds them; those that may live are kept."""
    theirs = nova.manage(nova_conf, "placement", "audit", "--verbose").stdout
    named = {state for state, uuid in in_states.items() if uuid in theirs}
    assert named == {state for state, (_, is_named, _) in STATES.items() if is_named}
    document, status = migrate_json("audit")
    orphaned = {row["uuid"] for row in document["rows"]}
    stuck = {each["subject"] for each in document["findings"] if each["reason"] == "stuck"}
    verdicts = {
        state: "orphaned" if uuid in orphaned else "stuck" if f"instance {uuid}" in stuck else "live"
        for state, uuid in in_states.items()
    }
    assert verdicts == {state: verdict for state, (_, _, verdict) in STATES.items()}
    assert status == 3
    assert migrate("audit", "--delete", "--max-removals", "50").returncode == 3
    assert {state for state, uuid in in_states.items() if not held_by(client, uuid)} == {
        state for state, verdict in verdicts.items() if verdict == "orphaned"
    }


@pytest.mark.parametrize("columns", [{"host": "h2", "node": "h2"}, {"vm_state": "building"}])
def test_instance_of_two_cells_is_judged_by_both(cloud, client, add_host, migrate, columns):
    """A row that is left in one cell says nothing while the other cell has the instance."""
    add_host("h1")
    node = add_host("h2", "cell2")
    uuid = cloud.add_instance(vm_state="error")
    cloud.insert("cell2", "instances", uuid=uuid, deleted=0, hidden=False, **columns)
    hold(client, uuid, {node: CLAIM})
    migrate("audit", "--delete")
    assert held_by(client, uuid) == {node: CLAIM}


@pytest.mark.parametrize(("days", "stuck_after"), [(0, 600), (0, 10_000), (20, 3e6), (20, 1e300)])
def test_build_request_that_nova_left_is_named(
    cloud, client, add_host, migrate, migrate_json, days, stuck_after
):
    """It has no instance in any cell, and holds what the scheduler claimed for it."""
    node, uuid = add_host("h1"), new_uuid()
    requested, is_stuck = tell_time(ago=7200 + days * 86400), stuck_after == 600
    cloud.insert("api", "build_requests", instance_uuid=uuid, project_id=PROJECT, created_at=requested)
    hold(client, uuid, {node: CLAIM})
    document, status = migrate_json("audit", *(() if is_stuck else ("--stuck-after", str(stuck_after))))
    texts = [each["text"] for each in document["findings"]]
    assert [text.partition(",")[0] for text in texts] == ["it is requested and on no host"] * is_stuck
    assert status == (3 if is_stuck else 0)
    migrate("audit", "--delete")
    assert held_by(client, uuid) == {node: CLAIM}


@pytest.mark.parametrize("command", ["audit", "status"])
@pytest.mark.parametrize("kind", TRACES)
def test_instance_that_nova_stopped_building_is_named(
    cloud, client, add_host, migrate, migrate_json, nova_conf, kind, command
):
    """It holds what the scheduler claimed, as `nova-manage` says too; the line has what takes that away."""
    node = add_host("h1")
    hold(client, good := cloud.add_instance("h1"), {node: CLAIM})
    hold(client, recent := cloud.add_traces(kind, ago=60), {node: CLAIM})
    document, status = migrate_json(command)
    assert (document["findings"], status) == ([], 0)
    hold(client, late := cloud.add_traces(kind, ago=7200), {node: CLAIM})
    theirs = nova.manage(nova_conf, "placement", "audit", "--verbose").stdout
    assert all(uuid in theirs for uuid in (recent, late))
    document, status = migrate_json(command)
    ((subject, text),) = [(each["subject"], each["text"]) for each in document["findings"]]
    assert (subject.partition(" ")[2], status) == (late, 3)
    assert "resources of h1" in text
    commands = [f"openstack server delete {late}", f"openstack resource provider allocation delete {late}"]
    is_found = kind in FOUND_BY_NOVA
    assert [each in text for each in commands] == [is_found, not is_found]
    assert migrate("audit", "--delete").returncode == 3
    assert all_held(client) == {uuid: {node: CLAIM} for uuid in (good, recent, late)}


@pytest.mark.parametrize("is_disabled", [True, False])
@pytest.mark.parametrize("has_trait", [True, False])
def test_state_of_a_service_and_its_trait_are_compared(
    cloud, client, add_host, migrate_json, is_disabled, has_trait
):
    """The scheduler sees the trait only, and operators the state only."""
    give(client, add_host("h1"), SIZES, [STATUS] if has_trait else [])
    cloud.update("cell1", "UPDATE services SET disabled = :disabled", disabled=is_disabled)
    document, status = migrate_json("audit")
    found = [(each["subject"], each["reason"]) for each in document["findings"]]
    is_wrong = is_disabled is not has_trait
    assert (found, status) == ([("node h1", "state of the service")] * is_wrong, 3 if is_wrong else 0)
    if is_wrong:
        state, verb = ("disabled", "lacks") if is_disabled else ("enabled", "has")
        assert f"host h1 is {state}, and the provider {verb} {STATUS}" in document["findings"][0]["text"]


def test_service_from_before_the_trait_is_not_compared(cloud, add_host, migrate_json):
    """Until Train nova-compute did not report that it is disabled."""
    add_host("h1")
    cloud.update("cell1", "UPDATE services SET disabled = 1, version = 37")
    assert migrate_json("audit")[1] == 0


def test_removal_can_be_undone(orphaned, client, migrate, migrate_json):
    """What was removed is put back from the journal."""
    document, _ = migrate_json("audit", "--delete")
    assert migrate("run", "undo", "--yes", document["run"]).returncode == 0
    assert held_by(client, orphaned["lost"]) == {orphaned["h2"]: CLAIM}
    assert client.list_allocations(orphaned["lost"])["project_id"] == PROJECT
    assert held_by(client, orphaned["double"]) == {orphaned["h1"]: CLAIM, orphaned["h2"]: CLAIM}


def test_removal_can_be_narrowed_to_a_provider(orphaned, client, migrate):
    """Only what is held of the provider named is removed."""
    assert migrate("audit", "--delete", "--resource-provider", "h1").returncode == 0
    assert held_by(client, orphaned["lost"])
    assert migrate("audit", "--delete", "--resource-provider", "h2").returncode == 0
    assert not held_by(client, orphaned["lost"])


def test_partial_removal_keeps_a_consumer_untyped(cloud, client, add_host, migrate):
    """What is left of it stays without a type, which nobody may give it but nova."""
    first, second = add_host("h1"), add_host("h2")
    orphan = new_uuid()
    hold(client, orphan, {first: CLAIM, second: CLAIM}, consumer_type=None)
    assert migrate("audit", "--delete", "--resource-provider", second).returncode == 0
    assert held_by(client, orphan) == {first: CLAIM}
    assert client.list_allocations(orphan)["consumer_type"] == "unknown"


def test_unreadable_cell_prevents_every_removal(orphaned, cloud, client, migrate):
    """While a cell cannot be read nothing is removed, whosever it is."""
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    done = migrate("audit", "--delete")
    assert done.returncode == 4
    assert "cell cell2: there is no file /no/x" in done.stdout
    assert held_by(client, orphaned["lost"]) == {orphaned["h2"]: CLAIM}
    assert len(held_by(client, orphaned["double"])) == 2


@pytest.fixture
def legitimate(cloud, client, add_host):
    """All who hold something by right although no instance of that UUID is on that host."""
    h1, h2 = add_host("h1"), add_host("h2")
    shared = new_uuid()
    client.create_provider("ceph", uuid=shared)
    give(client, shared, {"DISK_GB": Inventory(5000)}, ["MISC_SHARES_VIA_AGGREGATE"], [shared])
    give(client, h2, SIZES, aggregates=[shared])
    sizes = {"VCPU": 2, "MEMORY_MB": 2048}
    soft_deleted = cloud.add_instance("h2", vm_state="soft-delete")
    hold(client, soft_deleted, {h2: sizes, shared: {"DISK_GB": 20}})
    moved = cloud.add_instance("h1")
    hold(client, moved, {h2: CLAIM})
    migration = cloud.add_migration(moved, "h1", "h2", status="running")
    hold(client, migration, {h1: CLAIM}, consumer_type="MIGRATION")
    building, unscheduled = new_uuid(), cloud.add_instance(None, vm_state="building")
    cloud.insert("api", "build_requests", instance_uuid=building, project_id=PROJECT)
    volume = new_uuid()
    hold(client, building, {h1: CLAIM})
    hold(client, unscheduled, {h1: CLAIM})
    hold(client, volume, {h1: {"DISK_GB": 1}}, consumer_type="VOLUME")
    return (soft_deleted, moved, migration, building, unscheduled, volume)


def test_legitimate_consumers_are_no_orphans(legitimate, client, migrate):
    """Shared disk, moves, soft-deleted and new instances, and other services are no orphans."""
    before = {uuid: held_by(client, uuid) for uuid in legitimate}
    done = migrate("audit", "--delete")
    assert (done.returncode, "orphaned allocations: nothing to do" in done.stdout) == (0, True)
    assert {uuid: held_by(client, uuid) for uuid in legitimate} == before


def test_consumer_of_a_finished_move_is_an_orphan(cloud, client, add_host, migrate_json):
    """What a migration that is over still holds is found."""
    h1 = add_host("h1")
    add_host("h2")
    instance = cloud.add_instance("h2")
    migration = cloud.add_migration(instance, "h1", "h2", status="completed")
    hold(client, migration, {h1: CLAIM}, consumer_type="MIGRATION")
    document, _ = migrate_json("audit")
    assert [row["uuid"] for row in document["rows"]] == [migration]
    assert [finding["reason"] for finding in document["findings"]] == ["no allocations"]


def test_unmatched_providers_and_nodes_are_reported(cloud, client, add_host, migrate_json):
    """A provider without node, a node without provider, and a host that was installed anew."""
    add_host("h1")
    cloud.add_host("new")
    cloud.add_host("again")
    for name in ("again", "gone"):
        give(client, client.create_provider(name)["uuid"], SIZES)
    document, status = migrate_json("audit")
    found = {(finding["subject"], finding["reason"]) for finding in document["findings"]}
    assert found == {
        ("node new", "no resource provider"),
        ("node again", "duplicate provider"),
        ("provider again", "no compute node"),
        ("provider gone", "no compute node"),
    }
    assert status == 3


@pytest.mark.parametrize(
    ("arguments", "status"), [((), 3), (("--delete",), 4), (("--delete", "--dry-run"), 3)]
)
def test_exit_codes_of_nova_manage(orphaned, migrate, arguments, status):
    """With --nova-exit-codes: 3 orphans found, 4 all removed, 0 none there."""
    assert migrate("audit", *arguments, "--nova-exit-codes").returncode == status
    if status == 4:
        assert migrate("audit", "--nova-exit-codes").returncode == 0


def test_shards_together_report_every_orphan_once(cloud, client, add_host, migrate_json):
    """Each orphan and each finding is in one part, and a part removes its own and no more."""
    node = add_host("h1")
    orphans = {new_uuid() for _ in range(12)}
    for uuid in orphans:
        hold(client, uuid, {node: CLAIM})
    missing = {cloud.add_instance("h1") for _ in range(12)}
    right = cloud.add_instance("h1")
    hold(client, right, {node: CLAIM})
    parts = [migrate_json("audit", "--shard", f"{number}/2")[0] for number in (1, 2)]
    found = [[row["uuid"] for row in part["rows"]] for part in parts]
    assert all(found)
    assert sorted(found[0] + found[1]) == sorted(orphans)
    told = [
        [
            row["subject"].removeprefix("instance ")
            for row in part["findings"]
            if row["reason"] != "too many removals"
        ]
        for part in parts
    ]
    assert all(told)
    assert sorted(told[0] + told[1]) == sorted(missing)
    document, _ = migrate_json("audit", "--delete", "--max-removals", "12", "--shard", "1/2")
    assert [row["uuid"] for row in document["rows"]] == found[0]
    assert {uuid for uuid in orphans if held_by(client, uuid)} == set(found[1])
    assert held_by(client, right) == {node: CLAIM}


def test_unreadable_cell_prevents_removals_in_every_shard(orphaned, cloud, client, migrate):
    """No part removes anything while a cell cannot be read."""
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    for number in (1, 2):
        done = migrate("audit", "--delete", "--shard", f"{number}/2")
        assert (done.returncode, "cell cell2: there is no file" in done.stdout) == (4, True)
    assert held_by(client, orphaned["lost"]) == {orphaned["h2"]: CLAIM}


@pytest.fixture
def empty_nova(orphaned, cloud):
    """A nova that is not that of this placement: it has no cell but cell0."""
    cloud.update("api", "DELETE FROM host_mappings")
    cloud.update("api", "DELETE FROM instance_mappings")
    cloud.update("api", "DELETE FROM cell_mappings WHERE name <> 'cell0'")
    return cloud


DOUBT = "nova: it has no compute node (cells: none but cell0), and placement has 2 providers of CPUs and 3 "


def test_nova_without_hosts_prevents_every_removal(orphaned, empty_nova, client, migrate):
    """Where nova has no compute node at all nobody is an orphan; one line says which databases to check."""
    for options, status in (((), 4), (("--nova-exit-codes",), 1)):
        done = migrate("audit", "--delete", *options)
        assert done.returncode == status
        assert done.stdout.splitlines()[0].startswith(f"Left alone: {DOUBT}consumers; check where [api_data")
        assert done.stdout.splitlines()[0].endswith(". No allocation was removed.")
        assert done.stdout.splitlines()[1:] == ["orphaned allocations: 1 left alone"]
    assert held_by(client, orphaned["good"]) == {orphaned["h1"]: CLAIM}
    assert held_by(client, orphaned["lost"]) == {orphaned["h2"]: CLAIM}


def test_nova_without_hosts_is_not_ready(empty_nova, migrate, migrate_json):
    """Nobody can say that every instance holds its allocations, where there are none to look at."""
    document, status = migrate_json("status")
    assert (document["ready"], status) == (False, 4)
    done = migrate("heal-allocations")
    assert (done.returncode, f"Left alone: {DOUBT}" in done.stdout) == (4, True)
    assert migrate("online_data_migrations").returncode == 2


def test_empty_nova_and_empty_placement_are_ready(client, migrate_json):
    """Neither nova nor placement has anything, so nothing is missing."""
    assert migrate_json("status")[1] == 0
    assert migrate_json("audit")[1] == 0


def test_unknown_provider_is_a_one_line_error(orphaned, migrate):
    """A provider that placement does not have is a mistake of the command line."""
    done = migrate("audit", "--resource-provider", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "placement-migrate: Placement has no resource provider nobody\n"
