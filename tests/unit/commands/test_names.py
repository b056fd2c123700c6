# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.names: how many requests names take, and how long."""

import pytest

from osc_placement.commands import names
from osc_placement.commands.compute import BAD_ANSWER, NoAnswer
from tests.unit.fake_placement import FakePlacement


class Compute:
    """A compute API with so many instances on a page, and a clock that goes on with each request."""

    def __init__(self, monkeypatch, pages, seconds=0.0):
        self.pages = list(pages)
        self.seconds = seconds
        self.now = 0.0
        self.asked = []
        monkeypatch.setattr(names, "read_compute", self.read)
        monkeypatch.setattr(names.time, "monotonic", lambda: self.now)

    def read(self, _manager, path, *, timeout):
        self.asked.append((path, timeout))
        self.now += self.seconds
        page = self.pages.pop(0)
        if isinstance(page, dict):
            return page
        links = {"servers_links": [{"rel": "next"}]} if self.pages else {}
        return {"servers": [{"id": key, "name": f"i-{key}"} for key in page], **links}


def read(consumers):
    return names.read_instance_names(None, consumers, "node 1")


def test_pages_are_read_until_all_consumers_have_a_name(monkeypatch):
    """The next page begins behind the last instance of this one."""
    compute = Compute(monkeypatch, ["ab", "cd"])
    assert read("ad") == ({"a": "i-a", "d": "i-d"}, "")
    base = "/servers?all_tenants=True&limit=1000&node=node%201"
    assert compute.asked == [(base, 10.0), (f"{base}&marker=b", 10.0)]


def test_a_server_that_ignores_markers_ends_the_reading(monkeypatch):
    """It would never end otherwise."""
    Compute(monkeypatch, ["ab", "ab", "ab"])
    assert read("ax") == ({"a": "i-a"}, "")


def test_slow_pages_end_after_ten_seconds_with_the_names_so_far(monkeypatch):
    """A request has the time that is left."""
    compute = Compute(monkeypatch, ["ab", "cd", "ef"], seconds=6.0)
    found, problem = read("ax")
    assert found == {"a": "i-a"}
    assert problem == "The compute API cannot be asked: its list of instances takes more than 10 seconds"
    assert [timeout for _, timeout in compute.asked] == [10.0, 4.0]


@pytest.mark.parametrize("answer", [{}, {"servers": None}, {"servers": [{}]}, {"servers": ["x"]}])
@pytest.mark.parametrize("consumers", ["a", "ab"])
def test_an_answer_of_another_service_is_told(monkeypatch, answer, consumers):
    """Whatever its shape."""
    Compute(monkeypatch, [answer])
    assert read(consumers) == ({}, str(NoAnswer(BAD_ANSWER)))


def test_no_consumer_needs_no_request(monkeypatch):
    """Of a provider from which nothing is allocated."""
    assert read("") == ({}, "")


def provider(uuid):
    return {"uuid": uuid, "name": f"host-{uuid}", "generation": 1}


def test_names_of_providers_take_a_request_for_each_tree():
    """Providers of one tree are told together."""
    fake = FakePlacement()
    fake.on(
        "GET", "/resource_providers", *({"resource_providers": [provider(x) for x in y]} for y in ("ab", "c"))
    )
    assert names.read_provider_names(fake.client(), ["a", "b", "c"])["b"] == "host-b"
    assert [request.query for request in fake.asked if request.path == "/resource_providers"] == [
        [("in_tree", "a")],
        [("in_tree", "c")],
    ]


def test_names_of_many_providers_take_one_request_for_all():
    """After a few for single trees; one that is gone has none."""
    fake = FakePlacement()
    trees = [{"resource_providers": [provider(str(number))]} for number in range(8)]
    everything = {"resource_providers": [provider(str(number)) for number in range(99)]}
    fake.on("GET", "/resource_providers", *trees, everything)
    found = names.read_provider_names(fake.client(), [*map(str, range(50)), "gone"])
    assert (found["49"], found.get("gone")) == ("host-49", None)
    assert fake.lines.count("GET /resource_providers") == 9
