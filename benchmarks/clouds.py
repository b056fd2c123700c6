# SPDX-License-Identifier: Apache-2.0
"""The clouds that servers are measured with, as data; `fill` puts one into a database.

Trees of providers, equal ones in most clouds, numbered from 0; every name and UUID follows from the number,
so that all sides of a case have the same cloud, and a case can name any provider of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

Amounts = Mapping[str, int]

#: the aggregate that every tree is in
EVERYWHERE = "e0e0e0e0-0000-4000-8000-000000000000"
SHARES = "MISC_SHARES_VIA_AGGREGATE"


@dataclass(frozen=True)
class Node:
    """A provider in each tree: how much it has of what, its traits, and what is below it.

    :ivar ratios: allocation ratios that are not 1
    :ivar make_uuid: makes the UUID from the name of the root, if that is not made from the own name
    """

    name: str
    totals: Amounts
    traits: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()
    ratios: Mapping[str, float] = field(default_factory=dict)
    make_uuid: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Cloud:
    """So many trees alike, unless ``make_tree`` is given.

    :ivar make_tree: makes the tree of a number, of which there are so many in all
    :ivar zone: how many trees are in one aggregate, beside the one that all are in
    :ivar sharing: a provider that each of these aggregates has in it, too
    :ivar held: what a consumer holds of the root of its tree
    :ivar consumers: how many there are in each tree, in turn
    :ivar owners: the number of projects, and of users, that the consumers belong to in turn
    """

    trees: int
    tree: Node
    zone: int = 100
    sharing: Node | None = None
    held: Amounts = field(default_factory=dict)
    consumers: tuple[int, ...] = (0, 1)
    owners: int = 1
    make_tree: Callable[[int, int], Node] | None = None

    def with_trees(self, trees: int) -> Cloud:
        """The same cloud in another size."""
        return replace(self, trees=trees)


@dataclass(frozen=True)
class Provider:
    """One provider of a cloud, as it is to be stored."""

    id: int
    name: str
    uuid: str
    parent_id: int | None
    root_id: int
    node: Node
    aggregates: tuple[str, ...] = ()
    held: Amounts = field(default_factory=dict)
    consumers: tuple[str, ...] = ()


def make_uuid(name: str) -> str:
    """The UUID of what has this name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def root_uuid(number: int) -> str:
    """The UUID of the root of a tree."""
    return make_uuid(_root_name(number))


def zone_uuid(number: int) -> str:
    """The UUID of an aggregate of some trees."""
    return make_uuid(f"zone{number:05}")


def consumer_uuids(cloud: Cloud, number: int) -> Iterator[str]:
    """The UUIDs of the consumers of a tree."""
    for consumer in range(cloud.consumers[number % len(cloud.consumers)]):
        yield make_uuid(f"instance {consumer} on {_root_name(number)}")


def _root_name(number: int) -> str:
    return f"host{number:05}"


def providers(cloud: Cloud) -> Iterator[Provider]:
    """All providers, parents before their children, by ascending id."""
    next_id = 1
    for number in range(cloud.trees):
        aggregates = (EVERYWHERE, zone_uuid(number // cloud.zone))
        consumers = tuple(consumer_uuids(cloud, number)) if cloud.held else ()
        tree = cloud.make_tree(number, cloud.trees) if cloud.make_tree else cloud.tree
        for provider in _tree(tree, _root_name(number), next_id):
            is_root = provider.parent_id is None
            if is_root:
                provider = replace(provider, aggregates=aggregates, held=cloud.held, consumers=consumers)
            yield provider
            next_id = provider.id + 1
    if cloud.sharing is not None:
        for number in range(-(-cloud.trees // cloud.zone)):
            name = f"{cloud.sharing.name}{number:05}"
            zone = (zone_uuid(number),)
            yield Provider(next_id, name, make_uuid(name), None, next_id, cloud.sharing, zone)
            next_id += 1


def _tree(
    node: Node, name: str, id_: int, parent_id: int | None = None, root: Provider | None = None
) -> Iterator[Provider]:
    uuid_ = node.make_uuid(root.name) if node.make_uuid and root else make_uuid(name)
    provider = Provider(id_, name, uuid_, parent_id, root.id if root else id_, node)
    root = root or provider
    yield provider
    last = id_
    for child in node.children:
        for provider in _tree(child, f"{name}-{child.name}", last + 1, id_, root):
            yield provider
            last = provider.id


_GPU = "CUSTOM_GPU"
_HOST = {"MEMORY_MB": 524288, "DISK_GB": 8000}

#: hosts without anything below them, every other one with an instance
FLAT = Cloud(
    trees=10_000,
    tree=Node(
        "host", {"VCPU": 64, **_HOST}, traits=("HW_CPU_X86_AVX2", "STORAGE_DISK_SSD"), ratios={"VCPU": 4.0}
    ),
    held={"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 80},
)

#: the same as it is in production: ten instances on every host
PRODUCTION = replace(FLAT, consumers=(10,), owners=200)


def _numa(number: int) -> Node:
    nics = (
        Node("nic0", {"SRIOV_NET_VF": 16}, traits=("CUSTOM_PHYSNET_DATA",)),
        Node("nic1", {"SRIOV_NET_VF": 16}, traits=("CUSTOM_PHYSNET_STORAGE",)),
    )
    return Node(f"numa{number}", {"VCPU": 32, "MEMORY_MB": 131072}, ("HW_NUMA_ROOT",), nics)


#: trees of seven: a host, its two NUMA nodes, and the two network cards of each
NESTED = Cloud(trees=1_000, tree=Node("host", {"DISK_GB": 8000}, children=(_numa(0), _numa(1))))


#: what neutron's driver of Open vSwitch makes the UUIDs of its providers from
_OPEN_VSWITCH = uuid.UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692")
BRIDGE = "br-physnet0"
_BANDWIDTH = {"NET_BW_EGR_KILOBIT_PER_SEC": 10_000_000, "NET_BW_IGR_KILOBIT_PER_SEC": 10_000_000}


def agent_uuid(host: str) -> str:
    """The UUID of the provider of neutron's agent on a host."""
    return str(uuid.uuid5(_OPEN_VSWITCH, host))


def bridge_uuid(host: str) -> str:
    """The UUID of the provider of the bridge of neutron's agent on a host."""
    return str(uuid.uuid5(_OPEN_VSWITCH, f"{host}:{BRIDGE}"))


#: hosts whose agent of neutron reports the bandwidth of a bridge, as `benchmarks.neutron` has them
NETWORKED = replace(
    FLAT,
    trees=1_000,
    tree=replace(
        FLAT.tree,
        children=(
            Node(
                "agent",
                {},
                children=(
                    Node(
                        BRIDGE,
                        _BANDWIDTH,
                        traits=("CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"),
                        make_uuid=bridge_uuid,
                    ),
                ),
                make_uuid=agent_uuid,
            ),
        ),
    ),
    held={},
)


def wide(trees: int, devices: int) -> Cloud:
    """Hosts with so many devices alike."""
    gpus = tuple(Node(f"gpu{number:02}", {_GPU: 1}) for number in range(devices))
    return Cloud(trees, Node("host", {"VCPU": 64, **_HOST}, children=gpus))


#: hosts without disks, a hundred of which share a storage pool
SHARED = Cloud(
    trees=1_000,
    tree=Node("host", {"VCPU": 64, "MEMORY_MB": 524288}),
    sharing=Node("pool", {"DISK_GB": 1_000_000}, traits=(SHARES,)),
)
