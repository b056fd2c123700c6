# SPDX-License-Identifier: Apache-2.0
"""A connection of a client: the bytes that have arrived and those that wait to be sent.

No function here waits for a socket. gunicorn parses the requests and formats the answers; this module only
detects when a request is complete, so that parsing and reading it never wait.
"""

from __future__ import annotations

import contextlib
import enum
import ipaddress
import re
import socket
import struct
import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.errors import InvalidRequestLine, LimitRequestHeaders, LimitRequestLine, NoMoreData
from gunicorn.http.message import Request
from gunicorn.http.unreader import Unreader

from osc_placement.server.process import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from osc_placement.server.process.tls import TlsSocket

#: bytes to read from a socket at once
_READ_SIZE: Final = 64 << 10
#: bytes of a body to pass to gunicorn at once; it copies the rest of a piece each time it takes a part
_PIECE: Final = 16 << 10
#: pieces of an answer to send at once; systems allow 1024 at most
_VECTOR: Final = 64
#: the limit, in bytes, on the line with the size of a chunk, and on the headers after the last chunk
_LONGEST_CHUNK_LINE: Final = 4 << 10
_LARGEST_TRAILER: Final = 32 << 10
#: the number of chunks of a body that may be smaller than this many bytes; clients send some KiB at once
_MOST_SMALL_CHUNKS: Final = 1000
_SMALL_CHUNK: Final = 256
#: the limit, in bytes, on a body in chunks, including their sizes and line ends
_LARGEST_CHUNKED: Final = limits.LARGEST_BODY + (1 << 20)

_CHUNK_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?")
#: the headers after the last chunk, and a line end that is none; gunicorn is stricter, but only reads a body
#: that the application wants, and other parsers in front may take such a line end for one
_TRAILER: Final = re.compile(rb"(?:[-!#$%&'*+.^`|~\w]+:[^\0\r\n]*\r\n)*\r\n")
_BARE_LINE_END: Final = re.compile(rb"(?<!\r)\n|\r[^\n]")
#: the bytes of a request line that belong to text which is not percent-encoded
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
#: the value of SO_LINGER that discards unsent bytes at once
_RESET: Final = struct.pack("ii", 1, 0)
_HTTP_1_1: Final = (1, 1)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class State(enum.Enum):
    """The owner of a connection, and what the connection waits for."""

    #: the loop owns it: no part of a request has arrived
    IDLE = enum.auto()
    #: the loop owns it: a part of a request has arrived
    ARRIVING = enum.auto()
    #: a thread owns it, or will as soon as one is free
    SERVED = enum.auto()
    #: the loop owns it, and sends the bytes that the client has not read yet
    SENDING = enum.auto()
    #: the loop owns it: all is sent, and further bytes of the client are discarded
    CLOSING = enum.auto()


