# SPDX-License-Identifier: Apache-2.0
"""The line that announces that a server is ready, for people and for scripts that wait for it."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from osc_placement.server.process.opening import describe

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

LOG = logging.getLogger(__name__)

#: the addresses that mean all addresses of this machine, and the one at which it reaches itself then
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


def format_url(host: str, port: int) -> str:
    """Return the URL at which clients on this machine reach a server that listens on an address."""
    host = _WILDCARDS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Announcement:
    """The announcement that the server which listens on this address is ready."""

    conf: ConfigOpts
    workers: int
    address: tuple[str, int]
    url: str

    def make(self) -> None:
        """Print the line, once the server has answered a request."""
        try:
            self._request_root()
        except (OSError, http.client.HTTPException) as error:
            LOG.error("the server does not answer: %s", error)
        else:
            # the reader of stdout may have ended
            with contextlib.suppress(BrokenPipeError):
                print(f"placement-server: ready at {self.url} ({self._describe()})", flush=True)

    def _request_root(self) -> None:
        host, port = self.address
        connection = http.client.HTTPConnection(_WILDCARDS.get(host, host), port)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            connection.getresponse().read()

    def _describe(self) -> str:
        database = describe(sa.make_url(self.conf.placement_database.connection))
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return f"database {database}, {self.conf.api.auth_strategy}, {workers}"
