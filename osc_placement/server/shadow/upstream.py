# SPDX-License-Identifier: Apache-2.0
"""Requests to another placement service over HTTP."""

from __future__ import annotations

import contextlib
import ssl
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import urllib3
from urllib3 import exceptions

from osc_placement.server.process.opening import CannotRun, in_one_line
from osc_placement.server.shadow.exchange import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from osc_placement.server.shadow.exchange import Request

#: methods that change nothing
READS: Final = frozenset(("GET", "HEAD"))
#: headers about one connection, which a proxy does not pass on (RFC 9110, section 7.6.1)
HOP_BY_HOP: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
#: seconds for a connection to be made
CONNECT_SECONDS: Final = 10
_PIECE: Final = 64 << 10


class UpstreamError(Exception):
    """The service did not answer.

    :ivar status: what a proxy answers then: 502, or 504 after the time limit
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Upstream:
    """A placement service at a URL; threads may share it.

    :ivar url: the URL
    :ivar prefix: the path of the URL, at which the service is mounted
    """

    def __init__(
        self, url: str, *, ca_file: str | None = None, timeout: float = 60.0, connections: int = 64
    ) -> None:
        """Prepare connections without opening any.

        :param ca_file: certificates to verify the service's with, instead of the system's
        :param timeout: seconds without a byte of an answer after which the request has failed
        :raises CannotRun: the URL cannot be used
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise CannotRun(f"{url} is no URL: {error}") from error
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise CannotRun(f"{url} is no URL of a service; one looks like http://HOST:8778/placement")
        if parts.username is not None:
            raise CannotRun("The URL of a service contains no user and no password; clients send tokens")
        self.url = url.rstrip("/")
        self.prefix = parts.path.rstrip("/")
        self._timeout = timeout
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, timeout), read=timeout)

        self._host, self._port, self._limits, self._connections = host, port, limits, connections
        self._context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            try:
                self._context = ssl.create_default_context(cafile=ca_file)
            except OSError as error:  # also that of a file without certificates
                raise CannotRun(
                    f"The certificates, {ca_file}, cannot be read: {error.strerror or error}"
                ) from error
        self._reading = self._make_pool()

    def _make_pool(self) -> urllib3.HTTPConnectionPool:
        host, port, limits, most = self._host, self._port, self._limits, self._connections
        if self._context is None:
            return urllib3.HTTPConnectionPool(host, port, timeout=limits, maxsize=most)
        return urllib3.HTTPSConnectionPool(
            host, port, timeout=limits, maxsize=most, ssl_context=self._context
        )

    def open(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> urllib3.BaseHTTPResponse:
        """Send a request and return the answer, of which the body has not been read.

        A read is sent once more if the connection, which may have been kept open too long, breaks before
        there is an answer.

        :param target: path and query as a client sent them
        :raises UpstreamError: there is no answer
        """
        sent = {
            "accept-encoding": urllib3.util.SKIP_HEADER,
            "user-agent": urllib3.util.SKIP_HEADER,
            **headers,
        }
        is_read = method in READS
        if not is_read:
            sent["connection"] = "close"
        # a write has a connection of its own, which is closed with its pool: the service may close a kept one
        # at the moment at which it is used, and then nobody knows whether the change was made
        pool = self._reading if is_read else self._make_pool()
        may_repeat = is_read
        while True:
            try:
                with self._translating():
                    return pool.urlopen(
                        method,
                        target,
                        body=body or None,
                        headers=sent,
                        redirect=False,
                        retries=False,
                        preload_content=False,
                        decode_content=False,
                        assert_same_host=False,
                    )
            except UpstreamError as error:
                if not (may_repeat and isinstance(error.__cause__, exceptions.ProtocolError)):
                    raise
                may_repeat = False

    def read(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Return the pieces of an answer's body as they are sent, and give the connection back at the end.

        :raises UpstreamError: the body ends too early
        """
        try:
            with self._translating():
                yield from response.stream(_PIECE, decode_content=False)
        except BaseException:
            response.close()
            raise
        response.release_conn()

    def ask(self, request: Request) -> tuple[Answer, float]:
        """Send a request; return the whole answer, and the seconds that it took.

        :raises UpstreamError: there is no answer
        """
        target = request.prefix + request.path + (f"?{request.query}" if request.query else "")
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in HOP_BY_HOP and name != "accept-encoding"
        }
        began = time.monotonic()
        response = self.open(request.method, target, headers, request.body)
        body = b"".join(self.read(response))
        seconds = time.monotonic() - began
        return Answer(
            response.status, {name.lower(): text for name, text in response.headers.items()}, body
        ), seconds

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        # before the time limit, of which it is a kind
        except exceptions.NewConnectionError as error:
            cause = error.__cause__
            reason = (isinstance(cause, OSError) and cause.strerror) or in_one_line(error)
            raise UpstreamError(
                502, f"The placement service at {self.url} cannot be reached: {reason}"
            ) from error
        except exceptions.TimeoutError as error:
            raise UpstreamError(
                504, f"The placement service at {self.url} did not answer within {self._timeout:g} seconds."
            ) from error
        except exceptions.SSLError as error:
            raise UpstreamError(
                502,
                f"The certificate of the placement service at {self.url} cannot be verified: "
                f"{in_one_line(error)}; name its authority with --ca-file.",
            ) from error
        except (exceptions.HTTPError, OSError) as error:
            raise UpstreamError(
                502,
                f"The placement service at {self.url} closed the connection or answered in a form that is no "
                f"HTTP: {in_one_line(error)}",
            ) from error
