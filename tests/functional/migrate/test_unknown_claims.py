# SPDX-License-Identifier: Apache-2.0
"""Instances that hold what nova's databases do not tell: accelerators of Cyborg, bandwidth of ports."""

import json

import pytest

from osc_placement.model import Inventory
from tests.functional.migrate.cloud import NOW
from tests.functional.migrate.placement import CLAIM, give, held_by, hold

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

PROFILE = {"extra_specs": {"accel:device_profile": "fpga1"}}


@pytest.fixture
def child(client, add_host):
    """The host h1, and a provider below it with a device and virtual functions."""
    node = add_host("h1")
    uuid = client.create_provider("h1_nic", parent=node)["uuid"]
    give(client, uuid, {"FPGA": Inventory(4), "SRIOV_NET_VF": Inventory(8)})
    return node, uuid


def add_port(cloud, instance, allocation, cell="cell1"):
    """Give an instance a port whose binding profile has this, beside one without."""
    ports = [{"id": "p1", "profile": {}}, {"id": "p2", "profile": {"allocation": allocation}}]
    cloud.insert(
        cell,
        "instance_info_caches",
        instance_uuid=instance,
        network_info=json.dumps(ports),
        deleted=0,
        created_at=NOW,
    )


def check(migrate, migrate_json, instance, trouble):
    """Assert that an instance is left alone for a reason, and by the audit, and the cloud not ready."""
    document, status = migrate_json("heal-allocations")
    assert (document["rows"], status) == ([], 3)
    for command in ("status", "audit"):
        document, status = migrate_json(command)
        found = [(each["subject"], each["reason"]) for each in document["findings"]]
        assert (found, document.get("ready", False), status) == (
            [(f"instance {instance}", trouble)],
            False,
            3,
        )


@pytest.mark.parametrize("held", [None, CLAIM])
def test_instance_with_an_accelerator_is_not_healed_without_cyborg(
    cloud, client, child, migrate, migrate_json, held
):
    """An instance with a device profile is not healed, nor held for whole, without what Cyborg knows."""
    instance = cloud.add_instance("h1", flavor=PROFILE)
    if held:
        hold(client, instance, {child[0]: held})
    check(migrate, migrate_json, instance, "accelerator")
    assert held_by(client, instance) == ({child[0]: held} if held else {})


def test_allocated_accelerator_is_accepted(cloud, client, child, migrate_json):
    """What an instance holds beyond its flavor is taken for that of its device profile."""
    instance = cloud.add_instance("h1", flavor=PROFILE)
    hold(client, instance, {child[0]: CLAIM, child[1]: {"FPGA": 1}})
    assert migrate_json("status")[1] == 0


@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("held", [None, CLAIM])
def test_instance_whose_port_has_resources_is_not_healed(
    cloud, client, child, migrate, migrate_json, is_grouped, held
):
    """The binding profile says of which provider a port holds something: one, or one for each group."""
    instance = cloud.add_instance("h1")
    add_port(cloud, instance, {"group": child[1]} if is_grouped else child[1])
    if held:
        hold(client, instance, {child[0]: held})
    check(migrate, migrate_json, instance, "port with a resource request")


def test_allocated_port_resources_are_accepted(cloud, client, child, migrate_json):
    """Then nothing is missing; nor is anything of an instance whose ports hold nothing."""
    instance, other = cloud.add_instance("h1"), cloud.add_instance("h1")
    add_port(cloud, instance, child[1])
    add_port(cloud, other, None)
    hold(client, instance, {child[0]: CLAIM, child[1]: {"SRIOV_NET_VF": 1}})
    hold(client, other, {child[0]: CLAIM})
    assert migrate_json("status")[1] == 0


@pytest.mark.parametrize("has_port", [False, True])
def test_moving_instance_without_allocations_is_not_partly_healed(
    cloud, client, child, add_host, migrate_json, has_port
):
    """Healing would leave out its accelerator or the resources of its port, moving or not."""
    add_host("h2")
    instance = cloud.add_instance("h1", flavor={} if has_port else PROFILE)
    if has_port:
        add_port(cloud, instance, child[1])
    cloud.add_migration(instance, "h1", "h2")
    document, status = migrate_json("heal-allocations")
    trouble = "port with a resource request" if has_port else "accelerator"
    assert ([each["reason"] for each in document["findings"]], status) == ([trouble], 3)
    assert not held_by(client, instance)
