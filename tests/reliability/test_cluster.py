# SPDX-License-Identifier: Apache-2.0
"""Servers on all nodes of a Galera cluster that loses and regains nodes while they are being claimed from."""

import contextlib
import random
import time
import uuid
from collections import Counter

import pytest

from tests.functional import servers
from tests.reliability import galera, scale, truth
from tests.reliability.clients import Claim, Client, make_provider, run_together
from tests.reliability.ledger import Ledger, work_until

PROVIDERS, TOTAL = 4, 60
GRANTED, REFUSED, LATER = 204, 409, 503


@pytest.fixture(scope="module")
def cluster():
    """Three nodes."""
    if "mariadb" not in scale.databases(("mariadb",)):
        pytest.skip("another kind of database was asked for")
    with galera.running() as made:
        yield made


@pytest.fixture(scope="module")
def urls(cluster, tmp_path_factory):
    """The URLs of a server on each node."""
    with contextlib.ExitStack() as started:
        made = []
        for number in range(galera.NODES):
            directory = tmp_path_factory.mktemp(f"node{number}")
            arguments = ("--database", cluster.url(number), "--workers", 2)
            made.append(started.enter_context(servers.launched(directory, *arguments)))
        yield [server.url for server in made]
        for server in made:
            assert server.stop() == 0
            # SQLAlchemy's pool tells at length of connections that it could not clean up
            assert "unexpected error" not in server.log.read_text()


@pytest.fixture
def client(urls):
    """A client of the server on the first node."""
    with contextlib.closing(Client(urls[0])) as made:
        yield made


def check_everywhere(cluster, ledger):
    """Every node has what was acknowledged by any, and nothing too much."""
    cluster.await_sync()
    for number in range(galera.NODES):
        database = cluster.url(number, is_causal=True)
        assert truth.find_problems(database) == []
        assert ledger.find_lost(database) == []
    statuses = {answer.status for answer in ledger.answers}
    assert statuses <= {GRANTED, REFUSED, LATER}
    for answer in ledger.answers:
        assert answer.status != LATER or answer.headers["retry-after"]


def check_served(urls, subject):
    """No server answers with an error any more."""
    scripts = [lambda client: [Claim.of({subject: 1}).put(client) for _ in range(10)] for _ in range(3)]
    answers = [answer for answers in run_together(urls, scripts) for answer in answers]
    assert [(answer.status, answer.body) for answer in answers if answer.status != GRANTED] == []


def test_provider_is_not_oversold_by_several_nodes(cluster, urls, client):
    """Row locks do not reach other nodes; what is judged on old facts is not certified, and judged again."""
    statuses = Counter()
    for _ in scale.rounds(1):
        subject = make_provider(client, 12)
        await_provider(urls, subject)
        claims = [Claim.of({subject: random.randint(1, 3)}) for _ in range(24)]
        answers = run_together(urls, [claim.put for claim in claims])
        ledger = Ledger()
        for claim, answer in zip(claims, answers, strict=True):
            ledger.note(answer, claim, "there")
        check_everywhere(cluster, ledger)
        statuses.update(answer.status for answer in answers)
        assert truth.used(cluster.url(0, is_causal=True))[subject] <= 12
    print(f"answers: {dict(statuses)}")
    assert statuses[GRANTED] > 0


def test_concurrent_moves_on_two_nodes_make_no_loop(cluster, urls, client):
    """Of two that are put below each other at once, and a child that one of them gets, nothing is torn."""
    statuses = Counter()
    for _ in scale.rounds(5):
        pair = [make_provider(client), make_provider(client)]
        for subject in pair:
            await_provider(urls, subject)
        child = {"name": str(uuid.uuid4()), "parent_provider_uuid": pair[0]}
        scripts = [
            lambda client, pair=pair: put_below(client, *pair),
            lambda client, pair=pair: put_below(client, *reversed(pair)),
            lambda client, child=child: client.send("POST", "/resource_providers", child).status,
        ]
        answers = run_together(urls, scripts)
        assert answers[:2].count(200) <= 1
        statuses.update(answers)
        cluster.await_sync()
        assert truth.find_problems(cluster.url(0, is_causal=True)) == []
    print(f"answers: {dict(statuses)}")
    assert statuses[200] > 0


def put_below(client, subject, parent):
    """Move a provider below another; the status."""
    body = {"name": subject, "parent_provider_uuid": parent}
    return client.send("PUT", f"/resource_providers/{subject}", body).status


def await_provider(urls, subject):
    """Wait until every node knows a provider: what one has committed the others apply a moment later."""
    for url in urls:
        with contextlib.closing(Client(url)) as client:
            while client.send("GET", f"/resource_providers/{subject}").status != 200:
                time.sleep(0.05)


def stop_and_join(cluster, number):
    """A node is ended in good order, and comes back."""
    cluster.nodes[number].stop()
    time.sleep(1)
    cluster.nodes[number].join()


def kill_and_join(cluster, number):
    """A node dies, and comes back."""
    cluster.nodes[number].kill()
    time.sleep(1)
    cluster.nodes[number].join()


def cut_and_mend(cluster, number):
    """Nothing comes through to a node for long enough that the others go on without it."""
    cluster.network.cut(number)
    time.sleep(6)
    cluster.network.mend(number)
    cluster.nodes[number].await_sync()


FAULTS = [kill_and_join, cut_and_mend, stop_and_join]


@pytest.mark.parametrize("fault", FAULTS if scale.is_full() else FAULTS[:2])
def test_node_restart_loses_no_acknowledged_write(cluster, urls, client, fault):
    """Errors are 503 or 409, and end when the cluster is whole; what was acknowledged is on every node."""
    for _ in scale.rounds(1):
        subjects = [make_provider(client, TOTAL) for _ in range(PROVIDERS)]
        untouched = make_provider(client, 1000)
        for subject in (*subjects, untouched):
            await_provider(urls, subject)
        number = random.randrange(galera.NODES)

        def choose(subjects=subjects):
            return dict.fromkeys(random.sample(subjects, 2), 1)

        def disturb(number=number):
            time.sleep(1)
            fault(cluster, number)
            time.sleep(1)

        ledger = work_until(urls, choose, disturb)
        print(f"answers: {dict(Counter(answer.status for answer in ledger.answers))}")
        check_everywhere(cluster, ledger)
        check_served(urls, untouched)
