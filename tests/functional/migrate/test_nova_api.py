# SPDX-License-Identifier: Apache-2.0
"""Nova's facts from its real API application, beside those from the databases that it serves."""

import json
import re
from dataclasses import replace

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.migrate.nova import rest
from osc_placement.migrate.nova.api_source import ApiSource
from osc_placement.migrate.nova.db_source import DatabaseSource
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.model import Inventory
from tests.functional.migrate import nova_serving
from tests.functional.migrate.cloud import IRONIC, NOW, add_flavor
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, held_by, hold
from tests.functional.migrate.test_audit import STATES

# what differs between databases is tested with the other source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


@pytest.fixture
def nova_url(nova_conf):
    """The URL of nova's API on the databases of the test."""
    with nova_serving.serving(nova_conf.parent) as url:
        yield url


@pytest.fixture
def api(nova_url):
    """The source under test."""
    return ApiSource(rest.NovaApi(Session(auth=Token(nova_url, "admin")), endpoint=nova_url))


@pytest.fixture
def database(nova_databases):
    """The source that it is compared with."""
    source = DatabaseSource(nova_databases.urls["api"], nova_databases.urls["cell0"])
    yield source
    source.close()


@pytest.fixture
def migrate_both(migrate, nova_url):
    """Run a command with each source; both documents and exit statuses, that of the databases first."""

    def run(*arguments):
        done = [
            migrate(*source, *arguments, "-f", "json")
            for source in ((), ("--source", "api", "--nova-endpoint", nova_url))
        ]
        return [(json.loads(each.stdout), each.returncode) for each in done]

    return run


def _without_flavorid(instance):
    """The instance; of the flavor that it has, the API tells the name alone."""
    if instance.flavor is None:
        return instance
    return replace(instance, flavor=replace(instance.flavor, flavorid=""))


def read_all(source):
    """All facts of a source, in an order that does not depend on it."""
    cells = source.list_cells()
    return {
        "aggregates": source.list_aggregates(),
        "flavors": source.list_flavors(),
        "hosts": sorted(source.map_hosts()),
        "services": {host: service for cell in cells for host, service in source.list_services(cell).items()},
        "nodes": sorted(
            (node.uuid, node.host, node.name, node.hypervisor_type)
            for cell in cells
            for node in source.list_compute_nodes(cell)
        ),
        "instances": {
            each.uuid: _without_flavorid(each) for cell in cells for each in source.iterate_instances(cell)
        },
        "migrations": sorted(
            (each for cell in cells for each in source.list_migrations(cell)), key=lambda each: each.uuid
        ),
    }


@pytest.fixture
def landscape(cloud, add_host):
    """Two cells with what differs from instance to instance."""
    add_host("h1")
    add_host("h2", "cell2")
    add_host("metal", inventories={"DISK_GB": Inventory(1)}, nodes=["n1", "n2"], hypervisor_type=IRONIC)
    add_host("pinned", inventories={**SIZES, "PCPU": Inventory(16)})
    cloud.update("cell2", "UPDATE services SET disabled = 1 WHERE host = 'h2'")
    cloud.add_aggregate("rack", ["h1", "h2", "unmapped"], cpu_allocation_ratio="4.0")
    cloud.add_aggregate("empty")
    add_flavor(cloud, "m1")
    add_flavor(cloud, "metal", **{"resources:CUSTOM_GOLD": "1", "resources:VCPU": "0"})
    moved = cloud.add_instance("h1", flavor={"swap": 1025, "extra_specs": {"resources:VGPU": "0"}})
    cloud.add_migration(moved, "h1", "h2")
    cloud.add_migration(moved, "h1", "h2", status="confirmed")
    cloud.add_instance("h2", "cell2", vm_state="soft-delete")
    cloud.add_instance("h2", "cell2", task_state="rebuilding", updated_at=NOW)
    cloud.add_instance("h2", "cell2", vm_state="resized")
    cloud.add_instance("h2", "cell2", deleted=7)
    cloud.add_instance("h2", "cell2", hidden=True)
    cloud.add_instance("pinned", image={"hw_cpu_policy": "dedicated"})
    cloud.add_instance("nowhere")
    cloud.add_instance(vm_state="shelved_offloaded", updated_at=NOW)
    cloud.add_instance(vm_state="building", task_state="scheduling", created_at=NOW, updated_at=None)
    cloud.stop("pinned")
    return cloud


