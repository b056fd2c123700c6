# SPDX-License-Identifier: Apache-2.0
"""Who reports custom traits and classes."""

import pytest

from osc_placement.model import Inventory
from osc_placement.provider_config.ownership import Held, find_owner

UUID = "6b2f5a3e-1111-4222-8333-94a4bcd21a3e"
ONE = Inventory(1)


def hold(name="compute-1", *traits, classes=(), is_root=True):
    """A provider with these traits and classes."""
    return Held(name, UUID, "compute-1", is_root, frozenset(traits), dict.fromkeys(classes, ONE))


@pytest.mark.parametrize(
    ("held", "kind", "name", "owner"),
    [
        (hold(), "trait", "CUSTOM_GOLD", ""),
        (hold(), "inventory", "CUSTOM_LICENSE", ""),
        (hold(), "inventory", "CUSTOM_PCI_10DE_20B5", "PCI in placement"),
        (hold(), "inventory", "CUSTOM_PMEM_NAMESPACE_4GB", "persistent memory"),
        (hold(), "trait", "CUSTOM_PCI_GOOD", ""),
        (hold(UUID), "trait", "CUSTOM_GOLD", "bare metal"),
        (hold(UUID.upper()), "inventory", "CUSTOM_GOLD", "bare metal"),
        (hold(UUID, is_root=False), "trait", "CUSTOM_GOLD", ""),
        (hold("x", "COMPUTE_MANAGED_PCI_DEVICE", is_root=False), "trait", "CUSTOM_GOLD", "PCI in placement"),
        (hold("x", "HW_PCI_ONE_TIME_USE", is_root=False), "inventory", "CUSTOM_GPU", "PCI in placement"),
        (hold("h_pci_0000_84_00_0", is_root=False), "inventory", "CUSTOM_GPU", "vGPU"),
        (hold("h_pci_0000_84_00_0", is_root=False), "trait", "CUSTOM_GPU", ""),
        (hold("x", classes=["VGPU"], is_root=False), "inventory", "CUSTOM_GPU", "vGPU"),
        (hold("x", classes=["NET_BW_EGR_KILOBIT_PER_SEC"], is_root=False), "trait", "CUSTOM_A", "neutron"),
        (hold(), "trait", "CUSTOM_PHYSNET_PUBLIC", "neutron"),
        (hold(), "trait", "CUSTOM_VNIC_TYPE_DIRECT", "neutron"),
        (hold("x", "OWNER_CYBORG", is_root=False), "inventory", "CUSTOM_FPGA", "Cyborg"),
        (hold("blazar_compute-1", is_root=False), "inventory", "CUSTOM_A", "Blazar"),
        (hold(), "inventory", "CUSTOM_RESERVATION_1", "Blazar"),
    ],
)
def test_owner_of_a_name(held, kind, name, owner):
    """What nothing tells has none."""
    assert find_owner(held, kind, name) == owner


def test_custom_names_of_a_provider():
    """Traits first; standard names are none."""
    held = hold("compute-1", "CUSTOM_B", "CUSTOM_A", "HW_CPU_X86_AVX", classes=["VCPU", "CUSTOM_C"])
    assert list(held.custom) == [("trait", "CUSTOM_A"), ("trait", "CUSTOM_B"), ("inventory", "CUSTOM_C")]
