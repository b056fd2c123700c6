# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate audit` where what is read is not, or not all of, the nova of this placement."""

import pytest
import sqlalchemy as sa

from osc_placement.model import Inventory
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, give, held_by, hold

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


def drop_cell(cloud):
    """Delete the mapping of cell2 and nothing else."""
    cloud.update("api", "DELETE FROM cell_mappings WHERE name = 'cell2'")


def drop_cell_and_mappings(cloud):
    """Delete the mapping of cell2 with those of its hosts and instances, as `delete_cell --force` does."""
    cloud.update("api", "DELETE FROM host_mappings WHERE cell_id = 3")
    cloud.update("api", "DELETE FROM instance_mappings WHERE cell_id = 3")
    drop_cell(cloud)


def connect_cell(name):
    """Return what makes the database of another cell that of cell2."""

    def connect(cloud):
        statement = "UPDATE cell_mappings SET database_connection = :url WHERE name = 'cell2'"
        cloud.update("api", statement, url=cloud.urls[name])

    return connect


def lose_instances(cloud):
    """Empty the table of instances of cell2."""
    cloud.update("cell2", "DELETE FROM instances")


def lose_some_instances(cloud):
    """Delete half of the rows of instances of cell2, as an old backup has them."""
    cloud.update("cell2", "DELETE FROM instances WHERE id % 2 = 0")


def rebuild_hosts(cloud):
    """Give cell2 other compute nodes on the same hosts, as the cell of another region has them."""
    for host in ("h3", "h4"):
        cloud.update("cell2", "UPDATE compute_nodes SET uuid = :u WHERE host = :h", u=new_uuid(), h=host)
    lose_instances(cloud)
    cloud.update("api", "DELETE FROM instance_mappings")


@pytest.fixture
def claims(cloud, client, add_host):
    """Living claims of two cells, by consumer: of servers, on a shared disk too, and of a move."""
    disk = new_uuid()
    client.create_provider("ceph", uuid=disk)
    give(client, disk, {"DISK_GB": Inventory(5000)}, ["MISC_SHARES_VIA_AGGREGATE"], [disk])
    claims = {}
    for host, cell in (("h1", "cell1"), ("h2", "cell1"), ("h3", "cell2"), ("h4", "cell2")):
        node = add_host(host, cell)
        give(client, node, SIZES, aggregates=[disk])
        for number in range(4):
            own = {"VCPU": 2, "MEMORY_MB": 2048}
            claims[cloud.add_instance(host, cell)] = (
                {node: own, disk: {"DISK_GB": 20}} if number % 2 else {node: CLAIM}
            )
    moved = cloud.add_instance("h4", "cell2")
    claims[moved] = {node: CLAIM}
    claims[cloud.add_migration(moved, "h3", "h4", "cell2", status="finished")] = {node: CLAIM}
    for consumer, held in claims.items():
        hold(client, consumer, held)
    return claims


@pytest.mark.parametrize(
    ("spoil", "status", "text"),
    [
        (connect_cell("cell0"), 4, "cell cell2: 2 hosts (h3, h4) are mapped to it, and its database has no"),
        (connect_cell("cell1"), 4, "cell cell2: 2 hosts (h3, h4) are mapped to it, and its database has no"),
        (lose_instances, 4, "cell cell2: 9 instances are mapped to it, and its database has none of them"),
        (lose_some_instances, 3, "cell cell2, whose database does not have it"),
        (drop_cell, 4, "cell 3: 2 hosts (h3, h4) are mapped to it, and there is no such cell"),
        (drop_cell_and_mappings, 3, "provider h3: nova has no compute node"),
        (rebuild_hosts, 4, "cell cell2: 0 of its 2 compute nodes"),
    ],
)
def test_missing_cell_prevents_removal_of_its_claims(cloud, client, claims, migrate, spoil, status, text):
    """What is held by the servers of a cell that is empty, gone or another one's is not removed."""
    spoil(cloud)
    done = migrate("audit", "--delete")
    assert {consumer: held_by(client, consumer) for consumer in claims} == claims
    assert (done.returncode, done.stderr) == (status, "")
    assert text in done.stdout


