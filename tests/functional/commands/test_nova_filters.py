# SPDX-License-Identifier: Apache-2.0
"""The filters of nova's scheduler in capacity, explain and list: the real commands against a real server."""

import uuid

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional import servers
from tests.functional.commands.other_services import serving
from tests.functional.commands.shell import OpenStack

CAPACITY = ("resource", "provider", "capacity")
EXPLAIN = ("allocation", "candidate", "explain")
LIST = ("allocation", "candidate", "list")
NODE = ("COMPUTE_NODE", "OWNER_NOVA")
PROJECT = "0123456789abcdef0123456789abcdef"
VERSION = ("--os-placement-api-version", "1.39")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server that has nothing but this cloud."""
    with servers.running(tmp_path_factory.mktemp("filters")) as server:
        yield server.url


@pytest.fixture(scope="module")
def client(endpoint):
    return PlacementClient(Session(auth=Token(endpoint, "admin")))


def make(client, name, parent=None, traits=NODE, aggregates=(), **stocks):
    made = client.create_provider(name, parent=parent)["uuid"]
    inventories = {key: {"total": total} for key, total in stocks.items()}
    generation = client.set_inventories(made, inventories, 0)["resource_provider_generation"]
    generation = client.set_provider_traits(made, traits, generation)["resource_provider_generation"]
    client.set_provider_aggregates(made, aggregates, generation)
    return made


AGGREGATES = {
    "rack1": {"availability_zone": "az1"},
    "rack2": {"availability_zone": "az2"},
    "golden": {"trait:CUSTOM_GOLD": "required"},
    "of-a-project": {"filter_tenant_id7": PROJECT},
}


@pytest.fixture(scope="module")
def aggregates(client):
    """The UUIDs of the host aggregates by name, whose hosts are named after what is special about them."""
    uuids = {name: str(uuid.uuid4()) for name in AGGREGATES}
    client.create_trait("CUSTOM_GOLD")
    sizes = {"VCPU": 4, "MEMORY_MB": 1000, "DISK_GB": 10}

    def host(name, *names, traits=NODE):
        make(client, name, traits=traits, aggregates=[uuids[each] for each in names], **sizes)

    host("plain", "rack1", traits=(*NODE, "COMPUTE_IMAGE_TYPE_QCOW2"))
    host("disabled", "rack1", traits=(*NODE, "COMPUTE_STATUS_DISABLED"))
    host("second-zone", "rack2")
    host("gold", "rack1", "golden", traits=(*NODE, "CUSTOM_GOLD"))
    host("project", "rack1", "of-a-project")
    host("foreign", traits=())
    return uuids


@pytest.fixture
def services(aggregates):
    """The other services of the cloud."""
    with serving() as services:
        services.add_flavor("m1")
        services.add_flavor("gold", trait__CUSTOM_GOLD="required")
        services.aggregates = [
            {"uuid": aggregates[name], "name": name, "metadata": metadata}
            for name, metadata in AGGREGATES.items()
        ]
        services.zones = ["az1", "az2", "nova"]
        services.images = [
            {"id": str(uuid.uuid4()), "name": "debian", "disk_format": "qcow2", "hw_disk_bus": "virtio"}
        ]
        services.projects = [{"id": PROJECT, "name": "science"}]
        yield services


class Cloud:
    """The `openstack` command in the cloud of these services."""

    def __init__(self, openstack, environment, directory):
        self.openstack, self.environment = openstack, environment
        self._directory = directory

    def run(self, *arguments):
        return self.openstack.run_in_cloud(*VERSION, *arguments, environment=self.environment)

    def json(self, *arguments):
        result = self.run(*arguments, "-f", "json")
        assert result.status == 0, result.err
        return result.json

    def conf(self, **options):
        """The option that names a nova.conf with these options of the scheduler."""
        path = self._directory / "nova.conf"
        lines = [f"{name} = {value}\n" for name, value in options.items()]
        path.write_text(f"[scheduler]\n{''.join(lines)}")
        return "--nova-conf", str(path)

    def fits(self, *arguments, flavor="m1"):
        """How many fit on each host, and why no more."""
        rows = self.json(*CAPACITY, "--fit-flavor", flavor, *arguments)
        return {row["host"]: (row["fits"], row["limited_by"]) for row in rows}

    def hosts(self, *arguments, flavor="m1"):
        """The hosts on which the flavor fits."""
        fits = self.fits(*arguments, flavor=flavor)
        return {name for name, (number, _) in fits.items() if number and name != "(all)"}


@pytest.fixture
def cloud(endpoint, tmp_path, services, fork_server):
    openstack = OpenStack(endpoint, tmp_path, fork_server)
    return Cloud(openstack, services.clouds(tmp_path, endpoint), tmp_path)


ENABLED = {"plain", "second-zone", "gold", "project"}


def test_disabled_and_foreign_hosts_are_removed_by_default(cloud):
    """Each names the filter that removed it, and the last row counts the hosts of each filter."""
    fits = cloud.fits()
    assert fits["plain"] == (4, "VCPU")
    assert fits["disabled"] == (0, "compute_status_filter: has COMPUTE_STATUS_DISABLED")
    assert fits["foreign"] == (0, "owner_nova_filter: lacks OWNER_NOVA")
    assert fits["(all)"] == (16, "hosts removed: compute_status_filter 1, owner_nova_filter 1")


def test_no_nova_filters_counts_every_host(cloud):
    """As the capacity of amounts does."""
    assert cloud.fits("--no-nova-filters")["(all)"] == (24, "")
