# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of the Ansible collection: where it is installed, and clouds to use it on."""

import sys

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.client import PlacementClient
from tests.functional.ansible_collection import collection


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
    for found in client.list_providers():
        for consumer in client.list_provider_allocations(found["uuid"])["allocations"]:
            client.delete_allocations(consumer)
    for found in sorted(client.list_providers(), key=lambda found: found["parent_provider_uuid"] is None):
        client.delete_provider(found["uuid"])
    for name in client.list_traits(name="startswith:CUSTOM_"):
        client.delete_trait(name)
    for found in client.list_resource_classes():
        if found["name"].startswith("CUSTOM_"):
            client.delete_resource_class(found["name"])


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
