# SPDX-License-Identifier: Apache-2.0
"""What people and programs read: rows as a table or as JSON, problems and summaries as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from osc_placement.batch.difference import describe_difference
from osc_placement.batch.plan import Change, Outcome
from osc_placement.migrate.problem import Problem, Reason

Row = Mapping[str, Any]
PLAN_COLUMNS: Final = ("uuid", "name", "before", "after", "note")
#: lines about what could not be read for the same reason
_MOST_ALIKE: Final = 20
REPORT_COLUMNS: Final = (*PLAN_COLUMNS, "result", "error")


def change_row(change: Change) -> dict[str, Any]:
    """A change, with what differs only."""
    gone, come = describe_difference(change.before, change.after)
    return {
        "uuid": change.uuid,
        "name": change.subject.name,
        "before": gone,
        "after": come,
        "note": change.reason,
    }


def outcome_row(outcome: Outcome) -> dict[str, Any]:
    """What came of a change."""
    error = "; ".join(filter(None, (str(outcome.error or ""), outcome.note)))
    return {**change_row(outcome.change), "result": str(outcome.result), "error": error}


def problem_row(problem: Problem) -> dict[str, Any]:
    """Something that was left alone."""
    return {"trouble": str(problem.reason), "subject": problem.subject, "text": problem.text}


def describe_problems(problems: Sequence[Problem]) -> list[str]:
    """A line for each; of what could not be read for one and the same reason, the first ones, and how many.

    A cell that is away has hosts and instances by the thousand, and none of them is anybody's to mend.
    """
    lines, counts = [], Counter[str]()
    for problem in problems:
        if problem.reason is Reason.UNKNOWN:
            counts[problem.text] += 1
        if counts[problem.text] <= _MOST_ALIKE:
            lines.append(str(problem))
    more = {text: count - _MOST_ALIKE for text, count in counts.items() if count > _MOST_ALIKE}
    return lines + [f"... and {count} more, which -f json has: {text}" for text, count in more.items()]
