# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate` whose run stops itself: it says why, and its status is neither success nor a signal."""

import json
import re

import pytest

from osc_placement.api import client as placement
from osc_placement.batch import journal
from osc_placement.errors import PlacementError
from osc_placement.migrate.nova.notifications import Bell
from tests.functional.migrate.cloud import IRONIC

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


@pytest.fixture
def full_disk(monkeypatch):
    """Journals are begun, and then nothing can be kept any more."""

    def refuse(_self, _outcome):
        raise journal.JournalError("the journal cannot be written: No space left on device")

    monkeypatch.setattr(journal.Journal, "end", refuse)


def test_halted_mirror_exits_with_a_failure(cloud, add_host, full_disk, migrate):
    """A service manager learns that it did not end as it is meant to, which is by a signal."""
    add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    done = migrate("mirror-aggregates", "--follow", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (3, "")
    assert "stopped: the journal cannot be written: No space left on device" in done.stdout


@pytest.mark.parametrize(
    ("access", "options", "error"),
    [
        ((), ("--aggregate", "nosuch"), "Nova has no host aggregate nosuch"),
        (("--config-file", "/no/nova.conf"), (), "Failed to find some config files: /no/nova.conf"),
    ],
)
def test_mirror_of_a_wrong_nova_ends(client, migrate, access, options, error):
    """A service manager starts it again, or shows that it failed."""
    done = migrate(*access, "mirror-aggregates", "--follow", *options)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"placement-migrate: {error}\n")


def test_mirror_retries_a_refused_change_after_growing_pauses(
    cloud, add_host, client, migrate, migrate_json, monkeypatch
):
    """What is refused is tried after longer and longer pauses, and each of the runs is told."""
    add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    looks = iter(range(20))

    def wait(bell, _seconds):
        if next(looks, None) is None:
            bell._stop.set()

    def refuse(*_arguments, **_options):
        raise PlacementError("No way")

    monkeypatch.setattr(placement.PlacementClient, "set_provider_aggregates", refuse)
    monkeypatch.setattr(Bell, "wait", wait)
    done = migrate("mirror-aggregates", "--follow", "--interval", "60")
    assert (done.returncode, done.stdout.count("1 failed"), done.stdout.count("; to resume it: ")) == (
        0,
        1,
        1,
    )
    assert len(migrate_json("run", "list")[0]) == 1


def test_halted_migration_ends_the_ones_after_it(cloud, add_host, full_disk, migrate):
    """It is no interruption; why it stopped is told, and how to take back what was done."""
    add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    cloud.add_instance("h1")
    done = migrate("online_data_migrations")
    assert (done.returncode, done.stderr) == (2, "")
    assert "stopped: the journal cannot be written: No space left on device" in done.stdout
    assert re.search(
        "(?m)^Run .*, mirror-aggregates; .*; to undo it: placement-migrate --config-file ", done.stdout
    )
    assert "heal-allocations" not in done.stdout


@pytest.fixture
def without_flavors(cloud, add_host):
    """Aggregates can be mirrored and ratios carried, and then bare metal cannot be looked at."""
    add_host("h1")
    cloud.add_host("metal", nodes=["n1"], hypervisor_type=IRONIC)
    cloud.update("api", "ALTER TABLE flavors RENAME TO elsewhere")
    return cloud


def test_changes_are_reported_when_a_later_read_fails(without_flavors, migrate, migrate_json):
    """It is not nothing: the table and the runs are there with the reason, and the status is 2."""
    without_flavors.add_aggregate("dense", ["h1"], cpu_allocation_ratio="8.0")
    done = migrate("online_data_migrations", "--max-count", "2")
    assert (done.returncode, done.stderr) == (2, "")
    assert "stopped: nova's API database: there is no table flavors" in done.stdout
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("Run ")] == [
        "mirror-aggregates;",
        "carry-ratios;",
    ]
    assert [run["applied"] for run in migrate_json("run", "list")[0]] == [1, 1]


def test_failure_before_any_change_exits_with_255(without_flavors, migrate):
    """Then nothing was done, and the reason is all there is to say."""
    done = migrate("online_data_migrations")
    assert (done.returncode, done.stdout) == (255, "")
    assert "there is no table flavors" in done.stderr


@pytest.fixture
def refusing(monkeypatch):
    """Placement refuses to let anybody hold anything."""

    def refuse(*_arguments, **_options):
        raise PlacementError("No\nroom")

    for name in ("set_allocations", "set_many_allocations"):
        monkeypatch.setattr(placement.PlacementClient, name, refuse)


def test_failures_are_listed_with_their_run(cloud, add_host, refusing, migrate):
    """A status of 2 comes with the reason, of each of them where there is no terminal."""
    add_host("h1")
    uuids = {cloud.add_instance("h1", flavor={"vcpus": 1, "memory_mb": 64, "root_gb": 1}) for _ in range(22)}
    done = migrate("online_data_migrations")
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith("Failed: heal-allocations of ")]
    assert (done.returncode, len(failed)) == (2, 22)
    assert all(line.endswith(": No room") for line in failed)
    assert any(line.startswith("Run ") and ", heal-allocations; to resume it: " in line for line in lines)
    document = json.loads(migrate("online_data_migrations", "-f", "json").stdout)
    assert {row["uuid"] for row in document["errors"]} == uuids
    assert [row["migration"] for row in document["runs"]] == ["heal-allocations"]
