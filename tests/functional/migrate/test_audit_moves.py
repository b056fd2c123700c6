# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate audit` of instances whose moves failed, are half over, or go from cell to cell."""

import pytest

from osc_placement.migrate.nova.db_source import DatabaseSource
from osc_placement.model import Inventory
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import tell_time
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, give, held_by, hold

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

OWN, DISK = {"VCPU": 2, "MEMORY_MB": 2048}, {"DISK_GB": 20}
BANDWIDTH = {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}


@pytest.fixture
def hosts(client, add_host):
    """Two hosts and a disk that could be shared; the UUIDs of all."""
    disk = new_uuid()
    client.create_provider("ceph", uuid=disk)
    give(client, disk, {"DISK_GB": Inventory(5000)}, ["MISC_SHARES_VIA_AGGREGATE"], [disk])
    return (add_host("h1"), add_host("h2"), disk)


@pytest.mark.parametrize("status", ["error", "failed", "cancelled"])
@pytest.mark.parametrize("shared", [False, True])
def test_failed_migration_keeps_allocations_its_instance_uses(
    cloud, client, hosts, migrate, migrate_json, status, shared
):
    """The migration goes on holding the source until the instance itself does; the destination is free."""
    source, target, disk = hosts
    for node in (source, target) if shared else ():
        give(client, node, {name: SIZES[name] for name in OWN}, aggregates=[disk])
    instance = cloud.add_instance("h1", vm_state="error" if status == "error" else "active")
    move = cloud.add_migration(instance, "h1", "h2", status=status)
    on_source = {source: OWN, disk: DISK} if shared else {source: CLAIM}
    on_target = {target: OWN, disk: DISK} if shared else {target: CLAIM}
    hold(client, move, on_source, consumer_type="MIGRATION")
    hold(client, instance, on_target)
    document, _ = migrate_json("audit", "--delete")
    assert held_by(client, move) == on_source
    assert not held_by(client, instance)
    (finding,) = [each for each in document["findings"] if move in each["subject"]]
    names = "ceph, h1" if shared else "h1"
    assert f"over ({status}) and holds what instance {instance} uses of {names}; " in finding["text"]
    migrate("heal-allocations")
    assert source in held_by(client, instance)
    assert migrate("audit", "--delete").returncode == 0
    assert not held_by(client, move)


@pytest.mark.parametrize("on_nic", [{}, BANDWIDTH])
def test_failed_migration_keeps_all_allocations_in_the_source_tree(
    cloud, client, hosts, migrate, migrate_json, on_nic
):
    """Its claim on a child of the source stays, and so does all that its failed migration holds there."""
    source, target, _ = hosts
    nic = client.create_provider("h1_nic", parent=source)["uuid"]
    give(client, nic, {name: Inventory(10000) for name in BANDWIDTH})
    instance = cloud.add_instance("h1")
    move = cloud.add_migration(instance, "h1", "h2", status="failed")
    on_source = {source: CLAIM, **({nic: on_nic} if on_nic else {})}
    hold(client, move, on_source, consumer_type="MIGRATION")
    hold(client, instance, {target: CLAIM, nic: BANDWIDTH})
    document, _ = migrate_json("audit", "--delete")
    assert held_by(client, move) == on_source
    assert held_by(client, instance) == {nic: BANDWIDTH}
    (finding,) = [each for each in document["findings"] if move in each["subject"]]
    advice = f"heal-allocations --force --instance {instance}"
    assert f"; placement-migrate {advice} gives it its own" in finding["text"]
    migrate(*advice.split(), "--skip-port-allocations")
    migrate("audit", "--delete", "--skip-port-allocations")
    assert held_by(client, move) == {}
    assert held_by(client, instance) == {source: CLAIM, nic: BANDWIDTH}


def test_failed_migration_of_a_deleted_instance_is_an_orphan(cloud, client, hosts, migrate):
    """Nor for one that holds what it uses itself, or that is on neither of its hosts."""
    source, target, _ = hosts
    gone = cloud.add_instance("h1", deleted=5)
    right = cloud.add_instance("h1")
    hold(client, right, {source: CLAIM})
    moved = cloud.add_instance("h2")
    hold(client, moved, {target: CLAIM})
    moves = [cloud.add_migration(uuid, "h1", "h2", status="error") for uuid in (gone, right, moved)]
    for move in moves:
        hold(client, move, {source: CLAIM}, consumer_type="MIGRATION")
    assert migrate("audit", "--delete").returncode == 0
    assert not any(held_by(client, move) for move in moves)
    assert (held_by(client, right), held_by(client, moved)) == ({source: CLAIM}, {target: CLAIM})


