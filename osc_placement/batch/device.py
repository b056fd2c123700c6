# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: their states, and their release. Pure.

By the source of nova 34 (``_handle_one_time_use`` of ``nova/compute/pci_placement_translator.py``): a PCI
device whose device_spec has the tag ``one_time_use=true`` is a provider with the trait
``HW_PCI_ONE_TIME_USE``. nova-compute sets what is reserved of it to its total while an instance has it, and
never sets it back: an operator does, after having cleaned the device. Until then the device is burned.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from osc_placement.batch.facets import Facet, ProviderState
from osc_placement.batch.plan import Decision, EditRefused, JournalledEdit
from osc_placement.model import ONE_TIME_USE, Inventory


class DeviceState(enum.StrEnum):
    """The state of a one-time-use device.

    :cvar EMPTY: it has no inventory, so that nothing can be allocated and nothing is reserved
    """

    FREE = "free"
    IN_USE = "in use"
    BURNED = "burned"
    EMPTY = "no inventory"

    @classmethod
    def of(cls, inventory: Inventory | None, usages: Mapping[str, int]) -> DeviceState:
        """Return the state of a one-time-use device.

        :param inventory: that of one of its classes
        :param usages: of all its classes, as each use is one of the whole device
        """
        if any(usages.values()):
            return cls.IN_USE
        if inventory is None:
            return cls.EMPTY
        return cls.BURNED if is_wholly_reserved(inventory) else cls.FREE


def is_wholly_reserved(inventory: Inventory) -> bool:
    """Return whether nothing is left to allocate."""
    return inventory.reserved >= inventory.total


@dataclass(frozen=True, slots=True)
class DeviceRelease(JournalledEdit):
    """Set what is reserved of burned one-time-use devices to 0; everything else stays.

    Whether a device is in use is not decided here but by `guards.devices`.
    """

    kind: ClassVar[str] = "device release"
    #: inventories are written, and traits tell what a device is
    facets: ClassVar[tuple[Facet, ...]] = ("inventories", "traits")

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        return "device release"

    def check(self, states: Sequence[ProviderState]) -> None:
        """Raise EditRefused if none of the providers is a one-time-use device."""
        if states and not any(ONE_TIME_USE in (state.traits or ()) for state in states):
            raise EditRefused(
                f"No selected resource provider has the trait {ONE_TIME_USE}, so there is no device to "
                "release; a host does not stand for its devices here, name those that were cleaned; see "
                "what there is with: openstack resource provider device list"
            )

    def decide(self, state: ProviderState) -> Decision:
        """Return the state without reservations of the whole total."""
        inventories = state.inventories or {}
        if ONE_TIME_USE not in (state.traits or ()):
            return Decision(state, f"no trait {ONE_TIME_USE}")
        after = {
            name: replace(inventory, reserved=0) if is_wholly_reserved(inventory) else inventory
            for name, inventory in inventories.items()
        }
        reason = "" if after != inventories else "is not burned" if inventories else "no inventory"
        return Decision(replace(state, inventories=after), reason)

    def to_json(self) -> dict[str, Any]:
        """Return an empty document."""
        return {}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> DeviceRelease:
        """Return the edit, which has no fields."""
        return cls()
