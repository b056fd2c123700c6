# SPDX-License-Identifier: Apache-2.0
"""Names of host aggregates in the compute service, and their UUIDs in placement.

Placement knows aggregates by UUID only. A UUID needs no request; names, however many, need one request to the
compute API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from osc_placement.api.names import SEE_AGGREGATES, suggest_provider
from osc_placement.commands.compute import BAD_ANSWER, NoAnswer, read_compute
from osc_placement.errors import PlacementError
from osc_placement.model import canonical_uuid, is_uuid

ANY_AGGREGATE_HELP: Final = (
    "in any of these aggregates, with commas between: UUIDs, or names of host aggregates of the compute "
    "service"
)
AGGREGATE_HELP: Final = "UUID of an aggregate, or the name of a host aggregate of the compute service"
#: from this microversion on, host aggregates show their UUIDs
_MICROVERSION: Final = "2.41"
#: seconds
_PATIENCE: Final = 60


class AggregateNotFound(PlacementError):
    """A text is neither the UUID of an aggregate nor the name of a host aggregate."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        # placement's own words, which scripts may search for
        super().__init__(f"{name!r} is not a 'uuid', and {reason}")


class AggregateNames:
    """The resolver for names of host aggregates; it uses OpenStackClient's client manager."""

    def __init__(self, client_manager: Any) -> None:
        self._client_manager = client_manager
        self._documents: Sequence[Mapping[str, Any]] | None = None
        self._uuids: Mapping[str, str] | None = None

    def resolve(self, texts: Iterable[str]) -> list[str]:
        """Return the UUID for each text, in canonical spelling."""
        found = []
        for text in texts:
            if is_uuid(text):
                found.append(canonical_uuid(text))
                continue
            uuids = self._read(text)
            if text not in uuids:
                guess = suggest_provider([text], uuids)
                hint = f"no host aggregate has that name{guess} (see: openstack aggregate list)"
                raise AggregateNotFound(text, hint)
            found.append(uuids[text])
        return found

    def names(self) -> Mapping[str, str]:
        """Return the names of all host aggregates by UUID; none if the compute service cannot be asked."""
        try:
            return {uuid: name for name, uuid in self._read("").items()}
        except AggregateNotFound:
            return {}

    def documents(self) -> Sequence[Mapping[str, Any]]:
        """Return the host aggregates as the compute API shows them, read once; raise NoAnswer."""
        if self._documents is None:
            document = read_compute(
                self._client_manager, "/os-aggregates", microversion=_MICROVERSION, timeout=_PATIENCE
            )
            aggregates = document.get("aggregates")
            if not isinstance(aggregates, list) or not all(
                isinstance(each, dict) and {"name", "uuid"} <= each.keys() for each in aggregates
            ):
                raise NoAnswer(BAD_ANSWER)
            self._documents = aggregates
        return self._documents

    def resolve_condition(self, text: str) -> str:
        """Resolve a comma-separated list, as ``member_of`` takes it."""
        return ",".join(self.resolve(text.split(",")))

    def _read(self, wanted: str) -> Mapping[str, str]:
        """Return the UUIDs of all host aggregates by name; raise AggregateNotFound if they cannot be read."""
        try:
            if self._uuids is None:
                self._uuids = {aggregate["name"]: aggregate["uuid"] for aggregate in self.documents()}
            return self._uuids
        except NoAnswer as failure:
            raise AggregateNotFound(
                wanted,
                "the compute service, which could look it up as the name of a host aggregate, "
                f"{failure.told}; {SEE_AGGREGATES}",
            ) from failure
