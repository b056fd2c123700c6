# SPDX-License-Identifier: Apache-2.0
"""Moving inventory between providers together with the allocations on it, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osc_placement.server import errors
from osc_placement.server.db import allocation, consumer, inventory, names, provider
from osc_placement.server.db.tables import resource_providers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class NewInventories:
    """All that a provider is to have, and the generation of the provider that this is based on."""

    generation: int
    inventories: inventory.Inventories


class InventoriesOfUnknown(errors.Invalid):
    """Inventories are given for a provider that does not exist."""


class Outdated(errors.ConcurrentUpdate):
    """Inventories are based on a generation that a provider has left."""

    def __init__(self, uuid: str, actual: int, given: int) -> None:
        super().__init__(
            f"resource provider generation conflict for provider {uuid}: actual: {actual}, given: {given}"
        )


def reshape(
    conn: Connection, wanted: Mapping[str, NewInventories], claims: Sequence[allocation.Claim]
) -> None:
    """Give providers, by UUID, new inventories and consumers new allocations; all of it or nothing.

    Inventory that goes must be there until the allocations have left it, and inventory that comes before they
    arrive. So providers first get both, then the allocations move, then what is no longer wanted goes. All
    consumers and providers are locked before, by ascending id, as any other change would.

    :raises InventoriesOfUnknown: a provider to be given inventories does not exist
    :raises Outdated: such a provider is at another generation
    :raises errors.InventoryInUse: allocations that were not moved hold inventory that would go
    :raises errors.PlacementError: as `allocation.replace` and `inventory.replace` do
    """
    consumer.lock(conn, [claim.consumer_uuid for claim in claims])
    ids = _lock(conn, wanted, claims)
    by_id = {ids[uuid]: new.inventories for uuid, new in wanted.items()}
    inventory.replace_many(conn, {id_: new for id_, new in by_id.items() if new}, keeping=True)
    allocation.replace(conn, claims)
    inventory.replace_many(conn, by_id)


def _lock(
    conn: Connection, wanted: Mapping[str, NewInventories], claims: Sequence[allocation.Claim]
) -> dict[str, int]:
    """Lock all that is concerned; the ids of the providers by their UUIDs."""
    claimed = {uuid for claim in claims for uuid in claim.resources}
    ids = names.find_ids(conn, resource_providers, "uuid", claimed | wanted.keys())
    # all at once, or two who take the same in two portions wait for each other
    every = {*ids.values(), *allocation.find_released(conn, claims)}
    for uuid in wanted:
        if uuid not in ids:
            missing = errors.ProviderNotFound(uuid)
            raise InventoriesOfUnknown(f"Resource provider {uuid} in inventories not found: {missing}")
    locked = provider.lock_ids(conn, every)
    for uuid, new in wanted.items():
        if locked[uuid].generation != new.generation:
            raise Outdated(uuid, locked[uuid].generation, new.generation)
    return ids
