# SPDX-License-Identifier: Apache-2.0
"""Reading glance's images: pages of each list, and every answer that is none."""

import pytest
from keystoneauth1 import exceptions as keystone

from osc_placement.migrate.nova.facts import Image
from osc_placement.migrate.nova.glance import GlanceSource
from osc_placement.migrate.nova.source import Unreadable
from tests.unit.migrate.nova.adapter import Adapter

PATH = "image/v2/images"


NONE = {"images": []}


def test_all_lists_are_read_to_the_end():
    """By the last UUID, not by the link, which leads nowhere behind a proxy; each image once."""
    adapter = Adapter(
        {"images": [{"id": "b", "name": "z", "trait:A": "required", "min_ram": 0}], "next": "http://in:1/"},
        {"images": [{"id": "c", "name": None}]},
        {"images": [{"id": "a", "name": "y", "tags": ["x"]}]},
        {"images": [{"id": "a", "name": "y"}]},
        NONE,
        endpoint="http://service.test/image/",
    )
    images = GlanceSource(adapter).list_images()
    assert [(image.uuid, image.label) for image in images] == [
        ("c", "image c"),
        ("a", "image y"),
        ("b", "image z"),
    ]
    assert images[2].properties["trait:A"] == "required"
    assert "min_ram" not in images[2].properties
    asked = [(path, arguments["params"]) for _, path, arguments in adapter.asked]
    assert [(path, *map(params.get, ("visibility", "os_hidden", "marker"))) for path, params in asked] == [
        (PATH, None, None, None),
        (PATH, None, None, "b"),
        (PATH, "community", None, None),
        (PATH, None, "true", None),
        (PATH, "community", "true", None),
    ]


def test_endpoint_may_have_its_version():
    """Catalogs have both."""
    adapter = Adapter(NONE, NONE, NONE, NONE, endpoint="http://service.test/image/v2")
    assert GlanceSource(adapter).list_images() == []
    assert {path for _, path, _ in adapter.asked} == {PATH}


def test_image_of_volumes_has_a_label():
    """Instances that boot from a volume name no image."""
    assert Image("").label == "image of a volume"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((403, {}), "answered with HTTP 403"),
        ((200, None), "is not JSON"),
        ({"pictures": []}, "cannot be parsed"),
        ({"images": [{"name": "x"}]}, "cannot be parsed"),
        ([], "cannot be parsed"),
        (keystone.ConnectFailure("no route"), "no route"),
    ],
)
def test_answer_that_is_none_is_unreadable(answer, text):
    """Never an empty list."""
    with pytest.raises(Unreadable, match=text):
        GlanceSource(Adapter(answer)).list_images()


def test_later_list_that_fails_is_unreadable():
    """What was read until then is not taken for all."""
    with pytest.raises(Unreadable):
        GlanceSource(Adapter(NONE, (500, {}))).list_images()


def test_catalog_without_glance_is_unreadable():
    """It may have no endpoint of it."""
    with pytest.raises(Unreadable, match="no endpoint"):
        GlanceSource(Adapter(endpoint=None)).list_images()
