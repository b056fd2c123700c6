# SPDX-License-Identifier: Apache-2.0
"""Plans, runs and problems as text: at most a screen on a terminal, and everything elsewhere."""

import pytest

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result
from osc_placement.batch.repeat import Recorded
from osc_placement.errors import PlacementError
from osc_placement.migrate.migrations.base import Assessment, Grant
from osc_placement.migrate.migrations.port_claims import describe_grant
from osc_placement.migrate.nova.ports import Port
from osc_placement.migrate.output import Sheet, describe_plan, describe_problems, describe_run
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.migrate.runner import Run
from osc_placement.model import Provider
from osc_placement.report.changes import Page
from osc_placement.report.runs import NextCommands
from osc_placement.terminal.lines import count_lines

HOSTS = 10_000
RACK, HOST = "8a2f0d1c-0000-4000-8000-000000000001", "8a2f0d1c-0000-4000-8000-000000000002"
MOST_LINES = 60
UNDO = "placement-migrate --config-file /etc/nova/nova.conf --timeout 30 run undo 20261121T102540-6ecc6d"
COMMANDS = NextCommands("20261121T102540-6ecc6d", dict.fromkeys(("show", "resume", "undo"), UNDO))


def name_of(number):
    return f"8a2f0d1c-0000-4000-8000-{number:012}"


def make_changes(number):
    """Providers that join an aggregate."""
    before, after = ProviderState(aggregates=frozenset()), ProviderState(aggregates=frozenset({RACK}))
    return tuple(
        Change(Provider(name_of(each), f"compute{each:05}", 1), before, after) for each in range(number)
    )


def make_problems(number):
    """Hosts that are left alone for one reason, and instances for reasons of their own."""
    return [
        *(
            Problem(
                Reason.NO_PROVIDER, f"host compute{each:05}", f"placement has no provider {name_of(each)}"
            )
            for each in range(number)
        ),
        *(Problem(Reason.BUSY, f"instance {name_of(each)}", f"it is doing {each}") for each in range(number)),
    ]


def make_assessment(changes, problems=()):
    plan = Plan(Recorded("aggregates", ("aggregates",)), changes)
    return Assessment(plan, problems, names={RACK: "rack1", HOST: "compute1"})


def open_page(assessment, width, *, is_full=False):
    """The page of a terminal, or of a pipe, with space for what follows."""
    return Sheet.open(width, assessment.names, 12, is_full=is_full)


def make_run(assessment, make_outcome):
    return Run(Report(assessment.plan, tuple(map(make_outcome, assessment.plan.changes))), "ID")


def apply(change):
    return Outcome(change, Result.APPLIED)


def fail(change):
    return Outcome(change, Result.FAILED, error=PlacementError(f"refused for its {hash(change.subject)}"))


def test_problems_with_the_same_reason_are_one_line_on_a_terminal():
    """Names and UUIDs in the reason do not make it a different one; what is another kind of thing does."""
    problems = [*make_problems(30)[:30], Problem(Reason.UNKNOWN, "cell cell2", "refused")]
    assert describe_problems(problems, Page(80), "Left alone: ", "(all)") == [
        "Left alone: host compute00000 and 29 more: placement has no provider",
        name_of(0),
        "Left alone: cell cell2: refused",
        "(all)",
    ]


def test_few_problems_have_a_line_each_on_a_terminal():
    """As many as a screen has space for."""
    problems = make_problems(3)
    lines = describe_problems(problems, Page(120), "Left alone: ", "(all)")
    assert lines == [f"Left alone: {problem}" for problem in problems]


def test_problems_elsewhere_have_a_line_each():
    """Pipes and files get all of them."""
    problems = make_problems(100)
    assert describe_problems(problems, Page(), "Left alone: ", "(all)") == [
        f"Left alone: {problem}" for problem in problems
    ]