class Connection:
    """A connection, which at any time is owned by either the loop or one thread, depending on its state.

    The lock guards the state and `watched` where the loop and a thread may both change them. Only the owner
    uses the other attributes.
    """

    def __init__(self, sock: socket.socket | TlsSocket, client: Any, server: Any, now: float) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.client = client
        self.server = server
        #: the address and the origin of the client: see `split_address`
        self.address, self.origin = split_address(client)
        self.lock = threading.Lock()
        self.state = State.IDLE
        #: the time when the state began, or when bytes were last sent in it
        self.since = now
        #: the events that the loop's selector waits for; only the loop changes them
        self.events = 0
        #: whether the loop waits for input; false once bytes arrived while a thread owned the connection
        self.watched = True
        self.requests = 0
        self.request: Any = None
        #: the reader of the body of the request, if the body is in chunks
        self.reader: _Watched | None = None
        #: the rest of an answer: a function that sends a part of it and returns whether that was the last
        self.unfinished: Any = None
        #: whether the connection is closed after this answer
        self.closes_after = False
        #: the time since which an answer waits for the client, and the bytes sent since then
        self.waits_since = 0.0
        self.sent = 0
        #: the bytes kept for the connection, as the loop has counted them
        self.counted = 0
        self._incoming = bytearray()
        self._searched = 0
        self._body: _Framing | None = None
        self._body_kept = 0
        self._outgoing: deque[memoryview] = deque()
        self.unsent = 0

    @property
    def kept(self) -> int:
        """Return the number of bytes that are kept in memory for the connection."""
        return len(self._incoming) + self._body_kept + self.unsent

    @property
    def has_more(self) -> bool:
        """Return whether bytes of the next request have arrived already."""
        return bool(self._incoming)

    def receive(self) -> bool:
        """Read the bytes that have arrived; return False if the client has closed its side."""
        try:
            data = self.sock.recv(_READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self.state is not State.CLOSING:
            self._incoming += data
        return bool(data)

    def has_begun(self) -> bool:
        """Return whether a part of a request has arrived, without the line ends that may precede it."""
        if self.request is None:
            while self._incoming.startswith(b"\r\n"):
                # some clients send an extra line end after a body
                del self._incoming[:2]
        return bool(self._incoming) and self._incoming != b"\r"

    def find_request(self, cfg: Any) -> bool:
        """Parse the bytes that have arrived; return True if `request` is now a complete request.

        A request with a body of a forbidden length is complete without its body: the application refuses it
        because of the length. So is one with a body in chunks that is too long or malformed, which the
        application notices when it reads the body. Such a request is the last of its connection.

        :raises Exception: gunicorn's error for malformed requests
        """
        if self.request is None and not self._parse_head(cfg):
            return False
        assert self._body is not None
        end = self._body.find_end(self._incoming)
        if end is None:
            return False
        self.closes_after = self._body.is_cut
        self._complete(end)
        return True

    def end_body(self) -> bool:
        """Complete a request whose client has closed its side; return False if its head has not arrived.

        The application refuses the request, as its body is shorter than announced. It is the last of its
        connection.
        """
        if self.request is None:
            return False
        self.closes_after = True
        self._complete(len(self._incoming))
        return True

    def _complete(self, end: int) -> None:
        body = bytes(memoryview(self._incoming)[:end])
        del self._incoming[:end]
        self._body_kept = len(body)
        self.request.unreader.feed(body)
        self._body = None

    def _parse_head(self, cfg: Any) -> bool:
        incoming = self._incoming
        end = incoming.find(b"\r\n\r\n", max(0, self._searched - 3))
        line_end = incoming.find(b"\n", 0, limits.LARGEST_REQUEST_LINE + 2)
        if line_end < 0 and len(incoming) > limits.LARGEST_REQUEST_LINE:
            raise LimitRequestLine(len(incoming), limits.LARGEST_REQUEST_LINE)
        if (end if end >= 0 else len(incoming)) > limits.LARGEST_HEAD:
            raise LimitRequestHeaders("limit request headers fields size")
        if end < 0 and (line_end < 0 or incoming[line_end - 1 : line_end] == b"\r"):
            self._searched = len(incoming)
            return False
        # without the empty line, gunicorn reports the error in the first line
        head_end = end + 4 if end >= 0 else len(incoming)
        self._searched = 0
        self.requests += 1
        source = _Arrived(_escape_target(bytes(memoryview(incoming)[:head_end])))
        del incoming[:head_end]
        try:
            request = self.request = Request(cfg, source, self.client, self.requests)
        except (StopIteration, NoMoreData) as error:
            raise InvalidRequestLine("incomplete") from error
        reader = request.body.reader
        if isinstance(reader, ChunkedReader):
            self._body = _Chunks()
            self.reader = _Watched(reader)
            request.body = Body(self.reader)
        else:
            length = reader.length if isinstance(reader, LengthReader) else 0
            if not isinstance(reader, LengthReader):
                # no header announces a body, and gunicorn would read to the end of the connection
                request.body = Body(LengthReader(source, 0))
            self._body = _Length(length)
        if (
            request.version >= _HTTP_1_1
            and not self._incoming
            and not self._body.is_cut
            and any(name == "EXPECT" and value.lower() == "100-continue" for name, value in request.headers)
        ):
            self.put(_CONTINUE)
            self.send()
        return True

    def put(self, data: bytes) -> None:
        """Keep bytes until they can be sent."""
        if data:
            self._outgoing.append(memoryview(data))
            self.unsent += len(data)

    def send(self) -> bool:
        """Send as much as the client accepts; return False if it has gone."""
        while self._outgoing:
            try:
                count = self.sock.sendmsg(islice(self._outgoing, _VECTOR))
            except BlockingIOError:
                return True
            except OSError:
                return False
            self.unsent -= count
            self.sent += count
            while count:
                first = self._outgoing[0]
                if count < len(first):
                    self._outgoing[0] = first[count:]
                    break
                count -= len(first)
                self._outgoing.popleft()
        return True

    def end_request(self) -> None:
        """Drop the answered request; set `closes_after` if the end of its body is not certain."""
        self.request = None
        if self.reader is not None:
            # if gunicorn and this module disagree, the end of the body is not certain
            self.closes_after = self.closes_after or self.reader.failed
            self.reader = None
        self._body_kept = 0

    def close(self) -> None:
        """Close the socket and drop all bytes; the system drops its own if the answer was not read."""
        if self.unsent:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.close()
        self._incoming.clear()
        self._outgoing.clear()
        self._body_kept = self.unsent = 0
        self.request = self._body = None


def _escape_target(head: bytes) -> bytes:
    """Return the head of a request with its target in ASCII, which gunicorn requires."""
    line, end, rest = head.partition(b"\r\n")
    parts = line.split(b" ", 2)
    if line.isascii() or len(parts) < 3:
        return head
    parts[1] = _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], parts[1])
    return b" ".join(parts) + end + rest


