# SPDX-License-Identifier: Apache-2.0
"""Ports of neutron that ask placement for resources, and what each of them asks for. Pure.

Neutron shows a request in the attribute ``resource_request`` of a port, in two formats: with one group
(extension port-resource-request), and with several (port-resource-request-groups, since Yoga). From a
database the same document is made of the QoS rules, as neutron's ``services/qos/qos_plugin.py`` does.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from osc_placement.model import CUSTOM_PREFIX

#: what messages call the service
LABEL: Final = "neutron"
#: the classes that neutron's agents report, and ports ask for
PORT_CLASSES: Final = frozenset(
    (
        "NET_BW_EGR_KILOBIT_PER_SEC",
        "NET_BW_IGR_KILOBIT_PER_SEC",
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    )
)
_BANDWIDTH: Final = {"egress": "NET_BW_EGR_KILOBIT_PER_SEC", "ingress": "NET_BW_IGR_KILOBIT_PER_SEC"}
_PACKET_RATE: Final = {
    "any": "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "egress": "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "ingress": "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
}
#: the trait of providers for networks without a physical network
_TUNNEL: Final = "CUSTOM_NETWORK_TUNNEL_PROVIDER"
#: the kinds of binding of a port that is on no host
_UNBOUND: Final = frozenset(("", "unbound", "binding_failed"))
_NOT_OF_A_NAME: Final = re.compile(r"[^0-9A-Za-z]+")
Document = Mapping[str, Any]
#: the providers of a port: one, or in the format with several groups the provider of each group by id
Allocation = str | Mapping[str, str]
#: why a binding profile is not written if it is changed again and again
KEEPS_CHANGING: Final = "somebody else keeps changing the port"


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """Resources that one provider with all ``required`` traits has to give.

    :ivar id: the key of its provider in the binding profile; in the format with one group, the port's UUID
    """

    id: str
    resources: Mapping[str, int]
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Port:
    """A port of an instance that asks for resources, or to which some were granted.

    :ivar host: the host that it is bound to; empty if it is bound to none
    :ivar same_subtree: groups that are served by providers of one subtree
    :ivar granted: the provider of each group, by the binding profile; by an empty key if that has one alone
    :ivar is_grouped: whether neutron uses the format with several groups
    :ivar device_profile: the device profile of Cyborg that it asks for; empty if none
    :ivar error: why its request is unknown; empty if it is known
    :ivar profile: its whole binding profile, at this ``revision`` if neutron's API shows one
    """

    uuid: str
    instance: str
    host: str = ""
    groups: tuple[RequestGroup, ...] = ()
    same_subtree: frozenset[str] = frozenset()
    granted: Mapping[str, str] = field(default_factory=dict)
    is_grouped: bool = True
    device_profile: str = ""
    error: str = ""
    profile: Mapping[str, Any] = field(default_factory=dict, compare=False)
    revision: int | None = field(default=None, compare=False)

    @property
    def is_relevant(self) -> bool:
        """Return whether placement has, or should have, something for it, as far as is known."""
        return bool(self.groups or self.granted or self.device_profile or self.error)

    def provider_of(self, group: RequestGroup) -> str | None:
        """Return the provider of a group by the binding profile; None if the profile does not say.

        A profile from before there were groups names one provider, which is that of the bandwidth. The id of
        a group depends on its rules, so that of a port with one group may have another id in the profile.
        """
        if group.id in self.granted:
            return self.granted[group.id]
        if len(self.groups) == 1 == len(self.granted):
            return next(iter(self.granted.values()))
        if not group.resources.keys().isdisjoint(_BANDWIDTH.values()):
            return self.granted.get("")
        return None


def read_port(document: Document) -> Port:
    """Read a port from the document that neutron's API shows an administrator."""
    port, instance = str(document.get("id")), str(document.get("device_id") or "")
    host = read_host(document)
    try:
        request = document["resource_request"] or {}
        profile = document["binding:profile"] or {}
        granted = profile.get("allocation") or {}
        return Port(
            port,
            instance,
            host,
            tuple(_read_groups(port, request)),
            frozenset(map(str, request.get("same_subtree") or ())),
            {str(key): str(value) for key, value in granted.items()}
            if isinstance(granted, dict)
            else {"": str(granted)},
            "request_groups" in request,
            str(document.get("device_profile") or ""),
            profile=profile,
            revision=document.get("revision_number"),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"there is no {error.args[0]!r}" if isinstance(error, KeyError) else error
        return Port(port, instance, host, error=f"its resource request cannot be read: {reason}")


def describe_unbound(port: Port) -> str:
    """Return why the binding profile of a port is not written; empty if it may be."""
    return "" if port.host else "it is bound to no host; it is written once nova has plugged the port"


def describe_change(port: Port, allocation: Allocation, document: Document) -> str | None:
    """Return why the providers of a port are not written into the binding profile that it has by now.

    None: write them; empty: they are in it already; otherwise: why not.
    """
    if document["device_id"] != port.instance:
        return "it belongs to another instance by now"
    if read_host(document) != port.host:
        return f"it is no longer bound to {port.host}"
    if present := document["binding:profile"].get("allocation"):
        return "" if present == allocation else "somebody else granted resources to it"
    return None


def read_host(document: Document) -> str:
    """Return the host that a port is bound to; empty if it is bound to none."""
    is_unbound = (document.get("binding:vif_type") or "") in _UNBOUND
    return "" if is_unbound else str(document.get("binding:host_id") or "")


def _read_groups(port: str, request: Document) -> Iterable[RequestGroup]:
    """Yield the groups of a request that ask for something; like nova, leave out amounts of 0."""
    for group in request.get("request_groups", [request]) if request else ():
        resources = {str(name): int(amount) for name, amount in (group["resources"] or {}).items()}
        if any(amount < 0 for amount in resources.values()):
            raise ValueError(f"it asks for a negative amount: {resources}")
        asked = {name: amount for name, amount in resources.items() if amount}
        name = group["id"] if "request_groups" in request else port
        if asked:
            yield RequestGroup(str(name), asked, frozenset(map(str, group.get("required") or ())))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a QoS policy: the amount that is guaranteed in a direction."""

    id: str
    direction: str
    amount: int


def describe_request(
    port: str,
    vnic_type: str,
    bandwidth: Sequence[Rule],
    packet_rate: Sequence[Rule] | None,
    physical_networks: Sequence[str | None],
    known: Collection[str] = (),
) -> Document | None:
    """Return the resource request that neutron shows for a port; None if it shows none.

    The id of a group depends on the order in which neutron's database gives the rules. An order that gives
    one of ``known`` is used, or else the order here.

    :param packet_rate: None for a neutron of before Yoga, whose requests are in the format with one group
    :param physical_networks: of the segments of its network, in order; None for one without
    :param known: ids of groups in its binding profile
    :raises KeyError: a rule has a direction that neutron does not know
    """
    vnic = make_trait(f"VNIC_TYPE_{vnic_type}")
    groups = []
    # of several segments neutron considers the first, and without any it asks for no bandwidth
    if bandwidth and physical_networks:
        first = physical_networks[0]
        network = make_trait(f"PHYSNET_{first}") if first else _TUNNEL
        resources = {_BANDWIDTH[rule.direction]: rule.amount for rule in bandwidth}
        name = _name_group(port, bandwidth, known)
        groups.append({"id": name, "required": [network, vnic], "resources": resources})
    if packet_rate:
        resources = {_PACKET_RATE[rule.direction]: rule.amount for rule in packet_rate}
        name = _name_group(port, packet_rate, known)
        groups.append({"id": name, "required": [vnic], "resources": resources})
    if groups and packet_rate is None:
        return {key: groups[0][key] for key in ("required", "resources")}
    return {"request_groups": groups, "same_subtree": [group["id"] for group in groups]} if groups else None


def make_trait(name: str) -> str:
    """Return the custom trait of a name, as os_traits normalizes it."""
    return CUSTOM_PREFIX + _NOT_OF_A_NAME.sub("_", name).upper()


def _name_group(port: str, rules: Sequence[Rule], known: Collection[str]) -> str:
    orders = itertools.permutations(rule.id for rule in rules)
    names = [str(uuid.uuid5(uuid.UUID(port), ":".join(order))) for order in orders]
    return next((name for name in names if name in known), names[0])


def parse_profile(text: str | None) -> Document:
    """Read the column of the binding profile; raise ValueError if it is no JSON object."""
    profile = json.loads(text or "{}") or {}
    if not isinstance(profile, dict):
        raise ValueError("its binding profile is no JSON object")
    return profile


def sort_by_instance(ports: Iterable[Port]) -> Mapping[str, Sequence[Port]]:
    """Return the ports that matter to placement, by the UUID of their instance."""
    sorted_ports: dict[str, list[Port]] = defaultdict(list)
    for port in ports:
        if port.instance and port.is_relevant:
            sorted_ports[port.instance].append(port)
    return sorted_ports
