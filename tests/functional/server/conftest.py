# SPDX-License-Identifier: Apache-2.0
"""A database that hangs when a test says so."""

import contextlib
import socket
import threading

import pytest
import sqlalchemy as sa

from tests import databases


class Hanging:
    """A way to a database server that passes everything on, until it is told to keep it."""

    def __init__(self, server):
        """Listen."""
        self._server = server
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hang(self):
        """Keep from now on what comes."""
        self._open.clear()

    def go_on(self):
        """Pass on what was kept."""
        self._open.set()

    def close(self):
        """Take no more connections."""
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(65536):
                self._open.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def hanging(tmp_path):
    """The URL of a database, and the way to it that can hang."""
    with databases.make_database("mariadb", tmp_path) as text:
        url = sa.make_url(text)
        way = Hanging((url.host, url.port))
        try:
            yield url.set(host="127.0.0.1", port=way.port).render_as_string(hide_password=False), way
        finally:
            way.go_on()
            way.close()
