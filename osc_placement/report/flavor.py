# SPDX-License-Identifier: Apache-2.0
"""The request of a flavor, with an error for people if it cannot be counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from osc_placement.candidates.flavor import make_groups
from osc_placement.candidates.image import Image
from osc_placement.candidates.request import CandidateRequest, NotCountable
from osc_placement.errors import PlacementError
from osc_placement.flavor import Flavor, flavor_from_json


class FlavorUnclear(PlacementError):
    """A flavor requests something that cannot be counted here."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"Flavor {name!r} {problem}; give the amounts in place of the flavor: --fit of resource provider "
            "capacity, --resource of allocation candidate list and explain"
        )


def groups_of_flavor(
    name: str,
    document: Mapping[str, Any],
    classes: Collection[str],
    image: Image,
    *,
    volume_root: bool = False,
) -> tuple[Flavor, CandidateRequest]:
    """Return a flavor, given as the compute API shows it with its extra specs, and what nova requests for it.

    ``classes`` are those that the server knows: nova ignores others in extra specs.
    """
    flavor = flavor_from_json({**document, "extra_specs": document.get("extra_specs") or {}})
    try:
        return flavor, make_groups(flavor, classes, image, volume_root=volume_root)
    except NotCountable as error:
        raise FlavorUnclear(name, str(error)) from error
