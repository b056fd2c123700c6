# SPDX-License-Identifier: Apache-2.0
"""`--atomic` with the default policy: for administrators of our server, and of openstack-placement."""

import contextlib
import json
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from benchmarks import servers as measured
from osc_placement.api.client import PlacementClient
from tests.functional import reference_server, servers
from tests.functional.commands.proxy import DROP, LOSE, proxy_to
from tests.functional.commands.rack import Rack
from tests.functional.commands.test_batch_runs import claim

BATCH = ("resource", "provider", "batch")
RUN = (*BATCH, "run")
RATIO = (*BATCH, "ratio", "set", "VCPU=4")
TRAIT = (*BATCH, "trait", "add", "COMPUTE_NODE")
AGGREGATE = "3b2d1f6c-5a0e-4b1c-9d3e-0123456789ab"
VERBS = {
    "ratio": RATIO,
    "inventory": (*BATCH, "inventory", "set", "MEMORY_MB:reserved=512", "DISK_GB=5"),
    "deletion": (*BATCH, "inventory", "delete", "MEMORY_MB"),
    "trait": TRAIT,
    "aggregate": (*BATCH, "aggregate", "add", AGGREGATE),
}
#: what an administrator of openstack-placement is told
NEEDS_SERVICE = (
    "Nothing was changed: at this placement --atomic needs the right to reshape, which by default only the "
    "role 'service' has; leave --atomic out, use the credentials of a service, or set "
    "placement:reshaper:reshape to rule:admin_or_service_api in placement's policy.yaml\n"
)
NOT_TRAITS = (
    "Nothing was changed: this placement cannot change traits of several resource providers in one "
    "transaction; leave --atomic out\n"
)


def contents(rack):
    """All that the hosts of a rack have, generations aside."""
    records = rack.client.read_providers({"member_of": [rack.aggregate]})
    return {each.provider.uuid: (each.inventories, each.traits, each.aggregates) for each in records}


def list_runs(openstack):
    """Return the runs of all addresses: that of a proxy is another cloud."""
    return openstack.run(*RUN, "list", "--all-clouds", "-f", "json").json


@contextlib.contextmanager
def noting(endpoint):
    """A proxy, and the paths of the writes that pass it."""
    writes = []

    def note(method, path):
        if method != "GET":
            writes.append(path)

    with proxy_to(endpoint, note, bulk_write=True) as proxy:
        yield proxy, writes


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_administrator_changes_and_undoes_each_facet_in_one_request(openstack, rack, verb):
    """Whoever may change it provider by provider may change it atomically."""
    before = contents(rack)
    with noting(openstack.endpoint) as (endpoint, writes):
        done = openstack.run(*verb, *rack.select, "--atomic", "--yes", "-f", "json", endpoint=endpoint)
        assert (done.status, [row["result"] for row in done.json]) == (0, ["applied"] * 4)
        assert all(now != before[host] for host, now in contents(rack).items())
        run = list_runs(openstack)[-1]["id"]
        undone = openstack.run(*RUN, "undo", run, "--atomic", "--yes", endpoint=endpoint)
    assert (undone.status, contents(rack), writes) == (0, before, ["/-/providers"] * 2)


@pytest.mark.parametrize("verb", [RATIO, TRAIT], ids=["ratio", "trait"])
def test_conflict_in_the_middle_plans_the_whole_batch_again(openstack, rack, verb):
    """Somebody changes one of the hosts before the transaction arrives; both changes are there afterwards."""
    strangers = iter(rack.hosts[2:3])

    def interfere(method, path):
        for host in strangers if path == "/-/providers" and method == "POST" else ():
            document = rack.client.list_provider_traits(host)
            traits = [*document["traits"], "HW_CPU_X86_SSE42"]
            rack.client.set_provider_traits(host, traits, document["resource_provider_generation"])

    with proxy_to(openstack.endpoint, interfere, bulk_write=True) as endpoint:
        result = openstack.run(*verb, *rack.select, "--atomic", "--yes", endpoint=endpoint)
    assert result.status == 0
    assert "HW_CPU_X86_SSE42" in rack.traits_of(rack.hosts[2])
    if verb is RATIO:
        assert rack.ratios() == {4.0}
    else:
        assert all("COMPUTE_NODE" in rack.traits_of(host) for host in rack.hosts)