def test_plan_counts_changes_by_names_on_a_terminal():
    """An aggregate has the name that nova has for it."""
    assessment = make_assessment(make_changes(HOSTS))
    assert describe_plan(assessment, assessment.plan, 0, open_page(assessment, 80)) == [
        "   10,000  +rack1",
        "(--full shows each of them)",
        "aggregates: 10,000 to change",
    ]


def test_allocations_have_the_names_of_their_providers_on_a_terminal():
    """In place of the UUIDs that placement has."""
    before, after = ProviderState(allocations={}), ProviderState(allocations={HOST: {"VCPU": 2}})
    assessment = make_assessment((Change(Consumer("instance"), before, after),))
    lines = describe_plan(assessment, assessment.plan, 0, open_page(assessment, 80))
    assert "| instance | +compute1:VCPU=2 |" in lines


@pytest.mark.parametrize("outcome", [apply, fail])
@pytest.mark.parametrize("number", [1, 20, 21, HOSTS])
def test_run_fits_a_screen(number, outcome):
    """Whatever fails and whatever is left alone; 6 lines are for a sentence about the cloud."""
    assessment = make_assessment(make_changes(number), make_problems(number))
    for lines in (
        describe_run(make_run(assessment, outcome), assessment, COMMANDS, open_page(assessment, 80)),
        describe_plan(assessment, assessment.plan, 0, open_page(assessment, 80)),
    ):
        assert count_lines(list(filter(None, lines)), 80) <= MOST_LINES - 6


@pytest.mark.parametrize(("width", "is_full"), [(None, False), (80, True)], ids=["pipe", "long"])
def test_run_is_whole_in_a_pipe_and_with_long(width, is_full):
    """A row for each change, the name first, and a line for each problem."""
    assessment = make_assessment(make_changes(100), make_problems(100))
    page = open_page(assessment, width, is_full=is_full)
    lines = "\n".join(describe_run(make_run(assessment, fail), assessment, COMMANDS, page)).split("\n")
    assert sum(line.startswith("| compute") for line in lines) == 100
    assert sum(line.startswith("Left alone: ") for line in lines) == 200


def test_long_table_fits_the_width_of_the_terminal():
    """It has the columns of a batch, without UUIDs."""
    assessment = make_assessment(make_changes(100))
    lines = describe_plan(assessment, assessment.plan, 0, open_page(assessment, 80, is_full=True))
    assert lines[1].split() == ["|", "name", "|", "change", "|"]
    assert max(map(len, lines)) <= 80


def test_commands_that_follow_are_whole_and_in_lines_of_their_own():
    """They are to be pasted; one that does not fit beside its label is below it."""
    assessment = make_assessment(make_changes(1))
    run = make_run(assessment, apply)
    lines = describe_run(run, assessment, COMMANDS, open_page(assessment, 80))
    assert lines[-7:] == ["Run 20261121T102540-6ecc6d", "show:", UNDO, "resume:", UNDO, "undo:", UNDO]
    assert describe_run(run, assessment, COMMANDS, open_page(assessment, 300))[-1] == f"undo:   {UNDO}"
    assert describe_run(make_run(assessment, apply), assessment, COMMANDS, open_page(assessment, None))[
        -1
    ] == str(COMMANDS)


def test_binding_profiles_that_are_not_written_are_one_line_on_a_terminal():
    """Such as all of them, where only neutron's database can be read."""
    grants = [Grant(Port(name_of(each), "i", f"compute{each}"), HOST) for each in range(HOSTS)]
    problems = [describe_grant(name_of(HOSTS + each), grant, "why") for each, grant in enumerate(grants)]
    assessment = make_assessment((), problems)
    for lines in (
        describe_plan(assessment, assessment.plan, 0, open_page(assessment, 80)),
        describe_run(make_run(assessment, apply), assessment, None, open_page(assessment, 80)),
    ):
        text = "\n".join(filter(None, lines))
        assert count_lines(text.splitlines(), 80) < 10
        assert f"instance {name_of(HOSTS)} and 9,999 more: the" in " ".join(text.split())
