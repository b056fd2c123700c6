# SPDX-License-Identifier: Apache-2.0
"""The service for other people's tests, and for programs that use it without a server beside them.

`direct` calls the application in this process; `run_server` serves it over HTTP from a thread. The fixture
of the ``fixtures`` library, `PlacementFixture`, and the one of pytest, ``placement_server``, are `run_server`
for their test runners; each is imported when it is asked for, because most users have one of the two.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import requests
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg

from osc_placement.server import conf as configuration
from osc_placement.server import deploy
from osc_placement.server.db import upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.wsgi_adapter import WSGIAdapter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from wsgiref.types import WSGIApplication

    from osc_placement.server.fixture import PlacementFixture
    from osc_placement.server.pytest_plugin import placement_server

__all__ = ["PlacementFixture", "PlacementServer", "direct", "make_conf", "placement_server", "run_server"]

#: whoever sends this token is an administrator
ADMIN = "admin"
#: where requests of `direct` go: to nobody else
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
    # pytest looks here for the fixtures of a module that is named as a plugin
    return [*globals(), *__all__]


def make_conf(connection: str = "sqlite://", **placement: object) -> cfg.ConfigOpts:
    """A configuration on a database, by default one in memory that goes with the application.

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
    """A keystoneauth1 adapter on the service in this process: requests as over HTTP, but without a socket.

    The caller is an administrator, whatever the configuration says about authentication, and the schema is
    brought up to date first. Like that of ``placement.direct``, the adapter raises nothing for an answer that
    is an error, unless told to with ``raise_exc=True``.

    :param conf: by default `make_conf`
    :param adapter_kwargs: arguments of the adapter, such as ``default_microversion="1.39"``
    """
    with _open_application(conf) as application, requests.Session() as transport:
        transport.mount(DIRECT_URL, WSGIAdapter(application))
        # no proxy is asked for the way
        transport.trust_env = False
        session = Session(auth=Token(DIRECT_URL, ADMIN), session=transport)
        yield Adapter(session, **{"service_type": "placement", "raise_exc": False, **adapter_kwargs})


@contextmanager
def _open_application(conf: cfg.ConfigOpts | None) -> Iterator[WSGIApplication]:
    """The application without authentication, on an up-to-date database that is closed at the end."""
    conf = conf or make_conf()
    configuration.register_opts(conf)
    with _without_authentication(conf):
        database = Database.from_conf(conf)
        try:
            upgrade.upgrade(database)
            yield deploy.make_application(conf, database)
        finally:
            database.dispose()


@contextmanager
def _without_authentication(conf: cfg.ConfigOpts) -> Iterator[None]:
    """Override what a configuration says of authentication, and put back what it was overridden with."""
    found = conf.get_location("auth_strategy", "api")
    before = conf.api.auth_strategy
    conf.set_override("auth_strategy", "noauth2", group="api")
    try:
        yield
    finally:
        if found is not None and found.location is cfg.Locations.set_override:
            conf.set_override("auth_strategy", before, group="api")
        else:
            conf.clear_override("auth_strategy", group="api")


@dataclass(frozen=True, slots=True)
class PlacementServer:
    """A running server, and the ways to it."""

    url: str
    token: str = ADMIN

    @property
    def session(self) -> Session:
        """A new keystoneauth1 session of an administrator."""
        return Session(auth=Token(self.url, self.token))

    @property
    def client(self) -> Adapter:
        """A new keystoneauth1 adapter; it speaks the highest microversion and raises for errors."""
        return Adapter(self.session, service_type="placement", default_microversion="latest")

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which the ``openstack`` command reaches the server."""
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
        """Make the environment, in which wsgiref would invent a content type."""
        environ = super().get_environ()
        if self.headers.get("content-type") is None:
            del environ["CONTENT_TYPE"]
        return environ

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the application has a log of its own."""
