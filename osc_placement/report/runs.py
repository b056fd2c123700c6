# SPDX-License-Identifier: Apache-2.0
"""Runs as text: lists, what one is about, and the commands that can follow it."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from osc_placement.batch import (
    EXIT_DONE,
    IN_PART,
    PARTLY_DONE,
    ChangedSince,
    DropsManaged,
    Gone,
    Header,
    JournalError,
    Journals,
    Overcommitted,
    Pace,
    Report,
    Result,
    Run,
    Summary,
    UndoEdit,
    Undone,
    advise_to_undo,
    find_undone,
)
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import (
    CUT,
    align,
    count_things,
    cut,
    cut_middle,
    describe_hidden,
    wrap_fact,
)
from osc_placement.terminal.values import NONE

LIST_COLUMNS: Final = (
    *("id", "state", "what", "selection", "changes", "applied", "failed", "server"),
    *("started", "undone_by"),
)
#: the heading of the column that a narrow list may lack
_APPLIED: Final = "applied"
#: characters of what a run did and where, of the ID of an undone run, and of a cloud, that are shown at least
_LEAST_WHAT: Final = 12
_LEAST_WHERE: Final = 18
_LEAST_ID: Final = 6
_LEAST_CLOUD: Final = 24
#: what comes before the ID of an undone run
_UNDO_OF: Final = "undo of "
#: what a list leaves out of a selection: the words before the name, and the UUID behind it
_PHRASE: Final = re.compile(r"\b(in aggregate|named like|in the tree of) | \([0-9a-f-]{36}\)")
#: a word of a title that begins with the name of a class or trait
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]+")
#: the codes of the errors of changes that were refused, and that --force makes
_FORCED: Final = {Overcommitted.error_code, DropsManaged.error_code}
# lists


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs, the oldest first.

    :ivar undone: what is undone of runs, by the ID of the run
    """

    runs: Sequence[Summary]
    undone: Mapping[str, Undone]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Return the values of `LIST_COLUMNS` for each run."""
        return [
            (
                run.header.id,
                _state_of(run, self.undone),
                run.header.edit.title,
                run.header.selection,
                run.changes,
                run.applied,
                run.failed,
                run.header.server,
                run.header.started,
                undone.by if (undone := self.undone.get(run.header.id)) else "",
            )
            for run in self.runs
        ]

    def draw(self, width: int, *, with_clouds: bool) -> list[str]:
        """Return lines with what runs did and where; how much was applied is left out before these are cut.

        The time is in the ID. A cloud has the address without ``http://``, and the last line has it if there
        is one only.
        """
        if not self.runs:
            return []
        headers = [run.header for run in self.runs]
        clouds = {header.server for header in headers} if with_clouds else set()
        columns = {
            "id (time in UTC)": [header.id for header in headers],
            "state": [_state_of(run, self.undone) for run in self.runs],
            # what a run that is done has not applied needed no change
            _APPLIED: [
                f"{run.applied:,}"
                + (f"/{run.changes:,}" if run.failed or run.state != "done" else "")
                + (f" ({run.partial:,} {IN_PART})" if run.partial else "")
                for run in self.runs
            ],
        }
        if len(clouds) > 1:
            most = max(_LEAST_CLOUD, width // 4)
            columns["cloud"] = [cut(printable(each.server.partition("://")[2]), most) for each in headers]
        wheres = [_name_selection(header) for header in headers]
        longest = max(map(len, wheres))
        names = [printable(_name_edit(header)) for header in headers]
        titles = [name for name, header in zip(names, headers, strict=True) if not header.undoes]
        size = max(map(len, titles), default=0)
        needed = max(size + 2 + min(longest, _LEAST_WHERE), *map(len, names))
        hidden = []
        if _measure(columns) + needed > width:
            hidden = [_APPLIED]
            del columns[_APPLIED]
        free = width - _measure(columns)
        if longest and free < 2 * _LEAST_WHERE:
            hidden.append("where")
            wheres, longest = [""] * len(headers), 0
        # an undo is of what another run changed
        least = min(longest, _LEAST_WHERE) + 2 if longest else 0
        size = max(len("what"), min(size, free - least))
        cells = [
            _describe_edit(header, free)
            if header.undoes
            else f"{_describe_edit(header, size):{size}}  {cut(where, max(len(CUT), free - size - 2))}"
            for header, where in zip(headers, wheres, strict=True)
        ]
        heading = f"{'what':{size}}  where" if longest else "what"
        rows = ([name, *cells] for name, cells in {**columns, heading: cells}.items())
        lines = align(list(zip(*rows, strict=True)), width)
        if hidden:
            lines.append(describe_hidden(hidden))
        elif any(CUT in cell for cell in cells):
            lines.append("(--full shows each run whole)")
        return lines + ([f"All of them are for {printable(clouds.pop())}"] if len(clouds) == 1 else [])

    def describe(self, width: int) -> list[str]:
        """Return all that is known of each run: a line for each fact, and an empty line between runs."""
        lines: list[str] = []
        for run in self.runs:
            undone = self.undone.get(run.header.id)
            facts = _list_facts(
                run.header,
                # a change of which it is not known whether it was made counts in `describe_run` alone
                run.state if undone is None else _join_states(run.state, undone, run.applied),
                [
                    f"{run.applied:,} of {run.changes:,} applied",
                    *([f"{run.partial:,} of them {IN_PART}"] if run.partial else []),
                    *([f"{run.failed:,} failed or refused"] if run.failed else []),
                ],
                ended=run.ended,
            )
            lines += [*([""] if lines else []), *(part for fact in facts for part in wrap_fact(fact, width))]
        return lines


def _measure(columns: Mapping[str, Sequence[str]]) -> int:
    """Return the width of columns by their headings, with two blanks behind each."""
    return sum(max(map(len, (name, *cells))) + 2 for name, cells in columns.items())


def _name_selection(header: Header) -> str:
    """Return which providers a run was for, as the operator named them; "" for an undo."""
    if header.undoes:
        return ""
    if header.selects and header.selects.everything:
        return "all"
    return _PHRASE.sub("", printable(header.selection))


def _describe_edit(header: Header, width: int) -> str:
    """Return what a run did, shortened if that is too long.

    Of an undo it is the run that is undone, and what that did if it fits.
    """
    title = printable(header.edit.title)
    if not header.undoes or len(title) <= width:
        return shorten_title(title, max(_LEAST_WHAT, width))
    return _name_edit(header, max(_LEAST_ID, width - len(_UNDO_OF)))


def _name_edit(header: Header, most: int | None = None) -> str:
    """Return what a run did; of an undo, which run it undoes, with so many characters of its ID."""
    if not header.undoes:
        return header.edit.title
    return _UNDO_OF + (header.undoes if most is None else cut_middle(header.undoes, most))


def shorten_title(title: str, width: int) -> str:
    """Return the title of an edit for a width, if possible without cutting the name of a class or trait.

    It loses all of the command but the verb, then its last words. One without such names, as with the path of
    a file, loses its middle.
    """
    words = title.split(" ")
    first = next((number for number, word in enumerate(words) if _NAME.match(word)), 0)
    if len(title) <= width or not first:
        return cut_middle(title, width)
    kept = words[first - 1 :]
    shorter = (" ".join([*kept[:number], CUT]) for number in range(len(kept) - 1, 1, -1))
    return next(
        (text for text in (" ".join(kept), *shorter) if len(text) <= width), cut(" ".join(kept), width)
    )


def read_list(server: str | None, last: int | None, complain: Callable[[JournalError], None]) -> RunList:
    """Read the runs for a server, or for all servers if it is None; ``last`` is their greatest number."""
    runs = []
    for run in Journals().read_summaries(server=server):
        if isinstance(run, JournalError):
            complain(run)
        else:
            runs.append(run)
    return RunList(runs[-last:] if last else runs, find_undone(runs))


# one run


def describe_run(run: Run) -> list[str]:
    """Return the lines that say what a run is about, with its state, its undos and its counts."""
    header = run.header
    counts = Counter(run.word_of(change) or "without a result" for change in run.intents.values())
    counts.pop(Result.APPLIED, 0)
    numbers = [f"{run.applied:,} of {len(run.intents):,} applied"]
    numbers += [f"{partial:,} of them {IN_PART}"] if (partial := counts.pop(IN_PART, 0)) else []
    numbers += [f"{number:,} {result}" for result, number in sorted(counts.items())]
    return _list_facts(header, _describe_state(run), numbers, ended="" if run.is_running else run.ended)


def advise_next(run: Run, command: str) -> list[str]:
    """Return a line with the command that makes what is left of a run.

    Of an undo that left something, it is the one that says how this is undone, after which other runs.

    :param command: the words before the verb of a command on runs
    """
    target = run.header.undoes
    if (lines := advise_to_resume(run, command)) or not target or run.state != PARTLY_DONE:
        return lines
    try:
        # these have the undos of this undo too
        undone = find_undone([Journals().read_summary(target), *Journals().read_undos(target)])
    except JournalError:
        return []
    if run.header.id in undone or (target in undone and undone[target].is_whole):
        return []
    return [f"To see how the rest of run {target} is undone: {command} undo {target} --dry-run"]


def advise_to_resume(run: Run, command: str) -> list[str]:
    """Return a line with the command that makes what is left of a run, which may need an option, if any does.

    None is advised for a run that was undone, of which the rest is not wanted either.

    :param command: the words before the verb of a command on runs
    """
    is_refused = any(each.code in _FORCED for each in run.endings.values())
    if run.is_running or not (is_refused or run.state == "unfinished"):
        return []
    # PERF: the journals of undos are read only where something could be advised
    undone = find_undone([run, *Journals().read_undos(run.header.id)]).get(run.header.id)
    if undone and undone.is_whole:
        return []
    resume = f"{command} resume {run.header.id}"
    if is_refused:
        return [f"To make the refused changes all the same: {resume} --force"]
    return [f"To make the changes that are left: {resume}"]


def _list_facts(header: Header, state: str, numbers: Sequence[str], *, ended: str = "") -> list[str]:
    """Return a line for each fact about a run."""
    facts = {
        "run": header.id,
        "command": header.edit.title,
        "selection": "all" if header.selects and header.selects.everything else header.selection,
        "cloud": header.server,
        "undoes": header.undoes or "",
        "started": header.started,
        "ended": ended,
        "state": state,
        "changes": ", ".join(numbers),
    }
    return [f"{name + ':':10} {printable(value)}" for name, value in facts.items() if value]


def _describe_state(run: Run) -> str:
    """Return the state of a run, and the undo that counts: what is undone of it, else the last attempt."""
    undos = Journals().read_undos(run.header.id)
    undone = find_undone([run, *undos])
    if found := undone.get(run.header.id):
        return _join_states(run.state, found, sum(map(run.may_be_written, run.intents.values())))
    tried = [undo for undo in undos if undo.header.undoes == run.header.id and undo.header.id not in undone]
    return f"{run.state}; undo {tried[-1].state}: run {tried[-1].header.id}" if tried else run.state


def _join_states(state: str, undone: Undone, most: int) -> str:
    """Return the state of a run of which something is undone, and how much, if that is not all.

    :param most: number of its changes that can be undone
    """
    if undone.is_whole:
        return f"undone {undone.runs}"
    # a change that was made and undone again counts once
    whole = min(undone.number, most)
    partial = min(undone.partial, most - whole)
    parts = f" and {partial:,} {IN_PART}" if partial else ""
    told = f"{undone.state}: {whole:,} of {most:,}{parts}, {undone.runs}"
    return told if state == "done" else f"{state}; {told}"


def hint_at_other_clouds() -> str:
    """Return a sentence that says how to list runs when there are none for this cloud; empty without runs."""
    number = len(Journals().list_ids())
    return f"--all-clouds lists {count_things(number, 'run')} of other clouds." if number else ""


def describe_no_runs(server: str | None) -> list[str]:
    """Return the sentences in place of an empty list of runs; the second says how to list those of others."""
    if server is None or not (hint := hint_at_other_clouds()):
        return ["There are no runs."]
    return [f"There are no runs for {server}.", hint]


def _state_of(run: Summary, undone: Mapping[str, Undone]) -> str:
    return undone[run.header.id].state if run.header.id in undone else run.state


def parse_time(text: str) -> datetime.datetime | None:
    """Read the time of a journal; return None if it is none."""
    try:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except ValueError:
        return None


# what follows a run


@dataclass(frozen=True, slots=True)
class NextCommands:
    """The commands that show, resume and undo a run, where these make sense.

    :ivar title: the run: its ID, and what it did if that is not clear
    :ivar commands: by what they do
    :ivar left: what an undo left of another run, with the command that undoes it
    """

    title: str
    commands: Mapping[str, str]
    left: str = ""

    def __str__(self) -> str:
        """Return the run with the commands, in one line."""
        told = (f"to {verb} it: {command}" for verb, command in self.commands.items() if verb != "show")
        return "; ".join(filter(None, (f"Run {self.title}", *told, self.left)))

    @property
    def lines(self) -> list[str]:
        """Return the run, and each command in a line of its own."""
        told = (f"{verb + ':':7} {command}" for verb, command in self.commands.items())
        return [f"Run {self.title}", *told]


def describe_resume(pace: Pace, started: Pace) -> str:
    """Return in a sentence how a run is resumed that was started with another pace, or with this one.

    It has what is no default, and what differs from how the run was started; it is empty if there is neither.
    """
    same = ", as the run was started" if pace == started else ""
    told = {*list_pace(pace), *list_pace(pace, started)}
    options = " ".join(option for option in _list_options(pace).values() if option in told)
    return f"Resuming with {options}{same}" if options else ""


def list_pace(pace: Pace, known: Pace | None = None) -> list[str]:
    """Return the options for a rate, concurrency and limit, without those that are known."""
    known = known or Pace()
    return [text for name, text in _list_options(pace).items() if getattr(pace, name) != getattr(known, name)]


def _list_options(pace: Pace) -> dict[str, str]:
    """Return the options of a resume for a pace, by the name of the field."""
    return {
        "rate": f"--throttle {f'{pace.rate:g}' if pace.rate else NONE}",
        "concurrency": f"--concurrency {pace.concurrency}",
        "max_failures": f"--max-failures {NONE if pace.max_failures is None else pace.max_failures}",
    }


def name_next_commands(
    run_id: str,
    report: Report,
    show: str,
    change: str,
    *,
    can_be_undone: bool = False,
    title: str = "",
    again: Sequence[str] = (),
    undoes: str | None = None,
) -> NextCommands:
    """Return the commands for a run that ended so.

    :param show: the words before the verb of a command that reads the journal
    :param change: the words before the verb of a command that writes to placement, with the access to it
    :param can_be_undone: whether it may have made changes before that are not undone
    :param title: what the run did, if that is not clear
    :param again: the options that a resume has to be given again
    :param undoes: the run that it undoes
    """
    numbers = report.counts
    # what was not tried is left out by --failed-only
    is_narrowed = not numbers[Result.SKIPPED] and (numbers[Result.FAILED] or report.partial)
    failed = " --failed-only" if is_narrowed else ""
    commands = {"show": f"{show} show {run_id}{failed}"}
    if report.exit_status != EXIT_DONE and not report.is_refused:
        commands["resume"] = " ".join((f"{change} resume {run_id}", *again))
    earlier = "with the changes that it made before" if report.wrote_nothing and can_be_undone else ""
    if earlier or not report.wrote_nothing:
        commands["undo"] = f"{change} undo {run_id}"
    left = describe_left(report, undoes, change, has_resume="resume" in commands)
    return NextCommands(", ".join(filter(None, (run_id, title, earlier))), commands, left)


def describe_left(report: Report, undoes: str | None, change: str, *, has_resume: bool = False) -> str:
    """Return what an undo left of a run, with the command that undoes more of it; empty if there is nothing.

    That is the undo of a later run that set the same, else ``--force``, unless this was given or undoes
    nothing either. Otherwise what was set since has to be undone by other means, and what was refused for
    another reason, such as a provider in use, can be undone when that is gone. What failed is for a resume.

    :param undoes: the run that was undone, if the report is of an undo
    :param change: the words before the verb of a command that writes to placement
    :param has_resume: whether a resume of the undo may do a part
    """
    if not undoes:
        return ""
    not_done = [each for each in report.outcomes if each.result in (Result.FAILED, Result.SKIPPED)]
    rest = [each for each in not_done if not isinstance(each.error, Gone)]
    changed = [each.error for each in rest if isinstance(each.error, ChangedSince)]
    if report.is_refused:
        refused = len(rest)
    else:
        refused = sum(each.refused or isinstance(each.error, ChangedSince) for each in rest)
    if not (number := report.partial + refused):
        return ""
    left, edit = report.partial + len(rest), report.plan.edit
    told = f"run {undoes} still has {count_things(left, 'change')} to undo"
    told += f", {left - number:,} of which the resume undoes" if has_resume and left > number else ""
    if report.plan.later:
        return f"{told}; {advise_to_undo(report.plan.later, change, again=True)}"
    if any(each.has_rest for each in changed) and not (isinstance(edit, UndoEdit) and edit.force):
        return f"{told}; to undo the parts that are as the run left them: {change} undo {undoes} --force"
    when = "what was set since is undone" if changed or report.partial else "nothing refuses it any more"
    return f"{told}, when {when}: {change} undo {undoes}"
