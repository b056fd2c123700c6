# SPDX-License-Identifier: Apache-2.0
"""Batches that would leave less than is allocated, whenever that comes about: the real command and server."""

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional import servers
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.test_batch_runs import claim

BATCH = ("resource", "provider", "batch")
RATIO = (*BATCH, "ratio", "set")
RUN = (*BATCH, "run")
OVER = "VCPU would be over capacity by 1: 8 allocated, the capacity would be 7"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server that lets administrators reshape, for --atomic."""
    directory = tmp_path_factory.mktemp("capacity")
    with servers.running(directory, "--allow-admin-reshape") as server:
        yield server.url


@pytest.fixture(scope="module")
def client(endpoint):
    return PlacementClient(Session(auth=Token(endpoint, "admin")))


class Claimer:
    """A proxy's part: somebody claims before the first write arrives."""

    def __init__(self, rack, host):
        self.consumer = None
        self._rack = rack
        self._host = host

    def __call__(self, method, path):
        if method in ("PUT", "POST") and self.consumer is None:
            self.consumer = claim(self._rack, self._host, 8)

    def close(self):
        if self.consumer:
            self._rack.client.delete_allocations(self.consumer)


@pytest.fixture
def claimer(rack):
    made = Claimer(rack, rack.hosts[2])
    yield made
    made.close()


def test_change_below_what_is_used_is_refused_unless_allowed(openstack, rack):
    """By how much is told; the other providers are changed, and no resume is recommended."""
    host = rack.hosts[2]
    consumer = claim(rack, host, 8)
    try:
        command = (*RATIO, "VCPU=1", *rack.select, "--yes", "-f", "json")
        result = openstack.run(*command)
        rows = {row["uuid"]: row for row in result.json}
        assert result.status == 3
        assert rows[host]["result"] == "refused"
        assert "VCPU would be over capacity by 1: 8 allocated, the capacity would be 7" in rows[host]["error"]
        assert "; to undo it: " in result.err
        assert "to resume it" not in result.err
        run = openstack.last_run()
        assert run["state"] == "partly done"
        resume = f"openstack resource provider batch run resume {run['id']} --force"
        told = f"To make the refused changes all the same: {resume}\n"
        assert told in openstack.run(*RUN, "show", run["id"]).out
        assert rack.inventory_of(host)["allocation_ratio"] == 16.0
        assert rack.inventory_of(rack.hosts[0])["allocation_ratio"] == 1.0
        allowed = openstack.run(*command, "--force")
        assert allowed.status == 0
        assert "VCPU would be over capacity by 1: 8 allocated, the capacity would be 7" in allowed.err
        assert rack.inventory_of(host)["allocation_ratio"] == 1.0
    finally:
        rack.client.delete_allocations(consumer)


def test_what_was_refused_when_a_plan_was_saved_is_refused_when_it_is_carried_out(openstack, rack):
    """The rows, the state of the run and the exit status are as without a file."""
    path, busy = openstack.home / "refused.json", rack.hosts[2]
    consumer = claim(rack, busy, 8)
    try:
        planned = openstack.run(*RATIO, "VCPU=1", *rack.select, "--plan-out", path)
        assert (planned.status, ", 1 refused" in planned.out + planned.err) == (3, True)
        result = openstack.run(*BATCH, "apply", path, "--yes", "-f", "json")
        rows = {row["uuid"]: row for row in result.json}
        assert (result.status, rows[busy]["result"]) == (3, "refused")
        assert rows[busy]["error"].startswith("when the plan was made: VCPU would be over capacity")
        assert {row["result"] for uuid, row in rows.items() if uuid != busy} == {"applied"}
        assert openstack.run(*BATCH, "run", "list", "-f", "json").json[-1]["state"] == "partly done"
        assert rack.inventory_of(busy)["allocation_ratio"] == 16.0
    finally:
        rack.client.delete_allocations(consumer)


def test_replanned_change_below_what_is_used_is_refused(openstack, rack):
    """Somebody claimed more than will be left, since: that provider is refused, unless it is allowed."""
    path, busy = openstack.home / "busy.json", rack.hosts[2]
    openstack.run(*RATIO, "VCPU=1", *rack.select, "--plan-out", path)
    consumer = claim(rack, busy, 8)
    command = (*BATCH, "apply", path, "--yes", "--replan", "-f", "json")
    try:
        told = openstack.run(*BATCH, "apply", path, "--yes").err
        assert "1 resource provider has more allocated than the plan leaves; --replan leaves what" in told
        # nothing else stands in the way
        allowed = openstack.run(*BATCH, "apply", path, "--dry-run", "--force")
        assert (allowed.status, "4 resource providers to change" in allowed.out) == (0, True)
        result = openstack.run(*command)
        rows = {row["uuid"]: row for row in result.json}
        assert (result.status, rows[busy]["result"]) == (3, "refused")
        assert "VCPU would be over capacity by 1: 8 allocated, the capacity would be 7" in rows[busy]["error"]
        assert rack.inventory_of(busy)["allocation_ratio"] == 16.0
        assert rack.inventory_of(rack.hosts[0])["allocation_ratio"] == 1.0
        assert openstack.run(*command, "--force").status == 0
        assert rack.ratios() == {1.0}
    finally:
        rack.client.delete_allocations(consumer)


