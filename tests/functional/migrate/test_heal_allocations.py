# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate heal-allocations` and `status`, beside `nova-manage placement heal_allocations`."""

import subprocess
import sys

import pytest

from osc_placement.model import Inventory
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import PROJECT, USER
from tests.functional.migrate.placement import CLAIM, SIZES, all_held, give, held_by, hold

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

SHARED = "5ba7ed00-0000-0000-0000-000000000001"


def troubles(document):
    """Who was left alone, and why."""
    return {row["subject"].removeprefix("instance "): row["reason"] for row in document["findings"]}


def test_healing_equals_nova_manage(cloud, client, add_host, migrate, nova_conf):
    """Where `nova-manage` can heal, we make the same allocations; it then finds nothing left."""
    h1, h2 = add_host("h1"), add_host("h2", "cell2")
    flavors = [
        {},
        {"swap": 1025, "ephemeral_gb": 5},
        {"extra_specs": {"resources:VCPU": "0", "resources:DISK_GB": "7"}},
        {"memory_mb": 512, "vcpus": 1},
    ]
    instances = [cloud.add_instance("h1", flavor=flavor) for flavor in flavors]
    instances.append(cloud.add_instance("h2", "cell2", volume=True))
    instances.append(cloud.add_instance("h2", "cell2", vm_state="stopped"))
    assert migrate("heal-allocations").returncode == 0
    ours = {uuid: held_by(client, uuid) for uuid in instances}
    assert ours[instances[0]] == {h1: CLAIM}
    assert ours[instances[4]] == {h2: {"VCPU": 2, "MEMORY_MB": 2048}}

    def read_owners():
        fields = ("project_id", "user_id", "consumer_type")
        documents = [client.list_allocations(uuid) for uuid in instances]
        return [tuple(document[each] for each in fields) for document in documents]

    owners = read_owners()
    assert owners[0][:2] == (PROJECT, USER)
    assert nova.manage(nova_conf, "placement", "heal_allocations", "--skip-port-allocations").returncode == 4
    for uuid in instances:
        client.delete_allocations(uuid)
    assert nova.manage(nova_conf, "placement", "heal_allocations", "--skip-port-allocations").returncode == 0
    assert ({uuid: held_by(client, uuid) for uuid in instances}, read_owners()) == (ours, owners)


def test_status_says_when_it_is_safe(cloud, add_host, migrate, migrate_json):
    """It is one sentence, which a healing ends with too, but for the scheduler that few clouds have."""
    add_host("h1")
    instance = cloud.add_instance("h1")
    before, status = migrate_json("status")
    assert (before["ready"], before["missing"], status) == (False, [instance], 3)
    assert before["sentence"] == "It is not safe yet to leave the caching scheduler: 1 without allocations."
    healed = migrate("heal-allocations")
    assert healed.stdout.splitlines()[-1] == "Every instance on a host holds its allocations."
    cloud.add_instance("h1", vm_state="active", task_state="rebooting")
    cloud.add_instance("h1")
    healed = migrate("heal-allocations")
    expected = "Not every instance on a host holds its allocations yet: 1 in a task."
    assert healed.stdout.splitlines()[-1] == expected
    cloud.update("cell1", "UPDATE instances SET task_state = NULL")
    assert migrate("heal-allocations").returncode == 0
    after, status = migrate_json("status")
    assert (after["ready"], status) == (True, 0)


@pytest.mark.parametrize(("arguments", "status"), [((), 4), (("--nova-exit-codes",), 0)])
def test_healing_is_reported_when_nova_cannot_be_read_again(
    cloud, client, add_host, migrate, meanwhile, arguments, status
):
    """What was done is not called nothing because nova cannot be read any more; nova-manage never looks."""
    node, instance = add_host("h1"), cloud.add_instance("h1")
    meanwhile(lambda: cloud.update("api", "ALTER TABLE host_mappings RENAME TO elsewhere"))
    done = migrate("heal-allocations", *arguments)
    assert (done.returncode, done.stderr) == (status, "")
    assert "allocations of instances: 1 applied" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Whether all is ready is unknown")
    assert "there is no table host_mappings" in done.stdout
    assert held_by(client, instance) == {node: CLAIM}


