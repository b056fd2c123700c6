# SPDX-License-Identifier: Apache-2.0
"""Names of host aggregates in the compute service, and their UUIDs in placement.

Placement knows aggregates by UUID only. A UUID needs no request; names, however many, need one request to the
compute API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from osc_placement.errors import PlacementError
from osc_placement.model import canonical_uuid, is_uuid

AGGREGATE_HELP: Final = "UUID of an aggregate, or the name of a host aggregate of the compute service"
#: from this microversion on, host aggregates show their UUIDs
_MICROVERSION: Final = "compute 2.41"


class AggregateNotFound(PlacementError):
    """A text is neither the UUID of an aggregate nor the name of a host aggregate."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name!r} is not the UUID of an aggregate, and {reason}")


class AggregateNames:
    """The resolver for names of host aggregates; it uses OpenStackClient's client manager."""

    def __init__(self, client_manager: Any) -> None:
        self._client_manager = client_manager
        self._uuids: Mapping[str, str] | None = None

    def resolve(self, texts: Iterable[str]) -> list[str]:
        """Return the UUID for each text, in canonical spelling."""
        return [canonical_uuid(text) if is_uuid(text) else self._find(text) for text in texts]

    def names(self) -> Mapping[str, str]:
        """Return the names of all host aggregates by UUID; none if the compute service cannot be asked."""
        try:
            return {uuid: name for name, uuid in self._read_once("").items()}
        except AggregateNotFound:
            return {}

    def resolve_condition(self, text: str) -> str:
        """Resolve a comma-separated list, as ``member_of`` takes it."""
        return ",".join(self.resolve(text.split(",")))

    def _find(self, name: str) -> str:
        uuids = self._read_once(name)
        if name not in uuids:
            raise AggregateNotFound(name, "no host aggregate has that name (see: openstack aggregate list)")
        return uuids[name]

    def _read_once(self, wanted: str) -> Mapping[str, str]:
        if self._uuids is None:
            self._uuids = self._read(wanted)
        return self._uuids

    def _read(self, wanted: str) -> Mapping[str, str]:
        from keystoneauth1 import exceptions

        try:
            document = self._request().json()
            return {aggregate["name"]: aggregate["uuid"] for aggregate in document["aggregates"]}
        except exceptions.ClientException as failure:
            reason = str(failure).partition(" (HTTP")[0].partition("\n")[0] or type(failure).__name__
        except (ValueError, LookupError, TypeError):
            reason = "its answer is not that of the compute API"
        raise AggregateNotFound(
            wanted, f"the names of host aggregates cannot be read from the compute service: {reason}"
        )

    def _request(self) -> Any:
        manager = self._client_manager
        return manager.session.get(
            "/os-aggregates",
            endpoint_filter={
                "service_type": "compute",
                "interface": manager.interface,
                "region_name": manager.region_name,
            },
            endpoint_override=manager._cli_options.get_endpoint("compute"),
            headers={"Accept": "application/json", "OpenStack-API-Version": _MICROVERSION},
            timeout=60,
        )
