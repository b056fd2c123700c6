# SPDX-License-Identifier: Apache-2.0
"""Nova's facts, as they are read from its real databases."""

from datetime import datetime

import pytest
import sqlalchemy as sa

from osc_placement.flavor import Flavor
from osc_placement.migrate.nova import database
from osc_placement.migrate.nova.db_source import DatabaseSource
from osc_placement.migrate.nova.facts import Cell, ComputeService, Image
from osc_placement.migrate.nova.source import Unreadable
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import IRONIC, KVM, NODE, Cloud, embed_flavor, tell_time
from tests.functional.migrate.nova_databases import new_uuid

#: the revisions with which the migrations of today's nova begin
OLDEST = {"api": "d67eeaabee36", "main": "8f2f1571d55b"}


@pytest.fixture
def source(nova_databases):
    """The source under test."""
    source = DatabaseSource(nova_databases.urls["api"], nova_databases.urls["cell0"])
    yield source
    source.close()


def cell_named(source, name):
    """A cell of the source."""
    return next(cell for cell in source.list_cells() if cell.name == name)


def test_aggregates_have_hosts_and_metadata(cloud, source):
    """Host aggregates come with their members and metadata, from the API database."""
    uuid = cloud.add_aggregate("rack1", ["h1", "h2"], cpu_allocation_ratio="4.0")
    cloud.add_aggregate("empty")
    empty, rack1 = source.list_aggregates()
    assert (rack1.uuid, rack1.hosts) == (uuid, frozenset(("h1", "h2")))
    assert rack1.metadata == {"cpu_allocation_ratio": "4.0"}
    assert empty.hosts == frozenset()


def test_flavors_are_read_with_sizes_and_extra_specs(cloud, source):
    """Those of today, from the API database, by name; what may be NULL there is nothing."""
    sizes = {"memory_mb": 2048, "vcpus": 2, "swap": 512}
    number = cloud.insert("api", "flavors", name="b", flavorid="1", root_gb=20, ephemeral_gb=1, **sizes)
    cloud.insert("api", "flavors", name="a", flavorid="2", **sizes)
    cloud.insert("api", "flavor_extra_specs", flavor_id=number, key="resources:CUSTOM_X", value="1")
    cloud.insert("api", "flavor_extra_specs", flavor_id=number, key="empty", value=None)
    assert source.list_flavors() == [
        Flavor(2, 2048, 0, 0, 512, {}, "a", "2"),
        Flavor(2, 2048, 20, 1, 512, {"resources:CUSTOM_X": "1", "empty": ""}, "b", "1"),
    ]


def test_disabled_cells_are_read_and_cell0_is_not(cloud, source):
    """Cell0 has no hosts; those of a disabled cell are as real as others."""
    cloud.update("api", "UPDATE cell_mappings SET disabled = 1 WHERE name = 'cell2'")
    assert [cell.name for cell in source.list_cells()] == ["cell1", "cell2"]


def test_disabled_cell_is_known_as_such(cloud, source):
    """A repair leaves its hosts alone."""
    cloud.update("api", "UPDATE cell_mappings SET disabled = 1 WHERE name = 'cell2'")
    assert [cell.is_disabled for cell in source.list_cells()] == [False, True]


def test_deleted_compute_nodes_are_read(cloud, source):
    """Those that are marked and those that are archived are former nodes, and no others."""
    marked, archived = cloud.add_host("marked")["marked"], new_uuid()
    cloud.add_host("live")
    cloud.update("cell1", "UPDATE compute_nodes SET deleted = id WHERE host = 'marked'")
    values = {**NODE, "hypervisor_type": KVM, "uuid": archived, "deleted": 9}
    cloud.insert("cell1", "shadow_compute_nodes", host="old", hypervisor_hostname="old.org", **values)
    cell1 = cell_named(source, "cell1")
    assert {(node.uuid, node.host, node.name) for node in source.list_former_nodes(cell1)} == {
        (marked, "marked", "marked"),
        (archived, "old", "old.org"),
    }
    assert [node.host for node in source.list_compute_nodes(cell1)] == ["live"]
    assert source.list_former_nodes(cell_named(source, "cell2")) == []


