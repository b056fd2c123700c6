# SPDX-License-Identifier: Apache-2.0
"""The engine and the brute force find what the cases in ``cases/*.yaml`` say.

A case is one topology and the queries to it:

- ``providers``: each with a ``name``, the ``parent`` if it has one, ``inventories`` (a total, or the fields
  of an inventory and ``used``), ``traits`` and ``aggregates``, which have names of any form.
- ``queries``: the parameters of ``GET /allocation_candidates``, a list where one is repeated; ``{name}``
  stands for the UUID of a provider or an aggregate. ``version`` is the microversion (default: the newest).
- ``candidates``: by provider, the amounts; ``groups`` names the providers of each group.
- ``summaries``: by provider and class, what is used and the capacity.
"""

import json
import pathlib
import uuid

import pytest
import yaml

from osc_placement.candidates.node import Node, Stock
from osc_placement.candidates.request import parse
from osc_placement.candidates.search import search
from osc_placement.candidates.snapshot import Snapshot
from osc_placement.microversion import MAX, Version
from osc_placement.model import Inventory
from osc_placement.server.api.handlers.candidate_body import render
from tests.unit.candidates import brute_force

CASES = sorted(pathlib.Path(__file__).with_name("cases").glob("*.yaml"))
DOCUMENTS = {path.stem: yaml.safe_load(path.read_text()) for path in CASES}
QUERIES = [
    pytest.param(document["providers"], query, id=f"{name}: {query['what']}")
    for name, document in DOCUMENTS.items()
    for query in document["queries"]
]


def uuid_of(name):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


class Names(dict):
    """The UUID of any name, for the places in braces of a query."""

    def __missing__(self, name):
        return uuid_of(name)


def make_stock(value):
    """Make a stock of a total, or of the fields of an inventory and ``used``."""
    fields = dict(value) if isinstance(value, dict) else {"total": value}
    used = fields.pop("used", 0)
    return Stock(Inventory(**fields), used)


def make_nodes(providers):
    """Make the nodes of a case; a parent is named before its children."""
    nodes = {}
    for id_, provider in enumerate(providers):
        parent = nodes[provider["parent"]] if "parent" in provider else None
        nodes[provider["name"]] = Node(
            id_,
            uuid_of(provider["name"]),
            None if parent is None else parent.id,
            id_ if parent is None else parent.root_id,
            {name: make_stock(value) for name, value in provider.get("inventories", {}).items()},
            tuple(provider.get("traits", ())),
            tuple(map(uuid_of, provider.get("aggregates", ()))),
            provider["name"],
        )
    return list(nodes.values())


def make_request(query):
    """Parse the parameters of a case; return the request and the microversion."""
    version = Version(*map(int, query["version"].split("."))) if "version" in query else MAX
    items = [
        (key, value.format_map(Names()))
        for key, values in query["query"].items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return parse(items, version), version


def expected_candidates(query):
    """Return the candidates of a case: amounts by provider, and providers by group where it has them."""
    return sorted(
        describe({key: value for key, value in each.items() if key != "groups"}, each.get("groups"))
        for each in query["candidates"]
    )


def describe(amounts, groups):
    """Return a candidate as text that can be sorted and that reads well in a difference."""
    return json.dumps([amounts, groups], sort_keys=True)


@pytest.mark.parametrize(("providers", "query"), QUERIES)
def test_answer_is_that_of_the_case(providers, query):
    """Candidates in any order, each once, and the summaries if the case has them."""
    snapshot = Snapshot(make_nodes(providers))
    names = {node.uuid: node.name for node in snapshot.nodes}
    request, version = make_request(query)
    body = json.loads(render(snapshot, request, version, list(search(snapshot, request))))
    has_groups = any("groups" in candidate for candidate in query["candidates"])
    found = [
        describe(
            {names[provider]: each["resources"] for provider, each in candidate["allocations"].items()},
            {suffix: ", ".join(map(names.get, of)) for suffix, of in candidate["mappings"].items()}
            if has_groups
            else None,
        )
        for candidate in body["allocation_requests"]
    ]
    assert sorted(found) == expected_candidates(query)
    if "summaries" in query:
        summaries = {
            names[provider]: {
                name: f"{each['used']}/{each['capacity']}" for name, each in summary["resources"].items()
            }
            for provider, summary in body["provider_summaries"].items()
        }
        assert summaries == query["summaries"]


@pytest.mark.parametrize(("providers", "query"), QUERIES)
def test_brute_force_agrees_with_the_case(providers, query):
    """A case with an error in it fails here too, whatever the engine does."""
    nodes = make_nodes(providers)
    names = {node.uuid: node.name for node in nodes}
    request, _ = make_request(query)
    has_groups = any("groups" in candidate for candidate in query["candidates"])
    candidates = brute_force.candidates(nodes, request)
    found = []
    for lines, mappings in candidates:
        amounts = {}
        for provider, name, amount in lines:
            amounts.setdefault(names[provider], {})[name] = amount
        groups = {suffix: ", ".join(sorted(map(names.get, of))) for suffix, of in mappings}
        found.append(describe(amounts, groups if has_groups else None))
    assert sorted(found) == expected_candidates(query)
    if "summaries" in query:
        shown = brute_force.summaries(nodes, request, candidates)
        assert {names[provider] for provider in shown} == query["summaries"].keys()
