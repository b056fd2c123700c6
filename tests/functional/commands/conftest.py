# SPDX-License-Identifier: Apache-2.0
"""What tests of commands share: an endpoint, the command, and a client to look behind it."""

import os

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional import forking
from tests.functional.commands.rack import Rack
from tests.functional.commands.shell import OpenStack


@pytest.fixture(scope="module")
def endpoint(request):
    """Any placement service: one that runs already, or a server of ours."""
    return os.environ.get("PLACEMENT_TEST_ENDPOINT") or request.getfixturevalue("server_url")


@pytest.fixture(scope="module")
def client(endpoint):
    """What makes the state of a test, and looks what became of it."""
    return PlacementClient(Session(auth=Token(endpoint, "admin")))


@pytest.fixture(scope="session")
def fork_server():
    """Where `openstack` processes come from."""
    return forking.find_server("openstack")


@pytest.fixture(scope="module")
def openstack(endpoint, tmp_path_factory, fork_server):
    """The `openstack` command."""
    return OpenStack(endpoint, tmp_path_factory.mktemp("home"), fork_server)


@pytest.fixture
def rack(client):
    """Hosts in an aggregate."""
    made = Rack(client)
    yield made
    made.close()
