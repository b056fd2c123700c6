# SPDX-License-Identifier: Apache-2.0
"""nova.conf: where nova's databases, placement and Ironic are, and how to authenticate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

from keystoneauth1 import exceptions as keystone
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg

from osc_placement.api.client import PlacementClient
from osc_placement.errors import PlacementError, UsageError
from osc_placement.migrate.nova.api_source import ApiSource
from osc_placement.migrate.nova.ironic import LABEL, IronicSource
from osc_placement.migrate.nova.rest import NovaApi, limit_waiting
from osc_placement.migrate.nova.source import ClosableSource, Unreadable

#: what a server without Keystone takes for an administrator's, and no secret
USUAL_TOKEN: Final = "admin"
_PLACEMENT = "placement"
_IRONIC = "ironic"
_BARE_METAL = "baremetal"
_COMPUTE = "compute"
#: the endpoints that nova tries, in this order, where [placement]/valid_interfaces does not say
_INTERFACES = ["internal", "public"]
#: what a service's group in nova.conf has addresses in
_ADDRESSES: Final = ("auth_url", "endpoint", "endpoint_override")
#: what options that are read raise, where they are wrong
_WRONG: Final = (keystone.ClientException, cfg.Error)


class Misconfigured(PlacementError):
    """An error: a required option is missing from the configuration, or wrong."""


@dataclass(frozen=True)
class _Access:
    """Session, region and interface of a service; of several interfaces, the first in the catalog counts."""

    session: Session
    region: str | None
    interface: str | list[str] | None


@dataclass(frozen=True)
class Settings:
    """Access to nova, placement and Ironic, from the command line and from nova.conf."""

    config_files: Sequence[str] = ()
    api_database: str | None = None
    cloud: str | None = None
    placement_endpoint: str | None = None
    placement_token: str | None = None
    ironic_endpoint: str | None = None
    source: str = "db"
    nova_endpoint: str | None = None
    nova_token: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Raise UsageError if an endpoint is not an HTTP address."""
        for service in ("placement", "ironic", "nova"):
            address = getattr(self, f"{service}_endpoint")
            if address and not _is_address(address):
                raise UsageError(
                    f"--{service}-endpoint is an address such as http://controller/service, not {address!r}"
                )

    def open_source(self) -> ClosableSource:
        """Open nova's databases, or its API."""
        return self._open_api() if self.source == "api" else self._open_databases()

    def _open_api(self) -> ApiSource:
        """Open nova's API: at --nova-endpoint, in --os-cloud, or in the catalog of placement's user."""
        if self.nova_endpoint:
            auth = Token(self.nova_endpoint, self.nova_token or "")
            session = self._wait_in(Session(auth=auth))
            return ApiSource(NovaApi(session, endpoint=self.nova_endpoint))
        try:
            access = self._find_cloud(_COMPUTE) if self.cloud else self._find_nova()
            return ApiSource(NovaApi(access.session, region_name=access.region, interface=access.interface))
        except _WRONG as error:
            raise Misconfigured(f"The access to nova cannot be set up: {error}") from error

    def _open_databases(self) -> ClosableSource:
        # PERF: SQLAlchemy takes a third of a second to load, and who reads the API needs none
        from osc_placement.migrate.nova.db_source import DatabaseSource

        if self.api_database and not self.config_files:
            return DatabaseSource(self.api_database)
        conf = self._conf
        try:
            url = self.api_database or conf.api_database.connection
            main = conf.database.connection
        except cfg.Error as error:
            raise Misconfigured(f"The access to nova cannot be set up: {error}") from error
        if not url:
            raise Misconfigured(f"{self._files} has no [api_database]/connection; --nova-api-db gives one")
        return DatabaseSource(url, main)

    @property
    def placement_options(self) -> list[str]:
        """Return the options that lead another command to the same placement, without a secret token."""
        if self.placement_endpoint:
            token = [] if self.placement_token in (None, USUAL_TOKEN) else ["--placement-token", "TOKEN"]
            return ["--placement-endpoint", self.placement_endpoint, *token]
        if self.cloud:
            return ["--os-cloud", self.cloud]
        return [word for path in self.config_files for word in ("--config-file", path)]

    def open_client(self) -> PlacementClient:
        """Open placement as the command line says, or else nova.conf."""
        if self.placement_endpoint:
            auth = Token(self.placement_endpoint, self.placement_token or "")
            return PlacementClient(self._wait_in(Session(auth=auth)))
        try:
            return self._cloud_client() if self.cloud else self._nova_client()
        except _WRONG as error:
            raise Misconfigured(f"The access to placement cannot be set up: {error}") from error

    def open_ironic(self) -> IronicSource | None:
        """Open Ironic as the command line says, or else nova.conf; return None without either.

        Raise Unreadable if they are wrong.
        """
        if self.ironic_endpoint and not self.cloud:
            session = self._wait_in(Session(auth=NoAuth(endpoint=self.ironic_endpoint)))
            return IronicSource(Adapter(session))
        try:
            adapter = self._cloud_ironic() if self.cloud else self._nova_ironic()
        except _WRONG as error:
            raise Unreadable(LABEL, f"the access to it cannot be set up: {error}") from error
        return IronicSource(adapter) if adapter else None

    def _wait_in(self, session: Session) -> Session:
        return limit_waiting(session, self.timeout)

    def _find_cloud(self, service: str) -> _Access:
        """Return the access to a service of a cloud of clouds.yaml."""
        region = _open_region(self.cloud or "")
        session = self._wait_in(region.get_session())
        return _Access(session, region.get_region_name(service), region.get_interface(service))

    def _find_nova(self) -> _Access:
        """Return the access to nova's API of placement's user, through endpoints of the same kind."""
        group = self._conf.placement
        return _Access(self._nova_session(), group.region_name, _interfaces(group))

    def _cloud_ironic(self) -> Adapter:
        access = self._find_cloud(_BARE_METAL)
        return Adapter(
            access.session,
            service_type=_BARE_METAL,
            region_name=access.region,
            interface=access.interface,
            endpoint_override=self.ironic_endpoint,
        )

    def _nova_ironic(self) -> Adapter | None:
        if not (self.config_files or cfg.find_config_files(project="nova")):
            return None
        conf = self._conf
        auth = loading.load_auth_from_conf_options(conf, _IRONIC)
        if auth is None:
            return None
        _check_addresses(conf, _IRONIC)
        session = loading.load_session_from_conf_options(conf, _IRONIC, auth=auth)
        return Adapter(
            self._wait_in(session),
            service_type=conf.ironic.service_type or _BARE_METAL,
            region_name=conf.ironic.region_name,
            interface=_interfaces(conf.ironic),
            endpoint_override=conf.ironic.endpoint_override,
        )

    def _cloud_client(self) -> PlacementClient:
        access = self._find_cloud(_PLACEMENT)
        return PlacementClient(access.session, region_name=access.region, interface=access.interface)

    def _nova_client(self) -> PlacementClient:
        group = self._conf.placement
        return PlacementClient(
            self._nova_session(),
            service_type=group.service_type or "placement",
            region_name=group.region_name,
            interface=_interfaces(group),
            endpoint=group.endpoint_override,
        )

    def _nova_session(self) -> Session:
        conf = self._conf
        auth = loading.load_auth_from_conf_options(conf, _PLACEMENT)
        if auth is None:
            raise Misconfigured(f"{self._files} has no [placement]/auth_type, which is needed to log in")
        _check_addresses(conf, _PLACEMENT)
        return self._wait_in(loading.load_session_from_conf_options(conf, _PLACEMENT, auth=auth))

    @property
    def _files(self) -> str:
        return ", ".join(self.config_files) or "nova.conf"

    def find_config_files(self) -> list[str]:
        """Return nova's configuration files; raise UsageError if there are none."""
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
        except (OSError, UnicodeError) as error:
            raise Misconfigured(f"{', '.join(files)} cannot be read: {error}") from error
        return conf


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _check_addresses(conf: cfg.ConfigOpts, service: str) -> None:
    """Raise cfg.Error if an address in nova.conf is wrong; requests to it would end in a traceback."""
    for name in _ADDRESSES:
        address = getattr(conf[service], name, None)
        if address and not _is_address(address):
            raise cfg.ConfigFileValueError(f"[{service}]/{name} is no address: {address!r}")


def _interfaces(group: Any) -> list[str]:
    """Return the kinds of endpoint that nova would try, from its configuration for a service."""
    return [group.interface] if group.interface else list(group.valid_interfaces or _INTERFACES)


def _open_region(name: str) -> Any:
    """Return a cloud of clouds.yaml from openstacksdk."""
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
