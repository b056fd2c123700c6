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
That is for tables of InnoDB, and since MariaDB 10.3; before, a transaction that only inserts has no second
id. Nothing tells so much of replication's threads, nor does MySQL of its ids.

A connection that always is in the midst of something, of a replica that follows or of the event scheduler,
leaves no mark of MariaDB settled: each look then reads, as where others are busy.

The marks of PostgreSQL and MariaDB also change when another database of the same server is written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from osc_placement.server.db import dialects

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: the first whose InnoDB hands out an id for every commit
_OLDEST: Final = (10, 3)
_FOREIGN_TABLES: Final = (
    "SELECT COUNT(*) FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'"
)
_HIGHEST_ID: Final = "SHOW GLOBAL STATUS LIKE 'Innodb_max_trx_id'"
_WHO_IS_BUSY: Final = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Slaves_running', 'wsrep_connected')"
)


def can_be_read(connection: Connection) -> bool:
    """Whether the database has marks."""
    dialect: Any = connection.dialect
    if dialect.name in ("sqlite", "postgresql"):
        return True
    if not dialect.is_mariadb or dialect.server_version_info < _OLDEST:
        return False
    return connection.exec_driver_sql(_FOREIGN_TABLES).scalar() == 0


def read(connection: Connection) -> object:
    """The mark of now, of a database that has them."""
    name = connection.dialect.name
    if name == "postgresql":
        return connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar()
    if name != "sqlite":
        return int(connection.exec_driver_sql(_HIGHEST_ID).one()[1])
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
