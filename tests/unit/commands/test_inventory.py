# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.inventory: many providers at once, and what is kept, changed and dropped."""

import json
import os
import signal
import threading
import time

import pytest

from osc_placement import codes, errors
from osc_placement.api import retry
from osc_placement.api.client import PlacementClient
from osc_placement.batch import journal
from osc_placement.commands import inventory
from osc_placement.model import Percent
from tests.unit.commands.shell import make, run
from tests.unit.fake_placement import FakePlacement, error

AGGREGATE = "c0ffee00-0000-4000-8000-0000000000a1"
UUIDS = [f"c0ffee00-0000-4000-8000-{number:012}" for number in range(1, 13)]


@pytest.fixture(autouse=True)
def isolated(tmp_path, monkeypatch):
    """Keep journals out of the home directory, and do not wait between attempts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(retry, "_LONGEST_PAUSE", 0.0)


def path(uuid):
    """The inventories of a provider."""
    return f"/resource_providers/{uuid}/inventories"


def document(total, generation=1, **others):
    """The inventories of a provider with some VCPU."""
    return {"inventories": {"VCPU": {"total": total}, **others}, "resource_provider_generation": generation}


@pytest.fixture
def fake():
    """An aggregate of twelve providers, each of which takes what it is given."""
    providers = [{"uuid": uuid, "name": uuid, "generation": 7} for uuid in UUIDS]
    fake = FakePlacement().on("GET", "/resource_providers", {"resource_providers": providers})
    for uuid in UUIDS:
        fake.on("GET", path(uuid), document(8, 9, DISK_GB={"total": 5}))
        fake.on("PUT", path(uuid), document(16, 10))
        fake.on("PUT", f"{path(uuid)}/VCPU", {"total": 16, "resource_provider_generation": 10})
    return fake


def test_merging_changes_the_wanted_fields_only():
    """New classes come last; what was read is left as it is."""
    current = {"VCPU": {"total": 8, "reserved": 1}, "DISK_GB": {"total": 5}}
    merged = inventory.merge_inventories(current, {"VCPU": {"reserved": 2}, "MEMORY_MB": {"total": 64}})
    assert list(merged) == ["VCPU", "DISK_GB", "MEMORY_MB"]
    assert merged["VCPU"] == {"total": 8, "reserved": 2}
    assert current["VCPU"] == {"total": 8, "reserved": 1}


def test_merging_makes_amounts_of_shares():
    """Of the total that is given, else of the one there is; without any there is no amount."""
    share = {"VCPU": {"reserved": Percent("10")}}
    assert inventory.merge_inventories({"VCPU": {"total": 64}}, share) == {
        "VCPU": {"total": 64, "reserved": 7}
    }
    given = {"VCPU": {"total": 8, **share["VCPU"]}}
    assert inventory.merge_inventories({"VCPU": {"total": 64}}, given) == {
        "VCPU": {"total": 8, "reserved": 1}
    }
    with pytest.raises(
        errors.UsageError, match="VCPU is a share of its total, so give the total too: VCPU:total="
    ):
        inventory.merge_inventories({}, share)


def test_a_share_without_a_total_is_refused_before_the_first_request():
    """Without --amend there is no total but the one that is given."""
    fake = FakePlacement()
    with pytest.raises(errors.UsageError, match="give the total too"):
        run(inventory.SetInventory, fake.client(), f"{UUIDS[0]} --resource VCPU:reserved=10%")
    assert fake.asked == []


@pytest.mark.parametrize("options", ["", "--dry-run"])
def test_a_share_of_nothing_fails_for_its_provider_alone(fake, options):
    """A provider of the aggregate without the class has no total of it."""
    fake.on("GET", path(UUIDS[3]), {"inventories": {}, "resource_provider_generation": 9})
    line = f"{AGGREGATE} --aggregate --amend --resource VCPU:reserved=10% {options}"
    with pytest.raises(errors.PlacementError, match="Failed to set inventory for 1 of 12 resource providers"):
        run(inventory.SetInventory, fake.client(), line)
    bodies = [request.body for request in fake.asked if request.method == "PUT"]
    assert [body["reserved"] for body in bodies] == ([] if options else [1] * 11)


def test_an_aggregate_is_changed_by_a_run_that_can_be_undone(fake):
    """The inventories are read, written with the generation that was read, and kept in a journal."""
    output, status = run(
        inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --resource VCPU=16 -f json"
    )
    assert status == 0
    rows = json.loads(output)
    assert [(row["resource_provider"], row["resource_class"], row["total"]) for row in rows] == [
        (uuid, "VCPU", 16) for uuid in UUIDS
    ]
    written = [request.body for request in fake.asked if request.method == "PUT"]
    assert [body["resource_provider_generation"] for body in written] == [9] * len(UUIDS)
    assert {tuple(body["inventories"]) for body in written} == {("VCPU",)}
    (recorded,) = journal.Journals().read_all()
    assert (recorded.header.selection, recorded.applied) == (f"aggregate {AGGREGATE}", len(UUIDS))
    # the command has no such option, so that a resume need not tell of it
    assert "concurrency" not in recorded.header.settings
    assert set(recorded.intents[UUIDS[0]].before.inventories) == {"VCPU", "DISK_GB"}


def test_an_aggregate_is_changed_by_one_request_after_the_other(fake, monkeypatch):
    """openstack-placement on SQLite cannot do two at once."""
    under_way, overlaps = threading.Lock(), []

    def request(self, *arguments, **settings):
        overlaps.append(not under_way.acquire(blocking=False))
        try:
            time.sleep(0.01)
            return send(self, *arguments, **settings)
        finally:
            if under_way.locked():
                under_way.release()

    send = PlacementClient._call
    monkeypatch.setattr(PlacementClient, "_call", request)
    run(inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --resource VCPU=16")
    assert len(overlaps) > 2 * len(UUIDS)
    assert not any(overlaps)


def test_the_server_says_what_is_wrong_with_an_inventory_without_a_total(fake, caplog):
    """In its own words, and nothing is changed."""
    for uuid in UUIDS:
        fake.on("PUT", path(uuid), error(400, "'total' is a required property"))
    with pytest.raises(errors.PlacementError, match="for 12 of 12 resource providers"):
        run(inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --resource VCPU:reserved=1")
    assert caplog.messages[0].endswith("'total' is a required property (HTTP 400).")


def test_amending_reads_and_keeps_what_is_not_named(fake):
    """With the generation that was read with it."""
    run(inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --amend --resource VCPU:reserved=2")
    written = [request.body for request in fake.asked if request.method == "PUT"]
    told = {(body["total"], body["reserved"], body["resource_provider_generation"]) for body in written}
    assert (told, len(written)) == ({(8, 2, 9)}, len(UUIDS))
    assert {line.rpartition("/")[2] for line in fake.lines if line.startswith("PUT")} == {"VCPU"}


@pytest.mark.parametrize("options", ["", "--amend"])
def test_a_dry_run_writes_nothing(fake, options):
    """It shows what would be written."""
    line = (
        f"{AGGREGATE} --aggregate --dry-run {options} --resource VCPU=16 -f value -c resource_class -c total"
    )
    output, status = run(inventory.SetInventory, fake.client(), line)
    assert output.splitlines() == (["VCPU 16", "DISK_GB 5"] if options else ["VCPU 16"]) * len(UUIDS)
    assert status == 0
    assert not any(line.startswith("PUT") for line in fake.lines)


def test_failures_are_reported_in_provider_order_with_a_count(fake, caplog):
    """One line each, then how many; the others were changed nevertheless; no rows, as in the reference."""
    fake.on("PUT", f"{path(UUIDS[10])}/VCPU", error(409, "resource provider generation conflict"))
    fake.on("GET", path(UUIDS[3]), (502, "<html>bad gateway</html>"))
    with pytest.raises(errors.PlacementError) as caught:
        run(inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --amend --resource VCPU=16")
    assert str(caught.value) == "Failed to set inventory for 2 of 12 resource providers."
    first, second = caplog.messages
    assert first.startswith(f"Failed to set inventory for resource provider {UUIDS[3]}: GET http")
    assert second == (
        f"Failed to set inventory for resource provider {UUIDS[10]}: "
        "resource provider generation conflict (HTTP 409)."
    )
    assert len({line for line in fake.lines if line.startswith("PUT")}) == 11


def test_an_interruption_ends_the_run_and_tells_how_to_go_on(fake, monkeypatch):
    """What is under way is finished, the rest is not begun, and the journal is closed."""
    written = []
    lock = threading.Lock()

    def interrupt(self, *arguments):
        with lock:
            written.append(arguments)
            if len(written) == 1:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
        return set_inventories(self, *arguments)

    set_inventories = PlacementClient.set_inventories
    monkeypatch.setattr(PlacementClient, "set_inventories", interrupt)
    command = make(inventory.SetInventory, fake.client())
    line = [AGGREGATE, "--aggregate", "--resource", "VCPU=16"]
    with pytest.raises(KeyboardInterrupt):
        command.run(command.get_parser("openstack").parse_args(line))
    (recorded,) = journal.Journals().read_all()
    assert 0 < recorded.applied == len(written) < len(UUIDS)
    told = command.app.stderr.getvalue()
    assert f"Run {recorded.header.id}; to resume it: openstack resource provider batch run resume" in told
    assert f"{len(UUIDS) - len(written)} skipped" in told


@pytest.mark.parametrize("terminal", [True, False])
def test_a_failure_on_a_terminal_tells_how_to_go_on(fake, monkeypatch, terminal):
    """Scripts find nothing on stderr that was not there before."""
    fake.on("PUT", path(UUIDS[10]), error(409, "in use"))
    command = make(inventory.SetInventory, fake.client())
    monkeypatch.setattr(command.app.stderr, "isatty", lambda: terminal, raising=False)
    line = [AGGREGATE, "--aggregate", "--resource", "VCPU=16"]
    with pytest.raises(errors.PlacementError, match="for 1 of 12 resource providers"):
        command.run(command.get_parser("openstack").parse_args(line))
    (recorded,) = journal.Journals().read_all()
    told = command.app.stderr.getvalue()
    assert (
        f"to undo it: openstack resource provider batch run undo {recorded.header.id}" in told
    ) is terminal
    assert terminal or not told


def test_a_provider_that_left_the_aggregate_is_not_written_after_a_conflict(fake):
    """Somebody removed it while the command was under way, which made the write a conflict."""
    left = UUIDS[0]
    providers = [{"uuid": uuid, "name": uuid, "generation": 7} for uuid in UUIDS]
    members = {"resource_providers": providers}
    fake.on("GET", "/resource_providers", members, members, {"resource_providers": []}, members)
    fake.on("PUT", path(left), error(409, "conflict", code=codes.CONCURRENT_UPDATE), document(16, 10))
    output, status = run(
        inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --resource VCPU=16 -f json"
    )
    assert status == 0
    assert {row["resource_provider"] for row in json.loads(output)} == {*UUIDS[1:]}
    assert fake.lines.count(f"PUT {path(left)}") == 1


def test_an_aggregate_without_providers_is_an_error():
    """With the words of the reference."""
    fake = FakePlacement().on("GET", "/resource_providers", {"resource_providers": []})
    with pytest.raises(errors.PlacementError) as caught:
        run(inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --resource VCPU=16")
    assert str(caught.value) == f"No resource providers found in aggregate with uuid {AGGREGATE}."


@pytest.mark.parametrize(
    ("terminal", "options", "warned"),
    [(True, "", True), (False, "", False), (True, "--amend", False), (True, "--dry-run", False)],
)
def test_dropped_inventories_are_told_on_a_terminal(fake, monkeypatch, terminal, options, warned):
    """Scripts find nothing on stderr that was not there before."""
    command = make(inventory.SetInventory, fake.client())
    monkeypatch.setattr(command.app.stderr, "isatty", lambda: terminal, raising=False)
    line = [UUIDS[0], *options.split(), "--resource", "VCPU=16"]
    assert command.run(command.get_parser("openstack").parse_args(line)) == 0
    told = " ".join(command.app.stderr.getvalue().split())
    text = f"Removed the inventories of DISK_GB from resource provider {UUIDS[0]}; --amend keeps what is not "
    assert told == (f"{text}named." if warned else "")


def test_amending_an_inventory_that_is_absent_needs_its_total():
    """The server would answer with the schema of its requests."""
    current = {"DISK_GB": {"total": 10}, "VCPU": {"total": 4}}
    with pytest.raises(errors.UsageError) as caught:
        inventory.amend_inventories(current, {"VCPUU": {"reserved": 1}})
    assert str(caught.value) == (
        "There is no inventory of VCPUU to amend, only of: DISK_GB, VCPU; to add it, give its total: "
        "--resource VCPUU:total=<number>"
    )
    amended = inventory.amend_inventories(current, {"VCPU": {"reserved": 1}, "PCPU": {"total": 2}})
    assert amended == {"DISK_GB": {"total": 10}, "VCPU": {"total": 4, "reserved": 1}, "PCPU": {"total": 2}}


@pytest.mark.parametrize("options", [[UUIDS[0]], [AGGREGATE, "--aggregate"]])
def test_inventories_are_set_where_standard_error_is_closed(fake, monkeypatch, options):
    """The interpreter has None in its place."""
    command = make(inventory.SetInventory, fake.client())
    monkeypatch.setattr("sys.stderr", None)
    command.app.stderr = None
    line = [*options, "--resource", "VCPU=16"]
    assert command.run(command.get_parser("openstack").parse_args(line)) == 0
    assert f"PUT {path(UUIDS[0])}" in fake.lines


def test_invalid_resource_sends_no_request(fake):
    """Nothing is half-written."""
    with pytest.raises(errors.UsageError):
        run(
            inventory.SetInventory,
            fake.client(),
            f"{AGGREGATE} --aggregate --resource VCPU=1 --resource VCPU=abc",
        )
    assert fake.asked == []
