# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests over HTTP: servers of ours that run as long as the tests do."""

import contextlib

import pytest

from tests import databases
from tests.functional import servers


@pytest.fixture(scope="session")
def get_server(tmp_path_factory):
    """A function that returns the server on a kind of database; the first to ask has it started."""
    with contextlib.ExitStack() as started:
        running = {}

        def get(backend):
            if backend not in running:
                directory = tmp_path_factory.mktemp(f"server-{backend}")
                url = started.enter_context(databases.make_database(backend, directory))
                arguments = ("--database", url, "--workers", "2")
                # however the tests that use it start theirs
                server = servers.running(directory, *arguments, command=(servers.PROGRAM,))
                running[backend] = started.enter_context(server)
            return running[backend]

        yield get


@pytest.fixture(scope="session")
def server(backend, get_server):
    """A running server; whoever uses this runs once for each kind of database."""
    return get_server(backend)


@pytest.fixture(scope="session")
def server_url(get_server):
    """The URL of a running server on SQLite."""
    return get_server("sqlite").url
