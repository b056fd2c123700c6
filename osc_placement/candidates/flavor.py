# SPDX-License-Identifier: Apache-2.0
"""The resources and traits that nova requests for an instance of a flavor. Pure.

Traits are those that ``trait:NAME`` requires or forbids. What the image, the network and the volumes of an
instance add is not in its flavor; an instance that boots from a volume requests no root disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from osc_placement.candidates import fit
from osc_placement.candidates.query import Traits
from osc_placement.candidates.request import Group
from osc_placement.flavor import Flavor, NoClaim, read_amount, resources_of

_GROUP: Final = re.compile(r"(resources|trait)([0-9A-Za-z_-]+):")


class NotCountable(ValueError):
    """A flavor requests something that `fit` cannot count; the text goes on after the flavor's name."""


def make_request(flavor: Flavor, classes: Collection[str]) -> Group:
    """Return the request of a flavor; :raises NotCountable: it cannot be counted.

    :param classes: those that the server knows: nova ignores others in extra specs
    """
    specs = flavor.extra_specs
    for key, value in sorted(specs.items()):
        if _GROUP.match(key):
            raise NotCountable(f"has numbered request groups ({key})")
        if key.startswith("resources:") and read_amount(value) is None:
            raise NotCountable(f"has {key}={value!r}, which is no amount")
    try:
        wanted = resources_of(flavor, classes)
    except NoClaim as error:
        raise NotCountable(f"would be refused by nova, as {error}") from error
    if not wanted:
        raise NotCountable("asks for nothing")
    return fit.make_request(wanted, Traits(_traits(specs, "required"), _traits(specs, "forbidden")))


def _traits(specs: Mapping[str, str], condition: str) -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset((key.removeprefix("trait:"),))
        for key, value in specs.items()
        if key.startswith("trait:") and value == condition
    )
