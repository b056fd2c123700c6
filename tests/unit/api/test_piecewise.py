# SPDX-License-Identifier: Apache-2.0
"""A whole cloud read from a placement without a bulk read: what it costs, and that all of it is right."""

import re

import pytest

from osc_placement.api import piecewise
from osc_placement.errors import NotFound
from tests.unit.fake_placement import FakePlacement, error

NUMBER = 2 * piecewise.MANY
FULL = 7


def uuid(number):
    """The UUID of a provider."""
    return f"00000000-0000-4000-8000-{number:012}"


def summary(number):
    """What the candidates say of a provider."""
    return {"resources": {"VCPU": {"capacity": 8, "used": number % 5}}, "traits": [f"CUSTOM_{number}"]}


def generation(number):
    """One that an earlier reading may have had."""
    return {"resource_provider_generation": number + 1}


@pytest.fixture
def fake():
    """Many providers, all but one with something free."""
    fake = FakePlacement()
    providers = [
        {"uuid": uuid(number), "name": f"host{number}", "generation": number} for number in range(NUMBER)
    ]
    fake.on("GET", "/resource_providers", {"resource_providers": providers})
    summaries = {uuid(number): summary(number) for number in range(NUMBER) if number != FULL}
    candidates = {"allocation_requests": [], "provider_summaries": summaries}
    fake.on("GET", "/allocation_candidates", candidates)
    for number in range(NUMBER):
        base = f"/resource_providers/{uuid(number)}"
        inventories = {"VCPU": {"total": 8}}
        fake.on("GET", f"{base}/inventories", {"inventories": inventories, **generation(number)})
        fake.on("GET", f"{base}/aggregates", {"aggregates": [], **generation(number)})
        fake.on("GET", f"{base}/usages", {"usages": {"VCPU": number % 5}})
        fake.on("GET", f"{base}/traits", {"traits": [f"CUSTOM_{number}"], **generation(number)})
    return fake


def count(fake, kind):
    """How many requests there were for one part of a provider."""
    return sum(bool(re.fullmatch(rf"GET /resource_providers/[^/]*/{kind}", line)) for line in fake.lines)


def test_usages_and_traits_come_from_the_summaries(fake):
    """One request tells them of all providers but the one that is full, which is asked itself."""
    records = list(fake.client().read_providers())
    assert [record.provider.uuid for record in records] == [uuid(number) for number in range(NUMBER)]
    assert [record.usages["VCPU"] for record in records] == [number % 5 for number in range(NUMBER)]
    assert [record.traits for record in records] == [{f"CUSTOM_{number}"} for number in range(NUMBER)]
    assert fake.lines.count("GET /allocation_candidates") == 1
    assert [count(fake, kind) for kind in ("inventories", "aggregates", "usages", "traits")] == [
        NUMBER,
        NUMBER,
        1,
        1,
    ]


def test_only_the_providers_of_wanted_trees_are_asked_for_their_parts(fake):
    """Those that are asked for, and those whose root is."""
    documents = [
        {"uuid": uuid(number), "name": f"host{number}", "generation": 1, "root_provider_uuid": uuid(root)}
        for number, root in enumerate((0, 0, 2, 3))
    ]
    fake.on("GET", "/resource_providers", {"resource_providers": documents})
    records = list(fake.client().read_providers(roots={uuid(0), uuid(3)}))
    assert [record.provider.name for record in records] == ["host0", "host1", "host3"]
    assert count(fake, "inventories") == 3


def test_summaries_give_the_values_of_single_requests(fake):
    """Where the summaries cannot be had, the result is the same."""
    records = list(fake.client().read_providers())
    fake.on("GET", "/allocation_candidates", error(403, "not for you"))
    assert list(fake.client().read_providers()) == records
    assert count(fake, "usages") == 1 + NUMBER


def test_generation_is_that_of_the_first_read(fake):
    """It is that of the inventories, which are read before the traits, so a change since is found out."""
    fake.on(
        "GET",
        f"/resource_providers/{uuid(FULL)}/traits",
        {"traits": [], "resource_provider_generation": 99},
    )
    records = list(fake.client().read_providers())
    assert [record.provider.generation for record in records] == [number + 1 for number in range(NUMBER)]


