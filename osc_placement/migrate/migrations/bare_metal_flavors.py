# SPDX-License-Identifier: Apache-2.0
"""Flavors of bare metal that ask for sizes, not a resource class, and the command that mends each. Pure.

A flavor is one of bare metal if it names the class of a node, or if an instance on a node was made of it. One
that does neither cannot be told from a flavor of virtual machines, and nothing is said of it.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from osc_placement.flavor import Flavor, NoClaim, resources_of
from osc_placement.migrate.nova.facts import Instance
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES
from osc_placement.migrate.problem import Problem, Reason

#: in the order of nova's own documentation
_SIZES: Final = ("VCPU", "MEMORY_MB", "DISK_GB")


@dataclass
class FlavorUse:
    """Where the instances of each flavor are: on nodes of which classes or of none known, and elsewhere.

    Flavors go by their name, which never changes.
    """

    classes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unsure: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    is_complete: bool = True

    def note_metal(self, instance: Instance, resource_class: str | None) -> None:
        """Note an instance on a node of this class, or of one that nobody knows (None)."""
        if instance.flavor is None or not instance.flavor.name:
            return
        if resource_class is None:
            self.unsure.add(instance.flavor.name)
        else:
            self.classes[instance.flavor.name].add(resource_class)

    def note_elsewhere(self, instance: Instance) -> None:
        """Note an instance on no node of bare metal."""
        if instance.flavor is not None and instance.flavor.name:
            self.elsewhere.add(instance.flavor.name)


def judge_flavors(
    flavors: Iterable[Flavor], use: FlavorUse, classes: Collection[str], chosen: Collection[str]
) -> Iterator[Problem]:
    """What is to be done about flavors; ``classes`` are those of all nodes.

    Of flavors for none of the ``chosen`` classes nothing is said.
    """
    for flavor in flavors:
        try:
            asked = resources_of(flavor, STANDARD_CLASSES)
        except NoClaim:
            continue  # nova would refuse it for bare metal as for anything else
        named = asked.keys() & set(classes)
        wanted = named or use.classes.get(flavor.name, set())
        is_done = (
            len(named) == 1 and all(asked[name] == 1 for name in named) and not asked.keys() & set(_SIZES)
        )
        if wanted.intersection(chosen) and not is_done:
            yield _judge(flavor, asked, sorted(wanted), use)


def _judge(flavor: Flavor, asked: Mapping[str, int], wanted: list[str], use: FlavorUse) -> Problem:
    subject = f"flavor {flavor.name}"
    if len(wanted) > 1:
        text = f"it is one for nodes of {', '.join(wanted)}; make a flavor for each of them"
        return Problem(Reason.AMBIGUOUS, subject, text)
    is_named = wanted[0] in asked
    if not is_named and flavor.name in use.elsewhere:
        text = f"virtual machines are made of it too; make another for nodes of {wanted[0]}"
        return Problem(Reason.AMBIGUOUS, subject, text)
    if not is_named and flavor.name in use.unsure:
        text = f"nodes of {wanted[0]} are made of it, and others too whose class nobody knows"
        return Problem(Reason.AMBIGUOUS, subject, text)
    if not is_named and not use.is_complete:
        text = f"nodes of {wanted[0]} are made of it, and nobody knows whether virtual machines are too"
        return Problem(Reason.UNKNOWN, subject, text)
    return Problem(Reason.FLAVOR, subject, f"it asks for {_format(asked)}; {mend(flavor, wanted[0])}")


def _format(asked: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in asked.items()) or "nothing"


def mend(flavor: Flavor, resource_class: str) -> str:
    """The command that makes a flavor ask for one node of a class, and for no sizes."""
    wanted = {f"resources:{resource_class}": "1"} | {f"resources:{name}": "0" for name in _SIZES}
    missing = {key: value for key, value in wanted.items() if flavor.extra_specs.get(key) != value}
    if not missing:
        return "one of its numbered groups of resources must go"
    properties = " ".join(f"--property {key}={value}" for key, value in missing.items())
    return f"openstack flavor set {properties} {shlex.quote(flavor.name)}"
