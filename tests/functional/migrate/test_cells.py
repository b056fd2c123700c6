# SPDX-License-Identifier: Apache-2.0
"""Hosts of one name in several cells: a host is known by its cell and its name, to every migration."""

import pytest

from osc_placement.model import Inventory
from tests.functional.migrate.cloud import IRONIC
from tests.functional.migrate.placement import CLAIM, SIZES, give, held_by

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


@pytest.mark.parametrize("cells", [("cell1", "cell2"), ("cell2", "cell1")])
def test_stale_compute_node_in_another_cell_does_not_prevent_healing(cloud, client, add_host, migrate, cells):
    """A host that was moved to another cell has left its compute node in the one it came from."""
    own, stale = cells
    node = add_host("h1", own)
    cloud.add_host("h1", stale, mapped=False)
    instance = cloud.add_instance("h1", own)
    assert migrate("heal-allocations").returncode == 0
    assert held_by(client, instance) == {node: CLAIM}
    assert migrate("audit", "--delete").returncode in (3, 4)
    assert held_by(client, instance) == {node: CLAIM}


@pytest.fixture
def namesakes(cloud, client, add_host):
    """Two hosts of one name, of which that in cell1 is mapped and in an aggregate; both nodes, by cell."""
    nodes = {
        "cell1": add_host("h1"),
        "cell2": cloud.add_host("h1", "cell2", ["other"], mapped=False)["other"],
    }
    add_host("h2", "cell2")
    client.create_provider("other", uuid=nodes["cell2"])
    give(client, nodes["cell2"], SIZES)
    cloud.add_aggregate("rack1", ["h1"], cpu_allocation_ratio="8.0")
    return nodes


def read(client, node):
    """The aggregates of a provider, and its ratio of VCPU."""
    aggregates = client.list_provider_aggregates(node)["aggregates"]
    return set(aggregates), client.list_inventories(node)["inventories"]["VCPU"]["allocation_ratio"]


def test_same_host_name_in_another_cell_is_left_alone(cloud, client, namesakes, migrate):
    """Aggregates and ratios are of the host that is mapped; the other one is left alone, and said to be."""
    rack = {cloud.aggregates["rack1"]}
    for command in ("mirror-aggregates", "carry-ratios"):
        done = migrate(command)
        assert (done.returncode, done.stderr) == (3, "")
        assert "Left alone: host h1, node other: it is in cell cell2, and host h1 is mapped to" in done.stdout
    assert read(client, namesakes["cell1"]) == (rack, 8.0)
    assert read(client, namesakes["cell2"]) == (set(), 4.0)


def test_same_host_name_in_another_cell_keeps_its_aggregates(cloud, client, namesakes, migrate):
    """Nova does not say which aggregates a host is in that is mapped to another cell."""
    foreign = "f0000000-0000-0000-0000-00000000000f"
    rack2 = cloud.add_aggregate("rack2", ["h2"])
    for node in namesakes.values():
        generation = client.show_provider(node)["generation"]
        client.set_provider_aggregates(node, [foreign, rack2], generation)
    migrate("mirror-aggregates", "--prune-foreign")
    assert read(client, namesakes["cell1"])[0] == {cloud.aggregates["rack1"]}
    assert read(client, namesakes["cell2"])[0] == {foreign, rack2}


@pytest.mark.parametrize(
    "options", [("mirror-aggregates",), ("mirror-aggregates", "--prune-foreign"), ("carry-ratios",)]
)
def test_unmapped_host_with_a_node_is_left_alone(cloud, client, add_host, migrate, options):
    """What the line says is so: it is not mirrored, and no ratio is set."""
    add_host("h1")
    node = add_host("h2", mapped=False)
    foreign = "f0000000-0000-0000-0000-00000000000f"
    client.set_provider_aggregates(node, [foreign], client.show_provider(node)["generation"])
    cloud.add_aggregate("rack1", ["h1", "h2"], cpu_allocation_ratio="8.0")
    done = migrate(*options)
    assert (done.returncode, "Left alone: host h2: it is mapped to no cell" in done.stdout) == (3, True)
    assert read(client, node) == ({foreign}, 4.0)


def test_instance_of_a_node_is_looked_up_in_its_own_cell(cloud, client, add_host, migrate_json):
    """The instance on a node is one of its own cell."""
    add_host("metal", inventories={}, nodes=["n1"], hypervisor_type=IRONIC)
    cloud.add_host("metal", "cell2", nodes=["n1"], hypervisor_type=IRONIC, mapped=False)
    add_host("h2", "cell2")
    client.ensure_resource_class("CUSTOM_GOLD")
    node = client.list_providers(name="n1")[0]["uuid"]
    give(client, node, {"CUSTOM_GOLD": Inventory(1, max_unit=1)})
    first = cloud.add_instance("metal", node="n1")
    cloud.add_instance("metal", "cell2", node="n1")
    document, _ = migrate_json("move-baremetal", "--dry-run")
    assert not any("several instances" in each["text"] for each in document["findings"])
    assert [(row["uuid"], row["after"]) for row in document["rows"]] == [(node, [f"{first}:CUSTOM_GOLD=1"])]