def test_second_run_changes_nothing(cloud, add_host, migrate, migrate_json):
    """Instances that hold what they should are left as they are."""
    add_host("h1")
    cloud.add_instance("h1")
    assert migrate("heal-allocations").returncode == 0
    document, status = migrate_json("heal-allocations")
    assert (document["rows"], document["run"], status) == ([], None, 0)


def test_instances_that_cannot_be_healed_do_not_stop_others(cloud, client, add_host, migrate_json):
    """Each instance that cannot be healed has its reason, and all the others are healed."""
    h1 = add_host("h1")
    cloud.add_host("not-in-placement")
    expected = {
        cloud.add_instance("h1", flavor="{"): "no readable flavor",
        cloud.add_instance("h1", flavor={"extra_specs": {"hw:cpu_policy": "odd"}}): "no readable flavor",
        cloud.add_instance("h1", flavor={"extra_specs": {"resources:VGPU": "1"}}): "no inventory",
        cloud.add_instance("h1", flavor={"vcpus": 99}): "over capacity",
        cloud.add_instance("nowhere"): "no compute node",
        cloud.add_instance("not-in-placement"): "no resource provider",
        cloud.add_instance("h1", task_state="migrating"): "in a task",
    }
    good = [cloud.add_instance("h1"), cloud.add_instance("h1", vm_state="soft-delete")]
    cloud.add_instance(None)
    document, status = migrate_json("heal-allocations")
    assert (troubles(document), status) == (expected, 3)
    assert {row["uuid"]: row["result"] for row in document["rows"]} == dict.fromkeys(good, "applied")
    assert held_by(client, good[1]) == {h1: CLAIM}


def test_full_host_is_reported_with_a_sufficient_ratio(cloud, client, add_host, migrate_json):
    """What a host lacks is said with the ratio that makes room; with that ratio the instance is healed."""
    h1 = add_host("h1", inventories={**SIZES, "VCPU": Inventory(2, allocation_ratio=1.0)})
    cloud.add_instance("h1")
    cloud.add_instance("h1")
    document, status = migrate_json("status")
    (finding,) = document["findings"]
    assert "h1 has no room for VCPU=2; an allocation ratio of 2 would fit it" in finding["text"]
    assert status == 3
    give(client, h1, {**SIZES, "VCPU": Inventory(2, allocation_ratio=2.0)})
    assert migrate_json("heal-allocations")[1] == 0


def test_wrong_allocations_are_reported_and_kept(cloud, client, add_host, migrate_json):
    """A wrong amount, a wrong host and a double allocation are seen, and nobody's to change here."""
    h1, h2 = add_host("h1"), add_host("h2")
    amount, host, double = (cloud.add_instance("h1") for _ in range(3))
    hold(client, amount, {h1: {**CLAIM, "VCPU": 1}})
    hold(client, host, {h2: CLAIM})
    hold(client, double, {h1: CLAIM, h2: CLAIM})
    document, status = migrate_json("heal-allocations")
    assert troubles(document) == {amount: "wrong amount", host: "wrong host", double: "held twice"}
    assert (document["rows"], status) == ([], 3)
    assert held_by(client, host) == {h2: CLAIM}


def test_forced_healing_equals_nova_manage(cloud, client, add_host, migrate, nova_conf):
    """Wrong amounts of one instance are corrected as nova-manage does, and those of others are kept."""
    h1 = add_host("h1")
    chosen, other = cloud.add_instance("h1"), cloud.add_instance("h1")
    wrong = {h1: {**CLAIM, "VCPU": 1, "DISK_GB": 500}}
    for instance in (chosen, other):
        hold(client, instance, wrong)
    words = ("--instance", chosen, "--force", "--skip-port-allocations")
    assert migrate("heal-allocations", *words).returncode == 0
    assert (held_by(client, chosen), held_by(client, other)) == ({h1: CLAIM}, wrong)
    hold(client, chosen, wrong, client.list_allocations(chosen)["consumer_generation"])
    assert nova.manage(nova_conf, "placement", "heal_allocations", *words).returncode == 0
    assert (held_by(client, chosen), held_by(client, other)) == ({h1: CLAIM}, wrong)