def test_missing_cell_mapping_makes_readiness_unknown(cloud, client, claims, migrate_json):
    """Nobody knows whether the instances of a cell without a mapping hold what they should."""
    drop_cell(cloud)
    document, status = migrate_json("status")
    assert (document["ready"], status) == (False, 4)


def test_deleted_servers_lose_their_claims_and_others_do_not(cloud, client, claims, migrate):
    """In a cloud that is whole, deleted servers lose what they held, whatever their mapping says."""
    orphan = cloud.add_instance("h3", "cell2", deleted=77)
    hold(client, orphan, {next(iter(claims[next(iter(claims))])): CLAIM})
    assert migrate("audit", "--delete").returncode == 0
    assert {consumer: held_by(client, consumer) for consumer in claims} == claims
    assert not held_by(client, orphan)


@pytest.fixture
def elsewhere(cloud, client, claims):
    """The nova of another region: as many hosts of the same names, and other servers."""
    for cell, hosts in (("cell1", ("h1", "h2")), ("cell2", ("h3", "h4"))):
        for table in ("instances", "migrations", "compute_nodes", "services"):
            cloud.update(cell, sa.delete(sa.table(table)))
        for host in hosts:
            cloud.add_host(host, cell, mapped=False)
            cloud.add_instance(host, cell)
    return cloud


@pytest.mark.parametrize("options", [(), ("--max-removals", "1000")])
def test_nova_of_another_region_removes_nothing(elsewhere, client, claims, migrate, options):
    """The line has the numbers of both sides and what to check."""
    done = migrate("audit", "--delete", *options)
    assert {consumer: held_by(client, consumer) for consumer in claims} == claims
    assert (done.returncode, done.stderr) == (4, "")
    line = done.stdout.splitlines()[0]
    assert "nova: of its 4 compute nodes 0 have a resource provider (not h1, h2, h3, ...)" in line
    assert "of the 4 providers in this placement that look like a compute node 0 are one of nova" in line
    assert "[placement]/region_name" in line
    assert line.endswith(". No allocation was removed.")


def test_nova_of_another_region_is_not_ready(elsewhere, migrate_json):
    """Its instances say nothing about this placement."""
    document, status = migrate_json("status")
    assert (document["ready"], status) == (False, 4)


def test_placement_with_mostly_foreign_hosts_prevents_removals(cloud, client, claims, migrate):
    """Where hardly any host of placement is one of nova, nothing is removed."""
    for number in range(60):
        give(client, client.create_provider(f"other{number}")["uuid"], {"VCPU": SIZES["VCPU"]})
    orphan = new_uuid()
    hold(client, orphan, {next(iter(claims[next(iter(claims))])): CLAIM})
    done = migrate("audit", "--delete")
    assert (done.returncode, bool(held_by(client, orphan))) == (4, True)
    assert (
        "of the 64 providers in this placement that look like a compute node 4 are one of nova" in done.stdout
    )


@pytest.fixture
def many_orphans(cloud, client, claims):
    """Eight orphans beside 18 living claims."""
    node = next(iter(claims[next(iter(claims))]))
    orphans = [new_uuid() for _ in range(8)]
    for uuid in orphans:
        hold(client, uuid, {node: CLAIM})
    return orphans


def test_large_removal_needs_the_number_as_an_option(client, claims, many_orphans, migrate, migrate_json):
    """A tenth of all consumers, or a handful, is removed at once, and more only if the number is named."""
    document, status = migrate_json("audit")
    assert ({row["uuid"] for row in document["rows"]}, status) == (set(many_orphans), 3)
    (finding,) = document["findings"]
    assert (
        "8 of 26 consumers would lose allocations, more than the 5 that are allowed without an option"
        in finding["text"]
    )
    for options in ((), ("--max-removals", "7")):
        done = migrate("audit", "--delete", *options)
        assert (done.returncode, done.stdout) == (1, "")
        assert "nothing was done: audit: 8 of 26 consumers" in done.stderr
        assert "add --max-removals 8 to this command" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert all(held_by(client, uuid) for uuid in many_orphans)
    assert migrate("audit", "--delete", "--max-removals", "8").returncode == 0
    assert not any(held_by(client, uuid) for uuid in many_orphans)
    assert {consumer: held_by(client, consumer) for consumer in claims} == claims


