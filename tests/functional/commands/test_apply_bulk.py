# SPDX-License-Identifier: Apache-2.0
"""An apply creates providers in bulk requests: the real command, and what may go wrong between."""

import random
import subprocess
import time
import uuid
from collections import Counter

import pytest
import yaml

from osc_placement.batch import journal
from tests.functional.cleaning import clear
from tests.functional.commands.proxy import BULK_WRITE, DROP, LOSE, proxy_to
from tests.functional.commands.test_batch_kills import count_outcomes, find_journal, list_journals
from tests.reliability import scale

APPLY = ("resource", "provider", "apply", "-f")
RUN = ("resource", "provider", "batch", "run")
BAD_REQUEST = (400, "application/json", '{"errors": [{"status": 400, "detail": "unexpected: name"}]}')


@pytest.fixture
def empty(client):
    """The client of a server that has nothing of its own, before and after."""
    clear(client)
    yield client
    clear(client)


def describe(hosts):
    """A state file of hosts with a NUMA node each, which have inventories, traits and aggregates."""
    providers = []
    for number in range(hosts):
        name = f"host{number:04}"
        providers += [
            {
                "name": f"{name}-numa",
                "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}-numa")),
                "parent": name,
                "inventories": {"VCPU": {"total": 8, "allocation_ratio": 2.0}},
            },
            {
                "name": name,
                "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
                "traits": ["COMPUTE_NODE"],
                "aggregates": [str(uuid.uuid5(uuid.NAMESPACE_DNS, f"zone{number // 10}"))],
                "inventories": {"DISK_GB": {"total": 100}},
            },
        ]
    return yaml.safe_dump({"providers": providers})


class Watcher:
    """Interferes with one bulk write, the first unless another number is given, and counts all writes."""

    def __init__(self, answer=lambda: None, number=1):
        self._answer = answer
        self._number = number
        self.writes = Counter()

    def __call__(self, method, path):
        if method == "GET":
            return None
        self.writes[method, path] += 1
        is_meant = (method, path) == BULK_WRITE and self.writes[method, path] == self._number
        return self._answer() if is_meant else None


def apply_through(openstack, text, watcher, *, then_resume=None):
    """Apply a file through a proxy; then call a function, if one is given, and resume the run."""
    with proxy_to(openstack.endpoint, watcher, bulk_write=True) as endpoint:
        result = openstack.run(*APPLY, "-", text=text, endpoint=endpoint)
        if then_resume:
            then_resume()
            last = openstack.last_run()["id"]
            resume(openstack, last, endpoint=endpoint)
        return result


def resume(openstack, run, **options):
    """Resume a run, which has to succeed."""
    resumed = openstack.run(*RUN, "resume", run, "--yes", **options)
    assert resumed.status == 0, resumed.err


def assert_applied(openstack, text):
    """Assert that the state is that of the file, and that the last run is done."""
    assert openstack.run(*APPLY, "-", text=text).out.startswith("Nothing to do: ")
    assert openstack.last_run()["state"] == "done"


def test_providers_are_created_in_bulk_requests(openstack, empty):
    """Twenty-five in each, with all that they have; parents before their children."""
    text, watcher = describe(60), Watcher()
    result = apply_through(openstack, text, watcher)
    assert (result.status, result.complaints) == (0, "")
    assert result.out == "resource providers: 120 created\n"
    assert watcher.writes == {BULK_WRITE: 6}
    assert {provider["generation"] for provider in empty.list_providers()} == {1}
    assert_applied(openstack, text)


def test_lost_answer_to_executed_creations_is_reported_as_created(openstack, empty):
    """The providers are read, and their children are created."""
    text = describe(3)
    result = apply_through(openstack, text, Watcher(lambda: LOSE))
    assert (result.status, result.out) == (0, "resource providers: 6 created\n")
    assert_applied(openstack, text)


@pytest.mark.parametrize("number", [1, 2], ids=("parents", "children"))
def test_lost_answer_to_creations_that_were_not_executed_is_resumed(openstack, empty, number):
    """What depends on them is skipped; a resume creates both."""
    text = describe(3)
    found = []
    result = apply_through(
        openstack,
        text,
        Watcher(lambda: DROP, number),
        then_resume=lambda: found.append(len(empty.list_providers())),
    )
    expected = "3 skipped, 3 unknown" if number == 1 else "3 created, 3 unknown"
    assert (result.status, result.out) == (3, f"resource providers: {expected}\n")
    assert found == [3 * (number - 1)]
    assert_applied(openstack, text)


def test_server_that_refuses_creations_in_bulk_gets_one_after_the_other(openstack, empty):
    """A server that knows no creations in such a request answers 400, which tells nothing of any one."""
    text, watcher = describe(2), Watcher(lambda: BAD_REQUEST)
    with proxy_to(
        openstack.endpoint,
        lambda method, path: watcher(method, path) or (BAD_REQUEST if (method, path) == BULK_WRITE else None),
        bulk_write=True,
    ) as endpoint:
        result = openstack.run(*APPLY, "-", text=text, endpoint=endpoint)
    assert (result.status, result.out) == (0, "resource providers: 4 created\n")
    assert watcher.writes["POST", "/resource_providers"] == 4
    assert_applied(openstack, text)


def test_name_taken_meanwhile_fails_that_provider_only(openstack, empty):
    """The others of the request are created; what is below any of them waits for a resume."""
    text = describe(3)
    taker = []

    def take():
        taker.append(empty.create_provider("host0001")["uuid"])

    result = apply_through(
        openstack, text, Watcher(take), then_resume=lambda: empty.delete_provider(taker[0])
    )
    assert result.status == 3
    assert result.out == "resource providers: 2 created, 1 failed, 3 skipped\n"
    assert "Conflicting resource provider name: host0001 already exists" in result.err
    assert_applied(openstack, text)


def test_killed_apply_is_resumed_and_undone_completely(openstack, empty, tmp_path):
    """Killed amid the creations, again and again; the undo deletes what the run created, and nothing else."""
    text, file = describe(300), tmp_path / "cloud.yaml"
    file.write_text(text)
    for _ in scale.rounds(2):
        known = list_journals(openstack)
        process = openstack.start(*APPLY, file, stderr=subprocess.PIPE)
        path = find_journal(openstack, known)
        enough = random.randrange(0, 550)
        deadline = time.monotonic() + 60
        while count_outcomes(path) < enough and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        process.kill()
        process.communicate(timeout=60)
        created, told = len(empty.list_providers()), count_outcomes(path)
        assert told <= created
        resume(openstack, path.stem)
        assert journal.Journals(path.parent).read(path.stem).state == "done"
        assert_applied(openstack, text)
        undone = openstack.run(*RUN, "undo", path.stem, "--yes")
        assert undone.status == 0, undone.err
        assert empty.list_providers() == []
        print(f"killed when {created} were created and {told} were told")
