# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.inventory: many providers at once, and what is kept, changed and dropped."""

import json
import threading

import pytest

from osc_placement import errors
from osc_placement.commands import inventory
from tests.unit.commands.shell import run
from tests.unit.fake_placement import FakePlacement, error

AGGREGATE = "c0ffee00-0000-4000-8000-0000000000a1"
UUIDS = [f"c0ffee00-0000-4000-8000-{number:012}" for number in range(1, 13)]


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
    return fake


def test_merging_changes_the_wanted_fields_only():
    """New classes come last; what was read is left as it is."""
    current = {"VCPU": {"total": 8, "reserved": 1}, "DISK_GB": {"total": 5}}
    merged = inventory.merge_inventories(current, {"VCPU": {"reserved": 2}, "MEMORY_MB": {"total": 64}})
    assert list(merged) == ["VCPU", "DISK_GB", "MEMORY_MB"]
    assert merged["VCPU"] == {"total": 8, "reserved": 2}
    assert current["VCPU"] == {"total": 8, "reserved": 1}


def test_an_aggregate_is_changed_in_one_request_for_each_provider(fake):
    """The list of providers has the generations already."""
    output, status = run(
        inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --resource VCPU=16 -f json"
    )
    assert status == 0
    assert [row["resource_provider"] for row in json.loads(output)] == UUIDS
    assert fake.lines[:2] == ["GET /", "GET /resource_providers"]
    assert sorted(fake.lines[2:]) == [f"PUT {path(uuid)}" for uuid in UUIDS]
    assert all(
        request.body == {"inventories": {"VCPU": {"total": 16}}, "resource_provider_generation": 7}
        for request in fake.asked[2:]
    )


def test_amending_reads_and_keeps_what_is_not_named(fake):
    """With the generation that was read with it."""
    run(inventory.SetInventory, fake.client(), f"{AGGREGATE} --aggregate --amend --resource VCPU:reserved=2")
    assert len(fake.lines) == 2 + 2 * len(UUIDS)
    written = [request.body for request in fake.asked if request.method == "PUT"]
    assert written == [
        document(8, 9, DISK_GB={"total": 5})
        | {"inventories": {"VCPU": {"total": 8, "reserved": 2}, "DISK_GB": {"total": 5}}}
    ] * len(UUIDS)


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


def test_failures_are_told_in_the_order_of_the_providers_and_counted(fake, caplog):
    """One line each, then how many; the others were changed nevertheless; no rows, as in the reference."""
    fake.on("PUT", path(UUIDS[10]), error(409, "resource provider generation conflict"))
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
    assert sum(line.startswith("PUT") for line in fake.lines) == 11


def test_several_providers_are_changed_at_the_same_time():
    """Eight wait for each other here; one after another, the first would wait for ever."""
    together = threading.Barrier(8)

    def change(uuid, generation):
        together.wait(timeout=10)
        return inventory.Outcome(uuid, dropped=(str(generation),))

    providers = [{"uuid": str(number), "generation": number} for number in range(16)]
    outcomes = inventory.change_all(providers, change)
    assert [(outcome.uuid, outcome.dropped) for outcome in outcomes] == [
        (str(n), (str(n),)) for n in range(16)
    ]


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
def test_dropped_inventories_are_told_on_a_terminal(fake, monkeypatch, caplog, terminal, options, warned):
    """Scripts find nothing on stderr that was not there before."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    _, status = run(inventory.SetInventory, fake.client(), f"{UUIDS[0]} {options} --resource VCPU=16")
    assert status == 0
    text = f"Removed the inventories of DISK_GB from resource provider {UUIDS[0]}; --amend keeps "
    assert [message.startswith(text) for message in caplog.messages] == ([True] if warned else [])


def test_a_typo_in_one_of_many_resources_asks_nothing(fake):
    """Nothing is half-written."""
    with pytest.raises(errors.UsageError):
        run(
            inventory.SetInventory,
            fake.client(),
            f"{AGGREGATE} --aggregate --resource VCPU=1 --resource VCPU=abc",
        )
    assert fake.asked == []
