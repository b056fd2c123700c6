# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate move-baremetal`: nodes of a real Ironic in databases of nova, moved to their classes."""

import random
import shlex
import subprocess
import sys
import time

import pytest

from benchmarks import environments
from osc_placement.model import Inventory
from tests import databases
from tests.functional import servers
from tests.functional.migrate import ironic as ironics
from tests.functional.migrate.cloud import IRONIC, add_flavor
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.pages import shell_with, type_into, with_runs_of
from tests.functional.migrate.placement import CLAIM, SIZES, give, held_by, hold
from tests.functional.test_readme import assert_matches
from tests.transcripts import ROOT, read_steps

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

GOLD, SILVER = "CUSTOM_BAREMETAL_GOLD", "CUSTOM_SILVER"
FREE, RESERVED = Inventory(1, max_unit=1), Inventory(1, reserved=1, max_unit=1)


@pytest.fixture(scope="module")
def shared_ironic(tmp_path_factory):
    """A running Ironic."""
    try:
        binaries = ironics.install()
    except (environments.NotInstallable, subprocess.CalledProcessError) as error:
        databases.skip_or_fail(f"Ironic cannot be installed: {error}")
    with ironics.serving(binaries, tmp_path_factory.mktemp("ironic")) as running:
        yield running


@pytest.fixture(scope="module")
def server_url(reshaping_url):
    """The URL of a server that lets administrators reshape."""
    return reshaping_url


@pytest.fixture
def ironic(shared_ironic, nova_conf):
    """An Ironic without nodes, that nova.conf leads to."""
    shared_ironic.clear()
    with nova_conf.open("a") as file:
        file.write(f"[ironic]\nauth_type = none\nendpoint_override = {shared_ironic.url}\n")
    return shared_ironic


@pytest.fixture
def add_nodes(cloud, client):
    """A function that gives a host these nodes of Ironic, and each a provider with sizes; UUIDs by node."""

    def add(*nodes, host="metal1", cell="cell1", inventories=SIZES, uuids=None):
        made = cloud.add_host(host, cell, nodes=nodes, hypervisor_type=IRONIC)
        for name, uuid in (uuids or {}).items():
            cloud.update(
                cell, "UPDATE compute_nodes SET uuid = :new WHERE uuid = :old", new=uuid, old=made[name]
            )
        uuids = uuids or made
        for name, uuid in uuids.items():
            client.create_provider(name, uuid=uuid)
            give(client, uuid, inventories)
        return uuids

    return add


def inventories_of(client, uuid):
    """What a provider has."""
    documents = client.list_inventories(uuid)["inventories"]
    return {name: Inventory.from_json(document) for name, document in documents.items()}


def findings_of(document):
    """What was left alone: trouble and text, by subject."""
    return {row["subject"]: (row["reason"], row["text"]) for row in document["findings"]}


def test_nodes_get_one_unit_of_their_resource_class(ironic, add_nodes, cloud, client, migrate, migrate_json):
    """Inventory, allocations and reserved are as nova's driver would have them; a second run does nothing."""
    free, busy, broken, new = (
        ironic.add_node("Baremetal-gold"),
        ironic.add_node("Baremetal-gold"),
        ironic.add_node("silver"),
        ironic.enroll("silver"),
    )
    ironic.update(broken, maintenance=True)
    providers = add_nodes(free, busy, broken, new)
    instance = cloud.add_instance("metal1", node=busy)
    ironic.deploy(busy, instance)
    hold(client, instance, {providers[busy]: CLAIM})
    generation = client.list_allocations(instance)["consumer_generation"]
    shown = migrate("move-baremetal", "--dry-run")
    assert (shown.returncode, "CUSTOM_SILVER:total=1" in shown.stdout) == (0, True)
    assert shown.stdout.endswith("Bare metal is not ready yet: 4 to be moved.\n")
    assert inventories_of(client, providers[free]) == SIZES
    done = migrate("move-baremetal")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("all nodes are scheduled by their classes alone, 4 of them.\n")
    assert {name: inventories_of(client, uuid) for name, uuid in providers.items()} == {
        free: {GOLD: FREE},
        busy: {GOLD: RESERVED},
        broken: {SILVER: RESERVED},
        new: {SILVER: RESERVED},
    }
    assert held_by(client, instance) == {providers[busy]: {GOLD: 1}}
    assert client.list_allocations(instance)["consumer_generation"] == generation + 1
    document, status = migrate_json("move-baremetal")
    assert (document["rows"], document["findings"], document["run"], status) == ([], [], None, 0)


