# SPDX-License-Identifier: Apache-2.0
"""A transport for requests that calls a WSGI application of this process, without a socket."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication, WSGIEnvironment


class WSGIAdapter(BaseAdapter):
    """A transport adapter that calls an application; a session mounts it for the URLs to redirect."""

    def __init__(self, application: WSGIApplication) -> None:
        super().__init__()
        self._application = application

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Call the application; the arguments about the connection are ignored."""
        answer = _Answer()
        chunks = self._application(_make_environ(request), answer.start)
        try:
            answer.body.extend(b"".join(chunks))
        finally:
            if (close := getattr(chunks, "close", None)) is not None:
                close()
        return _make_response(request, answer)

    def close(self) -> None:
        """Do nothing, as no connection is open."""


class _Answer:
    """The answer of an application, with its body in the pieces of WSGI."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.body = bytearray()

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /
    ) -> Callable[[bytes], object]:
        self.status, self.headers = status, headers
        return self.body.extend


def _make_environ(request: requests.PreparedRequest) -> WSGIEnvironment:
    url = urlsplit(request.url or "")
    body = _read(request.body)
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        # WSGI passes the bytes as latin-1
        "PATH_INFO": unquote_to_bytes(url.path).decode("latin-1"),
        "QUERY_STRING": url.query,
        "SERVER_NAME": url.hostname or "",
        "SERVER_PORT": str(url.port or 80),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": url.netloc,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
        # keystoneauth1 passes bytes
        environ[key] = value.decode("latin-1") if isinstance(value, bytes) else value
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
    return environ


def _read(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes):
        return body
    return b"".join(chunk.encode() if isinstance(chunk, str) else chunk for chunk in body)


def _make_response(request: requests.PreparedRequest, answer: _Answer) -> requests.Response:
    response = requests.Response()
    code, _, reason = answer.status.partition(" ")
    response.status_code, response.reason = int(code), reason
    response.headers = CaseInsensitiveDict(answer.headers)
    response.encoding = get_encoding_from_headers(response.headers)
    response.raw = io.BytesIO(bytes(answer.body))
    response.url, response.request = request.url or "", request
    return response
