# SPDX-License-Identifier: Apache-2.0
"""The traits that nova-compute reports, and what a plan says of their loss."""

from dataclasses import replace

import os_traits
import pytest

from osc_placement.batch.facets import ABSENT, ProviderState, describe_identity
from osc_placement.batch.guards.managed import describe_dropped, find_dropped, find_managed, guard_managed
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, Plan, Policy
from osc_placement.batch.repeat import StateEdit
from osc_placement.batch.undo import UndoEdit
from osc_placement.model import Provider


def change(before, after, name="p"):
    """The change of a provider's traits."""
    states = [ProviderState(traits=frozenset(traits)) for traits in (before, after)]
    return Change(Provider(name, name, 1), *states)


def test_managed_traits_are_standard_ones_of_computes_and_hardware():
    """Of the standard traits, those that nova-compute does not report have other prefixes."""
    others = set(os_traits.get_traits()) - find_managed(os_traits.get_traits())
    assert {name.partition("_")[0] for name in others} == {"MISC", "OWNER", "STORAGE"}
    assert "OWNER_CYBORG" in others
    assert find_managed(["CUSTOM_HW_X", "OWNER_NOVA", "HW_X", "COMPUTE_NODE"]) == {
        "OWNER_NOVA",
        "HW_X",
        "COMPUTE_NODE",
    }


def test_deleted_provider_drops_nothing():
    """It loses its traits with all else."""
    step = change(["COMPUTE_NODE"], [])
    assert find_dropped(step) == {"COMPUTE_NODE"}
    gone = replace(
        step,
        before=replace(step.before, identity=describe_identity("p")),
        after=replace(step.after, identity=ABSENT),
    )
    assert find_dropped(gone) == frozenset()


def test_most_frequent_traits_are_named_first_and_the_rest_is_counted():
    """A libvirt host has some eighty."""
    steps = [change([f"HW_{number}" for number in range(9)], []), change(["HW_8", "CUSTOM_A"], ["HW_0"], "q")]
    assert describe_dropped(steps) == (
        "2 resource providers, such as p, lose traits that nova-compute reports: HW_8 (2), HW_0 (1), "
        "HW_1 (1), HW_2 (1), HW_3 (1), HW_4 (1), HW_5 (1), HW_6 (1) and 1 more"
    )
    assert describe_dropped([change(["CUSTOM_A"], ["HW_0"])]) == ""


@pytest.mark.parametrize(
    ("edit", "is_guarded"),
    [
        (TraitEdit("set", frozenset()), True),
        (StateEdit("apply", ("traits",)), True),
        (TraitEdit("remove", frozenset(["HW_0"])), False),
        (UndoEdit("undo", ("traits",), force=False), False),
    ],
)
def test_only_edits_that_replace_traits_are_guarded(edit, is_guarded):
    """Others name what they remove, or restore it."""
    policy = Policy(keeps_managed=True)
    plan = guard_managed(Plan(edit, (change(["HW_0"], []),), policy=policy))
    found = plan.policy.keeps_managed, bool(plan.warnings), bool(plan.objection), bool(plan.refused)
    assert found == (is_guarded, is_guarded, is_guarded, False)
    again = guard_managed(Plan(edit, (change(["HW_0"], []),), policy=policy, goes_on=True))
    assert (bool(again.objection), bool(again.refused)) == (False, is_guarded)


def test_policy_that_lets_managed_traits_go_warns_of_them():
    """What is written all the same is told before."""
    plan = guard_managed(Plan(TraitEdit("set", frozenset()), (change(["HW_0"], []),)))
    told = "p loses traits that nova-compute reports: HW_0 (1)"
    assert (plan.warnings, plan.objection, plan.refused) == ((told,), "", {})
