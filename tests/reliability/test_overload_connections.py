# SPDX-License-Identifier: Apache-2.0
"""Clients that keep connections for themselves, in every way, beside one that is in a hurry."""

import contextlib
import re
import statistics
import time
import urllib.parse

import pytest

from osc_placement.server.db import upgrade
from osc_placement.server.db.engine import Database
from tests.functional import containers, servers
from tests.functional.packaging import test_etc
from tests.functional.server.test_metrics import fill
from tests.reliability import hostile, scale
from tests.reliability.clients import Claim, Client, make_provider

NUMBERS = (200, 1000) if scale.is_full() else (60,)
SECONDS = 20 if scale.is_full() else 2
#: providers, whose list is more than the system keeps of an answer for a client that does not read; with many
#: more, what is measured is how long it takes to make the answers
PROVIDERS = 1000
#: seconds that an answer may take whoever else is there; threads that wait for clients make it 5 and more
PATIENCE = 3


@contextlib.contextmanager
def serving(directory, database):
    """Serve a database with `placement-server serve`."""
    with servers.running(directory, "--database", database) as server:
        yield server.url


@contextlib.contextmanager
def serving_behind_nginx(directory, database):
    """Serve a database with uWSGI and nginx, both configured as in etc/, but without TLS.

    nginx limits the connections of an address, and here all clients have the same: the limit is higher.
    """
    test_etc.write_conf(directory)
    port, behind = containers.find_free_port(), containers.find_free_port()
    uwsgi = test_etc.make_command("uwsgi.ini", test_etc.place("uwsgi.ini", directory, behind))
    environment = servers.make_environment(OS_PLACEMENT_DATABASE__CONNECTION=database)
    text = re.sub(r"(?m)^ *ssl_.*\n", "", test_etc.NGINX.read_text())
    for there, here in (
        ("listen 443 ssl ", f"listen 127.0.0.1:{port} "),
        ("server 127.0.0.1:8778", f"server 127.0.0.1:{behind}"),
        ("placement_clients 256", "placement_clients 2000"),
    ):
        assert there in text
        text = text.replace(there, here)
    places = "".join(f"{name}_temp_path {directory}/{name};\n" for name in test_etc.TEMPORARY)
    main = directory / "nginx.conf"
    main.write_text(
        f"daemon off;\npid {directory}/nginx.pid;\nevents {{ worker_connections 4096; }}\n"
        f"http {{\naccess_log off;\n{places}{text}}}\n"
    )
    nginx = [test_etc.find_nginx(), "-e", directory / "error.log", "-p", directory, "-c", main]
    with (
        containers.running(uwsgi, directory, environment, behind),
        containers.running(nginx, directory, servers.make_environment(), port),
    ):
        yield f"http://127.0.0.1:{port}"


WAYS = {"serve": serving, "behind nginx": serving_behind_nginx}


@pytest.fixture(scope="module", params=WAYS if scale.is_full() else ["serve"])
def url(request, tmp_path_factory):
    """The URL of a server with a list that is long."""
    directory = tmp_path_factory.mktemp("hostile")
    connection = f"sqlite:///{directory}/placement.db"
    database = Database(connection)
    upgrade.upgrade(database)
    fill(database, PROVIDERS)
    database.dispose()
    with WAYS[request.param](directory, connection) as made:
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


@pytest.mark.parametrize(
    ("kind", "number"),
    # a flood keeps both processors busy, however many clients it comes from
    [
        (name, number)
        for name, kind in hostile.KINDS.items()
        for number in ((32,) if kind.floods else NUMBERS)
    ],
)
def test_idle_connections_do_not_delay_other_clients(url, kind, number, capsys):
    """There are more of them than threads, and another client is answered as fast as without them."""
    parts = urllib.parse.urlsplit(url)
    alone = be_in_a_hurry(url) if scale.is_full() else []
    with hostile.attacking(kind, number, parts.hostname, parts.port):
        time.sleep(SECONDS / 4)
        beside = be_in_a_hurry(url)
    if scale.is_full():
        with capsys.disabled():
            print(f"\n{report('alone', alone)}\n{report(f'{number} x {kind}', beside)}")
    assert max(beside) < PATIENCE
