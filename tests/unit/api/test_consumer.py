# SPDX-License-Identifier: Apache-2.0
"""osc_placement.api.consumer: the documents of consumers at each microversion."""

from dataclasses import replace

import pytest

from osc_placement import microversion
from osc_placement.api.consumer import Consumer, describe_consumers
from osc_placement.model import UNKNOWN_TYPE

HELD = {"rp": {"VCPU": 1}}
CONSUMER = Consumer("c", 4, "project", "user", "INSTANCE", HELD)
SHOWN = {
    "allocations": {"rp": {"resources": {"VCPU": 1}, "generation": 7}},
    "project_id": "project",
    "user_id": "user",
    "consumer_generation": 4,
    "consumer_type": "INSTANCE",
}
LISTED = [{"resource_provider": {"uuid": "rp"}, "resources": {"VCPU": 1}}]
KEYED = {"rp": {"resources": {"VCPU": 1}}}


@pytest.mark.parametrize(
    ("version", "document"),
    [
        ("1.7", {"allocations": LISTED}),
        ("1.8", {"allocations": LISTED, "project_id": "project", "user_id": "user"}),
        ("1.12", {"allocations": KEYED, "project_id": "project", "user_id": "user"}),
        (
            "1.28",
            {"allocations": KEYED, "project_id": "project", "user_id": "user", "consumer_generation": 4},
        ),
        ("1.38", SHOWN | {"allocations": KEYED}),
    ],
)
def test_document_has_what_its_version_takes(version, document):
    assert CONSUMER.to_json(microversion.parse(version)) == document


def test_document_is_read_back():
    assert Consumer.from_json("c", SHOWN) == CONSUMER


def test_consumer_that_holds_nothing_is_read_as_a_new_one():
    assert Consumer.from_json("c", {"allocations": {}}) == Consumer("c")


@pytest.mark.parametrize("kind", [None, UNKNOWN_TYPE])
@pytest.mark.parametrize(
    ("version", "sent_in"), [("1.28", "1.28"), ("1.37", "1.37"), ("1.38", "1.37"), ("1.39", "1.37")]
)
def test_untyped_consumer_is_written_in_a_version_without_types(kind, version, sent_in):
    """With all that are written together with it."""
    consumers = [CONSUMER, replace(CONSUMER, uuid="old", consumer_type=kind)]
    documents, found = describe_consumers(consumers, microversion.parse(version))
    assert str(found) == sent_in
    assert list(documents) == ["c", "old"]
    assert not any("consumer_type" in document for document in documents.values())


def test_typed_consumers_are_written_in_the_version_in_use():
    documents, version = describe_consumers([CONSUMER], microversion.MAX)
    assert version == microversion.MAX
    assert documents["c"]["consumer_type"] == "INSTANCE"


def test_consumers_can_be_in_a_set():
    """As providers can, the other subjects of changes."""
    assert {CONSUMER, replace(CONSUMER)} == {CONSUMER}