def split_address(client: Any) -> tuple[str, str]:
    """Return the address of a client and its origin, by which the connections of one client are counted.

    The origin is the address, or the 64-bit network of an IPv6 address, since every client has such a
    network; both are empty for a Unix socket.
    """
    if not isinstance(client, tuple):
        return "", ""
    text: str = client[0]
    if ":" not in text:
        return text, text
    address = ipaddress.IPv6Address(text.partition("%")[0])
    if address.ipv4_mapped:
        return str(address.ipv4_mapped), str(address.ipv4_mapped)
    return str(address), str(ipaddress.IPv6Network((address, 64), strict=False))


class _Arrived(Unreader):  # type: ignore[misc]  # it has no annotations
    """A source of received bytes, from which gunicorn reads a request."""

    def __init__(self, head: bytes) -> None:
        super().__init__()
        self._pieces: Iterator[bytes] = iter((head,))

    def feed(self, body: bytes) -> None:
        """Add the body after the head has been read."""
        view = memoryview(body)
        self._pieces = (bytes(view[start : start + _PIECE]) for start in range(0, len(body), _PIECE))

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Return the next piece, empty at the end."""
        return next(self._pieces, b"")


class _Watched:
    """A wrapper of gunicorn's reader of chunks that records whether they were malformed."""

    def __init__(self, reader: Any) -> None:
        self.failed = False
        self._reader = reader

    def read(self, size: int) -> bytes:
        """Read as gunicorn's reader does."""
        try:
            data: bytes = self._reader.read(size)
        except Exception:
            self.failed = True
            raise
        return data


class _Length:
    """A body whose length a header announces."""

    def __init__(self, length: int) -> None:
        self.is_cut = length > limits.LARGEST_BODY
        self._length = length

    def find_end(self, data: bytearray) -> int | None:
        """Return the position of the end of the body, or None if it has not arrived."""
        if self.is_cut:
            return 0
        return self._length if len(data) >= self._length else None


class _Chunks:
    """A body in chunks."""

    def __init__(self) -> None:
        #: whether the position given as its end is not the end, because the body is malformed or too long
        self.is_cut = False
        self._position = 0
        self._number = 0
        self._in_trailer = False

    def find_end(self, data: bytearray) -> int | None:
        """Return the position of the end, or of an error that makes waiting pointless, or None to wait."""
        try:
            return self._find_end(data)
        except ValueError:
            self.is_cut = True
            return len(data)

    def _find_end(self, data: bytearray) -> int | None:
        while not self._in_trailer and self._position < len(data):
            end = data.find(b"\r\n", self._position, self._position + _LONGEST_CHUNK_LINE)
            if end < 0:
                if len(data) - self._position >= _LONGEST_CHUNK_LINE:
                    raise ValueError("the line of a chunk is too long")
                break
            match = _CHUNK_SIZE.fullmatch(data, self._position, end)
            if match is None or (self._position and not data.startswith(b"\r\n", self._position - 2)):
                raise ValueError("this is no chunk")
            size = int(match[1], 16)
            self._number += 1
            if self._number > _MOST_SMALL_CHUNKS + self._position // _SMALL_CHUNK:
                # the loop takes as long for each chunk as for thousands of bytes
                raise ValueError("the chunks are too small")
            self._in_trailer = size == 0
            self._position = end + 2 + (size + 2 if size else 0)
        if len(data) > _LARGEST_CHUNKED:
            raise ValueError("the chunks are too long")
        if not self._in_trailer:
            return None
        start = self._position
        if data.startswith(b"\r\n", start):
            return start + 2
        end = data.find(b"\r\n\r\n", start)
        if end >= 0 and _TRAILER.fullmatch(data, start, end + 4):
            return end + 4
        if end >= 0 or _BARE_LINE_END.search(data, start):
            raise ValueError("these are no headers")
        if len(data) - start > _LARGEST_TRAILER:
            raise ValueError("the headers after the chunks are too long")
        return None


_Framing = _Length | _Chunks


class Output:
    """A stand-in for the socket that gunicorn writes answers to; it accepts everything at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def sendall(self, data: bytes) -> None:
        """Keep the bytes, which the caller of gunicorn sends later."""
        self._connection.put(data)

    def send(self, data: bytes) -> int:
        """Keep the bytes, except for "100 Continue", which the client has received already."""
        if data != _CONTINUE:
            self._connection.put(data)
        return len(data)

    def gettimeout(self) -> float:
        """Return 0, as a non-blocking socket does."""
        return 0.0
