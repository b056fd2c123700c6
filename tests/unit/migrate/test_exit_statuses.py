# SPDX-License-Identifier: Apache-2.0
"""The exit statuses of nova-manage, for what came of a run."""

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result
from osc_placement.migrate import exit_statuses
from osc_placement.migrate.commands import Tally
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.migrate.runner import Run
from osc_placement.model import Provider

CHANGE = Change(
    Provider("u", "h1", 0, None, "u"), ProviderState(traits=frozenset()), ProviderState(traits=frozenset("A"))
)
PLAN = Plan(TraitEdit("add", frozenset("A")), (CHANGE,))


@pytest.mark.parametrize("result", [Result.APPLIED, Result.SKIPPED])
@pytest.mark.parametrize(
    ("status_of", "done", "halted"),
    [(exit_statuses.of_sync, 0, 3), (exit_statuses.of_heal, 0, 3), (exit_statuses.of_audit, 4, 1)],
)
def test_halted_run_has_a_failure_status(status_of, done, halted, result):
    """Nobody interrupted it and no change failed, and yet it is not done."""
    outcomes = (Outcome(CHANGE, result),)
    stopped = Run(Report(PLAN, outcomes, halted="stopped: no space left on device"))
    assert status_of(Assessment(PLAN), stopped) == halted
    assert status_of(Assessment(PLAN), Run(Report(PLAN, (Outcome(CHANGE, Result.APPLIED),)))) == done


@pytest.mark.parametrize(("others", "status"), [((), 1), ((Reason.PORT,), 3)])
def test_healing_with_only_binding_profiles_left_is_stopped_by_its_limit(others, status):
    """As it is if allocations are left; what failed is graver."""
    problems = [Problem(reason, "instance i", "why") for reason in (Reason.LATER, *others)]
    run = Run(Report(PLAN, (Outcome(CHANGE, Result.APPLIED),)))
    assert exit_statuses.of_heal(Assessment(PLAN, problems), run) == status
    tally = Tally()
    tally.add("heal-allocations", Assessment(PLAN, problems), run)
    assert tally.status == 1


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (Problem(Reason.UNKNOWN, "neutron", "why"), 5),
        (Problem(Reason.UNKNOWN, "cell c", "why"), 3),
        (Problem(Reason.DEVICE, "instance i", "why"), 8),
        (Problem(Reason.CONFLICT, "instance i", "why"), 3),
    ],
)
def test_healing_tells_neutron_and_accelerators_apart(problem, status):
    """As nova-manage does, which has a status for each."""
    run = Run(Report(PLAN, (Outcome(CHANGE, Result.APPLIED),)))
    assert exit_statuses.of_heal(Assessment(PLAN, [problem]), run) == status
