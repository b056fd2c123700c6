# SPDX-License-Identifier: Apache-2.0
"""nova.conf: where nova's databases, placement, neutron, glance and Ironic are, and how to authenticate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

from keystoneauth1 import exceptions as keystone
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity.base import BaseIdentityPlugin
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from oslo_config import cfg

from osc_placement.api.client import PlacementClient
from osc_placement.candidates.nova_filters import NO_NOVA_CONF, Options
from osc_placement.errors import PlacementError, UsageError, one_line
from osc_placement.migrate.nova import glance, ironic, ports
from osc_placement.migrate.nova.api_source import ApiSource
from osc_placement.migrate.nova.facts import ServiceGroup
from osc_placement.migrate.nova.glance import GlanceSource
from osc_placement.migrate.nova.ironic import IronicSource
from osc_placement.migrate.nova.neutron import NeutronApi
from osc_placement.migrate.nova.rest import NovaApi, limit_waiting
from osc_placement.migrate.nova.scheduler_options import options_of
from osc_placement.migrate.nova.source import ClosableSource, NetworkSource, Unreadable

#: what a server without Keystone takes for an administrator's, and no secret
USUAL_TOKEN: Final = "admin"
_PLACEMENT = "placement"
_IRONIC = "ironic"
_NEUTRON = "neutron"
_BARE_METAL = "baremetal"
_NETWORK = "network"
_GLANCE = "glance"
_IMAGE = "image"
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
    """Access to nova, placement, neutron and Ironic, from the command line and from nova.conf."""

    config_files: Sequence[str] = ()
    api_database: str | None = None
    cloud: str | None = None
    placement_endpoint: str | None = None
    placement_token: str | None = None
    ironic_endpoint: str | None = None
    neutron_database: str | None = None
    #: whether binding profiles are written to that database
    is_neutron_database_written: bool = False
    neutron_endpoint: str | None = None
    glance_endpoint: str | None = None
    source: str = "db"
    nova_endpoint: str | None = None
    nova_token: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Raise UsageError if an endpoint is not an HTTP address."""
        for service in ("placement", "ironic", "neutron", "glance", "nova"):
            address = getattr(self, f"{service}_endpoint")
            if address and not _is_address(address):
                raise UsageError(
                    f"--{service}-endpoint is an address such as http://controller/service, not {address!r}"
                )

    def open_source(self) -> ClosableSource:
        """Open nova's databases, or its API."""
        if self.source == "api":
            return self._open_api()
        # PERF: SQLAlchemy takes a third of a second to load, and who reads the API needs none
        from osc_placement.migrate.nova.db_source import DatabaseSource

        if self.api_database and not self.config_files:
            return DatabaseSource(self.api_database)
        conf = self._conf
        try:
            url = self.api_database or conf.api_database.connection
            main = conf.database.connection
            group = ServiceGroup(conf.servicegroup_driver, conf.report_interval, conf.service_down_time)
        except cfg.Error as error:
            raise Misconfigured(f"The access to nova cannot be set up: {error}") from error
        if not url:
            raise Misconfigured(f"{self._files} has no [api_database]/connection; --nova-api-db gives one")
        return DatabaseSource(url, main, group)

    def _open_api(self) -> ApiSource:
        """Open nova's API: at --nova-endpoint, in --os-cloud, or in the catalog of placement's user."""
        if self.nova_endpoint:
            auth = Token(self.nova_endpoint, self.nova_token or "")
            session = self._wait_in(Session(auth=auth))
            return ApiSource(NovaApi(session, endpoint=self.nova_endpoint))
        try:
            if self.cloud:
                access = self._find_cloud(_COMPUTE)
            else:
                # through endpoints of the same kind as placement's
                group = self._conf.placement
                access = _Access(self._nova_session(), group.region_name, _interfaces(group))
            return ApiSource(NovaApi(access.session, region_name=access.region, interface=access.interface))
        except _WRONG as error:
            raise Misconfigured(f"The access to nova cannot be set up: {error}") from error

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
            if self.cloud:
                access = self._find_cloud(_PLACEMENT)
                return PlacementClient(access.session, region_name=access.region, interface=access.interface)
            group = self._conf.placement
            return PlacementClient(
                self._nova_session(),
                service_type=group.service_type or "placement",
                region_name=group.region_name,
                interface=_interfaces(group),
                endpoint=group.endpoint_override,
            )
        except _WRONG as error:
            raise Misconfigured(f"The access to placement cannot be set up: {error}") from error

    def open_ironic(self) -> IronicSource | None:
        """Open Ironic as the command line says, or else nova.conf; return None without either.

        Raise Unreadable if they are wrong.
        """
        adapter = self._open_service(_IRONIC, _BARE_METAL, self.ironic_endpoint, ironic.LABEL)
        return IronicSource(adapter) if adapter is not None else None

    @property
    def names_neutron(self) -> bool:
        """Return whether the command line says where neutron is."""
        return bool(self.neutron_database or self.neutron_endpoint)

    def open_neutron(self) -> NetworkSource | None:
        """Open neutron as the command line says, or else nova.conf; return None without either.

        Raise Unreadable if they are wrong.
        """
        if self.neutron_database:
            # PERF: SQLAlchemy takes a third of a second to load
            from osc_placement.migrate.nova.neutron_db import NeutronDatabase

            return NeutronDatabase(self.neutron_database, may_write=self.is_neutron_database_written)
        return self.open_neutron_api()

    def open_neutron_api(self) -> NeutronApi | None:
        """Open neutron's API as the command line says, or else nova.conf; return None without either.

        Raise Unreadable if they are wrong.
        """
        adapter = self._open_service(_NEUTRON, _NETWORK, self.neutron_endpoint, ports.LABEL)
        return NeutronApi(adapter) if adapter is not None else None

    def open_glance(self) -> GlanceSource | None:
        """Open glance as the command line says, or else nova.conf; return None without either.

        Nova has no user of its own for glance, so the user is that of placement; without a catalog,
        [glance]/endpoint_override or the first of api_servers has to say where glance is. Raise Unreadable
        if they are wrong.
        """
        if self.glance_endpoint or self.cloud:
            adapter = self._open_service(_GLANCE, _IMAGE, self.glance_endpoint, glance.LABEL)
            return GlanceSource(adapter) if adapter is not None else None
        if not (self.config_files or cfg.find_config_files(project="nova")):
            return None
        try:
            session, group = self._load_session(_PLACEMENT), self._conf[_GLANCE]
            name, endpoint = "endpoint_override", group.endpoint_override
            if not endpoint and group.api_servers:
                name, endpoint = "api_servers", group.api_servers[0]
            if endpoint and not _is_address(endpoint):
                text = f"[{_GLANCE}]/{name} is no address: {endpoint!r}"
                raise cfg.ConfigFileValueError(text)
        except (*_WRONG, Misconfigured) as error:
            raise Unreadable(glance.LABEL, f"the access to it cannot be set up: {error}") from error
        has_catalog = session is not None and isinstance(session.auth, BaseIdentityPlugin)
        if session is None or not (has_catalog or endpoint):
            return None
        adapter = Adapter(
            session,
            service_type=group.service_type or _IMAGE,
            region_name=group.region_name,
            interface=_interfaces(group),
            endpoint_override=endpoint,
        )
        return GlanceSource(adapter)

    def _open_service(self, name: str, service_type: str, endpoint: str | None, label: str) -> Adapter | None:
        """Return the adapter of a service at an endpoint, in --os-cloud, or in its group of nova.conf.

        Return None if none of them is given; raise Unreadable with the label if they are wrong.
        """
        if endpoint and not self.cloud:
            return Adapter(self._wait_in(Session(auth=NoAuth(endpoint=endpoint))))
        try:
            if self.cloud:
                access = self._find_cloud(service_type)
                return Adapter(
                    access.session,
                    service_type=service_type,
                    region_name=access.region,
                    interface=access.interface,
                    endpoint_override=endpoint,
                )
            if not (self.config_files or cfg.find_config_files(project="nova")):
                return None
            own, group = self._load_session(name), self._conf[name]
            if own is None:
                return None
            return Adapter(
                own,
                service_type=group.service_type or service_type,
                region_name=group.region_name,
                interface=_interfaces(group),
                endpoint_override=group.endpoint_override,
            )
        except _WRONG as error:
            raise Unreadable(label, f"the access to it cannot be set up: {error}") from error

    def _wait_in(self, session: Session) -> Session:
        return limit_waiting(session, self.timeout)

    def _find_cloud(self, service: str) -> _Access:
        """Return the access to a service of a cloud of clouds.yaml."""
        # PERF: brings openstacksdk, a third of the time of a start without it
        from osc_lib.cli.client_config import OSC_Config

        try:
            region = OSC_Config().get_one(cloud=self.cloud)
        except Exception as error:  # openstacksdk's own kinds, which come with osc-lib
            raise Misconfigured(f"The cloud {self.cloud} cannot be used: {error}") from error
        session = self._wait_in(region.get_session())
        return _Access(session, region.get_region_name(service), region.get_interface(service))

    def _nova_session(self) -> Session:
        """Return the session of placement's user in nova.conf."""
        session = self._load_session(_PLACEMENT)
        if session is None:
            raise Misconfigured(f"{self._files} has no [placement]/auth_type, which is needed to log in")
        return session

    def _load_session(self, service: str) -> Session | None:
        """Return the session for a service's group in nova.conf; None if it has no auth_type."""
        conf = self._conf
        auth = loading.load_auth_from_conf_options(conf, service)
        if auth is None:
            return None
        for name in _ADDRESSES:
            address = getattr(conf[service], name, None)
            if address and not _is_address(address):
                # requests to it would end in a traceback
                raise cfg.ConfigFileValueError(f"[{service}]/{name} is no address: {address!r}")
        return self._wait_in(loading.load_session_from_conf_options(conf, service, auth=auth))

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

    def read_scheduler_options(self) -> tuple[Options | None, str]:
        """Return the options of nova.conf about request filters, None if they are not known, and why not.

        Raise Misconfigured if a file that the command line names cannot be used.
        """
        if not (self.config_files or cfg.find_config_files(project="nova")):
            return None, NO_NOVA_CONF
        try:
            return options_of(self._conf), ""
        except Misconfigured as error:
            if self.config_files:
                raise
            reason = str(error)
        except cfg.Error as error:
            reason = one_line(error)
            if self.config_files:
                raise Misconfigured(
                    f"{self._files} cannot be used: {reason}; correct it, or use --no-nova-filters"
                ) from error
        return None, f"nova.conf cannot be read: {reason.removesuffix('.')}"

    @cached_property
    def _conf(self) -> cfg.ConfigOpts:
        files = self.find_config_files()
        conf = cfg.ConfigOpts()
        for group in ("api_database", "database"):
            conf.register_opts([cfg.StrOpt("connection", secret=True)], group=group)
        usual = ServiceGroup()
        conf.register_opts(
            [
                cfg.StrOpt("servicegroup_driver", default=usual.servicegroup_driver),
                cfg.IntOpt("report_interval", default=usual.report_interval),
                cfg.IntOpt("service_down_time", default=usual.service_down_time),
            ]
        )
        loading.register_adapter_conf_options(conf, _GLANCE)
        conf.register_opts([cfg.ListOpt("api_servers")], group=_GLANCE)
        for service in (_PLACEMENT, _IRONIC, _NEUTRON):
            loading.register_session_conf_options(conf, service)
            loading.register_auth_conf_options(conf, service)
            loading.register_adapter_conf_options(conf, service)
        try:
            conf([], project="nova", default_config_files=files)
        except cfg.Error as error:
            raise Misconfigured(one_line(error)) from error
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


def _interfaces(group: Any) -> list[str]:
    """Return the kinds of endpoint that nova would try, from its configuration for a service."""
    return [group.interface] if group.interface else list(group.valid_interfaces or _INTERFACES)
