# SPDX-License-Identifier: Apache-2.0
"""``--names``: the names of providers and instances beside their UUIDs."""

import json

import pytest

from tests.functional.commands.compute import compute_with
from tests.functional.commands.pty_run import run_on_terminal
from tests.functional.commands.shell import OpenStack

ALLOCATION = ("resource", "provider", "allocation", "show")
SHOW = ("resource", "provider", "show")
CANDIDATES = ("allocation", "candidate", "list", "--resource", "VCPU=1")
WEB, DB, OTHER = (f"c0ffee00-0000-4000-8000-{number:012x}" for number in range(1, 4))


@pytest.fixture
def host(client):
    """A provider with a child, from which three consumers have allocated something."""
    host = client.create_provider("names-host")["uuid"]
    child = client.create_provider("names-child", parent=host)["uuid"]
    for uuid in (host, child):
        client.set_inventories(uuid, {"VCPU" if uuid == host else "MEMORY_MB": {"total": 1024}}, 0)
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
    for consumer in (WEB, DB, OTHER):
        amounts = {host: {"resources": {"VCPU": 4}}}
        if consumer == WEB:
            amounts[child] = {"resources": {"MEMORY_MB": 64}}
        client.set_allocations(consumer, {"allocations": amounts, **owner})
    yield host
    for consumer in (WEB, DB, OTHER):
        client.delete_allocations(consumer)
    for uuid in (child, host):
        client.delete_provider(uuid)


@pytest.fixture
def run(endpoint, tmp_path, fork_server):
    """Run a command in a cloud with this compute API."""

    def run(*arguments, compute, on_terminal=False):
        openstack = OpenStack(endpoint, tmp_path, fork_server)
        openstack.options = lambda _endpoint: []
        cloud = {
            "auth_type": "admin_token",
            "auth": {"endpoint": endpoint, "token": "admin"},
            "placement_endpoint_override": endpoint,
            "compute_endpoint_override": compute,
        }
        file = tmp_path / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"test": cloud}}))
        environment = {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "test"}
        if on_terminal:
            return run_on_terminal(openstack, *arguments, columns=120, environment=environment)
        return openstack.run(*arguments, environment=environment)

    return run


SERVERS = [("names-host", WEB, "web-1"), ("names-host", DB, "db-1"), ("elsewhere", OTHER, "mail")]


def test_allocations_of_an_instance_have_the_names_of_providers_and_of_the_instance(run, host):
    """One request to the compute API; without --names there is neither a request nor a column."""
    with compute_with({}, SERVERS) as (compute, asked):
        result = run(*ALLOCATION, WEB.upper(), "--names", "-f", "json", compute=compute)
        plain = run(*ALLOCATION, WEB, "-f", "json", compute=compute)
    assert (result.status, result.err) == (0, "")
    shown = {row["provider_name"]: row["consumer_name"] for row in result.json}
    assert shown == {"names-host": "web-1", "names-child": "web-1"}
    assert [path for path, _, _ in asked] == [f"/v2.1/servers/{WEB}"]
    new = ("provider_name", "consumer_name")
    assert [{key: value for key, value in row.items() if key not in new} for row in result.json] == plain.json
    assert not set(new) & plain.json[0].keys()


def test_a_consumer_that_is_no_instance_has_no_name(run, host):
    """That is no problem to be told of."""
    with compute_with({}, []) as (compute, _):
        result = run(*ALLOCATION, DB, "--names", "-f", "json", compute=compute)
    assert (result.status, result.err) == (0, "")
    assert [(row["provider_name"], row["consumer_name"]) for row in result.json] == [("names-host", "")]


def test_allocations_from_a_provider_have_the_names_of_instances_by_one_request(run, host):
    """Those on the node; a consumer that is not among them has none."""
    with compute_with({}, SERVERS) as (compute, asked):
        result = run(*SHOW, "names-host", "--allocations", "--names", "-f", "json", compute=compute)
        assert [path.partition("&node=")[2] for path, _, _ in asked] == ["names-host"]
        table, status = run(
            *SHOW, "names-host", "--allocations", "--names", compute=compute, on_terminal=True
        )
    assert (result.status, result.err, status) == (0, "", 0)
    names = {uuid: entry["name"] for uuid, entry in result.json["allocations"].items()}
    assert names == {WEB: "web-1", DB: "db-1", OTHER: ""}
    assert result.json["allocations"][WEB]["resources"] == {"VCPU": 4}
    assert f"web-1 ({WEB}): VCPU=4 " in table
    assert f" {OTHER}: VCPU=4 " in table


def test_consumers_of_a_provider_that_is_no_node_are_looked_up_among_all_instances(run, host):
    """As those of a shared storage."""
    servers = [("elsewhere", uuid, name) for _, uuid, name in SERVERS]
    with compute_with({}, servers) as (compute, asked):
        result = run(*SHOW, host, "--allocations", "--names", "-f", "json", compute=compute)
    assert {entry["name"] for entry in result.json["allocations"].values()} == {"web-1", "db-1", "mail"}
    assert len(asked) == 2


@pytest.mark.parametrize("command", [(*ALLOCATION, WEB), (*SHOW, "names-host", "--allocations")])
def test_names_are_missing_where_the_compute_api_cannot_be_asked(run, host, command):
    """One line says so, and what placement knows is shown all the same."""
    with compute_with({}) as (compute, _):
        pass
    result = run(*command, "--names", "-f", "json", compute=compute)
    assert result.status == 0
    assert result.err.startswith("Names of instances are missing: The compute API cannot be asked: ")
    assert result.err.count("\n") == 1
    assert WEB in result.out or "names-host" in result.out


def test_candidates_have_the_names_of_providers(run, host):
    """Beside their UUIDs; the compute API is not asked."""
    with compute_with({}) as (compute, asked):
        result = run(*CANDIDATES, "--names", "-f", "json", compute=compute)
        plain = run(*CANDIDATES, "-f", "json", compute=compute)
    assert (result.status, result.err, asked) == (0, "", [])
    assert {(row["resource provider"], row["name"]) for row in result.json} >= {(host, "names-host")}
    assert list(result.json[0])[2:4] == ["resource provider", "name"]
    assert [{key: value for key, value in row.items() if key != "name"} for row in result.json] == plain.json


def test_names_of_a_provider_without_its_allocations_are_refused(openstack, host):
    """There is nothing that could have a name."""
    result = openstack.run(*SHOW, "names-host", "--names")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "--names shows the names of consumers and needs --allocations" in result.err
