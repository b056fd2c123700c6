# SPDX-License-Identifier: Apache-2.0
"""Flavors embedded in instances, what nova's scheduler claims for one, and what it ignores of one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import os_resource_classes

from osc_placement.flavor import Flavor, NoClaim, is_true, read_amount, resources_of
from osc_placement.migrate.nova.facts import Instance
from osc_placement.model import CUSTOM_PREFIX

#: the classes in a flavor that nova takes for real, beside custom ones
STANDARD_CLASSES: Final = frozenset(os_resource_classes.STANDARDS)
#: the extra specs that nova reads for placement
_KEY: Final = re.compile(r"^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$")
#: those of which nova's API sums up the CPUs
_CPUS_KEY: Final = re.compile(r"resources(?:[1-9][0-9]*)?:(VCPU|PCPU)")
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


def find_contradiction(flavor: Flavor) -> str:
    """Return why nova's API refuses to boot a flavor for its CPUs, whatever the image; empty if it does not.

    These are the rules that nova's scheduler does not check again, so `resources_of` does not know them.
    """
    specs = flavor.extra_specs
    policy = specs.get("hw:cpu_policy")
    asked = {"VCPU": 0, "PCPU": 0}
    for key, value in specs.items():
        if match := _CPUS_KEY.match(key):
            asked[match[1]] += read_amount(value) or 0
    named = [f"resources:{name}" for name, amount in asked.items() if amount]
    if policy and named:
        return f"hw:cpu_policy and {' and '.join(named)} contradict each other"
    if len(named) > 1:
        return f"{' and '.join(named)} contradict each other"
    is_isolated = specs.get("hw:emulator_threads_policy") == "isolate"
    if asked["PCPU"] and asked["PCPU"] != (wanted := flavor.vcpus + is_isolated):
        return f"resources:PCPU has to be {wanted}"
    has_mask, is_realtime = bool(specs.get("hw:cpu_dedicated_mask")), is_true(specs.get("hw:cpu_realtime"))
    if policy == "mixed" and not (has_mask or is_realtime):
        return "hw:cpu_policy=mixed needs hw:cpu_dedicated_mask, or hw:cpu_realtime with its mask"
    if policy == "mixed" and has_mask and is_realtime:
        return "hw:cpu_dedicated_mask and hw:cpu_realtime contradict each other"
    if policy in ("dedicated", "shared") and has_mask:
        return f"hw:cpu_dedicated_mask and hw:cpu_policy={policy} contradict each other"
    if policy == "shared" and (is_isolated or is_realtime):
        key = "hw:emulator_threads_policy=isolate" if is_isolated else "hw:cpu_realtime"
        return f"{key} and hw:cpu_policy=shared contradict each other"
    return ""


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