@pytest.fixture
def equipped(client, add_host):
    """A host with storage that is shared and two cards; their UUIDs."""
    local = {name: inventory for name, inventory in SIZES.items() if name != "DISK_GB"}
    host = add_host("h1", inventories=local)
    give(client, host, {**local, "SRIOV_NET_VF": Inventory(8)}, aggregates=[SHARED])
    client.create_provider("ceph", uuid=SHARED)
    give(client, SHARED, {"DISK_GB": Inventory(5000)}, ["MISC_SHARES_VIA_AGGREGATE"], [SHARED])
    cards = [client.create_provider(f"h1_card{n}", parent=host)["uuid"] for n in range(2)]
    for card in cards:
        give(client, card, {"VGPU": Inventory(4)})
    return host, *cards


def test_forced_healing_keeps_where_an_amount_is_held(cloud, client, equipped, migrate, migrate_json):
    """Shared storage and a card keep what is corrected, other classes stay, and an undo restores it all."""
    host, card, _ = equipped
    instance = cloud.add_instance("h1", flavor={"extra_specs": {"resources:VGPU": "2"}})
    wrong = {
        host: {"VCPU": 4, "MEMORY_MB": 2048, "SRIOV_NET_VF": 1},
        SHARED: {"DISK_GB": 5},
        card: {"VGPU": 1},
    }
    hold(client, instance, wrong)
    document, status = migrate_json("status")
    assert f"heal-allocations --force --instance {instance}" in document["findings"][0]["text"]
    document, status = migrate_json("heal-allocations", "--force", "--dry-run")
    assert ([row["uuid"] for row in document["rows"]], document["findings"], status) == ([instance], [], 0)
    assert held_by(client, instance) == wrong
    document, status = migrate_json("heal-allocations", "--force")
    assert status == 0
    assert held_by(client, instance) == {
        host: {"VCPU": 2, "MEMORY_MB": 2048, "SRIOV_NET_VF": 1},
        SHARED: {"DISK_GB": 20},
        card: {"VGPU": 2},
    }
    assert migrate("run", "undo", "--yes", document["run"]).returncode == 0
    assert held_by(client, instance) == wrong


def test_forced_healing_removes_what_is_not_asked_for(cloud, client, add_host, migrate):
    """An instance that boots from a volume gives back its disk, also where more is allocated than fits."""
    h1 = add_host("h1")
    instance = cloud.add_instance("h1", volume=True, flavor={"vcpus": 3})
    hold(client, instance, {h1: {**CLAIM, "VCPU": 4}})
    give(client, h1, {**SIZES, "VCPU": Inventory(1)})
    assert migrate("heal-allocations", "--force").returncode == 0
    assert held_by(client, instance) == {h1: {"VCPU": 3, "MEMORY_MB": 2048}}


def test_forced_healing_leaves_alone_what_is_not_clear_or_moves(
    cloud, client, equipped, add_host, migrate_json
):
    """Instances in a task or a resize, on a wrong host, or for which there is no only place, keep all."""
    host, *cards = equipped
    h2 = add_host("h2")
    gpus = {"extra_specs": {"resources:VGPU": "3"}}
    device = {"extra_specs": {"resources:VGPU": "1", "accel:device_profile": "fpga"}}
    few = {host: {"VCPU": 1, "MEMORY_MB": 2048}, SHARED: {"DISK_GB": 20}}
    split = {**few, **{card: {"VGPU": 1} for card in cards}}
    cases = {
        "in a task": (few, {"task_state": "rebooting"}),
        "accelerator": ({**few, cards[0]: {"VGPU": 2}}, {"flavor": device}),
        "ambiguous": (split, {"flavor": gpus}),
        "over capacity": (few, {"flavor": {"memory_mb": 70000}}),
        "wrong host": ({h2: {**CLAIM, "VCPU": 1}}, {}),
    }
    made = {trouble: cloud.add_instance("h1", **columns) for trouble, (_, columns) in cases.items()}
    moving, resized = cloud.add_instance("h1"), cloud.add_instance("h1", vm_state="resized")
    cloud.add_migration(moving, "h1", "h2", status="finished")
    for instance in (moving, resized):
        hold(client, instance, few)
    for trouble, instance in made.items():
        hold(client, instance, cases[trouble][0])
    before = all_held(client)
    document, status = migrate_json("heal-allocations", "--force")
    expected = {instance: trouble for trouble, instance in made.items()}
    expected |= dict.fromkeys((moving, resized), "in a task")
    assert (troubles(document), document["rows"], status) == (expected, [], 3)
    assert all_held(client) == before


