# SPDX-License-Identifier: Apache-2.0
"""A short conversation of random requests with both servers; ``tools/differential`` has long ones."""

import re
import secrets

import pytest

from osc_placement.server.shadow import differences
from osc_placement.server.shadow.exchange import Answer, Request
from tests import databases
from tests.functional import forking

#: a seed that stays, so that a failure is of the change; and one that does not, so that every run is worth it
SEEDS = (1, secrets.randbelow(10**9))


def run(*arguments):
    """Run the tester in a process of its own, because the reference changes global state."""
    databases.require_reference()
    return forking.run("tests.reliability.differential.__main__:main", *arguments)


@pytest.mark.parametrize("seed", SEEDS, ids=("fixed", "random"))
def test_both_servers_answer_random_requests_identically(seed):
    """Some hundred requests leave no difference that has no reason."""
    done = run("--seed", seed, "--requests", 450)
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
    sent, found = re.search(r"(\d+) requests, (\d+) unexplained differences", done.stdout).groups()
    assert (int(sent) >= 450, int(found)) == (True, 0)


@pytest.mark.parametrize("seed", SEEDS, ids=("fixed", "random"))
def test_both_servers_find_the_same_candidates_in_random_clouds(seed):
    """Without a limit, the candidates and providers of some clouds are the same, as sets."""
    done = run("--clouds", "--seed", seed, "--requests", 450)
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"


def test_a_conversation_can_be_replayed(tmp_path):
    """Requests kept in a file are sent again, as they were."""
    request = Request("POST", "/resource_providers", headers={"x-auth-token": "admin"}, body=b"\xff{")
    assert Request.from_json(request.to_json()) == request
    path = tmp_path / "requests"
    path.write_text(f"{request.to_json()}\n")
    done = run("--replay", path)
    assert (done.returncode, done.stdout) == (0, "no difference\n")


def test_differences_in_status_headers_and_body_are_reported():
    """Status, headers and bodies count; the order of a list and the id of a request do not."""
    headers = {"content-type": "application/json", "x-openstack-request-id": "1"}
    request = Request("GET", "/traits")
    one = Answer(200, headers, b'{"traits": ["A", "B"], "request_id": 1}')
    assert differences.find(request, one, Answer(200, headers, b'{"traits": ["B", "A"]}')) == []
    assert differences.find(request, one, Answer(200, headers, b'{"traits": ["B"]}'))[0].startswith("body")
    assert differences.find(request, one, Answer(404, {}, one.body)) != []
