# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate decommission`: what holds a host, in order, and the deletion of what is left."""

import os
import subprocess
import sys

import pytest

from osc_placement.errors import PlacementError
from osc_placement.migrate import runner
from osc_placement.migrate.migrations import decommission
from osc_placement.model import Inventory
from tests.functional.migrate import nova_serving
from tests.functional.migrate.cloud import PROJECT, tell_time
from tests.functional.migrate.nova_databases import find_nova, new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, all_held, give, hold

# what differs between databases is tested with the source, and by few tests here
pytestmark = pytest.mark.nova_on("sqlite")

ORDER = [
    "disable the service",
    "wait for moves",
    "move instances",
    "remove allocations",
    "remove nested providers",
    "leave host aggregates",
    "delete the service",
    "delete the host mapping",
]


@pytest.fixture
def retire(cloud):
    """A function that deletes the service, compute nodes and mapping of a host, as nova's API does."""

    def delete(host, cell="cell1"):
        cloud.update(cell, "UPDATE services SET deleted = id WHERE host = :host", host=host)
        cloud.update(cell, "UPDATE compute_nodes SET deleted = id WHERE host = :host", host=host)
        cloud.update("api", "DELETE FROM host_mappings WHERE host = :host", host=host)

    return delete


@pytest.fixture
def holds(migrate_json):
    """A function that returns the steps of a host with their subjects, and the exit status."""

    def read(host, *arguments):
        document, status = migrate_json("decommission", host, *arguments)
        found = {}
        for hold_ in document["holds"]:
            found.setdefault(hold_["step"], []).append(hold_["subject"])
        return found, status

    return read


@pytest.mark.parametrize("awaits", [False, True])
def test_move_that_nova_does_not_end_keeps_the_service(cloud, add_host, migrate_json, awaits):
    """As nova deletes none meanwhile; between cells, the other one knows whether it awaits a confirmation."""
    add_host("h1")
    add_host("h2")
    instance = cloud.add_instance("h2")
    move = cloud.add_migration(instance, "h1", "h2", status="post-migrating", ago=3600)
    if awaits:
        cloud.add_migration(instance, "h1", "h2", "cell2", status="finished")
        cloud.update("cell2", "UPDATE migrations SET uuid = :uuid", uuid=move)
    document, _ = migrate_json("decommission", "h1")
    held, *_ = [hold for hold in document["holds"] if hold["step"] == "wait for moves"]
    (service,) = [hold for hold in document["holds"] if hold["step"] == "delete the service"]
    assert (held["subject"], service["command"]) == (f"instance {instance}", "")
    advice = "its owner has to confirm" if awaits else f"'error' WHERE uuid = '{move}'"
    assert advice in held["text"]


def names_of(client):
    """Return the names of all providers."""
    return {record.provider.name for record in client.read_providers(want=())}


@pytest.mark.nova_on("sqlite", "mariadb")
def test_everything_that_holds_a_host_is_named_in_order(cloud, client, add_host, holds):
    """Instances in every state, moves, allocations of others, children, aggregates, service and mapping."""
    good, node = add_host("good"), add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    client.create_provider("h1:Open vSwitch agent", uuid=(child := new_uuid()), parent=node)
    states = ("active", "building", "stopped", "resized", "shelved", "soft-delete", "error")
    on = {state: cloud.add_instance("h1", vm_state=state) for state in states}
    for uuid in on.values():
        hold(client, uuid, {node: CLAIM})
    bare = cloud.add_instance("h1")
    moving = cloud.add_instance("good", vm_state="resized")
    hold(client, moving, {good: CLAIM})
    migration = cloud.add_migration(moving, "h1", "good", status="finished")
    hold(client, migration, {node: CLAIM}, consumer_type="MIGRATION")
    evacuated, unknown, deleted = cloud.add_instance("good"), new_uuid(), cloud.add_instance("h1", deleted=9)
    cloud.add_migration(evacuated, "h1", "good", status="done")
    hold(client, evacuated, {good: CLAIM, node: CLAIM})
    for uuid in (unknown, deleted):
        hold(client, uuid, {node: CLAIM})
    found, status = holds("h1", "--delete")
    assert (status, list(found)) == (3, ORDER)
    assert found["wait for moves"] == [f"instance {moving}"]
    assert set(found["move instances"]) == {f"instance {uuid}" for uuid in (*on.values(), bare)}
    assert set(found["remove allocations"]) == {f"consumer {uuid}" for uuid in (evacuated, unknown, deleted)}
    assert found["remove nested providers"] == ["provider h1:Open vSwitch agent"]
    assert found["leave host aggregates"] == ["host aggregate rack1"]
    assert {"h1", "good", "h1:Open vSwitch agent"} == names_of(client)
    assert child in {record.provider.uuid for record in client.read_providers(want=())}


