# SPDX-License-Identifier: Apache-2.0
"""What the ports of an instance claim, compared with what the instance holds.

A claim lies on the provider that the port's binding profile names. If the profile names none, as of a port
that got its QoS policy while it was bound, it lies where the instance holds as much already, or else on the
only providers of the host that can serve it, as ``nova-manage placement heal_allocations`` finds them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from osc_placement.migrate.migrations.base import Context, Grant
from osc_placement.migrate.migrations.cloud import AllocationView, Claims, iterate_amounts
from osc_placement.migrate.nova.facts import Instance
from osc_placement.migrate.nova.ports import LABEL, PORT_CLASSES, Port, RequestGroup, sort_by_instance
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.migrate.problem import Problem, Reason

if TYPE_CHECKING:
    from osc_placement.migrate.migrations.placing import Ledger

_NO_ADDRESS = (
    "its ports may ask for bandwidth, and there is no address of neutron; name it with [neutron] in "
    "nova.conf, --neutron-endpoint or --neutron-db"
)


@dataclass(frozen=True)
class Network:
    """The ports that matter to placement, by the UUID of their instance.

    :ivar unknown: why they could not be read; None if they were
    :ivar devices: the UUIDs of all instances that have a port, and of other devices
    """

    ports: Mapping[str, Sequence[Port]] = field(default_factory=dict)
    unknown: Unreadable | None = None
    devices: frozenset[str] = frozenset()


def needs_network(context: Context, cloud: AllocationView) -> bool:
    """Return whether a provider has what a port may ask for, or the command line says where neutron is."""
    return context.names_neutron or any(
        not PORT_CLASSES.isdisjoint(record.inventories or ()) for record in cloud.records.values()
    )


def read_network(context: Context, cloud: AllocationView) -> Network | None:
    """Read the ports of all instances; return None if there is no need to."""
    if not needs_network(context, cloud):
        return None
    try:
        source = context.open_neutron()
        if source is None:
            raise Unreadable(LABEL, _NO_ADDRESS)
        ports = source.list_ports()
        return Network(sort_by_instance(ports), devices=frozenset(port.instance for port in ports))
    except Unreadable as error:
        return Network(unknown=error)


def describe_skipped(context: Context, cloud: AllocationView) -> str:
    """Return that ports are not judged, for a command that does not read them; empty if it need not."""
    if not needs_network(context, cloud):
        return ""
    return (
        "Ports were not judged (--skip-port-allocations), so instances may lack or have too much of what "
        "ports ask for."
    )


class Unclear(Exception):
    """An error: it is not clear what a port claims, or where; ``reason`` is the kind of problem."""

    def __init__(self, reason: Reason, text: str) -> None:
        self.reason = reason
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class PortClaims:
    """What the ports of an instance claim.

    :ivar missing: what the instance does not hold of it
    :ivar surplus: what the instance holds of such classes, and no port of it asks for
    """

    missing: Claims = field(default_factory=dict)
    surplus: Claims = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A group of a port; each is only equal to itself."""

    port: Port
    group: RequestGroup


