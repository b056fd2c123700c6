# SPDX-License-Identifier: Apache-2.0
"""Runs with faults, crashes at every moment of them, and the resumes and undos of their cut journals.

A run is carried out once, and the cloud is remembered after each write. A crash is one of these moments with
the journal as it may be on the disk then: cut at any byte that is not older than the last synchronization.
It is written ``MOMENT:LINES+BYTES``.
"""

import contextlib
import json
import os
import pathlib
import tempfile
import types
from dataclasses import dataclass
from unittest import mock

from osc_placement.api import concurrency, retry
from osc_placement.batch import service
from osc_placement.batch.execute import execute_plan
from osc_placement.batch.journal.run import JournalDamaged
from osc_placement.errors import PlacementError
from tests.reliability.client_schedules.cases import CASES, make_cloud, read_with
from tests.reliability.client_schedules.cloud import OTHER, Server
from tests.reliability.client_schedules.judge import Judge
from tests.reliability.client_schedules.wire import Wire, World, format_faults

#: one after the other, so that the same schedule sends the same requests
_PACE = service.Pace(concurrency=1)
RESUME, UNDO, FORCE = "resume", "undo", "undo --force"


@dataclass(frozen=True, order=True)
class Cut:
    """A crash: the number of the moment, whole lines of the journal, and bytes of the next line."""

    moment: int
    lines: int
    torn: int = 0

    def __str__(self):
        return f"{self.moment}:{self.lines}+{self.torn}"


def parse_cut(text):
    """Return the crash that is written so; raise ValueError if it is none."""
    moment, _, rest = text.partition(":")
    lines, _, torn = rest.partition("+")
    return Cut(int(moment), int(lines), int(torn))


