# SPDX-License-Identifier: Apache-2.0
"""One-time-use devices: their states, their release, and the rule that one in use is not released. Pure.

By the source of nova 34 (``_handle_one_time_use`` of ``nova/compute/pci_placement_translator.py``): a PCI
device whose device_spec has the tag ``one_time_use=true`` is a provider with the trait
``HW_PCI_ONE_TIME_USE``. nova-compute sets what is reserved of it to its total while an instance has it, and
never sets it back: an operator does, after having cleaned the device. Until then the device is burned.

A device may be claimed, and its inventory changed, between reading and writing. Therefore its inventories are
read first, with the generation of the provider, and its usages afterwards, and the release is written with
that generation. A claim increments the generation: one that the usages did not have yet makes the server
refuse the write with 409. A release is not planned again then, whatever edit makes it, as the device may have
been used and burned once more; another change is.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from osc_placement import microversion
from osc_placement.batch.facets import Facet, ProviderState
from osc_placement.batch.plan import Change, Decision, EditRefused, JournalledEdit
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient

ONE_TIME_USE: Final = "HW_PCI_ONE_TIME_USE"


class DeviceState(enum.StrEnum):
    """The state of a one-time-use device.

    :cvar EMPTY: it has no inventory, so that nothing can be allocated and nothing is reserved
    """

    FREE = "free"
    IN_USE = "in use"
    BURNED = "burned"
    EMPTY = "no inventory"


def find_state(inventory: Inventory | None, usages: Mapping[str, int]) -> DeviceState:
    """Return the state of a one-time-use device.

    :param inventory: that of one of its classes
    :param usages: of all its classes, as each use is one of the whole device
    """
    if any(usages.values()):
        return DeviceState.IN_USE
    if inventory is None:
        return DeviceState.EMPTY
    return DeviceState.BURNED if is_wholly_reserved(inventory) else DeviceState.FREE


def is_wholly_reserved(inventory: Inventory) -> bool:
    """Return whether nothing is left to allocate."""
    return inventory.reserved >= inventory.total


@dataclass(frozen=True, slots=True)
class DeviceRelease(JournalledEdit):
    """Set what is reserved of burned one-time-use devices to 0; everything else stays.

    Whether a device is in use is not decided here but by `require_unused` and `service.guard_devices`.
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


class DeviceInUse(PlacementError):
    """A change would release a one-time-use device that is in use."""

    def __init__(self, usages: Mapping[str, int]) -> None:
        self.usages = dict(usages)
        told = " and ".join(f"{used} {name}" for name, used in usages.items() if used)
        super().__init__(
            f"the one-time-use device is in use: {told} allocated; a later run can release it, when it is "
            "free again and was cleaned"
        )


class MayBeUsedAgain(PlacementError):
    """A device was changed after its release was planned, and may have been used again meanwhile."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name} was changed since its release was planned, and may have been used again; clean it, and "
            "release it with a new command"
        )


def refuse_planned_again(client: PlacementClient, change: Change) -> None:
    """Raise MayBeUsedAgain if a change that is planned again releases a device, whatever its edit is.

    Somebody else has changed the device since. Traits are read as by `require_unused`, and the inventories
    are read as they are now: an earlier write of the run may have released the device already, while the
    change keeps what there was before.
    """
    if not (is_releasing(change) and _is_one_time_use(client, change)):
        return
    found = client.list_inventories(change.uuid)["inventories"]
    now = {name: Inventory.from_json(fields) for name, fields in found.items()}
    if is_releasing(replace(change, before=replace(change.before, inventories=now))):
        raise MayBeUsedAgain(change.subject.name)


def is_releasing(change: Change) -> bool:
    """Return whether something can be allocated after a change of what was wholly reserved before."""
    after = change.after.inventories or {}
    return any(
        is_wholly_reserved(inventory) and name in after and not is_wholly_reserved(after[name])
        for name, inventory in (change.before.inventories or {}).items()
    )


def require_unused(client: PlacementClient, change: Change, usages: Mapping[str, int] | None = None) -> None:
    """Raise DeviceInUse if a change releases a one-time-use device that is in use, whatever its edit is.

    The traits of the provider are read if the change does not have them. Below the microversion that has
    traits nothing is a device.

    :param usages: read after the inventories of the change; None to read them if the change releases
        something
    """
    if not is_releasing(change):
        return
    used = client.provider_usages(change.uuid) if usages is None else usages
    if any(used.values()) and _is_one_time_use(client, change):
        raise DeviceInUse(used)


def _is_one_time_use(client: PlacementClient, change: Change) -> bool:
    traits = change.before.traits
    if traits is None and client.version >= microversion.TRAITS:
        traits = frozenset(client.list_provider_traits(change.uuid)["traits"])
    return ONE_TIME_USE in (traits or ())
