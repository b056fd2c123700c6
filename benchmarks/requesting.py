# SPDX-License-Identifier: Apache-2.0
"""Requests to a server, at as little cost to the machine that both share as Python allows."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

HEADERS = {
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": "placement 1.39",
    "Accept": "application/json",
}


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    body: bytes
    seconds: float


class Client:
    """A client, for one thread, on one connection, which is kept for as long as the server keeps it."""

    def __init__(self, url: str, *, timeout: float | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
        self._connection.close()

    def get(self, path: str) -> Answer:
        """Read something; :raises TimeoutError: it took longer than this client waits."""
        return self._request("GET", path, None)

    def put(self, path: str, document: object) -> Answer:
        """Write something."""
        return self._request("PUT", path, json.dumps(document).encode())

    def post(self, path: str, document: object) -> Answer:
        """Write several things."""
        return self._request("POST", path, json.dumps(document).encode())

    def _request(self, method: str, path: str, body: bytes | None) -> Answer:
        headers = HEADERS if body is None else {**HEADERS, "Content-Type": "application/json"}
        started = time.perf_counter()
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        return Answer(response.status, content, time.perf_counter() - started)
