# SPDX-License-Identifier: Apache-2.0
"""`openstack placement migration list|check|run`, with nova's real API as the source."""

import subprocess
import sys

import pytest

from tests.functional.commands.conftest import fork_server  # noqa: F401
from tests.functional.commands.shell import OpenStack
from tests.functional.migrate import nova_serving
from tests.functional.migrate.cloud import FOUND_BY_NOVA, TRACES, add_flavor
from tests.functional.migrate.glance import serving_glance
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, all_held, held_by, hold

pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)
MIGRATION = ("placement", "migration")
NAMES = ["mirror-aggregates", "carry-ratios", "move-baremetal", "heal-allocations", "audit", "flavors"]


@pytest.fixture
def openstack(client, nova_conf, server_url, tmp_path, fork_server):  # noqa: F811
    """Run an `openstack placement migration` command in a cloud of placement and nova."""
    shell = OpenStack(server_url, tmp_path, fork_server)
    with nova_serving.serving(nova_conf.parent) as url, serving_glance() as (_, images):
        environment = {"OS_COMPUTE_ENDPOINT_OVERRIDE": url, "OS_IMAGE_ENDPOINT_OVERRIDE": images}

        def run(*words, group=MIGRATION):
            return shell.run(*group, *words, environment=environment)

        yield run


def test_list_shows_all_migrations_in_order(openstack):
    """Each has a name and says what it is about."""
    rows = openstack("list", "-f", "json").json
    assert [row["name"] for row in rows] == NAMES
    assert all(row["description"] for row in rows)


def test_old_name_of_a_migration_is_accepted(openstack):
    """The output has the present one, each migration once."""
    for names in (["mirror_aggregates"], ["aggregates", "mirror-aggregates"]):
        rows = openstack("check", *names, "-f", "json").json
        assert [row["name"] for row in rows] == ["mirror-aggregates"]


def test_check_reports_and_changes_nothing(cloud, add_host, client, openstack):
    """Counts are rows, what stands in the way is on stderr, and the exit status says that there is work."""
    node = add_host("h1")
    cloud.add_aggregate("rack", ["h1", "gone"])
    cloud.add_instance("h1")
    result = openstack("check", "-f", "json")
    rows = {row["name"]: row for row in result.json}
    assert rows["mirror-aggregates"] == {
        "name": "mirror-aggregates",
        "to_change": 1,
        "left_alone": 1,
        "state": "to do",
    }
    assert rows["carry-ratios"]["state"] == "done"
    assert "Left alone: host gone: it is mapped to no cell" in result.err
    assert result.status == 3
    assert client.list_provider_aggregates(node)["aggregates"] == []


def test_run_of_all_migrations_leaves_nothing_to_do(cloud, add_host, client, openstack):
    """What a run writes is what placement-migrate writes; the check afterwards ends with 0."""
    node = add_host("h1")
    rack = cloud.add_aggregate("rack", ["h1"], ram_allocation_ratio="1.5")
    uuid, orphan = cloud.add_instance("h1"), new_uuid()
    hold(client, orphan, {node: CLAIM})
    add_flavor(cloud, "m1", **{"trait:CUSTOM_TEST_OF_FLAVORS": "forbidden"})
    for name in (name for name in NAMES if name != "move-baremetal"):
        result = openstack("run", name, "--yes", "-f", "json")
        assert (result.status, [row["result"] for row in result.json]) == (0, ["applied"]), result.err
    assert client.list_provider_aggregates(node)["aggregates"] == [rack]
    assert client.list_inventories(node)["inventories"]["MEMORY_MB"]["allocation_ratio"] == 1.5
    assert held_by(client, uuid) == {node: CLAIM}
    assert held_by(client, orphan) == {}
    result = openstack("check")
    assert (result.status, result.err) == (0, "")
    client.delete_trait("CUSTOM_TEST_OF_FLAVORS")


@pytest.mark.parametrize("kind", FOUND_BY_NOVA)
def test_instance_that_nova_stopped_building_is_named_until_it_is_deleted(
    cloud, add_host, client, openstack, kind
):
    """Nova's API deletes it with what it holds, as the line says."""
    hold(client, uuid := cloud.add_traces(kind, ago=7200), {add_host("h1"): CLAIM})
    result = openstack("check", "audit")
    command = ("server", "delete", uuid)
    assert (result.status, " ".join(("openstack", *command)) in result.err) == (3, True)
    assert openstack(*command, group=()).status == 0
    assert all_held(client) == {}
    assert openstack("check", "audit").status == 0


