# SPDX-License-Identifier: Apache-2.0
"""Warnings and refusals for lack of capacity."""

from dataclasses import replace

import pytest

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ABSENT, ProviderState, describe_identity
from osc_placement.batch.guards.advice import advise
from osc_placement.batch.guards.capacity import find_excesses
from osc_placement.batch.inventory import InventoryEdit, RatioEdit
from osc_placement.batch.plan import Change, Plan, Policy, Reading, make_plan
from osc_placement.batch.repeat import Recorded
from osc_placement.model import Inventory, Provider


def step(after):
    """The change of a provider with 8 VCPU to this many."""
    images = (
        ProviderState({"VCPU": Inventory(8)}),
        ProviderState({"VCPU": Inventory(after)} if after else {}),
    )
    return Change(Provider("p", "p", 1), *images)


def deletion():
    """The deletion of a provider with 8 VCPU."""
    change = step(0)
    return replace(
        change,
        before=replace(change.before, identity=describe_identity("p")),
        after=replace(change.after, identity=ABSENT),
    )


def consumer(before, after):
    """The change of what a consumer holds."""
    images = [ProviderState(allocations={"p": {"VCPU": each}} if each else {}) for each in (before, after)]
    return Change(Consumer("k"), *images)


@pytest.mark.parametrize(
    ("steps", "used", "warning"),
    [
        ((step(0), consumer(2, 0)), 2, None),
        ((step(4), consumer(6, 3)), 6, None),
        ((step(4), consumer(0, 3)), 2, "over capacity by 1: 5 allocated, the capacity would be 4"),
    ],
)
def test_a_staged_plan_is_judged_by_what_its_consumers_leave(steps, used, warning):
    """Of an undo of an apply, a provider and its consumer go together."""
    plan = Plan(Recorded("undo", ()), steps, is_staged=True, policy=Policy("exceed"))
    advised = advise(plan, {"p": {"VCPU": used}})
    assert list(advised.warnings) == ([f"p: VCPU would be {warning}"] if warning else [])


@pytest.mark.parametrize(
    ("fields", "having", "lacking", "number"),
    [
        ({"total": 4}, 2, 1, "1 resource provider of 3 has"),
        ({"total": 4}, 1, 2, "2 resource providers of 3 have"),
        ({"total": 4}, 0, 2, None),
        ({"total": 4}, 2, 0, None),
        ({"reserved": 4}, 2, 1, None),
    ],
)
def test_a_total_that_adds_inventories_to_some_providers_is_warned_of(fields, having, lacking, number):
    """As for VCPU=4 in place of VCPU:reserved=4; where all get an inventory, that is what is wanted."""
    kinds = ["old"] * having + ["new"] * lacking
    readings = [
        Reading(
            Provider(f"p{each}", f"p{each}", 1),
            ProviderState({"VCPU": Inventory(8)} if kind == "old" else {}),
        )
        for each, kind in enumerate(kinds)
    ]
    plan = make_plan(InventoryEdit({"VCPU": fields}), readings)
    told = f"{number} no inventory of VCPU and would get one with VCPU:total=4"
    assert advise(plan, {}).warnings == ((told,) if number else ())
    assert advise(replace(plan, goes_on=True), {}).warnings == ()


def test_the_option_of_nova_is_named_once():
    """Not again where the run is resumed."""
    state = ProviderState({"VCPU": Inventory(8)})
    plan = make_plan(RatioEdit({"VCPU": 2.0}), [Reading(Provider("p", "p", 1), state)])
    told = "nova-compute overwrites this where nova.conf sets cpu_allocation_ratio"
    assert advise(plan, {}).warnings == (told,)
    assert advise(replace(plan, goes_on=True), {}).warnings == ()


def test_a_class_that_goes_with_what_is_allocated_of_it_is_not_in_use():
    """As in the undo of a bare metal move, which gives the instance what it had before."""
    images = [
        ProviderState({name: Inventory(2)}, allocations={"k": {name: 2}}) for name in ("CUSTOM_METAL", "VCPU")
    ]
    plan = Plan(Recorded("undo", ()), (Change(Provider("p", "p", 1), *images),), policy=Policy("exceed"))
    assert advise(plan, {"p": {"CUSTOM_METAL": 2}}).refused == {}
    assert list(advise(plan, {"p": {"CUSTOM_METAL": 3}}).refused) == ["p"]


def test_a_consumer_that_is_not_changed_leaves_what_it_holds():
    """As when somebody changed it since, and the undo of its change is refused."""
    steps, refused = (step(1), consumer(2, 0)), {"k": ValueError()}
    plan = Plan(Recorded("undo", ()), steps, refused=refused, is_staged=True, policy=Policy("exceed"))
    advised = advise(plan, {"p": {"VCPU": 2}})
    assert advised.warnings == ("p: VCPU would be over capacity by 1: 2 allocated, the capacity would be 1",)


@pytest.mark.parametrize("capacity", ["keep", "exceed"])
@pytest.mark.parametrize("change", [step(0), deletion()], ids=["inventory", "provider"])
def test_what_is_in_use_is_not_removed_even_if_overcommitment_is_allowed(change, capacity):
    """The server refuses it, and no option changes that."""
    steps = (change, consumer(3, 1))
    plan = Plan(Recorded("apply", ()), steps, is_staged=True, policy=Policy(capacity))
    advised = advise(plan, {"p": {"VCPU": 4}})
    assert {uuid: str(error) for uuid, error in advised.refused.items()} == {
        "p": "in use: 2 VCPU allocated; keep it, or move the allocations first"
    }
    assert not advised.warnings


@pytest.mark.parametrize("capacity", ["keep", "exceed"])
def test_reserving_more_than_the_total_is_refused(capacity):
    """No option makes a server accept it, and no negative capacity is told."""
    change = Change(
        Provider("p", "p", 1),
        ProviderState({"VCPU": Inventory(8)}),
        ProviderState({"VCPU": Inventory(8, reserved=148)}),
    )
    plan = Plan(Recorded("edit", ()), (change,), policy=Policy(capacity))
    refused = advise(plan, {"p": {"VCPU": 2}}).refused
    told = "VCPU would have 148 reserved of a total of 8; reserve at most the total"
    assert {uuid: str(error) for uuid, error in refused.items()} == {"p": told}


def test_warnings_leave_out_what_is_refused_and_what_nobody_uses():
    """Below no capacity at all, nothing that is allocated is missing unless something is allocated."""
    images = [ProviderState({"VCPU": Inventory(total, reserved=4)}) for total in (8, 3)]
    steps = tuple(Change(Provider(name, name, 1), *images) for name in ("used", "idle"))
    for capacity in ("keep", "exceed"):
        plan = Plan(Recorded("edit", ()), steps, policy=Policy(capacity))
        advised = advise(plan, {"used": {"VCPU": 2}})
        told = "VCPU would have 4 reserved of a total of 3; reserve at most the total"
        assert {uuid: str(error) for uuid, error in advised.refused.items()} == {"used": told, "idle": told}
        assert not advised.warnings


def test_capacity_below_zero_is_not_overcommitted_without_allocations():
    """Data of old servers may have more reserved than the total."""
    images = [ProviderState({"VCPU": Inventory(8, reserved=9, allocation_ratio=each)}) for each in (1.0, 2.0)]
    assert find_excesses(Change(Provider("p", "p", 1), *images), {"VCPU": 0}) == []
