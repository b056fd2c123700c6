# SPDX-License-Identifier: Apache-2.0
"""The tables that associate providers with traits and with aggregates: rows read and written as sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import dialects
from osc_placement.server.db.tables import resource_provider_aggregates, resource_provider_traits

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_IDS: Final[sa.BindParameter[int]] = sa.bindparam("provider_ids", expanding=True)
_OTHERS: Final[sa.BindParameter[int]] = sa.bindparam("other_ids", expanding=True)


@dataclass(frozen=True, slots=True)
class Association:
    """One of the tables, and its column that refers to what providers are associated with."""

    table: sa.Table
    column: str
    _load: sa.Select[Any]
    _delete: sa.Delete
    _insert: sa.Insert

    @classmethod
    def of(cls, table: sa.Table, column: str) -> Association:
        """Return the association with its statements, which are built once."""
        mine, other = table.c.resource_provider_id.in_(_IDS), table.c[column]
        load = sa.select(table.c.resource_provider_id, other).where(mine)
        return cls(table, column, load, sa.delete(table).where(mine, other.in_(_OTHERS)), sa.insert(table))

    def load(self, conn: Connection, provider_ids: Collection[int]) -> dict[int, set[int]]:
        """Return by provider id the ids of what it is associated with."""
        found: dict[int, set[int]] = {id_: set() for id_ in provider_ids}
        for portion in dialects.split(sorted(found)):
            for provider_id, other_id in conn.execute(self._load, {"provider_ids": portion}):
                found[provider_id].add(other_id)
        return found

    def replace(
        self, conn: Connection, wanted: Mapping[int, Collection[int]], *, created: Collection[int] = ()
    ) -> set[int]:
        """Associate locked providers with these only; return the ids of those for which this was a change.

        :param created: ids of providers that this transaction created, whose associations need not be read
        :raises errors.Retry: one of them was deleted, or an old server added the same association, meanwhile
        """
        present = self.load(conn, wanted.keys() - created) | {id_: set() for id_ in created if id_ in wanted}
        gone: dict[frozenset[int], list[int]] = defaultdict(list)
        for id_, others in present.items():
            if superfluous := frozenset(others.difference(wanted[id_])):
                gone[superfluous].append(id_)
        # PERF: one statement for all providers that lose the same associations
        for superfluous, ids in gone.items():
            for portion in dialects.split(sorted(ids)):
                conn.execute(self._delete, {"provider_ids": portion, "other_ids": sorted(superfluous)})
        new = [(id_, other) for id_ in sorted(wanted) for other in sorted(set(wanted[id_]) - present[id_])]
        try:
            if new:
                rows = [{"resource_provider_id": id_, self.column: other} for id_, other in new]
                conn.execute(self._insert, rows)
        except (db_exc.DBDuplicateEntry, db_exc.DBReferenceError) as error:
            raise errors.Retry from error
        return {id_ for id_ in wanted if present[id_] != set(wanted[id_])}


TRAITS = Association.of(resource_provider_traits, "trait_id")
AGGREGATES = Association.of(resource_provider_aggregates, "aggregate_id")