def test_move_can_be_undone_and_repeated(ironic, add_nodes, cloud, client, migrate, migrate_json):
    """What was moved goes back in one transaction for each node, and forth again."""
    free, busy = ironic.enroll("silver"), ironic.enroll("silver")
    providers = add_nodes(free, busy)
    instance = cloud.add_instance("metal1", node=busy)
    hold(client, instance, {providers[busy]: CLAIM})
    document, _ = migrate_json("move-baremetal")
    undone = migrate("run", "undo", "--yes", document["run"])
    assert (undone.returncode, undone.stderr) == (0, "")
    assert {name: inventories_of(client, uuid) for name, uuid in providers.items()} == {
        free: SIZES,
        busy: SIZES,
    }
    assert held_by(client, instance) == {providers[busy]: CLAIM}
    assert migrate("move-baremetal").returncode == 0
    assert held_by(client, instance) == {providers[busy]: {SILVER: 1}}


def test_instance_without_allocations_gets_its_node(ironic, add_nodes, cloud, client, migrate_json):
    """It holds the node for its project and user, also where the driver has reserved it already."""
    busy = ironic.add_node("silver")
    client.ensure_resource_class(SILVER)
    provider = add_nodes(busy, inventories={SILVER: RESERVED})[busy]
    instance = cloud.add_instance("metal1", node=busy)
    ironic.deploy(busy, instance)
    assert migrate_json("move-baremetal")[1] == 0
    document = client.list_allocations(instance)
    assert held_by(client, instance) == {provider: {SILVER: 1}}
    assert (document["project_id"], document["user_id"]) == ("a" * 32, "b" * 32)
    assert document["consumer_type"] == "INSTANCE"
    assert inventories_of(client, provider) == {SILVER: RESERVED}


def test_untyped_consumer_stays_untyped(ironic, add_nodes, cloud, client, migrate):
    """It holds the node all the same."""
    busy = ironic.enroll("silver")
    provider = add_nodes(busy)[busy]
    instance = cloud.add_instance("metal1", node=busy)
    hold(client, instance, {provider: CLAIM}, consumer_type=None)
    assert migrate("move-baremetal").returncode == 0
    assert held_by(client, instance) == {provider: {SILVER: 1}}
    assert client.list_allocations(instance)["consumer_type"] == "unknown"


def test_status_and_audit_accept_moved_allocations(ironic, add_nodes, cloud, client, migrate, migrate_json):
    """The embedded flavor is older than the class: neither `status` nor `audit` finds anything wrong."""
    busy = ironic.enroll("silver")
    provider = add_nodes(busy)[busy]
    instance = cloud.add_instance("metal1", node=busy)
    hold(client, instance, {provider: CLAIM})
    document, status = migrate_json("online_data_migrations")
    assert [(row["Migration"], row["Completed"]) for row in document["migrations"]] == [
        ("mirror-aggregates", 0),
        ("carry-ratios", 0),
        ("move-baremetal", 1),
        ("heal-allocations", 0),
    ]
    assert (document["findings"], status) == ([], 0)
    assert migrate("status").returncode == 0
    assert migrate("audit").returncode == 0
    assert migrate("online_data_migrations").returncode == 0
    assert held_by(client, instance) == {provider: {SILVER: 1}}


