# SPDX-License-Identifier: Apache-2.0
"""Reasons for differences between answers that are given."""

import json

from osc_placement.server.errors import SearchCut
from osc_placement.server.shadow.exchange import Answer, Request
from osc_placement.server.shadow.explained import explain

HOST, POOL, SPARE = "host", "pool", "spare"
TRAITS = {HOST: ["COMPUTE_NODE"], POOL: ["MISC_SHARES_VIA_AGGREGATE"], SPARE: []}


def candidates(*pairs):
    """The answer with a candidate for each pair: who provides the disk, and who satisfies ``_N``."""
    requests = [
        {"allocations": {disk: {"resources": {"DISK_GB": 1}}}, "mappings": {"": [disk], "_N": [node]}}
        for disk, node in pairs
    ]
    summaries = {disk: {"resources": {}, "traits": TRAITS[disk]} for disk, _ in pairs}
    body = {"allocation_requests": requests, "provider_summaries": summaries}
    return Answer(200, {"content-type": "application/json"}, json.dumps(body).encode())


def ask(query):
    return Request("GET", "/allocation_candidates", query)


def test_tree_is_lost_beside_a_group_without_resources():
    """The sharing provider has the whole group without a suffix, and the reference keeps one of its trees."""
    query = "resources=DISK_GB%3A1&required_N=in%3ACOMPUTE_NODE,MISC_SHARES_VIA_AGGREGATE&same_subtree=_N"
    theirs, ours = candidates((POOL, POOL)), candidates((POOL, POOL), (POOL, HOST))
    reason = "a provider that shares, alone and with other trees"
    assert explain(ask(query), theirs, ours) == reason
    assert explain(ask(query), candidates(), ours) == reason
    # the reference has more than we have
    assert explain(ask(query), ours, theirs) is None
    # the candidate that is lost is of a provider that does not share
    assert explain(ask(query), theirs, candidates((POOL, POOL), (SPARE, HOST))) is None
    # there is no other group
    assert explain(ask("resources=DISK_GB%3A1"), theirs, ours) is None


def test_amounts_that_differ_are_not_a_lost_tree():
    """All candidates of ours are there, but one has another amount."""
    ours = candidates((POOL, HOST))
    theirs = Answer(200, ours.headers, ours.body.replace(b'"DISK_GB": 1', b'"DISK_GB": 2'))
    assert explain(ask("resources=DISK_GB:1&required_N=COMPUTE_NODE&same_subtree=_N"), theirs, ours) is None


def test_group_requires_nothing_only_if_all_its_parameters_forbid():
    """A parameter that is repeated counts each time."""
    theirs, ours = candidates(), candidates((SPARE, HOST))
    query = "resources=DISK_GB:1&required_N=!CUSTOM_RED&same_subtree=_N"
    assert explain(ask(query), theirs, ours) == "a group that requires nothing"
    assert explain(ask(f"{query}&required_N=COMPUTE_NODE"), theirs, ours) is None
    assert explain(ask(f"required_N=COMPUTE_NODE&{query}"), theirs, ours) is None
    # the group without a suffix may have no resources
    assert (
        explain(ask("resources_N=DISK_GB:1&in_tree=0000000a-0000-4000-8000-000000000001"), theirs, ours)
        is None
    )


def test_sum_of_groups_needs_a_class_that_two_of_them_ask_for():
    """Amounts of one class are added up, and no others; nova quotes what is in a query."""
    theirs, ours = candidates(), candidates((SPARE, HOST))
    reason = "a sum for one provider in candidates that do not sum there"
    assert explain(ask("resources=DISK_GB:1&resources_N=VCPU:1,DISK_GB:2"), theirs, ours) == reason
    assert explain(ask("resources=DISK_GB%3A1&resources_N=VCPU%3A1%2CDISK_GB%3A2"), theirs, ours) == reason
    assert explain(ask("resources=DISK_GB:1&resources_N=VCPU:1,MEMORY_MB:2"), theirs, ours) is None


def test_either_of_two_aggregates_that_are_no_uuid_may_be_told():
    """Both servers have them in a set, so the first one differs from process to process."""

    def refuse(text):
        message = f"Expected 'member_of' parameter to contain valid UUID(s). Got: {text}"
        return Answer(400, {"content-type": "application/json"}, message.encode())

    request = ask("resources=DISK_GB:1&member_of=in:one,another")
    reason = "several unknown names, of which one is told"
    assert explain(request, refuse("one"), refuse("another")) == reason
    assert explain(request, refuse("one"), Answer(400, {}, b"something else")) is None


def test_reference_ignores_the_tree_of_a_group_without_resources():
    """It has candidates then that we have not, and never the other way round."""
    theirs, ours = candidates((SPARE, HOST)), candidates()
    reason = "a tree that a group without resources names"
    tree = "in_tree_N=0000000a-0000-4000-8000-000000000001"
    query = "resources=DISK_GB:1&required_N=COMPUTE_NODE&same_subtree=_N"
    assert explain(ask(f"{query}&{tree}"), theirs, ours) == reason
    assert explain(ask(f"{query}&{tree}"), ours, theirs) is None
    assert explain(ask(query), theirs, ours) is None
    assert explain(ask(f"{query}&{tree}&resources_N=VCPU:1"), theirs, ours) is None


def test_a_search_that_was_cut_is_no_wrong_answer():
    """The reference answers that there is none, or finds one, however long that takes."""
    error = {"status": 400, "detail": str(SearchCut())}
    cut = Answer(400, {"content-type": "application/json"}, json.dumps({"errors": [error]}).encode())
    reason = "a search that was cut before it found a candidate"
    assert explain(ask("resources=DISK_GB:1"), candidates(), cut) == reason
    assert explain(ask("resources=DISK_GB:1"), candidates((POOL, HOST)), cut) == reason
    assert explain(ask("resources=DISK_GB:1"), cut, candidates()) is None
