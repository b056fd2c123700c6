# SPDX-License-Identifier: Apache-2.0
"""An image of which an instance boots, as far as nova's request to placement depends on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from osc_placement.flavor import NoClaim

_TRAIT_KEY: Final = "trait:"
_BUSES: Final = "fdc ide sata scsi usb virtio xen lxc uml"
_ARCHITECTURES: Final = (
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64 "
    "mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64 "
    "unicore32 x86_64 xtensa xtensaeb"
)
#: the values that nova accepts for a property; it boots no image with another one
_VALUES: Final = {
    "hw_architecture": _ARCHITECTURES,
    "hw_cdrom_bus": _BUSES,
    "hw_disk_bus": _BUSES,
    "hw_emulation_architecture": _ARCHITECTURES,
    "hw_vif_model": "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet "
    "vmxnet3 igb",
    "hw_video_model": "cirrus qxl vga vmvga xen virtio gop none bochs",
    "hw_viommu_model": "intel smmuv3 virtio auto",
}
_OLD_ARCHITECTURES: Final = {
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    "amd64": "x86_64",
}
#: other spellings of the values of a property, which nova replaces; their case does not matter
_SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "hw_vif_model": {
        "virtuale1000": "e1000",
        "virtuale1000e": "e1000e",
        "virtualpcnet32": "pcnet",
        "virtualsriovethernetcard": "sriov",
        "virtualvmxnet": "vmxnet",
        "virtualvmxnet3": "vmxnet3",
    },
    "hw_architecture": _OLD_ARCHITECTURES,
    "hw_emulation_architecture": _OLD_ARCHITECTURES,
}


@dataclass(frozen=True, slots=True)
class Image:
    """The disk format of an image, empty if it is not known, and its properties as nova reads them.

    :ivar is_known: whether anything is known of the image; what nova demands of it cannot be judged otherwise
    """

    disk_format: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    is_known: bool = True

    @property
    def required(self) -> frozenset[str]:
        """Return the traits that the image requires."""
        return frozenset(
            key.removeprefix(_TRAIT_KEY)
            for key, value in self.properties.items()
            if key.startswith(_TRAIT_KEY) and value == "required"
        )


UNKNOWN_IMAGE: Final = Image(is_known=False)


def make_image(properties: Mapping[str, str]) -> Image:
    """Return an image with these properties, of which ``disk_format`` is its format.

    Raise NoClaim if nova would refuse one of them.
    """
    own = dict(properties)
    disk_format = own.pop("disk_format", "")
    read: dict[str, str] = {}
    if "architecture" in own:
        read["hw_architecture"] = own["architecture"]
    if own.get("vmware_adaptertype"):
        read["hw_disk_bus"] = "ide" if own["vmware_adaptertype"] == "ide" else "scsi"
    read |= own
    for name, spellings in _SPELLINGS.items():
        if name in read:
            value = read[name].lower()
            read[name] = spellings.get(value, value)
    for name, values in _VALUES.items():
        if name in read and read[name] not in values.split():
            raise NoClaim(f"{name}={read[name]!r} is none of {', '.join(values.split())}")
    return Image(disk_format, read)
