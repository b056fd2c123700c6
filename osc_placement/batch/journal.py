# SPDX-License-Identifier: Apache-2.0
"""Runs on disk: what was meant, what was there before, how it ended. Resume and undo need nothing else.

A run is one file of JSON Lines, appended to and never rewritten, readable by its owner only:

    {"record": "run", "version": 1, ...}          whose run, on which server, what edit
    {"record": "intent", "provider": {...}, "before": {...}, "after": {...}}      one for each change
    {"record": "planned", "changes": 2}           all intents are here and on the disk; now writes may begin
    {"record": "intent", ...}                     planned again, because somebody else was faster
    {"record": "outcome", "uuid": ..., "result": "applied", "generation": 5}
    {"record": "end", "status": 0}                how this sitting ended; a resume appends more of the above

A process may die at any byte: a last line that is torn is as good as not written. Only the file's own writer
holds a lock on it, so a run that is under way can be told from one that died.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from osc_placement.batch.plan import Change, Edit, Outcome, Plan, Report, Result
from osc_placement.batch.record import change_from_json, change_to_json, edit_from_json, edit_to_json
from osc_placement.errors import PlacementError

VERSION: Final = 1
_SUFFIX: Final = ".jsonl"


class JournalError(PlacementError):
    """A journal cannot be written, found or read."""


def state_directory() -> pathlib.Path:
    """Where runs are kept unless the caller says otherwise."""
    root = os.environ.get("XDG_STATE_HOME") or ""
    # the specification wants a relative path to be ignored
    base = pathlib.Path(root) if root.startswith("/") else pathlib.Path.home() / ".local" / "state"
    return base / "osc-placement" / "runs"


def identify_server(endpoint: str) -> str:
    """The address of a server without what may be secret in it."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


