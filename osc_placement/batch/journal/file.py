# SPDX-License-Identifier: Apache-2.0
"""The file of a journal: it is created, appended to, found and read here."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import pathlib
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from osc_placement.batch.facets import check_types
from osc_placement.batch.journal.checksum import START, chain_line, check_line, read_sum
from osc_placement.batch.journal.record import (
    VERSION,
    change_to_json,
    edit_to_json,
    error_to_json,
    parse,
    selection_to_json,
)
from osc_placement.batch.journal.run import (
    Header,
    JournalDamaged,
    JournalError,
    Run,
    Summary,
    UnknownRun,
)
from osc_placement.errors import PlacementError, without_password
from osc_placement.terminal.lines import CUT
from osc_placement.whole_file import find_user_directory, write_whole

if TYPE_CHECKING:
    from osc_placement.batch.plan import Change, Outcome, Plan, Report

_SUFFIX: Final = ".jsonl"
_OWNER_ONLY: Final = 0o600
_Read = TypeVar("_Read")
#: the members of the summary in the last record
_SUMMARY: Final = {"state": str, "changes": int, "applied": int, "failed": int}
#: one that is missing if it is 0
_MORE_OF_SUMMARY: Final = {"partial": int}
#: runs that are named where a shortened ID stands for several
_MOST_CANDIDATES: Final = 5
#: bytes at the end of a journal, in which its last line and the sum of the line before it are
_END_SIZE: Final = 4096
#: the names that runs are given
_ID: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6,}")


def state_directory() -> pathlib.Path:
    """Return the directory of journals unless the caller names another."""
    return find_user_directory("XDG_STATE_HOME", ".local/state") / "runs"


def identify_server(endpoint: str) -> str:
    """Return the address of a server without what may be secret in it."""
    parts = urlsplit(without_password(endpoint))
    return parts._replace(path=parts.path.rstrip("/"), query="", fragment="").geturl()


class WrongServer(PlacementError):
    """A run belongs to another server than the one in use."""

    def __init__(self, recorded: str, used: str) -> None:
        self.recorded = recorded
        self.used = used
        super().__init__(f"This was planned for the placement at {recorded}, not for the one at {used}")


def check_server(recorded: str, endpoint: str) -> None:
    """Raise WrongServer unless the server that something was planned for has this address."""
    used = identify_server(endpoint)
    if recorded != used:
        raise WrongServer(recorded, used)


class Journal:
    """The journal of a run that this process executes; a Recorder for any number of threads."""

    def __init__(
        self,
        path: pathlib.Path,
        descriptor: int,
        planned: Iterable[str] = (),
        sums: Sequence[str] = (),
    ) -> None:
        self.path = path
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._planned = set(planned)
        #: how many lines there are, and the sum of the last
        self._lines, self._sum = len(sums), sums[-1] if sums else START
        #: where the last whole record ends
        self._end = os.fstat(descriptor).st_size

    @property
    def id(self) -> str:
        """Return the ID of the run."""
        return self.path.name.removesuffix(_SUFFIX)

    @property
    def control(self) -> pathlib.Path:
        """Return the path of the control file."""
        return self.path.with_suffix(".control")

    def begin(self, plan: Plan) -> None:
        """Put all intents on the disk; only then a write may be sent.

        Steps that will not be tried are among them, so that they stay pending.
        """
        changes, unreached = plan.changes, plan.unreached
        self._planned |= {change.uuid for change in (*changes, *unreached)}
        self._append(
            *({"record": "intent", **change_to_json(change)} for change in changes),
            *(
                {
                    "record": "intent",
                    **change_to_json(change),
                    **error_to_json(plan.untried[change.uuid]),
                    **({"refused": True} if change.uuid in plan.refused else {}),
                }
                for change in unreached
            ),
        )
        self._append({"record": "planned", "changes": len(changes)})
        self._sync()

    def plan_again(self, change: Change) -> None:
        """Put a change that replaces the one planned on the disk."""
        self._planned.add(change.uuid)
        self._append({"record": "intent", **change_to_json(change)})
        self._sync()

    def end(self, outcome: Outcome) -> None:
        """Record the outcome of a change; nothing for what was not planned to be changed."""
        if outcome.change.uuid in self._planned:
            self._append(outcome_to_json(outcome))

    def end_sitting(self, report: Report) -> Report:
        """Record the exit status, state and counts; return the report, which says so if that failed."""
        summary: Mapping[str, Any] = {}
        # what a reader of the whole journal finds is found in the same way, which takes 0.3 s for 10,000
        # changes; it is left out if the journal cannot be read
        with contextlib.suppress(OSError, JournalError):
            found = parse(self.path, self.path.read_bytes()[: self._end]).summary
            numbers = {name: getattr(found, name) for name in _SUMMARY}
            summary = {"summary": numbers | ({"partial": found.partial} if found.partial else {})}
        try:
            self._append(
                {
                    "record": "end",
                    "status": report.exit_status,
                    "time": _format_time(datetime.datetime.now(datetime.UTC)),
                    **summary,
                }
            )
            self._sync()
        except JournalError as error:
            # what was done on the server is done, and to be told all the same
            return replace(report, halted=report.halted or str(error))
        return report

    def close(self) -> None:
        """Close the file, and remove the control file: it must not steer the next attempt.

        Do nothing if it is closed.
        """
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self.control.unlink()
        os.close(self._descriptor)
        self._descriptor = -1

    def _append(self, *records: Mapping[str, Any]) -> None:
        with self._lock, _as_journal_error(self.path):
            if os.fstat(self._descriptor).st_size > self._end:
                os.ftruncate(self._descriptor, self._end)
            lines, last = [], self._sum
            for record in records:
                line, last = chain_line(record, last)
                lines.append(line)
            data = b"".join(lines)
            rest = data
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._end += len(data)
            self._lines, self._sum = self._lines + len(lines), last

    def _sync(self) -> None:
        """Synchronize all lines, and then write the mark, which is never ahead of them."""
        with self._lock, _as_journal_error(self.path):
            os.fsync(self._descriptor)
            with contextlib.suppress(OSError):  # an older mark holds as well
                write_whole(_mark_of(self.path), [f"{self._lines} {self._sum}\n"], _OWNER_ONLY)


def outcome_to_json(outcome: Outcome) -> Mapping[str, Any]:
    """Return the record of an outcome."""
    facts = {
        "record": "outcome",
        "uuid": outcome.change.uuid,
        "result": str(outcome.result),
        "generation": outcome.generation,
        **(error_to_json(outcome.error) if outcome.error else {}),
        "note": outcome.note or None,
        "untouched": outcome.untouched or None,
        # by the server, for a reason that stays. In an intent, as in `Outcome.refused`, it means by the plan
        "refused": (outcome.untouched and outcome.rejected) or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


class Journals:
    """The journals in a directory.

    :param directory: where they are; None: in that of the user, see `state_directory`
    """

    def __init__(self, directory: pathlib.Path | None = None) -> None:
        self._directory = directory

    @property
    def directory(self) -> pathlib.Path:
        """Return the directory, which need not be there."""
        return self._directory or state_directory()

    def create(
        self,
        server: str,
        plan: Plan,
        *,
        selection: str = "",
        undoes: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Journal:
        """Begin the journal of a run; when this returns, the whole plan is on the disk."""
        now = datetime.datetime.now(datetime.UTC)
        directory = self.directory
        path = directory / f"{_make_id(now, directory)}{_SUFFIX}"
        header = {
            "record": "run",
            "version": VERSION,
            "id": path.stem,
            "server": identify_server(server),
            "edit": edit_to_json(plan.edit),
            "selection": selection,
            "started": _format_time(now),
            "undoes": undoes,
            "settings": dict(settings or {}),
            "selects": selection_to_json(plan.selection),
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            with _as_journal_error(path):
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(path, flags, _OWNER_ONLY)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            journal = Journal(path, descriptor)
            try:
                journal._append(header)
                journal.begin(plan)
                _sync_directory(directory)
            except BaseException:
                # nothing was written to the server, and nothing will be
                path.unlink(missing_ok=True)
                _mark_of(path).unlink(missing_ok=True)
                journal.close()
                raise
        except JournalError as error:
            raise JournalError(f"Nothing was changed: {error}") from error
        return journal

    def reopen(self, run_id: str) -> tuple[Run, Journal]:
        """Open the journal of a run that no process executes; leave one that is damaged as it is."""
        path = self._find(run_id)
        with _as_journal_error(path):
            descriptor = _open_locked(path)
        try:
            with _as_journal_error(path):
                mark, content = _read_mark(path), path.read_bytes()
                run = _parse_whole(path, content, mark)
                # what a dead process left half written must not run into the next line
                os.ftruncate(descriptor, content.rfind(b"\n") + 1)
                return run, Journal(path, descriptor, run.intents, run.sums)
        except BaseException:
            os.close(descriptor)
            raise

    def read(self, run_id: str) -> Run:
        """Read a run."""
        path = self._find(run_id)
        with _as_journal_error(path):
            # the mark first: whoever writes at the moment is ahead of it
            mark, content = _read_mark(path), path.read_bytes()
            run = _parse_whole(path, content, mark)
            with path.open("rb") as file:
                return replace(run, is_running=_is_locked(file))

    def read_summary(self, run_id: str) -> Summary:
        """Read the state and the counts of a run.

        PERF: if nothing was written behind the end of its last attempt, only the first line and the last are
        read and verified. The lines between are not, which is left to `read`; it takes 0.3 s for 10,000
        changes. Any other journal is read whole: of a run that is unfinished because its process died, and a
        copy without its mark.
        """
        path = self._find(run_id)
        with _as_journal_error(path):
            # the mark first: whoever writes at the moment is ahead of it
            mark = _read_mark(path)
            with path.open("rb") as file:
                header = _parse_marked(path, file.readline(), mark).header
                summary = _read_last_summary(file, mark)
                # after the last line: whoever resumes the run locks it before it writes
                if summary is not None and not _is_locked(file):
                    return Summary(header, **summary)
        return self.read(run_id).summary

    def read_header(self, run_id: str) -> Header:
        """Read what a run is about, without what it changes."""
        path = self._find(run_id)
        with _as_journal_error(path):
            mark = _read_mark(path)
            with path.open("rb") as file:
                return _parse_marked(path, file.readline(), mark).header

    def complete_id(self, run_id: str) -> str:
        """Return the ID of the run that is named, by its ID or by a prefix that no other run's ID has.

        Raise JournalError if there is none, or if there are several.
        """
        return self._find(run_id).name.removesuffix(_SUFFIX)

    def list_ids(self) -> list[str]:
        """Return the IDs of all runs, the oldest first."""
        return [path.name.removesuffix(_SUFFIX) for path in self._list_paths()]

    def read_all(self, server: str | None = None) -> Iterator[Run | JournalError]:
        """Yield all runs, the oldest first; in place of one that cannot be read, the error.

        :param server: yield only runs of the server that has this address, as `identify_server` returns it
        """
        return _read_each(self._list_paths(), self._only_of(server, self.read))

    def read_summaries(self, server: str | None = None) -> Iterator[Summary | JournalError]:
        """Yield the summaries of all runs, as `read_all` yields the runs."""
        return _read_each(self._list_paths(), self._only_of(server, self.read_summary))

    def read_headers(self, server: str) -> Iterator[Header | JournalError]:
        """Yield the headers of the runs for a server, the last first, or the error of a damaged one."""

        def read_wanted(run_id: str) -> Header | None:
            header = self.read_header(run_id)
            return header if header.server == server else None

        return _read_each(reversed(self._list_paths()), read_wanted)

    def read_undos(self, run_id: str) -> list[Summary]:
        """Return the runs that undo a run, and those that undo these, the oldest first.

        Runs that cannot be read are left out. PERF: an undo is started after what it undoes, so nothing is
        read of earlier runs, and of later ones that undo nothing here only the first line.
        """
        undone, undos = {run_id}, []
        later = [path for path in self._list_paths() if path.name > f"{run_id}{_SUFFIX}"]

        def read_wanted(other: str) -> Summary | None:
            return self.read_summary(other) if self.read_header(other).undoes in undone else None

        for run in _read_each(later, read_wanted):
            if isinstance(run, Summary):
                undone.add(run.header.id)
                undos.append(run)
        return undos

    def find_last(self, server: str) -> Header:
        """Return the header of the last run that was started for a server.

        Raise JournalError if there is none. A journal that cannot be read raises its error, as its run may be
        the last.
        """
        for header in self.read_headers(server):
            if isinstance(header, JournalError):
                raise header
            return header
        raise JournalError(f"There is no run for the placement at {server} in {self.directory}")

    def delete(self, run_id: str) -> None:
        """Delete a run's files; raise JournalError if it is under way. The journal may be damaged."""
        path = self._find(run_id)
        with _as_journal_error(path):
            descriptor = _open_locked(path)
            try:
                # a journal without the other files is read as any other
                for each in (_mark_of(path), path.with_suffix(".control"), path):
                    each.unlink(missing_ok=True)
            finally:
                os.close(descriptor)

    def _only_of(self, server: str | None, read: Callable[[str], _Read]) -> Callable[[str], _Read | None]:
        def read_wanted(run_id: str) -> _Read | None:
            is_wanted = server in (None, self.read_header(run_id).server)
            return read(run_id) if is_wanted else None

        return read_wanted

    def _list_paths(self) -> list[pathlib.Path]:
        """Return the journals, in the order in which their runs were started."""
        return sorted(self.directory.glob(f"*{_SUFFIX}"))

    def _find(self, run_id: str) -> pathlib.Path:
        """Return the journal of the run with this ID, or of the only one whose ID begins with it.

        An ID that a narrow list shows without its middle, as ``2026...7e8914``, does as well.
        """
        path = self.directory / f"{run_id}{_SUFFIX}"
        if run_id and "/" not in run_id:
            if path.is_file():
                return path
            begin, _, end = run_id.partition(CUT)
            paths, ending = self._list_paths(), f"{end}{_SUFFIX}"
            found = [each for each in paths if each.name.startswith(begin) and each.name.endswith(ending)]
            if len(found) == 1:
                return found[0]
            if found:
                more = len(found) - _MOST_CANDIDATES
                candidates = ", ".join(each.stem for each in found[-_MOST_CANDIDATES:])
                earlier = f", and {more:,} earlier" if more > 0 else ""
                told = f"{len(found):,} runs: {candidates}{earlier}"
                raise JournalError(f"{run_id!r} begins the IDs of {told}; give more of the ID")
        raise UnknownRun(run_id, self.directory)


