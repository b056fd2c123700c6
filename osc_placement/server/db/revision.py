# SPDX-License-Identifier: Apache-2.0
"""The count of this server's changes of each provider, updated in the transaction that makes a change.

A provider's generation is not incremented when allocations on it are given back, or move to another provider.
A worker that keeps a snapshot (`server.snapshot`) has to know nevertheless for which providers the usage
changed, and whether another program changed something, which openstack-placement does not record. The columns
of the table, which has a row per provider, are

``revision``
    the number of changes of the provider by this server: of its row, inventories, traits, aggregates
    or usage; a change of the usage only counts `OF_USE`, any other 1. Servers of earlier releases count 1
    for claims too, and nothing for new names and for memberships below microversion 1.19;
``generation_moves``
    the number of increments of its generation by this server: the rest were made by other programs;
``consumers``
    the change that this server made to the sum of the weighted hashes of consumers (see `fingerprint`), each
    counted at one of the providers it has allocations on: the rest was made by other programs. Servers of
    earlier releases count consumers here, which looks like changes by other programs;
``changed_at``
    the time of the last change by this server, in microseconds of the clock of the host that made it: a hint
    where to search for changes first. After a restore from a backup, a provider whose changes are lost
    and that was changed as often again has a different time;
``contents_at``
    the time of the last change that was not of its usage only, so that the snapshot need not read again what
    claims do not change.

There is a row per provider, not one for all, because claims on different hosts must not wait for each other.
Rows are written last and by ascending id, after the locks on consumers and providers, so no deadlock can
occur.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from osc_placement.server.db import dialects
from osc_placement.server.db.own_tables import provider_revisions

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: the option of an engine that says that the table exists; without it this server counts nothing
KEPT: Final = "oscp_revisions_kept"
_ADDED: Final = "revision", "generation_moves", "consumers"
NO_CONSUMERS: Final[Mapping[str, int]] = {}

#: the amount that a change of usage adds to the revision
OF_USE: Final = 1 << 20


def weigh_consumer(generation: int | None) -> int:
    """Return the weight of the hash of a consumer at this generation in the fingerprint; None means deleted.

    A consumer without allocations yet, as openstack-placement creates it, counts twice.
    """
    if generation is None:
        return 0
    return 1 if generation else 2


def record(
    conn: Connection,
    *,
    moved: Collection[int] = (),
    touched: Collection[int] = (),
    consumers: Mapping[str, int] = NO_CONSUMERS,
    of_use_only: bool = False,
) -> None:
    """Count a change of providers, by id.

    :param moved: the providers whose generation is incremented by one
    :param touched: other providers that change
    :param consumers: by UUID, the change of the weight of a consumer in the fingerprint
    :param of_use_only: whether nothing but the usage of the providers changes
    """
    ids = sorted({*moved, *touched})
    if not ids or not conn.get_execution_options().get(KEPT):
        return
    now = time.time_ns() // 1000
    contents: dict[str, Any] = {} if of_use_only else {"contents_at": now}
    dialect = dialects.of(conn)
    weight = dialect.sum_hashes(conn, consumers)
    rows = [
        {
            "provider_id": id_,
            "revision": OF_USE if of_use_only else 1,
            "generation_moves": int(id_ in moved),
            "consumers": weight if id_ == ids[0] else 0,
            "changed_at": now,
            **contents,
        }
        for id_ in ids
    ]
    replaced = "changed_at", *contents
    conn.execute(dialect.adding_up(provider_revisions, added=_ADDED, replaced=replaced), rows)
