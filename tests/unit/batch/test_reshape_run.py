# SPDX-License-Identifier: Apache-2.0
"""What a reshape reads, while others write."""

import pytest
import requests

from osc_placement.api import retry
from osc_placement.batch import execute
from osc_placement.batch.reshape import Moves
from osc_placement.batch.reshape_run import read_world
from osc_placement.batch.service import Job
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory
from tests.unit.batch.test_reshape import vgpu
from tests.unit.fake_placement import FakePlacement, error

HOLDS = {"allocations": {"c1": {"resources": {"VGPU": 3}}}}
MOVES = Moves([vgpu("a", "b", 8)])
NOTHING = {"allocations": {}}


@pytest.fixture
def fake(monkeypatch):
    """Two providers, the first with eight VGPU; nobody waits."""
    monkeypatch.setattr(retry, "_LONGEST_PAUSE", 0.0)
    fake = FakePlacement().on("GET", "/allocations/c1", NOTHING)
    for uuid, inventories in (("a", {"VGPU": Inventory(8).to_json()}), ("b", {})):
        path = f"/resource_providers/{uuid}"
        fake.on("GET", path, {"uuid": uuid, "name": uuid, "generation": 3})
        fake.on("GET", f"{path}/inventories", {"inventories": inventories, "resource_provider_generation": 3})
        fake.on("GET", f"{path}/allocations", NOTHING)
    return fake


def read(fake):
    return read_world(fake.client(), MOVES.classes)


def test_a_consumer_that_goes_while_it_is_read_is_read_again(fake):
    """Its provider still had it, and it had nothing any more: the second reading knows neither."""
    fake.on("GET", "/resource_providers/a/allocations", HOLDS, NOTHING)
    plan = MOVES.plan(read(fake))
    assert plan.to_json()["allocations"] == {}


def test_endlessly_changing_allocations_are_an_error(fake):
    """A line, and no plan of what is in nobody's hands."""
    fake.on("GET", "/resource_providers/a/allocations", HOLDS)
    with pytest.raises(PlacementError, match="the allocations change while they are read; try again"):
        read(fake)


@pytest.mark.parametrize(
    ("answer", "is_certain"),
    [
        ((403, "<html>Forbidden</html>"), False),
        ((401, "<html>Unauthorized</html>"), False),
        ((502, "<html>Bad Gateway</html>"), False),
        (requests.ConnectionError("reset"), False),
        (error(403, "not yours"), True),
        (error(409, "no room", code="placement.undefined_code"), True),
    ],
)
def test_a_reshape_is_said_to_change_nothing_only_where_that_is_certain(fake, answer, is_certain):
    """What was not done when it was read back may be done later, where the answer was lost."""
    fake.on("POST", "/reshaper", answer)
    job = Job.for_reshape(fake.client(), MOVES)
    report = execute.execute_reshape(fake.client(), job.reshape, job.plan)
    assert report.halted.startswith("nothing was changed: ") is is_certain
    assert report.halted.endswith("so look before you try it again") is not is_certain
    assert ("may reshape" in report.halted) is (is_certain and "not yours" in report.halted)


def test_reshape_that_is_found_done_says_so(fake, monkeypatch):
    """Its changes are unchanged in the result, and have a reason as those of other runs."""
    transaction = Job.for_reshape(fake.client(), MOVES).reshape
    monkeypatch.setattr(Moves, "is_done", lambda _moves, _world: True)
    assert transaction.plan_again() == ()
    assert {change.reason for change in transaction.changes} == {"was done already"}
