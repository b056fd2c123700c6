# SPDX-License-Identifier: Apache-2.0
"""What nova's scheduler claims for an instance, from the flavor embedded in it. Pure."""

from __future__ import annotations

from typing import Final

import os_resource_classes

from osc_placement.flavor import NoClaim, resources_of
from osc_placement.migrate.nova.facts import Instance

#: the classes in a flavor that nova takes for real, beside custom ones
STANDARD_CLASSES: Final = frozenset(os_resource_classes.STANDARDS)


def claim_of(instance: Instance) -> dict[str, int]:
    """The resources that nova's scheduler would claim for an instance; NoClaim says why nobody knows."""
    if instance.flavor is None:
        raise NoClaim(instance.flavor_error or "it has no flavor")
    return resources_of(
        instance.flavor, STANDARD_CLASSES, volume_root=instance.volume_root, image=instance.image
    )
