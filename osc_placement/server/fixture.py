# SPDX-License-Identifier: Apache-2.0
"""`PlacementFixture`, for tests that use the ``fixtures`` library; import it from `testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fixtures

from osc_placement.server import testing

if TYPE_CHECKING:
    from keystoneauth1.adapter import Adapter
    from keystoneauth1.session import Session
    from oslo_config.cfg import ConfigOpts


class PlacementFixture(fixtures.Fixture):
    """A server that runs while the fixture is in use; see `testing.run_server`."""

    server: testing.PlacementServer

    def __init__(self, conf: ConfigOpts | None = None, *, token: str = testing.ADMIN) -> None:
        super().__init__()
        self.conf = conf
        self.token = token

    def _setUp(self) -> None:  # noqa: N802  # the name that the library calls
        running = testing.run_server(self.conf, token=self.token)
        self.server = running.__enter__()
        self.addCleanup(running.__exit__, None, None, None)

    @property
    def endpoint(self) -> str:
        """Return the URL of the server."""
        return self.server.url

    @property
    def session(self) -> Session:
        """Return a new session, as `testing.PlacementServer.session`."""
        return self.server.session

    @property
    def client(self) -> Adapter:
        """Return a new adapter, as `testing.PlacementServer.client`."""
        return self.server.client