@pytest.mark.parametrize("state", ["build request", "hidden"])
def test_no_command_takes_what_a_live_consumer_holds(cloud, client, add_host, migrate_json, state):
    """A consumer that is being built or moved between cells is in no list, and its claim is no leak."""
    add_host("good")
    node = add_host("h1")
    if state == "hidden":
        consumer = cloud.add_instance("good", hidden=True)
    else:
        consumer = new_uuid()
        cloud.insert("api", "build_requests", instance_uuid=consumer, project_id=PROJECT)
    hold(client, consumer, {node: CLAIM})
    document, _ = migrate_json("decommission", "h1")
    (found,) = [each for each in document["holds"] if each["subject"] == f"consumer {consumer}"]
    assert (found["step"], found["command"]) == ("remove allocations", "")


def test_disabled_service_is_no_hold(cloud, add_host, holds):
    """It has to be deleted, and not to be disabled again."""
    add_host("good")
    add_host("h1")
    cloud.update("cell1", "UPDATE services SET disabled = 1 WHERE host = 'h1'")
    assert list(holds("h1")[0]) == ["delete the service", "delete the host mapping"]


def test_providers_are_deleted_when_nothing_holds_the_host(
    client, add_host, retire, migrate, migrate_json, holds
):
    """What is left is deleted with what is nested in it; the undo restores it."""
    add_host("good")
    node = add_host("h1")
    client.create_provider("h1_pci", uuid=(child := new_uuid()), parent=node)
    give(client, child, {}, ["OWNER_NOVA"])
    retire("h1")
    assert holds("h1") == ({}, 3)
    assert migrate("decommission", "h1", "--delete", "--dry-run").returncode == 0
    assert names_of(client) == {"good", "h1", "h1_pci"}
    document, status = migrate_json("decommission", "h1", "--delete")
    assert (status, names_of(client)) == (0, {"good"})
    done = migrate("decommission", "h1")
    assert (done.returncode, done.stdout) == (0, "Nothing is left of host h1\n")
    assert migrate("run", "undo", "--yes", document["runs"][0]).returncode == 0
    assert names_of(client) == {"good", "h1", "h1_pci"}


@pytest.mark.parametrize("holder", ["instance", "consumer", "move", "aggregate", "mapping"])
def test_one_hold_is_enough_to_delete_nothing(cloud, client, add_host, retire, migrate, holder):
    """While anything holds the host its provider stays, and so does every claim."""
    good, node = add_host("good"), add_host("h1")
    retire("h1")
    if holder == "instance":
        cloud.add_instance("h1", vm_state="soft-delete")
    elif holder == "consumer":
        hold(client, new_uuid(), {node: CLAIM})
    elif holder == "move":
        moving = cloud.add_instance("good")
        hold(client, moving, {good: CLAIM})
        cloud.add_migration(moving, "good", "h1", status="running")
    elif holder == "aggregate":
        cloud.add_aggregate("rack1", ["h1"])
    else:
        cloud.insert("api", "host_mappings", host="h1", cell_id=2)
    before = all_held(client)
    done = migrate("decommission", "h1", "--delete")
    assert (done.returncode, "Host h1 is still held" in done.stdout) == (3, True)
    assert (names_of(client), all_held(client)) == ({"good", "h1"}, before)


