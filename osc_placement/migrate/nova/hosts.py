# SPDX-License-Identifier: Apache-2.0
"""Hosts, their compute nodes, and moves of instances, over all cells; unreadable cells are kept as such."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final

from osc_placement.errors import UsageError
from osc_placement.migrate.nova.facts import (
    CELL0,
    FINISHED,
    Cell,
    ComputeNode,
    ComputeService,
    MigrationRecord,
    is_late,
)
from osc_placement.migrate.nova.source import CHECK_CELL, Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason

_RESTORE: Final = "restore its mapping with nova-manage cell_v2 create_cell, or delete what is mapped to it"
_REMOVE_HOST: Final = "or remove hosts that are gone with nova-manage cell_v2 delete_host"
#: names in a line about many
_EXAMPLES: Final = 3

#: UUID of the cell, host, name of the compute node
Place = tuple[str, str, str]


@dataclass(frozen=True)
class Hosts:
    """The compute nodes of hosts by UUID of the cell and name; ``unknown`` has unreadable cells.

    A host is known by both: two cells may have hosts of one name, and one that was moved has left its compute
    node behind. Nova's API database maps each name to one cell, ``cell_of``; what it says of a host, such as
    its aggregates, is about the one in that cell.
    """

    cells: tuple[Cell, ...]
    nodes: Mapping[tuple[str, str], tuple[ComputeNode, ...]]
    cell_of: Mapping[str, str]
    unknown: Mapping[str, Unreadable]

    @property
    def problems(self) -> list[Problem]:
        """Return a problem for each cell that could not be read."""
        return [error.problem for error in self.unknown.values()]

    def all_nodes(self) -> Iterator[ComputeNode]:
        """Yield the nodes of all hosts."""
        for nodes in self.nodes.values():
            yield from nodes

    @property
    def readable_cells(self) -> list[Cell]:
        """Return the cells whose compute nodes could be read."""
        return [cell for cell in self.cells if cell.uuid not in self.unknown]

    @cached_property
    def by_place(self) -> Mapping[Place, list[ComputeNode]]:
        """Return the nodes by cell, host and name; several only if the source cannot tell cells apart."""
        found: dict[Place, list[ComputeNode]] = defaultdict(list)
        for node in self.all_nodes():
            found[node.cell, node.host, node.name].append(node)
        return found

    @cached_property
    def with_nodes(self) -> Mapping[str, list[str]]:
        """Return by name the cells in which such a host has compute nodes."""
        found: dict[str, list[str]] = defaultdict(list)
        for cell, host in self.nodes:
            found[host].append(cell)
        return found

    def nodes_of(self, host: str) -> tuple[ComputeNode, ...]:
        """Return the nodes of the host that is mapped by this name; none if it is ambiguous."""
        nodes = self.nodes.get((self.cell_of.get(host, ""), host), ())
        return () if _is_doubled(nodes) else nodes

    def find_namesakes(self, host: str) -> Iterator[Problem]:
        """Yield a problem for each node of a host of this name in another cell than it is mapped to."""
        labels = {cell.uuid: cell.label for cell in self.cells}
        own = self.cell_of.get(host)
        for cell in self.with_nodes.get(host, ()) if own else ():
            for node in self.nodes[cell, host] if cell != own else ():
                mapped = labels.get(own or "", own)
                text = f"it is in {labels[cell]}, and host {host} is mapped to {mapped}; it is left alone"
                yield Problem(Reason.AMBIGUOUS, f"host {host}, node {node.name}", text)

    def find_problem(self, host: str) -> Problem | None:
        """Return why a host has no usable nodes; None if it has."""
        subject = f"host {host}"
        if self.nodes_of(host):
            return None
        if _is_doubled(self.nodes.get((self.cell_of.get(host, ""), host), ())):
            text = "nova shows several compute nodes of one name of it, and not which cell each is in"
            return Problem(Reason.AMBIGUOUS, subject, text)
        if host not in self.cell_of:
            return Problem(Reason.UNMAPPED_HOST, subject, "it is mapped to no cell")
        if self.cell_of[host] in self.unknown:
            return Problem(Reason.UNKNOWN, subject, "its cell cannot be read, so it is left alone")
        return Problem(Reason.NO_COMPUTE_NODE, subject, "it has no compute node in its cell")


def read_hosts(source: Source) -> Hosts:
    """Read the compute nodes of all cells; Unreadable only if the API database is.

    A cell that has none of the hosts that are mapped to it counts as one that cannot be read, and so does one
    that hosts are mapped to and that is not there.
    """
    cells = tuple(source.list_cells())
    cell_of = source.map_hosts()
    mapped: dict[str, set[str]] = defaultdict(set)
    for host, uuid in cell_of.items():
        mapped[uuid].add(host)
    nodes: dict[tuple[str, str], list[ComputeNode]] = defaultdict(list)
    unknown: dict[str, Unreadable] = {}
    for cell in cells:
        try:
            found = source.list_compute_nodes(cell)
            own = mapped[cell.uuid]
            if own and not any(node.host in own for node in found):
                text = f"{_count_hosts(own)} mapped to it, and its database has no compute node of them"
                raise Unreadable(cell.label, f"{text}; {CHECK_CELL}, {_REMOVE_HOST}")
        except Unreadable as error:
            unknown[cell.uuid] = error
            continue
        for node in found:
            nodes[cell.uuid, node.host].append(replace(node, cell=cell.uuid))
    for name in mapped.keys() - {CELL0, *(cell.uuid for cell in cells)}:
        text = f"{_count_hosts(mapped[name])} mapped to it, and there is no such cell; {_RESTORE}"
        unknown[name] = Unreadable(name, text)
    return Hosts(cells, {host: tuple(found) for host, found in nodes.items()}, cell_of, unknown)


def _is_doubled(nodes: Sequence[ComputeNode]) -> bool:
    return len({node.name for node in nodes}) < len(nodes)


def _count_hosts(hosts: Collection[str]) -> str:
    """Return how many hosts there are, and the first of them, for "mapped" to follow."""
    names = name_some(hosts)
    return f"{len(hosts)} hosts ({names}) are" if len(hosts) > 1 else f"host {names} is"


def find_lost_cells(source: Source, hosts: Hosts) -> list[Problem]:
    """Return a problem for each cell that instances are mapped to and that is not there."""
    known = {CELL0, *hosts.unknown, *(cell.uuid for cell in hosts.cells)}
    text = "{} instances are mapped to it, and there is no such cell; " + _RESTORE
    return [
        Problem(Reason.UNKNOWN, name, text.format(number))
        for name, number in source.count_instances().items()
        if name not in known
    ]


def name_some(names: Iterable[str]) -> str:
    """Return the first of some names, in order."""
    ordered = sorted(names)
    return ", ".join([*ordered[:_EXAMPLES], *(["..."] if len(ordered) > _EXAMPLES else [])])


def find_strangers(hosts: Hosts, asked: Collection[str], known: Collection[str] = ()) -> list[Problem]:
    """Return a problem for each host that was asked for and not found; nova also has those in ``known``.

    Raise UsageError if all cells were read, so that nova certainly does not have it.
    """
    missing = sorted(set(asked).difference(hosts.with_nodes, hosts.cell_of, known))
    return judge_strangers("host", missing, is_complete=not hosts.unknown)


def judge_strangers(kind: str, missing: Sequence[str], *, is_complete: bool) -> list[Problem]:
    """Return a problem for each name that was not found; raise UsageError if all of nova was read."""
    if missing and is_complete:
        raise UsageError(f"Nova has no {kind} {', '.join(missing)}")
    text = "it is unknown whether nova has it, because not all of nova can be read"
    return [Problem(Reason.UNKNOWN, f"{kind} {name}", text) for name in missing]


@dataclass(frozen=True)
class Moves:
    """The migrations that are not over, some from cell to cell; ``unreadable`` has cells, by UUID."""

    records: tuple[MigrationRecord, ...]
    unreadable: Mapping[str, Unreadable]

    @property
    def problems(self) -> list[Problem]:
        """Return a problem for each cell whose migrations could not be read."""
        return [each.problem for each in self.unreadable.values()]

    def find_late(self, now: datetime, patience: float) -> Iterator[MigrationRecord]:
        """Yield the moves that nova has not changed for so many seconds, but evacuations that are done.

        A resize that is done waits for its owner unless its instance is in a task, which no record tells.
        """
        for move in self.records:
            if not move.is_evacuated and is_late(move.changed_at, now, patience):
                yield move

    @cached_property
    def unconfirmed(self) -> frozenset[str | None]:
        """Return the UUIDs of resizes that wait for their owner; only one of two cells may say so."""
        return frozenset(move.uuid for move in self.records if move.status == FINISHED)

    @cached_property
    def moving(self) -> frozenset[str]:
        """Return the instances that are moving."""
        return frozenset(move.instance_uuid for move in self.records if not move.is_evacuated)

    @cached_property
    def left(self) -> Mapping[str, frozenset[Place]]:
        """Return by instance the nodes that it was evacuated from and that have not been up since."""
        left: dict[str, set[Place]] = defaultdict(set)
        for move in self.records:
            if move.is_evacuated:
                left[move.instance_uuid].add((move.cell, move.source_host or "", move.source_node or ""))
        return {instance: frozenset(places) for instance, places in left.items()}


def read_services(
    source: Source, hosts: Hosts
) -> tuple[dict[tuple[str, str], ComputeService], list[Problem]]:
    """Return the nova-compute services by UUID of the cell and host, and a problem for each unread cell."""
    services: dict[tuple[str, str], ComputeService] = {}
    problems: list[Problem] = []
    for cell in hosts.readable_cells:
        try:
            found = source.list_services(cell)
            services |= {(cell.uuid, host): service for host, service in found.items()}
        except Unreadable as error:
            problems.append(error.problem)
    return services, problems


def read_moves(source: Source, hosts: Hosts) -> Moves:
    """Read the migrations of all cells whose hosts could be read."""
    records: list[MigrationRecord] = []
    unreadable: dict[str, Unreadable] = {}
    for cell in hosts.readable_cells:
        try:
            records += [replace(move, cell=cell.uuid) for move in source.list_migrations(cell)]
        except Unreadable as error:
            unreadable[cell.uuid] = error
    return Moves(tuple(records), unreadable)
