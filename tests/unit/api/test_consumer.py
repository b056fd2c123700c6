# SPDX-License-Identifier: Apache-2.0
"""osc_placement.api.consumer: the documents of consumers at each microversion."""

from dataclasses import replace

import pytest

from osc_placement import codes, microversion
from osc_placement.api.consumer import Consumer, describe_consumers, send_new_consumers
from osc_placement.errors import Conflict
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


def refuse(documents, sent, **facts):
    """Make a function that notes the generations it sends, and is refused the first time."""

    def send():
        sent.append([document["consumer_generation"] for document in documents])
        if len(sent) == 1:
            raise Conflict(409, "refused", document=facts)

    return send


def test_new_consumer_that_a_refused_write_left_behind_has_generation_0():
    documents, sent = [{"consumer_generation": None}, {"consumer_generation": 3}], []
    send_new_consumers(refuse(documents, sent, code=codes.CONCURRENT_UPDATE), documents)
    assert sent == [[None, 3], [0, 3]]


@pytest.mark.parametrize(
    ("generation", "code"), [(3, codes.CONCURRENT_UPDATE), (None, "placement.undefined_code")]
)
def test_other_conflicts_are_for_the_caller(generation, code):
    documents, sent = [{"consumer_generation": generation}], []
    with pytest.raises(Conflict):
        send_new_consumers(refuse(documents, sent, code=code), documents)
    assert len(sent) == 1


def test_consumers_can_be_in_a_set():
    """As providers can, the other subjects of changes."""
    assert {CONSUMER, replace(CONSUMER)} == {CONSUMER}