def _read_each(
    paths: Iterable[pathlib.Path], read: Callable[[str], _Read | None]
) -> Iterator[_Read | JournalError]:
    """Yield what is read of journals, or the error, but nothing of one that is deleted meanwhile."""
    for path in paths:
        try:
            found: _Read | JournalError | None = read(path.name.removesuffix(_SUFFIX))
        except JournalError as error:
            found = error if path.exists() else None
        if found is not None:
            yield found


def _read_last_summary(file: IO[bytes], mark: tuple[int, str] | None) -> dict[str, Any] | None:
    """Return the summary in the last line; None if it has none, or is not the line that the mark is about.

    The sum of the mark covers the line and, by the sum of the line before it, all others.
    """
    if mark is None:
        return None
    file.seek(max(0, file.seek(0, os.SEEK_END) - _END_SIZE))
    lines = file.read().split(b"\n")
    if len(lines) < 3 or lines[-1]:
        return None
    before, last = lines[-3:-1]
    try:
        if check_line(last, read_sum(before)) != mark[1]:
            return None
        record = json.loads(last)
        summary = record["summary"]
        check_types(summary, _SUMMARY)
        check_types(summary, _MORE_OF_SUMMARY, optional=True)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    counts = {name: summary.get(name) or 0 for name in (*_SUMMARY, *_MORE_OF_SUMMARY)}
    return {**counts, "ended": str(record.get("time") or "")}