def test_flavors_that_request_sizes_are_listed_with_the_command(
    ironic, add_nodes, cloud, add_host, client, migrate_json
):
    """By the class that they name, or by the nodes that their instances are on; when set, they are fine."""
    busy = ironic.enroll("silver")
    provider = add_nodes(busy)[busy]
    add_host("kvm1")
    used = add_flavor(cloud, "old metal")
    named = add_flavor(cloud, "half", **{f"resources:{SILVER}": "1", "resources:VCPU": "0"})
    sizeless = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    add_flavor(cloud, "ready", **{f"resources:{SILVER}": "1"}, **sizeless)
    virtual = add_flavor(cloud, "virtual")
    instance = cloud.add_instance("metal1", node=busy, flavor=used)
    hold(client, instance, {provider: CLAIM})
    cloud.add_instance("kvm1", flavor=virtual)
    document, status = migrate_json("move-baremetal")
    commands = {subject: text.partition("; ")[2] for subject, (_, text) in findings_of(document).items()}
    assert (commands, status) == (
        {
            "flavor half": f"openstack flavor set --property resources:MEMORY_MB=0 "
            f"--property resources:DISK_GB=0 {named['name']}",
            "flavor old metal": f"openstack flavor set --property resources:{SILVER}=1 "
            "--property resources:VCPU=0 --property resources:MEMORY_MB=0 --property resources:DISK_GB=0 "
            "'old metal'",
        },
        3,
    )
    for subject, command in commands.items():
        words = shlex.split(command)
        assert words[-1] == subject.removeprefix("flavor ")
        flavor = {"half": named, "old metal": used}[words[-1]]
        set_properties(cloud, flavor, [word for word in words[3:-1] if "=" in word])
    document, status = migrate_json("move-baremetal")
    assert (document["findings"], status) == ([], 0)


def set_properties(cloud, flavor, properties):
    """What `openstack flavor set` makes of a flavor."""
    for key, value in (each.split("=") for each in properties):
        cloud.insert("api", "flavor_extra_specs", flavor_id=flavor["id"], key=key, value=value)


def test_flavor_used_by_virtual_machines_has_no_proposed_command(
    ironic, add_nodes, cloud, add_host, migrate_json
):
    """What would take the sizes from virtual machines is not proposed, nor where a cell cannot tell."""
    busy = ironic.enroll("silver")
    add_nodes(busy)
    add_host("kvm1", "cell2")
    shared = add_flavor(cloud, "shared")
    cloud.add_instance("metal1", node=busy, flavor=shared)
    cloud.add_instance("kvm1", "cell2", flavor=shared)
    document, status = migrate_json("move-baremetal", "--dry-run")
    trouble, text = findings_of(document)["flavor shared"]
    assert (trouble, "flavor set" in text, status) == ("ambiguous", False, 3)
    cloud.update("api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no.db' WHERE id = 3")
    document, status = migrate_json("move-baremetal", "--dry-run")
    assert (findings_of(document)["flavor shared"][0], status) == ("unknown", 4)


def test_nodes_that_cannot_be_moved_do_not_stop_others(ironic, add_nodes, cloud, client, migrate_json):
    """No class, no node, no provider, a task, a stranger, a build: each is a line, and the rest goes on."""
    classless, good, tasked, strange, built, changed = (
        ironic.enroll(),
        *(ironic.enroll("silver") for _ in range(5)),
    )
    gone, unprovided = new_uuid(), ironic.enroll("silver")
    providers = add_nodes(classless, good, tasked, strange, built, changed, gone)
    cloud.add_host("metal2", nodes=[unprovided], hypervisor_type=IRONIC)
    busy = cloud.add_instance("metal1", node=tasked, task_state="rebuilding")
    hold(client, busy, {providers[tasked]: CLAIM})
    stranger, build = new_uuid(), new_uuid()
    hold(client, stranger, {providers[strange]: CLAIM})
    hold(client, build, {providers[built]: CLAIM})
    cloud.insert("api", "build_requests", instance_uuid=build, project_id="a" * 32)
    client.ensure_resource_class("CUSTOM_OLD")
    give(client, providers[changed], {"CUSTOM_OLD": FREE})
    former = cloud.add_instance("metal1", node=changed)
    hold(client, former, {providers[changed]: {"CUSTOM_OLD": 1}})
    document, status = migrate_json("move-baremetal")
    found = findings_of(document)
    assert ({subject: trouble for subject, (trouble, _) in found.items()}, status) == (
        {
            f"node {classless}": "no resource class",
            f"node {gone}": "no such node in Ironic",
            f"host metal2, node {unprovided}": "no resource provider",
            f"instance {busy}": "in a task",
            f"node {strange}": "held by another consumer",
            f"node {built}": "in a task",
            f"instance {former}": "conflict",
        },
        3,
    )
    assert f"--resource-class <class> {classless}" in found[f"node {classless}"][1]
    assert inventories_of(client, providers[good]) == {SILVER: RESERVED}
    assert inventories_of(client, providers[strange]) == {**SIZES, SILVER: RESERVED}
    assert held_by(client, stranger) == {providers[strange]: CLAIM}
    for untouched in (classless, tasked, built, gone):
        assert inventories_of(client, providers[untouched]) == SIZES


