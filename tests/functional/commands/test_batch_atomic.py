# SPDX-License-Identifier: Apache-2.0
"""`--atomic`: all providers of a batch in one transaction, or none of them."""

import contextlib
import json
import resource
import subprocess
import threading

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional import servers
from tests.functional.commands.proxy import DROP, LOSE, proxy_to

RATIO = ("resource", "provider", "batch", "ratio", "set", "VCPU=4", "--atomic", "--yes")
RUN = ("resource", "provider", "batch", "run")
HTML = "<html><head><title>413 Request Entity Too Large</title></head></html>"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server that lets administrators reshape; by default only services may."""
    directory = tmp_path_factory.mktemp("atomic")
    with servers.running(directory, "--allow-admin-reshape") as server:
        yield server.url


@pytest.fixture(params=["/-/providers", "/reshaper"], ids=["bulk", "reshaper"])
def path(request):
    """Where a transaction goes: the bulk write, or the reshaper behind a proxy that has no bulk write."""
    return request.param


@pytest.fixture
def proxy(openstack, path):
    """A proxy before the server, which is asked about the transactions alone, unless `every` request is."""

    @contextlib.contextmanager
    def proxy(interfere, *, every=False):
        def ask(method, requested):
            if every or (method, requested) == ("POST", path):
                return interfere(method, requested)
            return None

        with proxy_to(openstack.endpoint, ask, bulk_write=path != "/reshaper") as endpoint:
            yield endpoint

    return proxy


@pytest.fixture(scope="module")
def client(endpoint):
    """What looks behind the command."""
    return PlacementClient(Session(auth=Token(endpoint, "admin")))


def test_atomic_changes_all_in_one_request(openstack, rack, proxy, path):
    """One write reaches the server, and all have the ratio."""
    writes = []

    def note(method, requested):
        if method in ("PUT", "POST"):
            writes.append(requested)

    with proxy(note, every=True) as endpoint:
        result = openstack.run(*RATIO, *rack.select, endpoint=endpoint)
    assert (result.status, writes) == (0, [path])
    assert rack.ratios() == {4.0}


class Transactions:
    """What a proxy does: so many providers are taken at once, and then these answers are given."""

    def __init__(self, takes, *answers, body=HTML):
        self.requests = 0
        self._answers = iter(
            [*((413, "text/html", body) for _ in range({1: 2, 2: 1, 4: 0}[takes])), *answers]
        )

    def __call__(self, method, path):
        self.requests += 1
        return next(self._answers, None)


@pytest.mark.parametrize("body", [HTML, ""], ids=("a page", "nothing"))
@pytest.mark.parametrize(("takes", "requests"), [(2, 3), (1, 6)])
def test_atomic_is_split_where_a_request_is_too_large(openstack, rack, body, takes, requests, proxy):
    """A proxy takes a part of four providers at a time: it goes in parts until all are done."""
    transactions = Transactions(takes, body=body)
    with proxy(transactions) as endpoint:
        result = openstack.run(*RATIO, *rack.select, "-f", "json", endpoint=endpoint)
    assert (result.status, {row["result"] for row in result.json}) == (0, {"applied"})
    assert (transactions.requests, rack.ratios()) == (requests, {4.0})


def test_atomic_undoes_earlier_parts_when_one_fails(openstack, rack, proxy):
    """The second part fails: all are as they were, and a stranger's change of the first part stays."""

    def interfere(method, path):
        answer = transactions(method, path)
        if transactions.requests == 3 and answer is None:
            document = rack.client.list_inventories(rack.hosts[0])
            document["inventories"]["VCPU"]["reserved"] = 3
            generation = document["resource_provider_generation"]
            rack.client.set_inventories(rack.hosts[0], document["inventories"], generation)
            return 500, "text/plain", "broken"
        return answer

    transactions = Transactions(2)
    with proxy(interfere) as endpoint:
        result = openstack.run(*RATIO, *rack.select, "-f", "json", endpoint=endpoint)
    assert (result.status, {row["result"] for row in result.json}) == (3, {"failed"})
    assert all("all or nothing" in row["error"] for row in result.json)
    assert "; it is not known whether it was done, so look before" in result.err
    assert "nothing was changed" not in result.err
    assert rack.ratios() == {16.0}
    assert {rack.inventory_of(host)["reserved"] for host in rack.hosts} >= {1, 3}


