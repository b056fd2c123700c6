# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate flavors`: names placement does not know, flavors that fit nowhere, creation."""

import pytest

from tests.functional.migrate.cloud import add_flavor
from tests.functional.migrate.placement import give

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

TRAIT, CLASS = "CUSTOM_TEST_OF_FLAVORS", "CUSTOM_TEST_OF_CLASSES"


@pytest.fixture(autouse=True)
def no_custom_names(client):
    """Delete the names that a test creates, as the server is that of all tests."""
    yield
    for record in client.read_providers(want=()):
        give(client, record.provider.uuid, {})
    for name in client.list_traits(name="startswith:CUSTOM_TEST_"):
        client.delete_trait(name)
    for document in client.list_resource_classes():
        if document["name"].startswith("CUSTOM_TEST_"):
            client.delete_resource_class(document["name"])


@pytest.fixture
def flavors(migrate_json):
    """A function that compares flavors: the document, and the exit status."""
    return lambda *arguments: migrate_json("flavors", *arguments)


def findings_of(document):
    """Return kind and text of each finding by its subject."""
    return {each["subject"]: (each["trouble"], each["text"]) for each in document["findings"]}


def test_flavor_that_fits_is_no_finding(cloud, add_host, flavors):
    """A cloud in which everything fits ends with 0."""
    add_host("h1")
    add_flavor(cloud, "m1")
    document, status = flavors()
    assert (status, document["findings"], document["rows"]) == (0, [], [])
    (found,) = document["flavors"]
    assert (found["state"], found["best_host"], found["fits_on_best_host"]) == ("fits", "h1", 32)


def test_unknown_custom_name_is_planned_and_others_are_reported(cloud, add_host, flavors):
    """Whoever asks for it is named, with similar names that there are."""
    add_host("h1")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "required"})
    add_flavor(cloud, "b", **{f"trait_x:{TRAIT}": "forbidden", f"resources_x:{CLASS}": "1"})
    add_flavor(cloud, "c", **{"trait:HW_CPU_X86_AVX3": "required"})
    add_flavor(cloud, "d", **{"trait:hw_cpu_x86_avx2": "required"})
    document, status = flavors()
    assert status == 3
    assert {row["name"]: row["note"] for row in document["rows"]} == {
        TRAIT: "flavor a, flavor b",
        CLASS: "flavor b",
    }
    found = findings_of(document)
    assert {subject: kind for subject, (kind, _) in found.items()} == {
        "flavor c": "unknown name",
        "flavor d": "unknown name",
    }
    assert "HW_CPU_X86_AVX2" in found["flavor c"][1]
    assert "come with os-traits" in found["flavor c"][1]
    assert "HW_CPU_X86_AVX2" in found["flavor d"][1]
    assert "no valid name" in found["flavor d"][1]
