# SPDX-License-Identifier: Apache-2.0
"""The resources that nova's scheduler claims for an instance of a flavor. Pure.

The sources are applied in the scheduler's order, which decides which one wins:

1. ``resources:CLASS`` and ``resources<GROUP>:CLASS`` extra specs; in a group a later one overwrites, groups
   are added up.
2. The CPU policy of flavor and image: ``dedicated`` and ``mixed`` give PCPU and overwrite ``resources:PCPU``.
3. VCPU unless VCPU or PCPU is named above, even with 0; MEMORY_MB and DISK_GB unless they are.
4. One context of memory encryption, and namespaces of persistent memory.
5. Amounts of 0 are left out.

Traits, PCI aliases, NUMA topology and device profiles claim nothing here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from osc_placement.model import CUSTOM_PREFIX

_RESOURCES_KEY: Final = re.compile(r"^resources([a-zA-Z0-9_-]{1,64})?:(.*)$")
_NOT_OF_A_NAME: Final = re.compile(r"[^0-9A-Za-z]+")
#: the key of the ephemeral disk in the list of flavors; a server's flavor has ``ephemeral``
_EPHEMERAL: Final = "OS-FLV-EXT-DATA:ephemeral"
_TRUE: Final = frozenset(("1", "t", "true", "on", "y", "yes"))
_CPU_POLICIES: Final = ("dedicated", "mixed", "shared")
_MB_PER_GB: Final = 1024
#: the name of the group without a suffix
_UNSUFFIXED: Final = ""


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor as it is, or as it was when an instance was booted or resized."""

    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    flavorid: str = ""


class NoClaim(ValueError):
    """Nova's scheduler would refuse this flavor, so it is unknown what the instance holds."""


def flavor_from_json(document: Mapping[str, Any]) -> Flavor:
    """Make a flavor from what the compute API shows of it, by itself or in a server."""
    return Flavor(
        vcpus=int(document["vcpus"]),
        memory_mb=int(document["ram"]),
        root_gb=int(document["disk"]),
        ephemeral_gb=int(document[_EPHEMERAL if _EPHEMERAL in document else "ephemeral"] or 0),
        swap_mb=int(document["swap"] or 0),
        extra_specs={str(key): str(value) for key, value in document["extra_specs"].items()},
        name=str(document.get("original_name") or ""),
    )


def flavor_from_listing(row: Mapping[str, Any]) -> Flavor:
    """Make a flavor from its row in ``openstack flavor list --long -f json``.

    Raise AttributeError, KeyError, TypeError or ValueError if it is no such row.
    """
    return Flavor(
        vcpus=int(row["VCPUs"]),
        memory_mb=int(row["RAM"]),
        root_gb=int(row["Disk"]),
        ephemeral_gb=int(row["Ephemeral"]),
        # older services have an empty text for none
        swap_mb=int(row["Swap"] or 0),
        extra_specs={str(key): str(value) for key, value in (row["Properties"] or {}).items()},
        name=str(row["Name"]),
        flavorid=str(row["ID"]),
    )


