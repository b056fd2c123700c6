# SPDX-License-Identifier: Apache-2.0
"""Change markers: a value that changes with every commit and costs a fraction of a millisecond at any size.

A marker is read before the data it belongs to, and compared with markers of the same connection only. If it
is *stable*, and the same marker is found later, all that was acknowledged until then is in the data.

SQLite: ``data_version`` exists for this purpose. A database in memory has one connection, which counts its
changes. PostgreSQL: two equal snapshots see the same transactions.

MariaDB: the highest transaction id, which InnoDB assigns when a transaction first writes and once more when
it commits; reading assigns none. The second assignment happens a moment before others see the commit, so a
marker may already count a transaction that the data do not show. A connection that commits is executing a
statement. If this connection is the only one that executes something, after the marker is read and before
the data are, there is no such transaction. This holds for tables of InnoDB and since MariaDB 10.3; before, a
transaction that only inserts is assigned no second id. It is not visible for the threads of replication, and
MySQL does not show its ids in this way.

A connection that always executes something, of a replica that follows or of the event scheduler, leaves no
marker of MariaDB stable: each check then reads the fingerprint, as it does while others are busy.

The markers of PostgreSQL and MariaDB also change when another database of the same server is written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from osc_placement.server.db import dialects

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

#: the first release whose InnoDB assigns an id to every commit
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
    """Return whether the database has change markers."""
    dialect: Any = connection.dialect
    if dialect.name in ("sqlite", "postgresql"):
        return True
    if not dialect.is_mariadb or dialect.server_version_info < _OLDEST:
        return False
    return connection.exec_driver_sql(_FOREIGN_TABLES).scalar() == 0


def read(connection: Connection) -> object:
    """Return the marker of a database that has them."""
    name = connection.dialect.name
    if name == "postgresql":
        return connection.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar()
    if name != "sqlite":
        return int(connection.exec_driver_sql(_HIGHEST_ID).one()[1])
    if dialects.is_memory(connection.engine.url):
        return connection.exec_driver_sql("SELECT total_changes()").scalar()
    return connection.exec_driver_sql("PRAGMA data_version").scalar()


def is_stable(connection: Connection) -> bool:
    """Return whether data read from now on show all that the marker counts, which was read just before."""
    if connection.dialect.name in ("sqlite", "postgresql"):
        return True
    status = {row[0]: row[1] for row in connection.exec_driver_sql(_WHO_IS_BUSY)}
    # the one thread is this connection, which asks
    alone = status.get("Threads_running") == "1"
    return alone and status.get("Slaves_running") == "0" and status.get("wsrep_connected", "OFF") == "OFF"
