# SPDX-License-Identifier: Apache-2.0
"""All guards together: what one of them refuses may be what others depend on."""

from types import SimpleNamespace

from osc_placement.batch.facets import ProviderState, describe_identity
from osc_placement.batch.guards import guard
from osc_placement.batch.plan import Change, Plan, Policy, Reading
from osc_placement.batch.repeat import StateEdit
from osc_placement.microversion import MAX
from osc_placement.model import Provider


def rename(uuid, before, after, traits):
    """The change of a provider's name, and from these traits to none."""
    images = zip((before, after), (traits, ()), strict=True)
    states = [
        ProviderState(traits=frozenset(each), identity=describe_identity(name)) for name, each in images
    ]
    return Change(Provider(uuid, before, 1), *states)


def test_a_resume_refuses_what_depends_on_a_change_that_would_drop_managed_traits():
    """Of two names that are swapped, the second stays where the first does."""
    steps = (rename("a", "one", "two", ["HW_0"]), rename("b", "two", "one", ["CUSTOM_A"]))
    plan = Plan(StateEdit("apply", ("traits",)), steps, is_staged=True, goes_on=True)
    readings = [Reading(step.subject, step.before) for step in steps]
    policy = Policy("keep", keeps_managed=True)
    client = SimpleNamespace(version=MAX, allow_concurrency=lambda _number: None)
    judged = guard(client, plan, policy, readings)
    assert "it would lose HW_0" in str(judged.refused["a"])
    assert str(judged.refused["b"]) == "resource provider a keeps the name one"
