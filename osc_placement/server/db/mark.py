# SPDX-License-Identifier: Apache-2.0
"""Marks: something that is another after every commit, found out at any size in a fraction of a millisecond.

A mark is read before the data that it stands for, and compared with marks of the same connection only. If it
`is_settled`, whoever finds an equal one later knows that all that was acknowledged by then is in the data.

SQLite: ``data_version`` is made for this purpose. In memory there is one connection, which counts its
changes. PostgreSQL: two equal snapshots see the same transactions.

MariaDB: the highest transaction id, which InnoDB hands out when a transaction first writes and once more when
it commits; reading moves nothing. As the second comes a moment before others see the commit, a mark may
already count a transaction that the data do not show. Whoever commits is in the midst of a statement. So if
no connection but this one is, after the mark was read and before the data are, there is no such transaction.
Nothing tells so much of replication's threads, nor does MySQL of its ids.

The marks of PostgreSQL and MariaDB also change when another database of the same server is written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from osc_placement.server.db import dialects

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_HIGHEST_ID: Final = "SHOW GLOBAL STATUS LIKE 'Innodb_max_trx_id'"
_WHO_IS_BUSY: Final = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Slaves_running', 'wsrep_connected')"
)


def read(connection: Connection) -> object:
    """The mark of now; None if the database has none."""
    name = connection.dialect.name
    if name == "postgresql":
        return connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar()
    if name != "sqlite":
        found = connection.exec_driver_sql(_HIGHEST_ID).first()
        return found and int(found[1])
    if dialects.is_memory(connection.engine.url):
        return connection.exec_driver_sql("SELECT total_changes()").scalar()
    return connection.exec_driver_sql("PRAGMA data_version").scalar()


def is_settled(connection: Connection) -> bool:
    """Whether data that are read from now on show all that the mark counts, which was read just before."""
    if connection.dialect.name in ("sqlite", "postgresql"):
        return True
    status = {row[0]: row[1] for row in connection.exec_driver_sql(_WHO_IS_BUSY)}
    # this connection is busy with the question
    alone = status.get("Threads_running") == "1"
    return alone and status.get("Slaves_running") == "0" and status.get("wsrep_connected", "OFF") == "OFF"
