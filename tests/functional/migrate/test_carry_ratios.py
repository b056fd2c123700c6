# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate carry-ratios`: what host aggregates say about ratios reaches the inventories."""

import pytest

from osc_placement.model import Inventory
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import SIZES, give, hold

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


def ratios_of(client):
    """The ratio of each class, by the name of the provider."""
    return {
        record.provider.name: {name: each.allocation_ratio for name, each in record.inventories.items()}
        for record in client.read_providers(want=("inventories",))
    }


def test_aggregate_ratios_are_set_on_inventories(cloud, client, add_host, migrate, migrate_json):
    """Each key sets the ratio of its class on the hosts of the aggregate, and nothing else of it."""
    add_host("h1")
    add_host("h2", inventories={"VCPU": Inventory(8, reserved=1)})
    add_host("h3")
    keys = {"cpu_allocation_ratio": "8.0", "ram_allocation_ratio": "1.5", "disk_allocation_ratio": "0.9"}
    cloud.add_aggregate("dense", ["h1", "h2"], **keys)
    assert migrate("carry-ratios").returncode == 0
    untouched = {name: inventory.allocation_ratio for name, inventory in SIZES.items()}
    assert ratios_of(client) == {
        "h1": pytest.approx({"VCPU": 8.0, "MEMORY_MB": 1.5, "DISK_GB": 0.9}),
        "h2": {"VCPU": 8.0},
        "h3": untouched,
    }
    (h2,) = client.read_providers({"name": "h2"}, want=("inventories",))
    assert h2.inventories["VCPU"] == Inventory(8, reserved=1, allocation_ratio=8.0)
    document, status = migrate_json("carry-ratios")
    assert (document["rows"], status) == ([], 0)


@pytest.mark.parametrize(("choice", "ratio"), [("min", 2.0), ("max", 8.0)])
def test_conflicting_ratios_are_changed_only_with_the_option(
    cloud, client, add_host, migrate, migrate_json, choice, ratio
):
    """A host whose aggregates disagree is reported with both, and changed only with --conflict."""
    add_host("h1")
    cloud.add_aggregate("dense", ["h1"], cpu_allocation_ratio="8.0")
    cloud.add_aggregate("sparse", ["h1"], cpu_allocation_ratio="2.0", ram_allocation_ratio="1.5")
    document, status = migrate_json("carry-ratios")
    (finding,) = document["findings"]
    assert (finding["subject"], finding["reason"], status) == ("host h1", "conflict", 3)
    assert "dense 8, sparse 2" in finding["text"]
    assert ratios_of(client)["h1"] == {"VCPU": 4.0, "MEMORY_MB": 1.5, "DISK_GB": 1.0}
    assert migrate("carry-ratios", "--conflict", choice).returncode == 0
    assert ratios_of(client)["h1"]["VCPU"] == ratio


def test_host_whose_nova_conf_would_overwrite_the_ratio_is_reported(cloud, add_host, migrate_json):
    """A host whose nova-compute reports the ratio in force, and no default, would put it back."""
    add_host("h1", inventories={"VCPU": Inventory(8, allocation_ratio=3.0)}, cpu_allocation_ratio=3.0)
    add_host("h2")
    cloud.add_aggregate("dense", ["h1", "h2"], cpu_allocation_ratio="8.0")
    document, _ = migrate_json("carry-ratios", "--dry-run")
    notes = {row["name"]: row["reason"] for row in document["rows"]}
    assert notes == {"h1": "nova-compute seems to set VCPU to 3, and would again", "h2": ""}