def test_atomic_undo_survives_a_lost_answer(openstack, rack, proxy):
    """The answer to the way back is lost: it is read, and nothing is said that is not so."""
    transactions = Transactions(2, None, (500, "text/plain", "broken"), LOSE)
    with proxy(transactions) as endpoint:
        result = openstack.run(*RATIO, *rack.select, "-f", "json", endpoint=endpoint)
    assert result.status == 3
    assert "; it is not known whether it was done, so look before" in result.err
    assert "nothing was changed" not in result.err
    assert (transactions.requests, rack.ratios()) == (4, {16.0})


def test_atomic_reports_what_it_could_not_undo(openstack, rack, proxy):
    """Two were changed and stay so, the others never were: each row says its own."""
    refusal = json.dumps({"errors": [{"status": 403, "title": "Forbidden", "detail": "not you"}]})
    transactions = Transactions(2, None, (500, "text/plain", "broken"), (403, "application/json", refusal))
    with proxy(transactions) as endpoint:
        result = openstack.run(*RATIO, *rack.select, "-f", "json", endpoint=endpoint)
    stuck = {row["uuid"] for row in result.json if "could not be put back" in row["error"]}
    assert result.status == 3
    assert stuck == {host for host in rack.hosts if rack.inventory_of(host)["allocation_ratio"] == 4.0}
    assert len(stuck) == 2
    assert "; 2 resource providers changed and not put back: " in result.err
    assert "nothing was changed" not in result.err


@pytest.mark.parametrize(
    ("answer", "done"), [(LOSE, True), (DROP, False)], ids=("which was done", "which was not")
)
def test_atomic_reports_unknown_after_a_lost_answer_that_cannot_be_read_back(
    openstack, rack, answer, done, proxy, path
):
    """The answer is lost and nothing can be read: it is said so, and resume and undo find out."""
    answers = iter([answer])
    gone = []

    def interfere(method, requested):
        if (method, requested) == ("POST", path) and (lost := next(answers, None)):
            gone.append(True)
            return lost
        return (502, "text/html", "<html></html>") if gone else None

    with proxy(interfere, every=True) as endpoint:
        result = openstack.run(*RATIO, *rack.select, "-f", "json", endpoint=endpoint)
        assert (result.status, {row["result"] for row in result.json}) == (3, {"failed"})
        assert all("it is not known whether it was done" in row["error"] for row in result.json)
        assert "for 4 resource providers it is not known whether it was done" in result.err
        assert "nothing was changed" not in result.err
        assert rack.ratios() == ({4.0} if done else {16.0})
        gone.clear()
        run = openstack.last_run()
        assert run["state"] == "unfinished"
        resumed = openstack.run(*RUN, "resume", run["id"], "--yes", "-f", "json", endpoint=endpoint)
        results = {row["result"] for row in resumed.json}
        assert (resumed.status, results) == (0, {"unchanged" if done else "applied"})
        assert openstack.last_run()["state"] == "done"
        assert rack.ratios() == {4.0}
        assert openstack.run(*RUN, "undo", run["id"], "--yes", endpoint=endpoint).status == 0
    assert rack.ratios() == {16.0}


def test_atomic_run_is_resumed_in_one_transaction(openstack, rack, proxy, path):
    """What is left goes in one transaction as well, and its failure changes nothing."""
    answers = iter([(500, "text/plain", "broken")] * 2)
    writes = []

    def interfere(method, requested):
        if method in ("PUT", "POST"):
            writes.append(requested)
            return next(answers, None)
        return None

    with proxy(interfere, every=True) as endpoint:
        openstack.run(*RATIO, *rack.select, endpoint=endpoint)
        run = openstack.last_run()["id"]
        failed = openstack.run(*RUN, "resume", run, "--yes", endpoint=endpoint)
        assert (failed.status, rack.ratios()) == (3, {16.0})
        assert "; it is not known whether it was done, so look before" in failed.err
        refused = openstack.run(*RUN, "resume", run, "--yes", "--throttle", "1", endpoint=endpoint)
        assert refused.status == 2
        assert refused.err.startswith(
            "--throttle cannot be used with changes that are made in one transaction"
        )
        assert openstack.run(*RUN, "resume", run, "--yes", endpoint=endpoint).status == 0
    assert (writes, rack.ratios()) == ([path] * 3, {4.0})


