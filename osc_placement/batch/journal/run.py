# SPDX-License-Identifier: Apache-2.0
"""A run, as its journal tells it: its plan, the states before it, and the outcomes so far. Pure."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from osc_placement.batch.plan import IN_PART, REFUSED, RESHAPE, Change, Edit, Policy, Result
from osc_placement.errors import PlacementError

if TYPE_CHECKING:
    from osc_placement.batch.selection import Selection

PARTLY_DONE: Final = "partly done"


class JournalError(PlacementError):
    """A journal cannot be written, found or read."""


class UnknownRun(JournalError):
    """There is no run with the ID that was given."""

    def __init__(self, run_id: str, directory: pathlib.Path) -> None:
        self.run_id = run_id
        super().__init__(f"There is no run {run_id!r} in {directory}")


class JournalDamaged(JournalError):
    """A journal does not say what was written into it."""

    def __init__(self, path: pathlib.Path, wrong: str) -> None:
        self.path = path
        mark = path.with_suffix(".mark").name
        super().__init__(
            f"{path} is damaged {wrong}; its run can be neither resumed nor undone: restore the file from a "
            f"backup, and {mark} with it (if the backup has none, remove {mark}), or put right by hand what "
            "its lines name"
        )


@dataclass(frozen=True, slots=True)
class Header:
    """The first record of a journal: what a run is about."""

    id: str
    server: str
    edit: Edit
    selection: str = ""
    started: str = ""
    undoes: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: judged again by a resume; None of a run that has none
    selects: Selection | None = None

    @property
    def kind(self) -> str:
        """Return the kind of a run that is not of a batch."""
        return str(self.settings.get("kind", ""))

    @property
    def is_reshape(self) -> bool:
        """Return whether it is a reshape, which is made, resumed and undone in one transaction."""
        return self.kind == RESHAPE

    @property
    def policy(self) -> Policy:
        """Return what its plans may take away."""
        capacity = self.settings.get("capacity", "ignore")
        return Policy(capacity, bool(self.settings.get("keeps_managed")))

    @property
    def title_of_undo(self) -> str:
        """Return the title of a run that undoes this one; of the undo of an undo, without what that undid."""
        return f"undo of {self.id} ({f'undo of {self.undoes}' if self.undoes else self.edit.title})"


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of a change, as far as the journal tells.

    ``code`` is that of the ``error``, `PlacementError.error_code`.
    ``untouched``: it is certain that neither this attempt nor one before has written anything of it.
    ``refused``: it was not tried, because the plan of the last attempt refused it.
    ``rejected``: the server refused it for a reason that stays, and it is ``untouched``; the record of an
    outcome in a journal calls this ``refused``, which in that of an intent is the ``refused`` here.
    """

    result: Result
    generation: int | None = None
    error: str = ""
    code: str = ""
    note: str = ""
    untouched: bool = False
    refused: bool = False
    rejected: bool = False

    @property
    def word(self) -> str:
        """Return the result in a word."""
        return REFUSED if self.refused else str(self.result)