def test_claim_that_is_made_meanwhile_keeps_the_provider(client, add_host, retire, migrate, monkeypatch):
    """The server refuses the deletion of what an instance got after the comparison."""
    add_host("good")
    node = add_host("h1")
    retire("h1")
    late = new_uuid()
    delete = type(client).delete_provider

    def claim_first(self, uuid):
        hold(client, late, {node: CLAIM})
        return delete(self, uuid)

    monkeypatch.setattr(type(client), "delete_provider", claim_first)
    assert migrate("decommission", "h1", "--delete").returncode == 3
    monkeypatch.undo()
    assert (names_of(client), all_held(client)) == ({"good", "h1"}, {late: {node: CLAIM}})


def test_unreadable_cell_keeps_the_provider(cloud, client, add_host, retire, migrate):
    """An instance may be where nova cannot be read, so nothing is deleted and the status is 4."""
    add_host("good")
    add_host("h1")
    retire("h1")
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    done = migrate("decommission", "h1", "--delete")
    assert (done.returncode, "cell cell2: there is no file /no/x" in done.stdout) == (4, True)
    assert names_of(client) == {"good", "h1"}


def test_nothing_is_advised_while_anything_is_unknown(cloud, client, add_host, migrate_json, migrate):
    """Whoever holds something may be where nova cannot be read, so no line has a command."""
    node = add_host("h1")
    add_host("good")
    live = cloud.add_instance("h2", "cell2")
    for consumer in (live, cloud.add_instance("h1")):
        hold(client, consumer, {node: CLAIM})
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    document, status = migrate_json("decommission", "h1")
    (claim,) = [each for each in document["holds"] if each["subject"] == f"consumer {live}"]
    assert (status, {each["command"] for each in document["holds"]}) == (4, {""})
    assert "whether nova has it is unknown" in claim["text"]
    assert "unset" not in migrate("decommission", "h1").stdout


@pytest.mark.parametrize("reason", ["disabled cell", "bare metal"])
def test_host_that_is_left_alone_has_no_commands(cloud, add_host, migrate_json, reason):
    """What a host of a disabled cell or of Ironic has is shown, and nothing is advised."""
    add_host("good")
    add_host("h2", "cell2", **({"hypervisor_type": "ironic"} if reason == "bare metal" else {}))
    cloud.add_instance("h2", "cell2")
    if reason == "disabled cell":
        cloud.update("api", "UPDATE cell_mappings SET disabled = 1 WHERE name = 'cell2'")
    document, status = migrate_json("decommission", "h2")
    assert (status, bool(document["findings"]), bool(document["holds"])) == (3, True, True)
    assert {each["command"] for each in document["holds"]} == {""}


@pytest.mark.parametrize("is_up", [True, False])
@pytest.mark.parametrize("holder", ["ended migration", "deleted instance", "moved instance", "reservation"])
def test_claims_that_the_audit_removes_have_a_command(cloud, client, add_host, migrate_json, holder, is_up):
    """It frees a host that is down, and removes orphans from one that is up; other services keep theirs."""
    good, node = add_host("good"), add_host("h1")
    if not is_up:
        cloud.stop("h1")
    kind, claims = "INSTANCE", {node: CLAIM}
    if holder == "ended migration":
        consumer = cloud.add_migration(cloud.add_instance("good"), "h1", "good", status="error")
        kind = "MIGRATION"
    elif holder == "moved instance":
        consumer, claims = cloud.add_instance("good"), {good: CLAIM, node: CLAIM}
    elif holder == "deleted instance":
        consumer, kind = cloud.add_instance("good", deleted=7), None
    else:
        consumer, kind = new_uuid(), "RESERVATION"
    hold(client, consumer, claims, consumer_type=kind)
    document, _ = migrate_json("decommission", "h1")
    (found,) = [each for each in document["holds"] if each["subject"] == f"consumer {consumer}"]
    commands = {
        True: f"placement-migrate audit --delete --resource-provider {node}",
        False: "placement-migrate decommission h1 --free",
    }
    is_orphan = holder != "reservation"
    assert found["command"] == (commands[is_up] if is_orphan else "")
    assert [row["uuid"] for row in document["rows"]] == [consumer] * (is_orphan and not is_up)