def test_forced_healing_keeps_concurrent_allocations(cloud, client, add_host, migrate_json, meanwhile):
    """What somebody else wrote between the look and the write is kept, and reported."""
    h1 = add_host("h1")
    instance = cloud.add_instance("h1")
    hold(client, instance, {h1: {**CLAIM, "VCPU": 1}})
    theirs = {h1: {**CLAIM, "VCPU": 7}}
    meanwhile(
        lambda: hold(client, instance, theirs, client.list_allocations(instance)["consumer_generation"])
    )
    document, status = migrate_json("heal-allocations", "--force")
    assert ([row["result"] for row in document["rows"]], status) == (["failed"], 3)
    assert held_by(client, instance) == theirs


def test_forced_healing_corrects_nothing_of_an_instance_that_it_leaves_alone(
    cloud, client, add_host, migrate_json
):
    """What it has too much of stays used: the instance that is judged next does not get it."""
    h1 = add_host("h1", inventories={**SIZES, "VCPU": Inventory(4)})
    left = cloud.add_instance("h1", flavor={"vcpus": 1, "extra_specs": {"accel:device_profile": "fpga"}})
    waiting = cloud.add_instance("h1", flavor={"vcpus": 3})
    too_much = {h1: {**CLAIM, "VCPU": 2}}
    hold(client, left, too_much)
    document, status = migrate_json("heal-allocations", "--force")
    assert troubles(document) == {left: "accelerator", waiting: "over capacity"}
    assert (document["rows"], held_by(client, left), status) == ([], too_much, 3)


def test_forced_healing_reports_no_task_of_an_instance_with_right_amounts(
    cloud, client, add_host, migrate_json
):
    """Nothing is wrong with it, be it in a task or moving, and without --force it is not reported either."""
    h1, h2 = add_host("h1"), add_host("h2")
    instances = {
        cloud.add_instance("h1", task_state="rebooting"): {h1: CLAIM},
        cloud.add_instance("h1", task_state="migrating"): {h1: CLAIM, h2: CLAIM},
        cloud.add_instance(None, task_state="unshelving"): {h2: CLAIM},
    }
    for instance, claims in instances.items():
        hold(client, instance, claims)
    for arguments in ((), ("--force",)):
        document, status = migrate_json("heal-allocations", *arguments)
        assert (document["findings"], document["rows"], status) == ([], [], 0)


@pytest.mark.parametrize("instances", [1, 3])
def test_forced_healing_keeps_a_claim_of_a_consumer_that_was_emptied(
    cloud, client, add_host, migrate_json, meanwhile, instances
):
    """A resize empties the consumer of an instance and claims anew, and its generation is 1 again."""
    h1, h2 = add_host("h1"), add_host("h2")
    resized, *others = (cloud.add_instance("h1") for _ in range(instances))
    for instance in (resized, *others):
        hold(client, instance, {h1: {**CLAIM, "VCPU": 1}})
    theirs = {h2: {**CLAIM, "VCPU": 8}}

    def resize():
        client.delete_allocations(resized)
        hold(client, resized, theirs)

    meanwhile(resize)
    document, status = migrate_json("heal-allocations", "--force")
    rows = {row["uuid"]: row for row in document["rows"]}
    assert {uuid: row["result"] for uuid, row in rows.items()} == {
        resized: "failed",
        **dict.fromkeys(others, "applied"),
    }
    assert "holds something else since it was looked at" in rows[resized]["error"]
    assert (held_by(client, resized), status) == (theirs, 3)
    assert all(held_by(client, instance) == {h1: CLAIM} for instance in others)


def test_wrong_owner_of_a_consumer_is_corrected(cloud, client, add_host, migrate, migrate_json):
    """What an instance holds for a wrong project or user becomes its own, and can be undone."""
    h1 = add_host("h1")
    right, wrong = cloud.add_instance("h1"), cloud.add_instance("h1", project_id="c" * 32)
    for instance in (right, wrong):
        hold(client, instance, {h1: CLAIM})
    before, status = migrate_json("status")
    assert (before["foreign"], before["missing"], status) == ([wrong], [], 3)
    assert before["sentence"].endswith(": 1 of a wrong project or user.")
    document, status = migrate_json("heal-allocations")
    assert ([row["uuid"] for row in document["rows"]], status) == ([wrong], 0)
    held = client.list_allocations(wrong)
    assert (held["project_id"], held["user_id"], held_by(client, wrong)) == ("c" * 32, USER, {h1: CLAIM})
    assert migrate_json("status")[0]["ready"]
    assert migrate("run", "undo", "--yes", document["run"]).returncode == 0
    assert client.list_allocations(wrong)["project_id"] == PROJECT


