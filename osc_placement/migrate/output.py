# SPDX-License-Identifier: Apache-2.0
"""Plans, results, problems and errors as text and as JSON: output that commands print. Pure.

On a terminal, changes and problems are counted and grouped, so that the text fits a screen. Pipes and JSON
get all of them, and so does a terminal with ``--full``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from osc_placement.batch import Change, Outcome, Plan, Result, describe_difference
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.migrations.flavors import FlavorSurvey
from osc_placement.migrate.migrations.providers import Kind, Survey
from osc_placement.migrate.problem import Problem
from osc_placement.migrate.readiness import sort_changes
from osc_placement.migrate.tool import explain
from osc_placement.report.changes import (
    SCREEN,
    SEE_ALL,
    SHORT_COLUMNS,
    Page,
    Row,
    draw_table,
    rows_of_plan,
    rows_of_report,
    sort_rows,
)
from osc_placement.report.summary import count_results, sum_up
from osc_placement.terminal.tables import format_table

if TYPE_CHECKING:
    from osc_placement.migrate.migrations.decommission import Decommission
    from osc_placement.migrate.repair import Failure, Repaired
    from osc_placement.migrate.runner import Run
    from osc_placement.report.runs import NextCommands

Document = Mapping[str, Any]
_PLAN_COLUMNS: Final = ("name", "uuid", "before", "after", "reason")
_REPORT_COLUMNS: Final = (*_PLAN_COLUMNS, "result", "error")
#: begins a line about a problem
LEFT_ALONE: Final = "Left alone: "
#: begins a line about a port
WILL_BE_WRITTEN: Final = "Will be written: "
#: what shows all problems after a run
_SEE_PLAN: Final = "(--dry-run --full shows each of them)"
#: lines of a terminal for the flavors that have the same reason
_MOST_OF_REASON: Final = 6
#: runs whose commands a terminal gets
_FEW_RUNS: Final = 3
UNDO_IN_ORDER: Final = "Undo these runs in reverse order, the last one first."


@dataclass(slots=True)
class Sheet(Page):
    """The output of a command: a page of a terminal, or where all rows are shown, without a limit.

    :ivar screen: the width of the terminal; None elsewhere, where each row has all columns
    """

    screen: int | None = None

    @classmethod
    def open(
        cls,
        screen: int | None,
        names: Mapping[str, str] | None = None,
        kept: int = 0,
        *,
        is_full: bool = False,
    ) -> Sheet:
        """Return a sheet that leaves ``kept`` lines of a screen, or has no limit; names are by UUID."""
        return cls(None if is_full else screen, names or {}, SCREEN - kept, screen=screen)

    def list_rows(
        self, rows: Sequence[Row], make_full: Callable[[], str], *, is_plan: bool = False, more: str = ""
    ) -> list[str]:
        """Return the lines of rows; ``make_full`` makes the table of all columns, ``more`` shows all rows."""
        if self.width is not None:
            return self.describe(rows, is_plan=is_plan, more=more)
        if self.screen is not None and rows:
            return draw_table(sort_rows(rows), SHORT_COLUMNS, self.screen, self.names)
        return list(filter(None, [make_full()]))


def plan_to_json(assessment: Assessment, plan: Plan) -> Document:
    """Return the document of a plan that is not carried out."""
    return {
        "rows": [change_row(change) for change in plan.changes],
        "findings": [problem_row(each) for each in assessment.problems],
        "skipped": assessment.skipped,
        "ports": list(assessment.written),
    }


def describe_plan(assessment: Assessment, plan: Plan, left: int, page: Sheet) -> list[str]:
    """Return the text of a plan that is not carried out; ``left`` changes are for later runs."""
    lines = page.list_rows(
        rows_of_plan(plan),
        lambda: format_table(_PLAN_COLUMNS, [change_row(each, page.names) for each in plan.changes]),
        is_plan=True,
        more=SEE_ALL,
    )
    lines += page.tell([assessment.skipped] if assessment.skipped else [])
    way = f" (written {assessment.way})" if assessment.way else ""
    planned, to_write = frozenset(assessment.written), list[tuple[str, str]]()
    for grant in (grant for grants in assessment.grants.values() for grant in grants):
        if grant.port.uuid in planned:
            chosen = grant.allocation
            uuids = [chosen] if isinstance(chosen, str) else list(dict.fromkeys(chosen.values()))
            of = ", ".join(assessment.names.get(uuid, uuid) for uuid in uuids)
            to_write.append((f"port {grant.port.uuid}", f"its binding profile will name {of}{way}"))
    lines += page.complain(to_write, WILL_BE_WRITTEN, more=SEE_ALL)
    lines += describe_problems(assessment.problems, page, LEFT_ALONE, SEE_ALL)
    facts = [f"{len(plan.changes):,} to change"]
    facts += [f"{len(assessment.written):,} binding profiles to write"] if assessment.written else []
    facts += [*_count_rest(plan, assessment.problems, left)]
    return [*lines, *page.summarize(plan.edit.title, f": {', '.join(facts)}")]


def run_to_json(run: Run, assessment: Assessment) -> Document:
    """Return the document of a run."""
    return {
        "rows": [outcome_row(outcome) for outcome in _find_tried(run)],
        "findings": [problem_row(each) for each in assessment.problems],
        "run": run.id,
        "skipped": assessment.skipped,
        "left": run.left,
        "ports": list(assessment.written),
    }


def describe_run(
    run: Run,
    assessment: Assessment,
    following: NextCommands | None,
    page: Sheet,
) -> list[str]:
    """Return the text of a run.

    :param following: the commands that show and undo it
    """
    report = run.report
    plan, problems = report.plan, assessment.problems
    tried = _find_tried(run)
    lines = page.list_rows(
        [row for row in rows_of_report(report) if row.result != Result.UNCHANGED],
        lambda: format_table(_REPORT_COLUMNS, [outcome_row(each, page.names) for each in tried]),
    )
    facts = [
        f"{number:,} {word}" for word, number in count_results(report).items() if word != Result.UNCHANGED
    ]
    facts += _count_rest(plan, problems, run.left)
    lines += page.tell([assessment.skipped] if assessment.skipped else [])
    lines += describe_problems(problems, page, LEFT_ALONE, _SEE_PLAN)
    lines += page.warn(plan.warnings)
    lines += page.summarize(plan.edit.title, f": {', '.join(facts) or 'nothing to do'}")
    if assessment.written:
        way = f" {assessment.way}" if assessment.way else ""
        lines.append(f"binding profiles of ports: {len(assessment.written):,} written{way}")
    lines += [report.halted] if report.halted else []
    return lines + describe_next(following, page)


def describe_next(following: NextCommands | None, page: Sheet) -> list[str]:
    """Return the commands that can follow a run: each in a line of a terminal, elsewhere all in one."""
    if following is None:
        return []
    return [str(following)] if page.screen is None else Page(page.screen).name_commands(following)


def _find_tried(run: Run) -> list[Outcome]:
    return [each for each in run.report.outcomes if each.result is not Result.UNCHANGED]


def _count_rest(plan: Plan, problems: Sequence[Problem], left: int) -> list[str]:
    """Return in words how many are right already, left unchanged, or left for later runs."""
    facts = (
        (len(plan.unchanged), "as wanted already"),
        (len(problems), "left alone"),
        (left, "for later runs"),
    )
    return [f"{number:,} {words}" for number, words in facts if number]


def status_to_json(assessment: Assessment, sentence: str, *, ready: bool) -> Document:
    """Return the document of what instances hold and should hold."""
    missing, incomplete, foreign = sort_changes(assessment.plan.changes)
    return {
        "ready": ready,
        "sentence": sentence,
        "missing": missing,
        "incomplete": incomplete,
        "foreign": foreign,
        "constraints": [
            {"instance": uuid, "host": each.host, "state": str(each.state), "text": each.text}
            for uuid, each in assessment.verdicts.items()
        ],
        "findings": [problem_row(each) for each in assessment.problems],
        "notes": list(assessment.notes),
        "skipped": assessment.skipped,
    }


def describe_status(assessment: Assessment, page: Page) -> list[str]:
    """Return the lines of what instances hold and should hold."""
    missing, incomplete, foreign = sort_changes(assessment.plan.changes)
    found = [(f"instance {uuid}", f"it holds nothing, and {assessment.verdicts[uuid]}") for uuid in missing]
    found += [(f"instance {uuid}", "it lacks what a port of it asks for") for uuid in incomplete]
    found += [(f"instance {uuid}", "what it holds is of another project or user") for uuid in foreign]
    found += [(each.subject, each.text) for each in assessment.problems]
    found += [(subject, text) for subject, _, text in (each.partition(": ") for each in assessment.notes)]
    return page.complain(found, more=SEE_ALL)


def survey_to_json(survey: Survey, plan: Plan) -> Document:
    """Return the document of providers without a compute node, with what would be changed."""
    return {
        "providers": [
            {
                "name": each.name,
                "uuid": each.uuid,
                "kind": str(each.kind),
                "text": each.text,
                "right": each.right,
            }
            for each in survey.judged
        ],
        "rows": [change_row(change) for change in plan.changes],
        "findings": [problem_row(each) for each in survey.deletions.problems],
    }


def describe_survey(survey: Survey, page: Page) -> list[str]:
    """Return the lines of problems, and of providers without a compute node but those of other services."""
    found = [
        (f"provider {each.name}", f"{each.kind}: {each.text}")
        for each in survey.judged
        if each.kind is not Kind.FOREIGN
    ]
    told = {subject for subject, _ in found}
    others = [each for each in survey.deletions.problems if each.subject not in told]
    lines = [*describe_problems(others, page, LEFT_ALONE, SEE_ALL), *page.complain(found, more=SEE_ALL)]
    return lines or ["Found no root provider of a host without a compute node"]


def decommission_to_json(found: Decommission, plan: Plan, runs: Sequence[Run], halted: str) -> Document:
    """Return the document of what holds a host, and of a plan that frees it and deletes its providers."""
    outcomes = [outcome for run in runs for outcome in _find_tried(run)]
    return {
        "host": found.host,
        "holds": [
            {"step": str(each.step), "subject": each.subject, "text": each.text, "command": each.command}
            for each in found.holds
        ],
        "rows": list(map(outcome_row, outcomes)) if runs else list(map(change_row, plan.changes)),
        "findings": [problem_row(each) for each in found.problems],
        "runs": [run.id for run in runs],
        "halted": halted,
    }


def describe_decommission(found: Decommission, plan: Plan, page: Sheet, *, is_done: bool) -> list[str]:
    """Return the lines of what holds a host, in order, and of what can be done."""
    lines = describe_problems(found.problems, page, LEFT_ALONE, SEE_ALL)
    steps = list(dict.fromkeys(each.step for each in found.holds))
    for number, step in enumerate(steps, 1):
        holds = [
            (each.subject, f"{each.text}; {each.command}" if each.command else each.text)
            for each in found.holds
            if each.step is step
        ]
        lines += page.complain(holds, f"{number}. {step}: ", more=SEE_ALL)
    if is_done:
        return lines
    if plan.changes:
        rows = [change_row(each, page.names) for each in plan.changes]
        full = functools.partial(format_table, _PLAN_COLUMNS, rows)
        lines += page.list_rows(rows_of_plan(plan), full, is_plan=True, more=SEE_ALL)
    text = f"Nothing is left of host {found.host}"
    if found.plan.changes and found.holds:
        text = f"--free --delete frees host {found.host} and deletes its resource providers"
    elif found.plan.changes:
        text = f"Nothing holds host {found.host}; --delete deletes its resource providers"
    elif found.holds or found.problems:
        text = f"Host {found.host} is still held, so its resource providers are left alone"
        text += "; --free removes its orphaned allocations" if found.freeing.changes else ""
    return [*lines, text]


def flavors_to_json(survey: FlavorSurvey, plan: Plan, runs: Sequence[Run]) -> Document:
    """Return the document of a comparison of flavors, with the changes or their results."""
    found = survey.assessment
    outcomes = [each for run in runs for each in _find_tried(run)]
    return {
        "flavors": [
            {
                "name": each.flavor.name,
                "id": each.flavor.flavorid,
                "state": str(each.state),
                "best_host": best.host.name if best else None,
                "fits_on_best_host": best.count if best else None,
                "unused": {name: round(share, 4) for name, share in best.unused.items()} if best else None,
            }
            for each, best in ((each, each.best) for each in survey.flavors)
        ],
        "rows": list(map(outcome_row, outcomes)) if runs else list(map(change_row, plan.changes)),
        "findings": [problem_row(each) for each in found.problems],
        "notes": list(found.notes),
        "runs": [run.id for run in runs],
        "left": len(found.plan.changes) - len(plan.changes),
    }


def describe_flavors(
    survey: FlavorSurvey, plan: Plan, left: int, page: Sheet, *, is_created: bool
) -> list[str]:
    """Return the lines of a comparison of flavors; the changes are left out if they are made."""
    found = survey.assessment
    # each gets the lines that it needs
    lines = [line for note in found.notes for line in page.tell([note])]
    if not is_created:
        rows = [change_row(each, page.names) for each in plan.changes]
        full = functools.partial(format_table, _PLAN_COLUMNS, rows)
        lines += page.list_rows(rows_of_plan(plan), full, is_plan=True, more=SEE_ALL)
    for reason in dict.fromkeys(each.reason for each in found.problems):
        alike = [(each.subject, each.text) for each in found.problems if each.reason is reason]
        lines += page.complain(alike, more=SEE_ALL, most=_MOST_OF_REASON)
    compared = [
        f"{len(survey.flavors):,} flavor{'s' * (len(survey.flavors) != 1)}",
        f"{survey.images:,} image{'s' * (survey.images != 1)}",
        f"{survey.aggregates:,} host aggregate{'s' * (survey.aggregates != 1)}",
    ]
    facts = (
        [f"{len(plan.changes):,} name{'s' * (len(plan.changes) != 1)} to create"] if not is_created else []
    )
    facts += [f"{left:,} for later runs"] if left else []
    hints = sum(each.reason.is_hint for each in found.problems)
    findings = len(found.problems) - hints
    facts.append(f"{findings:,} finding{'s' * (findings != 1)}")
    facts += [f"{hints:,} hint{'s' * (hints != 1)}"] if hints else []
    hint = "; --create creates them" if plan.changes and not is_created else ""
    return [*lines, *page.summarize(", ".join(compared), f": {', '.join(facts)}{hint}")]


def describe_runs(runs: Sequence[Run], following: Sequence[NextCommands | None], page: Sheet) -> list[str]:
    """Return the text of runs that depend on each other; a terminal gets the commands of a few runs only.

    :param following: for each run the commands that show and undo it
    """
    changed = [row for run in runs for row in rows_of_report(run.report) if row.result != Result.UNCHANGED]
    outcomes = [outcome_row(each, page.names) for run in runs for each in _find_tried(run)]
    lines = page.list_rows(changed, functools.partial(format_table, _REPORT_COLUMNS, outcomes))
    if page.width is not None and len(runs) > _FEW_RUNS:
        failed = [sum_up(run.report).line for run in runs if run.report.is_failed]
        return [*lines, *failed, f"{len(runs)} runs; see placement-migrate run list"]
    for run, commands in zip(runs, following, strict=True):
        lines += [sum_up(run.report).line, *describe_next(commands, page)]
    return lines + ([UNDO_IN_ORDER] if len(runs) > 1 else [])


def describe_failure(failure: Failure) -> str:
    """Return why a provider was not replaced, and the state in which its repair was left."""
    return "; ".join(filter(None, (explain(failure.error), failure.state)))


def describe_repairs(done: Repaired, halted: str) -> list[str]:
    """Return the lines of what was not repaired, or one that nothing was changed."""
    lines = [
        f"provider {name} was not replaced: {describe_failure(each)}" for name, each in done.failures.items()
    ]
    lines += [halted] if halted else []
    if done.not_tried:
        lines.append(f"{done.not_tried} resource provider{'s' * (done.not_tried != 1)} not tried")
    return lines or ([] if done.runs else ["Nothing was changed"])


def change_row(change: Change, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the row of a change, which has only what differs; ``names`` replace UUIDs in it."""
    gone, come = describe_difference(change.before, change.after, names)
    return {
        "uuid": change.uuid,
        "name": change.subject.name,
        "before": gone,
        "after": come,
        "reason": change.reason,
    }


def outcome_row(outcome: Outcome, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the row of a change with its result; ``names`` replace UUIDs in it."""
    error = "; ".join(filter(None, (str(outcome.error or ""), outcome.note)))
    return {**change_row(outcome.change, names), "result": outcome.word, "error": error}


def problem_row(problem: Problem) -> dict[str, Any]:
    """Return the JSON object of a problem."""
    return {"reason": str(problem.reason), "subject": problem.subject, "text": problem.text}


def describe_problems(problems: Sequence[Problem], page: Page, prefix: str = "", more: str = "") -> list[str]:
    """Return the lines of problems; ``more`` says on a terminal what shows all of them."""
    return page.complain([(each.subject, each.text) for each in problems], prefix, more=more)