@dataclass(frozen=True, slots=True)
class Summary:
    """A run without its changes, as lists show it.

    :ivar changes: number of providers and consumers that it plans to change; some may be ``applied``, others
        may have ``failed``
    :ivar partial: number of those applied of which an undo left a part, as it was set again since
    :ivar ended: when the last attempt ended, as far as it lived to say; empty of a run that is running
    """

    header: Header
    state: str
    changes: int
    applied: int
    failed: int
    partial: int = 0
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its journal tells it, by the UUIDs of providers in the order of the plan.

    ``intents`` has the last plan for each, ``endings`` how it ended, with none where nobody lived to say.
    """

    header: Header
    intents: Mapping[str, Change]
    endings: Mapping[str, Ending]
    is_planned: bool
    is_running: bool = False
    status: int | None = None
    #: when the last attempt ended, as far as it lived to say
    ended: str = ""
    #: of the lines of the journal, in their order
    sums: Sequence[str] = ()

    @property
    def state(self) -> str:
        """Return how far it is, in one word or two."""
        if self.is_running:
            return "running"
        if not self.is_planned:
            return "not begun"
        if not self.pending:
            return PARTLY_DONE if self.partial else "done"
        if not self.is_refused:
            return "unfinished"
        return PARTLY_DONE if self.applied else "refused"

    @property
    def is_refused(self) -> bool:
        """Return whether a resume would be refused again, as things are.

        The plan refused all that is pending, or the server refused it and nothing was written at all.
        """
        endings = [self.endings.get(change.uuid) for change in self.pending]
        if all(ending is not None and ending.refused for ending in endings):
            return True
        return not self.applied and all(
            ending is not None and ending.untouched and (ending.refused or ending.rejected)
            for ending in endings
        )

    @property
    def pending(self) -> tuple[Change, ...]:
        """Return the changes that are neither applied nor found to be unnecessary."""
        finished = {
            uuid
            for uuid, ending in self.endings.items()
            if ending.result in (Result.APPLIED, Result.UNCHANGED)
        }
        return tuple(change for uuid, change in self.intents.items() if uuid not in finished)

    def may_be_written(self, change: Change) -> bool:
        """Return whether there may be something of a change to undo."""
        ending = self.endings.get(change.uuid)
        return ending is None or not ending.untouched

    @property
    def applied(self) -> int:
        """Return how many providers are known to be changed."""
        return sum(ending.result is Result.APPLIED for ending in self.endings.values())

    @property
    def failed(self) -> int:
        """Return how many providers failed or were refused."""
        return sum(ending.result is Result.FAILED for ending in self.endings.values())

    @property
    def partial(self) -> int:
        """Return how many changes were applied in part, as an undo leaves what was set since."""
        return sum(
            ending.result is Result.APPLIED and self.intents[uuid].is_partial
            for uuid, ending in self.endings.items()
        )

    def word_of(self, change: Change) -> str:
        """Return the result of a change as people are told it; empty if it has none."""
        ending = self.endings.get(change.uuid)
        if ending is None:
            return ""
        return IN_PART if change.is_partial and ending.result is Result.APPLIED else ending.word

    @property
    def summary(self) -> Summary:
        """Return the run without its changes."""
        numbers = len(self.intents), self.applied, self.failed, self.partial
        return Summary(self.header, self.state, *numbers, "" if self.is_running else self.ended)


class UndonePart(NamedTuple):
    """What one run undid of another: so many changes whole, and so many in part."""

    id: str
    whole: int
    partial: int = 0

    @property
    def numbers(self) -> str:
        """Return the numbers in words."""
        told = [f"{self.whole:,}"] if self.whole or not self.partial else []
        return ", ".join([*told, *([f"{self.partial:,} {IN_PART}"] if self.partial else [])])


@dataclass(frozen=True, slots=True)
class Undone:
    """What later runs undid of a run.

    :ivar by: ID of the last run that undid something of it, or all of it if one did
    :ivar is_whole: whether nothing of it is left to undo
    :ivar parts: the runs that undid something of it, the first first
    """

    by: str
    is_whole: bool
    parts: tuple[UndonePart, ...]

    @property
    def number(self) -> int:
        """Return how many changes are undone whole."""
        return sum(part.whole for part in self.parts)

    @property
    def partial(self) -> int:
        """Return how many changes at most are undone in part; one may be so by several runs."""
        return sum(part.partial for part in self.parts)

    @property
    def writing(self) -> list[UndonePart]:
        """Return the runs that undid something, and did not only find it undone."""
        return [part for part in self.parts if part.whole or part.partial]

    @property
    def runs(self) -> str:
        """Return the runs in words; if several undid changes, each with their number."""
        if len(self.writing) < 2:
            return f"by run {self.by}"
        return "by " + " and ".join(f"run {part.id} ({part.numbers})" for part in self.writing)

    @property
    def state(self) -> str:
        """Return the state of the run."""
        return "undone" if self.is_whole else "partly undone"


def find_undone(runs: Iterable[Run | Summary]) -> dict[str, Undone]:
    """Return by the ID of each run of which something is undone how much that is.

    What an undo did counts only as far as it was not undone itself, and not at all where later undos of the
    same run undid all of it. A run that was resumed after its undo may have changes that this did not undo.

    :param runs: in any order; of a run that is not among these, nothing is known of its resumes
    """
    found: dict[str, Undone] = {}
    by_id = {run.header.id: run for run in runs}
    for _, run in sorted(by_id.items(), reverse=True):
        lost, more = found.get(run.header.id), found.get(run.header.undoes or "")
        if not run.header.undoes or (lost and lost.is_whole):
            continue
        undone = by_id.get(run.header.undoes)
        if undone and more and more.is_whole and more.number >= undone.applied:
            continue
        # a change of which a part was left is not undone
        number = max(0, run.applied - run.partial - (lost.number if lost else 0))
        is_resumed = undone is not None and undone.ended > run.header.started and number < undone.applied
        is_whole = run.state == "done" and lost is None and not is_resumed
        if number == 0 and not (run.partial or is_whole):
            continue
        by = run.header.id
        parts: tuple[UndonePart, ...] = (UndonePart(run.header.id, number, run.partial),)
        if more:
            by = by if is_whole and not more.is_whole else more.by
            is_whole, parts = is_whole or more.is_whole, parts + more.parts
        found[run.header.undoes] = Undone(by, is_whole, parts)
    return found