def test_owner_of_an_instance_in_a_task_is_left_alone(cloud, client, add_host, migrate_json):
    """Whoever moves an instance writes what it holds; it is reported, and healed when the task is over."""
    h1 = add_host("h1")
    busy = cloud.add_instance("h1", project_id="c" * 32, task_state="migrating")
    right = cloud.add_instance("h1", task_state="migrating")
    for instance in (busy, right):
        hold(client, instance, {h1: CLAIM})
    document, status = migrate_json("heal-allocations")
    (finding,) = document["findings"]
    assert (finding["subject"], finding["reason"]) == (f"instance {busy}", "in a task")
    assert finding["text"] == "it is migrating, and what it holds is of another project or user"
    assert (document["rows"], status) == ([], 3)
    assert client.list_allocations(busy)["project_id"] == PROJECT
    assert migrate_json("status")[0]["sentence"].endswith(": 1 in a task.")
    cloud.update("cell1", "UPDATE instances SET task_state = NULL")
    assert migrate_json("heal-allocations")[1] == 0
    assert client.list_allocations(busy)["project_id"] == "c" * 32


@pytest.mark.parametrize("vm_state", ["shelved_offloaded", "deleted"])
def test_instance_that_has_left_its_host_is_not_healed(cloud, client, add_host, migrate_json, vm_state):
    """Nova clears its host last, and until then the audit takes for orphaned what it holds."""
    add_host("h1")
    instance = cloud.add_instance("h1", vm_state=vm_state)
    assert migrate_json("heal-allocations")[1] == 0
    assert held_by(client, instance) == {}


def test_concurrent_allocations_are_kept_and_reported(cloud, client, add_host, migrate_json, meanwhile):
    """An instance that got its allocations between the look and the write keeps those, and is reported."""
    h1, h2 = add_host("h1"), add_host("h2")
    raced, alone = cloud.add_instance("h1"), cloud.add_instance("h1")
    meanwhile(lambda: hold(client, raced, {h2: {"VCPU": 1}}))
    document, status = migrate_json("heal-allocations")
    rows = {row["uuid"]: row for row in document["rows"]}
    assert (rows[raced]["result"], rows[alone]["result"], status) == ("failed", "applied", 3)
    assert "holds something else since it was looked at" in rows[raced]["error"]
    assert held_by(client, raced) == {h2: {"VCPU": 1}}
    assert held_by(client, alone) == {h1: CLAIM}


def test_identical_concurrent_allocations_are_no_failure(cloud, client, add_host, migrate_json, meanwhile):
    """Where somebody else made the same allocations meanwhile there is nothing left to do."""
    h1 = add_host("h1")
    raced = cloud.add_instance("h1")
    meanwhile(lambda: hold(client, raced, {h1: CLAIM}))
    document, status = migrate_json("heal-allocations")
    assert (document["rows"], status) == ([], 0)
    assert client.list_allocations(raced)["consumer_generation"] == 1


@pytest.mark.parametrize("generation", [None, 1])
def test_change_of_owner_keeps_concurrent_amounts(
    cloud, client, add_host, migrate_json, meanwhile, generation
):
    """A consumer that is given back is read again when somebody else wrote it: his amounts, our owner."""
    h1, h2 = add_host("h1"), add_host("h2")
    moved = cloud.add_instance("h1", project_id="c" * 32)
    hold(client, moved, {h1: CLAIM})

    def move():
        if generation is None:
            client.delete_allocations(moved)
        hold(client, moved, {h2: CLAIM}, generation)

    meanwhile(move)
    assert migrate_json("heal-allocations")[1] == 0
    assert held_by(client, moved) == {h2: CLAIM}
    assert client.list_allocations(moved)["project_id"] == "c" * 32


