# SPDX-License-Identifier: Apache-2.0
"""What an instance of a flavor asks of placement. Pure.

As nova asks: from the flavor's own numbers, unless an extra spec ``resources:CLASS`` says otherwise, and with
the traits that ``trait:NAME`` requires or forbids. What the image, the network and the volumes of an instance
add is not in its flavor; an instance that boots from a volume asks for no root disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from osc_placement.errors import PlacementError
from osc_placement.report.fit import Want

_GROUP: Final = re.compile(r"(resources|trait)([0-9A-Za-z_-]+):")
_MEGABYTES: Final = 1024


class FlavorUnclear(PlacementError):
    """A flavor asks for something that cannot be counted here."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"Flavor {name!r} {problem}; give the amounts with --fit, "
            "or see what is possible now with: openstack allocation candidate list"
        )


def want_of_flavor(name: str, flavor: Mapping[str, Any]) -> Want:
    """What to count for a flavor as the compute API shows it, with its extra specs."""
    specs: Mapping[str, str] = flavor.get("extra_specs") or {}
    grouped = sorted(key for key in specs if _GROUP.match(key))
    if grouped:
        raise FlavorUnclear(name, f"has numbered request groups ({grouped[0]})")
    amounts = _own_amounts(flavor, specs)
    for key, value in specs.items():
        if key.startswith("resources:"):
            amounts[key.removeprefix("resources:")] = _read_amount(name, key, value)
    wanted = {resource_class: amount for resource_class, amount in sorted(amounts.items()) if amount}
    if not wanted:
        raise FlavorUnclear(name, "asks for nothing")
    return Want(wanted, _traits(specs, "required"), _traits(specs, "forbidden"))


def _own_amounts(flavor: Mapping[str, Any], specs: Mapping[str, str]) -> dict[str, int]:
    dedicated = specs.get("hw:cpu_policy") == "dedicated"
    # swap is in MiB, and an empty text where there is none
    swap = -(-int(flavor.get("swap") or 0) // _MEGABYTES)
    disk = int(flavor.get("disk") or 0) + int(flavor.get("OS-FLV-EXT-DATA:ephemeral") or 0) + swap
    return {
        "PCPU" if dedicated else "VCPU": int(flavor["vcpus"]),
        "MEMORY_MB": int(flavor["ram"]),
        "DISK_GB": disk,
    }


def _read_amount(name: str, key: str, value: str) -> int:
    if not str(value).isdecimal():
        raise FlavorUnclear(name, f"has {key}={value!r}, which is no amount")
    return int(value)


def _traits(specs: Mapping[str, str], condition: str) -> frozenset[str]:
    return frozenset(
        key.removeprefix("trait:")
        for key, value in specs.items()
        if key.startswith("trait:") and value == condition
    )
