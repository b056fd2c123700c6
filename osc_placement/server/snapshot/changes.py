# SPDX-License-Identifier: Apache-2.0
"""The rows of all providers, and the search for those that another program changed.

Providers are compared in blocks of ids, by the sums of the fingerprint, and row by row in the blocks that
differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from osc_placement.server.db import dialects
from osc_placement.server.db.tables import resource_providers
from osc_placement.server.snapshot import fingerprint
from osc_placement.server.snapshot.rows import Row, read_rows

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.snapshot.fingerprint import Numbers

#: the number of low bits of an id that distinguish the providers of a block, whose sums are compared together
BLOCK_BITS: Final = 5
#: with more ids than this, reading everything costs as much, and databases limit the number of parameters
MANY: Final = 4000


class Rows:
    """The rows of all providers, by id; immutable."""

    def __init__(self, by_id: Mapping[int, Row], blocks: Mapping[int, Numbers] | None = None) -> None:
        """Take the rows and, if they are known, the sums of each block."""
        self.by_id = by_id
        self._blocks = blocks

    @property
    def blocks(self) -> Mapping[int, Numbers]:
        """Return the sums of the rows of each block, which are kept."""
        if self._blocks is None:
            blocks: dict[int, list[Numbers]] = {}
            for row in self.by_id.values():
                blocks.setdefault(row.id >> BLOCK_BITS, []).append(_numbers(row))
            self._blocks = {block: _sum(numbers) for block, numbers in blocks.items()}
        return self._blocks

    def replace(self, present: Mapping[int, Row], removed: Collection[int] = ()) -> Rows:
        """Return rows of which these are added or changed, and those with the ids ``removed`` are gone."""
        rows = {**self.by_id, **present}
        for id_ in removed:
            rows.pop(id_, None)
        if self._blocks is None:
            return Rows(rows)
        blocks = dict(self._blocks)
        for id_ in {*present, *removed}:
            block = id_ >> BLOCK_BITS
            difference = self.difference({id_: present[id_]} if id_ in present else {}, (id_,))
            sums = _sum((blocks.get(block, _NOTHING), difference))
            if sums[0]:
                blocks[block] = sums
            else:
                del blocks[block]
        return Rows(rows, blocks)

    def difference(self, present: Mapping[int, Row], removed: Collection[int] = ()) -> Numbers:
        """Return the numbers that `replace` adds to the sums of the fingerprint over providers."""
        before = [_numbers(self.by_id[id_]) for id_ in {*present, *removed} if id_ in self.by_id]
        after = _sum((_NOTHING, *map(_numbers, present.values())))
        return tuple(b - a for a, b in zip(_sum((_NOTHING, *before)), after, strict=True))


def _numbers(row: Row) -> Numbers:
    """Return the values that a row adds to the sums of the fingerprint."""
    return 1, *fingerprint.provider_numbers(row.id, row.generation or 0, row.hash)


_NOTHING: Final[Numbers] = (0,) * 5


def _sum(numbers: Iterable[Numbers]) -> Numbers:
    return tuple(map(sum, zip(*numbers, strict=True)))


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The rows as they are now, with the ids of those that are new or changed, and of those deleted."""

    rows: Rows
    changed: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()


def find_changed_rows(conn: Connection, old: Rows) -> RowChanges:
    """Find what changed since the rows ``old`` were read."""
    key = conn.dialect.name
    if key not in _block_texts:
        block = resource_providers.c.id.op(">>")(sa.literal_column(str(BLOCK_BITS)))
        query: sa.Select[Any] = sa.select(block, *fingerprint.provider_sums(dialects.of(conn)))
        _block_texts[key] = fingerprint.to_text(query.group_by(block), conn.dialect)
    sums = conn.exec_driver_sql(_block_texts[key])
    present = {row[0]: tuple([int(number or 0) for number in row[1:]]) for row in sums}
    known = old.blocks
    differing = {block for block in present.keys() | known.keys() if present.get(block) != known.get(block)}
    ids = None
    if len(differing) << BLOCK_BITS <= MANY:
        ids = [
            id_
            for block in sorted(differing)
            for id_ in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)
        ]
    read = read_rows(conn, ids)
    looked_at: Collection[int] = old.by_id.keys() if ids is None else [id_ for id_ in ids if id_ in old.by_id]
    removed = frozenset(id_ for id_ in looked_at if id_ not in read)
    changed = frozenset(id_ for id_, row in read.items() if old.by_id.get(id_) != row)
    rows = {**old.by_id, **read}
    for id_ in removed:
        del rows[id_]
    return RowChanges(Rows(rows, present), changed, removed)


# PERF: building these texts took a millisecond and a half of each refresh
_block_texts: dict[str, str] = {}
