# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate` whose run stops itself: it says why, and its status is neither success nor a signal."""

import json

import pytest

from osc_placement import client as placement
from osc_placement.batch import journal
from osc_placement.errors import PlacementError

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


@pytest.fixture
def full_disk(monkeypatch):
    """Journals are begun, and then nothing can be kept any more."""

    def refuse(_self, _outcome):
        raise journal.JournalError("the journal cannot be written: No space left on device")

    monkeypatch.setattr(journal.Journal, "end", refuse)


def test_mirror_that_halts_is_no_success(cloud, add_host, full_disk, migrate):
    """A service manager learns that it did not end as it is meant to, which is by a signal."""
    add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    done = migrate("aggregates", "--follow", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (3, "")
    assert "stopped: the journal cannot be written: No space left on device" in done.stdout


def test_all_migrations_end_with_the_one_that_halts(cloud, add_host, full_disk, migrate):
    """It is no interruption; why it stopped is told, and how to take back what was done."""
    add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    cloud.add_instance("h1")
    done = migrate("online_data_migrations")
    assert (done.returncode, done.stderr) == (2, "")
    assert "stopped: the journal cannot be written: No space left on device" in done.stdout
    assert "mirror_aggregates; undo it with: placement-migrate runs undo " in done.stdout
    assert "heal_allocations" not in done.stdout


@pytest.fixture
def refusing(monkeypatch):
    """Placement refuses to let anybody hold anything."""

    def refuse(*_arguments, **_options):
        raise PlacementError("No\nroom")

    for name in ("set_allocations", "set_many_allocations"):
        monkeypatch.setattr(placement.PlacementClient, name, refuse)


def test_first_failures_are_told_with_their_run(cloud, add_host, refusing, migrate):
    """A status of 2 comes with the reason; a cloud of failures is cut short, but not for programs."""
    add_host("h1")
    uuids = {cloud.add_instance("h1", flavor={"vcpus": 1, "memory_mb": 64, "root_gb": 1}) for _ in range(22)}
    done = migrate("online_data_migrations")
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith("Failed: heal_allocations of ")]
    assert (done.returncode, len(failed)) == (2, 20)
    assert "... and 2 more failed, which -f json has" in lines
    assert all(line.endswith(": No room") for line in failed)
    assert any(line.startswith("Run ") and ", heal_allocations; undo" in line for line in lines)
    document = json.loads(migrate("online_data_migrations", "-f", "json").stdout)
    assert {row["uuid"] for row in document["errors"]} == uuids
    assert [row["migration"] for row in document["runs"]] == ["heal_allocations"]
