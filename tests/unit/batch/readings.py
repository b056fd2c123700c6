# SPDX-License-Identifier: Apache-2.0
"""Readings, and a report, of an edit that adds a trait."""

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Outcome, Reading, Report, make_plan, plan_change
from osc_placement.errors import PlacementError
from osc_placement.model import Provider

EDIT = TraitEdit("add", frozenset("A"))


def reading(name, *traits):
    return Reading(Provider(name, name, 1), ProviderState(traits=frozenset(traits)))


def unreadable(name):
    return Reading(Provider(name, name, 1), error=PlacementError(f"{name} is broken"))


def report(*results):
    change = plan_change(EDIT, Provider("p", "p", 1), ProviderState(traits=frozenset()))
    return Report(make_plan(EDIT, []), tuple(Outcome(change, result) for result in results))
