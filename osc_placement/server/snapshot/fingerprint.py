# SPDX-License-Identifier: Apache-2.0
"""The fingerprint: sums that change with everything a snapshot shows, whichever program changed it.

One statement reads them, so they belong to one moment. Its cost grows with the tables, at about a third of a
microsecond per row. It is taken to find the changes of programs that do not record them as this server does
(see `writers`), and relies on what every placement does, openstack-placement and earlier releases of this
server included:

* A change of inventory, traits, or allocations *on* a provider increments its generation. Renaming and moving
  a provider change the hash of its row.
* Changes of aggregates, which increment no generation below microversion 1.19, change the hashes of
  memberships.
* Allocations are removed together with their consumer, which is then deleted, or by a consumer that gets
  allocations on other providers, whose generations are incremented. So usage that is removed without
  incrementing a generation shows in the hashes of consumers, or as a generation that was incremented
  elsewhere. A consumer without allocations is at generation 0 and counts twice, as openstack-placement makes
  a consumer in a transaction before the one with its allocations: a consumer may be deleted and created
  again between two checks.

Hashes are summed over rows, so neither the order of commits nor the gaps in the ids of a Galera cluster
matter. A sum is no proof: two changes by other programs that increment no generation cancel out with
probability 2^-32. No hash is linear (see `Dialect.hash_of`), so exchanges of values between rows do not
cancel out more often than others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from osc_placement.server.db import dialects
from osc_placement.server.db.dialects.base import mask_product, masked_product
from osc_placement.server.db.own_tables import database_identity
from osc_placement.server.db.tables import (
    consumers,
    resource_classes,
    resource_provider_aggregates,
    resource_providers,
    traits,
)
from osc_placement.server.db.writers import weigh_consumer

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.dialects import Dialect

Numbers = tuple[int, ...]


class Fingerprint(NamedTuple):
    """The sums, by the table that they are about, None for those that are not known.

    :ivar providers: the number of providers, and the sums of `provider_numbers` over them
    :ivar consumers: the sum of the weighted hashes of consumers
    :ivar identity: the random number that was stored when our own tables were created; zero without them
    """

    providers: Numbers
    memberships: Numbers | None
    traits: Numbers | None
    classes: Numbers | None
    consumers: int
    identity: int


def take(conn: Connection, *, own_tables: bool) -> Fingerprint:
    """Return the fingerprint of the data that this connection sees."""
    key = conn.dialect.name, own_tables
    if key not in _texts:
        _texts[key] = to_text(_statement(dialects.of(conn), own_tables), conn.dialect)
    row = [int(number) for number in conn.exec_driver_sql(_texts[key]).scalar_one().split()]
    return Fingerprint(tuple(row[0:5]), tuple(row[5:7]), tuple(row[7:9]), tuple(row[9:12]), row[12], row[13])


# PERF: building and compiling takes five milliseconds, and the statement never changes
_texts: dict[tuple[str, bool], str] = {}


def to_text(statement: sa.Select[Any], dialect: sa.Dialect) -> str:
    """Return a statement without parameters as the text that the driver sends."""
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _statement(dialect: Dialect, own_tables: bool) -> sa.Select[Any]:
    count: sa.ColumnElement[int] = sa.func.count()
    member = resource_provider_aggregates.c
    names = resource_classes.c
    identity: Any = sa.select(sa.literal(0))
    if own_tables:
        identity = sa.select(sa.func.max(database_identity.c.identity))
    membership_hash = dialect.hash_of(member.resource_provider_id, member.aggregate_id)
    # SQLite uses the id of a deleted trait for the next one, which may have the same name
    age = () if dialect.hashes_slowly else (traits.c.created_at,)
    trait_hash = dialect.hash_of_names(traits.c.id, traits.c.name, *age)
    class_hash = dialect.hash_of_names(names.id, names.name)
    weight = sa.case((consumers.c.generation == 0, weigh_consumer(0)), else_=weigh_consumer(1))
    parts: tuple[Any, ...] = (
        sa.select(*provider_sums(dialect)),
        sa.select(count, sa.func.sum(membership_hash)).select_from(resource_provider_aggregates),
        sa.select(count, sa.func.sum(trait_hash)).select_from(traits),
        sa.select(count, sa.func.sum(names.id), sa.func.sum(class_hash)).select_from(resource_classes),
        sa.select(sa.func.sum(dialect.hash_of(consumers.c.uuid) * weight)),
        identity,
    )
    tables = []
    for number, part in enumerate(parts):
        labelled = [column.label(f"n{index}") for index, column in enumerate(part.selected_columns)]
        tables.append(part.with_only_columns(*labelled).subquery(f"part{number}"))
    return sa.select(
        dialects.packed(*(sa.func.coalesce(column, 0) for table in tables for column in table.c))
    )


def provider_sums(dialect: Dialect) -> list[sa.ColumnElement[Any]]:
    """Return columns with the number of providers and the sums of `provider_numbers` over them."""
    columns = resource_providers.c
    hash_ = provider_hash(dialect)
    generation = sa.func.coalesce(columns.generation, 0)
    return [
        sa.func.count(columns.id),
        sa.func.sum(columns.id),
        sa.func.sum(generation),
        sa.func.sum(hash_),
        sa.func.sum(masked_product(generation, hash_)),
    ]


def provider_numbers(id_: int, generation: int, hash_: int) -> Numbers:
    """Return the values that a provider adds to `provider_sums`, without the count.

    The product depends on which provider has which generation: after a restore from a backup, other providers
    may have been changed as often as those whose changes are lost.
    """
    return id_, generation, hash_, mask_product(generation, hash_)


def provider_hash(dialect: Dialect) -> sa.ColumnElement[int]:
    """Return a hash of the columns of a provider's row except its generation."""
    columns = resource_providers.c
    place = columns.name, columns.root_provider_id, columns.parent_provider_id
    if dialect.hashes_slowly:
        # PERF: the other columns took a third of the time. The id is included to notice a swap of names
        return dialect.hash_of_names(columns.id, *place)
    # SQLite uses the id of a deleted provider for the next one, which may have the same name
    return dialect.hash_of_names(*place, columns.uuid, columns.updated_at, columns.created_at)
