# SPDX-License-Identifier: Apache-2.0
"""The move of inventories between providers together with the allocations on them, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osc_placement.server import errors
from osc_placement.server.db import allocation, inventory, names, provider
from osc_placement.server.db.tables import resource_providers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class NewInventories:
    """All inventories that a provider will have, and the generation that they are based on."""

    generation: int
    inventories: inventory.Inventories


class InventoriesOfUnknown(errors.Invalid):
    """An error: inventories are given for a provider that does not exist."""


class Outdated(errors.ConcurrentUpdate):
    """An error: inventories are based on an old generation of a provider."""

    def __init__(self, uuid: str, actual: int, given: int) -> None:
        super().__init__(
            f"resource provider generation conflict for provider {uuid}: actual: {actual}, given: {given}"
        )


def reshape(
    conn: Connection, wanted: Mapping[str, NewInventories], claims: Sequence[allocation.Claim]
) -> None:
    """Replace inventories of providers, by UUID, and allocations of consumers; all of them or none.

    Old inventory has to exist until the allocations have left it, and new inventory before they arrive. So
    providers first get both, then the allocations move, then the unwanted inventory is removed. All consumers
    and providers are locked before, by ascending id, as by any other change.

    :raises InventoriesOfUnknown: a provider in ``inventories`` does not exist
    :raises Outdated: such a provider has a different generation
    :raises errors.InventoryInUse: allocations that were not moved hold inventory to be removed
    :raises errors.PlacementError: as `allocation.replace` and `inventory.replace` do
    """
    released = allocation.lock_consumers(conn, claims)
    claimed = {uuid for claim in claims for uuid in claim.resources}
    ids = names.find_ids(conn, resource_providers, "uuid", claimed | wanted.keys())
    for uuid in wanted:
        if uuid not in ids:
            missing = errors.ProviderNotFound(uuid)
            raise InventoriesOfUnknown(f"Resource provider {uuid} in inventories not found: {missing}")
    # in one step, because two transactions that lock the same rows in two steps can deadlock
    locked = provider.lock_ids(conn, ids.values(), released)
    for uuid, new in wanted.items():
        if locked[uuid].generation != new.generation:
            raise Outdated(uuid, locked[uuid].generation, new.generation)
    by_id = {ids[uuid]: new.inventories for uuid, new in wanted.items()}
    inventory.replace_many(conn, {id_: new for id_, new in by_id.items() if new}, keeping=True)
    allocation.replace(conn, claims)
    inventory.replace_many(conn, by_id)
