# SPDX-License-Identifier: Apache-2.0
"""The WSGI application that forwards requests to the placement in service, and copies reads to be compared.

Nothing here waits for our side: `Dispatcher.offer` takes a copy or refuses it at once.
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from osc_placement import microversion
from osc_placement.server import errors
from osc_placement.server.api import http, routes
from osc_placement.server.process.limits import LARGEST_BODY
from osc_placement.server.process.metrics import METHODS
from osc_placement.server.process.metrics import OTHER as OTHER_METHOD
from osc_placement.server.shadow.dispatch import Job
from osc_placement.server.shadow.exchange import Answer, Request
from osc_placement.server.shadow.report import Key
from osc_placement.server.shadow.upstream import HOP_BY_HOP, READS, Upstream, UpstreamError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from wsgiref.types import StartResponse, WSGIEnvironment

    from urllib3 import BaseHTTPResponse

    from osc_placement.server.shadow.dispatch import Dispatcher
    from osc_placement.server.shadow.report import Report

LOG = logging.getLogger(__name__)

#: bytes of an answer that are read before it is passed on, so that one that ends too early is answered with
#: 502; the rest of a longer one is passed on as it arrives
_HELD: Final = 1 << 20
#: gunicorn sends its own
_REPLACED: Final = frozenset(("date", "server"))
_VERSIONS: Final = frozenset(map(str, microversion.ALL))
#: the route of requests that have none
OTHER: Final = "(other)"


class Forwarder:
    """A WSGI application that answers with the answers of another placement service."""

    def __init__(
        self, upstream: Upstream, dispatcher: Dispatcher, report: Report, *, sample: float = 1.0
    ) -> None:
        """Create it.

        :param sample: the part of the reads to compare, from 0 to 1
        """
        self._upstream = upstream
        self._dispatcher = dispatcher
        self._report = report
        self._sample = sample

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        target = _find_target(environ)
        path, _, query = target.partition("?")
        prefix = self._upstream.prefix
        is_inside = path == prefix or path.startswith(f"{prefix}/")
        inner = path.removeprefix(prefix) if is_inside else path
        route = find_route(inner, method) if is_inside else OTHER
        headers = {
            name.removeprefix("HTTP_").lower().replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith("HTTP_") or (name in ("CONTENT_TYPE", "CONTENT_LENGTH") and value)
        }
        request = Request(method, inner or "/", query, headers, prefix=prefix)
        # a client may invent methods, each of which would be a line of the report
        counted = method if method in METHODS else OTHER_METHOD
        began = time.monotonic()
        failure: UpstreamError | errors.HTTPError
        try:
            body = _read_body(environ)
            response = self._upstream.open(method, target, _forwarded(request.headers, environ), body)
            pieces = self._upstream.read(response)
            held: list[bytes] = []
            length, is_whole = 0, True
            for piece in pieces:
                held.append(piece)
                length += len(piece)
                if length > _HELD:
                    is_whole = False
                    break
        except (UpstreamError, errors.HTTPError) as error:
            failure = error
        else:
            version = response.headers.get("openstack-api-version", "").rpartition(" ")[2]
            key = Key(counted, route, version if version in _VERSIONS else "")
            reason = None
            if method not in READS:
                reason = "not a read"
            elif not is_inside or inner.startswith("/-/"):
                reason = "not the API of placement"
            elif self._sample < 1 and random.random() >= self._sample:
                reason = "not in the sample"
            read = None if reason else _Read(key, request, response, began)
            self._report.forwarded(key)
            if reason is not None:
                self._report.skipped(key, reason)
            kept_back = HOP_BY_HOP | _REPLACED
            sent = [item for item in response.headers.items() if item[0].lower() not in kept_back]
            start_response(f"{response.status} {response.reason or ''}", sent)
            if not is_whole:
                return self._relay(key, read, held, pieces)
            if read is not None:
                self._offer(read, held)
            return held
        # outside of the handler, in which oslo.log would add the exception to the line
        if isinstance(failure, UpstreamError):
            self._fail(Key(counted, route, ""), failure)
            failure = errors.HTTPError(failure.status, str(failure))
        answered: dict[str, Any] = {**environ, "HTTP_ACCEPT": http.JSON}
        answer: Iterable[bytes] = http.error_response(failure)(answered, start_response)
        return answer

    def _fail(self, key: Key, failure: UpstreamError) -> None:
        self._report.failed(key, failure.status)
        self._report.note(str(failure))

    def _offer(self, read: _Read, pieces: list[bytes]) -> None:
        """Have a read compared whose answer is complete."""
        seconds = time.monotonic() - read.began
        status = read.response.status
        headers = {name.lower(): text for name, text in read.response.headers.items()}
        if "html" in headers.get("content-type", "") and "openstack-api-version" not in headers:
            self._report.skipped(read.key, "upstream answered HTML that is not placement's")
            self._report.note(
                f"{self._upstream.url} answered status {status} with HTML that is not placement's: look for "
                "a proxy or another service there"
            )
            return
        self._dispatcher.offer(
            Job(read.key, read.request, Answer(status, headers, b"".join(pieces)), seconds)
        )

    def _relay(
        self, key: Key, read: _Read | None, held: list[bytes], pieces: Iterator[bytes]
    ) -> Iterator[bytes]:
        """Pass on a long answer as it arrives; if it ends too early, so does the connection of the client.

        :param read: what is to be compared, if anything is
        :param held: the pieces that have arrived
        """
        yield from held
        copy = list(held)
        room = self._dispatcher.largest - sum(map(len, held))
        failure = None
        try:
            for piece in pieces:
                room -= len(piece)
                if read is not None and room >= 0:
                    copy.append(piece)
                elif read is not None:
                    self._report.skipped(key, "the answer is too long")
                    read = None
                    copy.clear()
                yield piece
        except UpstreamError as error:
            failure = error
        if failure is not None:
            self._fail(key, failure)
            raise failure
        if read is not None:
            self._offer(read, copy)


@dataclass(frozen=True, slots=True)
class _Read:
    """A read that is to be compared, and the answer of upstream without its body."""

    key: Key
    request: Request
    response: BaseHTTPResponse
    began: float


def _find_target(environ: WSGIEnvironment) -> str:
    """Return path and query as they were sent."""
    raw: str = environ.get("RAW_URI", "")
    if raw.startswith("/"):
        return raw.partition("#")[0]
    path = quote(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""), encoding="latin-1")
    query = environ.get("QUERY_STRING", "")
    return (path or "/") + (f"?{query}" if query else "")


def find_route(path: str, method: str) -> str:
    """Return the template of a path, of which there are few."""
    try:
        return routes.find(unquote(path) or "/", method)[0].path
    except (errors.PathNotFound, errors.HTTPError, ValueError):
        return OTHER


def _forwarded(headers: Mapping[str, str], environ: WSGIEnvironment) -> dict[str, str]:
    """Return the headers for the service: those of the client, and who the client is.

    The worker has answered ``expect: 100-continue`` itself. It has read a chunked body, whose length is known
    now.
    """
    named = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    dropped = HOP_BY_HOP | named | {"expect"}
    if "transfer-encoding" in headers:
        dropped = dropped | {"content-length"}
    sent = {name: value for name, value in headers.items() if name not in dropped}
    client = environ.get("REMOTE_ADDR", "")
    before = headers.get("x-forwarded-for")
    sent["x-forwarded-for"] = f"{before}, {client}" if before else client
    sent.setdefault("x-forwarded-proto", environ.get("wsgi.url_scheme", "http"))
    if "host" in headers:
        sent.setdefault("x-forwarded-host", headers["host"])
    return sent


def _read_body(environ: WSGIEnvironment) -> bytes:
    """Return the body of a request.

    The worker passes on a request whose body is too long, without its body, and one whose client has stopped
    sending. The service would wait for the rest, and with it a thread.

    :raises errors.HTTPError: 400 if the body does not arrive as announced, 413 if it is too long
    """
    announced = int(environ.get("CONTENT_LENGTH") or 0)
    if announced > LARGEST_BODY:
        raise errors.HTTPError(413, f"A request body may have {LARGEST_BODY} bytes at most.")
    try:
        body: bytes = environ["wsgi.input"].read()
    except Exception as error:  # each server has its own error for malformed chunks
        raise errors.HTTPError(400, "The request body is not in well-formed chunks.") from error
    if len(body) < announced:
        raise errors.HTTPError(400, "The request body is shorter than its content-length header says.")
    return body
