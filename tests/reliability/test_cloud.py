# SPDX-License-Identifier: Apache-2.0
"""`tools/cloud`: a real nova on our server. The long form brings it up."""

import subprocess
import time

import pytest
import sqlalchemy as sa

from tests import databases
from tests.reliability import scale
from tests.reliability.cloud import __main__ as tool
from tests.reliability.cloud import plane


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


@pytest.mark.skipif(not scale.is_long(), reason="only in the long form, tools/reliability cloud --rounds 1")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_ten_instances_hold_what_they_should_and_nothing_is_left():
    """Ten boots are ten allocations, their deletion leaves none, and `down` leaves nothing."""
    if plane.PLACE.exists():
        pytest.skip("tools/cloud is up")
    line = [plane.environments.ROOT / "tools" / "cloud"]
    try:
        subprocess.run([*line, "up"], check=True)
        connection = plane.connect()
        body = {
            "flavorRef": connection.compute.find_flavor("tiny", ignore_missing=False).id,
            "name": "ten",
            "networks": "none",
        }
        body |= {
            "imageRef": connection.image.find_image("empty", ignore_missing=False).id,
            "min_count": 10,
            "max_count": 10,
        }
        answer = connection.compute.post("/servers", json={"server": body}, microversion="2.96")
        assert answer.status_code == 202, answer.text
        servers = _await(connection, lambda found: all(each.status != "BUILD" for each in found))
        assert [each.status for each in servers] == ["ACTIVE"] * 10
        held = {each.id: each.compute_host for each in servers}
        assert _read_allocations(connection) == held
        for server in servers:
            connection.compute.delete_server(server)
        _await(connection, lambda found: not found)
        assert _read_allocations(connection) == {}
    finally:
        subprocess.run([*line, "down"], check=True)
    assert plane.find_processes() == {}
    assert not plane.PLACE.exists()
    engine = sa.create_engine(databases.find_server("mariadb"), poolclass=sa.pool.NullPool)
    with engine.connect() as left:
        assert left.exec_driver_sql(f"SHOW DATABASES LIKE '{plane.NAME}%%'").all() == []


def _await(connection, is_reached):
    """The servers, when they are as they should be."""
    give_up = time.monotonic() + plane.PATIENCE
    while not is_reached(found := list(connection.compute.servers(details=True))):
        assert time.monotonic() < give_up, found
        time.sleep(1)
    return found


def _read_allocations(connection):
    """The name of the provider that each consumer has allocations of."""
    return {
        consumer: provider.name
        for provider in connection.placement.resource_providers()
        for consumer in connection.placement.get(f"/resource_providers/{provider.id}/allocations").json()[
            "allocations"
        ]
    }
