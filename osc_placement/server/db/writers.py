# SPDX-License-Identifier: Apache-2.0
"""The record of this server's changes: each transaction writes down which providers it changed.

A worker that keeps a snapshot (`server.snapshot`) has to know after each commit, whichever process made it,
what to read again, without reading the whole cloud. Each process that writes owns a few *slots*, rows of
`own_tables.writers`, one for each connection on which it writes (`Slots`). The last statement of every
transaction that changes something increments the count of a slot and adds a line about the change. Since only
the owner of a slot writes it, and one transaction at a time, no writer waits for another, and whoever sees a
count of a slot sees the changes of all lower counts, too.

``id``
    the number of the process in the upper 32 bits, a random number in the lower;
``count``
    the number of transactions;
``token``
    a random number, new with each transaction: rows that are equal in count but not in history, such as
    after a restore from a backup, differ in it;
``changed_at``
    the time of the last transaction, in microseconds of the clock of the host that made it. It decides only
    when a slot is so old that it is deleted: an owner that finds its slot deleted, or changed by anybody
    else, takes a new one;
``recent``
    a line for each of the last transactions, the last one at the end (see `Changes.to_text`).

A commit whose outcome is unknown gives its slot up, since nobody knows the count in the database. A commit
that lost its certification on a Galera cluster was rolled back, so its slot is used again.

Connections of one process may lead to different nodes of a cluster, and a node may not have applied yet what
another has committed. A slot therefore stays with its connection. When that is closed, the slot rests for
`REST` seconds, within which nodes apply what was committed, before another connection uses it. `MOST_RESTING`
limits how many slots rest: beyond it, the one that has rested longest is used again earlier, and if the node
does not have its last change, a new slot takes its place.

The row with the id `STRANGERS` belongs to no process. Whoever finds that another program wrote to the
database, which cannot be seen here, sets ``changed_at`` of that row (see `snapshot.current`).
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.model import MAX_AMOUNT
from osc_placement.server import errors
from osc_placement.server.db.dialects.base import PORTION
from osc_placement.server.db.own_tables import provider_revisions, writers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from sqlalchemy.pool import ConnectionPoolEntry

    from osc_placement.server.db.dialects.base import Dialect

#: the option of a connection with the `Recording` of its transaction; without it nothing is recorded
RECORDING: Final = "oscp_recording"

#: the id of the row about other programs
STRANGERS: Final = 0
#: the number of low bits of an id that distinguish the slots of a process
PROCESS_BITS: Final = 32
#: the number of transactions that a slot describes, and the characters that they take at most
LINES: Final = 16
CHARACTERS: Final = 4000
#: with more providers than this, a transaction says only that anything may have changed
MANY: Final = 200
#: seconds after which a slot that is not used is deleted
IDLE: Final = 24 * 60 * 60
#: seconds for which a slot is not used after its connection was closed, and the number of slots that rest
REST: Final = 10
MOST_RESTING: Final = 32
#: tokens are below this, so that a sum of them does not overflow
_TOKENS: Final = 1 << 40

NO_CONSUMERS: Final[Mapping[str, int]] = {}


def weigh_consumer(generation: int | None) -> int:
    """Return the weight of the hash of a consumer at this generation in the fingerprint; None means deleted.

    A consumer without allocations yet, as openstack-placement creates it, counts twice.
    """
    if generation is None:
        return 0
    return 1 if generation else 2


@dataclass(slots=True)
class Changes:
    """The changes of one transaction, or of several.

    :ivar moves: how often the generation of each provider was incremented, by id
    :ivar used: the ids of all providers that changed in any way
    :ivar contents: those of which more than the usage changed
    :ivar rows: those whose own row changed beside the generation: name, place in a tree, existence
    :ivar consumers: the change of the sum of the weighted hashes of consumers (see `fingerprint`)
    :ivar names: whether traits or resource classes were created, renamed or deleted
    :ivar everything: whether anything may have changed
    """

    moves: Counter[int] = field(default_factory=Counter)
    used: set[int] = field(default_factory=set)
    contents: set[int] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    consumers: int = 0
    names: bool = False
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.used or self.consumers or self.names or self.everything)

    def add(self, other: Changes) -> None:
        """Add the changes of another transaction."""
        self.moves.update(other.moves)
        self.used |= other.used
        self.contents |= other.contents
        self.rows |= other.rows
        self.consumers += other.consumers
        self.names |= other.names
        self.everything |= other.everything

    def to_text(self, count: int) -> str:
        """Return the line about the transaction with this number: ``count consumers flags providers``.

        The flags are ``n`` for names and ``*`` for everything, or ``-`` for none. Providers are separated by
        commas, ``-`` for none: the id, ``+`` and the moves of the generation if there are any, ``c`` if the
        contents changed, and ``r`` if the row and the contents did.
        """
        if self.everything or len(self.used) > MANY:
            return f"{count} {self.consumers} * -"
        providers = [
            f"{id_}{f'+{moves}' if (moves := self.moves[id_]) else ''}"
            f"{'r' if id_ in self.rows else 'c' if id_ in self.contents else ''}"
            for id_ in sorted(self.used)
        ]
        return f"{count} {self.consumers} {'n' if self.names else '-'} {','.join(providers) or '-'}"

    @classmethod
    def from_text(cls, line: str) -> tuple[int, Changes]:
        """Return the number of the transaction and its changes; :raises ValueError: it is no such line."""
        count, consumers, flags, providers = line.split(" ")
        if flags not in ("-", "n", "*"):
            raise ValueError(line)
        changes = cls(consumers=int(consumers), names=flags == "n", everything=flags == "*")
        for text in providers.split(",") if providers != "-" else ():
            number, _, moves = text.rstrip("cr").partition("+")
            id_ = int(number)
            if not 0 < id_ <= MAX_AMOUNT:
                # a row may have been edited by hand, and SQLite's driver refuses larger numbers
                raise ValueError(line)
            if moves:
                changes.moves[id_] += int(moves)
            changes.used.add(id_)
            if text[-1] in "cr":
                changes.contents.add(id_)
            if text[-1] == "r":
                changes.rows.add(id_)
        return int(count), changes


@dataclass(frozen=True, slots=True)
class Recording:
    """The changes that a transaction has made so far, and the dialect of its database."""

    dialect: Dialect
    changes: Changes = field(default_factory=Changes)


def record(
    conn: Connection,
    *,
    moved: Collection[int] = (),
    touched: Collection[int] = (),
    consumers: Mapping[str, int] = NO_CONSUMERS,
    of_use_only: bool = False,
    of_rows: bool = False,
    names: bool = False,
    everything: bool = False,
) -> None:
    """Note a change that this transaction makes; `Slot.store` writes it.

    :param moved: the ids of the providers whose generation is incremented, each as often as by one
    :param touched: the ids of other providers that change
    :param consumers: by UUID, the change of the weight of a consumer in the fingerprint
    :param of_use_only: whether nothing but the usage of the providers changes
    :param of_rows: whether the name, the place or the existence of the providers changes
    :param names: whether traits or resource classes are created, renamed or deleted
    :param everything: whether more changes than can be said with these
    """
    recording: Recording | None = conn.get_execution_options().get(RECORDING)
    if recording is None:
        return
    changes = recording.changes
    ids = {*moved, *touched}
    changes.moves.update(moved)
    changes.used |= ids
    if not of_use_only:
        changes.contents |= ids
    if of_rows:
        changes.rows |= ids
    if consumers:
        changes.consumers += recording.dialect.sum_hashes(conn, consumers)
    changes.names |= names
    changes.everything |= everything


def collide(conn: Connection, ids: Collection[int]) -> None:
    """Write a row of each of these providers, so that of two nodes that do so at once only one commits.

    Row locks do not reach other nodes of a Galera cluster, and two changes of one tree, or of memberships
    without a generation, need not write a common row of placement's tables. A node that applies the change of
    another aborts the transactions that have written this row already, so it has to be written before the
    rows are read that the other change may add. Without our own tables this does nothing.
    """
    recording: Recording | None = conn.get_execution_options().get(RECORDING)
    if not ids or recording is None:
        return
    rows = [
        {"provider_id": id_, "revision": 1, "generation_moves": 0, "consumers": 0} for id_ in sorted(set(ids))
    ]
    conn.execute(recording.dialect.upsert(provider_revisions, "revision"), rows)


_columns = writers.c
_bound_id = sa.bindparam("slot_id", type_=sa.BigInteger)
_known = sa.bindparam("known", type_=sa.BigInteger)
# the row count would otherwise be read from a closed cursor
_advance = (
    sa.update(writers)
    .where(_columns.id == _bound_id, _columns.count == _known)
    .values(
        count=sa.bindparam("new_count", type_=sa.BigInteger),
        token=sa.bindparam("new_token", type_=sa.BigInteger),
        changed_at=sa.bindparam("now", type_=sa.BigInteger),
        recent=sa.bindparam("lines"),
    )
    .execution_options(preserve_rowcount=True)
)
_insert = sa.insert(writers)
_select_idle = (
    sa.select(_columns.id)
    .where(_columns.id != STRANGERS, _columns.changed_at < sa.bindparam("before", type_=sa.BigInteger))
    .order_by(_columns.id)
    .limit(PORTION)
)
_delete = sa.delete(writers).where(_columns.id.in_(sa.bindparam("ids", expanding=True)))


def now() -> int:
    """Return the time as ``changed_at`` has it."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as its owner knows it, after the last transaction that used it.

    :ivar id: None before the first transaction
    """

    process: int
    id: int | None = None
    count: int = 0
    recent: tuple[str, ...] = ()

    def store(self, conn: Connection, changes: Changes) -> Slot:
        """Write the changes as the last statement of a transaction; return the slot after its commit.

        A slot that is not in the database as it is known here, because it was deleted after a day without
        use, or because a backup was restored, is replaced by a new one. Then slots that are not used any more
        are deleted, by their ids, so that no other rows are locked.
        """
        moment = now()
        values = {"now": moment, "new_token": secrets.randbelow(_TOKENS)}
        if self.id is not None:
            count = self.count + 1
            lines = (*self.recent, changes.to_text(count))[-LINES:]
            while sum(map(len, lines)) + len(lines) > CHARACTERS:
                lines = lines[1:]
            given = {"slot_id": self.id, "known": self.count, "new_count": count, "lines": "\n".join(lines)}
            if conn.execute(_advance, values | given).rowcount == 1:
                return Slot(self.process, self.id, count, lines)
        if idle := conn.scalars(_select_idle, {"before": moment - IDLE * 1_000_000}).all():
            conn.execute(_delete, {"ids": idle})
        id_ = self.process << PROCESS_BITS | secrets.randbits(PROCESS_BITS)
        line = changes.to_text(1)
        row = {"id": id_, "count": 1, "token": values["new_token"], "changed_at": moment, "recent": line}
        conn.execute(_insert, row)
        return Slot(self.process, id_, 1, (line,))


class _Own:
    """The number of a process, and its slots that no connection has, each with the time when it lost it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        # 0 is left to the row of strangers; the highest bit is left out, since the column has a sign
        self.process = 1 + secrets.randbelow((1 << 31) - 1)
        #: the one that has rested longest is first; without a lock, since the garbage collector closes
        #: connections at any point of any thread
        self.resting: deque[tuple[float, Slot]] = deque()

    def take_rested(self) -> Slot | None:
        """Return the slot that has rested longest, if that is long enough or too many rest."""
        try:
            since, slot = self.resting.popleft()
        except IndexError:
            return None
        if time.monotonic() - since >= REST or len(self.resting) >= MOST_RESTING:
            return slot
        self.resting.appendleft((since, slot))
        return None


