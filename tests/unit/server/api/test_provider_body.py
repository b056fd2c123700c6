# SPDX-License-Identifier: Apache-2.0
"""Lists of providers put together from texts that stay with the snapshot."""

import json
import tracemalloc

import pytest

from osc_placement import microversion
from osc_placement.candidates.node import Node
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.server.api.handlers.provider_body import render_list


def render(view, base):
    """Return the body of a list of all providers."""
    pieces, length = render_list(view, range(len(view.nodes)), microversion.MIN, base)
    body = b"".join(pieces)
    assert len(body) == length
    return body


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, 250])
def test_list_is_rendered_in_pieces_of_known_length(number):
    """The pieces make one JSON document of all providers, and no piece has more than 100 of them."""
    view = Snapshot([Node(id_, f"uuid{id_}", None, id_) for id_ in range(number)])
    shown = json.loads(render(view, "/resource_providers"))["resource_providers"]
    assert [provider["uuid"] for provider in shown] == [f"uuid{id_}" for id_ in range(number)]
    pieces, _ = render_list(view, range(number), microversion.MIN, "/resource_providers")
    assert max(piece.count(b'"uuid"') for piece in pieces) <= 100


def test_links_begin_with_the_path_of_the_request():
    """Links have the path of their request, regardless of earlier requests and changes."""
    view = Snapshot([Node(1, "uuid", None, 1)])
    for base in ("/a", "/b", "/a"):
        view = view.replace([Node(1, "uuid", None, 1, name=base)])
        (provider,) = json.loads(render(view, base))["resource_providers"]
        assert (provider["name"], provider["links"][0]["href"]) == (base, f"{base}/uuid")


def test_texts_are_kept_for_one_path_only():
    """Requests with ten different paths use no more memory than those with one."""
    view = Snapshot([Node(id_, f"uuid{id_}", None, id_) for id_ in range(1000)])
    tracemalloc.start()
    try:
        render(view, "/0/resource_providers")
        one, _ = tracemalloc.get_traced_memory()
        for number in range(1, 10):
            render(view, f"/{number}/resource_providers")
        ten, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ten < 1.5 * one
