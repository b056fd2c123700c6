# SPDX-License-Identifier: Apache-2.0
"""Answers put together from forms say what they say when each candidate is written out by itself."""

import json

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from osc_placement import microversion
from osc_placement.candidates.search import expand, search
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.server.api.handlers.candidate_body import render
from tests.unit.candidates.clouds import clouds, requests

VERSIONS = [
    microversion.parse("1.10"),
    microversion.NESTED_CANDIDATES,
    microversion.MAPPINGS,
    microversion.CONSUMER_TYPES,
]


@settings(max_examples=300)
@given(clouds(), requests(), st.sampled_from(VERSIONS))
def test_sharing_texts_between_equivalent_trees_does_not_change_answers(nodes, request, version):
    """Patterns with UUIDs filled in, and lone hosts, are as candidates written out."""
    # one without resources is refused before it is searched for
    assume(request.totals)
    snapshot = Snapshot(nodes)
    found = list(search(snapshot, request))
    written = [expand(request, item) for item in found]
    answer = json.loads(render(snapshot, request, version, found))
    assert answer == json.loads(render(snapshot, request, version, written))
    assert len(answer["allocation_requests"]) == len(found)