@pytest.mark.parametrize(
    ("database", "statement"),
    [
        ("api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"),
        ("cell2", "ALTER TABLE migrations RENAME TO elsewhere"),
        ("api", "DELETE FROM cell_mappings WHERE name = 'cell2'"),
    ],
    ids=("no cell", "no migrations", "no mapping"),
)
def test_healing_of_a_cell_does_not_depend_on_another(
    cloud, client, add_host, migrate_json, database, statement
):
    """What cannot be read of the other is no problem of this one."""
    h1 = add_host("h1")
    add_host("h2", "cell2")
    instance = cloud.add_instance("h1")
    cloud.add_instance("h2", "cell2")
    cloud.update(database, statement)
    cell = ("--cell", "cell1")
    document, status = migrate_json("heal-allocations", *cell)
    assert (document["findings"], status, held_by(client, instance)) == ([], 0, {h1: CLAIM})
    assert migrate_json("heal-allocations", *cell, "--nova-exit-codes")[1] == 4
    assert migrate_json("heal-allocations")[1] == 4
    if database == "cell2":
        assert migrate_json("heal-allocations", "--cell", "cell2")[1] == 4


def test_instance_and_cell_exclude_each_other(cloud, add_host, migrate):
    """As for nova-manage; an instance of another cell would be taken for one that nova does not have."""
    for host, cell in (("h1", "cell1"), ("h2", "cell2")):
        add_host(host, cell)
    instance = cloud.add_instance("h2", "cell2")
    for arguments, status in (((), 1), (("--nova-exit-codes",), 127)):
        done = migrate("heal-allocations", "--cell", "cell1", "--instance", instance, *arguments)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.splitlines()[0].endswith("--instance cannot be used with --cell")


def test_requested_instance_without_a_host_is_reported(cloud, add_host, migrate_json):
    """Who names an instance learns that there is nothing to heal, and why."""
    add_host("h1")
    shelved = cloud.add_instance(None, vm_state="shelved_offloaded")
    document, status = migrate_json("heal-allocations", "--instance", shelved.upper())
    assert [finding["subject"] for finding in document["findings"]] == [f"instance {shelved}"]
    assert "it is on no host" in document["findings"][0]["text"]
    assert (document["rows"], status) == ([], 3)
    assert migrate_json("heal-allocations")[1] == 0


def test_allocations_of_ports_and_devices_are_correct(cloud, client, add_host, migrate_json):
    """What an instance holds besides its flavor, as for its ports, is no wrong amount."""
    functions = {"SRIOV_NET_VF": Inventory(8)}
    h1 = add_host("h1", inventories={**SIZES, **functions})
    hold(client, cloud.add_instance("h1"), {h1: {**CLAIM, "SRIOV_NET_VF": 1}})
    assert migrate_json("status")[0]["ready"]


def test_moving_instance_may_have_allocations_on_both_hosts(cloud, client, add_host, migrate_json):
    """During a move, allocations on two hosts are in order."""
    h1, h2 = add_host("h1"), add_host("h2")
    instance = cloud.add_instance("h1")
    cloud.add_migration(instance, "h1", "h2", status="running")
    hold(client, instance, {h1: CLAIM, h2: CLAIM})
    assert migrate_json("status")[0]["ready"]


def test_shared_disk_is_claimed_from_the_sharing_provider(cloud, client, add_host, migrate):
    """Disk that another provider shares with the host is claimed from that one."""
    local = {name: inventory for name, inventory in SIZES.items() if name != "DISK_GB"}
    h1 = add_host("h1", inventories=local)
    give(client, h1, local, aggregates=[SHARED])
    client.create_provider("ceph", uuid=SHARED)
    give(client, SHARED, {"DISK_GB": Inventory(5000)}, ["MISC_SHARES_VIA_AGGREGATE"], [SHARED])
    instance = cloud.add_instance("h1")
    assert migrate("heal-allocations").returncode == 0
    assert held_by(client, instance) == {h1: {"VCPU": 2, "MEMORY_MB": 2048}, SHARED: {"DISK_GB": 20}}