class Disk:
    """The directory of journals, and what of it is synchronized."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._synced = {}
        #: journals of other runs, which are whole
        self.others = frozenset()

    def fsync(self, descriptor):
        """Take the place of os.fsync."""
        found = os.fstat(descriptor)
        self._synced[found.st_ino] = found.st_size

    def settle(self, path):
        """Take the whole lines of a file as synchronized: a resume finds them on the disk."""
        content = path.read_bytes()
        self._synced[path.stat().st_ino] = content.rfind(b"\n") + 1

    @property
    def journal(self):
        """The path of the journal of the run; None if there is none yet."""
        paths = [path for path in self.path.glob("*.jsonl") if path.name not in self.others]
        return paths[0] if paths else None

    def look(self):
        """Return the size of the journal, how much of it is synchronized, and its mark."""
        path = self.journal
        if path is None:
            return 0, 0, None
        found, mark = path.stat(), path.with_suffix(".mark")
        text = mark.read_text() if mark.exists() else None
        return found.st_size, self._synced.get(found.st_ino, 0), text

    def empty(self):
        """Delete all files."""
        for path in self.path.iterdir():
            if path.is_file():
                path.unlink()


class _Inline:
    """Takes the place of a thread, and does its work when it is started: in an order that can be repeated."""

    ident = None

    def __init__(self, target, daemon):
        self.start = target


@contextlib.contextmanager
def opened():
    """Provide a `Bench`, with clients that send one request at a time and do not wait between attempts."""
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as directory,
        mock.patch.object(concurrency, "threading", types.SimpleNamespace(Thread=_Inline)),
        mock.patch.object(retry, "_FIRST_PAUSE", 0),
        contextlib.closing(Bench(directory)) as bench,
        mock.patch.object(os, "fsync", bench.disk.fsync),
    ):
        yield bench


class Bench:
    """The server and the disk of all trials."""

    def __init__(self, directory):
        self.disk = Disk(directory)
        self.server = Server()
        make_cloud(self.server.client)
        #: the database that all cases begin with
        self.cloud = self.server.save()
        self._starts = {"": (self.cloud, {})}
        self._judges = {}

    def close(self):
        """Close the server."""
        self.server.close()

    def start(self, case):
        """Return the database and the files with which a case begins, if it is an undo after that run."""
        key = case.before or (f"{case.name}, prepared" if case.prepare else "")
        if key not in self._starts:
            files = {}
            if case.before:
                history = self.conduct(CASES[case.before])
                assert not history.problems, history.problems
                files = {path.name: path.read_bytes() for path in self.disk.path.iterdir() if path.is_file()}
            else:
                self.server.restore(self.cloud)
                case.prepare(self.server.client)
            self._starts[key] = self.server.save(), files
        return self._starts[key]

    def judge(self, case):
        """Return the rules for a case; the goal of an undo is the cloud before the run that it undoes."""
        if case.name not in self._judges:
            self._judges[case.name] = self._make_judge(case)
        return self._judges[case.name]

    def _make_judge(self, case):
        if not case.before:
            return Judge(case.goal, case.is_closed, case.may_fail)
        cells = []
        for each in (CASES[case.before], case):
            self.server.restore(self.start(each)[0])
            cells.append(self.server.read_cells())
        first, then = cells
        goal = {
            cell: first.get(cell) for cell in first.keys() | then.keys() if first.get(cell) != then.get(cell)
        }

        def may_fail(ledger, uuid):
            taken = any(cell[1] == uuid and ledger.last.get(cell) == OTHER for cell in goal)
            return taken or case.may_fail(ledger, uuid)

        return Judge(lambda _cells: goal, case.is_closed, may_fail)

    def conduct(self, case, faults=(), origin=None, late=0):
        """Carry a run out with faults, or resume one that crashed, and judge what it says.

        :param origin: a history with the cut that a resume begins with; None for a new run
        :param late: the number of requests that overtake one that was on its way when the run crashed
        """
        judge = self.judge(case)
        if origin is None:
            contents, files = self.start(case)
            self.server.restore(contents)
            self._write(files)
            world = World(self.server, case.deeds, look=self.disk.look)
        else:
            files = origin[0].files
            world = self._restore(*origin, late)
        wire = Wire(world, faults, has_bulk=case.has_bulk)
        client = wire.client()
        problems, refusal = [], None
        try:
            if origin is None:
                job = case.plan(client, self.disk.path)
            else:
                job = self._plan_recovery(origin[0], client, RESUME)
            with job:
                outcomes = carry_out(client, job, self.disk.path).outcomes if job.is_needed else ()
        except PlacementError as error:
            refusal = error
        else:
            problems += judge.find_false_claims(world.ledger, outcomes, is_first=origin is None)
        world.deliver(everything=True)
        world.remember()
        if refusal and origin is None and world.ledger.written:
            problems.append(f"it was refused, and has written something: {refusal}")
        path = self.disk.journal
        content = path.read_bytes() if path else b""
        return History(case, tuple(faults), judge, world, path, content, files, problems, wire.number, origin)

    def _write(self, files):
        self.disk.empty()
        for name, content in files.items():
            (self.disk.path / name).write_bytes(content)
        self.disk.others = frozenset(files)

    def _restore(self, history, cut, late):
        """Make the cloud and the disk as they were at a crash; return the world."""
        moment = history.world.moments[cut.moment]
        self.server.restore(moment.contents)
        self._write(history.files)
        history.path.write_bytes(history.content[: history.find(cut)])
        self.disk.settle(history.path)
        if moment.mark is not None:
            history.path.with_suffix(".mark").write_text(moment.mark)
        world = World(self.server, history.case.deeds, moment.ledger.copy(), self.disk.look)
        for request in moment.waiting:
            world.wait(Wire(world, has_bulk=history.case.has_bulk), request, late)
        return world

    def _plan_recovery(self, history, client, verb):
        run_id, directory, read = history.path.stem, self.disk.path, read_with(client)
        if verb == RESUME:
            return service.Runs(directory).resume(client, run_id, read, concurrency=1)
        return service.Runs(directory).undo(client, run_id, read, force=verb == FORCE)

    def recover(self, history, cut, verbs, late=0):
        """Resume or undo, one after the other, a run that crashed; return its world and what is wrong.

        :param late: as of `conduct`; an undo begins when nothing is on its way any more
        """
        world = self._restore(history, cut, late)
        problems = []
        for verb in verbs:
            world.log.append(f"--- {verb}")
            problems += [f"{verb}: {each}" for each in self._recover(history, world, verb)]
        return world, problems

    def _recover(self, history, world, verb):
        if verb != RESUME:
            world.deliver(everything=True)
        before = dict(world.ledger.now)
        client = Wire(world, has_bulk=history.case.has_bulk).client()
        try:
            is_begun, applied = read_journal(history.path.read_bytes())
        except ValueError as error:
            return [f"the journal has a line that no run writes: {error}"]
        try:
            with self._plan_recovery(history, client, verb) as job:
                if job.is_needed:
                    outcomes = carry_out(client, job, self.disk.path).outcomes
                else:
                    outcomes = execute_plan(client, job.plan, concurrency=1).outcomes
        except JournalDamaged as error:
            return [str(error)]
        except PlacementError as error:
            world.deliver(everything=True)
            if not is_begun:
                return [f"something was written, and is refused: {error}"] if world.ledger.written else []
            return list(history.judge.judge_refusal(world.ledger, before, error))
        world.deliver(everything=True)
        if not is_begun and (world.ledger.now != before or world.ledger.written):
            return ["the journal says that nothing was begun"]
        if verb == RESUME:
            again = [
                f"{cell} of what was applied is written again"
                for cell in before.keys() | world.ledger.now.keys()
                if cell[1] in applied and before.get(cell) != world.ledger.now.get(cell)
            ]
            return [*again, *history.judge.judge_resume(world.ledger, outcomes)]
        return list(history.judge.judge_undo(world.ledger, before, outcomes, is_forced=verb == FORCE))


def read_journal(content):
    """Return whether a journal says that its run may have written something, and the ids of what is applied.

    Raise ValueError if a whole line is not JSON.
    """
    is_begun, applied = False, set()
    for line in content.split(b"\n")[:-1]:
        record = json.loads(line)
        if record["record"] == "planned":
            is_begun = True
        elif record["record"] == "outcome" and record["result"] == "applied":
            applied.add(record["uuid"])
        elif record["record"] == "intent" and "name" not in record:
            applied.discard((record.get("provider") or record["consumer"])["uuid"])
    return is_begun, applied


def carry_out(client, job, directory):
    """Carry a job out with a journal, as commands do, and return the report."""
    recorder = service.Runs(directory).start(client, job)
    return service.carry_out(client, job, recorder, _PACE)


@dataclass(frozen=True)
class History:
    """A run that was carried out with faults.

    :ivar path: of the journal; None if there is none
    :ivar content: of the journal in the end
    :ivar files: those that were there before
    :ivar problems: what the run said that was not so
    :ivar requests: their number
    :ivar origin: as of `Bench.conduct`
    """

    case: object
    faults: tuple
    judge: Judge
    world: World
    path: pathlib.Path | None
    content: bytes
    files: dict
    problems: list
    requests: int
    origin: tuple | None = None

    def __str__(self):
        begin = self.case.name if self.origin is None else f"{self.origin[0]}/{self.origin[1]}"
        return f"{begin}/{format_faults(self.faults)}"

    def find(self, cut):
        """Return the number of bytes that a cut leaves of the journal."""
        lines = self.content.splitlines(keepends=True)
        return sum(map(len, lines[: cut.lines])) + cut.torn

    def list_cuts(self, *, since=0):
        """Return the crashes at the ends of lines, from a moment on.

        The journal may be what it was after the last synchronization before the write, up to what it was when
        the next write was carried out.
        """
        if self.path is None:
            return []
        ends, position = [0], 0
        for line in self.content.splitlines(keepends=True):
            position += len(line)
            ends.append(position)
        moments = self.world.moments
        sizes = [moment.size for moment in moments[1:]] + [len(self.content)]
        return [
            Cut(number, lines)
            for number, (moment, size) in enumerate(zip(moments, sizes, strict=True))
            for lines, end in enumerate(ends)
            if number >= since and moment.synced <= end <= size
        ]

    def tear(self, cut, random):
        """Return the cut with some bytes of the next line; None if there is no next line to be torn."""
        lines = self.content.splitlines(keepends=True)
        # a torn line that is ended before a resume may be an empty one
        if cut.lines >= len(lines) or len(lines[cut.lines]) == 1:
            return None
        return Cut(cut.moment, cut.lines, random.randrange(1, len(lines[cut.lines])))

    def tear_everywhere(self, cut):
        """Return the cuts at every byte of the next line."""
        lines = self.content.splitlines(keepends=True)
        if cut.lines >= len(lines):
            return []
        return [Cut(cut.moment, cut.lines, torn) for torn in range(1, len(lines[cut.lines]))]
