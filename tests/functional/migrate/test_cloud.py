# SPDX-License-Identifier: Apache-2.0
"""A cloud of two cells with 300 hosts, 2,000 instances and every awkward case, from status to the end."""

import signal
import subprocess
import sys

import pytest

from osc_placement.api.concurrency import map_in_order
from osc_placement.flavor import resources_of
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES, parse_flavor
from osc_placement.model import Inventory
from tests.functional.migrate.cloud import IRONIC, embed_flavor
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, all_held, held_by, hold
from tests.functional.servers import make_environment

HOSTS, INSTANCES = 300, 2000
LARGE = {name: Inventory(100_000) for name in SIZES}
FLAVORS = (
    {},
    {"vcpus": 4, "memory_mb": 8192, "swap": 1025},
    {"extra_specs": {"resources:VCPU": "0", "resources:DISK_GB": "7"}},
    {"vcpus": 1, "root_gb": 0, "ephemeral_gb": 3},
)


def create(client, providers, inventories):
    """Make many providers."""

    def make(item):
        name, uuid = item
        client.create_provider(name, uuid=uuid)
        client.set_inventories(uuid, {name: each.to_json() for name, each in inventories.items()}, 0)

    map_in_order(make, list(providers.items()), threads=4)


@pytest.fixture
def plain(cloud, client):
    """The 300 hosts in 30 racks, and 2,000 instances on them that hold nothing; what each is to hold."""
    nodes = {}
    with cloud.together():
        for number in range(HOSTS):
            nodes |= cloud.add_host(f"host{number}", f"cell{number % 2 + 1}")
        for rack in range(30):
            cloud.add_aggregate(f"rack{rack}", [f"host{number}" for number in range(rack, HOSTS, 30)])
    create(client, nodes, LARGE)
    expected = {}
    with cloud.together():
        for number in range(INSTANCES):
            host, flavor = number % HOSTS, FLAVORS[number % len(FLAVORS)]
            uuid = cloud.add_instance(f"host{host}", f"cell{host % 2 + 1}", flavor=flavor)
            claim = resources_of(parse_flavor(embed_flavor(**flavor)), STANDARD_CLASSES)
            expected[uuid] = {nodes[f"host{host}"]: claim}
    return expected


@pytest.fixture
def awkward(plain, cloud, client):
    """What is not as it should be, by the trouble that it is reported with; and what is held by right."""
    full = cloud.add_host("full")
    metal = cloud.add_host("metal", nodes=["node1", "node2"], hypervisor_type=IRONIC)
    create(client, full, {**LARGE, "VCPU": Inventory(1)})
    client.ensure_resource_class("CUSTOM_GOLD")
    create(client, metal, {"CUSTOM_GOLD": Inventory(1)})
    cloud.add_aggregate("metal", ["metal", "unmapped"])
    cloud.add_host("no-provider")
    gold = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    gold["resources:CUSTOM_GOLD"] = "1"
    uuid = cloud.add_instance("metal", node="node2", flavor={"extra_specs": gold})
    plain[uuid] = {metal["node2"]: {"CUSTOM_GOLD": 1}}
    uuid = cloud.add_instance("host1", "cell2", volume=True, vm_state="soft-delete")
    node = next(iter(next(each for each in plain.values())))
    plain[uuid] = {client.list_providers(name="host1")[0]["uuid"]: {"VCPU": 2, "MEMORY_MB": 2048}}
    troubles = {
        cloud.add_instance("full"): "over capacity",
        cloud.add_instance("no-provider"): "no resource provider",
        cloud.add_instance("nowhere"): "no compute node",
        cloud.add_instance("host0", flavor="{}"): "no readable flavor",
        cloud.add_instance("host0", flavor={"extra_specs": {"resources:VGPU": "1"}}): "no inventory",
        cloud.add_instance("host0", task_state="rebuilding"): "in a task",
    }
    moved = cloud.add_instance("host2")
    migration = cloud.add_migration(moved, "host0", "host2", status="finished")
    by_right = {moved: client.list_providers(name="host2")[0]["uuid"], migration: node}
    for consumer, provider in by_right.items():
        hold(client, consumer, {provider: CLAIM})
    cloud.add_instance("host0", deleted=9)
    return troubles, {consumer: {provider: CLAIM} for consumer, provider in by_right.items()}


@pytest.mark.parametrize("nova_databases", ["sqlite", "mariadb"], indirect=True)
def test_cloud_of_300_hosts_is_migrated_completely(
    plain, awkward, cloud, client, nova_conf, tmp_path, migrate_json
):
    """In batches, with two interruptions, everything that can be done is; item by item it is as expected."""
    troubles, by_right = awkward
    status, code = migrate_json("status")
    (note,) = status["notes"]
    assert "it is moving from host0 to host2 (finished), and its migration" in note
    assert note.endswith("holds resources of host0")
    assert (set(status["missing"]), code) == (set(plain), 3)
    assert {row["subject"].removeprefix("instance "): row["reason"] for row in status["findings"]} == troubles
    for moment in (1.5, 3):
        interrupt(nova_conf, tmp_path, moment)
    for _ in range(20):
        document, code = migrate_json("online_data_migrations", "--max-count", "500")
        if code != 1:
            break
    assert code == 2
    left = {row["subject"].removeprefix("instance ") for row in document["findings"]}
    assert left == {*troubles, "host unmapped"}
    held = all_held(client)
    assert {uuid: held.get(uuid) for uuid in plain} == plain
    assert {uuid: held.get(uuid) for uuid in by_right} == by_right
    assert held.keys().isdisjoint(troubles)
    for record in client.read_providers(want=("aggregates",)):
        number = record.provider.name.removeprefix("host")
        if number.isdecimal():
            assert record.aggregates == {cloud.aggregates[f"rack{int(number) % 30}"]}
    orphan = new_uuid()
    hold(client, orphan, {next(iter(next(iter(plain.values())))): CLAIM})
    document, code = migrate_json("audit", "--delete")
    assert ([row["uuid"] for row in document["rows"]], code) == ([orphan], 3)
    assert {uuid: held_by(client, uuid) for uuid in by_right} == by_right


def interrupt(nova_conf, directory, seconds):
    """Begin all migrations, and kill them after a while."""
    program = [sys.executable, "-c", "from osc_placement.migrate.main import main; raise SystemExit(main())"]
    process = subprocess.Popen(
        [*program, "--config-file", str(nova_conf), "online_data_migrations", "--throttle", "300"],
        env=make_environment(XDG_STATE_HOME=str(directory / "state")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
