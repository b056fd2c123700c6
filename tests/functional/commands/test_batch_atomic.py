# SPDX-License-Identifier: Apache-2.0
"""`--atomic`: all providers of a batch in one transaction, or none of them."""

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.client import PlacementClient
from tests.functional import servers
from tests.functional.commands.proxy import proxy_to

RATIO = ("resource", "provider", "batch", "ratio", "set", "VCPU=4", "--atomic", "--yes")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server that lets administrators reshape; by default only services may."""
    directory = tmp_path_factory.mktemp("atomic")
    (directory / "policy.yaml").write_text('"placement:reshaper:reshape": "rule:admin_or_service_api"\n')
    environment = servers.make_environment(OS_OSLO_POLICY__POLICY_FILE=str(directory / "policy.yaml"))
    with servers.running(directory, environment=environment) as server:
        yield server.url


@pytest.fixture(scope="module")
def client(endpoint):
    """What looks behind the command."""
    return PlacementClient(Session(auth=Token(endpoint, "admin")))


def test_atomic_changes_all_in_one_request(openstack, rack):
    """One write reaches the server, and all have the ratio."""
    writes = []

    def note(method, path):
        if method in ("PUT", "POST"):
            writes.append(path)

    with proxy_to(openstack.endpoint, note) as endpoint:
        result = openstack.run(*RATIO, *rack.select, endpoint=endpoint)
    assert (result.status, writes) == (0, ["/reshaper"])
    assert rack.ratios() == {4.0}


def test_atomic_goes_in_parts_where_a_request_is_too_large_and_puts_back_on_failure(openstack, rack):
    """A proxy takes two providers at a time, and the second part fails: all are as they were."""
    answers = iter([(413, "text/html", ""), None, (500, "text/plain", "broken")])

    def interfere(method, path):
        return next(answers, None) if path == "/reshaper" else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*RATIO, *rack.select, "-f", "json")
        result = openstack.run(*command, endpoint=endpoint)
    assert result.status == 3
    assert {row["result"] for row in result.json} == {"failed"}
    assert all("all or nothing" in row["error"] for row in result.json)
    assert rack.ratios() == {16.0}


def test_atomic_finds_out_what_became_of_a_lost_answer(openstack, rack):
    """The server did it, the proxy says 502: the report says applied, which is so."""
    lost = iter([True])

    def interfere(method, path):
        if path == "/reshaper" and next(lost, False):
            for host in rack.hosts:
                document = rack.client.list_inventories(host)
                document["inventories"]["VCPU"]["allocation_ratio"] = 4.0
                generation = document["resource_provider_generation"]
                rack.client.set_inventories(host, document["inventories"], generation)
            return 502, "text/html", "<html></html>"
        return None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*RATIO, *rack.select, "-f", "json")
        result = openstack.run(*command, endpoint=endpoint)
    assert (result.status, {row["result"] for row in result.json}) == (0, {"applied"})
    assert rack.ratios() == {4.0}


def test_atomic_is_for_inventories(openstack, rack):
    """Traits have no transaction in the API."""
    command = ("resource", "provider", "batch", "trait", "add", "COMPUTE_NODE", "--atomic", "--yes")
    result = openstack.run(*command, *rack.select)
    assert result.status == 1
    assert result.err == "Only inventories can be changed all or nothing; leave --atomic out\n"


def test_a_conflict_plans_all_again(openstack, rack):
    """Somebody changes one provider between reading and writing: his change stays, and all are done."""
    strangers = iter(rack.hosts[:1])

    def interfere(method, path):
        for host in strangers if path == "/reshaper" else ():
            document = rack.client.list_inventories(host)
            document["inventories"]["MEMORY_MB"]["reserved"] = 512
            generation = document["resource_provider_generation"]
            rack.client.set_inventories(host, document["inventories"], generation)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*RATIO, *rack.select, endpoint=endpoint)
    assert result.status == 0
    assert rack.ratios() == {4.0}
    assert rack.inventory_of(rack.hosts[0], "MEMORY_MB")["reserved"] == 512


def test_an_operator_who_may_not_reshape_is_told_what_to_do(openstack, rack, server_url):
    """By default only services may; nothing is changed."""
    result = openstack.run(*RATIO, "--name", "nobody*", "--allow-empty", endpoint=server_url)
    assert result.status == 0
    client = PlacementClient(Session(auth=Token(server_url, "admin")))
    host = client.create_provider("batch-atomic-host")["uuid"]
    client.set_inventories(host, {"VCPU": {"total": 8}}, 0)
    try:
        result = openstack.run(*RATIO, "--name", "batch-atomic-host", "-f", "json", endpoint=server_url)
        assert result.status == 3
        (summary,) = [line for line in result.err.splitlines() if "1 failed" in line]
        assert "nothing was changed: --atomic needs the right to reshape" in summary
        assert "by default only the role 'service' has, and not 'admin': leave --atomic out" in summary
        assert "set placement:reshaper:reshape to rule:admin_or_service_api" in summary
        assert "only the role 'service' has" in result.json[0]["error"]
        assert client.show_inventory(host, "VCPU")["allocation_ratio"] == 1.0
    finally:
        client.delete_provider(host)
