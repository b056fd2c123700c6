# SPDX-License-Identifier: Apache-2.0
"""Reading neutron's ports and writing a binding profile: pages, refusals, and every answer that is none."""

import threading
import time

import pytest
from keystoneauth1 import exceptions as keystone

from osc_placement.migrate.nova import neutron
from osc_placement.migrate.nova.neutron import NeutronApi
from osc_placement.migrate.nova.ports import Port
from osc_placement.migrate.nova.source import Unreadable
from tests.unit.migrate.nova.adapter import Adapter

KNOWN = {"extensions": [{"alias": "qos"}, {"alias": "port-resource-request"}]}
NO_PORTS = {"ports": []}
PORT = Port("p1", "i1", "h1")
BOUND = {"device_id": "i1", "binding:host_id": "h1", "binding:vif_type": "ovs", "binding:profile": {}}
DONE = {"port": BOUND}


def port(uuid, **fields):
    request = {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}, "required": []}
    return {"id": uuid, "device_id": "i1", "resource_request": request, "binding:profile": {}, **fields}


class Paging(Adapter):
    """An adapter of a neutron that knows pages and has these ports, as many as its ``limit`` on a page."""

    def __init__(self, *uuids, limit=2):
        super().__init__()
        self.uuids = uuids
        self.limit = limit

    def request(self, url, method, *, raise_exc, **arguments):
        params = arguments["params"]
        if not url.endswith("/ports"):
            self.answers.append(KNOWN)
        else:
            uuids = sorted(self.uuids, reverse=params["sort_dir"] == "desc")
            start = uuids.index(params["marker"]) + 1 if "marker" in params else 0
            size = min(self.limit, int(params["limit"]))
            self.answers.append({"ports": [port(uuid) for uuid in uuids[start : start + size]]})
        return super().request(url, method, raise_exc=raise_exc, **arguments)

    @property
    def pages(self):
        """The direction and marker of each page that was read."""
        asked = [arguments["params"] for _, _, arguments in self.asked[1:]]
        return [(params["sort_dir"], params.get("marker")) for params in asked]


def one_after_the_other(function, items, *, threads):
    """Call a function in one thread."""
    return [function(item) for item in items]


def test_pages_are_read_to_the_end():
    """Each page begins after the last port of the one before; the server's limit may be below ours."""
    adapter = Paging("a", "b", "c")
    assert [each.uuid for each in NeutronApi(adapter).list_ports()] == ["a", "b", "c"]
    assert adapter.pages == [("asc", None), ("asc", "b"), ("asc", "c")]


@pytest.mark.parametrize("number", range(1, 8))
def test_many_ports_are_read_from_both_ends(monkeypatch, number):
    """Each port is listed once, whichever end is faster."""
    monkeypatch.setattr(neutron, "PAGE", 2)
    uuids = list("abcdefg"[:number])
    assert sorted(each.uuid for each in NeutronApi(Paging(*uuids)).list_ports()) == uuids
    monkeypatch.setattr(neutron, "map_in_order", one_after_the_other)
    assert sorted(each.uuid for each in NeutronApi(Paging(*uuids)).list_ports()) == uuids


def test_end_stops_where_the_other_one_was(monkeypatch):
    """No page is read twice as a whole."""
    monkeypatch.setattr(neutron, "PAGE", 2)
    monkeypatch.setattr(
        neutron,
        "map_in_order",
        lambda function, items, *, threads: one_after_the_other(function, items[::-1], threads=threads),
    )
    adapter = Paging(*"abcdef")
    assert sorted(each.uuid for each in NeutronApi(adapter).list_ports()) == list("abcdef")
    assert adapter.pages == [("asc", None), ("desc", None), ("desc", "e"), ("desc", "c"), ("asc", "b")]


