# SPDX-License-Identifier: Apache-2.0
"""The vector: the count of each slot of `writers` when a snapshot was read, and what changed since then.

One small statement reads the *mark* of the table of slots, whose size depends on the number of threads that
write and not on the cloud. If the mark is the same, no server of ours has committed a change. Otherwise the
slots whose counts moved on say which providers changed.

The mark includes the time of the last change by a server of a release that counted changes per provider, and
knows nothing of slots (see `server.snapshot`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from osc_placement.server.db import dialects
from osc_placement.server.db.own_tables import database_identity, provider_revisions, writers
from osc_placement.server.db.writers import PROCESS_BITS, STRANGERS, Changes, now
from osc_placement.server.snapshot.fingerprint import to_text

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: numbers are summed up modulo this, since rows that were edited by hand must not make the sum overflow
_MASK: Final = (1 << 48) - 1
#: seconds after its last change for which a process counts as one that runs
_RUNNING: Final = 3600


class WentBack(Exception):
    """The database does not continue the history that is known: it was restored, or made anew."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A value that differs after each change by a server of ours.

    :ivar slots: the number of rows, and sums of their columns, as text
    :ivar counted_at: the time of the last change by a server of an earlier release
    :ivar identity: the random number that was stored when our own tables were created
    """

    slots: str
    counted_at: int
    identity: int


@dataclass(frozen=True, slots=True)
class Vector:
    """The slots at one moment.

    :ivar slots: count and token by id
    :ivar strangers_at: when another program was found to write, in microseconds of some host's clock
    :ivar processes: the number of processes that wrote in the last hour, at least 1
    """

    mark: Mark
    slots: Mapping[int, tuple[int, int]]
    strangers_at: int
    processes: int


def read_mark(conn: Connection) -> Mark:
    """Return the mark of the data that this connection sees."""
    key = conn.dialect.name
    if key not in _texts:
        counted_at = sa.select(sa.func.max(provider_revisions.c.changed_at)).scalar_subquery()
        identity = sa.select(sa.func.max(database_identity.c.identity)).scalar_subquery()
        sums = (sa.func.sum(column.bitwise_and(_MASK)) for column in (_columns.count, _columns.token))
        values = (counted_at, identity, sa.func.count(), *sums)
        packed = dialects.packed(*(sa.func.coalesce(value, 0) for value in values))
        _texts[key] = to_text(sa.select(packed).select_from(writers), conn.dialect)
    time, number, slots = conn.exec_driver_sql(_texts[key]).scalar_one().split(" ", 2)
    return Mark(slots, int(time), int(number))


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
    strangers_at = 0
    running: set[int] = set()
    since = now() - _RUNNING * 1_000_000
    for numbers, lines in conn.execute(_select, {"tokens": tokens}):
        try:
            id_, count, token, changed_at = map(int, numbers.split())
        except ValueError:
            # on SQLite a column may have any content; nobody's slot is like this
            continue
        if id_ == STRANGERS:
            strangers_at = changed_at
            continue
        slots[id_] = count, token
        if known is None or known.slots.get(id_) != (count, token):
            recent[id_] = lines
        if changed_at > since:
            running.add(id_ >> PROCESS_BITS)
    return Vector(mark, slots, strangers_at, max(1, len(running))), recent


_columns = writers.c
_select = sa.select(
    dialects.packed(_columns.id, _columns.count, _columns.token, _columns.changed_at),
    sa.case((_columns.token.in_(sa.bindparam("tokens", expanding=True)), ""), else_=_columns.recent),
)


def find_changes(old: Vector, new: Vector, recent: Mapping[int, str]) -> Changes | None:
    """Return what was changed between two vectors, or None if the slots do not describe all of it.

    :param recent: the lines that `read_vector` returned with the new vector
    :raises WentBack: a slot is gone, or it has a lower count or another history
    """
    if new.mark.identity != old.mark.identity:
        raise WentBack
    for id_, (count, token) in old.slots.items():
        count_now, token_now = new.slots.get(id_, (-1, token))
        if count_now < count or (count_now == count and token_now != token):
            raise WentBack
    changes = Changes()
    for id_, text in recent.items():
        known, _ = old.slots.get(id_, (0, 0))
        wanted = set(range(known + 1, new.slots[id_][0] + 1)) if new.slots[id_][0] - known <= 1000 else {0}
        for line in text.splitlines():
            try:
                count, changed = Changes.from_text(line)
            except ValueError:
                return None
            if count in wanted:
                wanted.remove(count)
                changes.add(changed)
        if wanted:
            return None
    return changes
