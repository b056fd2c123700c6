# SPDX-License-Identifier: Apache-2.0
"""What the provider of a bare metal node is to have, and what its instance is to hold of it. Pure.

A node is one of its resource class: its inventory is 1, of which 1 is reserved while nova's ironic driver
would not give the node to anybody (see `IronicNode.is_available`). The driver reserves it while there is an
instance too, unless it is older or [workarounds]/skip_reserve_in_use_ironic_nodes is set; so an inventory
that is there already keeps what is reserved of it as long as there is an instance, and nobody undoes what the
other wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import os_resource_classes

from osc_placement.batch.plan import Decision, Facet, ProviderState
from osc_placement.migrate.nova.facts import IronicNode
from osc_placement.model import CUSTOM_PREFIX, Inventory

#: what nodes were scheduled by before they had resource classes
SIZES: Final = frozenset(("VCPU", "MEMORY_MB", "DISK_GB"))
TITLE: Final = "bare metal nodes"
FACETS: Final[tuple[Facet, ...]] = ("inventories", "allocations")

Inventories = Mapping[str, Inventory]


def class_of_node(node: IronicNode) -> str | None:
    """The resource class of placement that nova makes of the one in Ironic; None if there is none."""
    name = node.resource_class
    return os_resource_classes.normalize_name(name) if name else None


def reported_class(inventories: Inventories) -> str | None:
    """The class that nova-compute has given a node; None if that is not clear."""
    whole = [name for name, each in inventories.items() if name.startswith(CUSTOM_PREFIX) and each.total == 1]
    return whole[0] if len(whole) == 1 else None


@dataclass(frozen=True, slots=True)
class NodeEdit:
    """Give a node its class, and its instance the node; what sizes nobody holds any more go.

    :ivar instance: who is on the node, None if nobody is known to be
    :ivar is_occupied: whether nova or Ironic has an instance on it
    :ivar is_available: whether nova's driver would give it away; None if Ironic was not asked
    """

    resource_class: str
    instance: str | None = None
    is_occupied: bool = False
    is_available: bool | None = None
    title: str = TITLE

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Both are decided together."""
        return FACETS

    def check(self, states: Sequence[ProviderState]) -> None:
        """It fits any node."""

    def decide(self, state: ProviderState) -> Decision:
        """Say what the provider shall have, and who shall hold what of it."""
        holdings = {consumer: dict(amounts) for consumer, amounts in (state.allocations or {}).items()}
        if self.instance:
            held = holdings.get(self.instance, {})
            kept = {name: amount for name, amount in held.items() if name not in SIZES}
            holdings[self.instance] = kept | {self.resource_class: 1}
        used = {name for amounts in holdings.values() for name in amounts}
        current = state.inventories or {}
        inventories = {name: each for name, each in current.items() if name not in SIZES or name in used} | {
            self.resource_class: self._inventory(current.get(self.resource_class))
        }
        after = replace(state, inventories=inventories, allocations=holdings)
        return Decision(after, "is one of its class already" if after == state else self._explain(after))

    def _inventory(self, current: Inventory | None) -> Inventory:
        if current and self.is_available is None:
            return current
        if current and current.total == 1 and self.is_occupied:
            return Inventory(1, reserved=current.reserved, max_unit=1)
        return Inventory(1, reserved=int(self.is_occupied or self.is_available is False), max_unit=1)

    def _explain(self, after: ProviderState) -> str:
        inventories = after.inventories or {}
        left = sorted(SIZES & inventories.keys())
        notes = [f"{', '.join(left)} stay, as others hold them"] if left else []
        if inventories[self.resource_class].reserved:
            notes.append(
                "reserved, as it is in use" if self.is_occupied else "reserved, as it is not available"
            )
        return "; ".join(notes)


def claim_of_node(
    claim: Mapping[str, int], held: Mapping[str, int], inventories: Inventories
) -> dict[str, int]:
    """What an instance is to hold of a bare metal node, where its flavor claims this and it holds that.

    The flavor embedded in an instance may be older than the resource class of its node: who holds the node as
    one holds it all, and sizes that the node does not have are not claimed. Where nothing is left of a claim,
    it is the node.
    """
    own = reported_class(inventories)
    if own and held == {own: 1}:
        return dict(held)
    kept = {name: amount for name, amount in claim.items() if name not in SIZES or name in inventories}
    return kept or ({own: 1} if own else dict(claim))
