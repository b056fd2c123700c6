# SPDX-License-Identifier: Apache-2.0
"""What this server changed of each provider, counted in the transaction that changes it.

A provider's generation does not move when allocations on it are given back, or move to another provider. A
worker that keeps a snapshot (`current`) has to know of which providers the usage changed nevertheless, and
whether another program changed something, for openstack-placement keeps no such count. A row per provider
says

``revision``
    how often this server changed the provider or what is used of it: `OF_USE` for each change of nothing but
    its use, 1 for any other, so that the snapshot need not read again what claims leave as it is. Servers of
    before count 1 for claims too, whereupon all is read;
``generation_moves``
    how many of the moves of its generation are this server's: what the generation has moved beyond is
    somebody else's doing;
``consumers``
    how many consumers this server created less how many it deleted, each counted at one of the providers it
    holds something of: how many consumers there are beyond the sum is somebody else's doing;
``changed_at``
    when that was last, in microseconds of the clock of whoever made the change: a hint where to look first.

A row per provider, not one for all: writers that claim on different hosts must not wait for each other. Rows
are written last and by ascending id, below the locks on consumers and providers, so no circle can close.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from osc_placement.server.db import dialects
from osc_placement.server.db.own_tables import provider_revisions

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: the option of an engine that says that the table is there; without it this server is as any other program
KEPT: Final = "oscp_revisions_kept"


#: so many changes of other kinds between two looks would be taken for none
OF_USE: Final = 1 << 20


def record(
    conn: Connection,
    *,
    moved: Collection[int] = (),
    touched: Collection[int] = (),
    consumers: int = 0,
    of_use_only: bool = False,
) -> None:
    """Count a change of providers, by id.

    :param moved: the providers whose generation moves on by one
    :param touched: others that have more or less used of them now
    :param consumers: how many consumers come, less how many go
    :param of_use_only: whether no provider has anything else than before but what is used of it
    """
    ids = sorted({*moved, *touched})
    if not ids or not conn.get_execution_options().get(KEPT):
        return
    now = time.time_ns() // 1000
    rows = [
        {
            "provider_id": id_,
            "revision": OF_USE if of_use_only else 1,
            "generation_moves": int(id_ in moved),
            "consumers": consumers if id_ == ids[0] else 0,
            "changed_at": now,
        }
        for id_ in ids
    ]
    conn.execute(dialects.adding_up(conn.dialect.name, provider_revisions, replaced="changed_at"), rows)
