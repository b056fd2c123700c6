# SPDX-License-Identifier: Apache-2.0
"""A database that is there and does not answer: whoever waits for it is told so, and later served again."""

import sys
import time

import pytest
import requests
import sqlalchemy as sa

from osc_placement.server import errors
from osc_placement.server.db import dialects
from osc_placement.server.db.engine import Database
from tests import databases
from tests.functional import servers
from tests.functional.server.conftest import Hanging
from tests.functional.server.test_worker import TOKEN


@pytest.fixture(params=["mariadb", "postgresql"])
def on_the_way(request, tmp_path):
    """The URL of a database of each kind, and the way to it that can hang."""
    with databases.make_database(request.param, tmp_path) as text:
        url = sa.make_url(text)
        way = Hanging((url.host, url.port))
        try:
            yield url.set(host="127.0.0.1", port=way.port), way
        finally:
            way.go_on()
            way.close()


@pytest.fixture
def impatient(monkeypatch):
    """Time limits that tests can wait for."""
    monkeypatch.setattr(dialects.Dialect, "SILENT_SECONDS", {"read": 1, "write": 1})


def answer(connection):
    """The answer of a database to a question."""
    return connection.execute(sa.text("SELECT 1")).scalar()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("method", ["read", "write", "read_on_kept_connection"])
def test_transaction_on_a_hanging_database_fails_soon(on_the_way, method):
    """In a transaction of each kind, on a connection that was good; and when it goes on, so does all else."""
    url, way = on_the_way
    database = Database(url.update_query_dict({"connect_timeout": "2"}))
    call = getattr(database, method)
    call(answer)
    way.hang()
    with pytest.raises(errors.DatabaseUnavailable):
        call(answer)
    way.go_on()
    call(answer)
    database.dispose()


@pytest.mark.usefixtures("impatient")
def test_idle_connection_is_not_timed_out(on_the_way):
    """Nor is a transaction in which nothing is asked for long."""
    url, _ = on_the_way
    database = Database(url)

    def think(connection):
        first = connection.execute(sa.text("SELECT CONNECTION_ID()" if mysql else "SELECT pg_backend_pid()"))
        number = first.scalar()
        time.sleep(2.5)
        return number, answer(connection)

    mysql = url.get_backend_name() == "mysql"
    number, one = database.read(think)
    assert one == 1
    time.sleep(2.5)
    assert database.read(think)[0] == number
    database.dispose()


@pytest.mark.usefixtures("impatient")
def test_schema_changes_are_not_timed_out(on_the_way):
    """A statement that is longer than anybody else may wait."""
    url, _ = on_the_way
    database = Database(url)
    function = "SLEEP" if url.get_backend_name() == "mysql" else "pg_sleep"
    with database.engine.begin() as connection:
        connection.execute(sa.text(f"SELECT {function}(3)"))
        assert answer(connection) == 1
    database.dispose()


def test_requests_on_a_hanging_database_get_503(tmp_path, on_the_way):
    """They are answered with 503 and when to come again, and are served when it goes on."""
    url, way = on_the_way
    url = url.update_query_dict({"connect_timeout": "2"})
    code = (
        "import sys; from osc_placement.server.db import dialects; from osc_placement.server import main; "
        "dialects.Dialect.SILENT_SECONDS.update(read=1, write=1); sys.exit(main.main())"
    )
    arguments = ("--database", url.render_as_string(hide_password=False), "--workers", 1, "--threads", 2)
    with servers.running(tmp_path, *arguments, command=(sys.executable, "-c", code)) as server:
        way.hang()
        for _ in range(2):
            answered = requests.get(f"{server.url}/usages?project_id=x", headers=TOKEN, timeout=60)
            assert (answered.status_code, answered.headers["retry-after"]) == (503, "1")
        way.go_on()
        assert requests.get(f"{server.url}/usages?project_id=x", headers=TOKEN, timeout=60).status_code == 200
