# SPDX-License-Identifier: Apache-2.0
"""The process that asks our side what upstream has answered, and compares.

Our side is the application itself, on a database that refuses changes, or a service at a URL, which is sent
reads only. The process ends when the forwarding side closes its end of the socket.

An answer that differs may be of another moment: upstream and our side are asked again until upstream gives
the same answer before and after ours, twice in a row. If ours differs both times, it counts; a write that is
undone between two questions does not pass for a difference.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from osc_placement.server import deploy
from osc_placement.server.process import metrics, opening, serve
from osc_placement.server.shadow import differences, explained
from osc_placement.server.shadow.exchange import Answer, Request, send
from osc_placement.server.shadow.report import Verdict
from osc_placement.server.shadow.upstream import Upstream, UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from osc_placement.server.shadow.dispatch import Job, Setup

    Ask = Callable[[Request], tuple[Answer, float]]

#: times that both sides are asked again at most, and the first pause, in seconds, which doubles
_ATTEMPTS: Final = 6
_PAUSE: Final = 0.05
#: consecutive times that our answer has to differ between two equal ones of upstream
_CONFIRMED: Final = 2
#: seconds after which the databases are compared again if that came to no result, or to a difference
_CHECK_AGAIN: Final = 10.0
#: characters of a body that a report keeps
_KEPT: Final = 4096
_SHOWN_HEADERS: Final = ("accept", "content-type", "openstack-api-version")
_SECRETS: Final = ("x-auth-token", "x-service-token", "x-subject-token", "authorization", "cookie")
#: characters of a secret that is removed from texts; 'admin' of noauth2 is none
_SHORTEST_SECRET: Final = 8
ANOTHER_DATABASE: Final = "another database"


class Judge:
    """Compares upstream's answers with ours; threads may share it."""

    def __init__(self, ask_upstream: Ask, ask_ours: Ask, note: Callable[[str], None]) -> None:
        self._ask_upstream = ask_upstream
        self._ask_ours = ask_ours
        self._note = note
        self._check = DatabaseCheck(ask_upstream, ask_ours, note)

    def judge(self, job: Job) -> Verdict:
        """Return the verdict on one read."""
        try:
            if self._check.finds_another(job.request):
                return Verdict(skipped=ANOTHER_DATABASE)
            theirs = job.answer
            if "content-encoding" in theirs.headers:
                # asked without accept-encoding
                theirs, _ = self._ask_upstream(job.request)
            ours, seconds = self._ask_ours(job.request)
            if ours.status == 503 and theirs.status != 503:
                try:
                    detail = str(ours.data["errors"][0]["detail"])
                except (KeyError, IndexError, TypeError):
                    detail = opening.in_one_line(ValueError(ours.data))
                self._note(f"Our side answers 503: {detail}")
                return Verdict(skipped="our side is not ready")
            verdict = self._compare(job.request, _clean(theirs), _clean(ours))
        except UpstreamError as error:
            self._note(str(error))
            return Verdict(skipped="a service could not be asked again")
        return replace(verdict, seconds=seconds)

    def _compare(self, request: Request, theirs: Answer, ours: Answer) -> Verdict:
        if not differences.find(request, theirs, ours):
            return Verdict()
        times = 0
        for attempt in range(_ATTEMPTS):
            before = self._ask(self._ask_upstream, request)
            ours = self._ask(self._ask_ours, request)
            if not (lines := differences.find(request, before, ours)):
                return Verdict(asked_again=True)
            after = self._ask(self._ask_upstream, request)
            times = 0 if differences.find(request, before, after) else times + 1
            if times == _CONFIRMED:
                example = make_example(request, lines, after, ours)
                reason = None
                # the functions expect documents of placement, which a proxy need not send
                with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
                    reason = explained.explain(request, after, ours)
                return Verdict(example=example, explained=reason, asked_again=True)
            time.sleep(_PAUSE * 2**attempt if not times else 0)
        return Verdict(skipped="upstream's answer changed each time")

    @staticmethod
    def _ask(ask: Ask, request: Request) -> Answer:
        return _clean(ask(request)[0])


class DatabaseCheck:
    """Finds out whether both sides have the same database, with the token of a client that may read it.

    The resource providers of both sides have to have the same UUIDs and generations: a copy of the database
    of yesterday is another one. Threads that ask meanwhile wait.
    """

    def __init__(self, ask_upstream: Ask, ask_ours: Ask, note: Callable[[str], None]) -> None:
        self._ask_upstream = ask_upstream
        self._ask_ours = ask_ours
        self._note = note
        self._lock = threading.Lock()
        self._is_same = self._is_another = False
        self._next_at = 0.0

    def finds_another(self, request: Request) -> bool:
        """Return True while our side has another database than upstream; False if nothing is known."""
        if self._is_same or "x-auth-token" not in request.headers:
            return self._is_another
        with self._lock:
            if not self._is_same and time.monotonic() >= self._next_at:
                self._look(request)
                self._next_at = time.monotonic() + _CHECK_AGAIN
        return self._is_another

    def _look(self, request: Request) -> None:
        headers = {name: text for name, text in request.headers.items() if name in (*_SECRETS, "host")}
        question = Request("GET", "/resource_providers", "", headers, prefix=request.prefix)
        for attempt in range(_ATTEMPTS):
            before, ours, after = (
                _list_providers(ask(question)[0])
                for ask in (self._ask_upstream, self._ask_ours, self._ask_upstream)
            )
            if before is None or ours is None:
                return
            if before == ours:
                # two databases without providers may be different
                self._is_same, self._is_another = bool(ours), False
                return
            if before == after:
                break
            time.sleep(_PAUSE * 2**attempt)
        else:
            return
        if not self._is_another:
            self._note(
                f"Our side has another database than upstream: of {len(before)} resource providers there, "
                f"{len(before & ours)} are here with the same generation, and {len(ours - before)} others; "
                "nothing is compared until both have the same: check 'connection' in [placement_database]"
            )
        self._is_another = True


