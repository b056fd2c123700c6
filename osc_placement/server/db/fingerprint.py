# SPDX-License-Identifier: Apache-2.0
"""A few numbers that are others when something has changed that a snapshot shows, whoever changed it.

One statement, so of one moment; its cost grows with the tables, at about a third of a microsecond a row. What
it relies on is what every placement does, openstack-placement included:

* A change of inventory, traits, or allocations *on* a provider moves its generation on; generations never go
  back. Renaming and moving change what is hashed of the row itself.
* Changes of aggregates, which move no generation below microversion 1.19, change what is hashed of them.
* Allocations are given back with their consumer, which is then deleted, or by a consumer that turns to other
  providers, whose generations move. So usage that goes where no generation moves shows as a consumer less,
  or as a generation that moved elsewhere.

Sums are over rows as they are and not over ids handed out, so neither the order of commits nor Galera's gaps
matter. That two changes cancel out would take ids that are used again, or equal hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from osc_placement.server.db import dialects
from osc_placement.server.db.own_tables import provider_revisions
from osc_placement.server.db.tables import (
    consumers,
    resource_classes,
    resource_provider_aggregates,
    resource_providers,
    traits,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

Numbers = tuple[int, ...]


class Fingerprint(NamedTuple):
    """The numbers, by what they tell about.

    :ivar revisions: of `revision`, whose last is the sum of ``consumers``; zeroes where there is no table
    """

    providers: Numbers
    memberships: Numbers
    traits: Numbers
    classes: Numbers
    consumers: int
    revisions: Numbers

    @property
    def consumers_of_others(self) -> int:
        """How many consumers there are beyond those that this server's writes account for."""
        return self.consumers - self.revisions[-1]


def take(conn: Connection, *, revisions_kept: bool) -> Fingerprint:
    """The fingerprint of what this connection sees."""
    key = conn.dialect.name, revisions_kept
    if key not in _texts:
        _texts[key] = to_text(_statement(conn.dialect, revisions_kept), conn.dialect)
    row = [int(number) for number in conn.exec_driver_sql(_texts[key]).scalar_one().split()]
    return Fingerprint(
        tuple(row[0:4]), tuple(row[4:7]), tuple(row[7:9]), tuple(row[9:12]), row[12], tuple(row[13:15])
    )


# PERF: five milliseconds to build and compile, for a statement that never changes
_texts: dict[tuple[str, bool], str] = {}


def to_text(statement: sa.Select[Any], dialect: sa.Dialect) -> str:
    """A statement without parameters as the text that the driver sends."""
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _statement(dialect: sa.Dialect, revisions_kept: bool) -> sa.Select[Any]:
    count: sa.ColumnElement[int] = sa.func.count()
    member = resource_provider_aggregates.c
    names = resource_classes.c
    revisions: Any = sa.select(sa.literal(0), sa.literal(0))
    if revisions_kept:
        counted = provider_revisions.c
        revisions = sa.select(sa.func.sum(counted.revision), sa.func.sum(counted.consumers))
    membership_hash = dialects.hash_of(dialect, member.resource_provider_id, member.aggregate_id)
    # CRC32 is linear: for some ids the sum of hashes stays when two providers swap aggregates, this never
    product = sa.cast(member.resource_provider_id, sa.BigInteger) * member.aggregate_id
    # SQLite gives the ids of rows that were deleted to others
    trait_hash = dialects.hash_of(dialect, traits.c.id, traits.c.name)
    class_hash = dialects.hash_of(dialect, names.id, names.name)
    parts: tuple[Any, ...] = (
        sa.select(*provider_sums(dialect)),
        sa.select(count, sa.func.sum(membership_hash), sa.func.sum(product)).select_from(
            resource_provider_aggregates
        ),
        sa.select(count, sa.func.sum(trait_hash)).select_from(traits),
        sa.select(count, sa.func.sum(names.id), sa.func.sum(class_hash)).select_from(resource_classes),
        sa.select(count).select_from(consumers),
        revisions,
    )
    tables = []
    for number, part in enumerate(parts):
        labelled = [column.label(f"n{index}") for index, column in enumerate(part.selected_columns)]
        tables.append(part.with_only_columns(*labelled).subquery(f"part{number}"))
    return sa.select(
        dialects.packed(*(sa.func.coalesce(column, 0) for table in tables for column in table.c))
    )


def provider_sums(dialect: sa.Dialect) -> list[sa.ColumnElement[Any]]:
    """How many providers, and the sums of their ids, generations and hashes."""
    columns = resource_providers.c
    return [
        sa.func.count(columns.id),
        sa.func.sum(columns.id),
        sa.func.sum(columns.generation),
        sa.func.sum(provider_hash(dialect)),
    ]


def provider_hash(dialect: sa.Dialect) -> sa.ColumnElement[int]:
    """A number for what a provider's row says beside its generation."""
    columns = resource_providers.c
    place = columns.name, columns.root_provider_id, columns.parent_provider_id
    if dialects.is_hashing_dear(dialect):
        # PERF: the other columns were a third of it. The product, since CRC32 is linear: for some ids the sum
        # of hashes stays when two providers swap their names
        return dialects.hash_of(dialect, *place) * columns.id
    # SQLite gives the id of a provider that was deleted to the next, which may be of the same name
    return dialects.hash_of(dialect, *place, columns.uuid, columns.updated_at, columns.created_at)