def test_atomic_reads_back_the_result_of_a_lost_answer(openstack, rack, proxy):
    """The server did it, the proxy says 502: the report says applied, which is so."""
    lost = iter([True])

    def interfere(method, path):
        if next(lost, False):
            for host in rack.hosts:
                document = rack.client.list_inventories(host)
                document["inventories"]["VCPU"]["allocation_ratio"] = 4.0
                generation = document["resource_provider_generation"]
                rack.client.set_inventories(host, document["inventories"], generation)
            return 502, "text/html", "<html></html>"
        return None

    with proxy(interfere) as endpoint:
        command = (*RATIO, *rack.select, "-f", "json")
        result = openstack.run(*command, endpoint=endpoint)
    assert (result.status, {row["result"] for row in result.json}) == (0, {"applied"})
    assert rack.ratios() == {4.0}


def test_atomic_run_reports_its_changes_when_the_disk_is_full(openstack, rack, proxy):
    """The journal cannot take the outcomes: the rows say them, and the summary says why it is no success."""
    started = threading.Event()
    transactions = iter([True])

    def interfere(method, path):
        if next(transactions, False) and started.wait(30):
            limit = max(openstack.runs.glob("*.jsonl")).stat().st_size + 20
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    with proxy(interfere) as endpoint:
        command = (*RATIO, *rack.select, "-f", "value", "-c", "result")
        process = openstack.start(*command, endpoint=endpoint, stderr=subprocess.PIPE)
        started.set()
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (3, "applied\n" * 4)
        assert "4 applied; The journal " in err
        run = openstack.last_run()
        assert run["state"] == "unfinished"
        assert openstack.run(*RUN, "undo", run["id"], "--yes", endpoint=endpoint).status == 0
    assert rack.ratios() == {16.0}


@pytest.mark.parametrize(
    ("status", "state"), [(400, "refused"), (403, "refused"), (409, "refused"), (401, "unfinished")]
)
def test_atomic_run_is_refused_where_a_repetition_cannot_help(openstack, rack, proxy, status, state):
    """Then no resume is offered, nor an undo; another token, as after 401, may help."""
    error = {"status": status, "title": "No", "detail": "No.", "code": "placement.undefined_code"}
    answer = (status, "application/json", json.dumps({"errors": [error]}))
    with proxy(lambda *_request: answer) as endpoint:
        result = openstack.run(*RATIO, *rack.select, endpoint=endpoint)
        run = openstack.last_run()
    assert (result.status, run["state"], rack.ratios()) == (3, state, {16.0})
    assert ("to resume it: " in result.err) == (state == "unfinished")
    assert "to undo it: " not in result.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--canary", "1"), "--canary"),
        (("--max-failures", "3", "--throttle", "5"), "--max-failures and --throttle"),
    ],
)
def test_atomic_refuses_options_for_single_changes(openstack, rack, options, words):
    """Options that control the pace of single changes are refused with --atomic."""
    result = openstack.run(*RATIO, *rack.select, *options)
    assert (result.status, rack.ratios()) == (2, {16.0})
    assert result.err == f"{words} cannot be used with changes that are made in one transaction\n"


def test_conflict_replans_the_whole_atomic_batch(openstack, rack, proxy):
    """Somebody changes one provider between reading and writing: his change stays, and all are done."""
    strangers = iter(rack.hosts[:1])

    def interfere(method, path):
        for host in strangers:
            document = rack.client.list_inventories(host)
            document["inventories"]["MEMORY_MB"]["reserved"] = 512
            generation = document["resource_provider_generation"]
            rack.client.set_inventories(host, document["inventories"], generation)

    with proxy(interfere) as endpoint:
        result = openstack.run(*RATIO, *rack.select, endpoint=endpoint)
    assert result.status == 0
    assert rack.ratios() == {4.0}
    assert rack.inventory_of(rack.hosts[0], "MEMORY_MB")["reserved"] == 512
