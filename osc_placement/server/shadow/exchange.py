# SPDX-License-Identifier: Apache-2.0
"""A request as a value that can be stored and sent again, and the answer of an application to it."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from wsgiref.types import WSGIApplication


@dataclass(frozen=True)
class Request:
    """A request as it is sent: the path is quoted, header names are in lower case.

    :ivar prefix: the path at which the service is mounted, which comes before `path`
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    prefix: str = ""

    def to_json(self) -> str:
        """Return one line from which `from_json` makes the same request."""
        fields = dict(vars(self), headers=dict(self.headers))
        try:
            fields["body"] = self.body.decode()
        except UnicodeDecodeError:
            fields["body"] = {"base64": base64.b64encode(self.body).decode()}
        return json.dumps(fields)

    @classmethod
    def from_json(cls, line: str) -> Request:
        """Return the request that `to_json` wrote."""
        fields = json.loads(line)
        body = fields["body"]
        fields["body"] = body.encode() if isinstance(body, str) else base64.b64decode(body["base64"])
        return cls(**fields)

    @property
    def microversion(self) -> str:
        """Return the microversion that the request asks for; empty for the oldest."""
        return self.headers.get("openstack-api-version", "").removeprefix("placement ")

    def environ(self) -> dict[str, Any]:
        """Return the request as WSGI has it."""
        environ: dict[str, Any] = {
            "REQUEST_METHOD": self.method,
            "SCRIPT_NAME": self.prefix,
            "PATH_INFO": unquote_to_bytes(self.path).decode("latin-1"),
            "QUERY_STRING": self.query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "localhost",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(self.body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        if self.body:
            environ["CONTENT_LENGTH"] = str(len(self.body))
        for name, value in self.headers.items():
            key = name.upper().replace("-", "_")
            environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
        return environ


@dataclass(frozen=True)
class Answer:
    """An answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """Return the body as JSON, or as text if it is not JSON."""
        text = self.body.decode("utf-8", "replace")
        if "json" in self.headers.get("content-type", ""):
            with contextlib.suppress(ValueError):
                return json.loads(text)
        return text


def send(application: WSGIApplication, request: Request) -> Answer:
    """Call a WSGI application as a container does."""
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started[:] = [status, headers]

    chunks = application(request.environ(), start_response)
    try:
        body = b"".join(chunks)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()
    status, headers = started
    return Answer(int(status.split()[0]), {name.lower(): value for name, value in headers}, body)
