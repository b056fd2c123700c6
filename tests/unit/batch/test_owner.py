# SPDX-License-Identifier: Apache-2.0
"""The owner of a consumer is read, compared, written, journalled and merged like anything else it has."""

from dataclasses import replace

from osc_placement.batch.difference import describe_difference
from osc_placement.batch.facets import ProviderState, describe_owner
from osc_placement.batch.journal.record import change_from_json, change_to_json
from osc_placement.batch.plan import Change, Consumer
from osc_placement.batch.repeat import Repeat
from osc_placement.batch.select import read_consumer
from osc_placement.batch.writers.provider import write_change
from tests.unit.fake_placement import FakePlacement

HELD = {"rp": {"VCPU": 1}}
OURS, THEIRS = describe_owner("p1", "u1"), describe_owner("p2", "u1")
BEFORE, AFTER = ProviderState(allocations=HELD, owner=THEIRS), ProviderState(allocations=HELD, owner=OURS)
CHANGE = Change(Consumer("c", 4, "p2", "u1", "INSTANCE"), BEFORE, AFTER)


def written(change):
    """What is sent for a change."""
    placement = FakePlacement().on("PUT", "/allocations/c", (204, ""))
    list(write_change(placement.client(), change))
    return [asked.body for asked in placement.asked if asked.method == "PUT"]


def test_owner_is_read_with_the_allocations():
    """A consumer that holds something has one, and one that holds nothing has none."""
    document = {
        "allocations": {"rp": {"resources": {"VCPU": 1}}},
        "project_id": "p2",
        "user_id": "u1",
        "consumer_generation": 4,
    }
    placement = FakePlacement().on("GET", "/allocations/c", document, {"allocations": {}})
    assert read_consumer(placement.client(), Consumer("c"))[1] == BEFORE
    assert read_consumer(placement.client(), Consumer("c"))[1].owner is None


def test_owner_is_written_with_the_allocations_that_are_there():
    """One request gives the same allocations to the other owner."""
    (body,) = written(CHANGE)
    assert (body["project_id"], body["user_id"], body["consumer_generation"]) == ("p1", "u1", 4)
    assert body["allocations"] == {"rp": {"resources": {"VCPU": 1}}}


def test_owner_and_allocations_are_one_request():
    """When both change, they change together."""
    (body,) = written(replace(CHANGE, after=replace(AFTER, allocations={"rp": {"VCPU": 2}})))
    assert (body["project_id"], body["allocations"]["rp"]["resources"]) == ("p1", {"VCPU": 2})


def test_change_of_owner_survives_a_journal():
    """What is written to a journal comes back."""
    assert change_from_json(change_to_json(CHANGE)) == CHANGE


def test_difference_of_owners_is_told():
    """Only what differs: here the project."""
    assert describe_difference(BEFORE, AFTER) == (["project_id=p2"], ["project_id=p1"])


def test_change_of_owner_is_made_again_on_other_allocations():
    """Somebody else's change of amounts stays."""
    now = ProviderState(allocations={"rp": {"VCPU": 8}}, owner=THEIRS)
    assert Repeat("", CHANGE).decide(now).after == replace(now, owner=OURS)
