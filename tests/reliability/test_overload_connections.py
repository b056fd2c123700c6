# SPDX-License-Identifier: Apache-2.0
"""Clients that keep connections for themselves, in every way, beside one that is in a hurry."""

import contextlib
import statistics
import time
import urllib.parse

import pytest

from osc_placement.server.db import upgrade
from osc_placement.server.db.engine import Database
from tests.functional import servers
from tests.functional.server.test_metrics import fill
from tests.reliability import hostile, scale
from tests.reliability.clients import Claim, Client, make_provider

NUMBERS = (200, 1000) if scale.is_long() else (60,)
SECONDS = 20 if scale.is_long() else 2
#: providers, whose list is more than the system keeps of an answer for a client that does not read; with many
#: more, what is measured is how long it takes to make the answers
PROVIDERS = 1000
#: seconds that an answer may take whoever else is there; threads that wait for clients make it 5 and more
PATIENCE = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a list that is long."""
    directory = tmp_path_factory.mktemp("hostile")
    database = Database(f"sqlite:///{directory}/placement.db")
    upgrade.upgrade(database)
    fill(database, PROVIDERS)
    database.dispose()
    with servers.running(directory, "--database", f"sqlite:///{directory}/placement.db") as made:
        yield made


def be_in_a_hurry(url):
    """Read, claim and ask for life, on connections that stay and on new ones; the seconds each took."""
    taken = []
    with contextlib.closing(Client(url)) as staying:
        subject = make_provider(staying, 1_000_000)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.closing(Client(url)) as coming:
                for client in (staying, coming):
                    claim = Claim.of({subject: 1})
                    answers = [
                        claim.put(client),
                        client.send("GET", f"/resource_providers/{subject}/usages"),
                        client.send("GET", "/-/healthz"),
                    ]
                    assert [answer.status for answer in answers] == [204, 200, 200]
                    taken += [answer.seconds for answer in answers]
    return taken


def report(title, taken):
    """A line with the figures."""
    times = statistics.quantiles(taken, n=100)
    milliseconds = [1000 * seconds for seconds in (times[49], times[98], max(taken))]
    return f"{title:45} {len(taken):6} answers  p50 {{:6.1f}}  p99 {{:6.1f}}  longest {{:6.1f}} ms".format(
        *milliseconds
    )


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", hostile.KINDS)
def test_idle_connections_do_not_delay_other_clients(server, kind, number, capsys):
    """There are more of them than threads, and another client is answered as fast as without them."""
    parts = urllib.parse.urlsplit(server.url)
    alone = be_in_a_hurry(server.url) if scale.is_long() else []
    with hostile.attacking(kind, number, parts.hostname, parts.port):
        time.sleep(SECONDS / 4)
        beside = be_in_a_hurry(server.url)
    if scale.is_long():
        with capsys.disabled():
            print(f"\n{report('alone', alone)}\n{report(f'{number} x {kind}', beside)}")
    assert max(beside) < PATIENCE