def test_unreadable_ironic_changes_nothing(ironic, add_nodes, client, migrate_json):
    """Nothing is changed while it cannot be read, be it away, no Ironic at all, or too old."""
    node = ironic.enroll("silver")
    provider = add_nodes(node)[node]
    port = ironics.find_free_port()
    for endpoint, words in (
        (f"http://127.0.0.1:{port}", "Unable to establish connection"),
        (f"{client.endpoint}/nowhere", "answered with HTTP"),
    ):
        document, status = migrate_json("--ironic-endpoint", endpoint, "move-baremetal")
        (finding,) = document["findings"]
        assert (finding["subject"], finding["reason"], status) == ("Ironic", "unknown", 4)
        assert words in finding["text"]
        assert inventories_of(client, provider) == SIZES


def test_nodes_of_an_unreadable_cell_are_left_alone(ironic, add_nodes, cloud, client, migrate_json):
    """Its nodes are unknown, those of other cells are moved."""
    here, there = ironic.add_node("silver"), ironic.enroll("silver")
    providers = add_nodes(here) | add_nodes(there, host="metal2", cell="cell2")
    cloud.update("cell2", "ALTER TABLE instances RENAME TO moved")
    document, status = migrate_json("move-baremetal")
    assert ([row["subject"] for row in document["findings"]], status) == (["cell cell2"], 4)
    assert inventories_of(client, providers[here]) == {SILVER: FREE}
    assert inventories_of(client, providers[there]) == SIZES


def test_without_ironic_the_reported_class_is_used(add_nodes, cloud, client, nova_conf, migrate_json):
    """A node with sizes and a class is moved, and what is reserved of it stays; one without is unknown."""
    client.ensure_resource_class(SILVER)
    both, bare = new_uuid(), new_uuid()
    providers = add_nodes(both, inventories={**SIZES, SILVER: RESERVED})
    providers |= add_nodes(bare, host="metal2")
    instance = cloud.add_instance("metal1", node=both)
    hold(client, instance, {providers[both]: CLAIM})
    document, status = migrate_json("move-baremetal")
    assert ([row["subject"] for row in document["findings"]], status) == ([f"node {bare}"], 4)
    assert inventories_of(client, providers[both]) == {SILVER: RESERVED}
    assert held_by(client, instance) == {providers[both]: {SILVER: 1}}
    assert inventories_of(client, providers[bare]) == SIZES


def test_move_is_reported_when_nova_cannot_be_read_again(add_nodes, cloud, client, migrate, meanwhile):
    """What was done is not called nothing because nova cannot be read any more."""
    client.ensure_resource_class(SILVER)
    node = new_uuid()
    provider = add_nodes(node, inventories={**SIZES, SILVER: FREE})[node]
    meanwhile(lambda: cloud.update("api", "ALTER TABLE host_mappings RENAME TO elsewhere"))
    done = migrate("move-baremetal")
    assert (done.returncode, done.stderr) == (4, "")
    assert done.stdout.splitlines()[-1].startswith("Whether all is ready is unknown")
    assert inventories_of(client, provider) == {SILVER: FREE}


