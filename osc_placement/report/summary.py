# SPDX-License-Identifier: Apache-2.0
"""A plan or a report as a whole, in words: its summary, the question before it, and its numbers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from osc_placement.api.consumer import Consumer
from osc_placement.batch import (
    EXIT_DONE,
    IN_PART,
    NEW_STAYS,
    REFUSED,
    Change,
    Plan,
    Report,
    Result,
    list_differences,
)
from osc_placement.errors import PlacementError
from osc_placement.model import Provider
from osc_placement.terminal.lines import count_each, count_things, list_names, pluralize

#: the nouns for what a provider or consumer can lose while it stays, by facet
_PARTS: Final = {"inventories": "inventory", "traits": "trait", "aggregates": "aggregate"}
#: the names that an error has of what a file removes
_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """A plan or a report in one line.

    :ivar heading: what is or was done, without numbers
    :ivar totals: the numbers that follow the heading, without reasons why providers stay as they are
    :ivar line: the heading, and the numbers with these reasons
    """

    heading: str
    totals: str
    line: str


def sum_up(result: Plan | Report) -> Summary:
    """Return the summary of a plan or report."""
    return _sum_up_plan(result) if isinstance(result, Plan) else _sum_up_report(result)


def _sum_up_plan(plan: Plan) -> Summary:
    nothing = "" if plan.changes or plan.untried else "Nothing to do: "
    heading = f"{nothing}{plan.edit.title}"
    partial = f" ({plan.partial:,} in part: {NEW_STAYS})" if plan.partial else ""
    verb = "change" if _is_about_providers(plan) else "make"
    begin = f": {_count_steps(plan, len(plan.changes))} to {verb}{partial}"
    end = f", {len(plan.unreadable):,} could not be read" if plan.unreadable else ""
    end += f", {len(plan.refused):,} refused" if plan.refused else ""
    unchanged = f", {len(plan.unchanged):,} unchanged" if plan.unchanged else ""
    numbers = Counter(step.reason for step in plan.unchanged)
    # not in the order of the server, which changes as it likes
    reasons = sorted((-number, reason) for reason, number in numbers.items())
    reasoned = "".join(f", {-number:,} unchanged ({reason})" for number, reason in reasons)
    return Summary(heading, f"{begin}{unchanged}{end}", f"{heading}{begin}{reasoned}{end}")


def _sum_up_report(report: Report) -> Summary:
    title = report.plan.edit.title
    is_vain = report.wrote_nothing and report.exit_status != EXIT_DONE
    begin = "Nothing to do: " if not report.outcomes else "Nothing was changed: " if is_vain else ""
    counts = [f"{number:,} {word}" for word, number in count_results(report).items()]
    totals = f": {', '.join([_count_steps(report.plan, len(report.outcomes)), *counts])}" if counts else ""
    totals += f"; {report.halted}" if report.halted else ""
    return Summary(f"{begin}{title}", totals, f"{begin}{title}{totals}")


def count_results(report: Report) -> dict[str, int]:
    """Return the number of outcomes by result; refused and done in part are results of their own."""
    numbers = Counter(outcome.word for outcome in report.outcomes)
    order = (Result.APPLIED, IN_PART, Result.UNCHANGED, Result.FAILED, REFUSED, Result.SKIPPED)
    return {str(word): numbers[word] for word in order if numbers[word]}


def ask(plan: Plan) -> str:
    """Return the question by which a plan is confirmed; it counts what is removed and deleted."""
    verb = "Change" if _is_about_providers(plan) else "Make"
    removed = count_removed(plan.changes)
    removing = f", removing {removed}" if removed else ""
    deleted = count_each(Counter(step.kind for step in plan.changes if step.verb == "deleted"))
    deleting = f", deleting {deleted}" if deleted else ""
    return f"{verb} {_count_steps(plan, len(plan.changes))}{removing}{deleting}?"


def _count_steps(plan: Plan, number: int) -> str:
    return count_things(number, "resource provider" if _is_about_providers(plan) else "change")


def _is_about_providers(plan: Plan) -> bool:
    """Return whether each step changes one provider, so that these can be counted."""
    return not plan.is_staged and all(isinstance(step.subject, Provider) for step in plan.steps)


def count_removed(changes: Iterable[Change]) -> str:
    """Return in words how much changes take from providers and consumers that stay; "" if it is nothing."""
    numbers = Counter(noun for change in changes for noun, _name in _list_removed(change))
    return count_each({noun: numbers[noun] for noun in (*_PARTS.values(), "allocation")})


def refuse_removal(changes: Iterable[Change], source: str, see: str = "") -> None:
    """Raise PlacementError if changes remove something of what stays, as a file does that leaves it out.

    :param see: what shows the changes, behind a semicolon
    """
    changes = list(changes)
    if removed := count_removed(changes):
        names = [
            f"{name} of {change.subject.name}" for change in changes for _, name in _list_removed(change)
        ]
        raise PlacementError(
            f"Nothing was changed: {source} removes {removed}, such as {list_names(names, _EXAMPLES)}: name "
            f"there what is to stay, or give --yes, as there is no terminal to confirm on{see}"
        )


def _list_removed(change: Change) -> Iterator[tuple[str, str]]:
    """Yield what a change takes from a provider or consumer that stays: nouns, with names of what goes.

    A consumer loses a class if it holds it of fewer providers.
    """
    if change.verb != "updated":
        return
    for facet, noun in _PARTS.items():
        before, after = getattr(change.before, facet), getattr(change.after, facet)
        if None not in (before, after):
            yield from ((noun, name) for name in sorted(set(before) - set(after)))
    if isinstance(change.subject, Consumer):
        held, kept = (
            Counter(name for amounts in (state.allocations or {}).values() for name in amounts)
            for state in (change.before, change.after)
        )
        yield from (("allocation", name) for name in sorted((held - kept).elements()))


def count_differences(
    changes: Iterable[Change], names: Mapping[str, str] | None = None
) -> list[tuple[int, str]]:
    """Return how many of the changes make each difference, the most frequent first.

    What is created or deleted counts by its kind, without its name; allocations count by their resource
    class. ``names`` has those of aggregates and providers, by UUID.
    """
    wholes: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    for change in changes:
        is_whole = change.verb != "updated"
        if is_whole:
            wholes[change.kind, change.verb] += 1
        texts = set()
        for each in list_differences(change.before, change.after, names):
            if each.facet == "identity" and is_whole:
                continue
            if each.facet == "allocations":
                sign = "+" if each.old is None else "-" if each.new is None else "other "
                texts.add(f"{sign}allocations of {each.name.rpartition(':')[2]}")
            else:
                texts.add(str(each))
        counts.update(texts)
    for (kind, verb), number in wholes.items():
        counts[f"{kind if number == 1 else pluralize(kind)} {verb}"] = number
    return sorted(((number, text) for text, number in counts.items()), key=lambda each: (-each[0], each[1]))
