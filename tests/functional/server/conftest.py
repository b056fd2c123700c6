# SPDX-License-Identifier: Apache-2.0
"""A database that hangs when a test says so."""

import contextlib
import socket
import threading

import pytest
import sqlalchemy as sa

from tests import databases


class Hanging:
    """A way to a database server that passes everything on, until it is told to keep or refuse it."""

    def __init__(self, server):
        """Listen."""
        self._server = server
        self._open = threading.Event()
        self._open.set()
        self.port = 0
        self._ends = []
        self._listen()

    def _listen(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def hang(self):
        """Keep from now on what comes."""
        self._open.clear()

    def go_on(self):
        """Pass on what was kept, and take connections again."""
        self._open.set()
        if self._listener.fileno() < 0:
            self._listen()

    def close(self):
        """End all connections and take no more of them, as a server does that is stopped."""
        with contextlib.suppress(OSError):
            # wakes the thread that accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        while self._ends:
            with contextlib.suppress(OSError):
                self._ends.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._server)
                self._ends += [client, server]
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