class PortJudge:
    """The comparison of ports with allocations; ``ledger`` has what is used."""

    def __init__(self, network: Network, cloud: AllocationView, ledger: Ledger) -> None:
        self._network = network
        self._cloud = cloud
        self._ledger = ledger

    def judge(self, instance: Instance, held: Claims, claim: Mapping[str, int], node: str) -> PortClaims:
        """Compare the ports of an instance with what it holds; nothing is taken from the ledger.

        :param claim: the classes that the flavor claims
        :param node: the UUID of its compute node
        :raises Unclear: it is not clear
        :raises Unplaceable: something is missing, and cannot be placed
        """
        ports = self._network.ports.get(instance.uuid, ())
        # PERF: most instances have no such port, and hold nothing of the kind
        if not (ports or self._network.unknown or any(PORT_CLASSES & each.keys() for each in held.values())):
            return PortClaims()
        tree = self._cloud.tree(node)
        if self._network.unknown:
            if any(self._cloud.inventory(uuid, name) for uuid in tree for name in PORT_CLASSES):
                text = f"whether its ports ask for resources is unknown, as {self._network.unknown}"
                raise Unclear(Reason.UNKNOWN, text)
            return PortClaims()
        held_classes = {resource for _, resource, _ in iterate_amounts(held)}
        for port in ports:
            if port.error:
                raise Unclear(Reason.UNKNOWN, f"port {port.uuid}: {port.error}")
            if port.device_profile and held_classes <= claim.keys() | PORT_CLASSES:
                text = f"its port {port.uuid} has the device profile {port.device_profile}"
                raise Unclear(Reason.DEVICE, f"{text}, and only Cyborg knows its resources")
        asked = [_Asked(port, group) for port in ports for group in port.groups]
        classes = PORT_CLASSES.union(*(each.group.resources for each in asked))
        if both := sorted(classes & claim.keys()):
            text = (
                f"its flavor and its ports ask for {', '.join(both)}, so it is unknown which of it is whose"
            )
            if asked:
                raise Unclear(Reason.PORT, text)
            return PortClaims()
        spare = {
            uuid: {resource: amount for resource, amount in held[uuid].items() if resource in classes}
            for uuid in tree
            if uuid in held
        }
        return self._compare(instance, asked, spare, node)

    def _compare(
        self, instance: Instance, asked: Sequence[_Asked], spare: dict[str, dict[str, int]], node: str
    ) -> PortClaims:
        tree = self._cloud.tree(node)
        providers: dict[_Asked, str] = {}
        missing: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        searched = []
        for each in asked:
            provider = each.port.provider_of(each.group)
            if provider is None and each.port.granted:
                text = (
                    f"the binding profile of its port {each.port.uuid} has an allocation key without the "
                    f"provider of {_format(each.group.resources)} (group {each.group.id})"
                )
                raise Unclear(Reason.PORT, text)
            if provider is None:
                searched.append(each)
                continue
            if provider not in tree:
                name = self._cloud.name(provider)
                text = (
                    f"the binding profile of its port {each.port.uuid} names {name}, which is not of its host"
                )
                raise Unclear(Reason.PORT, text)
            providers[each] = provider
        lacking = self._take_all(providers, spare)
        for each in lacking:
            _add(missing, providers[each], each.group.resources)
        homeless = []
        for each in searched:
            if provider := self._find_held(each, tree, spare):
                providers[each] = provider
            else:
                homeless.append(each)
        self._check_rest([*lacking, *homeless], spare)
        for provider, resource, amount in iterate_amounts(missing):
            self._ledger.check(provider, resource, amount)
        for each in [*homeless, *lacking]:
            _check_binding(each.port, instance)
        if homeless:
            found = self._choose(homeless, instance, node, missing)
            providers |= found
            for each, provider in found.items():
                _add(missing, provider, each.group.resources)
        grants = _make_grants(providers)
        left = {
            uuid: {name: amount for name, amount in each.items() if amount} for uuid, each in spare.items()
        }
        surplus = {uuid: amounts for uuid, amounts in left.items() if amounts}
        return PortClaims({uuid: dict(amounts) for uuid, amounts in missing.items()}, surplus, grants)

    def _take_all(self, providers: Mapping[_Asked, str], spare: dict[str, dict[str, int]]) -> list[_Asked]:
        """Take the groups from what is held of their providers; return those of which nothing is held.

        A group of which exactly as much is held goes first, then the small ones, so that the order of ports
        does not decide which of them is held. Raise Unclear if of one a part is.
        """
        lacking = []
        ordered = sorted(providers, key=lambda each: sum(each.group.resources.values()))
        while ordered:
            exact = (
                each
                for each in ordered
                if all(
                    spare.get(providers[each], {}).get(name) == amount
                    for name, amount in each.group.resources.items()
                )
            )
            each = next(exact, ordered[0])
            ordered.remove(each)
            if not self._take(each, providers[each], spare):
                lacking.append(each)
        return lacking

    def _take(self, each: _Asked, provider: str, spare: dict[str, dict[str, int]]) -> bool:
        """Take a group from what is held of a provider; return False if nothing of it is held.

        Raise Unclear if a part is.
        """
        amounts, wanted = spare.get(provider, {}), each.group.resources
        found = {resource: amounts.get(resource, 0) for resource in wanted}
        if all(found[resource] >= amount for resource, amount in wanted.items()):
            for resource, amount in wanted.items():
                amounts[resource] -= amount
            return True
        if any(found.values()):
            name = self._cloud.name(provider)
            text = f"its port {each.port.uuid} asks for {_format(wanted)} of {name}"
            raise Unclear(Reason.WRONG_AMOUNT, f"{text}, and it holds {_format(found)}")
        return False

    def _find_held(self, each: _Asked, tree: Sequence[str], spare: dict[str, dict[str, int]]) -> str | None:
        """Take a group from the provider of which as much is held; None if there is none.

        Raise Unclear if there are several, as the binding profile has to name the right one.
        """
        wanted = each.group.resources
        found = [
            uuid
            for uuid in tree
            if self._ledger.has_traits(uuid, each.group.required)
            and all(spare.get(uuid, {}).get(resource, 0) >= amount for resource, amount in wanted.items())
        ]
        if len(found) > 1:
            names = ", ".join(sorted(map(self._cloud.name, found)))
            text = f"what it holds for its port {each.port.uuid} may be that of any of {names}"
            raise Unclear(Reason.AMBIGUOUS, text)
        if found:
            self._take(each, found[0], spare)
        return found[0] if found else None

    def _check_rest(self, lacking: Iterable[_Asked], spare: Claims) -> None:
        """Raise Unclear if an instance holds of any provider what may be that of a port that lacks it."""
        for each in lacking:
            for uuid, amounts in spare.items():
                held = {name: amounts.get(name, 0) for name in each.group.resources}
                if any(held.values()):
                    wanted, name = _format(each.group.resources), self._cloud.name(uuid)
                    provider = each.port.provider_of(each.group)
                    where = f" of {self._cloud.name(provider)}" if provider else ""
                    text = f"its port {each.port.uuid} asks for {wanted}{where}, and it holds "
                    raise Unclear(Reason.WRONG_AMOUNT, f"{text}{_format(held)} of {name}")

    def _choose(
        self, homeless: Sequence[_Asked], instance: Instance, node: str, taken: Claims
    ) -> dict[_Asked, str]:
        """Return the provider of each group; raise Unplaceable unless exactly one choice is possible."""
        subtrees = []
        for port in dict.fromkeys(each.port.uuid for each in homeless):
            numbers = [
                number
                for number, each in enumerate(homeless)
                if each.port.uuid == port and each.group.id in each.port.same_subtree
            ]
            subtrees.append(numbers)
        specs = instance.flavor.extra_specs if instance.flavor else {}
        groups = [each.group for each in homeless]
        found = self._ledger.choose(
            groups, node, subtrees, is_isolated=specs.get("group_policy") == "isolate", taken=taken
        )
        return dict(zip(homeless, found, strict=True))