def test_undo_is_done_without_a_deleted_host_and_tells_what_is_over_capacity(
    cloud, client, add_host, migrate, migrate_json
):
    """No resume would ever read the one; to leave less than is allocated is the operator's decision."""
    kept, gone = add_host("h1"), add_host("h2")
    cloud.add_aggregate("dense", ["h1", "h2"], cpu_allocation_ratio="8.0")
    run = migrate_json("carry-ratios")[0]["run"]
    size = SIZES["VCPU"].total
    used, capacity = 6 * size, 4 * size
    hold(client, new_uuid(), {kept: {"VCPU": used}})
    client.delete_provider(gone)
    done = migrate("run", "undo", "--yes", run)
    assert done.returncode == 3
    excess = f"{used - capacity}: {used} allocated, the capacity would be {capacity}"
    assert f"h1: VCPU would be over capacity by {excess}" in done.stderr
    assert "resource provider h2 does not exist any more" in done.stdout + done.stderr
    assert ratios_of(client)["h1"]["VCPU"] == 4.0
    assert [each["state"] for each in migrate_json("run", "list")[0]] == [
        "partly undone",
        "partly done",
    ]


@pytest.mark.parametrize("text", ["many", "-1", "0", "nan", "inf", "1e99"])
def test_invalid_ratio_value_is_reported(cloud, client, add_host, migrate_json, text):
    """A value that cannot be a ratio is said with its aggregate; the other keys count."""
    add_host("h1")
    cloud.add_aggregate("odd", ["h1"], cpu_allocation_ratio=text, ram_allocation_ratio="1.5")
    document, status = migrate_json("carry-ratios")
    (finding,) = document["findings"]
    assert (finding["subject"], status) == ("aggregate odd", 3)
    assert repr(text) in finding["text"]
    assert ratios_of(client)["h1"]["MEMORY_MB"] == 1.5


@pytest.fixture
def crowded(cloud, client, add_host):
    """A host of 64 VCPU of which 60 are held, and an empty one, in an aggregate that would leave 32."""
    node = add_host("h1")
    add_host("h2")
    for _ in range(30):
        hold(client, new_uuid(), {node: {"VCPU": 2}})
    cloud.add_aggregate("sparse", ["h1", "h2"], cpu_allocation_ratio="2.0", ram_allocation_ratio="2.0")
    return node


def test_ratio_that_leaves_less_than_is_allocated_is_refused(crowded, client, migrate, migrate_json):
    """The host is left alone with the numbers and the way to do it all the same; the others are not."""
    document, status = migrate_json("carry-ratios")
    (finding,) = document["findings"]
    assert (finding["subject"], finding["reason"], status) == ("host h1", "over capacity", 3)
    assert "VCPU would be over capacity by 28: 60 allocated, the capacity would be 32" in finding["text"]
    assert "--force" in finding["text"]
    ratios = ratios_of(client)
    assert (ratios["h1"]["VCPU"], ratios["h1"]["MEMORY_MB"], ratios["h2"]["VCPU"]) == (4.0, 1.0, 2.0)
    document, status = migrate_json("carry-ratios", "--force")
    assert ([row["reason"] for row in document["rows"]], status) == (
        ["VCPU would be over capacity by 28: 60 allocated, the capacity would be 32"],
        0,
    )
    assert ratios_of(client)["h1"]["VCPU"] == 2.0


def test_ratio_is_checked_against_concurrent_allocations(cloud, client, add_host, migrate, meanwhile):
    """What is allocated after everything was looked at counts."""
    node = add_host("h1")
    cloud.add_aggregate("sparse", ["h1"], cpu_allocation_ratio="2.0")

    def boot():
        for _ in range(30):
            hold(client, new_uuid(), {node: {"VCPU": 2}})
        give(client, node, SIZES)

    meanwhile(boot)
    assert migrate("carry-ratios").returncode == 3
    assert ratios_of(client)["h1"]["VCPU"] == 4.0


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_ratio_without_capacity_is_refused(cloud, client, add_host, migrate_json, options):
    """Nobody means a host without any capacity."""
    add_host("h1")
    cloud.add_aggregate("odd", ["h1"], cpu_allocation_ratio="0.0000001")
    document, status = migrate_json("carry-ratios", *options)
    (finding,) = document["findings"]
    assert (finding["subject"], finding["reason"], status) == ("host h1", "unreadable ratio", 3)
    assert "with the ratio 1e-07 of its aggregates it would have no VCPU at all" in finding["text"]
    assert ratios_of(client)["h1"]["VCPU"] == 4.0
