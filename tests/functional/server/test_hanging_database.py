# SPDX-License-Identifier: Apache-2.0
"""A database that does not answer, or is gone: whoever waits for it is told so, and later served again."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
import sqlalchemy as sa

from osc_placement.server import errors
from osc_placement.server.db import dialects, engine, standard_names, upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.process.health import Health, Patience
from osc_placement.server.snapshot.current import Current
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


def fail_together(call, number=8):
    """Call a function by as many threads, which have to fail; the seconds until the last has."""

    def fail(_):
        with pytest.raises(errors.DatabaseUnavailable):
            call()

    start = time.monotonic()
    with ThreadPoolExecutor(number) as threads:
        list(threads.map(fail, range(number)))
    return time.monotonic() - start


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("state", ["loaded", "new"])
def test_all_that_wait_for_a_silent_database_are_told_together(on_the_way, monkeypatch, state):
    """One check finds out that it is silent; the others do not each wait for as long, one after the other."""
    url, way = on_the_way
    database = Database(url.update_query_dict({"connect_timeout": "2"}))
    upgrade.upgrade(database)
    current = Current(database)
    call = current.get if state == "loaded" else Health(database, current).get_ready
    if state == "loaded":
        current.get()
    else:
        database.dispose()
    way.hang()
    # a connection that breaks is replaced once, so 1 s and 2 s
    assert fail_together(call) < 6
    monkeypatch.setattr(engine, "DEAD_SECONDS", 0)
    assert fail_together(call) < 4
    way.go_on()
    call()
    database.dispose()


@pytest.mark.usefixtures("impatient")
def test_silent_database_is_not_asked_twice(on_the_way, monkeypatch):
    """Whoever has waited for as long as a statement may take is told, and no other connection is opened."""
    monkeypatch.setattr(engine, "DEAD_SECONDS", 0.5)
    url, way = on_the_way
    database = Database(url.update_query_dict({"connect_timeout": "5"}))
    for call in (database.read, database.write, database.read_on_kept_connection):
        call(answer)
        way.hang()
        assert fail_together(lambda call=call: call(answer), 1) < 4
        way.go_on()
    database.dispose()


def test_opening_a_connection_is_limited_whole(on_the_way):
    """Also if the server accepts it and says nothing; statements have their own limits after that."""
    url, way = on_the_way
    database = Database(url.update_query_dict({"connect_timeout": "2"}))
    way.hang()
    assert fail_together(lambda: database.read(answer), 1) < 8
    way.go_on()
    function = "SLEEP" if url.get_backend_name() == "mysql" else "pg_sleep"
    database.read(lambda connection: connection.execute(sa.text(f"SELECT {function}(3)")).all())
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


def configure(directory, url, **options):
    """The arguments of one worker that uses a database, whose tables are made, with these options."""
    database = Database(url)
    upgrade.upgrade(database)
    database.dispose()
    file = directory / "placement.conf"
    connection = url.render_as_string(hide_password=False)
    lines = [f"{name} = {value}" for name, value in {"connection": connection, **options}.items()]
    file.write_text("\n".join(["[api]", "auth_strategy = noauth2", "[placement_database]", *lines, ""]))
    return "--config-file", file, "--workers", 1


def ask(server, method, path, **arguments):
    """The status of an answer, and the seconds until it came."""
    start = time.monotonic()
    answered = requests.request(method, server.url + path, headers=TOKEN, timeout=60, **arguments)
    return answered.status_code, time.monotonic() - start


def test_writes_wait_for_a_database_that_comes_back(tmp_path, on_the_way):
    """As many as half of the threads, while reads and readiness are told at once that it is gone."""
    url, way = on_the_way
    arguments = configure(tmp_path, url)
    with servers.running(tmp_path, *arguments, "--threads", 4) as server, ThreadPoolExecutor(3) as threads:
        assert ask(server, "PUT", "/traits/CUSTOM_FIRST")[0] == 201
        way.close()
        waiting = [threads.submit(ask, server, "PUT", f"/traits/CUSTOM_{name}") for name in "AB"]
        time.sleep(2)
        for method, path in (("GET", "/traits"), ("GET", "/-/readyz"), ("PUT", "/traits/CUSTOM_C")):
            status, seconds = ask(server, method, path)
            assert status == 503
            assert seconds < 3
        assert not any(each.done() for each in waiting)
        way.go_on()
        assert [each.result()[0] for each in waiting] == [201, 201]
        assert ask(server, "GET", "/traits/CUSTOM_C")[0] == 404


def test_write_is_told_when_its_patience_is_over(tmp_path, on_the_way):
    """With 503, after the time that the operator allows."""
    url, way = on_the_way
    with servers.running(tmp_path, *configure(tmp_path, url, write_patience=2)) as server:
        way.close()
        status, seconds = ask(server, "PUT", "/traits/CUSTOM_A")
        assert status == 503
        assert 1 < seconds < 5


def test_wait_begins_when_a_silent_connection_has_failed():
    """The first failure may take longer than the patience."""
    calls = []

    def answer_late():
        calls.append(time.monotonic())
        if len(calls) == 1:
            time.sleep(1.2)
            raise errors.DatabaseUnavailable
        return "answer"

    assert Patience(1).repeat(answer_late, {"wsgi.multithread": True}) == "answer"


def test_request_is_not_told_of_a_commit_that_is_not_its_own(tmp_path, monkeypatch):
    """What is written before the first request is written again before the next."""
    database = Database(f"sqlite:///{tmp_path}/placement.db")
    upgrade.upgrade(database)
    health = Health(database, Current(database))

    def lose(_database):
        raise errors.OutcomeUnknown

    with monkeypatch.context() as patch:
        patch.setattr(standard_names, "synchronize", lose)
        with pytest.raises(errors.DatabaseUnavailable) as raised:
            health.get_ready()
    assert not isinstance(raised.value, errors.OutcomeUnknown)
    health.get_ready()
    database.dispose()


def test_commit_whose_outcome_is_unknown_is_not_repeated(monkeypatch):
    """The transaction may have been stored."""
    calls = []

    def lose():
        calls.append(time.monotonic())
        raise errors.OutcomeUnknown if len(calls) == 2 else errors.DatabaseUnavailable

    with pytest.raises(errors.OutcomeUnknown):
        Patience(60).repeat(lose, {"wsgi.multithread": True})
    assert len(calls) == 2