def test_node_in_use_keeps_its_reserved_amount(ironic, add_nodes, cloud, client, migrate_json):
    """Older drivers reserve nothing of a node in use, and every minute: nobody may fight them."""
    busy = ironic.add_node("silver")
    client.ensure_resource_class(SILVER)
    provider = add_nodes(busy, inventories={SILVER: FREE})[busy]
    instance = cloud.add_instance("metal1", node=busy)
    ironic.deploy(busy, instance)
    hold(client, instance, {provider: {SILVER: 1}})
    document, status = migrate_json("move-baremetal")
    assert (document["rows"], document["findings"], status) == ([], [], 0)


def test_wrong_ironic_options_affect_only_this_migration(
    add_nodes, add_host, cloud, client, nova_conf, migrate, migrate_json
):
    """One line says what is wrong with it; migrations that ask no Ironic do their work."""
    node = new_uuid()
    provider = add_nodes(node)[node]
    with nova_conf.open("a") as file:
        file.write("[ironic]\nauth_type = no-such-plugin\n")
    document, status = migrate_json("move-baremetal")
    assert ([row["subject"] for row in document["findings"]], status) == (["Ironic"], 4)
    assert "no-such-plugin" in document["findings"][0]["text"]
    assert inventories_of(client, provider) == SIZES
    cloud.add_aggregate("rack", ["metal1"])
    assert migrate("mirror-aggregates").returncode == 0


def test_unknown_node_is_a_one_line_error(add_nodes, migrate):
    """A typing error is not taken for nothing to do."""
    add_nodes(new_uuid())
    done = migrate("move-baremetal", "--node", "typo")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "placement-migrate: Nova has no bare metal node typo\n",
    )


def test_host_and_node_options_limit_the_move(ironic, add_nodes, client, migrate):
    """--host and --node narrow it."""
    one, two, three = (ironic.enroll("silver") for _ in range(3))
    providers = add_nodes(one, two) | add_nodes(three, host="metal2")
    assert migrate("move-baremetal", "--host", "metal1", "--node", two).returncode == 0
    moved = {name for name, uuid in providers.items() if SILVER in inventories_of(client, uuid)}
    assert moved == {two}


def test_flavor_advice_considers_unselected_nodes(ironic, add_nodes, cloud, migrate, migrate_json):
    """A flavor for nodes of two classes is not set for one of them, and readiness is nobody's of a part."""
    gold, silver, other = ironic.add_node("gold"), ironic.add_node("silver"), ironic.add_node("other")
    add_nodes(gold)
    add_nodes(silver, other, host="metal2")
    both, theirs = add_flavor(cloud, "both"), add_flavor(cloud, "theirs")
    for node, host, flavor in ((gold, "metal1", both), (silver, "metal2", both), (other, "metal2", theirs)):
        instance = cloud.add_instance(host, node=node, flavor=flavor)
        ironic.deploy(node, instance)
    narrowed = (("--host", "metal1"), ("--node", gold))
    for arguments in narrowed:
        document, status = migrate_json("move-baremetal", "--dry-run", *arguments)
        trouble, text = findings_of(document)["flavor both"]
        assert (trouble, "CUSTOM_GOLD, CUSTOM_SILVER" in text, status) == ("ambiguous", True, 3)
        assert "flavor theirs" not in findings_of(document)
        assert (
            migrate("move-baremetal", *arguments)
            .stdout.splitlines()[-1]
            .startswith("Only a part was compared")
        )
    assert "flavor theirs" in findings_of(migrate_json("move-baremetal", "--dry-run")[0])


def test_cloud_without_bare_metal_asks_no_ironic(add_host, nova_conf, migrate):
    """An Ironic that is away is nobody's concern where nova has no node of it."""
    add_host("kvm1")
    done = migrate("--ironic-endpoint", "http://127.0.0.1:1", "move-baremetal")
    assert (done.returncode, "nothing to do" in done.stdout) == (0, True)


