# SPDX-License-Identifier: Apache-2.0
"""What the project is for, on every kind of database: load a cloud, change a rack, take the state along."""

import contextlib
import pathlib
import uuid

import pytest

from tests.functional import servers
from tests.functional.commands.shell import OpenStack

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "cloud.yaml"
RACK = "aaaaaaaa-0003-4000-8000-000000000000"
SELECT = ("--aggregate", RACK)
BATCH = ("resource", "provider", "batch")
SHOW = ("resource", "provider", "inventory", "show", "-f", "json")


@pytest.fixture
def start(make_database, tmp_path, fork_server):
    """A function that starts a server on an empty database and returns the `openstack` command for it."""
    with contextlib.ExitStack() as started:

        def start():
            directory = tmp_path / uuid.uuid4().hex
            directory.mkdir()
            server = started.enter_context(servers.running(directory, "--database", make_database()))
            return OpenStack(server.url, directory, fork_server)

        yield start


def test_rack_is_changed_and_its_state_copied_to_another_server(start, tmp_path):
    """Apply, plan, change, look, again; then export, and apply on an empty server to the same bytes."""
    openstack = start()
    assert openstack.run("resource", "provider", "apply", "-f", EXAMPLE).status == 0
    plan = openstack.run(*BATCH, "ratio", "set", "VCPU=8.1", *SELECT, "--dry-run", "-f", "json").json
    assert len(plan) == 50

    ratio = openstack.run(*BATCH, "ratio", "set", "VCPU=8.1", *SELECT, "--yes", "-f", "json")
    trait = openstack.run(*BATCH, "trait", "add", "CUSTOM_LIQUID_COOLED", *SELECT, "--yes", "-f", "json")
    for result in (ratio, trait):
        assert result.status == 0
        assert [row["result"] for row in result.json] == ["applied"] * 50
    assert ratio.err.startswith(
        "Warning: nova-compute overwrites this where nova.conf sets cpu_allocation_ratio"
    )
    assert trait.err == ""
    assert openstack.run(*SHOW, "compute-r3-17", "VCPU").json["allocation_ratio"] == 8.1
    assert openstack.run(*SHOW, "compute-r2-17", "VCPU").json["allocation_ratio"] == 4.0
    again = openstack.run(*BATCH, "ratio", "set", "VCPU=8.1", *SELECT, "--yes")
    assert again.status == 0
    assert "Nothing to do: ratio set VCPU=8.1: 0 resource providers to change, 50 unchanged" in again.out

    first = openstack.run("resource", "provider", "export").out
    file = tmp_path / "export.yaml"
    file.write_text(first)
    other = start()
    assert other.run("resource", "provider", "apply", "-f", file).status == 0
    assert other.run("resource", "provider", "export").out == first