def test_nested_device_is_claimed_if_the_choice_is_unique(cloud, client, add_host, migrate_json):
    """A vGPU is claimed from the only card with room; between two cards nobody knows, and both are named."""
    h1 = add_host("h1")
    cards = [client.create_provider(f"h1_card{n}", parent=h1)["uuid"] for n in range(2)]
    give(client, cards[0], {"VGPU": Inventory(4)})
    flavor = {"extra_specs": {"resources:VGPU": "1"}}
    sure = cloud.add_instance("h1", flavor=flavor)
    assert migrate_json("heal-allocations")[1] == 0
    assert held_by(client, sure) == {h1: CLAIM, cards[0]: {"VGPU": 1}}
    give(client, cards[1], {"VGPU": Inventory(4)})
    unsure = cloud.add_instance("h1", flavor=flavor)
    document, status = migrate_json("heal-allocations")
    assert (troubles(document), status) == ({unsure: "ambiguous"}, 3)
    assert all(card in document["findings"][0]["text"] for card in cards)


def test_undo_removes_the_healed_allocations(cloud, client, add_host, migrate, migrate_json):
    """A healing is undone by consumer generation, except where somebody changed an instance since."""
    h1 = add_host("h1")
    undone, changed = cloud.add_instance("h1"), cloud.add_instance("h1")
    run = migrate_json("heal-allocations")[0]["run"]
    generation = client.list_allocations(changed)["consumer_generation"]
    hold(client, changed, {h1: {**CLAIM, "VCPU": 4}}, generation)
    done = migrate("run", "undo", "--yes", run)
    assert done.returncode == 3
    words = "1 of 2 changes will not be undone, because what the run set was changed since; "
    assert done.stderr.count(f"Warning: {words}") == 1
    assert held_by(client, undone) == {}
    assert held_by(client, changed)[h1]["VCPU"] == 4


def test_status_is_unknown_with_an_unreadable_cell(cloud, add_host, migrate):
    """Nobody calls it safe while a cell cannot be read; the other cell is healed."""
    add_host("h1")
    cloud.add_instance("h1")
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    done = migrate("heal-allocations")
    assert done.returncode == 4
    assert "1 applied" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Not every instance")
    assert migrate("status").returncode == 4


def test_healing_can_be_narrowed_and_bounded(cloud, client, add_host, migrate, migrate_json):
    """One instance, one host, or so many at a time."""
    add_host("h1")
    h2 = add_host("h2")
    first, second, third = cloud.add_instance("h1"), cloud.add_instance("h1"), cloud.add_instance("h2")
    assert migrate("heal-allocations", "--instance", second).returncode == 0
    assert not held_by(client, first)
    assert migrate("heal-allocations", "--host", "h2").returncode == 0
    assert held_by(client, third) == {h2: CLAIM}
    assert migrate("heal-allocations", "--max-count", "1", "--nova-exit-codes").returncode == 0
    assert migrate("heal-allocations", "--nova-exit-codes").returncode == 4
    assert migrate_json("status")[0]["ready"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--nova-api-db", "sqlite:////no/api.db", "status"), "nova's API database: there is no file"),
        (("--placement-endpoint", "http://127.0.0.1:1", "status"), "got no answer"),
        (("--config-file", "/no/nova.conf", "status"), "/no/nova.conf"),
        (("--os-cloud", "no-such-cloud", "status"), "no-such-cloud"),
        (("--placement-endpoint", "here", "status"), "--placement-endpoint is an address such as"),
        (
            ("run", "show", "none"),
            "; to list the runs: placement-migrate run list",
        ),
    ],
)
def test_missing_configuration_or_service_is_a_one_line_error(cloud, migrate, arguments, text):
    """Without a configuration, a database or placement nothing is done, and one line says why."""
    done = migrate(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_unreachable_keystone_is_a_one_line_error(nova_conf, migrate):
    """What does not answer, and the network's word for it; the library has nothing to add."""
    access = "auth_type = password\nauth_url = http://127.0.0.1:1/v3\nusername = u\npassword = p\n"
    nova_conf.write_text(f"{nova_conf.read_text().partition('[placement]')[0]}[placement]\n{access}")
    program = "from osc_placement.migrate.main import main; raise SystemExit(main())"
    words = [sys.executable, "-c", program, "--config-file", nova_conf, "status"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    reason = "Unable to establish connection to http://127.0.0.1:1/v3/auth/tokens: Connection refused"
    assert (done.returncode, done.stderr) == (1, f"placement-migrate: {reason}\n")
