# SPDX-License-Identifier: Apache-2.0
"""What a reshape reads, while others write."""

import pytest

from osc_placement.batch import execute
from osc_placement.batch.reshape import plan_reshape
from osc_placement.batch.reshape_run import read_world
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory
from tests.unit.batch.test_reshape import vgpu
from tests.unit.fake_placement import FakePlacement

HOLDS = {"allocations": {"c1": {"resources": {"VGPU": 3}}}}
NOTHING = {"allocations": {}}


@pytest.fixture
def fake(monkeypatch):
    """Two providers, the first with eight VGPU; nobody waits."""
    monkeypatch.setattr(execute, "_LONGEST_PAUSE", 0.0)
    fake = FakePlacement().on("GET", "/allocations/c1", NOTHING)
    for uuid, inventories in (("a", {"VGPU": Inventory(8).to_json()}), ("b", {})):
        path = f"/resource_providers/{uuid}"
        fake.on("GET", path, {"uuid": uuid, "name": uuid, "generation": 3})
        fake.on("GET", f"{path}/inventories", {"inventories": inventories, "resource_provider_generation": 3})
        fake.on("GET", f"{path}/allocations", NOTHING)
    return fake


def read(fake):
    return read_world(fake.client(), ("a", "b"), {"a": frozenset({"VGPU"})})


def test_a_consumer_that_goes_while_it_is_read_is_read_again(fake):
    """Its provider still had it, and it had nothing any more: the second reading knows neither."""
    fake.on("GET", "/resource_providers/a/allocations", HOLDS, NOTHING)
    plan = plan_reshape(read(fake), [vgpu("a", "b", 8)])
    assert plan.to_json()["allocations"] == {}


def test_allocations_that_never_rest_are_told(fake):
    """A line, and no plan of what is in nobody's hands."""
    fake.on("GET", "/resource_providers/a/allocations", HOLDS)
    with pytest.raises(PlacementError, match="the allocations change while they are read; try again"):
        read(fake)
