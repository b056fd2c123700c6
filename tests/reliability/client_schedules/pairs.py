# SPDX-License-Identifier: Apache-2.0
"""Two clients that run, resume and undo beside each other, by turns at each request.

A pair is two scripts such as ``run ratio-single`` and ``undo class``. What a resume or an undo is about was
begun, or done, before either of them starts. The threads and the order of their requests are those of
`tests.reliability.schedules`.
"""

import pathlib

from osc_placement.batch import service
from osc_placement.errors import PlacementError
from tests.reliability.client_schedules.cases import CASES, read_with
from tests.reliability.client_schedules.cloud import OTHER, RUN, Ledger
from tests.reliability.client_schedules.judge import Judge
from tests.reliability.client_schedules.trials import carry_out
from tests.reliability.client_schedules.wire import Wire, World

PAIRS = (
    "run ratio-single+run ratio-high",
    "run ratio-single+resume ratio-high",
    "resume ratio-single+undo ratio-high",
    "undo ratio-single+undo class",
    "run trait-set+run other-trait",
    "resume trait-set+undo other-trait",
    "run ratio-atomic+run class",
    "resume class+undo ratio-single",
    "run reshape+run ratio-single",
    "undo reshape+resume ratio-single",
)
#: after how many of its requests a run dies that is to be resumed: some of it is written by then
_DIES_AFTER = 6


class _Died(BaseException):
    """The process of a client is killed."""


class _Monitor:
    """Tells the controller that no client waits for a lock, and that no request is met by a fault."""

    faults = ("", "")

    def find_waiting(self):
        return set()

    def admits(self, _statement):
        return True

    def await_other_nodes(self):
        pass


class _Seat:
    """The place of a client in a schedule."""

    database = controller = actor = None

    def stop(self, text):
        """Stop before a request until the client may go on."""
        self.controller.stop(self.actor, text)


class _Ledgers:
    """A ledger for each of two clients, in which the other one is somebody else."""

    def __init__(self, cells):
        self.each = (Ledger(cells), Ledger(cells))

    def copy(self):
        other = _Ledgers({})
        other.each = tuple(ledger.copy() for ledger in self.each)
        return other

    @property
    def now(self):
        return self.each[0].now

    def note(self, actor, cells):
        for number, ledger in enumerate(self.each):
            ledger.note(RUN if number == actor else OTHER, cells)


class _Setting:
    """The world of one schedule, with the files of each client.

    :ivar phase: a ledger that begins with the schedule
    """

    def __init__(self, world, directories, phase):
        self.world, self.directories, self.phase = world, directories, phase


class _World(World):
    """A world that notes the writes since a schedule began as well."""

    phase = None

    def note(self, actor):
        if self.phase is not None:
            self.phase.note(actor, self.server.read_cells())
        super().note(actor)


