# SPDX-License-Identifier: Apache-2.0
"""A change taken back: ours goes where it is still ours, and what others set since stays."""

import pytest
from hypothesis import given

from osc_placement.batch.atomic import NotDone, NotRolledBack, execute_atomically
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.plan import Change, Plan, ProviderState, describe_owner
from osc_placement.batch.recovery import _undo_step
from osc_placement.batch.takeback import take_back
from osc_placement.model import Inventory, Provider
from tests.unit.batch.test_repeat import EXAMPLES, STATES
from tests.unit.fake_placement import FakePlacement, error

NODE = Provider("p", "p", 3)
OLD, OURS, THEIRS = Inventory(8), Inventory(8, allocation_ratio=4.0), Inventory(8, allocation_ratio=9.0)


def stock(**inventories):
    return ProviderState(inventories=inventories)


@EXAMPLES
@given(STATES, STATES)
def test_what_nobody_touched_goes_back_whole(before, after):
    """As it was, all of it."""
    assert take_back(Change(NODE, before, after), after) == (before, True)


@EXAMPLES
@given(STATES, STATES)
def test_what_is_back_already_stays(before, after):
    """A lost answer of the way back is no reason to go it twice."""
    assert take_back(Change(NODE, before, after), before) == (before, True)


@pytest.mark.parametrize(
    ("before", "after", "now", "back", "whole"),
    [
        (stock(VCPU=OLD), stock(VCPU=OURS), stock(VCPU=THEIRS), stock(VCPU=THEIRS), False),
        (stock(VCPU=OLD), stock(VCPU=OURS), stock(), stock(), False),
        (stock(), stock(VCPU=OURS), stock(VCPU=THEIRS), stock(VCPU=THEIRS), False),
        (stock(VCPU=OLD), stock(), stock(VCPU=THEIRS), stock(VCPU=THEIRS), False),
        (
            stock(VCPU=OLD),
            stock(VCPU=OURS),
            stock(VCPU=Inventory(8, reserved=2, allocation_ratio=4.0), DISK_GB=OLD),
            stock(VCPU=Inventory(8, reserved=2), DISK_GB=OLD),
            True,
        ),
        (
            stock(VCPU=OLD),
            stock(VCPU=Inventory(12, allocation_ratio=4.0)),
            stock(VCPU=Inventory(12, allocation_ratio=9.0)),
            stock(VCPU=THEIRS),
            False,
        ),
        (
            ProviderState(allocations={"a": {"VCPU": 1}}),
            ProviderState(allocations={"a": {"VCPU": 2}}),
            ProviderState(allocations={"a": {"VCPU": 3}}),
            ProviderState(allocations={"a": {"VCPU": 3}}),
            False,
        ),
        (
            ProviderState(owner=describe_owner("p1", "u")),
            ProviderState(owner=describe_owner("p2", "u")),
            ProviderState(owner=describe_owner("p3", "u")),
            ProviderState(owner=describe_owner("p3", "u")),
            False,
        ),
    ],
)
def test_what_others_set_stays(before, after, now, back, whole):
    """Also where they set what we had set."""
    assert take_back(Change(NODE, before, after), now) == (back, whole)


def test_what_a_database_rounds_was_changed_by_nobody():
    """MariaDB keeps six digits."""
    before, after = stock(VCPU=OLD), stock(VCPU=Inventory(8, allocation_ratio=1.23456789))
    now = stock(VCPU=Inventory(8, allocation_ratio=1.23457))
    assert take_back(Change(NODE, before, after), now) == (before, True)


def test_undo_with_force_leaves_what_others_set():
    """As its help says, also for the field that the run had set."""
    step, refusal = _undo_step(
        Change(NODE, stock(VCPU=OLD), stock(VCPU=OURS)), NODE, stock(VCPU=THEIRS), force=True
    )
    assert (refusal, step.facets) == (None, ())


def test_rolling_back_leaves_what_others_set_and_says_so():
    """The part behind it fails; the ratio that a stranger set on the first provider stays, and is told."""
    generation = {"resource_provider_generation": 5}
    inventories = {"inventories": {"VCPU": THEIRS.to_json()}, **generation}
    fake = FakePlacement().on("GET", "/resource_providers/a/inventories", inventories)
    fake.on("POST", "/reshaper", (413, ""), (204, ""), error(400, "broken"), (204, ""))
    changes = tuple(Change(Provider(name, name, 3), stock(VCPU=OLD), stock(VCPU=OURS)) for name in ("a", "b"))
    report = execute_atomically(fake.client(), Plan(RatioEdit({"VCPU": 4.0}), changes))
    assert fake.lines.count("POST /reshaper") == 3
    assert [type(outcome.error) for outcome in report.outcomes] == [NotRolledBack, NotDone]
    assert report.halted == (
        "1 resource provider changed and not put back: somebody changed the same since, which stays"
    )
