# SPDX-License-Identifier: Apache-2.0
"""The hosts of nova and their compute nodes, over all cells; what could not be read stays unknown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from osc_placement.errors import UsageError
from osc_placement.migrate.base import Finding, Trouble
from osc_placement.migrate.facts import Cell, ComputeNode
from osc_placement.migrate.landscape import Landscape
from osc_placement.migrate.sources.base import Source, Unreadable
from osc_placement.model import ProviderRecord

#: what hosts have, and no shared storage does
_CPUS: Final = frozenset(("VCPU", "PCPU"))


@dataclass(frozen=True, slots=True)
class Hosts:
    """Which nodes each host has, and which cell it is in; ``unknown`` has why, by UUID of the cell."""

    cells: tuple[Cell, ...]
    nodes: Mapping[str, tuple[ComputeNode, ...]]
    cell_of: Mapping[str, str]
    unknown: Mapping[str, Unreadable]

    @property
    def findings(self) -> list[Finding]:
        """A finding for each cell that could not be read."""
        return [Finding(Trouble.UNKNOWN, error.subject, error.reason) for error in self.unknown.values()]

    def all_nodes(self) -> Iterator[ComputeNode]:
        """The nodes of all hosts."""
        for nodes in self.nodes.values():
            yield from nodes

    def find_trouble(self, host: str) -> Finding | None:
        """Why a host has no nodes that could be looked at; None if it has."""
        subject = f"host {host}"
        if self.nodes.get(host):
            return None
        if host not in self.cell_of:
            return Finding(Trouble.UNMAPPED_HOST, subject, "it is mapped to no cell")
        if self.cell_of[host] in self.unknown:
            return Finding(Trouble.UNKNOWN, subject, "its cell cannot be read, so it is left alone")
        return Finding(Trouble.NO_COMPUTE_NODE, subject, "it has no compute node in its cell")


def read_hosts(source: Source) -> Hosts:
    """Read the compute nodes of all cells; Unreadable only if the API database is."""
    cells = tuple(source.list_cells())
    cell_of = source.map_hosts()
    nodes: dict[str, list[ComputeNode]] = defaultdict(list)
    unknown: dict[str, Unreadable] = {}
    for cell in cells:
        try:
            for node in source.list_compute_nodes(cell):
                nodes[node.host].append(node)
        except Unreadable as error:
            unknown[cell.uuid] = error
    return Hosts(cells, {host: tuple(found) for host, found in nodes.items()}, cell_of, unknown)


def doubt_emptiness(hosts: Hosts, landscape: Landscape) -> list[Finding]:
    """Why a nova without any compute node is hardly the nova of this placement; nothing if it may be."""
    computes = sum(bool(_CPUS.intersection(each.inventories or ())) for each in landscape.records.values())
    if hosts.unknown or any(hosts.nodes.values()) or not (computes or landscape.held):
        return []
    cells = ", ".join(cell.name or cell.uuid for cell in hosts.cells) or "none but cell0"
    text = (
        f"it has no compute node (cells: {cells}), and placement has {computes} providers of CPUs and "
        f"{len(landscape.held)} consumers; check where [api_database]/connection, --nova-api-db or "
        "--nova-endpoint leads, and the databases in nova-manage cell_v2 list_cells"
    )
    return [Finding(Trouble.UNKNOWN, "nova", text)]


def find_strangers(hosts: Hosts, asked: Collection[str], known: Collection[str] = ()) -> list[Finding]:
    """The hosts that were asked for and that nova does not seem to have; ``known`` are more that it has.

    UsageError if it certainly does not have them; a cell that cannot be read may.
    """
    missing = sorted(set(asked).difference(hosts.nodes, hosts.cell_of, known))
    return judge_strangers("host", missing, is_complete=not hosts.unknown)


def judge_strangers(kind: str, missing: Sequence[str], *, is_complete: bool) -> list[Finding]:
    """What to say of names that were asked for and not found; UsageError if all of nova was looked at."""
    if missing and is_complete:
        raise UsageError(f"Nova has no {kind} {', '.join(missing)}")
    text = "nobody knows whether nova has it, as not all of nova can be read"
    return [Finding(Trouble.UNKNOWN, f"{kind} {name}", text) for name in missing]


def find_provider(
    host: str, node: ComputeNode, records: Mapping[str, ProviderRecord]
) -> ProviderRecord | Finding:
    """The provider of a compute node, or why there is none."""
    subject = f"host {host}" if node.name == host else f"host {host}, node {node.name}"
    if node.uuid is None:
        text = "its compute node has no UUID yet; start nova-compute of Queens or later once"
        return Finding(Trouble.NO_COMPUTE_NODE, subject, text)
    if node.uuid not in records:
        return Finding(Trouble.NO_PROVIDER, subject, f"placement has no resource provider {node.uuid}")
    return records[node.uuid]