@pytest.fixture
def dead(cloud, client, add_host):
    """A host that is down, with what evacuated, moved and ended consumers hold of it, and of another host."""
    good, node = add_host("good"), add_host("h1")
    client.create_provider("h1_pci", uuid=(child := new_uuid()), parent=node)
    give(client, child, {"FPGA": Inventory(8)}, ["OWNER_NOVA"])
    cloud.update("cell1", "UPDATE services SET disabled = 1 WHERE host = 'h1'")
    cloud.stop("h1")
    evacuated, moved = (cloud.add_instance("good") for _ in range(2))
    cloud.evacuate(evacuated, "h1", "good")
    hold(client, evacuated, {good: CLAIM, node: CLAIM, child: {"FPGA": 1}})
    hold(client, moved, {good: CLAIM, node: CLAIM})
    ended = cloud.add_migration(moved, "h1", "good", status="confirmed")
    hold(client, ended, {child: {"FPGA": 1}}, consumer_type="MIGRATION")
    buried = cloud.add_instance(vm_state="error")
    for uuid in (buried, new_uuid()):
        hold(client, uuid, {node: CLAIM})
    return {evacuated: {good: CLAIM}, moved: {good: CLAIM}}


@pytest.mark.parametrize("is_retired", [False, True])
def test_one_command_frees_a_dead_host_and_deletes_its_providers(
    dead, client, retire, migrate, migrate_json, is_retired
):
    """It shows what it will do, does it in two runs, and names what nova still has; both can be undone."""
    before = all_held(client)
    if is_retired:
        retire("h1")
        assert "and placement-migrate decommission h1 judges it" in migrate("audit").stdout
    shown, status = migrate_json("decommission", "h1", "--free", "--delete", "--dry-run")
    assert (status, all_held(client)) == (3, before)
    document, status = migrate_json("decommission", "h1", "--free", "--delete")
    assert (all_held(client), names_of(client)) == (dead, {"good"})
    assert [row["uuid"] for row in document["rows"]] == [row["uuid"] for row in shown["rows"]]
    commands = {each["step"]: each["command"] for each in document["holds"]}
    assert (status, list(commands)) == ((0, []) if is_retired else (3, ORDER[-2:]))
    assert commands.get("delete the service", "openstack compute ").startswith("openstack compute ")
    for run in reversed(document["runs"]):
        assert migrate("run", "undo", "--yes", run).returncode == 0
    assert (all_held(client), names_of(client)) == (before, {"good", "h1", "h1_pci"})


def test_service_of_a_freed_host_has_the_command_that_deletes_it(dead, client, migrate_json):
    """What evacuated instances held is gone, and the providers are left to nova or to --delete."""
    document, status = migrate_json("decommission", "h1")
    assert {each["command"] for each in document["holds"]} == {"placement-migrate decommission h1 --free", ""}
    evacuated = [each["text"] for each in document["holds"] if "its instance was evacuated" in each["text"]]
    assert len(evacuated) == 2
    assert all("nova has this instance on host good" in text for text in evacuated)
    document, status = migrate_json("decommission", "h1", "--free")
    assert (status, all_held(client), names_of(client)) == (3, dead, {"good", "h1", "h1_pci"})
    commands = [(each["step"], each["command"].partition(" $")[0]) for each in document["holds"]]
    assert commands == [
        ("delete the service", "openstack compute service delete"),
        ("delete the host mapping", ""),
    ]