def test_api_and_databases_give_the_same_facts(landscape, api, database):
    """Aggregates, hosts, nodes, instances with their flavors, and migrations are the same, value by value."""
    facts = read_all(api)
    assert facts == read_all(database)
    assert (len(facts["instances"]), len(facts["migrations"])) == (8, 1)
    assert [flavor.name for flavor in facts["flavors"]] == ["m1", "metal"]


def test_boot_from_volume_is_recognized(cloud, api, database):
    """Without an image, or with a root device that is a volume; other volumes mean nothing."""
    plain = cloud.add_instance("h1", volume=True)
    both = cloud.add_instance("h1", root_device_name="/dev/vda")
    data = cloud.add_instance("h1", root_device_name="/dev/vda")
    statement = "UPDATE block_device_mapping SET destination_type = 'volume', volume_id = :v"
    cloud.update("cell1", f"{statement} WHERE instance_uuid = :u", v=new_uuid(), u=both)
    cloud.insert(
        "cell1",
        "block_device_mapping",
        instance_uuid=data,
        boot_index=None,
        destination_type="volume",
        source_type="volume",
        device_name="/dev/vdb",
        volume_id=new_uuid(),
        deleted=0,
        uuid=new_uuid(),
    )
    for source in (api, database):
        (cell,) = [cell for cell in source.list_cells() if cell.name != "cell2"]
        roots = {each.uuid: each.volume_root for each in source.iterate_instances(cell)}
        assert roots == {plain: True, both: True, data: False}


def test_paged_lists_are_complete(landscape, api, database, monkeypatch):
    """Lists that take many pages are the same."""
    monkeypatch.setattr(rest, "PAGE", 1)
    facts = read_all(api)
    assert facts == read_all(database)


@pytest.mark.parametrize(
    "command", [("mirror-aggregates", "--dry-run"), ("carry-ratios", "--dry-run"), ("status",)]
)
def test_api_and_databases_give_the_same_plans(landscape, migrate_both, command):
    """From the same nova both sources make the same plan, and find the same in the way."""
    (by_database, status), (by_api, api_status) = migrate_both(*command)
    # the API shows less of what instances were requested with: see test_constraints.py
    for document in (by_database, by_api):
        document.pop("constraints", None)
    assert (_sort(by_api), api_status) == (_sort(by_database), status)
    assert by_api["findings"]


def test_api_and_databases_judge_every_state_equally(cloud, add_host, client, migrate_both):
    """What either shows of an instance is enough to tell whether it uses what it holds."""
    node, left = add_host("h1"), add_host("h2")
    for columns, _, _ in STATES.values():
        hold(client, cloud.add_instance(**columns), {node: CLAIM})
    evacuated = cloud.add_instance("h1")
    cloud.evacuate(evacuated, "h2", "h1")
    cloud.stop("h2")
    hold(client, evacuated, {node: CLAIM, left: CLAIM})
    (by_database, status), (by_api, api_status) = migrate_both("audit")
    orphans, orphans_by_api = ({row["uuid"] for row in each["rows"]} for each in (by_database, by_api))
    assert (orphans_by_api, api_status) == (orphans, status)
    assert _sort(by_api["findings"]) == _sort(by_database["findings"])
    assert len(orphans) == sum(verdict == "orphaned" for _, _, verdict in STATES.values()) + 1


def _sort(document):
    """A document whose lists have an order of their own; an order of pages is none."""
    if isinstance(document, dict):
        return {key: _sort(value) for key, value in document.items()}
    if isinstance(document, list):
        return sorted(map(_sort, document), key=json.dumps)
    return document


