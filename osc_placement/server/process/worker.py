# SPDX-License-Identifier: Apache-2.0
"""gunicorn's worker for placement: one loop reads and sends for all connections, threads only answer.

A thread gets a request that has arrived completely, and its answer is sent as fast as the client reads it,
by the loop if that takes longer. So a client that is slow in either direction uses memory, for which there
are limits (`limits`), but no thread. `_Queue` says in which order requests are served. The requests that
check whether a server is alive and whether it is ready have threads of their own, and are answered while all
other threads wait for a database.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import queue
import resource
import selectors
import signal
import socket
import threading
import time
from collections import defaultdict, deque
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from gunicorn.http import wsgi
from gunicorn.workers.base import Worker as BaseWorker

from osc_placement.server.process import limits, tls
from osc_placement.server.process.connection import Connection, Output, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

#: the signals that a worker handles differently from the process it is forked from
SIGNALS: Final = frozenset(BaseWorker.SIGNALS)
#: sets of paths with a thread of their own, which answers no other requests
RESERVED: Final = (frozenset(("/-/healthz",)), frozenset(("/", "/-/readyz")))
#: the addresses of proxies, which forward connections of many clients
PROXIES: Final = frozenset(("", "127.0.0.1", "::1"))

#: unsent bytes of an answer above which no more of it is produced. If each connection keeps so much and a
#: piece of 64 KiB, none is closed to make room: its client would only ask for the same answer again
_MOST_UNSENT: Final = limits.BUFFERED // limits.CONNECTIONS - (64 << 10)
#: the bytes of a connection that are not counted
_FEW: Final = 64 << 10
#: seconds between two checks for overdue connections, and between two heartbeats
_TICK: Final = 1.0
#: the same, while the worker stops
_STOPPING_TICK: Final = 0.05
#: seconds for which a client may send ignored bytes, so that it receives the answer and not a reset
_CLOSING_SECONDS: Final = 2.0
#: seconds after the signal to stop, and after an answer that does not announce the end of its connection, for
#: which an idle connection stays open, as a request may be on its way
_STOPPING_SECONDS: Final = 0.2
#: the same, for a new connection and its first request
_FIRST_REQUEST_SECONDS: Final = 1.0
#: seconds for which a request that was sent ahead is served after those of other clients
_MOST_DEFERRED_SECONDS: Final = 2.0
#: file descriptors reserved for other uses than connections of clients
_OTHER_FILES: Final = 128


@contextlib.contextmanager
def until_handled() -> Iterator[None]:
    """Block signals while a worker is forked, and in the worker until it handles them itself.

    Until then it has the handlers of the arbiter, which store a signal for a loop that the worker does not
    run. gunicorn tells a worker only once to stop: a worker that was just being started lost the signal, and
    was killed at the end of the grace period.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Turn(enum.Enum):
    """The kind of a turn for which a connection waits."""

    #: a request whose client has waited for the previous answer
    PROMPT = enum.auto()
    #: a request that the client sent before it had the previous answer
    AHEAD = enum.auto()
    #: the rest of an answer, of which the client has read what was made
    REST = enum.auto()


class _Settings:
    """The settings of gunicorn, each looked up once.

    PERF: gunicorn takes half a microsecond for each, and a request needs thirty of them. They do not change
    after a worker has started.
    """

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(self._cfg, name)
        return value


