# SPDX-License-Identifier: Apache-2.0
"""Batches whose changes go to the server in portions: the real command, and what may come between."""

import json
import re
import signal
import subprocess
import threading
import time
from collections import Counter

import pytest

from tests.functional.commands.proxy import BULK_WRITE, DROP, LOSE, proxy_to
from tests.waiting import wait_until

BATCH = ("resource", "provider", "batch")
ADD = (*BATCH, "trait", "add", "COMPUTE_NODE")


class Watcher:
    """Interferes with the bulk write only, and knows when every write came."""

    def __init__(self, answer=lambda: None):
        self.answer = answer
        self.writes = []

    def __call__(self, method, path):
        if method in ("PUT", "POST"):
            self.writes.append((method, time.monotonic()))
        return self.answer() if (method, path) == BULK_WRITE else None

    @property
    def methods(self):
        return Counter(method for method, _ in self.writes)


def add_through(openstack, rack, watcher, *options, bulk_write=True):
    """Add a trait to all hosts of the rack through a proxy."""
    with proxy_to(openstack.endpoint, watcher, bulk_write=bulk_write) as endpoint:
        command = (*ADD, *rack.select, "--yes", "-f", "json", *options)
        return openstack.run(*command, endpoint=endpoint)


def having(rack):
    """How many hosts have the trait."""
    return sum("COMPUTE_NODE" in rack.traits_of(host) for host in rack.hosts)


def results(result):
    return Counter(row["result"] for row in result.json)


def test_all_changes_are_sent_in_one_bulk_write(openstack, rack):
    """Each has its row, and keeps what it had."""
    watcher = Watcher()
    result = add_through(openstack, rack, watcher)
    assert (result.status, results(result), watcher.methods) == (0, {"applied": 4}, {"POST": 1})
    assert all(rack.traits_of(host) == {"COMPUTE_NODE", *rack.traits} for host in rack.hosts)


def test_without_bulk_write_each_provider_is_one_request(openstack, rack):
    """As with any other placement."""
    watcher = Watcher()
    result = add_through(openstack, rack, watcher, bulk_write=False)
    assert (result.status, results(result), watcher.methods) == (0, {"applied": 4}, {"PUT": 4})


def test_conflict_in_a_bulk_write_is_replanned_for_that_provider_only(openstack, rack):
    """One provider moves between the plan and the write; the others are not written twice."""
    busy = rack.hosts[2]

    def overtake():
        generation = rack.client.show_provider(busy)["generation"]
        rack.client.set_provider_traits(busy, [*rack.traits, "STORAGE_DISK_SSD"], generation)

    watcher = Watcher(overtake)
    result = add_through(openstack, rack, watcher)
    assert (result.status, results(result), watcher.methods) == (0, {"applied": 4}, {"POST": 1, "PUT": 1})
    assert rack.traits_of(busy) == {"COMPUTE_NODE", "STORAGE_DISK_SSD", *rack.traits}


def test_deleted_provider_fails_without_the_others(openstack, rack):
    """It was deleted between the plan and the write."""
    gone = rack.hosts.pop()

    def delete():
        rack.client.delete_provider(gone)

    result = add_through(openstack, rack, Watcher(delete))
    rows = {row["uuid"]: row for row in result.json}
    assert (result.status, results(result)) == (3, {"applied": 3, "failed": 1})
    assert f"No resource provider with uuid {gone} found" in rows[gone]["error"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, "application/json", "{}"), "failed: Internal Server Error"),
        ((502, "text/html", "<html><title>Bad Gateway</title></html>"), "an HTML page (Bad Gateway)"),
        (DROP, "got no answer"),
        ((200, "text/html", "<html><title>Welcome</title></html>"), "an HTML page (Welcome)"),
    ],
    ids=("500", "502 with HTML", "dropped", "200 with HTML"),
)
def test_lost_answer_to_an_unexecuted_write_is_reported_as_failed(openstack, rack, answer, message):
    """Nothing is known from such an answer; each provider is read, and the row says what is so."""
    result = add_through(openstack, rack, Watcher(lambda: answer))
    assert (result.status, results(result), having(rack)) == (3, {"failed": 4}, 0)
    assert all(message in row["error"] for row in result.json)


def test_lost_answer_to_an_executed_write_is_reported_as_applied(openstack, rack):
    """It was done, and the rows say how that is known."""
    result = add_through(openstack, rack, Watcher(lambda: LOSE))
    assert (result.status, results(result), having(rack)) == (0, {"applied": 4}, 4)
    assert {row["reason"] for row in result.json} == {"the answer was lost; it was read back"}


