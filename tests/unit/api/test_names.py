# SPDX-License-Identifier: Apache-2.0
"""Names that the server does not know: which they are, and which were probably meant."""

import pytest

from osc_placement.api.names import (
    UnknownResourceClass,
    UnknownTraits,
    naming_unknown,
    require_classes,
    require_traits,
    suggest,
)
from osc_placement.errors import BadRequest
from tests.unit.fake_placement import FakePlacement

CLASSES = {"resource_classes": [{"name": name} for name in ("VCPU", "PCPU", "MEMORY_MB")]}
TRAITS = {"traits": ["HW_NUMA_ROOT", "CUSTOM_GOLD"]}


@pytest.mark.parametrize(
    ("names", "guess"),
    [
        (["HW_NUMA_ROT"], " (is it HW_NUMA_ROOT?)"),
        (["HW_NUMA_ROT", "CUSTOM_GLD"], " (is it CUSTOM_GOLD or HW_NUMA_ROOT?)"),
        (["NOTHING_LIKE_IT"], ""),
        (["HW"], " (is it HW_NUMA_ROOT?)"),
    ],
)
def test_suggest_names_similar_and_longer_ones_only(names, guess):
    """A name that resembles nothing, and with which none begins, gets no suggestion."""
    assert suggest(names, TRAITS["traits"]) == guess


def test_suggest_names_no_longer_ones_if_they_are_many():
    """With HW begin hundreds of traits."""
    assert suggest(["HW"], [f"HW_FEATURE_{number}" for number in range(4)]) == ""


def test_unknown_traits_are_told_with_similar_names():
    """All traits are read only after the question about these was answered."""
    fake = FakePlacement().on("GET", "/traits", {"traits": []}, TRAITS)
    with pytest.raises(UnknownTraits, match=r"know the trait HW_NUMA_ROT \(is it HW_NUMA_ROOT\?\); only"):
        require_traits(fake.client(), ["HW_NUMA_ROT"])
    assert [request.query for request in fake.asked[-2:]] == [[("name", "in:HW_NUMA_ROT")], []]


def test_unknown_class_is_told_with_similar_names():
    """Both that are near are named."""
    fake = FakePlacement().on("GET", "/resource_classes", CLASSES)
    with pytest.raises(UnknownResourceClass, match=r"class CPU \(is it PCPU or VCPU\?\); only"):
        require_classes(fake.client(), ["MEMORY_MB", "CPU"])


def test_no_names_need_no_request():
    """A query without traits and classes costs nothing."""
    fake = FakePlacement()
    require_traits(fake.client(), [])
    require_classes(fake.client(), [])
    assert fake.asked == []


def test_refused_query_is_explained_by_its_unknown_name():
    """Names are asked for only after the refusal; if all are known, the refusal stays."""
    refusal = BadRequest(400, "No such thing")
    fake = FakePlacement().on("GET", "/traits", {"traits": ["CUSTOM_GOLD"]})
    fake.on("GET", "/resource_classes", CLASSES)
    with naming_unknown(fake.client(), ["CUSTOM_GOLD"], ["VCPU"]):
        assert fake.asked == []
    with pytest.raises(BadRequest) as caught, naming_unknown(fake.client(), ["CUSTOM_GOLD"], ["VCPU"]):
        raise refusal
    assert caught.value is refusal
    with (
        pytest.raises(UnknownResourceClass, match=r"class GPU\b.*; see: openstack resource class list$"),
        naming_unknown(fake.client(), ["CUSTOM_GOLD"], ["GPU"]),
    ):
        raise refusal
