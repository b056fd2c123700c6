# SPDX-License-Identifier: Apache-2.0
"""A database that was filled by bulk inserts is like one that was filled by requests over months."""

import sqlalchemy as sa

from benchmarks import clouds
from benchmarks.fill import fill
from osc_placement.server.db import tables
from tests import databases


def test_mariadb_knows_the_sizes_of_the_tables_that_were_filled(tmp_path):
    """Otherwise it plans statements for empty tables until it counts them by itself, seconds later."""
    with databases.make_database("mariadb", tmp_path) as url:
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
        tables.metadata.create_all(engine)
        fill(url, clouds.PRODUCTION.with_trees(50))
        with engine.connect() as connection:
            status = connection.exec_driver_sql("SHOW TABLE STATUS").mappings().all()
    rows = {table["Name"]: table["Rows"] for table in status}
    assert rows["resource_providers"] == 50
    assert rows["allocations"] == 1500