@pytest.fixture
def halted(cloud, client, hosts):
    """An instance on h1, and its move to h2 that nova has not changed for an hour."""
    source, target, _ = hosts
    instance = cloud.add_instance("h1", task_state="migrating", updated_at=tell_time(3600))
    move = cloud.add_migration(instance, "h1", "h2", status="accepted", ago=3600)
    hold(client, move, {source: CLAIM}, consumer_type="MIGRATION")
    hold(client, instance, {target: CLAIM})
    return instance, move


def test_move_that_nova_does_not_go_on_with_is_named_until_it_is_ended_by_hand(
    cloud, client, hosts, halted, migrate, migrate_json
):
    """Its record is never over, and nothing is removed by a guess."""
    source, target, _ = hosts
    instance, move = halted
    for _ in range(2):
        document, status = migrate_json("audit", "--delete")
        (finding,) = document["findings"]
        assert (status, finding["reason"], finding["subject"]) == (3, "stuck", f"instance {instance}")
        assert f"openstack server set --state active {instance}, and" in finding["text"]
        assert (held_by(client, instance), held_by(client, move)) == ({target: CLAIM}, {source: CLAIM})
        cloud.update("cell1", "UPDATE instances SET task_state = NULL WHERE uuid = :uuid", uuid=instance)
    statement = finding["text"].partition("of its cell ")[2].partition(";")[0]
    assert statement.startswith("UPDATE migrations SET ")
    cloud.update("cell1", statement)
    document, _ = migrate_json("audit", "--delete")
    (finding,) = document["findings"]
    assert f"openstack resource provider allocation move {move} {instance}" in finding["text"]
    assert (held_by(client, instance), held_by(client, move)) == ({}, {source: CLAIM})


@pytest.mark.parametrize(
    ("ago", "state"),
    [
        (60, {"task_state": "rebooting"}),
        (3600, {"vm_state": "resized", "task_state": "rebooting"}),
        (3600, {}),
    ],
    ids=["in a new task", "to be confirmed", "holds only its own"],
)
def test_old_record_of_a_move_is_not_named(cloud, client, hosts, migrate_json, ago, state):
    """What is held for the instance says nothing of it."""
    _, target, _ = hosts
    instance = cloud.add_instance("h2", updated_at=tell_time(ago), **state)
    cloud.add_migration(instance, "h1", "h2", status="accepted", ago=3600)
    hold(client, instance, {target: CLAIM})
    document, status = migrate_json("audit")
    assert (document["findings"], status) == ([], 0)


def test_what_a_migration_holds_is_kept_while_nova_reverts_it(cloud, client, hosts, migrate_json):
    """Its record says so before its instance is back."""
    source, target, _ = hosts
    instance = cloud.add_instance("h2", vm_state="resized", task_state="resize_reverting")
    move = cloud.add_migration(instance, "h1", "h2", status="reverted")
    hold(client, move, {source: CLAIM}, consumer_type="MIGRATION")
    hold(client, instance, {target: CLAIM})
    document, status = migrate_json("audit", "--delete")
    (finding,) = document["findings"]
    assert "which is resize_reverting at the moment" in finding["text"]
    assert (document["rows"], status, held_by(client, move)) == ([], 3, {source: CLAIM})


@pytest.mark.parametrize(
    ("ago", "elsewhere", "is_named"), [(3600, True, True), (60, True, False), (3600, False, False)]
)
def test_task_that_nova_does_not_go_on_with_is_named_if_something_is_held_elsewhere(
    cloud, client, hosts, migrate_json, ago, elsewhere, is_named
):
    """As after an evacuation that failed while a rebuild was waiting."""
    source, target, _ = hosts
    times = {"updated_at": tell_time(ago)}
    instance = cloud.add_instance("h1", vm_state="error", task_state="rebuilding", **times)
    hold(client, instance, {target if elsewhere else source: CLAIM})
    document, _ = migrate_json("audit", "--delete")
    named = [each["text"] for each in document["findings"] if instance in each["subject"]]
    assert (document["rows"], len(named)) == ([], is_named)
    assert all("it is error, rebuilding, unchanged since" in text for text in named)


