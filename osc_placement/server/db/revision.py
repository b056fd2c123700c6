# SPDX-License-Identifier: Apache-2.0
"""What this server changed of each provider, counted in the transaction that changes it.

A provider's generation does not move when allocations on it are given back, or move to another provider. A
worker that keeps a snapshot (`server.snapshot`) has to know of which providers the usage changed
nevertheless, and whether another program changed something, for openstack-placement keeps no such count. A
row per provider says

``revision``
    how often this server changed anything of the provider: its row, what it has and belongs to, or what is
    used of it; `OF_USE` for each change of nothing but its use, 1 for any other. Servers of before count 1
    for claims too, and nothing for new names and for memberships below microversion 1.19;
``generation_moves``
    how many of the moves of its generation are this server's: what the generation has moved beyond is
    somebody else's doing;
``consumers``
    by how much this server changed the sum of the weighted hashes of consumers (see `fingerprint`), each
    counted at one of the providers it holds something of: what the sum has changed beyond is somebody else's
    doing. Servers of before count consumers here, which looks like somebody else's doing;
``changed_at``
    when this server changed it last, in microseconds of the clock of whoever made the change: a hint where to
    look first. After a restore from a backup, a provider whose changes are lost and that was changed as often
    again has another time;
``contents_at``
    the same of the last change that was not of its use only, so that the snapshot need not read again what
    claims leave as it is.

A row per provider, not one for all: writers that claim on different hosts must not wait for each other. Rows
are written last and by ascending id, below the locks on consumers and providers, so no circle can close.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from osc_placement.server.db import dialects
from osc_placement.server.db.own_tables import provider_revisions

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: the option of an engine that says that the table is there; without it this server is as any other program
KEPT: Final = "oscp_revisions_kept"
_ADDED: Final = "revision", "generation_moves", "consumers"
NO_CONSUMERS: Final[Mapping[str, int]] = {}

#: what a change of use adds to the revision
OF_USE: Final = 1 << 20


def weigh_consumer(generation: int | None) -> int:
    """Return how often the fingerprint counts the hash of a consumer at this generation, None if it is gone.

    A consumer that holds nothing yet, as openstack-placement creates it, counts twice.
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

    :param moved: the providers whose generation moves on by one
    :param touched: others of which something changes
    :param consumers: by UUID, how much more often than before a consumer counts in the fingerprint
    :param of_use_only: whether no provider has anything else than before but what is used of it
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