def test_services_are_read_with_their_state(cloud, source):
    """A service that is deleted is none, and neither is one of another kind."""
    for host in ("on", "off", "gone", "conductor", "down", "forced", "old", "oldest", "new"):
        cloud.add_host(host)
    cloud.update("cell1", "UPDATE services SET disabled = 1 WHERE host = 'off'")
    cloud.update("cell1", "UPDATE services SET deleted = id WHERE host = 'gone'")
    cloud.update("cell1", "UPDATE services SET `binary` = 'nova-conductor' WHERE host = 'conductor'")
    cloud.stop("down")
    # of all clocks that of nova counts
    later = tell_time(ago=-3600)
    cloud.update("cell1", "UPDATE services SET last_seen_up = :later WHERE host = 'off'", later=later)
    cloud.update("cell1", "UPDATE services SET forced_down = 1 WHERE host = 'forced'")
    cloud.update("cell1", "UPDATE services SET version = 37 WHERE host = 'old'")
    cloud.update("cell1", "UPDATE services SET version = NULL WHERE host = 'oldest'")
    cloud.update("cell1", "UPDATE services SET last_seen_up = NULL, created_at = NULL WHERE host = 'new'")
    assert source.list_services(cell_named(source, "cell1")) == {
        "on": ComputeService(is_disabled=False),
        "off": ComputeService(is_disabled=True),
        "down": ComputeService(is_disabled=False, is_up=False),
        "forced": ComputeService(is_disabled=False, is_up=False),
        "old": ComputeService(is_disabled=False, reports_status=False),
        "oldest": ComputeService(is_disabled=False, reports_status=False),
        # what is not known to be down is not
        "new": ComputeService(is_disabled=False),
    }


def test_no_service_is_down_where_none_is_seen(cloud, source):
    """All of nova may have been stopped, or the clock here be wrong; one that is forced down is down."""
    for host in ("h1", "h2", "forced"):
        cloud.add_host(host)
        cloud.stop(host)
    cloud.update("cell1", "UPDATE services SET forced_down = 1 WHERE host = 'forced'")
    services = source.list_services(cell_named(source, "cell1"))
    assert {host for host, service in services.items() if service.is_up} == {"h1", "h2"}


def test_no_service_is_down_where_none_reports(cloud, source):
    """Each is told to memcached, and when it was created says nothing."""
    for host in ("h1", "h2"):
        cloud.add_host(host)
    cloud.update("cell1", "UPDATE services SET last_seen_up = NULL, created_at = :now", now=tell_time())
    cloud.update(
        "cell1", "UPDATE services SET created_at = :then WHERE host = 'h1'", then=tell_time(ago=3600)
    )
    assert all(service.is_up for service in source.list_services(cell_named(source, "cell1")).values())


def test_hosts_are_read_with_their_cells(cloud, source):
    """The API database says which cell a host is in."""
    cloud.add_host("h1", "cell1")
    cloud.add_host("h2", "cell2")
    assert source.map_hosts() == {"h1": cloud.cells["cell1"], "h2": cloud.cells["cell2"]}


def test_connection_template_is_filled(cloud, source):
    """The connection of a cell may be a template of the one in nova.conf."""
    main = sa.make_url(cloud.urls["cell0"])
    template = "{scheme}://{username}:{password}@{hostname}:{port}/" + str(
        sa.make_url(cloud.urls["cell1"]).database
    )
    if main.get_backend_name() == "sqlite":
        template = "{scheme}:////{path}".replace(
            "{path}", sa.make_url(cloud.urls["cell1"]).database.lstrip("/")
        )
    else:
        template = template.replace(":{password}", "" if main.password is None else ":{password}")
    statement = "UPDATE cell_mappings SET database_connection = :template WHERE name = 'cell1'"
    cloud.update("api", statement, template=template)
    nodes = cloud.add_host("h1")
    assert [node.uuid for node in source.list_compute_nodes(cell_named(source, "cell1"))] == [nodes["h1"]]


def test_compute_nodes_are_read_with_ratios_and_kind(cloud, source):
    """Of compute nodes, those that are deleted are left out, and several on one host are kept apart."""
    cloud.add_host("ironic1", nodes=["n1", "n2"], hypervisor_type=IRONIC)
    cloud.add_host("gone", deleted=7)
    nodes = source.list_compute_nodes(cell_named(source, "cell1"))
    assert [(node.host, node.name, node.hypervisor_type) for node in nodes] == [
        ("ironic1", "n1", "ironic"),
        ("ironic1", "n2", "ironic"),
    ]
    assert nodes[0].ratios == {"VCPU": 16.0, "MEMORY_MB": 1.0, "DISK_GB": 1.0}


def test_instance_is_read_with_its_embedded_flavor(cloud, source):
    """What the instance was booted with counts, whatever became of the flavor since."""
    flavor = {"vcpus": 4, "swap": 1025, "extra_specs": {"resources:VGPU": "1"}}
    uuid = cloud.add_instance("h1", flavor=flavor, image={"hw_cpu_policy": "dedicated"})
    (instance,) = source.iterate_instances(cell_named(source, "cell1"))
    assert (instance.uuid, instance.host, instance.node) == (uuid, "h1", "h1")
    assert (instance.flavor.vcpus, instance.flavor.swap_mb) == (4, 1025)
    assert instance.flavor.extra_specs == {"resources:VGPU": "1"}
    assert instance.image == {"hw_cpu_policy": "dedicated"}
    assert not instance.volume_root