#: the key of the slot of a connection in ``Connection.info``, which is that of the driver's connection
_SLOT: Final = "oscp_slot"


class Slots:
    """The slots of this process, for any number of threads.

    A slot is either kept in the ``info`` of the connection that wrote it last, used by the transaction of
    that connection, or resting.
    """

    def __init__(self) -> None:
        self._own = _Own()

    def take(self, info: MutableMapping[Any, Any]) -> Slot:
        """Return a slot for the transaction of this connection, which keeps it or gives it up."""
        own = self._own
        if own.pid != os.getpid():
            # the slots belong to the parent
            own = self._own = _Own()
        slot: Slot | None = info.pop(_SLOT, None)
        if slot is None or slot.process != own.process:
            slot = own.take_rested()
        return slot or Slot(own.process)

    def keep(self, info: MutableMapping[Any, Any], slot: Slot) -> None:
        """Keep a slot whose state in the database is known for the next transaction of this connection."""
        info[_SLOT] = slot

    def release(self, _connection: object, record: ConnectionPoolEntry) -> None:
        """Let the slot of a connection rest; a listener for the pool's event ``close``."""
        slot: Slot | None = record.info.pop(_SLOT, None)
        own = self._own
        if slot is not None and slot.id is not None and slot.process == own.process:
            own.resting.append((time.monotonic(), slot))


def strangers_found(conn: Connection, *, at: int | None = None) -> None:
    """Tell all workers that another program writes to the database.

    :param at: the time of that, by default now
    :raises errors.Retry: another worker does so at the same time
    """
    moment = now() if at is None else at
    values = {"count": 0, "token": secrets.randbelow(_TOKENS), "changed_at": moment, "recent": ""}
    if conn.execute(sa.update(writers).where(_columns.id == STRANGERS).values(values)).rowcount == 0:
        try:
            conn.execute(sa.insert(writers).values(id=STRANGERS, **values))
        except db_exc.DBDuplicateEntry as error:
            raise errors.Retry from error
