# SPDX-License-Identifier: Apache-2.0
"""Flavors embedded in instances, what nova's scheduler claims for one, and what it ignores of one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Final

import os_resource_classes

from osc_placement.flavor import Flavor, NoClaim, read_amount, resources_of
from osc_placement.migrate.nova.facts import Instance
from osc_placement.model import CUSTOM_PREFIX

#: the classes in a flavor that nova takes for real, beside custom ones
STANDARD_CLASSES: Final = frozenset(os_resource_classes.STANDARDS)
#: the extra specs that nova reads for placement
_KEY: Final = re.compile(r"^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$")
_GROUP_POLICY: Final = "group_policy"
_GROUP_POLICIES: Final = ("none", "isolate")
_CONDITIONS: Final = ("required", "forbidden")


def claim_of(instance: Instance) -> dict[str, int]:
    """Return what nova's scheduler would claim for an instance; raise NoClaim with the reason."""
    if instance.flavor is None:
        raise NoClaim(instance.flavor_error or "it has no flavor")
    return resources_of(
        instance.flavor, STANDARD_CLASSES, volume_root=instance.volume_root, image=instance.image
    )


def key_of_claim(instance: Instance) -> Hashable:
    """Return what is equal for instances with equal claims."""
    flavor = instance.flavor
    if flavor is None:
        return instance.flavor_error
    sizes = (flavor.vcpus, flavor.memory_mb, flavor.root_gb, flavor.ephemeral_gb, flavor.swap_mb)
    image = tuple(sorted((instance.image or {}).items()))
    # as they stand: of two of one group that say the same the later one wins
    return sizes, tuple(flavor.extra_specs.items()), image, instance.volume_root


def find_ignored(flavor: Flavor) -> Iterator[tuple[str, str]]:
    """Yield the key of each extra spec for placement that nova ignores with a warning, and the reason."""
    for key, value in sorted(flavor.extra_specs.items()):
        match = _KEY.match(key)
        if key == _GROUP_POLICY and value not in _GROUP_POLICIES:
            yield key, f"it is none of {', '.join(_GROUP_POLICIES)}"
        if match is None:
            continue
        kind, _, name = match.groups()
        if kind == "trait":
            if value not in _CONDITIONS:
                yield key, f"it is neither {' nor '.join(_CONDITIONS)}"
        elif name not in STANDARD_CLASSES and not name.startswith(CUSTOM_PREFIX):
            yield key, f"{name or 'an empty name'} is no resource class"
        elif read_amount(value) is None:
            yield key, "it is no amount"


class BadFlavor(ValueError):
    """An error: the flavor that is embedded in an instance cannot be read."""


@lru_cache(maxsize=4096)
def parse_flavor(text: str) -> Flavor:
    """Read the flavor column of ``instance_extra``; BadFlavor says what is wrong with it.

    PERF: remembered, as the instances of one flavor share its text: a cloud of 100,000 instances then holds
    as many flavors as it has, and parses each once.
    """
    try:
        current = json.loads(text)["cur"]["nova_object.data"]
        return Flavor(
            vcpus=int(current["vcpus"]),
            memory_mb=int(current["memory_mb"]),
            root_gb=int(current["root_gb"]),
            ephemeral_gb=int(current.get("ephemeral_gb") or 0),
            swap_mb=int(current.get("swap") or 0),
            extra_specs={str(key): str(value) for key, value in (current.get("extra_specs") or {}).items()},
            name=str(current.get("name") or ""),
            flavorid=str(current.get("flavorid") or ""),
        )
    except KeyError as error:
        raise BadFlavor(f"its flavor has no {error.args[0]!r}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise BadFlavor(f"its flavor cannot be read: {error}") from error