@pytest.mark.parametrize("bulk_write", [True, False], ids=("together", "one by one"))
@pytest.mark.parametrize("is_done", [True, False], ids=("done", "not done"))
def test_timeout_of_a_bulk_write_reports_what_was_done(openstack, rack, bulk_write, is_done):
    """A timeout ends the waiting; what the server did before it fell silent is found out."""
    enough = threading.Event()
    hanging = rack.hosts[1]

    def interfere(method, path):
        if (method, path) == BULK_WRITE or (method == "PUT" and f"/{hanging}/" in path):
            if is_done:
                add_to = rack.hosts if method == "POST" else [hanging]
                for host in add_to:
                    generation = rack.client.show_provider(host)["generation"]
                    rack.client.set_provider_traits(host, ["COMPUTE_NODE", *rack.traits], generation)
            enough.wait(30)
            return DROP
        return None

    concerned = len(rack.hosts) if bulk_write else 1
    with proxy_to(openstack.endpoint, interfere, bulk_write=bulk_write) as endpoint:
        begun = time.monotonic()
        command = ("--os-placement-timeout", "1", *ADD, *rack.select, "--yes", "-f", "json")
        result = openstack.run(*command, endpoint=endpoint)
        enough.set()
    assert time.monotonic() - begun < 20
    if is_done:
        assert (result.status, results(result), having(rack)) == (0, {"applied": 4}, 4)
    else:
        assert (result.status, results(result)["failed"], having(rack)) == (3, concerned, 4 - concerned)
        errors = [row["error"] for row in result.json if row["result"] == "failed"]
        assert all("got no answer within 1 seconds" in error for error in errors)


def test_ctrl_c_finishes_the_started_bulk_write(openstack, rack):
    """It is told as done, and what the journal says can be undone."""
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        go_on.wait(30)

    with proxy_to(openstack.endpoint, Watcher(hold), bulk_write=True) as endpoint:
        command = (*ADD, *rack.select, "--yes", "-f", "json")
        process = openstack.start(*command, endpoint=endpoint, stderr=subprocess.PIPE)
        assert begun.wait(30)
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        go_on.set()
        out, _ = process.communicate(timeout=30)
    assert Counter(row["result"] for row in json.loads(out)) == {"applied": 4}
    assert (process.returncode, having(rack)) == (0, 4)


def test_throttle_limits_the_rate_of_writes(openstack, rack):
    """Four a second: the last begins three quarters of a second after the first; each is one provider."""
    watcher = Watcher()
    result = add_through(openstack, rack, watcher, "--throttle", "4")
    times = [moment for _, moment in watcher.writes]
    assert (result.status, results(result), len(times)) == (0, {"applied": 4}, 4)
    assert times[-1] - times[0] > 0.7


def test_control_file_changes_the_rate_of_a_run(openstack, rack):
    """From one in ten minutes to as fast as possible: the rest goes at once, in one request."""
    watcher = Watcher()
    with proxy_to(openstack.endpoint, watcher, bulk_write=True) as endpoint:
        command = (*ADD, *rack.select, "--yes", "--throttle", "0.0017")
        process, control = openstack.start_run(*command, endpoint=endpoint)
        wait_until(lambda: watcher.writes)
        assert having(rack) <= 1
        control.write_text("rate none\n")
        _, err = process.communicate(timeout=60)
    assert (process.returncode, having(rack)) == (0, 4)
    assert "Rate: unlimited." in err
    assert watcher.methods == {"PUT": 1, "POST": 1}


def test_canaries_are_verified_before_the_rest(openstack, rack):
    """Two of them in one request; one that is changed back at once stops the run."""

    def undo_one():
        host = next(host for host in rack.hosts if "COMPUTE_NODE" in rack.traits_of(host))
        generation = rack.client.show_provider(host)["generation"]
        rack.client.set_provider_traits(host, sorted(rack.traits), generation)

    written = threading.Event()

    def interfere(method, path):
        if (method, path) == BULK_WRITE:
            written.set()
        elif written.is_set() and method == "GET" and path.endswith("/traits"):
            written.clear()
            undo_one()

    result = add_through(openstack, rack, interfere, "--canary", "2")
    assert (result.status, results(result)) == (3, {"applied": 1, "failed": 1, "skipped": 2})
    assert "stopped because 1 of 2 canaries failed" in result.err


def test_bulk_run_is_undone_completely(openstack, rack):
    """Nothing of it is left, generations aside."""
    assert add_through(openstack, rack, Watcher()).status == 0
    run = openstack.run(*BATCH, "trait", "add", "STORAGE_DISK_SSD", *rack.select, "--yes")
    name = re.search(r"Run (\S+);", run.out)[1]
    assert openstack.run(*BATCH, "run", "undo", name, "--yes").status == 0
    assert all(rack.traits_of(host) == {"COMPUTE_NODE", *rack.traits} for host in rack.hosts)