def test_all_migrations_work_through_the_api(cloud, add_host, client, migrate, nova_url):
    """All migrations do with the API what they do with the databases, and then find nothing to do."""
    node = add_host("h1")
    uuid = cloud.add_instance("h1")
    rack = cloud.add_aggregate("rack", ["h1"], cpu_allocation_ratio="2.0")
    access = ("--source", "api", "--nova-endpoint", nova_url)
    assert migrate(*access, "online_data_migrations").returncode == 0
    assert held_by(client, uuid) == {node: CLAIM}
    assert client.list_provider_aggregates(node)["aggregates"] == [rack]
    assert client.list_inventories(node)["inventories"]["VCPU"]["allocation_ratio"] == 2.0
    assert migrate(*access, "status").returncode == 0
    orphan = new_uuid()
    hold(client, orphan, {node: CLAIM})
    assert migrate(*access, "audit", "--delete").returncode == 0
    assert held_by(client, orphan) == {}
    assert held_by(client, uuid) == {node: CLAIM}


def test_silent_cell_is_left_alone(cloud, add_host, client, nova_databases, tmp_path, migrate, nova_url):
    """What a cell that does not answer may hold is left alone, and nothing is deleted.

    Nova then lists no hypervisors at all.
    """
    nodes = add_host("h1"), add_host("h2", "cell2")
    cloud.add_aggregate("rack", ["h1", "h2"])
    instance = cloud.add_instance("h2", "cell2")
    hold(client, instance, {nodes[1]: CLAIM})
    (tmp_path / "cell2.db").write_text("no database")
    access = ("--source", "api", "--nova-endpoint", nova_url)
    done = migrate(*access, "mirror-aggregates")
    assert done.returncode == 4
    assert "the cell of h2 does not answer" in done.stdout
    assert "host h1: its cell cannot be read" in done.stdout
    done = migrate(*access, "audit", "--delete")
    assert done.returncode == 4
    assert held_by(client, instance) == {nodes[1]: CLAIM}


def test_unreadable_server_does_not_stop_others(cloud, add_host, client, migrate, nova_url):
    """Nova fails to list one whose flavor does not parse; it is named, and the others are healed."""
    node = add_host("h1")
    good, bad = cloud.add_instance("h1"), cloud.add_instance("h1", flavor="{")
    done = migrate("--source", "api", "--nova-endpoint", nova_url, "heal-allocations")
    assert done.returncode == 4
    assert f"instance {bad}: nova's API fails to show it" in done.stdout
    assert held_by(client, good) == {node: CLAIM}


def test_instance_with_an_unreadable_image_is_not_guessed(
    cloud, add_host, client, migrate, nova_url, monkeypatch
):
    """Where the host has dedicated CPUs, an image that nobody shows may have asked for them."""
    add_host("pinned", inventories={**SIZES, "PCPU": Inventory(16)})
    plain = add_host("plain")
    unsure = cloud.add_instance("pinned", volume=True)
    sure = cloud.add_instance("plain")
    monkeypatch.setattr(rest.NovaApi, "newest", (2, 90))
    done = migrate("--source", "api", "--nova-endpoint", nova_url, "heal-allocations")
    assert done.returncode == 3
    assert re.search(f"instance {unsure}: .* may ask for PCPU", done.stdout)
    assert held_by(client, sure) == {plain: CLAIM}


def test_nova_before_2_69_prevents_removals(cloud, add_host, client, migrate, nova_url, monkeypatch):
    """Such a nova does not say whether all cells answer: what adds is done, what deletes is not."""
    node = add_host("h1")
    uuid, orphan = cloud.add_instance("h1"), new_uuid()
    hold(client, orphan, {node: CLAIM})
    monkeypatch.setattr(rest.NovaApi, "newest", (2, 65))
    access = ("--source", "api", "--nova-endpoint", nova_url)
    assert migrate(*access, "heal-allocations").returncode == 4
    assert held_by(client, uuid) == {node: CLAIM}
    assert migrate(*access, "audit", "--delete").returncode == 4
    assert held_by(client, orphan) == {node: CLAIM}