def test_boot_from_volume_is_recognized(cloud, source):
    """The live root device decides; without one, what was not made from an image was made from a volume."""
    by_device = cloud.add_instance("h1", volume=True)
    without_device = cloud.add_instance("h1", volume=True)
    cloud.update("cell1", "DELETE FROM block_device_mapping WHERE instance_uuid = :u", u=without_device)
    from_image = cloud.add_instance("h1")
    cloud.update(
        "cell1", "UPDATE block_device_mapping SET deleted = 9 WHERE instance_uuid = :u", u=from_image
    )
    instances = source.iterate_instances(cell_named(source, "cell1"))
    roots = {instance.uuid: instance.volume_root for instance in instances}
    assert roots == {by_device: True, without_device: True, from_image: False}


def test_deleted_and_hidden_instances_are_left_out(cloud, source):
    """A deleted row and the hidden half of a move between cells are no instances; soft-deleted ones are."""
    cloud.add_instance("h1", deleted=3)
    cloud.add_instance("h1", hidden=True)
    kept = cloud.add_instance("h1", vm_state="soft-delete")
    assert [each.uuid for each in source.iterate_instances(cell_named(source, "cell1"))] == [kept]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read"),
        ('{"cur": null}', "cannot be read"),
        ('{"cur": {"nova_object.data": {"vcpus": 1}}}', "has no 'memory_mb'"),
        ("", "it has no flavor"),
    ],
)
def test_unreadable_flavor_is_reported_with_its_instance(cloud, source, text, reason):
    """An instance whose flavor cannot be read is still there, with the reason."""
    cloud.add_instance("h1", flavor=text)
    (instance,) = source.iterate_instances(cell_named(source, "cell1"))
    assert instance.flavor is None
    assert reason in instance.flavor_error


def test_instances_come_in_pages(cloud, source, monkeypatch):
    """More instances than fit a page all come, each once."""
    monkeypatch.setattr(database, "PAGE", 3)
    uuids = [cloud.add_instance("h1", flavor=embed_flavor()) for _ in range(7)]
    assert [each.uuid for each in source.iterate_instances(cell_named(source, "cell1"))] == uuids


def test_time_of_the_last_change_is_read_of_instances_on_no_host(cloud, source):
    """One that was never changed has the time of its creation."""
    changed, created = "2026-01-02 03:04:06", "2026-01-02 03:04:05"
    expected = {
        cloud.add_instance("h1"): None,
        cloud.add_instance(created_at=created, updated_at=changed): datetime.fromisoformat(f"{changed}Z"),
        cloud.add_instance(created_at=created, updated_at=None): datetime.fromisoformat(f"{created}Z"),
    }
    instances = source.iterate_instances(cell_named(source, "cell1"))
    assert {each.uuid: each.changed_at for each in instances} == expected
    cloud.insert("api", "build_requests", instance_uuid="b", project_id="p", created_at=created)
    assert source.list_requested_builds() == {"b": datetime.fromisoformat(f"{created}Z")}


def test_finished_migrations_are_left_out(cloud, source):
    """A finished resize awaits its confirmation, so it is live; a confirmed one is over."""
    moved = cloud.add_instance("h1")
    live = [cloud.add_migration(moved, "h1", "h2", status=status) for status in ("running", "finished")]
    for status in ("confirmed", "reverted", "error", "completed"):
        cloud.add_migration(moved, "h1", "h2", status=status)
    records = source.list_migrations(cell_named(source, "cell1"))
    assert [record.uuid for record in records] == live
    assert (records[0].source_host, records[0].dest_node) == ("h1", "h2")


def test_schema_of_rocky_can_be_read(cloud, source, nova_databases):
    """Columns that came after Rocky may be missing."""
    if nova_databases.urls["cell1"].startswith("sqlite"):
        # SQLite drops no column that is in an index
        cloud.update("cell1", "DROP INDEX instances_compute_id_deleted_idx")
    cloud.update("cell1", "ALTER TABLE instances DROP COLUMN hidden")
    cloud.update("cell1", "ALTER TABLE instances DROP COLUMN compute_id")
    cloud.insert("cell1", "instances", uuid="i1", host="h1", node="h1", deleted=0, image_ref="x")
    (instance,) = source.iterate_instances(cell_named(source, "cell1"))
    assert (instance.uuid, instance.project_id) == ("i1", "")


@pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)
def test_oldest_schema_of_nova_manage_can_be_read(tmp_path, nova_databases):
    """The real `nova-manage` makes the tables as they were when its migrations began, in Train.

    What came between Rocky and Train is dropped.
    """
    for name, kind in (("old_api", "api"), ("old_cell", "main")):
        url = f"sqlite:///{tmp_path}/{name}.db"
        conf = nova.write_conf(tmp_path, url, url)
        done = nova.manage(conf, *nova.SYNC[kind], OLDEST[kind])
        assert done.returncode == 0, done.stderr
        nova_databases.urls.update({"api" if kind == "api" else "cell1": url})
    cloud = Cloud(nova_databases.urls)
    cloud.update("cell1", "ALTER TABLE instances DROP COLUMN hidden")
    cloud.update("cell1", "ALTER TABLE migrations DROP COLUMN cross_cell_move")
    nodes = cloud.add_host("h1")
    cloud.add_aggregate("rack", ["h1"])
    cloud.insert("cell1", "instances", uuid="i1", host="h1", node="h1", deleted=0, image_ref="x")
    cloud.insert("cell1", "instance_extra", instance_uuid="i1", flavor=embed_flavor(), deleted=0)
    cloud.add_migration("i1", "h1", "h2")
    source = DatabaseSource(nova_databases.urls["api"], nova_databases.urls["cell0"])
    cell = cell_named(source, "cell1")
    assert [each.hosts for each in source.list_aggregates()] == [frozenset(("h1",))]
    assert [node.uuid for node in source.list_compute_nodes(cell)] == [nodes["h1"]]
    assert [(each.uuid, each.flavor.vcpus) for each in source.iterate_instances(cell)] == [("i1", 2)]
    assert [each.source_host for each in source.list_migrations(cell)] == ["h1"]
    assert source.list_requested_builds() == {}
    source.close()


def test_missing_column_is_reported_by_name(cloud, source):
    """A schema that lacks what is needed is said to, with the table and the column."""
    cloud.update("cell1", "ALTER TABLE compute_nodes DROP COLUMN hypervisor_type")
    with pytest.raises(Unreadable, match="cell cell1: table compute_nodes has no column hypervisor_type"):
        source.list_compute_nodes(cell_named(source, "cell1"))


def test_missing_table_is_reported_by_name(cloud, source):
    """So is a missing table."""
    with pytest.raises(Unreadable, match="there is no table compute_nodes"):
        source.list_compute_nodes(Cell("u", "odd", cloud.urls["api"]))


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////nowhere/cell.db",
        "mysql+pymysql://nobody:wrong@127.0.0.1:1/none",
        "not a url",
        "oracle+nodriver://h/x",
        "mysql+pymysql://{user}@h/x",
    ],
)
@pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)
def test_unreachable_cell_is_a_one_line_error(source, url):
    """Whatever is wrong with a connection becomes one line that names the cell, and no password."""
    with pytest.raises(Unreadable) as caught:
        source.list_compute_nodes(Cell("u", "cell9", url))
    assert str(caught.value).startswith("cell cell9: ")
    assert "\n" not in str(caught.value)
    assert "wrong" not in str(caught.value)


def test_source_cannot_write(cloud, source):
    """The sessions of the source refuse to change anything."""
    cloud.add_host("h1")
    database = source._cell(cell_named(source, "cell1"))
    with pytest.raises(Unreadable, match=r"(?i)read.?only"), database._reading() as connection:
        connection.execute(sa.text("DELETE FROM compute_nodes"))


def test_images_of_instances_are_read_with_their_traits(cloud, source):
    """Each image once, with the properties that ask for a trait; deleted instances do not count."""
    for _ in range(2):
        image = {"trait:HW_A": "required", "hw_cpu_policy": "shared"}
        cloud.add_instance("h1", image=image, image_ref="i1")
    cloud.add_instance("h1", image={"trait:HW_B": "no"}, image_ref="i1")
    cloud.add_instance("h1", image={"trait:HW_C": "required"}, volume=True)
    cloud.add_instance("h1", image={"trait:HW_D": "required"}, image_ref="i2", deleted=7)
    cloud.add_instance("h1", image={"traits": "x", "Trait:HW_E": "required"}, image_ref="i3")
    cloud.add_instance("h1", cell="cell2", image={"trait:HW_F": "required"}, image_ref="i4")
    assert source.list_images(cell_named(source, "cell1")) == [
        Image("", properties={"trait:HW_C": "required"}),
        Image("i1", properties={"trait:HW_A": "required", "trait:HW_B": "no"}),
    ]
