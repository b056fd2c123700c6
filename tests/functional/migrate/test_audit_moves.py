# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate audit` of instances whose moves failed, are half over, or go from cell to cell."""

import pytest

from osc_placement.migrate.nova.db_source import DatabaseSource
from osc_placement.model import Inventory
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
def test_failed_migration_keeps_all_allocations_in_the_source_tree(cloud, client, hosts, migrate, on_nic):
    """Its claim on a child of the source stays, and so does all that its failed migration holds there."""
    source, target, _ = hosts
    nic = client.create_provider("h1_nic", parent=source)["uuid"]
    give(client, nic, {name: Inventory(10000) for name in BANDWIDTH})
    instance = cloud.add_instance("h1")
    move = cloud.add_migration(instance, "h1", "h2", status="failed")
    on_source = {source: CLAIM, **({nic: on_nic} if on_nic else {})}
    hold(client, move, on_source, consumer_type="MIGRATION")
    hold(client, instance, {target: CLAIM, nic: BANDWIDTH})
    migrate("audit", "--delete")
    assert held_by(client, move) == on_source
    assert held_by(client, instance) == {nic: BANDWIDTH}


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


def test_source_of_an_evacuation_is_kept_until_it_is_cleaned_up(cloud, client, hosts, migrate, migrate_json):
    """Nova-compute there does that when it is up again, and says so in the migration."""
    source, target, _ = hosts
    instance = cloud.add_instance("h2")
    move = cloud.add_migration(instance, "h1", "h2", status="done")
    cloud.update("cell1", "UPDATE migrations SET migration_type = 'evacuation'")
    hold(client, instance, {source: CLAIM, target: CLAIM})
    assert migrate("audit", "--delete").returncode == 0
    assert held_by(client, instance) == {source: CLAIM, target: CLAIM}
    document, status = migrate_json("status")
    assert (document["ready"], status) == (True, 0)
    assert "evacuated from h1 to h2" in document["notes"][0]
    cloud.update("cell1", "UPDATE migrations SET status = 'completed' WHERE uuid = :u", u=move)
    assert migrate("audit", "--delete").returncode == 0
    assert held_by(client, instance) == {target: CLAIM}


def test_old_evacuation_keeps_no_allocations_on_other_hosts(cloud, client, hosts, add_host, migrate):
    """What an instance holds where it neither is nor was evacuated from goes."""
    source, target, _ = hosts
    third = add_host("h3")
    instance = cloud.add_instance("h2")
    cloud.add_migration(instance, "h1", "h2", status="done")
    hold(client, instance, {source: CLAIM, target: CLAIM, third: CLAIM})
    assert migrate("audit", "--delete").returncode == 0
    assert held_by(client, instance) == {source: CLAIM, target: CLAIM}


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
