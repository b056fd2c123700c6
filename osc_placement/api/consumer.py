# SPDX-License-Identifier: Apache-2.0
"""A consumer of resources, and its document at each microversion. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from osc_placement import microversion
from osc_placement.model import UNKNOWN_TYPE

if TYPE_CHECKING:
    from osc_placement.microversion import Version

Document = dict[str, Any]
#: amounts by class, by the UUID of the provider
Allocations = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of resources: its owner, its type and what it holds.

    The API tells nothing of a consumer that holds nothing. In the subject of a change ``allocations`` is
    empty, as the states of the change have them.

    :ivar generation: None for a consumer that is new
    :ivar consumer_type: UNKNOWN_TYPE for a consumer that has none, as those made before there were types;
        None if it was not told
    """

    uuid: str
    generation: int | None = None
    project_id: str | None = None
    user_id: str | None = None
    consumer_type: str | None = None
    allocations: Allocations = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Return what people know it by: placement knows no more than the UUID."""
        return self.uuid

    @property
    def is_untyped(self) -> bool:
        """Return whether there is no type to write."""
        return self.consumer_type in (None, UNKNOWN_TYPE)

    @classmethod
    def from_json(cls, uuid: str, document: Document) -> Consumer:
        """Read the document of a consumer; what its microversion does not tell is None."""
        return cls(
            uuid,
            document.get("consumer_generation"),
            document.get("project_id"),
            document.get("user_id"),
            document.get("consumer_type"),
            {provider: entry["resources"] for provider, entry in document["allocations"].items()},
        )

    def to_json(self, version: Version) -> Document:
        """Return the document that writes the consumer in a microversion."""
        amounts = {provider: dict(amounts) for provider, amounts in self.allocations.items()}
        document: Document = {
            "allocations": {provider: {"resources": each} for provider, each in amounts.items()}
            if version >= microversion.ALLOCATIONS_BY_PROVIDER
            else [{"resource_provider": {"uuid": uuid}, "resources": each} for uuid, each in amounts.items()]
        }
        if version >= microversion.CONSUMER_OWNER_REQUIRED:
            document |= {"project_id": self.project_id, "user_id": self.user_id}
        if version >= microversion.CONSUMER_GENERATIONS:
            document["consumer_generation"] = self.generation
        if version >= microversion.CONSUMER_TYPES:
            document["consumer_type"] = self.consumer_type
        return document


def describe_consumers(
    consumers: Collection[Consumer], version: Version
) -> tuple[dict[str, Document], Version]:
    """Return the documents that write consumers in one request, by UUID, and the microversion for them.

    That is ``version``, but 1.37 if one of them is untyped. From 1.38 on a request must give each consumer a
    type; before, those that have one keep it, and the others stay without.
    """
    if any(consumer.is_untyped for consumer in consumers):
        version = min(version, microversion.REPARENTING)
    return {consumer.uuid: consumer.to_json(version) for consumer in consumers}, version