@pytest.mark.parametrize(
    ("state", "task", "ago"),
    [
        ("resized", None, 3600),
        ("active", "resize_finish", 3600),
        ("active", "resize_finish", 60),
    ],
)
def test_resize_that_is_done_and_whose_instance_stays_in_its_task_is_named(
    cloud, client, hosts, migrate_json, state, task, ago
):
    """nova lost its database between both writes, and neither confirms nor reverts it."""
    source, target, _ = hosts
    instance = cloud.add_instance("h2", vm_state=state, task_state=task, updated_at=tell_time(ago))
    move = cloud.add_migration(instance, "h1", "h2", status="finished", migration_type="resize", ago=ago)
    hold(client, move, {source: CLAIM}, consumer_type="MIGRATION")
    hold(client, instance, {target: CLAIM})
    document, _ = migrate_json("audit", "--delete")
    named = [each["text"] for each in document["findings"] if each["reason"] == "stuck"]
    assert len(named) == (state != "resized" and ago == 3600)
    assert all(f"SET status = 'error' WHERE uuid = '{move}'" in text for text in named)
    assert held_by(client, move) == {source: CLAIM}


def test_confirmation_that_nova_does_not_go_on_with_is_named_with_how_to_confirm_again(
    cloud, client, hosts, migrate_json
):
    """nova confirms a resize only whose record waits for that."""
    source, target, _ = hosts
    instance = cloud.add_instance("h2", vm_state="resized")
    move = cloud.add_migration(instance, "h1", "h2", status="confirming", migration_type="resize", ago=3600)
    hold(client, move, {source: CLAIM}, consumer_type="MIGRATION")
    hold(client, instance, {target: CLAIM})
    document, status = migrate_json("audit", "--delete")
    (finding,) = document["findings"]
    assert (status, finding["subject"], held_by(client, move)) == (3, f"instance {instance}", {source: CLAIM})
    assert f"SET status = 'finished' WHERE uuid = '{move}', and again " in finding["text"]
    assert f" and again openstack server resize confirm {instance};" in finding["text"]


@pytest.mark.parametrize(
    ("host", "ago", "holds"), [("h1", 3600, True), ("h1", 3600, False), ("h1", 60, True), (None, 3600, True)]
)
def test_unshelving_that_nova_does_not_go_on_with_is_named(
    cloud, client, hosts, migrate_json, host, ago, holds
):
    """It has no guest on its host yet, which counts nothing of it; a failed spawn takes the host from it."""
    source, _, _ = hosts
    state = {"vm_state": "shelved_offloaded", "task_state": "spawning", "updated_at": tell_time(ago)}
    instance = cloud.add_instance(host, **state)
    if holds:
        hold(client, instance, {source: CLAIM})
    document, _ = migrate_json("audit", "--delete")
    stuck = [each["text"] for each in document["findings"] if each["reason"] == "stuck"]
    assert len(stuck) == (ago > 600)
    assert all(f"openstack server set --state error {instance}, and delete" in text for text in stuck)
    assert held_by(client, instance) == ({source: CLAIM} if holds else {})


def test_build_that_nova_does_not_go_on_with_is_named_if_it_holds_nothing(cloud, hosts, migrate_json):
    """It is on a host, which counts it; to delete it is all that its owner can do."""
    state = {"vm_state": "building", "task_state": "block_device_mapping"}
    old, _ = (cloud.add_instance("h1", **state, updated_at=tell_time(ago)) for ago in (3600, 60))
    document, _ = migrate_json("audit", "--delete")
    (stuck,) = [each for each in document["findings"] if each["reason"] == "stuck"]
    assert stuck["subject"] == f"instance {old}"
    assert f"end it: openstack server delete {old};" in stuck["text"]


@pytest.mark.parametrize(("vm_state", "holds_own"), [("error", True), ("error", False), ("building", False)])
def test_deletion_that_nova_does_not_go_on_with_is_named_with_what_is_kept_for_it(
    cloud, client, hosts, migrate_json, vm_state, holds_own
):
    """Its failed migration holds something; nova passes over a second deletion unless its state is set."""
    source, target, _ = hosts
    instance = cloud.add_instance("h2", vm_state=vm_state, task_state="deleting", updated_at=tell_time(3600))
    move = cloud.add_migration(instance, "h1", "h2", status="error")
    hold(client, move, {source: CLAIM}, consumer_type="MIGRATION")
    if holds_own:
        hold(client, instance, {target: CLAIM})
    document, status = migrate_json("audit", "--delete")
    kept, stuck = sorted(document["findings"], key=lambda finding: finding["subject"])
    assert (status, held_by(client, move)) == (3, {source: CLAIM})
    assert (kept["subject"], stuck["subject"]) == (f"consumer {move}", f"instance {instance}")
    assert kept["text"].endswith("which is deleting at the moment")
    commands = f"openstack server set --state error {instance}, and again openstack server delete {instance};"
    assert commands in stuck["text"]


