# SPDX-License-Identifier: Apache-2.0
"""Sessions that read a database of nova, on every database server, refuse writes."""

import pytest
import sqlalchemy as sa

from osc_placement.migrate.nova.database import NovaDatabase
from osc_placement.migrate.nova.source import Unreadable
from tests import databases


@pytest.fixture(params=["mariadb", "postgresql"])
def database(request, tmp_path):
    """A database of nova without tables."""
    with databases.make_database(request.param, tmp_path) as url:
        database = NovaDatabase(url, "cell c")
        yield database
        database.close()


def test_session_stays_read_only_when_a_table_is_missing(database):
    """What goes wrong is rolled back, and the refusal to write must not go with it."""
    assert database.columns("no_such_table") == frozenset()
    with pytest.raises(Unreadable, match=r"(?i)read.?only"), database._reading() as connection:
        connection.execute(sa.text("CREATE TABLE made (number INTEGER)"))