def _is_locked(file: IO[bytes]) -> bool:
    """Return whether another process writes to a journal."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _open_locked(path: pathlib.Path) -> int:
    """Open a journal and lock it; raise JournalError if another process holds the lock, or deleted it."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(descriptor).st_nlink:
            raise JournalError(f"Run {path.stem} was deleted by another process")
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise JournalError(f"Run {path.stem} is under way in another process") from None
        raise
    return descriptor


def _parse_whole(path: pathlib.Path, content: bytes, mark: tuple[int, str] | None) -> Run:
    """Parse a journal; raise JournalDamaged if it lacks lines that were on the disk.

    The lines that a process wrote since it last synchronized are not in the mark: it may die at any of them.
    """
    run = _parse_marked(path, content, mark)
    if mark:
        number, last = mark
        if number > len(run.sums) or run.sums[number - 1] != last:
            raise JournalDamaged(path, f"behind line {len(run.sums)}: it had {number} lines")
    return run


def _parse_marked(path: pathlib.Path, content: bytes, mark: tuple[int, str] | None) -> Run:
    """Parse the beginning of a journal; raise JournalDamaged if it is not that of a journal with a mark."""
    if mark and b"\n" not in content:
        raise JournalDamaged(path, f"at line 1: it is not whole, and there were {mark[0]} lines")
    return parse(path, content)


