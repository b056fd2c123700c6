# SPDX-License-Identifier: Apache-2.0
"""The service for the tests of other projects, and for programs that use it without a separate server.

`direct` calls the application in this process; `run_server` serves it over HTTP from a thread. The fixture
of the ``fixtures`` library, `PlacementFixture`, and the one of pytest, ``placement_server``, are `run_server`
for their test runners; each is imported when it is asked for, because most users have one of the two.
"""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import requests
import webob
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from osc_placement.server import conf as configuration
from osc_placement.server import deploy
from osc_placement.server.db import upgrade
from osc_placement.server.db.engine import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from wsgiref.types import WSGIApplication

    from osc_placement.server.fixture import PlacementFixture
    from osc_placement.server.pytest_plugin import placement_server

__all__ = ["PlacementFixture", "PlacementServer", "direct", "make_conf", "placement_server", "run_server"]

#: the token of an administrator
ADMIN = "admin"
#: the URL of `direct`, which no other server can have
DIRECT_URL = "http://placement.invalid"


def __getattr__(name: str) -> Any:
    if name == "PlacementFixture":
        from osc_placement.server.fixture import PlacementFixture

        return PlacementFixture
    if name == "placement_server":
        from osc_placement.server.pytest_plugin import placement_server

        return placement_server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # pytest searches these names for fixtures if the module is named as a plugin
    return [*globals(), *__all__]


def make_conf(connection: str = "sqlite://", **placement: object) -> cfg.ConfigOpts:
    """Return a configuration for a database, by default one in memory that lives as long as the application.

    :param placement: options of the group ``[placement]``
    """
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    conf.set_default("connection", connection, group="placement_database")
    for name, value in placement.items():
        conf.set_override(name, value, group="placement")
    configuration.parse(conf, config_files=[], config_dirs=[])
    return conf


@contextmanager
def direct(conf: cfg.ConfigOpts | None = None, **adapter_kwargs: Any) -> Iterator[Adapter]:
    """Provide a keystoneauth1 adapter that calls the service in this process, without a socket.

    The caller is an administrator, regardless of the configured authentication, and the schema is upgraded
    first. Like that of ``placement.direct``, the adapter raises nothing for an answer that is an error,
    unless told to with ``raise_exc=True``.

    :param conf: by default `make_conf`
    :param adapter_kwargs: arguments of the adapter, such as ``default_microversion="1.39"``
    """
    with _open_application(conf) as application, requests.Session() as transport:
        transport.mount(DIRECT_URL, WSGIAdapter(application))
        # ignores proxies in the environment
        transport.trust_env = False
        session = Session(auth=Token(DIRECT_URL, ADMIN), session=transport)
        yield Adapter(session, **{"service_type": "placement", "raise_exc": False, **adapter_kwargs})


class WSGIAdapter(BaseAdapter):
    """A transport adapter of requests that calls an application without a socket."""

    def __init__(self, application: WSGIApplication) -> None:
        super().__init__()
        self._application = application

    def send(
        self, request: requests.PreparedRequest, *_connection: object, **_options: object
    ) -> requests.Response:
        """Call the application; the arguments about the connection are ignored."""
        url = request.url or ""
        body: Any = request.body or b""
        if not isinstance(body, (str, bytes)):
            body = b"".join(chunk.encode() if isinstance(chunk, str) else chunk for chunk in body)
        web = webob.Request.blank(
            url,
            {"REMOTE_ADDR": "127.0.0.1"},
            method=request.method,
            headers={
                # keystoneauth1 passes bytes
                name: value.decode("latin-1") if isinstance(value, bytes) else value
                for name, value in request.headers.items()
            },
            body=body.encode() if isinstance(body, str) else body,
        )
        answer = web.get_response(self._application)
        response = requests.Response()
        response.status_code, response.reason = answer.status_code, answer.status.partition(" ")[2]
        response.headers = CaseInsensitiveDict(answer.headerlist)
        response.encoding = get_encoding_from_headers(response.headers)
        response.raw = io.BytesIO(answer.body)
        response.url, response.request = url, request
        return response

    def close(self) -> None:
        """Do nothing, as no connection is open."""


@contextmanager
def _open_application(conf: cfg.ConfigOpts | None) -> Iterator[WSGIApplication]:
    """Provide the application without authentication, with an upgraded database that is closed at the end.

    The configured authentication, also if it is an override of the caller, is restored at the end.
    """
    conf = conf or make_conf()
    configuration.register_opts(conf)
    found = conf.get_location("auth_strategy", "api")
    before = conf.api.auth_strategy
    conf.set_override("auth_strategy", "noauth2", group="api")
    try:
        database = Database.from_conf(conf)
        try:
            upgrade.upgrade(database)
            yield deploy.make_application(conf, database)
        finally:
            database.dispose()
    finally:
        if found is not None and found.location is cfg.Locations.set_override:
            conf.set_override("auth_strategy", before, group="api")
        else:
            conf.clear_override("auth_strategy", group="api")


@dataclass(frozen=True, slots=True)
class PlacementServer:
    """A running server, with the means to connect to it."""

    url: str
    token: str = ADMIN

    @property
    def session(self) -> Session:
        """Return a new keystoneauth1 session of an administrator."""
        return Session(auth=Token(self.url, self.token))

    @property
    def client(self) -> Adapter:
        """Return a new keystoneauth1 adapter; it uses the highest microversion and raises for errors."""
        return Adapter(self.session, service_type="placement", default_microversion="latest")

    @property
    def environment(self) -> dict[str, str]:
        """Return variables of the environment with which the ``openstack`` command reaches the server."""
        return {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": self.url, "OS_TOKEN": self.token}


@contextmanager
def run_server(conf: cfg.ConfigOpts | None = None, *, token: str = ADMIN) -> Iterator[PlacementServer]:
    """Serve over HTTP on a free port of the loopback interface, from a thread of this process.

    :param conf: by default `make_conf`: every server has an empty database of its own
    """
    with (
        _open_application(conf) as application,
        make_server("127.0.0.1", 0, application, _ThreadingServer, _Handler) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield PlacementServer(f"http://127.0.0.1:{server.server_port}", token)
        finally:
            server.shutdown()
            thread.join()


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def get_environ(self) -> dict[str, Any]:
        """Return the environment without the content type that wsgiref would invent."""
        environ = super().get_environ()
        if self.headers.get("content-type") is None:
            del environ["CONTENT_TYPE"]
        return environ

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, as the application has its own log."""
