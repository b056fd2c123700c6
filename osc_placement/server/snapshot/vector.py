# SPDX-License-Identifier: Apache-2.0
"""The vector: the count of each slot of `writers` when a snapshot was read, and what changed since then.

One small statement reads the *mark* of the table of slots, whose size depends on the number of threads that
write and not on the cloud. If the mark is the same, no server of ours has committed a change. Otherwise the
slots whose counts moved on say which providers changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from osc_placement.server.db import dialects
from osc_placement.server.db.own_tables import database_identity, writers
from osc_placement.server.db.writers import Changes

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: numbers are summed up modulo this, since rows that were edited by hand must not make the sum overflow
_MASK: Final = (1 << 48) - 1

#: the random number that was stored when our own tables were created, the number of slots, and sums of their
#: columns: one of them differs after each change by a server of ours
Mark = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """The slots at one moment.

    :ivar slots: count and token by id
    """

    mark: Mark
    slots: Mapping[int, tuple[int, int]]


def read_mark(conn: Connection) -> Mark:
    """Return the mark of the data that this connection sees."""
    key = conn.dialect.name
    if key not in _texts:
        identity = sa.select(sa.func.max(database_identity.c.identity)).scalar_subquery()
        sums = (sa.func.sum(column.bitwise_and(_MASK)) for column in (_columns.count, _columns.token))
        packed = dialects.packed(
            *(sa.func.coalesce(value, 0) for value in (identity, sa.func.count(), *sums))
        )
        query = sa.select(packed).select_from(writers)
        _texts[key] = str(query.compile(dialect=conn.dialect, compile_kwargs={"literal_binds": True}))
    return tuple(map(int, conn.exec_driver_sql(_texts[key]).scalar_one().split()))


# PERF: compiling takes longer than the statement
_texts: dict[str, str] = {}


def read_vector(conn: Connection, mark: Mark, known: Vector | None = None) -> tuple[Vector, dict[int, str]]:
    """Return the vector and, by id, the lines of the slots that differ from the known vector.

    :param mark: the mark, read on the same data
    """
    # tokens are random, so that they tell rows from each other
    tokens = [token for _, token in known.slots.values()] if known is not None else []
    slots: dict[int, tuple[int, int]] = {}
    recent: dict[int, str] = {}
    for numbers, lines in conn.execute(_select, {"tokens": tokens}):
        try:
            id_, count, token = map(int, numbers.split())
        except ValueError:
            # on SQLite a column may have any content; nobody's slot is like this
            continue
        slots[id_] = count, token
        if known is None or known.slots.get(id_) != (count, token):
            recent[id_] = lines
    return Vector(mark, slots), recent


_columns = writers.c
_select = sa.select(
    dialects.packed(_columns.id, _columns.count, _columns.token),
    sa.case((_columns.token.in_(sa.bindparam("tokens", expanding=True)), ""), else_=_columns.recent),
)


def find_changes(old: Vector, new: Vector, recent: Mapping[int, str]) -> Changes:
    """Return what was changed between two vectors.

    That is everything if the slots do not describe all of it, or do not continue the history that is known,
    because a backup was restored or the database was made anew: then one is gone, or has a lower count or
    another token.

    :param recent: the lines that `read_vector` returned with the new vector
    """
    everything = Changes(everything=True)
    if new.mark[0] != old.mark[0]:
        return everything
    for id_, (count, token) in old.slots.items():
        count_now, token_now = new.slots.get(id_, (-1, token))
        if count_now < count or (count_now == count and token_now != token):
            return everything
    changes = Changes()
    for id_, text in recent.items():
        known, _ = old.slots.get(id_, (0, 0))
        wanted = set(range(known + 1, new.slots[id_][0] + 1)) if new.slots[id_][0] - known <= 1000 else {0}
        for line in text.splitlines():
            try:
                count, changed = Changes.from_text(line)
            except ValueError:
                return everything
            if count in wanted:
                wanted.remove(count)
                changes.add(changed)
        if wanted:
            return everything
    return changes