def test_limit_of_removals_holds_over_all_shards(client, claims, many_orphans, migrate):
    """Each of four parts has few orphans, and may remove none of the many that there are in all."""
    done = [migrate("audit", "--delete", "--shard", f"{number}/4") for number in (1, 2, 3, 4)]
    assert {each.returncode for each in done} <= {0, 1, 3}
    assert any("8 of 26 consumers" in each.stderr for each in done)
    assert all(held_by(client, uuid) for uuid in many_orphans)


def test_untyped_consumers_outside_nova_trees_are_left_alone(cloud, client, claims, migrate):
    """Other services have consumers from before there were types, on own and on shared providers."""
    node, disk = next(held for held in claims.values() if len(held) == 2)
    own = client.create_provider("appliance")["uuid"]
    give(client, own, {"VCPU": Inventory(50), "IPV4_ADDRESS": Inventory(50)})
    pool = client.create_provider("pool")["uuid"]
    give(client, pool, {"IPV4_ADDRESS": Inventory(50)})
    others = {
        new_uuid(): {own: {"VCPU": 1}},
        new_uuid(): {pool: {"IPV4_ADDRESS": 1}},
        new_uuid(): {disk: {"DISK_GB": 1}},
        new_uuid(): {disk: {"DISK_GB": 1}, pool: {"IPV4_ADDRESS": 1}},
        new_uuid(): {node: {"VCPU": 1}, pool: {"IPV4_ADDRESS": 1}},
    }
    orphan = new_uuid()
    for consumer, held in others.items():
        hold(client, consumer, held, consumer_type=None)
    hold(client, orphan, {node: {"VCPU": 1}, disk: {"DISK_GB": 1}}, consumer_type=None)
    assert migrate("audit", "--delete").returncode == 3
    assert {consumer: held_by(client, consumer) for consumer in others} == others
    assert not held_by(client, orphan)


@pytest.mark.parametrize("table", ["aggregate_hosts", "aggregates"])
def test_nova_without_aggregate_members_removes_no_membership(cloud, client, add_host, migrate, table):
    """An API database that lost its aggregates says nothing about who is in them."""
    node = add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    assert migrate("mirror-aggregates").returncode == 0
    for name in ("aggregate_hosts", table):
        cloud.update("api", sa.delete(sa.table(name)))
    done = migrate("mirror-aggregates", "--prune-foreign")
    assert (done.returncode, "nova: it has no host in any host aggregate" in done.stdout) == (4, True)
    assert client.list_provider_aggregates(node)["aggregates"] == [cloud.aggregates["rack1"]]


@pytest.mark.parametrize("command", ["audit", "heal-allocations"])
def test_unreadable_instances_of_a_doubtful_cell_are_named_once(cloud, add_host, migrate_json, command):
    """They are read for the doubt, too, and it is one finding."""
    add_host("h1", "cell1")
    cloud.add_host("h3", "cell2")
    cloud.update("cell2", "ALTER TABLE instances RENAME TO lost")
    try:
        document, status = migrate_json(command)
    finally:
        cloud.update("cell2", "ALTER TABLE lost RENAME TO instances")
    assert status == 4
    texts = [each["text"] for each in document["findings"] if each["subject"] == "cell cell2"]
    assert sum("instances" in text for text in texts) == 1


def test_audit_that_doubts_nova_says_that_ports_were_skipped(cloud, client, add_host, migrate_json):
    """Its document has what every other has."""
    node = add_host("h1")
    hold(client, new_uuid(), {node: CLAIM})
    give(client, node, {**SIZES, "NET_BW_EGR_KILOBIT_PER_SEC": Inventory(1000)})
    cloud.update("cell1", "UPDATE compute_nodes SET uuid = :u", u=new_uuid())
    document, status = migrate_json("audit", "--skip-port-allocations")
    assert [each["subject"] for each in document["findings"]] == ["nova"]
    assert (status, document["skipped"].startswith("Ports were not judged")) == (4, True)
