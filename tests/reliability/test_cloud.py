# SPDX-License-Identifier: Apache-2.0
"""`tools/cloud`: a real nova on our server. The long form brings it up."""

import os
import subprocess

import pytest

from tests import databases
from tests.reliability import scale, truth
from tests.reliability.cloud import __main__ as tool
from tests.reliability.cloud import books, plane
from tests.reliability.cloud.storm import Storm


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A place where nothing is."""
    place = tmp_path / "cloud"
    monkeypatch.setattr(plane, "PLACE", place)
    monkeypatch.setattr(plane, "SCRIPTS", place / "services")
    monkeypatch.setattr(plane, "NAME", "osc_cloud_nothing")
    return place


def test_status_of_nothing(place, capsys):
    """Nothing is up, and the status says so."""
    assert tool.main(["status"]) == 1
    assert capsys.readouterr().out == "nothing is up\n"


def test_what_is_up_is_not_brought_up_again(place, capsys):
    """One line says what to do."""
    place.mkdir()
    assert tool.main(["up"]) == 1
    assert capsys.readouterr().err == (
        "tools/cloud: it is up, or was not taken down: tools/cloud status, tools/cloud down\n"
    )


def test_missing_rabbitmqctl_is_named(place, capsys, monkeypatch, tmp_path):
    """One line, and nothing is left."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(plane.NotPossible, match=r"^RabbitMQ: rabbitmqctl: No such file or directory$"):
        plane.make_accounts()
    assert not place.exists()


@pytest.mark.parametrize("number", ["0", "21", "-1", "some"])
def test_number_of_computes_is_checked(number, capsys):
    """From 1 to 20."""
    with pytest.raises(SystemExit):
        tool.main(["up", f"--computes={number}"])
    assert f"{number} is no number from 1 to 20" in capsys.readouterr().err


def test_processes_are_found_by_their_mark_and_ended(place):
    """Whoever started them; others are not."""
    plane.SCRIPTS.mkdir(parents=True)
    script = plane.SCRIPTS / "sleeper"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    with plane.start("sleeper") as process:
        assert plane.find_processes() == {"sleeper": [process.pid]}
        plane.stop("sleeper")
    assert plane.find_processes() == {}


@pytest.mark.skipif(
    not (scale.is_full() or (plane.is_installed() and "CI" not in os.environ)),
    reason="only where tools/cloud was up before, or in the long form, tools/reliability cloud --rounds 1",
)
@pytest.mark.filterwarnings(
    "ignore::PendingDeprecationWarning", "ignore::DeprecationWarning", "ignore:subprocess:ResourceWarning"
)
def test_real_nova_holds_what_it_should_through_a_kill_and_an_evacuation():
    """Ten boots and a killed worker; then a host dies, and is decommissioned by the printed commands."""
    if plane.PLACE.exists():
        pytest.skip("tools/cloud is up")
    line = [plane.environments.ROOT / "tools" / "cloud"]
    try:
        subprocess.run([*line, "up"], check=True)
        storm = Storm(1)
        storm.decommissions = 1
        booted = storm.run_round(["a worker of placement is killed"], [("boot", 10)])
        assert (dict(booted.done), booted.problems, books.read().compare()) == ({"boot": 1}, [], {})
        # the claims that the worker was about to make have failed
        placed = books.read().due
        assert 5 < len(placed) <= 10
        _, host = next(iter(placed))
        lost = storm.run_round(["placement is restarted"], [("host", host)])
        assert (dict(lost.done), lost.problems, books.read().compare()) == ({"host": 1}, [], {})
        assert any(line.startswith("openstack compute service delete") for line in lost.commands)
        assert len(books.read().due) == len(placed)
        for server in storm.users.list_servers():
            storm.users.delete(server)
        plane.await_that("end of the servers", lambda: not storm.users.list_servers())
        assert books.read().held == {}
    finally:
        subprocess.run([*line, "down"], check=True)
    assert plane.find_processes() == {}
    assert not plane.PLACE.exists()
    assert truth.rows(databases.find_server("mariadb"), f"SHOW DATABASES LIKE '{plane.NAME}%'") == []
