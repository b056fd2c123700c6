# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of the Ansible collection: where it is installed, and clouds to use it on."""

import sys

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.client import PlacementClient
from tests.functional.ansible_collection import collection
from tests.functional.cleaning import clear


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    """A directory with the collection, from which Python imports it as well."""
    directory = collection.install(tmp_path_factory.mktemp("collections"))
    sys.path.append(str(directory))
    yield directory
    sys.path.remove(str(directory))


@pytest.fixture
def client(server_url):
    """A client of the server, of which everything is deleted at the end."""
    client = PlacementClient(Session(auth=Token(server_url, "admin")))
    yield client
    clear(client)


@pytest.fixture
def clouds(server_url, monkeypatch, tmp_path):
    """A clouds.yaml with an administrator, somebody else and a cloud that is down; a place for journals."""
    path = collection.write_clouds(
        tmp_path / "clouds.yaml",
        admin=("admin", server_url, {}),
        demo=("demo", server_url, {}),
        down=("admin", "http://127.0.0.1:9", {}),
    )
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OS_CLOUD", raising=False)
    return path


@pytest.fixture
def modules(collections, clouds, client):
    """The modules, called in this process on the server."""
    return collection.Modules()