@pytest.fixture
def run_shell(nova_conf, server_url, tmp_path):
    """A function that runs a command line of shell as it is, with nova's API and `nova-manage` at hand."""
    (tmp_path / ".nova").mkdir()
    (tmp_path / ".nova" / "nova.conf").symlink_to(nova_conf)
    programs = [os.path.dirname(sys.executable), str(find_nova()), os.defpath]
    with nova_serving.serving(nova_conf.parent) as url:
        environment = {
            "PATH": os.pathsep.join(programs),
            "HOME": str(tmp_path),
            "OS_AUTH_TYPE": "admin_token",
            "OS_TOKEN": "admin",
            "OS_ENDPOINT": server_url,
            "OS_COMPUTE_ENDPOINT_OVERRIDE": url,
        }

        def run(line):
            command = ["/bin/sh", "-c", line]
            done = subprocess.run(
                command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            # nova-manage ends with 0, --free with 3 as it names what is left
            assert done.returncode in (0, 3), done.stderr
            return done

        yield run


@pytest.mark.parametrize("holder", ["evacuated instance", "orphan"])
def test_host_is_gone_when_the_printed_commands_were_run(
    cloud, client, add_host, migrate, migrate_json, run_shell, holder
):
    """Each is run as it is printed: nova names aggregates otherwise than placement, some like numbers."""
    good, node = add_host("good"), add_host("h1")
    cloud.stop("h1")
    cloud.add_aggregate("other")
    cloud.add_aggregate("1", ["h1"])
    cloud.add_aggregate("rack 'b'", ["h1"])
    consumer, claims = new_uuid(), {node: CLAIM}
    expected = ["disable the service", "remove allocations", *["leave host aggregates"] * 2]
    expected += ["delete the service"]
    if holder == "evacuated instance":
        consumer, claims = cloud.add_instance("good"), {good: CLAIM, node: CLAIM}
        cloud.evacuate(consumer, "h1", "good")
        expected.remove("remove allocations")
    hold(client, consumer, claims)
    for step in expected:
        holds = migrate_json("decommission", "h1")[0]["holds"]
        with_command = [each for each in holds if each["command"]]
        assert step in [each["step"] for each in with_command][:2]
        run_shell(next(each["command"] for each in with_command if each["step"] == step))
    assert all_held(client) == ({consumer: {good: CLAIM}} if holder == "evacuated instance" else {})
    assert names_of(client) == {"good"}
    assert migrate("decommission", "h1").stdout == "Nothing is left of host h1\n"


def test_printed_command_deletes_the_host_mapping(cloud, add_host, migrate, migrate_json, run_shell):
    """The real `nova-manage` takes it as it is printed."""
    add_host("good")
    cloud.insert("api", "host_mappings", host="h1", cell_id=2)
    ((step, command),) = [
        (each["step"], each["command"]) for each in migrate_json("decommission", "h1")[0]["holds"]
    ]
    assert step == "delete the host mapping"
    run_shell(command)
    assert "Neither nova nor placement has a host h1" in migrate("decommission", "h1").stderr


@pytest.mark.parametrize("state", ["instance", "requested", "in a task", "moving", "reservation", "agent"])
def test_what_may_live_on_a_dead_host_is_kept(dead, cloud, client, add_host, migrate, state):
    """The orphans are removed, and the providers stay until the rest is gone."""
    add_host("third")
    nodes = {record.provider.name: record.provider.uuid for record in client.read_providers(want=())}
    kept, kind = None, "INSTANCE"
    if state == "instance":
        kept = cloud.add_instance("h1")
    elif state == "requested":
        cloud.insert("api", "build_requests", instance_uuid=(kept := new_uuid()), project_id=PROJECT)
    elif state == "in a task":
        kept = cloud.add_instance(vm_state="shelved_offloaded", task_state="unshelving")
    elif state == "moving":
        kept = cloud.add_instance("good")
        cloud.add_migration(kept, "good", "third", status="running")
    elif state == "reservation":
        kept, kind = new_uuid(), "RESERVATION"
    else:
        client.create_provider("agent", parent=nodes["h1"])
    if kept:
        hold(client, kept, {nodes["h1"]: CLAIM}, consumer_type=kind)
    done = migrate("decommission", "h1", "--free", "--delete")
    assert done.returncode == 3
    assert all_held(client) == dead | ({kept: {nodes["h1"]: CLAIM}} if kept else {})
    assert {"h1", "h1_pci"} < names_of(client)


def test_instance_of_a_reinstalled_host_keeps_its_old_provider(cloud, client, add_host, migrate):
    """It is on the host that is freed, and holds nothing else."""
    add_host("good")
    cloud.add_host("h1")
    client.create_provider("h1", uuid=(old := new_uuid()))
    give(client, old, SIZES, ["COMPUTE_NODE"])
    cloud.stop("h1")
    instance, orphan = cloud.add_instance("h1"), new_uuid()
    for uuid in (instance, orphan):
        hold(client, uuid, {old: CLAIM})
    assert migrate("decommission", "h1", "--free", "--delete").returncode == 3
    assert all_held(client) == {instance: {old: CLAIM}}


def test_host_that_is_up_is_not_freed(dead, cloud, client, migrate):
    """Its nova-compute may have the guests of instances that were evacuated."""
    before = all_held(client)
    cloud.update("cell1", "UPDATE services SET last_seen_up = :seen", seen=tell_time())
    done = migrate("decommission", "h1", "--free", "--delete")
    assert (done.returncode, done.stdout, all_held(client)) == (1, "", before)
    assert done.stderr.startswith(
        "placement-migrate: nothing was done: nova-compute of host h1 is up; stop it"
    )


@pytest.mark.parametrize(
    "options",
    ["servicegroup_driver = mc", "report_interval = 1500", f"service_down_time = {10**17}"],
)
def test_host_that_is_up_by_the_options_of_nova_is_not_freed(dead, client, migrate, nova_conf, options):
    """It was last seen an hour ago, which says nothing or is not long; if it is down, nova can be told."""
    before = all_held(client)
    nova_conf.write_text(f"{nova_conf.read_text()}[DEFAULT]\n{options}\n")
    done = migrate("decommission", "h1", "--free", "--delete")
    assert (done.returncode, done.stdout, all_held(client)) == (1, "", before)
    assert "openstack compute service set --down h1 nova-compute; " in done.stderr


def test_last_host_of_a_cell_is_freed(cloud, client, add_host, migrate):
    """Services of another cell say that time has passed since its nova-compute was seen."""
    node = add_host("h1")
    cloud.stop("h1")
    add_host("h2", "cell2")
    hold(client, new_uuid(), {node: CLAIM})
    assert migrate("decommission", "h1", "--free", "--delete").returncode == 3
    assert (all_held(client), names_of(client)) == ({}, {"h2"})


def test_unreadable_cell_keeps_every_claim_of_a_dead_host(dead, cloud, client, migrate):
    """An orphan may be an instance where nova cannot be read."""
    before = all_held(client)
    statement = "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    cloud.update("api", statement)
    assert migrate("decommission", "h1", "--free", "--delete").returncode == 4
    assert (all_held(client), names_of(client)) == (before, {"good", "h1", "h1_pci"})


def test_claim_that_is_made_while_a_host_is_freed_keeps_its_providers(dead, client, migrate, monkeypatch):
    """The host is looked at again after it is freed, and before its providers are deleted."""
    (late, node), run_job = (new_uuid(), next(iter(client.list_providers(name="h1")))["uuid"]), runner.run_job

    def claim_after(client_, job, *arguments):
        done = run_job(client_, job, *arguments)
        hold(client, late, {node: CLAIM}, consumer_type="RESERVATION")
        return done

    monkeypatch.setattr(runner, "run_job", claim_after)
    done = migrate("decommission", "h1", "--free", "--delete")
    assert (done.returncode, f"consumer {late}" in done.stdout) == (3, True)
    assert all_held(client) == dead | {late: {node: CLAIM}}


@pytest.mark.parametrize("is_stopped", [True, False])
def test_freed_host_keeps_its_providers_if_the_command_ends(
    dead, client, migrate, monkeypatch, retire, is_stopped
):
    """A signal ends it between the runs, and so does nova if it cannot be compared again."""
    retire("h1")
    run_job, assess = runner.run_job, decommission.assess

    def fail(*arguments, **settings):
        monkeypatch.setattr(decommission, "assess", assess)
        raise PlacementError("nova is away")

    def end_after(client_, job, execution):
        done = run_job(client_, job, execution)
        if is_stopped:
            execution.stop.set()
        else:
            monkeypatch.setattr(decommission, "assess", fail)
        return done

    monkeypatch.setattr(runner, "run_job", end_after)
    done = migrate("decommission", "h1", "--free", "--delete")
    assert (done.returncode, "stopped: nova is away" in done.stdout) == (
        130 if is_stopped else 3,
        not is_stopped,
    )
    assert (all_held(client), names_of(client)) == (dead, {"good", "h1", "h1_pci"})
    monkeypatch.setattr(runner, "run_job", run_job)
    assert migrate("decommission", "h1", "--delete").returncode == 0
    assert names_of(client) == {"good"}


def test_dead_host_advises_evacuation(cloud, client, add_host, migrate_json):
    """Nova migrates nothing from a host that is down, and evacuates instances in three states only."""
    add_host("good")
    add_host("h1")
    cloud.stop("h1")
    states = ("active", "stopped", "error", "paused", "shelved", "resized", "soft-delete")
    on = {cloud.add_instance("h1", vm_state=state): state for state in states}
    busy = cloud.add_instance("h1", task_state="deleting")
    found = {
        each["subject"].partition(" ")[2]: each for each in migrate_json("decommission", "h1")[0]["holds"]
    }
    for uuid, state in on.items():
        command = f"openstack server evacuate {uuid}" if state in states[:3] else ""
        assert found[uuid]["command"] == command, state
        is_told = "nova evacuates only" in found[uuid]["text"]
        assert is_told is (state in ("paused", "shelved")), state
    assert found[busy]["command"] == ""
    assert f"has to end; openstack server set --state error {busy} ends it" in found[busy]["text"]
    cloud.update("cell1", "UPDATE services SET deleted = id WHERE host = 'h1'")
    found = {
        each["subject"].partition(" ")[2]: each for each in migrate_json("decommission", "h1")[0]["holds"]
    }
    assert {found[uuid]["command"] for uuid in on} == {""}


def test_service_and_mapping_have_a_command_when_nothing_else_is_left(cloud, client, add_host, migrate_json):
    """As long as an instance is on the host, no line says how to delete what it needs."""
    add_host("good")
    hold(client, instance := cloud.add_instance("h1"), {add_host("h1"): CLAIM})
    cloud.update("cell1", "UPDATE services SET disabled = 1 WHERE host = 'h1'")

    def commands():
        return {each["step"]: each["command"] for each in migrate_json("decommission", "h1")[0]["holds"]}

    assert commands() == {
        "move instances": f"openstack server migrate --live-migration {instance}",
        "delete the service": "",
        "delete the host mapping": "",
    }
    cloud.update("cell1", "UPDATE instances SET deleted = 1 WHERE uuid = :uuid", uuid=instance)
    client.delete_allocations(instance)
    found = commands()
    assert found["delete the service"].startswith("openstack compute service delete ")
    assert found["delete the host mapping"] == ""
    cloud.update("cell1", "UPDATE services SET deleted = 1 WHERE host = 'h1'")
    cloud.update("cell1", "UPDATE compute_nodes SET deleted = 1 WHERE host = 'h1'")
    (left,) = commands().values()
    assert left.startswith("nova-manage cell_v2 delete_host --cell_uuid ")


def test_no_command_takes_an_instance_from_its_owner(cloud, add_host, migrate_json):
    """A soft-deleted instance can still be restored, and a resize can still be reverted."""
    add_host("h1")
    soft, resized = (cloud.add_instance("h1", vm_state=state) for state in ("soft-delete", "resized"))
    found = {each["subject"]: each for each in migrate_json("decommission", "h1")[0]["holds"]}
    assert "reclaim_instance_interval" in found[f"instance {soft}"]["text"]
    assert "confirm or revert" in found[f"instance {resized}"]["text"]
    assert {found[f"instance {uuid}"]["command"] for uuid in (soft, resized)} == {""}


@pytest.mark.parametrize("traits", [["MISC_SHARES_VIA_AGGREGATE"], [], ["OWNER_CYBORG"]])
def test_name_alone_makes_no_provider_one_of_a_host(client, add_host, migrate, traits):
    """A provider that nova never had is not deleted, though its name is that of the host given."""
    add_host("good")
    client.create_provider("nfs1", uuid=(uuid := new_uuid()))
    give(client, uuid, {"DISK_GB": Inventory(5000)}, traits)
    done = migrate("decommission", "nfs1", "--delete")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("placement-migrate: Neither nova nor placement has a host nfs1; provider")
    assert names_of(client) == {"good", "nfs1"}


def test_provider_of_a_purged_host_is_deleted_by_its_name(client, add_host, migrate):
    """If nova has no record any more, a trait that only nova-compute reports is the evidence."""
    add_host("good")
    client.create_provider("h1", uuid=(uuid := new_uuid()))
    give(client, uuid, SIZES, ["COMPUTE_NODE"])
    assert migrate("decommission", "h1", "--delete").returncode == 0
    assert names_of(client) == {"good"}


def test_disabled_cell_is_left_alone(cloud, client, add_host, migrate):
    """A host of a disabled cell is named, and its provider stays."""
    add_host("good")
    give(client, add_host("h2", "cell2"), SIZES)
    cloud.update("api", "UPDATE cell_mappings SET disabled = 1 WHERE name = 'cell2'")
    done = migrate("decommission", "h2", "--delete")
    assert (done.returncode, "host h2: its cell is disabled" in done.stdout) == (3, True)
    assert names_of(client) == {"good", "h2"}


def test_unknown_host_is_a_one_line_error(add_host, migrate):
    """A host that neither has is a mistake of the command line."""
    add_host("good")
    done = migrate("decommission", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "placement-migrate: Neither nova nor placement has a host nobody\n"


def test_provider_that_may_be_of_a_live_host_of_another_name_is_left_alone(client, add_host, migrate):
    """Names that differ by their domain may be of one machine, and nothing says whether they are."""
    add_host("h1.example.org")
    client.create_provider("h1", uuid=(uuid := new_uuid()))
    give(client, uuid, SIZES, ["COMPUTE_NODE"])
    done = migrate("decommission", "h1", "--delete")
    assert (done.returncode, "it may be an old provider of host h1.example.org" in done.stderr) == (1, True)
    assert names_of(client) == {"h1.example.org", "h1"}


def test_host_of_two_cells_has_no_commands(cloud, add_host, migrate_json):
    """By its name nova would delete the service in both cells, of which one may be of another machine."""
    add_host("good")
    add_host("good2", "cell2")
    add_host("h1")
    cloud.add_host("h1", "cell2", mapped=False)
    cloud.update("cell2", "UPDATE compute_nodes SET deleted = id WHERE host = 'h1'")
    document, status = migrate_json("decommission", "h1", "--delete")
    assert [each["reason"] for each in document["findings"]] == ["ambiguous"]
    assert (status, {each["command"] for each in document["holds"]}) == (3, {""})


def test_provider_that_a_disabled_cell_had_is_left_alone(cloud, client, add_host, retire, migrate):
    """Instances of a disabled cell may be up, whether or not its compute nodes are deleted."""
    add_host("good")
    add_host("good2", "cell2")
    add_host("h2", "cell2")
    retire("h2", "cell2")
    cloud.update("api", "UPDATE cell_mappings SET disabled = 1 WHERE name = 'cell2'")
    assert migrate("decommission", "h2", "--delete").returncode == 3
    assert names_of(client) == {"good", "good2", "h2"}
