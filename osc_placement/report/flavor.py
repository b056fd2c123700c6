# SPDX-License-Identifier: Apache-2.0
"""The resources and traits that nova requests for an instance of a flavor. Pure.

Traits are those that ``trait:NAME`` requires or forbids. What the image, the network and the volumes of an
instance add is not in its flavor; an instance that boots from a volume requests no root disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from osc_placement.candidates.query import Traits
from osc_placement.candidates.request import Group
from osc_placement.errors import PlacementError
from osc_placement.flavor import NoClaim, flavor_from_json, read_amount, resources_of
from osc_placement.report.fit import make_request

_GROUP: Final = re.compile(r"(resources|trait)([0-9A-Za-z_-]+):")


class FlavorUnclear(PlacementError):
    """A flavor requests something that cannot be counted here."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"Flavor {name!r} {problem}; give the amounts with --fit, "
            "or see what is possible now with: openstack allocation candidate list"
        )


def want_of_flavor(name: str, document: Mapping[str, Any], classes: Collection[str]) -> Group:
    """Return the request of a flavor, given as the compute API shows it with its extra specs.

    ``classes`` are those that the server knows: nova ignores others in extra specs.
    """
    flavor = flavor_from_json({**document, "extra_specs": document.get("extra_specs") or {}})
    specs = flavor.extra_specs
    for key, value in sorted(specs.items()):
        if _GROUP.match(key):
            raise FlavorUnclear(name, f"has numbered request groups ({key})")
        if key.startswith("resources:") and read_amount(value) is None:
            raise FlavorUnclear(name, f"has {key}={value!r}, which is no amount")
    try:
        wanted = resources_of(flavor, classes)
    except NoClaim as error:
        raise FlavorUnclear(name, f"would be refused by nova, as {error}") from error
    if not wanted:
        raise FlavorUnclear(name, "asks for nothing")
    return make_request(wanted, Traits(_traits(specs, "required"), _traits(specs, "forbidden")))


def _traits(specs: Mapping[str, str], condition: str) -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset((key.removeprefix("trait:"),))
        for key, value in specs.items()
        if key.startswith("trait:") and value == condition
    )
