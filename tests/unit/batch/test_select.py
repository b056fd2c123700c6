# SPDX-License-Identifier: Apache-2.0
"""Which providers, and what they hold."""

from types import SimpleNamespace

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.select import (
    NothingSelected,
    Selection,
    UnknownTraits,
    read_state,
    read_states,
    require_traits,
    select_providers,
)
from osc_placement.errors import PlacementError, UsageError
from osc_placement.migrate.migrations.cloud import choose_providers
from osc_placement.model import Inventory, Provider
from tests.unit.batch.cloud import FakeCloud, processors
from tests.unit.fake_placement import FakePlacement

ONE = "aaaaaaaa-0000-4000-8000-000000000001"
TWO = "aaaaaaaa-0000-4000-8000-000000000002"


def test_aggregates_become_one_condition_for_the_server():
    """Several aggregates mean: in any of them."""
    fake = FakePlacement().on(
        "GET", "/resource_providers", {"resource_providers": [{"uuid": "p", "name": "host", "generation": 3}]}
    )
    providers = select_providers(fake.client(), Selection(aggregates=(ONE, TWO)))
    assert providers == [Provider("p", "host", 3)]
    assert fake.asked[-1].query == [("member_of", f"in:{ONE},{TWO}")]


def test_an_empty_aggregate_is_an_error_that_says_how_to_check():
    """An aggregate without members cannot be told from one that was mistyped, so both are refused."""
    fake = FakePlacement().on("GET", "/resource_providers", {"resource_providers": []})
    with pytest.raises(NothingSelected, match=f"in aggregate {ONE}; .* provider capacity --by aggregate$"):
        select_providers(fake.client(), Selection(aggregates=(ONE,)))


def test_an_aggregate_must_be_a_uuid():
    """What cannot be an aggregate is refused without asking the server."""
    with pytest.raises(UsageError, match="not 'rack1'"):
        Selection(aggregates=("rack1",))


def test_states_come_in_the_order_of_the_providers():
    """Order in is order out, with the facets asked for and no other."""
    cloud = FakeCloud("b", "a", "c", inventories=processors(2.0))
    readings = read_states(cloud, cloud.providers, ["inventories"], concurrency=3)
    assert [reading.subject.name for reading in readings] == ["b", "a", "c"]
    assert readings[0].state == ProviderState(
        inventories={"VCPU": Inventory(8, allocation_ratio=2.0), "MEMORY_MB": Inventory(1024)}
    )


def test_a_provider_that_cannot_be_read_does_not_hide_the_others():
    """Its reading holds the error; the others hold states."""
    cloud = FakeCloud("a", "b")
    cloud.failing["a"] = PlacementError("broken")
    readings = read_states(cloud, cloud.providers, ["traits"])
    assert [str(reading.error) for reading in readings] == ["broken", "None"]
    assert readings[1].state == ProviderState(traits=frozenset())


def test_the_generation_is_that_of_the_oldest_facet():
    """When somebody writes between two reads, a write with this generation is refused."""
    fake = FakePlacement()
    fake.on(
        "GET", "/resource_providers/a/inventories", {"inventories": {}, "resource_provider_generation": 4}
    )
    fake.on("GET", "/resource_providers/a/traits", {"traits": [], "resource_provider_generation": 5})
    provider, _state = read_state(fake.client(), Provider("a", "a", 3), ("inventories", "traits"))
    assert provider.generation == 4


def test_facet_without_generation_is_ignored_for_the_generation():
    """Before 1.19 aggregates come without; an old one of the subject would stand for a cloud that is gone."""
    fake = FakePlacement("1.18").on("GET", "/resource_providers/a/aggregates", {"aggregates": []})
    fake.on("GET", "/resource_providers/a/traits", {"traits": [], "resource_provider_generation": 5})
    provider, _state = read_state(fake.client(), Provider("a", "a", 3), ("traits", "aggregates"))
    assert provider.generation == 5


def test_an_unknown_custom_trait_is_named_with_its_remedy():
    """The error says which trait, and how to create it."""
    fake = FakePlacement().on("GET", "/traits", {"traits": ["CUSTOM_A"]})
    with pytest.raises(UnknownTraits, match=r"trait CUSTOM_GOLD; .*openstack trait create CUSTOM_GOLD$"):
        require_traits(fake.client(), ["CUSTOM_GOLD", "CUSTOM_A"])
    assert fake.asked[-2].query == [("name", "in:CUSTOM_A,CUSTOM_GOLD")]


def test_an_unknown_standard_trait_cannot_be_created():
    """The error does not advise what would fail."""
    fake = FakePlacement().on("GET", "/traits", {"traits": []})
    with pytest.raises(UnknownTraits, match=r"traits HW_A, HW_B; only traits that start with CUSTOM_"):
        require_traits(fake.client(), ["HW_B", "HW_A"])


@pytest.mark.parametrize("text", [ONE, ONE.upper(), ONE.replace("-", ""), f"{{{ONE}}}"])
def test_a_uuid_selects_the_provider_that_has_it_and_none_that_is_called_so(text):
    """A provider whose name looks like a UUID is given by its own UUID."""
    providers = [Provider(ONE, "one", 1), Provider(TWO, text, 1)]
    selection = Selection(providers=(text,))
    assert selection.choose(providers) == providers[:1]
    assert selection.find_missing(providers) == []
    assert selection.choose(providers[1:]) == []
    assert selection.find_missing(providers[1:]) == [text]
    assert Selection(providers=(TWO, "one")).choose(providers) == providers


@pytest.mark.parametrize("text", [ONE, ONE.upper()])
def test_an_audit_removes_from_the_provider_with_a_uuid_and_none_that_is_called_so(text):
    """The provider of an audit is given as that of a batch."""
    names = {ONE: "one", TWO: text}
    cloud = SimpleNamespace(records=names, name=names.get)
    assert choose_providers(cloud, {text}) == {ONE}
    assert choose_providers(cloud, {"one"}) == {ONE}
    with pytest.raises(UsageError, match="Placement has no resource provider two"):
        choose_providers(cloud, {"one", "two"})