def resources_of(
    flavor: Flavor,
    classes: Collection[str],
    *,
    volume_root: bool = False,
    image: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Return the resources of a flavor, for an instance of an image that boots from a volume or not.

    ``classes`` are those that are known, besides custom ones.
    """
    groups = resources_by_group(flavor, classes, volume_root=volume_root, image=image)
    return dict(sorted(_merge(groups).items()))


def resources_by_group(
    flavor: Flavor,
    classes: Collection[str],
    *,
    volume_root: bool = False,
    image: Mapping[str, str] | None = None,
) -> dict[str, dict[str, int]]:
    """Return the resources of `resources_of` by the suffix of their group, empty for the unnamed one."""
    specs, image = flavor.extra_specs, image or {}
    groups: dict[str, dict[str, int]] = defaultdict(dict)
    for key, value in specs.items():
        match = _RESOURCES_KEY.match(key)
        amount = read_amount(value)
        # like nova, ignore what cannot be read
        if match and amount is not None and (match[2] in classes or match[2].startswith(CUSTOM_PREFIX)):
            groups[match[1] or _UNSUFFIXED][match[2]] = amount
    unsuffixed = groups[_UNSUFFIXED]
    unsuffixed |= _pinned(flavor, image)
    # the sizes of the flavor count for classes that are not named so far
    named = _merge(groups)
    if "VCPU" not in named and "PCPU" not in named:
        unsuffixed["VCPU"] = flavor.vcpus
    if "MEMORY_MB" not in named:
        unsuffixed["MEMORY_MB"] = flavor.memory_mb
    if "DISK_GB" not in named:
        swap_gb = -(-flavor.swap_mb // _MB_PER_GB)
        unsuffixed["DISK_GB"] = flavor.ephemeral_gb + swap_gb + (0 if volume_root else flavor.root_gb)
    if is_true(specs.get("hw:mem_encryption")) or is_true(image.get("hw_mem_encryption")):
        unsuffixed["MEM_ENCRYPTION_CONTEXT"] = 1
    # names of persistent memory are normalized as os_resource_classes, which a client may lack, does
    labels = [label.strip() for label in specs.get("hw:pmem", "").split(",")]
    names = [_NOT_OF_A_NAME.sub("_", f"PMEM_NAMESPACE_{label}").upper() for label in labels if label]
    unsuffixed |= Counter(CUSTOM_PREFIX + name for name in names)
    wanted = {
        suffix: {name: amount for name, amount in sorted(amounts.items()) if amount}
        for suffix, amounts in groups.items()
    }
    return {suffix: amounts for suffix, amounts in wanted.items() if amounts}


def read_amount(text: str) -> int | None:
    """Return the amount that an extra spec requests; None if nova cannot read it."""
    try:
        amount = int(text)
    except ValueError:
        return None
    return amount if amount >= 0 else None


def _merge(groups: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    merged: Counter[str] = Counter()
    for resources in groups.values():
        merged.update(resources)
    return merged


def _pinned(flavor: Flavor, image: Mapping[str, str]) -> dict[str, int]:
    """Return the VCPU and PCPU that follow from the CPU policies of flavor and image; none if unpinned."""
    of_flavor, of_image = flavor.extra_specs.get("hw:cpu_policy"), image.get("hw_cpu_policy")
    for policy in (of_flavor, of_image):
        if policy and policy not in _CPU_POLICIES:
            raise NoClaim(f"its CPU policy {policy!r} is none of {', '.join(_CPU_POLICIES)}")
    forbidden = {"mixed": ("dedicated",), "shared": ("mixed", "dedicated")}.get(of_flavor or "", ())
    if of_image in forbidden:
        raise NoClaim(f"the CPU policy of its image, {of_image}, contradicts its flavor's, {of_flavor}")
    policy = of_flavor or of_image
    if policy not in ("dedicated", "mixed"):
        return {}
    isolated = 1 if flavor.extra_specs.get("hw:emulator_threads_policy") == "isolate" else 0
    if policy == "dedicated":
        return {"PCPU": flavor.vcpus + isolated}
    specs = flavor.extra_specs
    pinned = 0
    if is_true(specs.get("hw:cpu_realtime")):
        mask = image.get("hw_cpu_realtime_mask") or specs.get("hw:cpu_realtime_mask")
        pinned = len(_parse_mask(mask, flavor.vcpus)) if mask else flavor.vcpus
        if pinned == flavor.vcpus and not specs.get("hw:emulator_threads_policy"):
            raise NoClaim("its real-time CPUs leave none for the emulator")
    mask = specs.get("hw:cpu_dedicated_mask")
    if mask:
        pinned = len(_parse_mask(mask, flavor.vcpus))
        if pinned == flavor.vcpus:
            raise NoClaim(f"its hw:cpu_dedicated_mask {mask!r} leaves no shared CPU")
    return {"VCPU": flavor.vcpus - pinned, "PCPU": pinned + isolated}


def _parse_mask(mask: str, vcpus: int) -> frozenset[int]:
    """Return the CPUs of a mask such as ``0-3,^1``; one that begins with ``^`` excludes from all of them."""
    text = f"0-{vcpus - 1},{mask}" if mask.strip().startswith("^") else mask
    chosen: set[int] = set()
    excluded: set[int] = set()
    try:
        for part in filter(None, (part.strip() for part in text.split(","))):
            first, dash, last = part.removeprefix("^").partition("-")
            cpus = range(int(first), int(last if dash else first) + 1)
            if not cpus:
                raise ValueError(part)
            (excluded if part.startswith("^") else chosen).update(cpus)
    except ValueError as error:
        raise NoClaim(f"its CPU mask {mask!r} cannot be read") from error
    left = frozenset(chosen - excluded)
    if not left or not left <= set(range(vcpus)):
        raise NoClaim(f"its CPU mask {mask!r} does not fit its {vcpus} CPUs")
    return left


def is_true(text: str | None) -> bool:
    """Return whether nova reads a text as true."""
    return (text or "").strip().lower() in _TRUE
