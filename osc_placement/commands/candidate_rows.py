# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates as rows of a table, sorted by the choice of the operator."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from osc_placement import microversion
from osc_placement.api.client import Document, PlacementClient
from osc_placement.api.concurrency import map_in_order

GROUP_COLUMNS: Final = ("group", "resource provider", "uuid", "allocation", "inventory used/capacity")
#: up to this many trees, names are read tree by tree; for more, those of all providers in one request
_FEW_TREES: Final = 8

#: the amounts that each group requests, by suffix, by resource class
Wanted = Mapping[str, Mapping[str, int]]
#: the summary of each provider in the answer, by UUID
Summaries = Mapping[str, Document]


def amounts_by_provider(request: Document) -> dict[str, Mapping[str, int]]:
    """Return the amounts that an allocation request takes from each provider; before 1.12 it is a list."""
    allocations = request["allocations"]
    if isinstance(allocations, dict):
        return {provider: item["resources"] for provider, item in allocations.items()}
    return {item["resource_provider"]["uuid"]: item["resources"] for item in allocations}


def add_amounts(summaries: Summaries, request: Document) -> Summaries:
    """Return the summaries of providers as they are after a candidate was allocated."""
    after = dict(summaries)
    for provider, amounts in amounts_by_provider(request).items():
        resources = summaries[provider]["resources"]
        used = {
            name: {**item, "used": item["used"] + amounts.get(name, 0)} for name, item in resources.items()
        }
        after[provider] = {**summaries[provider], "resources": used}
    return after


def join_amounts(amounts: Mapping[str, Any]) -> str:
    """Return amounts as text: ``VCPU=1,MEMORY_MB=64``."""
    return ",".join(f"{name}={amount}" for name, amount in amounts.items())


def join_summary(resources: Mapping[str, Document]) -> str:
    """Return usage and capacity as text: ``VCPU=2/16``."""
    return ",".join(f"{name}={item['used']}/{item['capacity']}" for name, item in resources.items())


def group_rows(
    request: Document, wanted: Wanted, summaries: Summaries, names: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """Return a row for each provider of each group, in the order of the groups; see GROUP_COLUMNS."""
    for group, provider, amounts in split_by_group(request, wanted):
        summary = {name: item for name, item in summaries[provider]["resources"].items() if name in amounts}
        name = names.get(provider, provider)
        yield group, name, provider, join_amounts(amounts), join_summary(summary)


def split_by_group(request: Document, wanted: Wanted) -> Iterator[tuple[str, str, Mapping[str, int]]]:
    """Yield group, provider and amounts; the unnamed group may use several providers."""
    allocated = amounts_by_provider(request)
    mappings = request.get("mappings") or {"": list(allocated)}
    rest = {provider: Counter(amounts) for provider, amounts in allocated.items()}
    for group, (provider, *_) in mappings.items():
        if group:
            rest[provider] -= Counter(wanted.get(group, {}))
    for group in wanted:
        for provider in mappings.get(group, ()):
            yield group, provider, wanted[group] if group else rest[provider]


def read_names(client: PlacementClient, summaries: Summaries) -> dict[str, str]:
    """Read the names of the providers in candidates, with a few requests whatever their number."""
    roots = {summary.get("root_provider_uuid", uuid) for uuid, summary in summaries.items()}
    if client.version >= microversion.NESTED_PROVIDERS and len(roots) <= _FEW_TREES:
        trees = map_in_order(lambda root: client.list_providers(in_tree=root), sorted(roots))
    else:
        trees = [client.list_providers()]
    return {provider["uuid"]: provider["name"] for tree in trees for provider in tree}


# choosing


def order_candidates(how: str, requests: Sequence[Document], summaries: Summaries) -> list[Document]:
    """Sort the candidates, the preferred one first; ``how`` is one of CHOICES."""
    return CHOICES[how](list(requests), summaries)


def least_left(request: Document, summaries: Summaries) -> float:
    """Return the smallest part of the capacity of a class that would be free after a claim."""
    left = []
    for provider, amounts in amounts_by_provider(request).items():
        for name, amount in amounts.items():
            summary = summaries[provider]["resources"].get(name, {})
            capacity = summary.get("capacity", 0)
            left.append((capacity - summary["used"] - amount) / capacity if capacity else 0.0)
    return min(left, default=0.0)


CHOICES: Final[Mapping[str, Callable[[list[Document], Summaries], list[Document]]]] = {
    "first": lambda requests, _summaries: requests,
    "random": lambda requests, _summaries: random.sample(requests, len(requests)),
    "most-free": lambda requests, summaries: sorted(
        requests, key=lambda request: least_left(request, summaries), reverse=True
    ),
    "least-free": lambda requests, summaries: sorted(
        requests, key=lambda request: least_left(request, summaries)
    ),
}
