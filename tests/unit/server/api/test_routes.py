# SPDX-License-Identifier: Apache-2.0
"""The url table: what is found, and what is not."""

import uuid

import pytest

from osc_placement import microversion
from osc_placement.server import errors
from osc_placement.server.api import routes
from tests import databases

#: change it when the API changes, and think of documentation, policy and a release note
ENDPOINTS = 42

OPERATIONS = [(path, method) for path, methods in routes.ROUTES.items() for method in methods]


def fill_in(path):
    """A path with values for its parameters, and these."""
    values = {name: str(uuid.uuid4()) if name.endswith("uuid") else "NAME" for name in parameters(path)}
    return path.format(**values), values


def parameters(path):
    """The names of a path's parameters."""
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def test_number_of_endpoints_is_as_expected():
    """An endpoint that comes or goes is noticed."""
    assert len(OPERATIONS) == ENDPOINTS


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_endpoint_is_found(path, method):
    """A path with values leads to its own endpoint, whatever others look like."""
    actual, values = fill_in(path)
    assert routes.find(actual, method) == (routes.ROUTES[path][method], values)


@pytest.mark.parametrize("path", routes.ROUTES)
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH", "get", ""])
def test_other_methods_are_refused_with_those_there_are(path, method):
    """405 names the methods of the path, in the order of the table."""
    with pytest.raises(errors.HTTPError) as caught:
        routes.find(fill_in(path)[0], method)
    assert caught.value.status == 405
    assert caught.value.headers == {"allow": ", ".join(routes.ROUTES[path])}


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "/resource_providers/",
        "/resource_providers//inventories",
        "//resource_providers",
        "/Resource_providers",
        "/resource_providers/x/y",
        "/resource_providers/x/inventories/VCPU/",
        "/resource_providers/x/inventories/VCPU/more",
        "/traits/a/b",
        "/nothing",
    ],
)
def test_other_paths_are_unknown(path):
    """A path is matched whole: no slash more, no letter other."""
    with pytest.raises(errors.PathNotFound):
        routes.find(path, "GET")


def test_braces_in_a_path_are_a_value():
    """The table's own notation is a value like any other, in a place where values are."""
    _, values = routes.find("/traits/{name}", "GET")
    assert values == {"name": "{name}"}
    with pytest.raises(errors.PathNotFound):
        routes.find("/{name}", "GET")


def test_uuids_are_given_in_one_spelling():
    """A handler never sees capitals, or a UUID without dashes; what is no UUID stays as it is."""
    wanted = {"uuid": "12345678-90ab-cdef-1234-567890abcdef"}
    for spelling in ("12345678-90AB-CDEF-1234-567890ABCDEF", "1234567890abcdef1234567890abcdef"):
        assert routes.find(f"/resource_providers/{spelling}", "GET")[1] == wanted
    assert routes.find("/resource_providers/X", "GET")[1] == {"uuid": "X"}
    assert routes.find("/traits/1234567890ABCDEF1234567890ABCDEF", "GET")[1] == {
        "name": "1234567890ABCDEF1234567890ABCDEF"
    }


def test_no_endpoint_is_newer_than_the_newest_version():
    """Each endpoint can be called at some microversion."""
    assert all(
        microversion.MIN <= endpoint.since <= microversion.MAX
        for methods in routes.ROUTES.values()
        for endpoint in methods.values()
    )


def test_routes_equal_openstack_placement():
    """The same paths and methods, in the same order, for the order shows in 405."""
    try:
        from placement import handler
    except ImportError:
        databases.skip_or_fail("openstack-placement is not installed (extra 'reference')")
    theirs = {path: list(methods) for path, methods in handler.ROUTE_DECLARATIONS.items() if path}
    ours = {path: list(methods) for path, methods in routes.ROUTES.items() if not path.startswith("/-/")}
    assert ours == theirs