def test_refusal_of_one_provider_names_it_and_changes_nothing(openstack, rack):
    """An inventory that is claimed after the plan was made cannot be deleted; the others keep theirs."""
    before = contents(rack)
    holder = rack.hosts[2]
    consumers = []

    def interfere(method, _path):
        if method == "POST" and not consumers:
            consumers.append(claim(rack, holder, 4))

    command = (*BATCH, "inventory", "delete", "VCPU", *rack.select, "--atomic", "--yes", "-f", "json")
    try:
        with proxy_to(openstack.endpoint, interfere, bulk_write=True) as endpoint:
            result = openstack.run(*command, endpoint=endpoint)
    finally:
        for consumer in consumers:
            rack.client.delete_allocations(consumer)
    name = rack.client.show_provider(holder)["name"]
    assert (result.status, contents(rack)) == (3, before)
    told = f"{name}: in use: 4 VCPU allocated; keep it, or move the allocations first"
    assert f"nothing was changed: {told}" in result.err
    assert {row["error"] for row in result.json} == {f"all or nothing: {told}"}


def test_two_atomic_runs_at_once_leave_one_value_everywhere(openstack, rack):
    """Each is planned again when the other was faster, and both succeed."""
    commands = [(*BATCH, "ratio", "set", f"VCPU={ratio}", *rack.select) for ratio in (3, 5)]
    processes = [
        openstack.start(*command, "--atomic", "--yes", stderr=subprocess.PIPE) for command in commands
    ]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert rack.ratios() in ({3.0}, {5.0})


@pytest.mark.parametrize(
    ("answer", "ratio"), [(LOSE, 4.0), (DROP, 16.0)], ids=["request arrives", "request is lost"]
)
def test_killed_client_leaves_all_or_nothing_and_a_run_to_resume(openstack, rack, answer, ratio):
    """The process is dead before its transaction is passed on, or is lost."""
    started = threading.Event()
    processes = []

    def interfere(method, path):
        if method != "POST" or not started.wait(60) or processes[0].poll() is not None:
            return None
        processes[0].kill()
        processes[0].communicate()
        return answer

    def ratios():
        return [inventories["VCPU"].allocation_ratio for inventories, _, _ in contents(rack).values()]

    with proxy_to(openstack.endpoint, interfere, bulk_write=True) as endpoint:
        command = (*RATIO, *rack.select, "--atomic", "--yes")
        processes.append(openstack.start(*command, endpoint=endpoint, stderr=subprocess.PIPE))
        started.set()
        processes[0].wait(60)
        deadline = time.monotonic() + 60
        while (seen := ratios()) != [ratio] * 4 and time.monotonic() < deadline:
            assert seen == [16.0] * 4
        run = list_runs(openstack)[-1]
        assert (ratios(), run["state"]) == ([ratio] * 4, "unfinished")
        assert openstack.run(*RUN, "resume", run["id"], "--yes", endpoint=endpoint).status == 0
        assert ratios() == [4.0] * 4
        assert openstack.run(*RUN, "undo", run["id"], "--atomic", "--yes", endpoint=endpoint).status == 0
    assert ratios() == [16.0] * 4


@pytest.fixture(scope="module")
def strict_endpoint(tmp_path_factory):
    """A server of ours on which administrators change inventories, and nobody changes traits."""
    directory = tmp_path_factory.mktemp("strict")
    rules = {"placement:resource_providers:traits:update": "!"}
    (directory / "policy.yaml").write_text(json.dumps(rules))
    environment = servers.make_environment(OS_OSLO_POLICY__POLICY_FILE=str(directory / "policy.yaml"))
    with servers.running(directory, environment=environment) as server:
        yield server.url


