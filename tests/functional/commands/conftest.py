# SPDX-License-Identifier: Apache-2.0
"""What tests of commands share: an endpoint, the command, and a client to look behind it."""

import os
import threading

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional import forking, reference_server, servers
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.rack import Rack
from tests.functional.commands.shell import OpenStack


@pytest.fixture(scope="module")
def endpoint(request):
    """Any placement service: one that runs already, or a server of ours."""
    return os.environ.get("PLACEMENT_TEST_ENDPOINT") or request.getfixturevalue("server_url")


@pytest.fixture(scope="module")
def server_apart(tmp_path_factory):
    """A server that only the tests of one module use; the `endpoint` of such a module is its address."""
    with servers.running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def reference_client(tmp_path_factory):
    """A client of an openstack-placement that only the tests of one module use."""
    directory = tmp_path_factory.mktemp("server")
    with reference_server.running(directory, f"sqlite:///{directory}/theirs.db", sync=True) as url:
        yield PlacementClient(Session(auth=Token(url, "admin")))


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


@pytest.fixture
def writable(openstack):
    """An event: until it is set, each write of a command fails, so that all is left of a run."""
    passes = threading.Event()

    def fail(method, _path):
        is_failing = method in ("PUT", "POST") and not passes.is_set()
        return (500, "text/plain", "") if is_failing else None

    endpoint = openstack.endpoint
    with proxy_to(endpoint, fail) as openstack.endpoint:
        yield passes
    openstack.endpoint = endpoint
