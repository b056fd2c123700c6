# SPDX-License-Identifier: Apache-2.0
"""Short runs of `linearizability`; ``tools/reliability linearizability --minutes 10`` makes the long ones."""

import os
import time

import pytest

from tests import databases
from tests.reliability import actors, galera, linearizability, scale
from tests.reliability.clients import Answer, Client


def run(arrangement, backend, capsys, *, seconds):
    """Run the program; return its exit status and what it printed."""
    minutes = os.environ.get(scale.MINUTES)
    seconds = 60 * float(minutes) if minutes else seconds
    options = ["--arrangement", arrangement, "--backend", backend, "--seconds", str(seconds)]
    status = linearizability.main(options)
    printed = capsys.readouterr().out
    if scale.is_full():
        with capsys.disabled():
            print(f"\n{printed}")
    return status, printed


@pytest.mark.usefixtures("database_url")
def test_two_servers_are_linearizable(backend, capsys):
    """Two servers on one database, each with two workers."""
    status, printed = run("alone", backend, capsys, seconds=2)
    assert status == 0, printed


@pytest.mark.usefixtures("database_url")
def test_servers_are_linearizable_beside_openstack_placement(backend, capsys):
    """It writes too; what our servers answer, and grant, is judged."""
    if backend != "mariadb" and not scale.is_full():
        pytest.skip("the short form is for MariaDB")
    databases.require_reference()
    status, printed = run("reference", backend, capsys, seconds=4)
    assert status == 0, printed


def test_servers_are_linearizable_on_two_cluster_nodes(capsys):
    """With reads that wait for what other nodes have committed."""
    if not scale.is_full():
        pytest.skip("the short form needs no cluster: see test_cluster")
    if "mariadb" not in scale.databases(("mariadb",)):
        pytest.skip("another kind of database was asked for")
    if obstacle := galera.find_obstacle():
        databases.skip_or_fail(f"no Galera cluster: {obstacle}")
    status, printed = run("galera", "mariadb", capsys, seconds=2)
    assert status == 0, printed


class Late(Client):
    """A client of a server that for a moment answers reads as it did before."""

    answers = {}

    def send(self, method, path, body=None):
        """Answer a read that was answered half a second ago in the same way."""
        if method != "GET":
            return super().send(method, path, body)
        at, answer = self.answers.get(path, (0, None))
        if time.monotonic() - at > 0.5:
            answer = super().send(method, path, body)
            self.answers[path] = time.monotonic(), answer
        return answer


class Boastful(Client):
    """A client of a server that grants what it cannot."""

    def send(self, method, path, body=None):
        """Answer each claim that is refused as if it were granted."""
        answer = super().send(method, path, body)
        is_refused = answer.status == 409 and path.startswith("/allocations")
        return Answer(204) if is_refused else answer


@pytest.mark.parametrize(("faulty", "kind"), [(Late, "stale"), (Boastful, "lost")])
def test_check_finds_the_errors_of_faulty_servers(faulty, kind, monkeypatch, capsys):
    """A check that finds nothing here would find nothing anywhere."""
    monkeypatch.setattr(actors, "Client", faulty)
    options = ["--backend", "sqlite", "--seconds", "3"]
    assert linearizability.main(options) == 1
    printed = capsys.readouterr().out
    assert f" 0 {kind}" not in printed.splitlines()[0]