def test_saved_plan_repeats_its_warnings_when_applied(openstack, rack):
    """Once each; of a provider that moved since, it is told what is so now."""
    path, (one, other, *_) = openstack.home / "over.json", rack.hosts
    consumers = [claim(rack, one, 8), claim(rack, other, 8)]
    try:
        planned = openstack.run(*RATIO, "VCPU=1", *rack.select, "--force", "--plan-out", path)
        command = (*BATCH, "apply", path, "--dry-run")
        told = openstack.run(*command)
        assert told.err.splitlines() == planned.err.splitlines()
        assert (told.status, told.err.count(OVER)) == (0, 2)
        consumers.append(claim(rack, other, 1))
        again = openstack.run(*command, "--replan", "--force")
        assert (again.err.count(OVER), again.err.count("by 2: 9 allocated, the ")) == (1, 1)
        assert openstack.run(*command, "--replan").err.count(OVER) == 1
    finally:
        for consumer in consumers:
            rack.client.delete_allocations(consumer)


@pytest.mark.parametrize("bulk_write", [False, True], ids=("one by one", "in portions"))
def test_claim_between_plan_and_write_fails_that_provider(openstack, rack, claimer, bulk_write):
    """The conflict plans that host again, and finds it full by now; the others are changed."""
    with proxy_to(openstack.endpoint, claimer, bulk_write=bulk_write) as endpoint:
        command = (*RATIO, "VCPU=1", *rack.select, "--yes", "-f", "json")
        result = openstack.run(*command, endpoint=endpoint)
    rows = {row["uuid"]: row for row in result.json}
    failed = {uuid: row["error"] for uuid, row in rows.items() if row["result"] == "failed"}
    assert (result.status, list(failed)) == (3, [rack.hosts[2]])
    assert failed[rack.hosts[2]].startswith(OVER)
    assert [rack.inventory_of(host)["allocation_ratio"] for host in rack.hosts] == [1.0, 1.0, 16.0, 1.0]


def test_option_allows_a_change_below_a_claim_made_since_planning(openstack, rack, claimer):
    """As was said on the command line."""
    with proxy_to(openstack.endpoint, claimer) as endpoint:
        command = (*RATIO, "VCPU=1", *rack.select, "--yes", "--force")
        assert openstack.run(*command, endpoint=endpoint).status == 0
    assert rack.ratios() == {1.0}


def test_atomic_batch_fails_on_a_claim_made_since_planning(openstack, rack, claimer):
    """One host that is full by now, and none is changed."""
    with proxy_to(openstack.endpoint, claimer) as endpoint:
        result = openstack.run(*RATIO, "VCPU=1", *rack.select, "--yes", "--atomic", endpoint=endpoint)
    assert (result.status, rack.ratios()) == (3, {16.0})
    name = rack.client.show_provider(rack.hosts[2])["name"]
    assert f"nothing was changed: {name}: {OVER}" in result.err


def test_resume_checks_capacity_against_current_allocations(openstack, rack, claimer, writable):
    """What was claimed while the run lay there is refused; a run that allowed it goes on so."""
    begun = (*RATIO, "VCPU=1", *rack.select, "--yes")
    runs = []
    for options in ((), ("--force",)):
        assert openstack.run(*begun, *options).status == 3
        runs.append(openstack.last_run()["id"])
    writable.set()
    claimer("PUT", "")
    result = openstack.run(*RUN, "resume", runs[0], "--yes", "-f", "json")
    rows = {row["uuid"]: row for row in result.json}
    assert (result.status, rows[rack.hosts[2]]["result"]) == (3, "refused")
    assert rows[rack.hosts[2]]["error"].startswith(OVER)
    assert rack.inventory_of(rack.hosts[2])["allocation_ratio"] == 16.0
    assert openstack.run(*RUN, "resume", runs[1], "--yes").status == 0
    assert rack.ratios() == {1.0}


def test_undo_below_what_is_used_warns_and_is_done(openstack, rack, claimer):
    """Who raised a ratio and takes it back may want that more than room."""
    openstack.run(*BATCH, "inventory", "set", "VCPU:total=16", *rack.select, "--yes")
    openstack.run(*RATIO, "VCPU=0.5", *rack.select, "--yes")
    openstack.run(*RATIO, "VCPU=1", *rack.select, "--yes")
    run = openstack.last_run()["id"]
    claimer("PUT", "")
    name = rack.client.show_provider(rack.hosts[2])["name"]
    for how in ("--dry-run", "--yes"):
        result = openstack.run(*RUN, "undo", run, how)
        assert (result.status, result.err) == (
            0,
            f"Warning: {name}: VCPU would be over capacity by 1: 8 allocated, the capacity would be 7\n",
        )
    assert rack.ratios() == {0.5}


def test_resume_reads_usages_of_all_providers_in_one_request(openstack, rack, client):
    """A resume asks for those of all providers at once, where there are many and the server can tell."""
    others = [client.create_provider(f"{rack.aggregate[:8]}-more{number}")["uuid"] for number in range(25)]
    for host in others:
        client.set_inventories(host, {"VCPU": {"total": 8, "allocation_ratio": 16.0}}, 0)
    asked, answer = [], (500, "text/plain", "")
    command = (*RATIO, "VCPU=1", "--name", f"{rack.aggregate[:8]}-more*", "--yes")

    def interfere(method, path):
        asked.append((method, path))
        return answer if method == "PUT" else None

    try:
        with proxy_to(openstack.endpoint, interfere) as endpoint:
            assert openstack.run(*command, endpoint=endpoint).status == 3
            run, answer = openstack.last_run()["id"], None
            asked.clear()
            assert openstack.run(*RUN, "resume", run, "--yes", endpoint=endpoint).status == 0
        reads = [path for method, path in asked if method == "GET" and path != "/"]
        assert len(reads) < 5
        ratios = {client.show_inventory(host, "VCPU")["allocation_ratio"] for host in others}
        assert ratios == {1.0}
    finally:
        for host in others:
            client.delete_provider(host)