PAGE = (ROOT / "doc/source/admin/baremetal.rst").read_text()


def test_documentation_page_shows_real_output(ironic, add_nodes, cloud, client, nova_conf, tmp_path):
    """Every command of the page prints what is shown; run ids differ, and what people do is done between."""
    nodes = [f"1be7a100-0000-4000-8000-00000000000{number}" for number in range(1, 5)]
    for node, resource_class in zip(nodes, ("Baremetal-gold", "Baremetal-gold", "silver", None), strict=True):
        ironic.add_node(resource_class, uuid=node)
    ironic.update(nodes[2], maintenance=True)
    add_nodes(*nodes, uuids=dict(zip(nodes, nodes, strict=True)))
    flavor = add_flavor(cloud, "bm.gold")
    instance = "ac0de000-0000-4000-8000-000000000001"
    cloud.add_instance("metal1", uuid=instance, node=nodes[0], flavor=flavor)
    ironic.deploy(nodes[0], instance)
    hold(client, instance, {nodes[0]: CLAIM})
    shown, move, again, undo = read_steps(PAGE)
    with shell_with(nova_conf, tmp_path) as shell:
        assert_matches(shown, type_into(shell, shown.command))
        moved = type_into(shell, move.command)
        assert_matches(move, with_runs_of(moved, move.output))
        ironic.update(nodes[3], resource_class="silver")
        sizeless = ["resources:CUSTOM_BAREMETAL_GOLD=1", "resources:VCPU=0", "resources:MEMORY_MB=0"]
        set_properties(cloud, flavor, [*sizeless, "resources:DISK_GB=0"])
        assert_matches(again, with_runs_of(type_into(shell, again.command), again.output))
        undone = type_into(shell, with_runs_of(undo.command, moved))
        assert_matches(undo, with_runs_of(undone, undo.output))
    assert held_by(client, instance) == {nodes[0]: CLAIM}


