# SPDX-License-Identifier: Apache-2.0
"""Clients that keep connections for themselves: python -m tests.reliability.hostile KIND NUMBER HOST PORT

They connect again when a connection is closed, and go on until the process is ended. A line on stdout says
that all of them have begun.
"""

import contextlib
import random
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

HEAD = b"Host: placement\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: placement 1.39\r\n"
POST = b"POST /resource_providers HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\n"
LIST = b"GET /resource_providers HTTP/1.1\r\n" + HEAD + b"\r\n"
TRAITS = b"GET /traits HTTP/1.1\r\n" + HEAD + b"\r\n"
READY = b"GET /-/readyz HTTP/1.1\r\nHost: placement\r\n\r\n"
#: seconds between two things that a client does
PAUSE = 0.5


@dataclass(frozen=True)
class Kind:
    """One way to keep a connection busy."""

    #: what is sent at once, and what is sent again and again, and whether a little is read
    begins: bytes = b""
    goes_on: bytes = b""
    reads: bool = False
    #: connections that are closed and made again each second; None if they stay
    churn: int | None = None
    #: whether it is sent again as soon as it is answered
    floods: bool = False


KINDS = {
    "idle": Kind(),
    "half headers": Kind(LIST[:-2]),
    "trickled headers": Kind(LIST[:20], b"a"),
    "half body": Kind(POST + b'Content-Length: 1000\r\n\r\n{"name": "'),
    "trickled body": Kind(POST + b'Content-Length: 1000\r\n\r\n{"name": "', b"a"),
    "half chunk": Kind(POST + b'Transfer-Encoding: chunked\r\n\r\n80\r\n{"name": "'),
    "trickled chunks": Kind(POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "requests whose answers nobody reads": Kind(TRAITS * 100),
    "an answer that is read slowly": Kind(LIST, reads=True),
    "connections that come and go": Kind(LIST[:40], churn=20),
    "requests for readiness without a pause": Kind(READY, floods=True),
}


class Attack:
    """A number of connections of one kind."""

    def __init__(self, kind, number, address):
        self._kind = kind
        self._number = number
        self._address = address
        self._sockets = []

    def run(self):
        """Go on until the process is ended."""
        self._connect()
        print("begun", flush=True)
        while True:
            if self._kind.floods:
                self._flood()
            elif self._kind.churn:
                time.sleep(1 / self._kind.churn)
                self._close(random.choice(self._sockets))
            else:
                time.sleep(PAUSE)
                for sock in list(self._sockets):
                    self._go_on(sock)
            self._connect()

    def _connect(self):
        for _ in range(self._number - len(self._sockets)):
            sock = socket.socket()
            # the system takes little for whoever does not read
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            try:
                sock.connect(self._address)
                sock.setblocking(False)
                sock.send(self._kind.begins)
            except BlockingIOError:
                pass
            except OSError:
                sock.close()
                continue
            self._sockets.append(sock)

    def _go_on(self, sock):
        try:
            sock.send(self._kind.goes_on)
            # nobody reads in most kinds; whether the server has gone shows without that
            flags = 0 if self._kind.reads else socket.MSG_PEEK
            if not sock.recv(100, flags):
                self._close(sock)
        except BlockingIOError:
            pass
        except OSError:
            self._close(sock)

    def _flood(self):
        """Send the request on each connection whose answer has arrived, until one is closed."""
        with selectors.DefaultSelector() as selector:
            for sock in self._sockets:
                selector.register(sock, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    try:
                        if not key.fileobj.recv(4096):
                            raise ConnectionError
                        key.fileobj.send(self._kind.begins)
                    except OSError:
                        self._close(key.fileobj)
                        return

    def _close(self, sock):
        sock.close()
        self._sockets.remove(sock)


@contextlib.contextmanager
def attacking(kind, number, host, port):
    """Have such clients for as long as the context lasts."""
    command = [sys.executable, "-m", __name__, kind, str(number), host, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    Attack(KINDS[sys.argv[1]], int(sys.argv[2]), (sys.argv[3], int(sys.argv[4]))).run()
