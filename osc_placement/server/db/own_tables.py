# SPDX-License-Identifier: Apache-2.0
"""Our own tables, which openstack-placement ignores; their names begin with ``oscp_``."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

#: the beginning of the names of all tables here
PREFIX = "oscp_"

#: see `writers`: the slots of the processes that write
writers = sa.Table(
    "oscp_writers",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("changed_at", sa.BigInteger, nullable=False),
    sa.Column("recent", sa.Text, nullable=False),
)

#: a row per provider that two nodes of a Galera cluster both write if they change its tree, or its aggregates
#: without its generation, at the same time; see `writers.collide`
collisions = sa.Table(
    "oscp_collisions",
    metadata,
    sa.Column("provider_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("count", sa.BigInteger, nullable=False),
)

#: one row with a random number, stored when the table is created: a database that is dropped and created
#: again has a different number
database_identity = sa.Table(
    "oscp_database_identity",
    metadata,
    sa.Column("identity", sa.BigInteger, primary_key=True, autoincrement=False),
)