def make_host(endpoint):
    """A client of a server, and a host that it has there."""
    client = PlacementClient(Session(auth=Token(endpoint, "admin")))
    host = client.create_provider("host")["uuid"]
    client.set_inventories(host, {"VCPU": {"total": 8}}, 0)
    return client, host


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """An openstack-placement with its default policy and a host."""
    directory = tmp_path_factory.mktemp("reference")
    url = f"sqlite:///{directory}/theirs.db"
    with reference_server.running(directory, url, sync=True, rules="") as endpoint:
        client, host = make_host(endpoint)
        policy = directory / "reference" / "policy.yaml"
        yield SimpleNamespace(url=endpoint, policy=policy, client=client, host=host)


def refuse(openstack, command, endpoint):
    """Run a command that is refused before it begins; its line. It leaves no run."""
    before = list_runs(openstack)
    for options in (("--yes",), ("--dry-run",), ("--yes", "-f", "json")):
        result = openstack.run(*command, "--name", "host", "--atomic", *options, endpoint=endpoint)
        assert (result.status, result.out) == (1, "")
    assert list_runs(openstack) == before
    return result.err


def test_account_without_the_right_is_refused_before_a_run_begins(openstack, strict_endpoint):
    """On our server the rights to change single providers decide, facet by facet."""
    client, host = make_host(strict_endpoint)
    told = refuse(openstack, TRAIT, strict_endpoint)
    assert told == (
        "Nothing was changed: Policy does not allow placement:resource_providers:traits:update to be "
        "performed. (HTTP 403); the user of the token has no role for it, which is usually admin: check "
        "which token is in use (openstack token issue), or placement's policy.yaml\n"
    )
    command = (*RATIO, "--name", "host", "--atomic", "--yes")
    assert openstack.run(*command, endpoint=strict_endpoint).status == 0
    assert client.show_inventory(host, "VCPU")["allocation_ratio"] == 4.0


def test_administrator_of_openstack_placement_is_refused_before_a_run_begins(openstack, reference):
    """The right to reshape is asked for, in a line that says what to do; what needs no right is done."""
    assert refuse(openstack, RATIO, reference.url) == NEEDS_SERVICE
    assert refuse(openstack, TRAIT, reference.url) == NOT_TRAITS
    assert reference.client.show_inventory(reference.host, "VCPU")["allocation_ratio"] == 1.0
    for command in (
        (*RATIO, "--name", "nobody*", "--allow-empty"),
        (*BATCH, "ratio", "set", "VCPU=1", "--name", "host"),
    ):
        assert openstack.run(*command, "--atomic", "--yes", endpoint=reference.url).status == 0


def test_openstack_placement_changes_inventories_atomically_with_the_right(openstack, reference):
    """By way of the reshaper; traits are refused all the same."""
    reference.policy.write_text(measured.POLICY)
    with noting(reference.url) as (endpoint, writes):
        done = openstack.run(*RATIO, "--name", "host", "--atomic", "--yes", endpoint=endpoint)
    assert (done.status, writes) == (0, ["/reshaper"])
    assert reference.client.show_inventory(reference.host, "VCPU")["allocation_ratio"] == 4.0
    assert refuse(openstack, TRAIT, reference.url) == NOT_TRAITS


def test_reshape_of_an_administrator_is_refused_before_a_run_begins(openstack, server_url):
    """The right is asked for as for --atomic; the policy is the default."""
    rack = Rack(PlacementClient(Session(auth=Token(server_url, "admin"))))
    before = list_runs(openstack)
    command = ("resource", "provider", "reshape", "--from", rack.hosts[0], "--to", rack.hosts[1])
    result = openstack.run(*command, "--resource", "MEMORY_MB=1024", "--yes")
    assert result.status == 1
    assert "only the role 'service' may reshape" in result.err
    assert list_runs(openstack) == before
    rack.close()