def test_end_stops_when_the_other_one_fails(monkeypatch):
    """The error is told without reading what is thrown away."""
    monkeypatch.setattr(neutron, "PAGE", 2)
    failed = threading.Event()

    class Failing(Paging):
        def request(self, url, method, **arguments):
            params = arguments["params"]
            if params.get("sort_dir") == "asc" and "marker" in params:
                failed.set()
                raise keystone.ConnectFailure("gone")
            if params.get("sort_dir") == "desc":
                assert failed.wait(10)
                time.sleep(0.05)
            return super().request(url, method, **arguments)

    adapter = Failing(*map(str, range(100, 200)))
    with pytest.raises(Unreadable, match="gone"):
        NeutronApi(adapter).list_ports()
    assert len(adapter.pages) <= 3


def test_page_after_a_port_that_was_deleted_begins_after_the_one_before():
    """Neutron answers 404 to a marker that is gone; a list that does not exist stays an error."""
    gone = (404, None)
    adapter = Adapter(KNOWN, {"ports": [port("a"), port("b")]}, gone, {"ports": [port("c")]}, NO_PORTS)
    assert [each.uuid for each in NeutronApi(adapter).list_ports()] == ["a", "b", "c"]
    markers = [arguments["params"].get("marker") for _, _, arguments in adapter.asked[1:]]
    assert markers == [None, "b", "a", "c"]
    with pytest.raises(Unreadable, match="404"):
        NeutronApi(Adapter(KNOWN, {"ports": [port("a"), port("b")]}, gone, gone)).list_ports()


def test_neutron_without_pages_is_read_once():
    """It returns all ports every time."""
    adapter = Adapter(KNOWN, {"ports": [port("a"), port("b")]}, {"ports": [port("a"), port("b")]})
    assert [each.uuid for each in NeutronApi(adapter).list_ports()] == ["a", "b"]


def test_ports_of_no_instance_are_left_out():
    """Ports that ask for nothing are returned, as they tell that their instance has a port."""
    found = [port("a", device_id=""), port("b", resource_request=None), port("c")]
    listed = NeutronApi(Adapter(KNOWN, {"ports": found}, NO_PORTS)).list_ports()
    assert [each.uuid for each in listed] == ["b", "c"]


@pytest.mark.parametrize("key", ["resource_request", "binding:profile"])
def test_hidden_attribute_makes_all_ports_unreadable(key):
    """Neutron leaves out what the policy does not show to a user; a port without requests has None."""
    shown = {name: value for name, value in port("b").items() if name != key}
    with pytest.raises(Unreadable, match=f"does not show {key} of ports to this user"):
        NeutronApi(Adapter(KNOWN, {"ports": [port("a"), shown]}, NO_PORTS)).list_ports()


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (({"extensions": [{"alias": "qos"}]},), "it has no extension port-resource-request"),
        (({"extensions": [{}]},), "its list of extensions cannot be parsed"),
        (({"extensions": "x"},), "has no list of extensions"),
        ((KNOWN, (403, {"NeutronError": {"message": "not you"}})), "ended with 403: not you"),
        ((KNOWN, (500, None)), "ports ended with 500"),
        ((KNOWN, None), "has no ports"),
        ((KNOWN, {"ports": [{}]}), "its list of ports cannot be parsed"),
        ((keystone.ConnectFailure("nobody"),), "nobody"),
    ],
)
def test_neutron_that_does_not_tell_is_unreadable(answers, reason):
    """What neutron does not show is unknown, and never absent."""
    with pytest.raises(Unreadable, match=f"^neutron: .*{reason}"):
        NeutronApi(Adapter(*answers)).list_ports()


def test_catalog_without_neutron_is_unreadable():
    """Then no request is sent."""
    with pytest.raises(Unreadable, match="no endpoint"):
        NeutronApi(Adapter(endpoint=None)).list_ports()


