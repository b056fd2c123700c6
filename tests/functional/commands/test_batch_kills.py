# SPDX-License-Identifier: Apache-2.0
"""Batches whose process is killed at a random moment, and batches that meet: nothing is lost, all is told.

Twice among all tests; OSC_PLACEMENT_RELIABILITY_ROUNDS says how often instead.
"""

import collections
import json
import random
import subprocess
import time
import uuid

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.api.concurrency import map_in_order
from osc_placement.batch import journal
from tests.reliability import scale

BATCH = ("resource", "provider", "batch")
RUN = (*BATCH, "run")
PROVIDERS = 500


class Hall:
    """Many hosts in one aggregate, each with processors and memory."""

    def __init__(self, endpoint):
        self.client = PlacementClient(Session(auth=Token(endpoint, "admin")))
        self.aggregate = str(uuid.uuid4())
        self.client.allow_concurrency(8)
        self.hosts = map_in_order(self._make_host, range(PROVIDERS), threads=8)

    def _make_host(self, number):
        uuid = self.client.create_provider(f"{self.aggregate[:8]}-{number}")["uuid"]
        inventories = {"VCPU": {"total": 8, "allocation_ratio": 2.0}, "MEMORY_MB": {"total": 1024}}
        self.client.set_inventories(uuid, inventories, 0)
        self.client.set_provider_aggregates(uuid, [self.aggregate], 1)
        return uuid

    def inventories(self):
        """What every host has."""
        records = self.client.read_providers({"member_of": [self.aggregate]}, want=["inventories"])
        return {record.provider.uuid: record.inventories for record in records}

    def ratios(self):
        """The ratio of each host, by host."""
        return {host: had["VCPU"].allocation_ratio for host, had in self.inventories().items()}


@pytest.fixture(scope="module")
def hall(endpoint):
    return Hall(endpoint)


def ratio_set(hall, ratio):
    return (*BATCH, "ratio", "set", f"VCPU={ratio}", "--aggregate", hall.aggregate, "--yes")


def runs(openstack):
    return {run["id"]: run for run in openstack.run(*RUN, "list", "--all-clouds", "-f", "json").json}


def list_journals(openstack):
    """The journals of all runs."""
    return set(openstack.runs.glob("*.jsonl"))


def find_journal(openstack, known):
    """The journal of the run that began since, as soon as its plan is on the disk: then writes begin."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in list_journals(openstack) - known:
            if b'"record":"planned"' in path.read_bytes():
                return path
        time.sleep(0.001)
    raise AssertionError("the run did not begin")


def count_outcomes(path):
    """How many providers the journal tells the end of."""
    return path.read_bytes().count(b'"record":"outcome"')


def test_killed_run_is_resumed_and_undone_completely(openstack, hall):
    """After resume every host is as planned; after undo every host is as before.

    Killed at a moment drawn from those between the first write and the last, as a run before had them.
    """
    process = openstack.start(*ratio_set(hall, 3.0), stderr=subprocess.PIPE)
    path = find_journal(openstack, set())
    started = time.monotonic()
    while count_outcomes(path) < PROVIDERS and process.poll() is None:
        time.sleep(0.001)
    duration = time.monotonic() - started
    process.communicate(timeout=60)
    moments = collections.Counter()
    for number in scale.rounds(2):
        before, known = hall.inventories(), list_journals(openstack)
        ratio = 4.0 + number
        process = openstack.start(*ratio_set(hall, ratio), stderr=subprocess.PIPE)
        path = find_journal(openstack, known)
        time.sleep(random.uniform(0, duration))
        process.kill()
        process.communicate(timeout=60)
        run, told = path.stem, count_outcomes(path)
        written = list(hall.ratios().values()).count(ratio)
        moments[("before", "amid", "after")[(written > 0) + (told == PROVIDERS)]] += 1
        assert told <= written
        resumed = openstack.run(*RUN, "resume", run, "--yes")
        assert resumed.status == 0, resumed.err
        assert set(hall.ratios().values()) == {ratio}
        assert journal.Journals(path.parent).read(run).state == "done"
        undone = openstack.run(*RUN, "undo", run, "--yes")
        assert undone.status == 0, undone.err
        assert hall.inventories() == before
    assert {run["state"] for run in runs(openstack).values()} == {"done", "undone"}
    # with -s: how often it hit the writes, and not only what comes before and after them
    print(f"killed before any write, amid them, after all: {dict(moments)}")


def test_two_simultaneous_batches_report_correctly(openstack, hall):
    """Every host has one of the two ratios, and whoever says applied did apply it."""
    commands = [(*ratio_set(hall, ratio), "-f", "json") for ratio in (5.0, 6.0)]
    processes = [openstack.start(*command, stderr=subprocess.PIPE) for command in commands]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    found = hall.ratios()
    assert set(found.values()) <= {5.0, 6.0}
    for (out, _), ratio in zip(outputs, (5.0, 6.0), strict=True):
        rows = {row["uuid"]: row for row in json.loads(out)}
        assert {row["result"] for row in rows.values()} == {"applied"}
        assert all(row["after"]["VCPU"]["allocation_ratio"] == ratio for row in rows.values())
