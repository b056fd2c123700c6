# SPDX-License-Identifier: Apache-2.0
"""nova.conf: where nova's databases and placement are, and how to authenticate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from keystoneauth1 import exceptions as keystone
from keystoneauth1 import loading
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg

from osc_placement.client import PlacementClient
from osc_placement.errors import PlacementError, UsageError
from osc_placement.migrate.sources.nova_db import DatabaseSource

_PLACEMENT = "placement"


class Misconfigured(PlacementError):
    """The configuration does not say what is needed."""


@dataclass(frozen=True)
class Settings:
    """What the command line says about nova and placement; nova.conf says the rest."""

    config_files: Sequence[str] = ()
    api_database: str | None = None
    cloud: str | None = None
    placement_endpoint: str | None = None
    placement_token: str | None = None

    def open_source(self) -> DatabaseSource:
        """Nova's databases."""
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

    def _cloud_client(self, name: str) -> PlacementClient:
        # PERF: brings openstacksdk, a third of the time of a start without it
        from osc_lib.cli.client_config import OSC_Config

        try:
            region = OSC_Config().get_one(cloud=name)
        except Exception as error:  # openstacksdk's own kinds, which come with osc-lib
            raise Misconfigured(f"The cloud {name} cannot be used: {error}") from error
        return PlacementClient(region.get_session(), region_name=region.region_name)

    def _nova_client(self) -> PlacementClient:
        conf = self._conf
        group = conf.placement
        auth = loading.load_auth_from_conf_options(conf, _PLACEMENT)
        if auth is None:
            raise Misconfigured(f"{self._files} has no [placement]/auth_type, so nobody can log in")
        return PlacementClient(
            loading.load_session_from_conf_options(conf, _PLACEMENT, auth=auth),
            service_type=group.service_type or "placement",
            region_name=group.region_name,
            interface=(group.valid_interfaces or [None])[0],
            endpoint=group.endpoint_override,
        )

    @property
    def _files(self) -> str:
        return ", ".join(self.config_files) or "nova.conf"

    @cached_property
    def _conf(self) -> cfg.ConfigOpts:
        files = list(self.config_files) or cfg.find_config_files(project="nova")
        if not files:
            raise UsageError(
                "There is no nova.conf in the usual places; name it with --config-file, or give "
                "--nova-api-db and --placement-endpoint"
            )
        conf = cfg.ConfigOpts()
        _register(conf)
        try:
            conf([], project="nova", default_config_files=files)
        except cfg.Error as error:
            raise Misconfigured(" ".join(str(error).split())) from error
        return conf


def _register(conf: cfg.ConfigOpts) -> None:
    for group in ("api_database", "database"):
        conf.register_opts([cfg.StrOpt("connection", secret=True)], group=group)
    loading.register_session_conf_options(conf, _PLACEMENT)
    loading.register_auth_conf_options(conf, _PLACEMENT)
    loading.register_adapter_conf_options(conf, _PLACEMENT)