def test_profile_keeps_what_else_it_has():
    """Only the allocation is added, and only to the revision that was read."""
    found = {**BOUND, "binding:profile": {"pci_slot": "1"}, "revision_number": 7}
    # catalogs have the endpoint with the version, too
    adapter = Adapter({"port": found}, DONE, endpoint="http://service.test/network/v2.0/")
    assert NeutronApi(adapter).grant(PORT, {"g": "rp"}) == ""
    method, path, arguments = adapter.asked[1]
    assert (method, path) == ("PUT", "network/v2.0/ports/p1")
    assert arguments["headers"] == {"If-Match": "revision_number=7"}
    assert arguments["json"] == {"port": {"binding:profile": {"pci_slot": "1", "allocation": {"g": "rp"}}}}


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (({"port": {**BOUND, "device_id": "i2"}},), "another instance"),
        (({"port": {**BOUND, "binding:host_id": "h2"}},), "no longer bound to h1"),
        (({"port": {**BOUND, "binding:vif_type": "unbound"}},), "no longer bound to h1"),
        (
            (DONE, {"port": {**BOUND, "binding:vif_type": "binding_failed"}}),
            "did not bind the port to h1 again (binding:vif_type is binding_failed)",
        ),
        (({"port": {**BOUND, "binding:profile": {"allocation": "x"}}},), "somebody else"),
        (
            ({"port": BOUND}, (412, None)) * neutron._TRIES,
            "keeps changing the port",
        ),
        (
            (
                {"port": BOUND},
                (403, {"NeutronError": {"message": "no"}}),
            ),
            "ended with 403: no",
        ),
        (((404, None),), "ended with 404"),
        (({},), "cannot be parsed"),
        (
            ({"port": {key: BOUND[key] for key in ("device_id", "binding:host_id", "binding:vif_type")}},),
            "cannot be parsed: KeyError('binding:profile')",
        ),
    ],
)
def test_profile_that_is_not_written_has_a_reason(answers, reason):
    """The port is as it was, or as somebody else made it."""
    assert reason in NeutronApi(Adapter(*answers)).grant(PORT, "rp")


def test_neutron_that_is_lost_while_a_profile_is_written_is_unreadable():
    """It need not be asked for the other ports."""
    with pytest.raises(Unreadable, match="nobody"):
        NeutronApi(Adapter(keystone.ConnectFailure("nobody"))).grant(PORT, "rp")


def test_profile_that_is_right_is_not_written():
    """So a run that was killed can be repeated."""
    adapter = Adapter({"port": {**BOUND, "binding:profile": {"allocation": "rp"}}})
    assert NeutronApi(adapter).grant(PORT, "rp") == ""
    assert len(adapter.asked) == 1


def test_port_of_a_known_revision_is_not_read_again():
    """Neutron itself compares the revision."""
    adapter = Adapter(DONE)
    known = Port("p1", "i1", "h1", profile={"pci_slot": "1"}, revision=3)
    assert NeutronApi(adapter).grant(known, "rp") == ""
    ((method, _, arguments),) = adapter.asked
    assert (method, arguments["headers"]) == ("PUT", {"If-Match": "revision_number=3"})
    assert arguments["json"] == {"port": {"binding:profile": {"pci_slot": "1", "allocation": "rp"}}}


def test_port_that_was_changed_is_read_again():
    """What others wrote into its profile is kept."""
    found = {**BOUND, "binding:profile": {"new": 1}, "revision_number": 4}
    adapter = Adapter((412, None), {"port": found}, DONE)
    assert NeutronApi(adapter).grant(Port("p1", "i1", "h1", revision=3), "rp") == ""
    method, _, arguments = adapter.asked[-1]
    assert (method, arguments["headers"]) == ("PUT", {"If-Match": "revision_number=4"})
    assert arguments["json"] == {"port": {"binding:profile": {"new": 1, "allocation": "rp"}}}


def test_port_that_is_not_bound_is_not_written():
    """Nova writes its profile when it binds it."""
    adapter = Adapter()
    assert "bound to no host" in NeutronApi(adapter).grant(Port("p1", "i1", revision=1), "rp")
    assert adapter.asked == []
