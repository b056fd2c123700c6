# SPDX-License-Identifier: Apache-2.0
"""Servers with several worker processes, on each kind of database that was asked for."""

import contextlib
from dataclasses import dataclass

import pytest

from tests import databases
from tests.functional import servers
from tests.reliability import scale, truth
from tests.reliability.clients import Client

WORKERS = 3


@pytest.fixture(scope="session", params=databases.BACKENDS)
def backend(request):
    """The kind of database; whoever uses this runs once for each that was asked for."""
    if request.param not in scale.databases(databases.BACKENDS):
        pytest.skip("another kind of database was asked for")
    return request.param


@dataclass(frozen=True)
class Service:
    """A server, and the database behind it."""

    url: str
    database: str
    log: object


@pytest.fixture(scope="session")
def _service(backend, tmp_path_factory):
    directory = tmp_path_factory.mktemp(f"reliability-{backend}")
    with databases.make_database(backend, directory) as database:
        arguments = ("--database", database, "--workers", WORKERS, "--threads", 8)
        with servers.running(directory, *arguments) as server:
            yield Service(server.url, database, server.log)


@pytest.fixture
def service(_service):
    """A server with several workers; what a test does to it must not make it complain."""
    before = len(_service.log.read_text())
    yield _service
    log = _service.log.read_text()[before:]
    assert "unexpected error" not in log
    assert "Traceback" not in log


@pytest.fixture
def client(service):
    """A client of the server."""
    with contextlib.closing(Client(service.url)) as made:
        yield made


@pytest.fixture
def check(service):
    """A function that asserts that the database is whole."""

    def check_(**exceptions):
        assert truth.find_problems(service.database, **exceptions) == []

    return check_
