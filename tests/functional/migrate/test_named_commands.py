# SPDX-License-Identifier: Apache-2.0
"""Commands of `openstack` that `placement-migrate` names, with nova's real API."""

import pytest

from tests.functional.commands.conftest import fork_server  # noqa: F401
from tests.functional.commands.shell import OpenStack
from tests.functional.migrate import nova_serving
from tests.functional.migrate.cloud import FOUND_BY_NOVA, TRACES
from tests.functional.migrate.placement import CLAIM, all_held, hold

pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


@pytest.fixture
def openstack(client, nova_conf, server_url, tmp_path, fork_server):  # noqa: F811
    """Run an `openstack` command in a cloud of placement and nova."""
    shell = OpenStack(server_url, tmp_path, fork_server)
    with nova_serving.serving(nova_conf.parent) as url:
        yield lambda *words: shell.run(*words, environment={"OS_COMPUTE_ENDPOINT_OVERRIDE": url})


@pytest.mark.parametrize("kind", FOUND_BY_NOVA)
def test_instance_that_nova_stopped_building_is_named_until_it_is_deleted(
    cloud, add_host, client, migrate, openstack, kind
):
    """Nova's API deletes it with what it holds, as the line says."""
    hold(client, uuid := cloud.add_traces(kind, ago=7200), {add_host("h1"): CLAIM})
    result = migrate("audit")
    command = ("server", "delete", uuid)
    assert (result.returncode, " ".join(("openstack", *command)) in result.stdout) == (3, True)
    assert openstack(*command).status == 0
    assert all_held(client) == {}
    assert migrate("audit").returncode == 0


@pytest.mark.parametrize("kind", sorted(TRACES.keys() - set(FOUND_BY_NOVA)))
def test_instance_that_nova_does_not_find_loses_its_allocations_by_hand(
    cloud, add_host, client, migrate_json, openstack, kind
):
    """Nova's API deletes only what its API database leads to."""
    node = add_host("h1")
    hold(client, cloud.add_instance("h1"), {node: CLAIM})
    hold(client, uuid := cloud.add_traces(kind, ago=7200), {node: CLAIM})
    assert "No Server found" in openstack("server", "delete", uuid).err
    ((_, text),) = [(each["subject"], each["text"]) for each in migrate_json("audit")[0]["findings"]]
    command = ("resource", "provider", "allocation", "delete", uuid)
    assert " ".join(("openstack", *command)) in text
    assert openstack(*command).status == 0
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
    done = openstack(*command)
    assert (done.status, all_held(client)) == (0, {instance: {source: CLAIM}}), done.err
    assert migrate_json("audit")[1] == 0
