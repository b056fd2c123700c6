# SPDX-License-Identifier: Apache-2.0
"""HTTP conversations with a placement server: one YAML file is one arc, read by gabbi.

They run in this process on each kind of database. With OSC_PLACEMENT_TEST_ENDPOINT set they run there
instead, be it ours or openstack-placement; the server must use noauth2. Every file makes what it needs under
fresh names, which it reads from the environment, and takes it away again.
"""

import os
import pathlib
import unittest
import uuid

import pytest
from gabbi import handlers, suitemaker, utils

HERE = pathlib.Path(__file__).parent
ENDPOINT = os.environ.get("OSC_PLACEMENT_TEST_ENDPOINT")

#: variables that hold a new UUID in each run of a file
UUIDS = ("PROVIDER", "CHILD", "GRANDCHILD", "OTHER", "AGGREGATE", "AGGREGATE_2", "CONSUMER", "CONSUMER_2")


if ENDPOINT:

    @pytest.fixture
    def target():
        """Send requests to the live endpoint."""
        host, port, prefix, _ = utils.host_info_from_target(ENDPOINT)
        return {"host": host, "port": port, "prefix": prefix, "intercept": None}

else:

    @pytest.fixture
    def target(application):
        """Send requests to the application, on each kind of database."""
        return {"host": "placement.example.org", "port": 80, "prefix": "", "intercept": lambda: application}


def load_suite(path, target):
    """The requests of a file as a test suite; gabbi runs them in their order."""
    return suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        path.stem,
        utils.load_yaml(yaml_file=str(path)),
        str(HERE),
        fixture_module=None,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
        **target,
    )


def describe(test, traceback):
    """What a request was expected to bring and did not, without gabbi's inside."""
    return f"{test.test_data['name']}: {traceback[traceback.rfind('Error: ') :]}"


@pytest.mark.parametrize("path", sorted(HERE.glob("*.yaml")), ids=lambda path: path.stem)
def test_conversation(path, target, monkeypatch):
    """Each request of the file is answered as the file says."""
    for name in UUIDS:
        monkeypatch.setenv(name, str(uuid.uuid4()))
    monkeypatch.setenv("SUFFIX", uuid.uuid4().hex.upper())
    # another spelling of a UUID that is there already
    monkeypatch.setenv("AGGREGATE_HEX", os.environ["AGGREGATE"].replace("-", ""))
    result = unittest.TestResult()
    load_suite(path, target).run(result)
    assert not [describe(*problem) for problem in [*result.failures, *result.errors]]
    assert result.testsRun
    assert not result.skipped
