# SPDX-License-Identifier: Apache-2.0
"""Writing the allocations of a consumer, as far as they are unlike what is written to providers."""

import pytest

from osc_placement import codes
from osc_placement.batch.attempt import run_change
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import Change, Consumer, Result
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.writers.provider import write_change
from osc_placement.errors import Conflict
from tests.unit.fake_placement import FakePlacement, error

CONFLICT = error(409, "consumer generation conflict", code=codes.CONCURRENT_UPDATE)


def write(placement, generation):
    """Write the first allocations of a consumer; the generations that were sent."""
    consumer = Consumer("c", generation, "project", "user", "INSTANCE")
    before, after = ProviderState(allocations={}), ProviderState(allocations={"rp": {"VCPU": 1}})
    assert list(write_change(placement.client(), Change(consumer, before, after))) == [None]
    return [asked.body["consumer_generation"] for asked in placement.asked if asked.method == "PUT"]


def test_consumer_that_a_refused_write_left_behind_is_written():
    """The reference keeps it at generation 0, and refuses None for ever."""
    placement = FakePlacement().on("PUT", "/allocations/c", CONFLICT, (204, ""))
    assert write(placement, None) == [None, 0]


def test_conflict_with_a_known_generation_is_for_the_caller():
    """Only who said that there is no consumer may be wrong in this way."""
    placement = FakePlacement().on("PUT", "/allocations/c", CONFLICT)
    with pytest.raises(Conflict):
        write(placement, 3)
    assert len([asked for asked in placement.asked if asked.method == "PUT"]) == 1


def test_consumer_without_a_type_stays_without():
    """From 1.38 on a type must be given, and what such a consumer is shown with is none."""
    placement = FakePlacement().on("PUT", "/allocations/c", (204, ""))
    consumer = Consumer("c", 1, "project", "user", "unknown")
    before, after = ProviderState(allocations={}), ProviderState(allocations={"rp": {"VCPU": 1}})
    list(write_change(placement.client(), Change(consumer, before, after)))
    (asked,) = (asked for asked in placement.asked if asked.method == "PUT")
    assert "consumer_type" not in asked.body
    assert asked.headers["openstack-api-version"] == "placement 1.37"


@pytest.mark.parametrize("is_refused", [True, False], ids=("refused", "read"))
@pytest.mark.parametrize(
    "held",
    [{"other": {"resources": {"VCPU": 1}}}, {"rp": {"resources": {"VCPU": 8}}}],
    ids=("moved", "resized"),
)
def test_consumer_that_somebody_gave_something_else_is_left_alone(held, is_refused):
    """A plan for what it held is not joined with what it holds: that might be twice, or nothing.

    Its generation says nothing if it was emptied in between.
    """
    before = {"rp": {"VCPU": 1}, "stale": {"VCPU": 1}}
    planned_on = {uuid: {"resources": amounts} for uuid, amounts in before.items()}
    placement = FakePlacement().on("PUT", "/allocations/c", CONFLICT)
    shown = {"project_id": "project", "user_id": "user", "consumer_type": "INSTANCE"}
    shown |= {"consumer_generation": 3}
    readings = [shown | {"allocations": planned_on}] if is_refused else []
    placement.on("GET", "/allocations/c", *readings, shown | {"allocations": held})
    change = Change(
        Consumer("c", 3, "project", "user", "INSTANCE"),
        ProviderState(allocations=before),
        ProviderState(allocations={"rp": {"VCPU": 1}}),
    )
    outcome = run_change(placement.client(), change, Recorded("audit", ("allocations",)))
    assert (outcome.result, "look again" in str(outcome.error)) == (Result.FAILED, True)
    assert outcome.untouched
    assert placement.lines.count("PUT /allocations/c") == is_refused