def _list_providers(answer: Answer) -> frozenset[tuple[str, int]] | None:
    if answer.status != 200 or not isinstance(answer.data, dict):
        return None
    providers = answer.data.get("resource_providers", ())
    return frozenset((one["uuid"], one["generation"]) for one in providers)


def _clean(answer: Answer) -> Answer:
    """Return an answer without what the web server before the application adds."""
    headers = dict(answer.headers)
    if "vary" in headers:
        names = [name.strip() for name in headers["vary"].split(",")]
        headers["vary"] = ", ".join(name for name in names if name.lower() != "accept-encoding")
        if not headers["vary"]:
            del headers["vary"]
    return Answer(answer.status, headers, answer.body)


def make_example(request: Request, lines: list[str], theirs: Answer, ours: Answer) -> dict[str, Any]:
    """Return a request and both answers for the report, without tokens and other credentials."""
    secrets = [
        request.headers[name] for name in _SECRETS if len(request.headers.get(name, "")) >= _SHORTEST_SECRET
    ]

    def redact(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "***")
        return text

    def show(answer: Answer) -> Mapping[str, Any]:
        kept = {
            name: redact(text)
            for name, text in answer.headers.items()
            if name in (*differences.HEADERS, *differences.PRESENT)
        }
        return {
            "status": answer.status,
            "headers": kept,
            "body": redact(answer.body.decode("utf-8", "replace"))[:_KEPT],
        }

    return {
        "path": redact(request.path),
        "query": redact(request.query),
        "headers": {name: redact(text) for name, text in request.headers.items() if name in _SHOWN_HEADERS},
        "lines": [redact(line) for line in lines],
        "upstream": show(theirs),
        "ours": show(ours),
    }


def make_ask(setup: Setup) -> Ask:
    """Return the function that asks our side; :raises opening.CannotRun: it cannot be set up."""
    if setup.ours is not None:
        service = Upstream(setup.ours, timeout=setup.timeout, ca_file=setup.ca_file)

        def ask_service(request: Request) -> tuple[Answer, float]:
            return service.ask(replace(request, prefix=service.prefix))

        return ask_service
    conf = opening.read_configuration(setup.sources)
    serve.set_up_logging(
        conf, is_configured=setup.sources.is_configured, log_requests=False, verbose=setup.verbose
    )
    if not setup.verbose:
        # a line for each request would be one for each that is compared
        logging.getLogger(deploy.__name__).setLevel(logging.WARNING)
    # the placement in service writes to it
    conf.set_override("other_programs_write", True, group="placement_database")
    database = opening.open_database(conf, create=False, read_only=True)
    application = deploy.make_application(conf, database)

    def ask(request: Request) -> tuple[Answer, float]:
        began = time.monotonic()
        answer = send(application, request)
        return answer, time.monotonic() - began

    return ask


def main(descriptor: int) -> None:
    """Judge what arrives at a socket until it is closed."""
    # the terminal sends it to all processes of the command
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # forwarding comes first
    os.nice(10)
    os.environ.pop(metrics.DIRECTORY_VARIABLE, None)
    connection = Connection(descriptor)
    lock = threading.Lock()

    def tell(message: Any) -> None:
        with lock:
            connection.send(message)

    def note(text: str) -> None:
        tell(("note", text))

    try:
        setup: Setup = connection.recv()
        try:
            ask_ours = make_ask(setup)
        except opening.CannotRun as error:
            note(f"Our side cannot be set up: {error}")
            return
        upstream = Upstream(setup.upstream, timeout=setup.timeout, ca_file=setup.ca_file)
        judge = Judge(upstream.ask, ask_ours, note)

        def work(number: int, job: Job) -> None:
            try:
                verdict = judge.judge(job)
            except Exception as error:
                # whatever it is, it is ours, and the next comparison may go well
                note(f"A comparison failed: {type(error).__name__}: {opening.in_one_line(error)}")
                verdict = Verdict(skipped="the comparison failed")
            tell((number, verdict))

        tell("ready")
        # not as a context, which would wait for threads at the end
        threads = ThreadPoolExecutor(setup.threads)
        while True:
            threads.submit(work, *connection.recv())
    except (EOFError, OSError):
        # threads may still ask somebody; nobody waits for them
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