@pytest.mark.parametrize("kind", sorted(TRACES.keys() - set(FOUND_BY_NOVA)))
def test_instance_that_nova_does_not_find_loses_its_allocations_by_hand(
    cloud, add_host, client, migrate_json, openstack, kind
):
    """Nova's API deletes only what its API database leads to."""
    node = add_host("h1")
    hold(client, cloud.add_instance("h1"), {node: CLAIM})
    hold(client, uuid := cloud.add_traces(kind, ago=7200), {node: CLAIM})
    assert "No Server found" in openstack("server", "delete", uuid, group=()).err
    ((_, text),) = [(each["subject"], each["text"]) for each in migrate_json("audit")[0]["findings"]]
    command = ("resource", "provider", "allocation", "delete", uuid)
    assert " ".join(("openstack", *command)) in text
    assert openstack(*command, group=()).status == 0
    assert migrate_json("audit")[1] == 0


@pytest.mark.parametrize("kind", [None, "MIGRATION"])
def test_allocations_of_a_failed_migration_are_moved_as_the_line_says(
    cloud, add_host, client, migrate_json, openstack, kind
):
    """When the audit has removed what is held of the destination; whether they had a type or not."""
    source, dest = add_host("h1"), add_host("h2")
    move = cloud.add_migration(instance := cloud.add_instance("h1"), "h1", "h2", status="error")
    hold(client, instance, {dest: CLAIM}, consumer_type=None)
    hold(client, move, {source: CLAIM}, consumer_type=kind)
    ((_, text),) = [
        (each["subject"], each["text"])
        for each in migrate_json("audit", "--delete")[0]["findings"]
        if each["subject"] == f"consumer {move}"
    ]
    command = ("resource", "provider", "allocation", "move", move, instance)
    assert text.endswith(" ".join(("openstack", *command)))
    done = openstack(*command, group=())
    assert (done.status, all_held(client)) == (0, {instance: {source: CLAIM}}), done.err
    assert migrate_json("audit")[1] == 0


def test_flavors_are_checked_and_their_names_created(cloud, add_host, client, openstack):
    """What can be created is, and the rest is left alone with the reason on stderr."""
    add_host("h1")
    add_flavor(cloud, "m1", **{"trait:CUSTOM_TEST_OF_FLAVORS": "required"})
    add_flavor(cloud, "m2", **{"trait:HW_NO_SUCH": "required"})
    result = openstack("check", "flavors", "-f", "json")
    assert (result.status, result.json) == (
        3,
        [{"name": "flavors", "to_change": 1, "left_alone": 1, "state": "to do"}],
    )
    assert "Left alone: flavor m2: placement does not know trait HW_NO_SUCH" in result.err
    result = openstack("run", "flavors", "--yes", "-f", "json")
    assert (result.status, [row["result"] for row in result.json]) == (3, ["applied"])
    client.delete_trait("CUSTOM_TEST_OF_FLAVORS")


def test_hint_leaves_nothing_to_do(cloud, add_host, openstack):
    """That a flavor leaves a part of its best host unused is shown, and the check ends with 0."""
    add_host("h1")
    add_flavor(cloud, "m1", **{"resources:DISK_GB": "600"})
    result = openstack("check", "-f", "json")
    rows = {row["name"]: (row["left_alone"], row["state"]) for row in result.json}
    assert (rows["flavors"], result.status) == ((0, "done"), 0)
    assert result.err.startswith("flavor m1: leaves ")
    assert openstack("run", "flavors", "--yes").status == 0


def test_run_needs_confirmation_and_a_known_name(cloud, add_host, client, openstack):
    """Without a terminal nothing is changed unasked; --dry-run shows; a wrong name is told the right ones."""
    node = add_host("h1")
    cloud.add_instance("h1")
    refused = openstack("run", "heal-allocations")
    assert refused.status == 1
    assert "give --yes" in refused.err
    shown = openstack("run", "heal-allocations", "--dry-run", "-f", "json")
    assert (shown.status, len(shown.json)) == (0, 1)
    assert client.list_provider_allocations(node)["allocations"] == {}
    wrong = openstack("run", "heal", "--yes")
    assert (wrong.status, len(wrong.err.splitlines())) == (2, 1)
    assert "heal-allocations" in wrong.err


def test_incomplete_run_exits_with_the_status_of_a_partial_failure(cloud, add_host, client, openstack):
    """The rest is done, and the exit status says that it was not all."""
    node = add_host("h1")
    good = cloud.add_instance("h1")
    cloud.add_instance("nowhere")
    result = openstack("run", "heal-allocations", "--yes")
    assert result.status == 3
    assert "there is no compute node nowhere" in result.err
    assert held_by(client, good) == {node: CLAIM}


@pytest.mark.usefixtures("nova_databases")
def test_migration_modules_are_loaded_on_use():
    """A start of `openstack` loads none of it; the commands themselves load it when they act."""
    code = "import sys, osc_placement.plugin, osc_placement.commands.migration; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not any(name.startswith(("osc_placement.migrate", "sqlalchemy", "oslo_config")) for name in loaded)