def describe_grant(instance: str, grant: Grant, reason: str = "", *, is_tried: bool = False) -> Problem:
    """Return the problem that a binding profile lacks its providers, or why they are not written."""
    text = f"the binding profile of its port {grant.port.uuid}"
    if not reason:
        text = f"{text} has no allocation key"
    elif is_tried:
        text = f"writing the allocation key of {text} failed: {reason}"
    else:
        text = f"the allocation key of {text} is not written: {reason}"
    return Problem(Reason.PORT, f"instance {instance}", text)


def describe_surplus(instance: str, surplus: Claims, cloud: AllocationView) -> Problem:
    """Return the problem that an instance holds what no port of it asks for."""
    held = "; ".join(f"{_format(amounts)} of {cloud.name(uuid)}" for uuid, amounts in surplus.items())
    text = (
        f"it holds {held} beyond what its ports ask for; compare openstack port list --server {instance}, "
        "and only if no port uses it, remove it with openstack resource provider allocation set or unset"
    )
    return Problem(Reason.WRONG_AMOUNT, f"instance {instance}", text)


def _check_binding(port: Port, instance: Instance) -> None:
    """Raise Unclear if a port, something of which is missing, is not bound to the host of its instance."""
    if port.host != instance.host:
        where = f"bound to {port.host}" if port.host else "not bound to a host"
        text = (
            f"its port {port.uuid} asks for resources and is {where}, and the instance is on {instance.host}"
        )
        raise Unclear(Reason.PORT, text)


def _make_grants(providers: Mapping[_Asked, str]) -> tuple[Grant, ...]:
    """Return what is to be written of the ports whose binding profile names no provider."""
    groups: dict[str, list[_Asked]] = defaultdict(list)
    for each in providers:
        if not each.port.granted:
            groups[each.port.uuid].append(each)
    return tuple(
        Grant(
            found[0].port,
            {each.group.id: providers[each] for each in found}
            if found[0].port.is_grouped
            else providers[found[0]],
        )
        for found in groups.values()
    )


def _add(claims: dict[str, dict[str, int]], provider: str, amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        claims[provider][resource] += amount


def _format(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{resource}={amount}" for resource, amount in sorted(amounts.items()))


def add_claims(*several: Claims) -> dict[str, dict[str, int]]:
    """Return the sum of claims by provider and class."""
    total: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for claims in several:
        for provider, amounts in claims.items():
            _add(total, provider, amounts)
    return {provider: dict(amounts) for provider, amounts in total.items()}
