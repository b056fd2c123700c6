# SPDX-License-Identifier: Apache-2.0
"""Reading Ironic's nodes: pages, and every answer that is none."""

import pytest
from keystoneauth1 import exceptions as keystone

from osc_placement.migrate.nova.facts import IronicNode
from osc_placement.migrate.nova.ironic import IronicSource
from osc_placement.migrate.nova.source import Unreadable
from tests.unit.migrate.nova.adapter import Adapter


def node(uuid, **fields):
    state = {"provision_state": "available", "power_state": "power off", "maintenance": False}
    return {"uuid": uuid, "name": None, "resource_class": None, **state, "instance_uuid": None, **fields}


def test_pages_are_read_to_the_end():
    """By the last UUID, not by the link, which leads nowhere behind a proxy."""
    adapter = Adapter(
        {"nodes": [node("a"), node("b", resource_class="x", name="n")], "next": "http://inside:1/v1/nodes"},
        {"nodes": [node("c", maintenance=True, instance_uuid="i")]},
        endpoint="http://service.test/baremetal/",
    )
    first, second, third = IronicSource(adapter).list_nodes()
    assert first == IronicNode("a", "", "", "available", "power off")
    assert (second.name, second.resource_class) == ("n", "x")
    assert (third.maintenance, third.instance_uuid) == (True, "i")
    assert [
        (path, arguments["params"].get("marker"), arguments["headers"]["X-OpenStack-Ironic-API-Version"])
        for _, path, arguments in adapter.asked
    ] == [("baremetal/v1/nodes", None, "1.21"), ("baremetal/v1/nodes", "b", "1.21")]


def test_endpoint_may_have_its_version():
    """Catalogs have both."""
    adapter = Adapter({"nodes": []}, endpoint="http://service.test/v1")
    assert IronicSource(adapter).list_nodes() == []
    assert adapter.asked[0][1] == "v1/nodes"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (keystone.ConnectFailure("refused\nby it"), "refused by it"),
        ((503, None), "HTTP 503"),
        ((401, None), "HTTP 401"),
        ((406, None), "1.21"),
        ((200, None), "not JSON"),
        ({"servers": []}, "cannot be parsed"),
        ({"nodes": [{"uuid": "a"}]}, "provision_state"),
        ([], "cannot be parsed"),
    ],
)
@pytest.mark.parametrize("page", [0, 1])
def test_incomplete_list_of_nodes_is_unreadable(answer, words, page):
    """On the first page or a later one: part of the nodes is not the nodes."""
    before = [{"nodes": [node("a")], "next": "more"}] * page
    with pytest.raises(Unreadable, match=words) as caught:
        IronicSource(Adapter(*before, answer)).list_nodes()
    assert (caught.value.subject, "\n" in str(caught.value)) == ("Ironic", False)


def test_catalog_without_ironic_is_unreadable():
    """There may be one all the same."""
    with pytest.raises(Unreadable, match="catalog"):
        IronicSource(Adapter(endpoint=None)).list_nodes()
