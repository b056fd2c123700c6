# SPDX-License-Identifier: Apache-2.0
"""Who reports the custom traits and classes of a provider, if it is not a provider configuration file. Pure.

By the source of nova 34: the driver of Ironic replaces the inventories and traits of a node, whose provider
has the node's UUID as its name. PCI devices (``[pci]report_in_placement``) have a provider each, with the
trait COMPUTE_MANAGED_PCI_DEVICE and a class and traits that their device_spec names, or else CUSTOM_PCI_*.
The libvirt driver gives the provider of a physical GPU (``HOST_pci_0000_84_00_0``) the class of its mediated
devices, VGPU or a custom one, and the root provider CUSTOM_PMEM_NAMESPACE_* for persistent memory.

Other services: neutron reports NET_BW_* and NET_PACKET_RATE_* inventories with the traits CUSTOM_PHYSNET_*
and CUSTOM_VNIC_TYPE_*, Cyborg marks its providers with OWNER_CYBORG, and Blazar makes CUSTOM_RESERVATION_*.

Every provider that an entry of a file was applied to has OWNER_NOVA. Whether a custom trait on such a
provider comes from a file that was changed since, or from an operator who used the API, nothing tells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.model import CUSTOM_PREFIX, ONE_TIME_USE, OWNER_NOVA, Inventory, canonical_uuid

Kind = Literal["trait", "inventory"]

_PCI_DEVICE: Final = "COMPUTE_MANAGED_PCI_DEVICE"
_OWNER_CYBORG: Final = "OWNER_CYBORG"
_PHYSICAL_GPU: Final = re.compile(r".+_pci_[0-9a-f]{4}_[0-9a-f]{2}_[0-9a-f]{2}_[0-7]")
_BANDWIDTH: Final = ("NET_BW_", "NET_PACKET_RATE_")
_BLAZAR_PROVIDER: Final = "blazar_"
#: the beginnings of names that one service makes on any provider
_PREFIXES: Final[Mapping[Kind, Mapping[str, str]]] = {
    "inventory": {
        "CUSTOM_PCI_": "PCI in placement",
        "CUSTOM_PMEM_NAMESPACE_": "persistent memory",
        "CUSTOM_RESERVATION_": "Blazar",
    },
    "trait": {
        "CUSTOM_PHYSNET_": "neutron",
        "CUSTOM_VNIC_TYPE_": "neutron",
        "CUSTOM_RESERVATION_": "Blazar",
    },
}


@dataclass(frozen=True, slots=True)
class Held:
    """A provider with its traits and inventories; ``root`` is the name of its root provider."""

    name: str
    uuid: str | None
    root: str
    is_root: bool
    traits: frozenset[str] = frozenset()
    inventories: Mapping[str, Inventory] = field(default_factory=dict)

    @property
    def custom(self) -> Iterator[tuple[Kind, str]]:
        """Yield the custom traits and the custom classes."""
        for name in sorted(self.traits):
            if name.startswith(CUSTOM_PREFIX):
                yield "trait", name
        for name in sorted(self.inventories):
            if name.startswith(CUSTOM_PREFIX):
                yield "inventory", name

    @property
    def has_owner_nova(self) -> bool:
        """Return whether nova says that it reports this provider."""
        return OWNER_NOVA in self.traits


def find_owner(held: Held, kind: Kind, name: str) -> str:
    """Return who reports a custom trait or class of a provider, or an empty text if that is not known."""
    for prefix, owner in _PREFIXES[kind].items():
        if name.startswith(prefix):
            return owner
    if held.is_root and held.uuid is not None and canonical_uuid(held.name) == held.uuid:
        return "bare metal"
    if not held.traits.isdisjoint((_PCI_DEVICE, ONE_TIME_USE)):
        return "PCI in placement"
    if _OWNER_CYBORG in held.traits:
        return "Cyborg"
    if held.name.startswith(_BLAZAR_PROVIDER):
        return "Blazar"
    if not held.is_root and any(each.startswith(_BANDWIDTH) for each in held.inventories):
        return "neutron"
    # operators give physical GPUs traits of their own
    is_gpu = not held.is_root and ("VGPU" in held.inventories or _PHYSICAL_GPU.fullmatch(held.name))
    return "vGPU" if is_gpu and kind == "inventory" else ""


def find_lasting(is_root: bool, traits: Collection[str]) -> str:
    """Return which providers keep their inventories in nova's updates, or an empty text if this one does not.

    nova's resource tracker refuses an entry with a class that the provider has already. Of those in a file,
    only a root provider has lost it by then, as the driver has replaced its inventories.
    """
    if not is_root:
        return "resource providers that are no roots"
    return f"resource providers with {SHARING_TRAIT}" if SHARING_TRAIT in traits else ""
