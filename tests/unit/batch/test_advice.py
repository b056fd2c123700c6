# SPDX-License-Identifier: Apache-2.0
"""Warnings and refusals for lack of capacity."""

import pytest

from osc_placement.api.consumer import Consumer
from osc_placement.batch.advice import advise
from osc_placement.batch.plan import Change, Plan, ProviderState
from osc_placement.batch.repeat import Recorded
from osc_placement.model import Inventory, Provider


def step(after):
    """The change of a provider with 8 VCPU to this many."""
    images = (
        ProviderState({"VCPU": Inventory(8)}),
        ProviderState({"VCPU": Inventory(after)} if after else {}),
    )
    return Change(Provider("p", "p", 1), *images)


def consumer(before, after):
    """The change of what a consumer holds."""
    images = [ProviderState(allocations={"p": {"VCPU": each}} if each else {}) for each in (before, after)]
    return Change(Consumer("k"), *images)


@pytest.mark.parametrize(
    ("steps", "used", "warning"),
    [
        ((step(0), consumer(2, 0)), 2, None),
        ((step(0), consumer(2, 0)), 5, "over capacity by 3: 3 allocated, 0 left"),
        ((step(4), consumer(6, 3)), 6, None),
        ((step(4), consumer(0, 3)), 2, "over capacity by 1: 5 allocated, 4 left"),
    ],
)
def test_a_staged_plan_is_judged_by_what_its_consumers_leave(steps, used, warning):
    """Of an undo of an apply, a provider and its consumer go together."""
    plan = Plan(Recorded("undo", ()), steps, is_staged=True)
    advised = advise(plan, {"p": {"VCPU": used}}, allow_overcommitted=True)
    assert list(advised.warnings) == ([f"p: VCPU would be {warning}"] if warning else [])


def test_a_consumer_that_is_not_changed_leaves_what_it_holds():
    """As when somebody changed it since, and the undo of its change is refused."""
    plan = Plan(Recorded("undo", ()), (step(0), consumer(2, 0)), refused={"k": ValueError()}, is_staged=True)
    advised = advise(plan, {"p": {"VCPU": 2}}, allow_overcommitted=True)
    assert advised.warnings == ("p: VCPU would be over capacity by 2: 2 allocated, 0 left",)