def test_candidates_of_another_class_are_requested_for_missing_providers(fake):
    """A class that is used up everywhere hides what another one shows."""
    inventories = {"inventories": {"VCPU": {"total": 8}, "DISK_GB": {"total": 8}}, **generation(0)}
    for number in range(NUMBER):
        fake.on("GET", f"/resource_providers/{uuid(number)}/inventories", inventories)
    summaries = {uuid(number): summary(number) for number in range(NUMBER)}
    empty = {"allocation_requests": [], "provider_summaries": {}}
    fake.on("GET", "/allocation_candidates", empty, empty | {"provider_summaries": summaries})
    list(fake.client().read_providers())
    queries = [request.query for request in fake.asked if request.path == "/allocation_candidates"]
    assert queries == [[("resources", "VCPU:1")], [("resources", "DISK_GB:1")]]
    assert count(fake, "usages") == 0


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({"api_version": "1.28"}, ("inventories", "usages")),
        ({}, ("usages", "traits")),
        ({}, ("inventories", "aggregates")),
    ],
)
def test_candidates_are_requested_only_where_useful(fake, settings, want):
    """Not before they are of whole trees, not without a class to ask for, not if nobody wants the answer."""
    assert len(list(fake.client(**settings).read_providers(want=want))) == NUMBER
    assert fake.lines.count("GET /allocation_candidates") == 0


@pytest.fixture
def capacities(fake):
    """The same, with inventories of which something is reserved; VCPU is free, but for the full one."""
    fake.on("GET", "/resource_classes", {"resource_classes": [{"name": "DISK_GB"}, {"name": "VCPU"}]})
    for number in range(NUMBER):
        inventories = {"VCPU": {"total": 10, "reserved": 2}}
        path = f"/resource_providers/{uuid(number)}/inventories"
        fake.on("GET", path, {"inventories": inventories, **generation(number)})
    free = [
        {"uuid": uuid(number), "name": f"host{number}", "generation": number}
        for number in range(NUMBER)
        if number != FULL
    ]
    everybody = [*free, {"uuid": uuid(FULL), "name": "full", "generation": FULL}]
    fake.on("GET", "/resource_providers", *({"resource_providers": each} for each in (everybody, [], free)))
    return fake


def test_capacities_come_from_the_summaries_too(capacities):
    """No provider is asked but the one that is full; a class that nobody has is passed over."""
    records = list(capacities.client().read_providers(want=("inventories", "usages"), only_capacity=True))
    assert {record.inventories["VCPU"].capacity for record in records} == {8}
    assert {record.provider.uuid: record.usages["VCPU"] for record in records} == {
        uuid(number): number % 5 for number in range(NUMBER)
    }
    queries = [request.query for request in capacities.asked if request.path == "/allocation_candidates"]
    assert queries == [[("resources", "VCPU:1")]]
    assert (count(capacities, "inventories"), count(capacities, "usages")) == (1, 1)


def test_capacities_are_asked_for_one_by_one_where_the_summaries_are_refused(capacities):
    """The result is the same."""
    capacities.on("GET", "/allocation_candidates", error(403, "not for you"))
    records = list(capacities.client().read_providers(want=("inventories", "usages"), only_capacity=True))
    assert {record.inventories["VCPU"].capacity for record in records} == {8}
    assert count(capacities, "inventories") == NUMBER


def test_capacities_are_read_with_parts_no_summary_has(capacities):
    """Aggregates are read of each provider, and all of it comes together."""
    want = ("inventories", "usages", "aggregates")
    records = list(capacities.client().read_providers(want=want, only_capacity=True))
    assert {(record.aggregates, record.inventories["VCPU"].capacity) for record in records} == {
        (frozenset(), 8)
    }
    assert (count(capacities, "inventories"), count(capacities, "aggregates")) == (1, NUMBER)


def test_few_providers_are_read_one_by_one(fake):
    """Candidates are always those of the whole cloud."""
    few = [{"uuid": uuid(number), "name": f"host{number}", "generation": number} for number in range(3)]
    fake.on("GET", "/resource_providers", {"resource_providers": few})
    assert len(list(fake.client().read_providers())) == 3
    assert fake.lines.count("GET /allocation_candidates") == 0


@pytest.mark.parametrize("part", ["inventories", "usages"])
def test_a_provider_deleted_meanwhile_is_left_out(fake, part):
    """In either round; the others are read all the same."""
    fake.on("GET", f"/resource_providers/{uuid(FULL)}/{part}", error(404, "gone"))
    uuids = [record.provider.uuid for record in fake.client().read_providers()]
    assert len(uuids) == NUMBER - 1
    assert uuid(FULL) not in uuids
    with pytest.raises(NotFound):
        getattr(fake.client(), {"inventories": "list_inventories", "usages": "provider_usages"}[part])(
            uuid(FULL)
        )