@pytest.mark.parametrize(
    ("instance_columns", "move_columns"),
    [
        ({}, {"ago": 60}),
        ({"vm_state": "resized"}, {"ago": 60, "status": "confirming", "migration_type": "resize"}),
        ({"vm_state": "resized"}, {"ago": 3600, "status": "finished", "migration_type": "resize"}),
        ({}, {"ago": 3600, "status": "finished", "migration_type": "resize"}),
    ],
    ids=["changed a minute ago", "being confirmed", "to be confirmed", "state set by hand"],
)
def test_move_that_may_go_on_keeps_what_it_holds(
    cloud, client, hosts, migrate_json, instance_columns, move_columns
):
    """It is young, or waits for its owner."""
    source, target, _ = hosts
    instance = cloud.add_instance("h2", **instance_columns)
    move = cloud.add_migration(instance, "h1", "h2", **move_columns)
    hold(client, move, {source: CLAIM}, consumer_type="MIGRATION")
    hold(client, instance, {target: CLAIM})
    document, status = migrate_json("audit", "--delete")
    assert (document["rows"], document["findings"], status) == ([], [], 0)
    assert held_by(client, move) == {source: CLAIM}


@pytest.fixture
def evacuated(cloud, client, hosts):
    """An instance that was evacuated from h1, which is down, to h2, and holds its claims of both."""
    source, target, _ = hosts
    instance = cloud.add_instance("h2")
    cloud.evacuate(instance, "h1", "h2")
    cloud.stop("h1")
    hold(client, instance, {source: CLAIM, target: CLAIM})
    return instance


@pytest.mark.parametrize("state", ["down", "forced down", "without a service"])
def test_claims_on_the_source_of_an_evacuation_are_orphans(
    cloud, client, hosts, evacuated, migrate, migrate_json, nova_conf, state
):
    """Nova would free them when nova-compute is started again there, which may never be."""
    if state == "forced down":
        statement = "UPDATE services SET forced_down = 1, last_seen_up = :seen WHERE host = 'h1'"
        cloud.update("cell1", statement, seen=tell_time())
    if state == "without a service":
        cloud.update("cell1", "UPDATE services SET deleted = id WHERE host = 'h1'")
    document, status = migrate_json("status")
    assert (document["ready"], status) == (True, 0)
    assert "evacuated from h1 to h2" in document["notes"][0]
    document, status = migrate_json("audit")
    assert ([row["uuid"] for row in document["rows"]], status) == ([evacuated], 3)
    assert document["rows"][0]["reason"] == "orphaned on h1: its instance was evacuated"
    assert evacuated in nova.manage(nova_conf, "placement", "audit", "--verbose").stdout
    assert migrate("audit", "--delete").returncode == 0
    assert held_by(client, evacuated) == {hosts[1]: CLAIM}
    assert nova.manage(nova_conf, "placement", "audit").returncode == 0


@pytest.mark.parametrize("state", ["up again", "not yet down", "in a task", "moving", "on an unknown node"])
def test_claims_of_an_evacuated_instance_are_kept_where_they_may_live(
    cloud, client, evacuated, migrate, nova_conf, state
):
    """A nova-compute that was not restarted has the guest still; what nova is changing is not judged."""
    kept = held_by(client, evacuated)
    if state == "up again":
        cloud.update("cell1", "UPDATE services SET last_seen_up = :seen", seen=tell_time())
    if state == "not yet down":
        nova_conf.write_text(nova_conf.read_text() + "[DEFAULT]\nservice_down_time = 7200\n")
    if state == "in a task":
        cloud.update("cell1", "UPDATE instances SET task_state = 'rebuilding'")
    if state == "moving":
        cloud.add_migration(evacuated, "h2", "h1", status="running")
    if state == "on an unknown node":
        cloud.update("cell1", "UPDATE instances SET node = 'other'")
    done = migrate("audit", "--delete")
    assert held_by(client, evacuated) == kept
    assert done.returncode == (0 if state == "moving" else 3)
    reasons = dict.fromkeys(("up again", "not yet down"), "removes this when it is restarted")
    reasons["in a task"] = "it is rebuilding"
    if state in reasons:
        assert f"instance {evacuated}: it was evacuated from h1, and holds resources of h1" in done.stdout
        assert reasons[state] in done.stdout


