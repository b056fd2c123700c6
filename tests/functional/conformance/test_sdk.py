# SPDX-License-Identifier: Apache-2.0
"""The functional tests of placement in openstacksdk pass with our server as with openstack-placement."""

import json
import os
import subprocess
import sys

import pytest

from tests import databases
from tests.functional import reference_server, servers


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What came of the tests with either server."""
    databases.require_reference()
    directory = tmp_path_factory.mktemp("sdk")
    with (
        servers.running(directory, "--database", f"sqlite:///{directory}/ours.db") as ours,
        reference_server.running(directory, f"sqlite:///{directory}/theirs.db", sync=True) as theirs,
    ):
        yield {"ours": run_suite(ours.url), "openstack-placement": run_suite(theirs)}


def run_suite(url):
    """Run the tests against a server; what they report."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.functional.conformance.sdk_suite", url]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_same_sdk_tests_pass_as_with_the_reference(reports):
    """And the same ones."""
    ours, theirs = reports["ours"], reports["openstack-placement"]
    assert {name: text for name, text in ours["failed"].items() if name not in theirs["failed"]} == {}
    assert ours["skipped"] == theirs["skipped"]
    assert ours["passed"] >= theirs["passed"]


def test_enough_sdk_tests_were_run(reports):
    """Tests that were not found, or skipped, would pass as well."""
    theirs = reports["openstack-placement"]
    assert theirs["passed"] == theirs["run"] > 0
