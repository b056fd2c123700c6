# SPDX-License-Identifier: Apache-2.0
"""The search for providers whose rows changed since the last snapshot, reading as little as possible.

1. Read the rows that this server changed last. If they account for the whole difference between the sums of
   the fingerprints, nothing else changed, and it does not matter if the order by time is wrong: each host
   uses its own clock, and a transaction may be committed long after the time it records.
2. Otherwise compare providers in blocks of ids, by the same sums, and row by row in the blocks that differ.

PERF: with eight clients that claim, the first step took 0.6 ms of processor time, and the second 2.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from osc_placement.server.db import dialects
from osc_placement.server.db.own_tables import provider_revisions
from osc_placement.server.db.tables import resource_providers
from osc_placement.server.snapshot import fingerprint
from osc_placement.server.snapshot.rows import Row, read_last_changed, read_rows

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.dialects import Dialect
    from osc_placement.server.snapshot.fingerprint import Fingerprint, Numbers

#: the number of low bits of an id that distinguish the providers of a block, whose sums are compared together
BLOCK_BITS: Final = 5
#: with more ids than this, reading everything costs as much, and databases limit the number of parameters
MANY: Final = 4000
#: the number of rows to read, those that were changed last
_RECENT: Final = 8


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of all providers, by id, and their sums by block."""

    by_id: Mapping[int, Row]
    blocks: Mapping[int, Numbers]

    @classmethod
    def of(cls, by_id: Mapping[int, Row]) -> Rows:
        """Return the rows with their sums."""
        blocks: dict[int, list[Numbers]] = {}
        for row in by_id.values():
            blocks.setdefault(row.id >> BLOCK_BITS, []).append(_numbers(row))
        return cls(by_id, {block: _sum(numbers) for block, numbers in blocks.items()})


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The rows as they are now, with the ids of those that are new or changed, and of those deleted."""

    rows: Rows
    changed: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()


def find_changed_rows(
    conn: Connection, old: Rows, before: Fingerprint, taken: Fingerprint, *, revisions_kept: bool
) -> RowChanges:
    """Find what changed since the rows ``old`` were read together with the fingerprint ``before``."""
    if (taken.providers, taken.revisions) == (before.providers, before.revisions):
        return RowChanges(old)
    recent = _find_recent(conn, old, before, taken) if revisions_kept else None
    return recent or _compare_blocks(conn, old, revisions_kept)


def _numbers(row: Row) -> Numbers:
    """Return the values that a row adds to the sums of the fingerprint."""
    of_row = fingerprint.provider_numbers(row.id, row.generation, row.hash)
    return 1, *of_row, *fingerprint.revision_numbers(row.revision, row.changed_at)


def _sum(numbers: Iterable[Numbers]) -> Numbers:
    return tuple(map(sum, zip(*numbers, strict=True)))


def _find_recent(conn: Connection, old: Rows, before: Fingerprint, taken: Fingerprint) -> RowChanges | None:
    """Return the changes if this server made all of them, recently and to known providers; otherwise None."""
    last = read_last_changed(conn, _RECENT)
    read = {id_: row for id_, row in last.items() if id_ in old.by_id and old.by_id[id_] != row}
    differences = {id_: _difference(old.by_id[id_], row) for id_, row in read.items()}
    if _sum(differences.values()) != _between(before, taken):
        return None
    blocks = dict(old.blocks)
    for id_, difference in differences.items():
        block = id_ >> BLOCK_BITS
        blocks[block] = _sum((blocks[block], difference))
    return RowChanges(Rows({**old.by_id, **read}, blocks), frozenset(read))


def _difference(old: Row, new: Row) -> Numbers:
    return tuple(b - a for a, b in zip(_numbers(old), _numbers(new), strict=True))


def _between(before: Fingerprint, taken: Fingerprint) -> Numbers:
    """Return the increase of the sums of all rows, in the order of `_numbers`."""
    old, new = ((*taken_.providers, *taken_.revisions[:2]) for taken_ in (before, taken))
    return tuple(b - a for a, b in zip(old, new, strict=True))


def _compare_blocks(conn: Connection, old: Rows, revisions_kept: bool) -> RowChanges:
    known, present = old.blocks, _sum_blocks(conn, revisions_kept)
    differing = {block for block in present.keys() | known.keys() if present.get(block) != known.get(block)}
    ids = _ids_in(differing) if len(differing) << BLOCK_BITS <= MANY else None
    read = read_rows(conn, ids, revisions_kept)
    looked_at: Collection[int] = old.by_id.keys() if ids is None else [id_ for id_ in ids if id_ in old.by_id]
    removed = frozenset(id_ for id_ in looked_at if id_ not in read)
    changed = frozenset(id_ for id_, row in read.items() if old.by_id.get(id_) != row)
    rows = {**old.by_id, **read}
    for id_ in removed:
        del rows[id_]
    return RowChanges(Rows(rows, present), changed, removed)


def _ids_in(blocks: Iterable[int]) -> list[int]:
    return [id_ for block in sorted(blocks) for id_ in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS)]


def _sum_blocks(conn: Connection, revisions_kept: bool) -> dict[int, Numbers]:
    """Return the sums of each block of providers."""
    key = conn.dialect.name
    if key not in _block_texts:
        queries = _provider_blocks(dialects.of(conn)), _revision_blocks()
        _block_texts[key] = [fingerprint.to_text(query, conn.dialect) for query in queries]
    of_providers, of_revisions = _block_texts[key]
    sums = {row[0]: [int(number or 0) for number in row[1:]] for row in conn.exec_driver_sql(of_providers)}
    revisions: dict[int, tuple[int, int]] = {}
    if revisions_kept:
        revisions = {row[0]: (int(row[1]), int(row[2])) for row in conn.exec_driver_sql(of_revisions)}
    return {block: (*numbers, *revisions.get(block, (0, 0))) for block, numbers in sums.items()}


# PERF: building these texts took a millisecond and a half of each refresh
_block_texts: dict[str, list[str]] = {}


def _provider_blocks(dialect: Dialect) -> sa.Select[Any]:
    block = resource_providers.c.id.op(">>")(sa.literal_column(str(BLOCK_BITS)))
    return sa.select(block, *fingerprint.provider_sums(dialect)).group_by(block)


def _revision_blocks() -> sa.Select[Any]:
    own = provider_revisions.c
    block = own.provider_id.op(">>")(sa.literal_column(str(BLOCK_BITS)))
    # revisions of deleted providers do not count
    present = provider_revisions.join(resource_providers, resource_providers.c.id == own.provider_id)
    return sa.select(block, *fingerprint.revision_sums()).select_from(present).group_by(block)
