# SPDX-License-Identifier: Apache-2.0
"""Checks that the nova that was read and the placement that was read belong to the same cloud.

They are pure; `add_replaced` reads instances where the compute nodes alone leave a doubt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sized
from dataclasses import replace
from typing import Final

from osc_placement.migrate.migrations.cloud import AllocationView
from osc_placement.migrate.nova.facts import Cell, ComputeNode
from osc_placement.migrate.nova.hosts import Hosts, name_some
from osc_placement.migrate.nova.source import CHECK_CELL, Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason

_CHECK_REGION: Final = (
    "check where [api_database]/connection, --nova-api-db or --nova-endpoint leads, and "
    "[placement]/region_name, --os-cloud or --placement-endpoint"
)
#: what an audit adds to a doubt
NOTHING_REMOVED: Final = "No allocation was removed."
#: the share of matching compute nodes and providers below which two services are taken for strangers
_LOWEST_SHARE: Final = 0.1
#: classes of compute nodes that no sharing provider has
_CPUS: Final = frozenset(("VCPU", "PCPU"))


def add_replaced(source: Source, cloud: AllocationView, hosts: Hosts) -> tuple[Hosts, list[Problem]]:
    """Return hosts to be checked, and a problem for each cell that cannot be read.

    They have the compute nodes of a doubtful cell once more, if these were reinstalled, with the UUID of the
    provider that each had before. It is proven by an instance of the node that holds something of the
    provider with the name of the node: a cell of another cloud has instances of its own.
    """
    doubted = {problem.subject for problem in check_cells(hosts, cloud)}
    nodes_of, problems = defaultdict(tuple, hosts.nodes), []
    for cell in hosts.readable_cells:
        try:
            for node in _find_replaced(source, cloud, hosts, cell) if cell.label in doubted else ():
                nodes_of[node.cell, node.host] += (node,)
        except Unreadable as error:
            problems.append(error.problem)
    return replace(hosts, nodes=nodes_of), problems


def _find_replaced(source: Source, cloud: AllocationView, hosts: Hosts, cell: Cell) -> list[ComputeNode]:
    """Return the compute nodes of a cell that were reinstalled, with their former UUIDs."""
    uuids = {root.name: root.uuid for root in cloud.roots}
    proven = {
        (instance.host, instance.node)
        for instance in source.iterate_instances(cell)
        if uuids.get(instance.node or "") in set(map(cloud.root, cloud.held.get(instance.uuid, ())))
    }
    return [
        replace(node, uuid=uuids[node.name])
        for node in hosts.all_nodes()
        if node.cell == cell.uuid and (node.host, node.name) in proven
    ]


def check_nova(hosts: Hosts, cloud: AllocationView) -> list[Problem]:
    """Return the problem that this nova does not seem to use this placement, if there are signs of that.

    It has no compute node, and placement has providers of CPUs or consumers; too few compute nodes have a
    provider; or too few providers that look like one are a compute node.
    """
    if hosts.unknown:
        return []
    nodes = {node.uuid or "": node.name for node in hosts.all_nodes()}
    if not nodes:
        computes = sum(bool(_CPUS.intersection(each.inventories or ())) for each in cloud.records.values())
        if not (computes or cloud.held):
            return []
        cells = ", ".join(cell.name or cell.uuid for cell in hosts.cells) or "none but cell0"
        text = (
            f"it has no compute node (cells: {cells}), and placement has {computes} providers of CPUs and "
            f"{len(cloud.held)} consumers; check where [api_database]/connection, --nova-api-db or "
            "--nova-endpoint leads, and the databases in nova-manage cell_v2 list_cells"
        )
        return [Problem(Reason.UNKNOWN, "nova", text)]
    roots = cloud.hosts
    if not roots:
        return []
    texts = []
    if _is_too_few(nodes.keys() & cloud.records.keys(), nodes):
        number = len(nodes.keys() & cloud.records.keys())
        names = name_some(name for uuid, name in nodes.items() if uuid not in cloud.records)
        texts.append(f"of its {len(nodes)} compute nodes {number} have a resource provider (not {names})")
    if _is_too_few(nodes.keys() & roots, roots):
        names = name_some(map(cloud.name, roots - nodes.keys()))
        number = len(nodes.keys() & roots)
        texts.append(
            f"of the {len(roots)} providers in this placement that look like a compute node {number} are "
            f"one of nova (not {names})"
        )
    advice = f"is it the nova of this placement? {_CHECK_REGION}"
    return [Problem(Reason.UNKNOWN, "nova", f"{', and '.join(texts)}; {advice}")] if texts else []


def check_cells(hosts: Hosts, cloud: AllocationView) -> list[Problem]:
    """Return a problem for each cell of which too few compute nodes have a provider."""
    nodes: dict[str, set[str]] = defaultdict(set)
    for node in hosts.all_nodes():
        nodes[node.cell].add(node.uuid or "")
    problems = []
    for cell in hosts.cells:
        own = nodes[cell.uuid]
        if own and _is_too_few(own & cloud.records.keys(), own):
            number = len(own & cloud.records.keys())
            text = f"{number} of its {len(own)} compute nodes have a resource provider in this placement"
            problems.append(Problem(Reason.UNKNOWN, cell.label, f"{text}; {CHECK_CELL}. {NOTHING_REMOVED}"))
    return problems


def check_ports(instances: int, with_port: int) -> list[Problem]:
    """Return a problem if too few of the instances on hosts have a port in neutron."""
    if not instances or with_port >= instances * _LOWEST_SHARE:
        return []
    text = (
        f"of {instances} instances on hosts {with_port} have a port in it; is it the neutron of this nova, "
        "and may this user see the ports of all projects? check [neutron]/region_name, --neutron-endpoint or "
        "--neutron-db, and the roles; heal-allocations --skip-port-allocations leaves ports alone"
    )
    return [Problem(Reason.UNKNOWN, "neutron", text)]


def _is_too_few(part: Sized, whole: Sized) -> bool:
    return len(part) < len(whole) * _LOWEST_SHARE
