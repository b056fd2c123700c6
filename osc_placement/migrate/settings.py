# SPDX-License-Identifier: Apache-2.0
"""nova.conf: where nova's databases, placement and Ironic are, and how to authenticate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from keystoneauth1 import exceptions as keystone
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg

from osc_placement.client import PlacementClient
from osc_placement.errors import PlacementError, UsageError
from osc_placement.migrate.sources.base import ClosableSource, Unreadable
from osc_placement.migrate.sources.ironic import LABEL, IronicSource
from osc_placement.migrate.sources.nova_api import ApiSource
from osc_placement.migrate.sources.rest import NovaApi

_PLACEMENT = "placement"
_IRONIC = "ironic"
_BARE_METAL = "baremetal"
#: seconds that an Ironic without any configuration has for an answer
_PATIENCE = 60


class Misconfigured(PlacementError):
    """The configuration does not say what is needed."""


@dataclass(frozen=True)
class Settings:
    """What the command line says about nova, placement and Ironic; nova.conf says the rest."""

    config_files: Sequence[str] = ()
    api_database: str | None = None
    cloud: str | None = None
    placement_endpoint: str | None = None
    placement_token: str | None = None
    ironic_endpoint: str | None = None
    source: str = "db"
    nova_endpoint: str | None = None
    nova_token: str | None = None

    def open_source(self) -> ClosableSource:
        """Nova's databases, or its API."""
        return self._open_api() if self.source == "api" else self._open_databases()

    def _open_api(self) -> ApiSource:
        """Nova's API: where the command line says, in the cloud, or in the catalog of placement's user."""
        if self.nova_endpoint:
            auth = Token(self.nova_endpoint, self.nova_token or "")
            return ApiSource(NovaApi(Session(auth=auth), endpoint=self.nova_endpoint))
        try:
            if self.cloud:
                region = _open_region(self.cloud)
                return ApiSource(NovaApi(region.get_session(), region_name=region.region_name))
            group = self._conf.placement
            return ApiSource(NovaApi(self._nova_session(), region_name=group.region_name))
        except keystone.ClientException as error:
            raise Misconfigured(f"The access to nova cannot be set up: {error}") from error

    def _open_databases(self) -> ClosableSource:
        # PERF: SQLAlchemy takes a third of a second to load, and who reads the API needs none
        from osc_placement.migrate.sources.nova_db import DatabaseSource

        if self.api_database and not self.config_files:
            return DatabaseSource(self.api_database)
        conf = self._conf
        url = self.api_database or conf.api_database.connection
        if not url:
            raise Misconfigured(f"{self._files} has no [api_database]/connection; --nova-api-db gives one")
        return DatabaseSource(url, conf.database.connection)

    def open_client(self) -> PlacementClient:
        """Placement: where the command line says, or else nova.conf."""
        if self.placement_endpoint:
            return PlacementClient(Session(auth=Token(self.placement_endpoint, self.placement_token or "")))
        try:
            return self._cloud_client(self.cloud) if self.cloud else self._nova_client()
        except keystone.ClientException as error:
            raise Misconfigured(f"The access to placement cannot be set up: {error}") from error

    def open_ironic(self) -> IronicSource | None:
        """Ironic: where the command line says, or else nova.conf; None if neither says.

        Unreadable, if what they say does not do.
        """
        if self.ironic_endpoint and not self.cloud:
            session = Session(auth=NoAuth(endpoint=self.ironic_endpoint), timeout=_PATIENCE)
            return IronicSource(Adapter(session))
        try:
            adapter = self._cloud_ironic(self.cloud) if self.cloud else self._nova_ironic()
        except keystone.ClientException as error:
            raise Unreadable(LABEL, f"the access to it cannot be set up: {error}") from error
        return IronicSource(adapter) if adapter else None

    def _cloud_ironic(self, name: str) -> Adapter:
        region = _open_region(name)
        return Adapter(
            region.get_session(),
            service_type=_BARE_METAL,
            region_name=region.region_name,
            endpoint_override=self.ironic_endpoint,
        )

    def _nova_ironic(self) -> Adapter | None:
        if not (self.config_files or cfg.find_config_files(project="nova")):
            return None
        conf = self._conf
        auth = loading.load_auth_from_conf_options(conf, _IRONIC)
        if auth is None:
            return None
        session = loading.load_session_from_conf_options(conf, _IRONIC, auth=auth)
        return Adapter(
            session,
            service_type=conf.ironic.service_type or _BARE_METAL,
            region_name=conf.ironic.region_name,
            interface=(conf.ironic.valid_interfaces or [None])[0],
            endpoint_override=conf.ironic.endpoint_override,
        )

    def _cloud_client(self, name: str) -> PlacementClient:
        region = _open_region(name)
        return PlacementClient(region.get_session(), region_name=region.region_name)

    def _nova_client(self) -> PlacementClient:
        group = self._conf.placement
        return PlacementClient(
            self._nova_session(),
            service_type=group.service_type or "placement",
            region_name=group.region_name,
            interface=(group.valid_interfaces or [None])[0],
            endpoint=group.endpoint_override,
        )

    def _nova_session(self) -> Session:
        conf = self._conf
        auth = loading.load_auth_from_conf_options(conf, _PLACEMENT)
        if auth is None:
            raise Misconfigured(f"{self._files} has no [placement]/auth_type, so nobody can log in")
        session: Session = loading.load_session_from_conf_options(conf, _PLACEMENT, auth=auth)
        return session

    @property
    def _files(self) -> str:
        return ", ".join(self.config_files) or "nova.conf"

    def find_config_files(self) -> list[str]:
        """The files that are nova's configuration; UsageError if there are none."""
        files = list(self.config_files) or cfg.find_config_files(project="nova")
        if not files:
            raise UsageError(
                "There is no nova.conf in the usual places; name it with --config-file, or give "
                "--nova-api-db and --placement-endpoint"
            )
        return files

    @cached_property
    def _conf(self) -> cfg.ConfigOpts:
        files = self.find_config_files()
        conf = cfg.ConfigOpts()
        _register(conf)
        try:
            conf([], project="nova", default_config_files=files)
        except cfg.Error as error:
            raise Misconfigured(" ".join(str(error).split())) from error
        return conf


def _open_region(name: str) -> Any:
    """A cloud of clouds.yaml, as openstacksdk knows it."""
    # PERF: brings openstacksdk, a third of the time of a start without it
    from osc_lib.cli.client_config import OSC_Config

    try:
        return OSC_Config().get_one(cloud=name)
    except Exception as error:  # openstacksdk's own kinds, which come with osc-lib
        raise Misconfigured(f"The cloud {name} cannot be used: {error}") from error


def _register(conf: cfg.ConfigOpts) -> None:
    for group in ("api_database", "database"):
        conf.register_opts([cfg.StrOpt("connection", secret=True)], group=group)
    for service in (_PLACEMENT, _IRONIC):
        loading.register_session_conf_options(conf, service)
        loading.register_auth_conf_options(conf, service)
        loading.register_adapter_conf_options(conf, service)