def test_evacuated_instance_keeps_shared_storage(cloud, client, hosts, migrate):
    """What it holds of a provider that both hosts use is of the new host."""
    source, target, disk = hosts
    for node in (source, target):
        give(client, node, {name: SIZES[name] for name in OWN}, aggregates=[disk])
    instance = cloud.add_instance("h2")
    cloud.evacuate(instance, "h1", "h2")
    cloud.stop("h1")
    hold(client, instance, {source: OWN, target: OWN, disk: DISK})
    assert migrate("audit", "--delete").returncode == 0
    assert held_by(client, instance) == {target: OWN, disk: DISK}


def test_old_evacuation_keeps_no_allocations_on_other_hosts(cloud, client, hosts, add_host, migrate):
    """What an instance holds where it neither is nor was evacuated from goes."""
    source, target, _ = hosts
    third = add_host("h3")
    instance = cloud.add_instance("h2")
    cloud.evacuate(instance, "h1", "h2")
    hold(client, instance, {source: CLAIM, target: CLAIM, third: CLAIM})
    assert migrate("audit", "--delete").returncode == 3
    assert held_by(client, instance) == {source: CLAIM, target: CLAIM}


@pytest.mark.parametrize("moment", ["while nova is read", "before the write"])
def test_claim_that_nova_makes_during_an_audit_is_kept(
    cloud, client, hosts, migrate, monkeypatch, meanwhile, moment
):
    """An offloaded instance with an old claim is unshelved on the same host, in the same amounts."""
    source, _, _ = hosts
    instance = cloud.add_instance(None, vm_state="shelved_offloaded")
    hold(client, instance, {source: CLAIM})
    iterate = DatabaseSource.iterate_instances

    def unshelve():
        cloud.update("cell1", "UPDATE instances SET task_state = 'unshelving'")
        hold(client, instance, {source: CLAIM}, generation=1)
        monkeypatch.setattr(DatabaseSource, "iterate_instances", iterate)

    def read_and_unshelve(self, cell):
        yield from iterate(self, cell)
        unshelve()

    if moment == "before the write":
        meanwhile(unshelve)
    else:
        monkeypatch.setattr(DatabaseSource, "iterate_instances", read_and_unshelve)
    done = migrate("audit", "--delete")
    assert held_by(client, instance) == {source: CLAIM}
    assert (done.returncode, "holds something else" in done.stdout) == (
        (3, True) if moment == "before the write" else (0, False)
    )


def test_claim_of_a_consumer_that_was_emptied_during_an_audit_is_kept(
    cloud, client, hosts, add_host, migrate, meanwhile
):
    """An instance with a claim on a wrong host moves to a third one, and its generation is 1 again."""
    _, wrong, _ = hosts
    third = add_host("h3")
    instance = cloud.add_instance("h1")
    hold(client, instance, {wrong: CLAIM})

    def move():
        client.delete_allocations(instance)
        hold(client, instance, {third: CLAIM})

    meanwhile(move)
    done = migrate("audit", "--delete")
    assert (done.returncode, "holds something else" in done.stdout) == (3, True)
    assert held_by(client, instance) == {third: CLAIM}


@pytest.mark.parametrize("is_gone", [False, True])
def test_instance_hidden_during_a_cross_cell_move_is_no_orphan(
    cloud, client, hosts, add_host, migrate, monkeypatch, is_gone
):
    """The rows of a move between cells change places while the cells are read."""
    other = add_host("h3", "cell2")
    instance = cloud.add_instance("h1", hidden=True)
    cloud.insert("cell2", "instances", uuid=instance, host="h3", node="h3", deleted=0, hidden=False)
    move = cloud.add_migration(instance, "h1", "h3", status="finished")
    hold(client, instance, {other: CLAIM})
    hold(client, move, {hosts[0]: CLAIM}, consumer_type="MIGRATION")
    iterate = DatabaseSource.iterate_instances

    def change_places(self, cell):
        yield from iterate(self, cell)
        if cell.name == "cell1":
            cloud.update("cell1", "UPDATE instances SET hidden = :no", no=False)
            cloud.update("cell2", "UPDATE instances SET hidden = :yes", yes=True)
            if is_gone:
                cloud.update("cell1", "UPDATE instances SET deleted = id")
                cloud.update("cell2", "UPDATE instances SET deleted = id")

    monkeypatch.setattr(DatabaseSource, "iterate_instances", change_places)
    migrate("audit", "--delete")
    assert held_by(client, instance) == ({} if is_gone else {other: CLAIM})
    assert held_by(client, move) == {hosts[0]: CLAIM}