class Pair:
    """Two scripts, as a case of `tests.reliability.schedules.explore`."""

    def __init__(self, bench, text):
        self._bench, self.text = bench, text
        self.monitor = _Monitor()
        self.seats = [_Seat(), _Seat()]
        self._scripts = []
        for script in text.split("+"):
            verb, _, name = script.partition(" ")
            self._scripts.append((verb, CASES[name]))
        self._directories = [pathlib.Path(bench.disk.path) / str(number) for number in range(2)]
        self._prepared = None

    def prepare(self):
        """Return the world in which both begin."""
        if self._prepared is None:
            self._prepared = self._make()
        contents, ledgers, files = self._prepared
        self._bench.server.restore(contents)
        for directory, content in zip(self._directories, files, strict=True):
            _clear(directory)
            for name, data in content.items():
                (directory / name).write_bytes(data)
        world = _World(self._bench.server, ledger=ledgers.copy())
        world.phase = _Ledgers(world.ledger.now)
        return _Setting(world, self._directories, world.phase)

    def _make(self):
        """Do what a resume or an undo is about; return the database, the ledgers and the files."""
        server = self._bench.server
        server.restore(self._bench.cloud)
        world = World(server, ledger=_Ledgers(server.read_cells()))
        for number, (verb, case) in enumerate(self._scripts):
            _clear(self._directories[number])
            if verb != "run":
                self._run(world, number, case, dies=verb == "resume")
        files = [{path.name: path.read_bytes() for path in each.iterdir()} for each in self._directories]
        return server.save(), world.ledger, files

    def _run(self, world, number, case, *, dies):
        def stop(_text):
            if dies and wire.number == _DIES_AFTER:
                raise _Died

        wire = Wire(world, actor=number, has_bulk=case.has_bulk, stop=stop)
        client = wire.client()
        try:
            with case.plan(client, self._directories[number]) as job:
                carry_out(client, job, self._directories[number])
        except _Died:
            pass

    def operations(self, setting):
        """Return a function for each client; its result is the outcomes, or the error."""
        return [self._make_operation(setting, number) for number in range(2)]

    def _make_operation(self, setting, number):
        verb, case = self._scripts[number]
        directory, stop = setting.directories[number], self.seats[number].stop

        def carry(_database):
            wire = Wire(setting.world, actor=number, has_bulk=case.has_bulk)
            client = wire.client()
            # under a lock that two processes do not share
            assert client.version
            wire.stop = stop
            return _do(verb, case, client, directory)

        return carry

    def judge(self, setting, controller):
        """Return what is wrong with the outcome of a schedule, or with the undo of the first client's run."""
        problems = [
            f"client {actor.number} raised {actor.failure!r}"
            for actor in controller.actors
            if actor.failure is not None
        ]
        if problems:
            return "; ".join(problems)
        outcomes = [actor.outcome for actor in controller.actors]
        for number, (verb, case) in enumerate(self._scripts):
            # at the end of both, each is judged by what the other has written
            ledger, phase = setting.world.ledger.each[number], setting.phase.each[number]
            wrong = self._judge(verb, case, ledger, phase, outcomes[number])
            problems += [f"client {number}: {each}" for each in wrong]
        verb, case = self._scripts[0]
        if verb != "undo" and not problems:
            phase = setting.world.phase = _Ledgers(setting.world.ledger.now)
            client = Wire(setting.world, actor=0, has_bulk=case.has_bulk).client()
            found = _do("undo", case, client, setting.directories[0])
            ledger = setting.world.ledger.each[0]
            problems += [f"undo: {each}" for each in self._judge("undo", case, ledger, phase.each[0], found)]
        return "; ".join(problems[:3])

    def renew_workers(self):
        """Do nothing: each schedule has clients of its own."""

    def _judge(self, verb, case, ledger, phase, found):
        def may_fail(ledger, uuid):
            return case.may_fail(ledger, uuid) or (verb == "undo" and ledger.is_overwritten(uuid))

        judge = Judge(case.goal, case.is_closed, may_fail)
        if isinstance(found, PlacementError):
            if phase.written:
                return [f"it was refused, and has written something: {found}"]
            return [f"it was refused, and nobody else wrote anything: {found}"] if ledger.is_alone else []
        if verb == "undo":
            return list(judge.judge_undo(ledger, phase.without, found))
        return list(judge.judge_resume(ledger, found))


def _do(verb, case, client, directory):
    """Run, resume or undo as a command does; return the outcomes, or the error that it ends with."""
    try:
        if verb == "run":
            job = case.plan(client, directory)
        else:
            run_id = min(directory.glob("*.jsonl")).stem
            runs = service.Runs(directory)
            plan = runs.resume if verb == "resume" else runs.undo
            job = plan(client, run_id, read_with(client))
        with job:
            if job.is_needed:
                return carry_out(client, job, directory).outcomes
            return job.plan.end().outcomes
    except PlacementError as error:
        return error


def _clear(directory):
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
