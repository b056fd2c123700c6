# SPDX-License-Identifier: Apache-2.0
"""A proxy before a placement application that puts faults in place of answers, before or after the effect."""

import contextlib
import http.server
import io
import socket
import struct
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from requests.adapters import BaseAdapter
from requests.models import Response
from requests.structures import CaseInsensitiveDict
from webob import Request

from osc_placement.api.client import PlacementClient

STATUSES = (200, 201, 204, 301, 302, 307, 308, 400, 401, 402, 403, 404, 405, 409, 500, 501, 502, 503, 504)
PAGE = "text/html", b"<html><head><title>Welcome</title></head><body>Please log in</body></html>"
OTHER = "application/json", b'{"message": "everything is fine", "result": []}'
#: breaks of the connection, and answers that are cut: their length is missing, or the end of their JSON
BREAKS = ("reset", "closed", "shorter than announced", "half a document")


@dataclass(frozen=True)
class Fault:
    """What comes in place of the answer; ``after`` the application has done what was asked, or before.

    ``kind`` is a status with a page, "json" for one with a document of another kind, or one of `BREAKS`.
    ``first`` counts the requests that are concerned, from 0, and ``span`` how many are spoilt from there on.
    """

    kind: str
    status: int
    after: bool
    writes: bool
    first: int = 0
    span: int = 1


def every_kind():
    """All (kind, status, after)."""
    pages = [(kind, status) for status in STATUSES for kind in ("page", "json", "nothing")]
    return [(*fault, after) for fault in (*pages, *((kind, 0) for kind in BREAKS)) for after in (False, True)]


class FaultProxy:
    """A server on loopback; the application is called by one thread at a time."""

    def __init__(self, application):
        self.application = application
        #: method, path and status of each request that the application has answered
        self.answered = []
        self._fault = None
        self._seen = 0
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            pass

        Handler.proxy = proxy
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def arm(self, fault=None):
        """Inject a fault from now on, or none; forget what was answered."""
        with self._lock:
            self._fault, self._seen, self.answered = fault, 0, []

    def choose(self, method, path):
        """Return the fault for a request that comes in.

        Not for the root document: where that is hidden, another version is used, and another thing is asked.
        """
        with self._lock:
            fault = self._fault
            if fault is None or path == "/" or (fault.writes and method == "GET"):
                return None
            self._seen += 1
            return fault if fault.first < self._seen <= fault.first + fault.span else None

    def call(self, method, path, headers, body):
        """Have the application answer."""
        with self._lock:
            response = call(self.application, method, path, headers, body)
            self.answered.append((method, urlsplit(path).path, response.status_int))
            return response


def call(application, method, path, headers, body):
    """Return the response of a WSGI application."""
    request = Request.blank(path, method=method, headers=headers, base_url="http://127.0.0.1")
    request.body = body
    return request.get_response(application)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # else the content of an answer waits until the receipt of its headers is confirmed, up to 40 ms
    disable_nagle_algorithm = True
    proxy = None

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.startswith("/login"):
            self._send(200, {"content-type": PAGE[0]}, PAGE[1])
            return
        fault = self.proxy.choose(self.command, self.path)
        response = None
        if fault is None or fault.after or fault.kind in BREAKS[2:]:
            response = self.proxy.call(self.command, self.path, dict(self.headers), body)
        if fault is None:
            self._send(response.status_int, response.headers, response.body, keep=True)
        elif fault.kind in ("reset", "closed"):
            self._break(fault.kind == "reset")
        elif fault.kind == "shorter than announced":
            length = len(response.body) + 9
            self._send(response.status_int, response.headers, response.body[:-1], length=length)
        elif fault.kind == "half a document":
            half = response.body[: len(response.body) // 2]
            self._send(response.status_int, response.headers, half)
        else:
            self._send_page(fault)

    do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    def _send_page(self, fault):
        kind, content = {"page": PAGE, "json": OTHER, "nothing": ("", b"")}[fault.kind]
        headers = {"content-type": kind} if kind else {}
        if fault.status in (301, 302, 307, 308):
            headers["location"] = "/login?next=/"
        self._send(fault.status, headers, content)

    def _send(self, status, headers, content, *, length=None, keep=False):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        if not keep:
            self.close_connection = True
            self.send_header("connection", "close")
        if status != 204:
            self.send_header("content-length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content if status != 204 or not keep else b"")

    def _break(self, reset):
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            self.connection.close()
        # what http.server writes to at the end of a request
        self.wfile = io.BytesIO()

    def log_message(self, *_):
        """Say nothing."""


class _Direct(BaseAdapter):
    """Takes a request to the application without a network."""

    def __init__(self, application):
        super().__init__()
        self._application = application

    def send(self, request, **_):
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        answer = call(self._application, request.method, request.path_url, dict(request.headers), body)
        response = Response()
        response.status_code, response.reason = answer.status_int, answer.status
        response.headers = CaseInsensitiveDict(answer.headers)
        response._content, response.request, response.url = answer.body, request, request.url
        return response

    def close(self):
        """Nothing to close."""


def direct_client(application):
    """A client of an application that no fault can reach."""
    session = Session(auth=Token("http://127.0.0.1", "admin"))
    session.session.mount("http://", _Direct(application))
    return PlacementClient(session)
