# SPDX-License-Identifier: Apache-2.0
"""Placement as it is read: in two requests where the server can, provider by provider elsewhere."""

from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.migrate.migrations.cloud import read_cloud
from tests.unit.fake_placement import FakePlacement, error

PROVIDERS = [
    {
        "uuid": name,
        "name": f"name of {name}",
        "generation": 0,
        "parent_provider_uuid": parent,
        "root_provider_uuid": root,
    }
    for name, parent, root in (("host", None, "host"), ("card", "host", "host"), ("disk", None, "disk"))
]
PARTS = {"inventories": {}, "traits": [], "aggregates": []}
HELD = {"host": {"resources": {"VCPU": 2}}, "disk": {"resources": {"DISK_GB": 5}}}


def bulk():
    """A server with both bulk reads."""
    records = [provider | PARTS for provider in PROVIDERS]
    records[0] |= {"aggregates": ["a"]}
    records[2] |= {"aggregates": ["a"], "traits": [SHARING_TRAIT]}
    consumers = [{"uuid": "c", "allocations": HELD, "project_id": "p", "user_id": "u"}]
    placement = FakePlacement().on("GET", "/-/providers", {"providers": records})
    return placement.on("GET", "/-/allocations", {"consumers": consumers})


def test_two_requests_are_enough():
    """Providers in one, what is held of them in another."""
    placement = bulk()
    cloud = read_cloud(placement.client(), 2)
    assert placement.lines == ["GET /", "GET /-/providers", "GET /-/allocations"]
    assert cloud.held == {"c": {"host": {"VCPU": 2}, "disk": {"DISK_GB": 5}}}
    assert cloud.owners == {"c": ("p", "u")}
    assert cloud.usages() == {("host", "VCPU"): 2, ("disk", "DISK_GB"): 5}


def test_without_bulk_reads_each_provider_is_asked():
    """The values are the same; a provider that is gone meanwhile had nothing that was held of it."""
    placement = FakePlacement().on("GET", "/resource_providers", {"resource_providers": PROVIDERS})
    for provider in PROVIDERS:
        base = f"/resource_providers/{provider['uuid']}"
        for part, value in PARTS.items():
            placement.on("GET", f"{base}/{part}", {part: value, "resource_provider_generation": 0})
        held = HELD.get(provider["uuid"])
        allocations = {"allocations": {"c": held} if held else {}}
        placement.on("GET", f"{base}/allocations", allocations if held else error(404, "gone"))
    assert read_cloud(placement.client(), 2).held == read_cloud(bulk().client(), 2).held


def test_reach_is_the_tree_and_who_shares_with_it():
    """From any provider of the tree, and no further."""
    cloud = read_cloud(bulk().client(), 2)
    assert cloud.reach("host") == cloud.reach("card") == ["host", "card", "disk"]
    assert cloud.reach("disk") == ["disk"]
