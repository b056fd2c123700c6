# SPDX-License-Identifier: Apache-2.0
"""The request of a flavor, with an error for people if it cannot be counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from osc_placement.candidates.flavor import NotCountable, make_request
from osc_placement.candidates.request import Group
from osc_placement.errors import PlacementError
from osc_placement.flavor import flavor_from_json


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
    try:
        return make_request(flavor, classes)
    except NotCountable as error:
        raise FlavorUnclear(name, str(error)) from error