def _mark_of(path: pathlib.Path) -> pathlib.Path:
    return path.with_suffix(".mark")


def _read_mark(path: pathlib.Path) -> tuple[int, str] | None:
    """Return the mark; None if there is none, as beside a journal that was copied."""
    try:
        words = _mark_of(path).read_text("ascii", "replace").split()
    except OSError:
        return None
    return (int(words[0]), words[1]) if len(words) == 2 and words[0].isdecimal() and int(words[0]) else None


@contextlib.contextmanager
def _as_journal_error(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.EACCES, errno.EROFS):
            reason += "; XDG_STATE_HOME names another place for journals"
        raise JournalError(f"The journal {path} cannot be read or written: {reason}") from error


def _sync_directory(directory: pathlib.Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _format_time(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _make_id(moment: datetime.datetime, directory: pathlib.Path) -> str:
    """Return a name that sorts behind those of all runs that are there, also where a clock was set back.

    It has the time at which the run began; behind a name of later than that, the time of that name and a
    higher number.
    """
    name = f"{moment:%Y%m%dT%H%M%S}-{moment.microsecond:05x}{secrets.randbelow(16):x}"
    stems = (path.stem for path in directory.glob(f"*{_SUFFIX}"))
    last = max(filter(_ID.fullmatch, stems), default="")
    if name > last:
        return name
    time, _, number = last.partition("-")
    # by some, as another process may begin a run at the same moment
    higher = f"{int(number, 16) + 1 + secrets.randbelow(256):0{len(number)}x}"
    return f"{time}-{higher if len(higher) == len(number) else f'{number}0'}"
