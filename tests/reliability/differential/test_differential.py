# SPDX-License-Identifier: Apache-2.0
"""A short conversation of random requests with both servers; ``tools/differential`` has long ones."""

import re
import secrets
import subprocess
import sys

import pytest

from tests import databases
from tests.reliability.differential import compare
from tests.reliability.differential.conversation import Answer, Request

#: a seed that stays, so that a failure is of the change; and one that does not, so that every run is worth it
SEEDS = (1, secrets.randbelow(10**9))


def run(*arguments):
    """Run the tester as a program of its own: the reference leaves its marks on the process."""
    databases.require_reference()
    command = [sys.executable, "-m", "tests.reliability.differential", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize("seed", SEEDS, ids=("fixed", "random"))
def test_both_servers_answer_alike(seed):
    """Some hundred requests leave no difference that has no reason."""
    done = run("--seed", seed, "--requests", 450)
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
    sent, found = re.search(r"(\d+) requests, (\d+) unexplained differences", done.stdout).groups()
    assert (int(sent) >= 450, int(found)) == (True, 0)


@pytest.mark.parametrize("seed", SEEDS, ids=("fixed", "random"))
def test_both_find_the_same_in_random_clouds(seed):
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


def test_a_difference_is_told():
    """Status, headers and bodies count; the order of a list and the id of a request do not."""
    headers = {"content-type": "application/json", "x-openstack-request-id": "1"}
    request = Request("GET", "/traits")
    one = Answer(200, headers, b'{"traits": ["A", "B"], "request_id": 1}')
    assert compare.differences(request, one, Answer(200, headers, b'{"traits": ["B", "A"]}')) == []
    assert compare.differences(request, one, Answer(200, headers, b'{"traits": ["B"]}'))[0].startswith("body")
    assert compare.differences(request, one, Answer(404, {}, one.body)) != []