@pytest.fixture
def leave_out(monkeypatch):
    """A function that makes nova's lists of servers leave some out without a word, as of a slow cell."""
    page = rest.NovaApi.page

    def leave(*uuids):
        def page_without(self, path, *arguments):
            items, more = page(self, path, *arguments)
            return [item for item in items if item.get("id") not in uuids], more

        monkeypatch.setattr(rest.NovaApi, "page", page_without)

    return leave


def test_unlisted_server_is_looked_up_before_removal(cloud, add_host, client, migrate, nova_url, leave_out):
    """Whom no list shows and nova knows is no orphan; whom it does not know either way is removed."""
    node = add_host("h1")
    left_out, orphan = cloud.add_instance("h1"), new_uuid()
    for uuid in (left_out, orphan):
        hold(client, uuid, {node: CLAIM})
    leave_out(left_out)
    done = migrate("--source", "api", "--nova-endpoint", nova_url, "audit", "--delete")
    assert done.returncode == 0
    assert (held_by(client, left_out), held_by(client, orphan)) == ({node: CLAIM}, {})


def test_server_that_nova_fails_to_show_is_no_orphan(cloud, add_host, client, migrate, nova_url, monkeypatch):
    """Where nova fails to say whether it has one, none is removed."""
    node = add_host("h1")
    orphans = [new_uuid() for _ in range(3)]
    for uuid in orphans:
        hold(client, uuid, {node: CLAIM})
    get = rest.NovaApi.get

    def fail(self, path, *arguments):
        if path.endswith(orphans[1]):
            raise rest.Refused(path, 500, "nova is not well")
        return get(self, path, *arguments)

    monkeypatch.setattr(rest.NovaApi, "get", fail)
    done = migrate("--source", "api", "--nova-endpoint", nova_url, "audit", "--delete")
    assert (done.returncode, "nova is not well" in done.stdout) == (4, True)
    assert all(held_by(client, uuid) for uuid in orphans)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/v2.1", "nova's API: "),
        ("nonsense", "--nova-endpoint is an address such as http://controller/service, not 'nonsense'"),
    ],
)
def test_unreachable_api_is_a_one_line_error(migrate, url, reason):
    """Whoever cannot reach nova is told so in one line."""
    done = migrate("--source", "api", "--nova-endpoint", url, "mirror-aggregates")
    assert done.returncode == 1
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_too_old_nova_is_a_one_line_error(cloud, api, monkeypatch):
    """What nova speaks and what is needed stand in one line."""
    monkeypatch.setattr(rest, "OLDEST", (9, 1))
    with pytest.raises(Unreadable, match=r"it speaks up to 2\.\d+, and 9\.1 is needed"):
        api.list_aggregates()


def test_nova_api_is_not_enough_to_delete_a_host(cloud, add_host, migrate_both):
    """It may leave out a slow cell and does not show the cell of a mapping, so no line says how to delete."""
    add_host("h1")
    cloud.update("cell1", "UPDATE services SET disabled = 1 WHERE host = 'h1'")
    commands = [
        [(each["step"], each["command"]) for each in document["holds"]]
        for document, _ in migrate_both("decommission", "h1")
    ]
    assert [step for step, _ in commands[0]] == ["delete the service", "delete the host mapping"]
    assert commands[0][0][1].startswith("openstack compute service delete ")
    assert commands[1] == [("delete the service", ""), ("delete the host mapping", "")]


def test_dead_host_is_freed_through_the_api(cloud, add_host, client, migrate, nova_url):
    """What was evacuated from it goes; its providers are left, as the API does not show deleted nodes."""
    node, left = add_host("h1"), add_host("h2")
    evacuated = cloud.add_instance("h1")
    cloud.evacuate(evacuated, "h2", "h1")
    cloud.stop("h2")
    hold(client, evacuated, {node: CLAIM, left: CLAIM})
    access = ("--source", "api", "--nova-endpoint", nova_url, "decommission", "h2", "--free")
    assert migrate(*access, "--delete").returncode == 1
    assert migrate(*access).returncode == 3
    assert held_by(client, evacuated) == {node: CLAIM}
