# SPDX-License-Identifier: Apache-2.0
"""The way of a client's requests to the server, with faults at the requests that a schedule names.

The faults of a run are written as ``KIND@PLACE``, joined by commas; the places count the requests of the
client from 0. ``beaten`` and ``followed`` have the number of what another client does, as in ``beaten3@7``,
and ``late`` the number of requests of this client that overtake the late one.
"""

import contextlib
import re
from dataclasses import dataclass

import requests
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.errors import PlacementError
from osc_placement.server.testing import ADMIN, DIRECT_URL, WSGIAdapter
from tests.reliability.client_schedules.cloud import OTHER, RUN, Ledger

#: never arrives; is carried out, and its answer is lost; is refused with 503; times out, and is carried out
#: later; another client writes before it is carried out, or before its answer arrives
LOST, CUT, BUSY, LATE, BEATEN, FOLLOWED = "lost", "cut", "busy", "late", "beaten", "followed"
#: a proxy says that the request is too large
LARGE = "large"
KINDS = (LOST, CUT, BUSY, LATE, BEATEN, FOLLOWED, LARGE)
#: those of which there is one for each thing that others do
OF_OTHERS = (BEATEN, FOLLOWED)
_FAULT = re.compile(rf"({'|'.join(KINDS)})(\d*)@(\d+)")


@dataclass(frozen=True, order=True)
class Fault:
    """A fault at one request.

    :ivar place: the number of the request, from 0
    :ivar variant: see the module
    """

    place: int
    kind: str
    variant: int = 0

    def __str__(self):
        return f"{self.kind}{self.variant or ''}@{self.place}"


def format_faults(faults):
    """Return faults as text."""
    return ",".join(map(str, sorted(faults))) or "none"


def parse_faults(text):
    """Return the faults that `format_faults` wrote; raise ValueError for anything else."""
    found = []
    for each in text.split(",") if text != "none" else ():
        if not (match := _FAULT.fullmatch(each)):
            raise ValueError(f"{each!r} is no fault")
        found.append(Fault(int(match[3]), match[1], int(match[2] or 0)))
    return tuple(found)


@dataclass(frozen=True)
class Moment:
    """The cloud between two writes, and how far the journal was.

    :ivar contents: of the database
    :ivar ledger: of what was written up to then
    :ivar size: bytes of the journal when the last of these writes was carried out
    :ivar synced: those of them that were synchronized
    :ivar mark: what was in the file of the mark, None if there was none
    :ivar waiting: requests that were sent and are not carried out yet
    """

    contents: bytes
    ledger: Ledger
    size: int
    synced: int
    mark: str | None
    waiting: tuple


class World:
    """The server during one history, with everything that was written and sent.

    :param deeds: what other clients do, by number: functions of a client
    :param look: returns the size of the journal, how much of it is synchronized, and its mark
    :ivar moments: after each write
    :ivar log: a line for each request
    """

    def __init__(self, server, deeds=(), ledger=None, look=lambda: (0, 0, None)):
        self.server = server
        self._deeds = deeds
        self._look = look
        self.ledger = ledger or Ledger(server.read_cells())
        self.waiting = []
        self.moments = []
        self.log = []
        #: the number of the moment in which the last fault came
        self.last_fault = 0
        self.remember()

    def remember(self):
        """Remember this moment."""
        contents, ledger = self.server.save(), self.ledger.copy()
        waiting = tuple(request for _, _, request in self.waiting)
        self.moments.append(Moment(contents, ledger, *self._look(), waiting))

    def note(self, actor):
        """Note what an actor has written, if anything."""
        cells = self.server.read_cells()
        if cells != self.ledger.now:
            self.ledger.note(actor, cells)
            self.remember()

    def disturb(self, number):
        """Do what another client does."""
        deed = self._deeds[number % len(self._deeds)]
        with contextlib.suppress(PlacementError):  # what it is about may not be there
            deed(self.server.client)
        self.log.append(f"    another client: {getattr(deed, '__name__', deed)}")
        self.note(OTHER)

    def wait(self, wire, request, number):
        """Let a request wait until its client has sent so many others."""
        self.waiting.append([number, wire, request])
        self.remember()

    def deliver(self, *, everything=False):
        """Carry out the requests that have waited long enough."""
        for each in list(self.waiting):
            each[0] -= 1
            if each[0] < 0 or everything:
                self.waiting.remove(each)
                answer = each[1].carry_out(each[2])
                self.log.append(f"    late: {describe(each[2])}: {answer.status_code}")


def describe(request):
    """Return a request in a line."""
    body = request.body or b""
    text = body.decode() if isinstance(body, bytes) else body
    return f"{request.method} {request.path_url} {text}".rstrip()


class Wire(WSGIAdapter):
    """Takes the requests of one client to the server.

    :param actor: whom the ledger names
    :param has_bulk: whether the server has routes of its own, as openstack-placement has not
    :ivar stop: called with each request before anything else
    :ivar number: of requests so far
    """

    def __init__(self, world, faults=(), *, actor=RUN, has_bulk=True, stop=lambda text: None):
        super().__init__(world.server.application)
        self._world = world
        self._faults = {}
        for fault in faults:
            self._faults.setdefault(fault.place, {})[fault.kind] = fault.variant
        self._actor = actor
        self._has_bulk = has_bulk
        self.stop = stop
        self.number = 0

    def send(self, request, *_connection, **_options):
        """Take a request to the server, unless a fault prevents it."""
        self.stop(describe(request))
        faults = self._faults.get(self.number, {})
        said = "".join(f" [{kind}]" for kind in faults)
        self._world.log.append(f"{self.number:3} {describe(request)}{said}")
        self.number += 1
        self._world.deliver()
        if faults:
            self._world.last_fault = len(self._world.moments) - 1
        if BEATEN in faults:
            self._world.disturb(faults[BEATEN])
        if LOST in faults:
            raise requests.exceptions.ConnectionError("the connection broke")
        if BUSY in faults:
            return _answer(request, 503, "Service Unavailable")
        if LARGE in faults and request.method == "POST":
            return _answer(request, 413, "Request Entity Too Large")
        if LATE in faults:
            if request.method != "GET":
                self._world.wait(self, request, faults[LATE])
            raise requests.exceptions.ReadTimeout("timed out")
        answer = self.carry_out(request)
        self._world.log.append(f"    {answer.status_code}")
        if FOLLOWED in faults:
            self._world.disturb(faults[FOLLOWED])
        if CUT in faults:
            raise requests.exceptions.ConnectionError("the connection broke")
        return answer

    def carry_out(self, request):
        """Have the server carry a request out, and note what that changed."""
        # only services may reshape
        request.headers["X-Roles"] = "admin,service"
        if not self._has_bulk and request.path_url.startswith("/-/"):
            return _answer(request, 404, "Not Found")
        answer = super().send(request)
        if request.method != "GET":
            self._world.note(self._actor)
        return answer

    def client(self):
        """Return a client whose requests go this way."""
        transport = requests.Session()
        transport.mount(DIRECT_URL, self)
        transport.trust_env = False
        return PlacementClient(Session(auth=Token(DIRECT_URL, ADMIN), session=transport))


def _answer(request, status, reason):
    """Return the answer of a proxy."""
    answer = requests.Response()
    answer.status_code, answer.reason, answer.url, answer.request = status, reason, request.url, request
    answer._content = f"<html><title>{reason}</title></html>".encode()
    answer.headers["content-type"] = "text/html"
    return answer