class Worker(BaseWorker):  # type: ignore[misc]  # it has no annotations
    """A process that serves requests; it has settings beside gunicorn's, which ``post_fork`` may set."""

    alive: bool
    #: the certificate that the arbiter has loaded for its workers; one that starts while the files cannot be
    #: used serves with it
    _inherited: ClassVar[tls.Tls | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: the largest number of connections of one address; 0 means no limit
        self.connections_per_address = limits.CONNECTIONS_PER_ADDRESS
        #: the addresses without that limit
        self.proxies: frozenset[str] = PROXIES
        #: gunicorn's settings, for what every request needs
        self.settings = _Settings(self.cfg)
        self._connections: set[Connection] = set()
        self._by_origin: defaultdict[str, set[Connection]] = defaultdict(set)
        self._most = self.cfg.worker_connections
        self._kept = 0
        self._listens = False
        if self.cfg.is_ssl:
            # the arbiter runs this, before it forks
            Worker._inherited = tls.load(self.cfg, Worker._inherited)
        self._tls = Worker._inherited if self.cfg.is_ssl else None
        #: the connections with a request, for the common threads and for each of the reserved threads
        self._queues = [_Queue() for _ in (None, *RESERVED)]
        #: the connections that threads have returned to the loop
        self._returned: queue.SimpleQueue[Connection] = queue.SimpleQueue()

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse to start with too few files; gunicorn calls this, and prints such an error in one line.

        :raises RuntimeError: a worker may have too few open files
        """
        if shortage := find_shortage(cfg.threads):
            raise RuntimeError(shortage)

    def init_signals(self) -> None:
        """Install the handlers of signals, including those blocked since :func:`until_handled`."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        """Stop as gracefully as for SIGTERM, and as the arbiter does itself for SIGINT and SIGQUIT."""
        self.handle_exit(sig, frame)

    def run(self) -> None:
        """Serve until told to stop, then finish requests in progress until the grace period is over.

        A worker that stops accepts the connections that wait in the system and closes its listeners. It
        answers requests of which a byte has arrived, and those that arrive on an idle connection within
        `_STOPPING_SECONDS`, or on a new one within `_FIRST_REQUEST_SECONDS`; these answers announce the end
        of the connection. Then it closes idle connections, each after a last look for bytes of a request. A
        request that is on its way at that moment is not processed, and its client finds the connection closed
        without an answer: HTTP/1.1 has no way to avoid that.
        """
        # at least one, also if the limit was lowered after the start
        self._most = max(1, min(self._most, _allow_files(self._most + _OTHER_FILES) - _OTHER_FILES))

        def serve_all(served: _Queue) -> None:
            while True:
                with served.take() as connection:
                    self._serve(connection)

        for served, count in zip(self._queues, (self.cfg.threads, *(1 for _ in RESERVED)), strict=True):
            for _ in range(count):
                threading.Thread(target=serve_all, args=(served,), daemon=True).start()
        self._selector = selectors.DefaultSelector()
        # signal handlers of gunicorn and threads write to this pipe
        self._selector.register(self.PIPE[0], selectors.EVENT_READ)
        for listener in self.sockets:
            listener.setblocking(False)
            if listener.family in (socket.AF_INET, socket.AF_INET6):
                # the connections inherit it
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, limits.UNSENT_IN_SYSTEM)
        self._listen(True)
        stop = float("inf")
        next_tick = 0.0
        while True:
            for key, events in self._selector.select(_TICK if self.alive else _STOPPING_TICK):
                self._handle(key, events)
            # what is returned from now on waits until the sockets of the others have been served: threads may
            # return requests that were sent ahead as fast as the loop passes the next ones to them
            for _ in range(self._returned.qsize()):
                self._begin_to_send(self._returned.get_nowait())
            now = time.monotonic()
            if not self.alive and stop == float("inf"):
                stop, next_tick = now, 0.0
                self._close_listeners()
            if not self.alive and (not self._connections or now > stop + self.cfg.graceful_timeout):
                break
            if now >= next_tick:
                next_tick = now + (_TICK if self.alive else _STOPPING_TICK)
                self.notify()
                if self.ppid != os.getppid():
                    self.log.info("Parent changed, shutting down: %s", self)
                    self.alive = False
                for overdue in [one for one in self._connections if self._is_overdue(one, now, stop)]:
                    self._end_overdue(overdue)
                if self._tls is not None:
                    self._tls = self._tls.refresh()
                self._listen(self.alive)

    # methods of the loop

    def _listen(self, wanted: bool) -> None:
        """Begin or cease to accept connections; those that arrive meanwhile wait in the system."""
        if wanted == self._listens:
            return
        self._listens = wanted
        for listener in self.sockets:
            if wanted:
                self._selector.register(listener, selectors.EVENT_READ, listener.getsockname())
            else:
                self._selector.unregister(listener)

    def _close_listeners(self) -> None:
        """Accept the connections that wait in the system, and no more.

        Once no process has the sockets, the system refuses connections, and resets those that wait. After a
        SIGHUP the arbiter and the new workers have them.
        """
        self._listen(False)
        for listener in self.sockets:
            # bounded, as others may come as fast as they are accepted
            for _ in range(self._most):
                if not self._accept(listener, listener.getsockname()):
                    break
            listener.close()

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        """Accept, read or send; an error caused by one client ends its connection and not the worker."""
        connection = key.data
        if key.fd == self.PIPE[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(key.fd, 4096)
            return
        if not isinstance(connection, Connection):
            self._accept(key.fileobj, key.data)
            return
        if connection not in self._connections:
            # it was closed in favour of another connection after the selector returned
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._send(connection)
            elif events & selectors.EVENT_READ:
                self._receive(connection)
        except Exception:
            self.log.exception("a connection cannot be served")
            if connection.state is not State.SERVED:
                self._end(connection)

    def _accept(self, listener: Any, server: Any) -> bool:
        """Take a connection from those that wait in the system; return False if there was none to take."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                if self._end_idlest(self._connections):
                    return True
                # the selector would report the waiting connection again and again; wait for the next tick
                self._listen(False)
            # a client that has gone; otherwise another worker was faster
            return error.errno == errno.ECONNABORTED
        if self._tls is not None:
            try:
                sock = self._tls.accept(sock)
            except OSError:
                # the client has gone
                sock.close()
                return True
        connection = Connection(sock, client, server, time.monotonic())
        if not self._make_room(connection):
            sock.close()
            return True
        self._connections.add(connection)
        self._by_origin[connection.origin].add(connection)
        self._watch(connection, selectors.EVENT_READ)
        return True

    def _make_room(self, newcomer: Connection) -> bool:
        """Close a connection if there are too many for one more; return False if none can be closed."""
        siblings = self._by_origin.get(newcomer.origin, set())
        if 0 < self.connections_per_address <= len(siblings) and newcomer.address not in self.proxies:
            return self._end_idlest(siblings)
        if len(self._connections) < self._most:
            return True
        greediest = max(self._by_origin.values(), key=len)
        return self._end_idlest(greediest) or self._end_idlest(self._connections)

    def _end_idlest(self, connections: Iterable[Connection]) -> bool:
        """Close the connection that is idle for longest, or else the newest that waits for its client."""
        idle = [one for one in connections if one.state is State.IDLE and one.requests]
        if idle:
            self._end(min(idle, key=lambda one: one.since))
            return True
        waiting = [one for one in connections if one.state is not State.SERVED]
        if waiting:
            self._end(max(waiting, key=lambda one: one.since))
        return bool(waiting)

    def _watch(self, connection: Connection, events: int) -> None:
        if events == connection.events:
            return
        if not connection.events:
            self._selector.register(connection.sock, events, connection)
        elif not events:
            self._selector.unregister(connection.sock)
        else:
            self._selector.modify(connection.sock, events, connection)
        connection.events = events

    def _receive(self, connection: Connection) -> None:
        with connection.lock:
            if connection.state is State.SERVED:
                # unregistered until the answer is sent; the thread will see that it has to return the
                # connection
                connection.watched = False
                self._watch(connection, 0)
                return
        if not connection.receive():
            if connection.state is State.ARRIVING and connection.end_body():
                connection.state = State.SERVED
                self._give(connection)
            else:
                self._end(connection)
        elif connection.state is not State.CLOSING:
            self._look_for_request(connection)

    def _look_for_request(self, connection: Connection, *, was_sent_ahead: bool = False) -> None:
        """Pass the next request to a thread, if it is complete.

        :param was_sent_ahead: whether the client sent it before it had the previous answer
        """
        if connection.state is State.IDLE and connection.has_begun():
            connection.state = State.ARRIVING
            connection.since = time.monotonic()
        try:
            is_complete = connection.find_request(self.settings)
        except Exception as error:
            connection.closes_after = True
            self.handle_error(None, Output(connection), connection.client, error)
            self._begin_to_send(connection)
            return
        if is_complete:
            # set before the bytes are counted, which may close a connection, but none in this state
            connection.state = State.SERVED
        self._count(connection)
        if is_complete:
            self._give(connection, _Turn.AHEAD if was_sent_ahead else _Turn.PROMPT)

    def _give(self, connection: Connection, turn: _Turn = _Turn.PROMPT) -> None:
        """Queue a connection for a thread."""
        path = connection.request.path
        reserved = (number for number, paths in enumerate(RESERVED, 1) if path in paths)
        self._queues[next(reserved, 0)].put(connection, turn)

    def _begin_to_send(self, connection: Connection) -> None:
        connection.since = time.monotonic()
        connection.state = State.SENDING
        if not connection.waits_since:
            connection.waits_since = connection.since
            connection.sent = 0
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        """Send as much as a client accepts and, when all is sent, continue with the connection."""
        before = connection.unsent
        if not connection.send():
            self._end(connection)
            return
        if connection.unsent < before:
            connection.since = time.monotonic()
        if connection.unsent:
            self._watch(connection, selectors.EVENT_WRITE)
            self._count(connection)
        elif connection.unfinished is not None:
            self._watch(connection, 0)
            connection.watched = False
            connection.state = State.SERVED
            # the time spent waiting for a thread is not the client's fault
            connection.waits_since = 0.0
            self._give(connection, _Turn.REST)
        else:
            # all is sent; the next request follows, or the end of the connection
            connection.waits_since = 0.0
            connection.end_request()
            connection.since = time.monotonic()
            if connection.closes_after:
                connection.state = State.CLOSING
                try:
                    connection.sock.shutdown(socket.SHUT_WR)
                except OSError:
                    self._end(connection)
                    return
            else:
                connection.state = State.IDLE
            connection.watched = True
            self._watch(connection, selectors.EVENT_READ)
            if connection.has_more and connection.state is State.IDLE:
                self._look_for_request(connection, was_sent_ahead=True)
            else:
                self._count(connection)

    def _count(self, connection: Connection) -> None:
        """Count the bytes that wait; if there are too many in all, close a connection that has many."""
        kept = connection.kept
        if kept < _FEW:
            kept = 0
        self._kept += kept - connection.counted
        connection.counted = kept
        while self._kept > limits.BUFFERED:
            greediest = max(
                self._by_origin.values(), key=lambda siblings: sum(one.counted for one in siblings)
            )
            waiting = _that_wait(greediest) or _that_wait(self._connections)
            if not waiting:
                return
            self._end(max(waiting, key=lambda one: one.counted))

    def _is_overdue(self, connection: Connection, now: float, stop: float) -> bool:
        # in this order: a thread that makes it idle sets the time before
        state = connection.state
        waited = now - connection.since
        match state:
            case State.IDLE if connection.requests:
                return waited > self.cfg.keepalive or now > max(stop, connection.since) + _STOPPING_SECONDS
            case State.IDLE:
                return waited > limits.REQUEST_SECONDS or now > stop + _FIRST_REQUEST_SECONDS
            case State.ARRIVING:
                return waited > limits.REQUEST_SECONDS
            case State.SENDING:
                expected = (now - connection.waits_since - limits.STALL_SECONDS) * limits.SLOWEST_READING
                return waited > limits.STALL_SECONDS or connection.sent < expected
            case State.CLOSING:
                # clients that keep connections close them only when they need the next one
                return waited > (_CLOSING_SECONDS if stop == float("inf") else _STOPPING_SECONDS)
        return False

    def _end_overdue(self, connection: Connection) -> None:
        """Close an overdue connection, unless it is idle and bytes of a request have arrived just now."""
        was_idle = connection.state is State.IDLE and connection in self._connections
        if was_idle:
            self._handle(self._selector.get_key(connection.sock), selectors.EVENT_READ)
        if not was_idle or connection.state is State.IDLE:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """Close a connection that no thread owns, unless it is closed."""
        if connection not in self._connections:
            return
        self._watch(connection, 0)
        self._connections.remove(connection)
        siblings = self._by_origin[connection.origin]
        siblings.discard(connection)
        if not siblings:
            del self._by_origin[connection.origin]
        self._kept -= connection.counted
        connection.counted = 0
        unfinished, connection.unfinished = connection.unfinished, None
        connection.close()
        if unfinished is not None:
            unfinished.close()

    # methods of the threads

    def _serve(self, connection: Connection) -> None:
        """Answer a request, or continue an answer, as far as the client reads it."""
        try:
            if connection.unfinished is None:
                connection.unfinished = _Answer(self, connection)
                connection.unfinished.begin()
            if connection.unfinished.go_on():
                connection.unfinished.close()
                connection.unfinished = None
        except Exception as error:
            connection.closes_after = True
            answer, connection.unfinished = connection.unfinished, None
            if answer is not None and answer.has_begun:
                self.log.exception("the rest of an answer cannot be made: %s", error)
            else:
                self.handle_error(connection.request, Output(connection), connection.client, error)
            if answer is not None:
                answer.close()
        self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        """Send as much as the client accepts, and leave the rest to the loop."""
        is_open = connection.send()
        with connection.lock:
            if (
                is_open
                and connection.watched
                and not connection.unsent
                and not connection.closes_after
                and not connection.counted
                and connection.reader is None
                and not connection.has_more
                and connection.unfinished is None
            ):
                # PERF: the loop watches the connection already, so it need not be woken
                connection.end_request()
                connection.waits_since = 0.0
                connection.since = time.monotonic()
                connection.state = State.IDLE
                return
        self._returned.put(connection)
        # if the pipe is full, the loop is about to wake up
        with contextlib.suppress(BlockingIOError):
            os.write(self.PIPE[1], b".")


def _that_wait(connections: Iterable[Connection]) -> list[Connection]:
    """Return the connections that no thread owns and that have counted bytes."""
    return [one for one in connections if one.counted and one.state is not State.SERVED]


class _Queue:
    """A queue of connections that wait for a thread, in the order of arrival.

    A request that was sent ahead is served as if it had arrived `_MOST_DEFERRED_SECONDS` later, if others
    wait. Of such requests, and of the rests of long answers, one each is served at a time, however many
    threads are free: each of the two kinds takes the processor time of one thread at most, and neither waits
    for the other.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        #: by turn, the connections with the times that order them, ascending
        self._waiting: dict[_Turn, deque[tuple[float, Connection]]] = {turn: deque() for turn in _Turn}
        #: the turns of which none can be taken now
        self._taken: set[_Turn] = set()

    def put(self, connection: Connection, turn: _Turn = _Turn.PROMPT) -> None:
        """Add a connection."""
        delay = _MOST_DEFERRED_SECONDS if turn is _Turn.AHEAD else 0.0
        with self._condition:
            self._waiting[turn].append((time.monotonic() + delay, connection))
            if turn not in self._taken:
                self._condition.notify()

    @contextlib.contextmanager
    def take(self) -> Iterator[Connection]:
        """Wait for a connection, and own it for as long as the context lasts."""
        with self._condition:
            while not (
                turns := [turn for turn, of in self._waiting.items() if of and turn not in self._taken]
            ):
                self._condition.wait()
            turn = min(turns, key=lambda turn: self._waiting[turn][0][0])
            _, connection = self._waiting[turn].popleft()
            if turn is not _Turn.PROMPT:
                self._taken.add(turn)
        try:
            yield connection
        finally:
            if turn is not _Turn.PROMPT:
                with self._condition:
                    self._taken.remove(turn)
                    if self._waiting[turn]:
                        self._condition.notify()


class _Answer:
    """An answer that one thread at a time produces."""

    def __init__(self, worker: Worker, connection: Connection) -> None:
        self._worker = worker
        self._connection = connection
        self._request = connection.request
        self._began = datetime.now()
        self._response: Any = None
        self._environ: dict[str, Any] = {}
        self._body: Any = None
        self._pieces: Iterator[bytes] = iter(())

    @property
    def has_begun(self) -> bool:
        """Return whether a part of the answer may have been sent."""
        return self._response is not None and self._response.headers_sent

    def begin(self) -> None:
        """Call the application."""
        worker, connection = self._worker, self._connection
        self._response, self._environ = wsgi.create(
            self._request, Output(connection), connection.client, connection.server, worker.settings
        )
        self._environ.update({"wsgi.multithread": True, limits.THREADS_KEY: worker.cfg.threads})
        worker.nr += 1
        if worker.nr >= worker.max_requests and worker.alive:
            worker.log.info("Autorestarting worker after current request.")
            worker.alive = False
        if connection.closes_after or not worker.alive or not worker.settings.keepalive:
            self._response.force_close()
        self._body = worker.wsgi(self._environ, self._response.start_response)
        self._pieces = iter(self._body)

    def go_on(self) -> bool:
        """Produce as much of the answer as the client reads; return True if it is complete."""
        connection = self._connection
        for piece in self._pieces:
            self._response.write(piece)
            if connection.unsent > _MOST_UNSENT:
                is_open = connection.send()
                if not is_open or connection.unsent > _MOST_UNSENT:
                    return False
        self._response.close()
        connection.closes_after = connection.closes_after or self._response.should_close()
        return True

    def close(self) -> None:
        """Tell the application and gunicorn's log that the answer has ended, complete or not."""
        worker = self._worker
        try:
            if hasattr(self._body, "close"):
                self._body.close()
            if self._response is not None and self._response.status is not None:
                worker.log.access(self._response, self._request, self._environ, datetime.now() - self._began)
        except Exception:
            worker.log.exception("an answer did not end well")


def find_shortage(threads: int) -> str | None:
    """Return why a worker may have too few open files, None if it may have enough.

    Each thread has to have a connection to serve.
    """
    needed = _OTHER_FILES + threads + len(RESERVED)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return None
    return (
        f"A process may have {hard} open files at most here, and a worker with {threads} threads needs "
        f"{needed}: raise the hard limit (ulimit -Hn, LimitNOFILE in systemd, --ulimit nofile of a container)"
    )


def _allow_files(wanted: int) -> int:
    """Raise the limit on open files, as far as the system permits; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return wanted if soft == resource.RLIM_INFINITY else soft