@dataclass(frozen=True, slots=True)
class Header:
    """What a run is about."""

    id: str
    server: str
    edit: Edit
    selection: str = ""
    started: str = ""
    undoes: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended for one provider, as far as the journal tells."""

    result: Result
    generation: int | None = None
    error: str = ""
    note: str = ""


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

    @property
    def state(self) -> str:
        """One word for how far it is."""
        if self.is_running:
            return "running"
        if not self.is_planned:
            return "not begun"
        if self.pending:
            return "unfinished"
        return "done"

    @property
    def pending(self) -> tuple[Change, ...]:
        """What is neither applied nor found to need nothing."""
        finished = {
            uuid
            for uuid, ending in self.endings.items()
            if ending.result in (Result.APPLIED, Result.UNCHANGED)
        }
        return tuple(change for uuid, change in self.intents.items() if uuid not in finished)

    @property
    def applied(self) -> int:
        """How many providers are known to be changed."""
        return sum(ending.result is Result.APPLIED for ending in self.endings.values())

    @property
    def failed(self) -> int:
        """How many providers failed."""
        return sum(ending.result is Result.FAILED for ending in self.endings.values())


class Journal:
    """The journal of a run that this process executes; a Recorder for any number of threads."""

    def __init__(self, path: pathlib.Path, descriptor: int, planned: Iterable[str] = ()) -> None:
        self.path = path
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._planned = set(planned)

    @property
    def id(self) -> str:
        """What commands call the run."""
        return self.path.name.removesuffix(_SUFFIX)

    @property
    def control(self) -> pathlib.Path:
        """The file that steers the run while it goes."""
        return self.path.with_suffix(".control")

    def begin(self, plan: Plan) -> None:
        """Put all intents on the disk; only then a write may be sent."""
        changes = plan.changes
        self._planned |= {change.uuid for change in changes}
        self._append(*({"record": "intent", **change_to_json(change)} for change in changes))
        self._append({"record": "planned", "changes": len(changes)})
        self._sync()

    def plan_again(self, change: Change) -> None:
        """Put a change that replaces the one planned on the disk."""
        self._append({"record": "intent", **change_to_json(change)})
        self._sync()

    def end(self, outcome: Outcome) -> None:
        """Keep how it ended for one provider; those that were never to be changed are not kept."""
        if outcome.change.uuid in self._planned:
            self._append(outcome_to_json(outcome))

    def end_sitting(self, report: Report) -> None:
        """Keep the exit status; a resume may go on after it."""
        self._append({"record": "end", "status": report.exit_status, "time": _now()})
        self._sync()

    def close(self) -> None:
        """Let go of the file; what steered this sitting must not steer the next."""
        with contextlib.suppress(OSError):
            self.control.unlink()
        os.close(self._descriptor)

    def _append(self, *records: Mapping[str, Any]) -> None:
        text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        with self._lock, _telling(self.path):
            _write_all(self._descriptor, text.encode())

    def _sync(self) -> None:
        with _telling(self.path):
            os.fsync(self._descriptor)


def outcome_to_json(outcome: Outcome) -> Mapping[str, Any]:
    """How it ended for one provider."""
    facts = {
        "record": "outcome",
        "uuid": outcome.change.uuid,
        "result": str(outcome.result),
        "generation": outcome.generation,
        "error": str(outcome.error) if outcome.error else None,
        "note": outcome.note or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def create(
    server: str,
    plan: Plan,
    *,
    selection: str = "",
    undoes: str | None = None,
    settings: Mapping[str, Any] | None = None,
    directory: pathlib.Path | None = None,
) -> Journal:
    """Begin the journal of a run; when this returns, the whole plan is on the disk."""
    directory = directory or state_directory()
    now = datetime.datetime.now(datetime.UTC)
    path = directory / f"{_make_id(now)}{_SUFFIX}"
    with _telling(path):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    journal = Journal(path, descriptor)
    journal._append(
        {
            "record": "run",
            "version": VERSION,
            "id": journal.id,
            "server": identify_server(server),
            "edit": edit_to_json(plan.edit),
            "selection": selection,
            "started": _format_time(now),
            "undoes": undoes,
            "settings": dict(settings or {}),
        }
    )
    journal.begin(plan)
    _sync_directory(directory)
    return journal


def reopen(run_id: str, directory: pathlib.Path | None = None) -> tuple[Run, Journal]:
    """Go on with the journal of a run that nobody executes at present."""
    path = _find(run_id, directory)
    with _telling(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise JournalError(f"Run {run_id} is under way in another process") from None
        content = path.read_bytes()
        # what a dead process left half written must not run into the next line
        os.ftruncate(descriptor, content.rfind(b"\n") + 1)
    try:
        run = _parse(path, content)
        return run, Journal(path, descriptor, run.intents)
    except BaseException:
        os.close(descriptor)
        raise


def read(run_id: str, directory: pathlib.Path | None = None) -> Run:
    """One run."""
    path = _find(run_id, directory)
    with _telling(path):
        return _parse(path, path.read_bytes(), is_running=_is_locked(path))


def read_header(run_id: str, directory: pathlib.Path | None = None) -> Header:
    """What one run is about, without what it changes."""
    path = _find(run_id, directory)
    with _telling(path), path.open("rb") as file:
        return _parse(path, file.readline()).header


def read_all(directory: pathlib.Path | None = None) -> Iterator[Run | JournalError]:
    """All runs, the oldest first; in place of one that cannot be read, why."""
    for path in sorted((directory or state_directory()).glob(f"*{_SUFFIX}")):
        try:
            yield read(path.name.removesuffix(_SUFFIX), path.parent)
        except JournalError as error:
            yield error


def _find(run_id: str, directory: pathlib.Path | None) -> pathlib.Path:
    directory = directory or state_directory()
    path = directory / f"{run_id}{_SUFFIX}"
    if not run_id or "/" in run_id or not path.is_file():
        raise JournalError(f"There is no run {run_id!r} in {directory} (see: batch run list)")
    return path


def _is_locked(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _parse(path: pathlib.Path, content: bytes, *, is_running: bool = False) -> Run:
    """Read a journal; what stands behind the last line end is torn, and never was."""
    lines = content.split(b"\n")[:-1]
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        try:
            reader.take(json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise JournalError(f"{path} is damaged at line {number}: {error!r}") from error
    if reader.header is None:
        raise JournalError(f"{path} has no first line: its run died before it began; nothing was changed")
    return Run(
        reader.header, reader.intents, reader.endings, reader.is_planned, is_running, status=reader.status
    )


class _Reader:
    """What the lines read so far come to."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.intents: dict[str, Change] = {}
        self.endings: dict[str, Ending] = {}
        self.is_planned = False
        self.status: int | None = None

    def take(self, record: Mapping[str, Any]) -> None:
        """Take one line; a kind that a later version invented is passed over."""
        take = {
            "run": self._take_header,
            "intent": self._take_intent,
            "planned": self._take_planned,
            "outcome": self._take_outcome,
            "end": self._take_end,
        }.get(record["record"])
        if take:
            take(record)

    def _take_header(self, record: Mapping[str, Any]) -> None:
        if record["version"] > VERSION:
            raise ValueError(f"version {record['version']} is newer than this osc-placement")
        self.header = Header(
            record["id"],
            record["server"],
            edit_from_json(record["edit"]),
            record.get("selection", ""),
            record.get("started", ""),
            record.get("undoes"),
            record.get("settings", {}),
        )

    def _take_intent(self, record: Mapping[str, Any]) -> None:
        change = change_from_json(dict(record))
        self.intents[change.uuid] = change
        self.endings.pop(change.uuid, None)

    def _take_planned(self, _record: Mapping[str, Any]) -> None:
        self.is_planned = True

    def _take_outcome(self, record: Mapping[str, Any]) -> None:
        self.endings[record["uuid"]] = Ending(
            Result(record["result"]),
            record.get("generation"),
            record.get("error", ""),
            record.get("note", ""),
        )

    def _take_end(self, record: Mapping[str, Any]) -> None:
        self.status = record["status"]


@contextlib.contextmanager
def _telling(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise JournalError(f"The journal {path} cannot be read or written: {reason}") from error


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sync_directory(directory: pathlib.Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _now() -> str:
    return _format_time(datetime.datetime.now(datetime.UTC))


def _format_time(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _make_id(moment: datetime.datetime) -> str:
    """A name that sorts by the time a run began, also among those of one second."""
    return f"{moment:%Y%m%dT%H%M%S}-{moment.microsecond:05x}{secrets.randbelow(16):x}"
