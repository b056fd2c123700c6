# SPDX-License-Identifier: Apache-2.0
"""The record of this server's changes: each transaction writes down which providers it changed.

A worker that keeps a snapshot (`server.snapshot`) has to know after each commit, whichever process made it,
what to read again, without reading the whole cloud. Each process that writes owns a few *slots*, rows of
`own_tables.writers`, one for each connection on which it writes (`Slots`). The last statement of every
transaction that changes something increments the count of a slot and adds a line about the change. Since only
the owner of a slot writes it, and one transaction at a time, no writer waits for another, and whoever sees a
count of a slot sees the changes of all lower counts, too.

``id``
    a random number;
``count``
    the number of transactions;
``token``
    a random number, new with each transaction: rows that are equal in count but not in history, such as
    after a restore from a backup, differ in it;
``changed_at``
    the time of the last transaction, in microseconds of the clock of the host that made it, or 0 once its
    owner has ended;
``recent``
    a line for each of the last transactions, the last one at the end (see `Changes.to_text`).

The number of rows is that of the connections that write, and not of those that ever did: a connection without
a slot takes over one that has not been used for `IDLE` seconds, with its count and lines, before it makes a
new one. The owner compares the count when it writes, so it notices that its slot was taken over, deleted or
changed by anybody else, and takes another.

A commit whose outcome is unknown gives its slot up, since nobody knows the count in the database. A commit
that lost its certification on a Galera cluster was rolled back, so its slot is used again.

Connections of one process may lead to different nodes of a cluster, and a node may not have applied yet what
another has committed. A slot therefore stays with its connection. When that is closed, the slot rests for
`REST` seconds, within which nodes apply what was committed, before another connection uses it. `MOST_RESTING`
limits how many slots rest: beyond it, the one that has rested longest is used again earlier, and if the node
does not have its last change, another slot takes its place.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Collection, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from osc_placement.model import MAX_AMOUNT
from osc_placement.server.db.dialects.base import PORTION
from osc_placement.server.db.own_tables import collisions, writers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from sqlalchemy.pool import ConnectionPoolEntry

    from osc_placement.server.db.dialects.base import Dialect

#: the option of a connection with the `Recording` of its transaction; without it nothing is recorded
RECORDING: Final = "oscp_recording"

#: the number of transactions that a slot describes, and the characters that they take at most
LINES: Final = 16
CHARACTERS: Final = 4000
#: with more providers than this, a transaction says only that anything may have changed
MANY: Final = 200
#: seconds without use after which another connection takes a slot over
IDLE: Final = 60
#: the number of unused slots that are kept, and the seconds without use after which others are deleted
SPARE: Final = 32
FORGOTTEN: Final = 60 * 60
#: seconds for which a slot is not used after its connection was closed, and the number of slots that rest
REST: Final = 10
MOST_RESTING: Final = 32
#: tokens are below this, so that a sum of them does not overflow
_TOKENS: Final = 1 << 40
#: a slot whose count is not below this was edited by hand
_LARGEST_COUNT: Final = 1 << 48


@dataclass(slots=True)
class Changes:
    """The changes of one transaction, or of several.

    :ivar used: the ids of all providers that changed in any way
    :ivar contents: those of which more than the usage and the generation changed
    :ivar names: whether traits or resource classes were created, renamed or deleted
    :ivar everything: whether anything may have changed
    """

    used: set[int] = field(default_factory=set)
    contents: set[int] = field(default_factory=set)
    names: bool = False
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.used or self.names or self.everything)

    def add(self, other: Changes) -> None:
        """Add the changes of another transaction."""
        self.used |= other.used
        self.contents |= other.contents
        self.names |= other.names
        self.everything |= other.everything

    def to_text(self, count: int) -> str:
        """Return the line about the transaction with this number: ``count flags providers``.

        The flags are ``n`` for names and ``*`` for everything, or ``-`` for none. Providers are separated by
        commas, ``-`` for none: the id, and ``c`` if the contents changed.
        """
        if self.everything or len(self.used) > MANY:
            return f"{count} * -"
        providers = [f"{id_}c" if id_ in self.contents else str(id_) for id_ in sorted(self.used)]
        return f"{count} {'n' if self.names else '-'} {','.join(providers) or '-'}"

    @classmethod
    def from_text(cls, line: str) -> tuple[int, Changes]:
        """Return the number of the transaction and its changes; :raises ValueError: it is no such line."""
        count, flags, providers = line.split(" ")
        if flags not in ("-", "n", "*"):
            raise ValueError(line)
        changes = cls(names=flags == "n", everything=flags == "*")
        for text in providers.split(",") if providers != "-" else ():
            id_ = int(text.removesuffix("c"))
            if not 0 < id_ <= MAX_AMOUNT:
                # a row may have been edited by hand, and SQLite's driver refuses larger numbers
                raise ValueError(line)
            changes.used.add(id_)
            if text.endswith("c"):
                changes.contents.add(id_)
        return int(count), changes


@dataclass(frozen=True, slots=True)
class Recording:
    """The changes that a transaction has made so far, and the dialect of its database."""

    dialect: Dialect
    changes: Changes = field(default_factory=Changes)


def record(
    conn: Connection,
    *,
    used: Collection[int] = (),
    contents: Collection[int] = (),
    names: bool = False,
    everything: bool = False,
) -> None:
    """Note a change that this transaction makes; `Slot.store` writes it.

    :param used: the ids of the providers of which nothing but the usage and the generation changes
    :param contents: the ids of those of which more changes, or which come or go
    :param names: whether traits or resource classes are created, renamed or deleted
    :param everything: whether more changes than can be said with these
    """
    recording: Recording | None = conn.get_execution_options().get(RECORDING)
    if recording is not None:
        changes = Changes({*used, *contents}, set(contents), names, everything)
        recording.changes.add(changes)


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
    rows = [{"provider_id": id_, "count": 1} for id_ in sorted(set(ids))]
    conn.execute(recording.dialect.upsert(collisions, "count"), rows)


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
# the last ones first, so that those that are kept are the last ones
_select_idle = (
    sa.select(_columns.id, _columns.changed_at)
    .where(_columns.changed_at < sa.bindparam("before", type_=sa.BigInteger))
    .order_by(_columns.changed_at.desc())
    .limit(SPARE + PORTION)
)
_select_slot = sa.select(_columns.count, _columns.recent).where(_columns.id == _bound_id)
_of_ids = _columns.id.in_(sa.bindparam("ids", expanding=True))
_delete = sa.delete(writers).where(_of_ids)
_give_back = sa.update(writers).where(_of_ids).values(changed_at=0)


def now() -> int:
    """Return the time as ``changed_at`` has it."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as its owner knows it, after the last transaction that used it.

    :ivar pid: the process that owns it
    :ivar id: None before the first transaction
    """

    pid: int
    id: int | None = None
    count: int = 0
    recent: tuple[str, ...] = ()

    def store(self, conn: Connection, changes: Changes) -> Slot:
        """Write the changes as the last statement of a transaction; return the slot after its commit.

        A slot that is not in the database as it is known here, because another process took it over, or
        because a backup was restored, is replaced by one that nobody uses, or by a new one.
        """
        moment = now()
        if self.id is not None and (stored := self._advance(conn, changes, moment)):
            return stored
        unused = self._find_unused(conn, moment)
        if unused is not None and (stored := unused._advance(conn, changes, moment)):
            return stored
        line = changes.to_text(1)
        id_ = secrets.randbits(62)
        row = {"id": id_, "count": 1, "token": _make_token(), "changed_at": moment, "recent": line}
        conn.execute(_insert, row)
        return Slot(self.pid, id_, 1, (line,))

    def _advance(self, conn: Connection, changes: Changes, moment: int) -> Slot | None:
        """Write the changes into this slot; return None if it is not in the database as it is known here."""
        count = self.count + 1
        lines = (*self.recent, changes.to_text(count))[-LINES:]
        while sum(map(len, lines)) + len(lines) > CHARACTERS:
            lines = lines[1:]
        given = {
            "slot_id": self.id,
            "known": self.count,
            "new_count": count,
            "new_token": _make_token(),
            "now": moment,
            "lines": "\n".join(lines),
        }
        if conn.execute(_advance, given).rowcount != 1:
            return None
        return Slot(self.pid, self.id, count, lines)

    def _find_unused(self, conn: Connection, moment: int) -> Slot | None:
        """Return a slot that nobody has used for `IDLE` seconds, to be taken over, or None.

        Which one is random, so that processes that start together hardly ever want the same. Of more than
        `SPARE` such slots, those that are forgotten are deleted, by their ids, so that no other rows are
        locked.
        """
        idle = conn.execute(_select_idle, {"before": moment - IDLE * 1_000_000}).all()
        forgotten = [id_ for id_, changed_at in idle[SPARE:] if changed_at < moment - FORGOTTEN * 1_000_000]
        if forgotten:
            conn.execute(_delete, {"ids": forgotten})
        if not idle:
            return None
        id_ = secrets.choice(idle[:SPARE])[0]
        row = conn.execute(_select_slot, {"slot_id": id_}).first()
        # on SQLite a column may have any content
        if row is None or not (isinstance(row[0], int) and 0 <= row[0] < _LARGEST_COUNT):
            return None
        return Slot(self.pid, id_, row[0], tuple(str(row[1]).splitlines()))


def _make_token() -> int:
    return secrets.randbelow(_TOKENS)


#: the key of the slot of a connection in ``Connection.info``, which is that of the driver's connection
_SLOT: Final = "oscp_slot"


class Slots:
    """The slots of this process, for any number of threads.

    A slot is either kept in the ``info`` of the connection that wrote it last, used by the transaction of
    that connection, or resting since its connection was closed.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        #: the one that has rested longest is first; without a lock, since the garbage collector closes
        #: connections at any point of any thread
        self._resting: deque[tuple[float, Slot]] = deque()

    def take(self, info: MutableMapping[Any, Any]) -> Slot:
        """Return a slot for the transaction of this connection, which keeps it or gives it up."""
        if self._pid != os.getpid():
            # the slots belong to the parent
            self._pid, self._resting = os.getpid(), deque()
        slot: Slot | None = info.pop(_SLOT, None)
        if slot is None or slot.pid != self._pid:
            slot = self._take_rested()
        return slot or Slot(self._pid)

    def _take_rested(self) -> Slot | None:
        """Return the slot that has rested longest, if that is long enough or too many rest."""
        try:
            since, slot = self._resting.popleft()
        except IndexError:
            return None
        if time.monotonic() - since >= REST or len(self._resting) >= MOST_RESTING:
            return slot
        self._resting.appendleft((since, slot))
        return None

    def keep(self, info: MutableMapping[Any, Any], slot: Slot) -> None:
        """Keep a slot whose state in the database is known for the next transaction of this connection."""
        info[_SLOT] = slot

    def release(self, _connection: object, record: ConnectionPoolEntry) -> None:
        """Let the slot of a connection rest; a listener for the pool's event ``close``."""
        slot: Slot | None = record.info.pop(_SLOT, None)
        if slot is not None and slot.id is not None and slot.pid == self._pid:
            self._resting.append((time.monotonic(), slot))

    @property
    def can_be_given_back(self) -> bool:
        """Return whether a slot of this process rests."""
        return bool(self._resting) and self._pid == os.getpid()

    def give_back(self, conn: Connection) -> None:
        """Let other processes take over the slots that rest, at the end of this one."""
        resting, self._resting = self._resting, deque()
        conn.execute(_give_back, {"ids": [slot.id for _, slot in resting]})
