# SPDX-License-Identifier: Apache-2.0
"""TLS for the connections of clients: the certificate, which may be replaced in service, and the socket."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gunicorn.sock import ssl_context

if TYPE_CHECKING:
    from collections.abc import Iterable

LOG = logging.getLogger(__name__)

#: the bytes of a record, which are encrypted and sent at once
_RECORD: Final = 16 << 10
#: the pieces of an answer that are looked at for one record
_PIECES: Final = 64
_PLAIN_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 45\r\n\r\n"
    b"This port takes HTTPS: write https:// instead"
)


class CannotUse(Exception):
    """An error: the certificate cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a command line names; without a certificate, clients speak plain HTTP.

    :ivar key: None if the key is in the file of the certificate
    """

    certificate: Path | None
    key: Path | None

    @property
    def scheme(self) -> str:
        """Return the scheme of the URL for clients."""
        return "https" if self.certificate else "http"

    def check(self) -> None:
        """Load the files; :raises CannotUse: they cannot be used, or there is only a key."""
        if self.certificate is not None:
            check(self.certificate, self.key)
        elif self.key is not None:
            raise CannotUse("--tls-key needs --tls-certificate, which names the file of its certificate")

    def make_settings(self) -> dict[str, str | None]:
        """Return the settings of gunicorn."""
        return {
            "certfile": str(self.certificate) if self.certificate else None,
            "keyfile": str(self.key) if self.key else None,
        }


def check(certificate: Path, key: Path | None) -> None:
    """Load a certificate and its key.

    :param key: None if the key is in the file of the certificate
    :raises CannotUse: a file cannot be read, the key is encrypted, or is not that of the certificate
    """

    def refuse() -> str:
        # otherwise OpenSSL would ask for it on the terminal
        raise CannotUse(f"The key in {key or certificate} is encrypted; decrypt it, with openssl pkey")

    for path in (certificate, key or certificate):
        try:
            path.open("rb").close()
        except OSError as error:
            raise CannotUse(f"{path} cannot be read: {error.strerror}") from error
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, refuse)
    except OSError as error:
        reason = getattr(error, "reason", None)
        if reason == "KEY_VALUES_MISMATCH":
            raise CannotUse(f"The key in {key} is not that of the certificate in {certificate}") from error
        what = f"{certificate} and {key} are" if key else f"{certificate} is"
        raise CannotUse(f"{what} no certificate with its key in PEM format") from error


class Tls:
    """A certificate of a worker, and a look at its files, which tells when to load the next one.

    New connections get the new certificate; open ones continue with the one they have. Only the loop of the
    worker calls it.
    """

    def __init__(self, cfg: Any) -> None:
        """Load the files that gunicorn's settings name; :raises CannotUse: they cannot be used."""
        self._cfg = cfg
        self._certificate = Path(cfg.certfile or cfg.keyfile)
        self._key = Path(cfg.keyfile) if cfg.certfile and cfg.keyfile else None
        self._loaded = self._look()
        check(self._certificate, self._key)
        self._context: ssl.SSLContext = ssl_context(cfg)

    def accept(self, sock: socket.socket) -> TlsSocket:
        """Return the socket of a new client; the handshake happens while it is read."""
        sock.setblocking(False)
        return TlsSocket(self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False))

    def refresh(self) -> Tls:
        """Return the certificate in the files, which is this one if they did not change or cannot be used."""
        present = self._look()
        if present == self._loaded:
            return self
        # so that files that cannot be used are logged once
        self._loaded = present
        found = load(self._cfg, self)
        if found is not self:
            LOG.info("the certificate in %s has been loaded again", self._certificate)
        return found

    def _look(self) -> list[tuple[int, int, int] | None]:
        """Return what changes when a file is written or replaced; None for one that is not there."""
        found: list[tuple[int, int, int] | None] = []
        for path in (self._certificate, self._key or self._certificate):
            try:
                state = path.stat()
                found.append((state.st_ino, state.st_size, state.st_mtime_ns))
            except OSError:
                found.append(None)
        return found


def load(cfg: Any, before: Tls | None) -> Tls:
    """Return the certificate that gunicorn's settings name; if it cannot be used, log why and keep the old.

    :raises CannotUse: it cannot be used, and there is none before
    """
    try:
        return Tls(cfg)
    except (CannotUse, OSError) as error:
        if before is None:
            raise
        refusal = str(error)
    LOG.error("the certificate that was loaded before stays in use: %s", refusal)
    return before


class TlsSocket:
    """A non-blocking TLS socket with those methods of a socket that `Connection` calls.

    As a plain socket, it raises BlockingIOError if it has to wait. A handshake whose messages the client does
    not read is not continued until the client sends something; the limit on the time of a request ends it.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        """Return the file descriptor, for a selector."""
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        """Choose whether calls wait."""
        self._sock.setblocking(flag)

    def setsockopt(self, *arguments: Any) -> None:
        """Set an option of the socket below."""
        self._sock.setsockopt(*arguments)

    def recv(self, size: int) -> bytes:
        """Return the bytes of at most one record; continue the handshake if it is not complete.

        OpenSSL reads one record at a time, so bytes that remain make the socket below readable.
        """
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error
        except ssl.SSLError as error:
            if error.reason == "HTTP_REQUEST":
                with contextlib.suppress(OSError):
                    socket.socket.send(self._sock, _PLAIN_ANSWER)
            raise

    def sendmsg(self, pieces: Iterable[memoryview]) -> int:
        """Send one record of the pieces; return the number of bytes.

        After BlockingIOError, OpenSSL requires the same bytes again, and more may follow them: the caller
        passes the pieces that it has not sent, so they begin with the same ones.
        """
        record = bytearray()
        for piece in islice(pieces, _PIECES):
            record += piece[: _RECORD - len(record)]
            if len(record) == _RECORD:
                break
        try:
            return self._sock.send(record)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def shutdown(self, how: int) -> None:
        """Announce the end of what is sent; bytes that are received afterwards are not decrypted."""
        self._announce_end()
        self._sock.shutdown(how)

    def close(self) -> None:
        """Close it, announcing the end to the client."""
        self._announce_end()
        self._sock.close()

    def _announce_end(self) -> None:
        # the answer of the client is not awaited; without a complete handshake there is nothing to announce
        with contextlib.suppress(OSError, ValueError):
            self._sock.unwrap()
