# SPDX-License-Identifier: Apache-2.0
"""The moves of instances that may hold allocations, over all cells: some go from cell to cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from osc_placement.migrate.nova.facts import MigrationRecord
from osc_placement.migrate.nova.hosts import Hosts, Place
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem


@dataclass(frozen=True)
class Moves:
    """The migrations that are not over; ``unreadable`` has unreadable cells, by UUID."""

    records: tuple[MigrationRecord, ...]
    unreadable: Mapping[str, Unreadable]

    @property
    def problems(self) -> list[Problem]:
        """Return a problem for each cell whose migrations could not be read."""
        return [each.problem for each in self.unreadable.values()]

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