def test_killed_runs_are_finished_by_the_next(
    add_nodes, cloud, client, nova_conf, tmp_path, migrate, migrate_json
):
    """Killed at any moment and repeated, each node was moved once and whole.

    Only what is reserved of a node in use may be missing, which nobody could take; a resume puts it there.
    """
    client.ensure_resource_class(SILVER)
    nodes = [new_uuid() for _ in range(40)]
    providers = add_nodes(*nodes, inventories={**SIZES, SILVER: RESERVED})
    instances = {cloud.add_instance("metal1", node=node): providers[node] for node in nodes}
    for instance, provider in instances.items():
        hold(client, instance, {provider: CLAIM})
    program = [sys.executable, "-c", "from osc_placement.migrate.main import main; raise SystemExit(main())"]
    chance = random.Random(1)
    killed = 0
    for number in range(1, 4):
        process = subprocess.Popen(
            [
                *program,
                "--config-file",
                nova_conf,
                "move-baremetal",
                "--throttle",
                "20",
                "--concurrency",
                "2",
            ],
            env=servers.make_environment(XDG_STATE_HOME=str(tmp_path / "state")),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # one is known to be moved, and the next ones are under way
        while process.poll() is None and count_outcomes(tmp_path) < 6 * number:
            time.sleep(chance.uniform(0, 0.1))
        killed += process.poll() is None
        process.kill()
        process.wait()
        for instance, provider in instances.items():
            await_whole(client, instance, provider)
    assert killed == 3
    assert migrate_json("move-baremetal")[1] == 0
    for instance, provider in instances.items():
        assert held_by(client, instance) == {provider: {SILVER: 1}}
        assert client.list_allocations(instance)["consumer_generation"] == 2
    runs, _ = migrate_json("run", "list")
    unfinished = [run["id"] for run in runs if run["state"] == "unfinished"]
    assert unfinished
    resumed = [migrate("run", "resume", "--yes", run) for run in unfinished]
    assert {done.returncode for done in resumed} == {0}
    as_started = "Resuming with --throttle 20 --concurrency 2, as the run was started\n"
    # where something is left; the next migration made it otherwise
    assert all(done.stderr in ("", as_started) for done in resumed)
    for instance, provider in instances.items():
        assert client.list_allocations(instance)["consumer_generation"] == 2
        assert inventories_of(client, provider) == {SILVER: RESERVED}


@pytest.fixture
def left_behind(ironic, add_nodes, cloud, client):
    """Providers of nodes that nova does not have any more, by what is known of each; their UUIDs."""
    live, kept = ironic.enroll("silver"), ironic.enroll("silver")
    uuids = {"kept": kept, **{name: new_uuid() for name in ("gone", "held", "purged", "other")}}
    add_nodes(live, *uuids.values(), uuids={uuid: uuid for uuid in (live, *uuids.values())})
    for name, uuid in uuids.items():
        client.set_provider_traits(uuid, ["COMPUTE_NODE"] if name == "purged" else [], 1)
        if name in ("purged", "other"):
            cloud.update("cell1", "DELETE FROM compute_nodes WHERE uuid = :uuid", uuid=uuid)
        cloud.update("cell1", "UPDATE compute_nodes SET deleted = id WHERE uuid = :uuid", uuid=uuid)
    hold(client, new_uuid(), {uuids["held"]: CLAIM})
    return uuids


def test_providers_of_deleted_nodes_are_named_and_deleted_only_by_name(left_behind, client, migrate_json):
    """Ironic's nodes, what is held and what nova never had stays; an undo creates the deleted one again."""
    uuids = left_behind
    document, status = migrate_json("providers", "--delete")
    kinds = {each["uuid"]: each["kind"] for each in document["providers"]}
    assert {name: kinds[uuid] for name, uuid in uuids.items()} == {
        "kept": "of another service",
        "gone": "stale",
        "held": "held",
        "purged": "unknown",
        "other": "of another service",
    }
    found = {row["subject"].removeprefix("provider "): row["text"] for row in document["findings"]}
    assert found.keys() == {uuids[name] for name in ("gone", "held", "purged")}
    for name in ("gone", "purged"):
        assert f"providers --delete --resource-provider {uuids[name]}" in found[uuids[name]]
    assert (document["rows"], status) == ([], 3)
    deleted = []
    for name in uuids:
        document, status = migrate_json("providers", "--delete", "--resource-provider", uuids[name])
        deleted += [row["uuid"] for row in document["rows"]]
        assert (bool(document["findings"]), status) == ((False, 0) if uuids[name] in deleted else (True, 3))
    assert deleted == [uuids["gone"], uuids["purged"]]
    assert set(deleted).isdisjoint(each["uuid"] for each in client.list_providers())


def test_providers_of_deleted_nodes_are_unknown_without_ironic(left_behind, client, migrate_json):
    """Nothing is deleted if Ironic does not answer, because it may have the node."""
    arguments = ("--delete", "--resource-provider", left_behind["gone"])
    document, status = migrate_json("--ironic-endpoint", "http://127.0.0.1:1", "providers", *arguments)
    assert ([each["reason"] for each in document["findings"]], document["rows"], status) == (
        ["unknown"],
        [],
        4,
    )


def await_whole(client, instance, provider):
    """Read a node again if need be: a request of who was killed may be served between two readings."""
    for _ in range(50):
        (held,) = held_by(client, instance).values()
        assert held in (CLAIM, {SILVER: 1})
        if (held == CLAIM) == ("VCPU" in inventories_of(client, provider)):
            return
        time.sleep(0.1)
    raise AssertionError(f"{instance} holds {held}, which is not what {provider} has")


def count_outcomes(directory):
    """How many changes are known to be over, by all journals."""
    journals = directory.glob("state/osc-placement/runs/*.jsonl")
    return sum(journal.read_text().count('"record":"outcome"') for journal in journals)
