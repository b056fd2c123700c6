# SPDX-License-Identifier: Apache-2.0
"""Conversations about one whole cloud: it is made, then asked for candidates and providers, without a limit.

Requests at random seldom leave more than a few providers that can be used together. Here there are always
trees, devices that are alike, providers that share, traits, aggregates and some allocations.
"""

from __future__ import annotations

from random import Random
from typing import Any

from osc_placement.server.shadow.exchange import Request
from tests.reliability.differential import generate, queries
from tests.reliability.differential import vocabulary as words
from tests.reliability.differential.generate import Draft, World

#: questions about one cloud
QUESTIONS = 60


def build(random: Random) -> list[Request]:
    """Requests that make a cloud of up to nine providers in some trees, and claim a little of it."""
    drafts = [Draft(39, "PUT", f"/traits/{name}") for name in words.CUSTOM_TRAITS]
    drafts += [Draft(39, "PUT", f"/resource_classes/{name}") for name in words.CUSTOM_CLASSES]
    uuids = words.PROVIDERS[: random.randint(2, len(words.PROVIDERS))]
    for number, uuid in enumerate(uuids):
        parent = random.choice((None, *uuids[:number])) if random.random() < 0.75 else None
        drafts += _provider(random, uuid, words.NAMES[number], parent)
    drafts += [_claim(random, uuid, consumer) for uuid, consumer in zip(uuids, words.CONSUMERS, strict=False)]
    return [generate.finish(draft) for draft in drafts]


def _provider(random: Random, uuid: str, name: str, parent: str | None) -> list[Draft]:
    path = f"/resource_providers/{uuid}"
    body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
    contents: dict[str, Any] = {
        "inventories": {
            "inventories": {key: _inventory(random) for key in random.sample(words.CLASSES[:5], 3)}
        },
        "traits": {"traits": _some(random, words.TRAITS, 3)},
        "aggregates": {"aggregates": _some(random, words.AGGREGATES[:3], 2)},
    }
    drafts = [Draft(39, "POST", "/resource_providers", body=body)]
    for generation, (part, data) in enumerate(contents.items()):
        data["resource_provider_generation"] = generation
        drafts.append(Draft(39, "PUT", f"{path}/{part}", body=data))
    return drafts


def _some(random: Random, names: tuple[str, ...], most: int) -> list[str]:
    return random.sample(names, random.randint(0, most))


def _inventory(random: Random) -> dict[str, Any]:
    return {
        "total": random.choice((1, 2, 4, 8, 8, 16)),
        "reserved": random.choice((0, 0, 0, 1)),
        "min_unit": random.choice((1, 1, 1, 1, 2)),
        "max_unit": random.choice((1, 2, 8, 8, 8)),
        "step_size": random.choice((1, 1, 1, 1, 2)),
        "allocation_ratio": random.choice((1.0, 1.0, 0.5, 2.0)),
    }


def _claim(random: Random, uuid: str, consumer: str) -> Draft:
    """A claim that fits now and then; when it does not, both refuse it."""
    body = {
        "allocations": {uuid: {"resources": {random.choice(words.CLASSES[:4]): random.choice((1, 2))}}},
        "project_id": words.PROJECTS[0],
        "user_id": words.USERS[0],
        "consumer_generation": None,
        "consumer_type": words.CONSUMER_TYPES[0],
    }
    return Draft(39, "PUT", f"/allocations/{consumer}", body=body)


def question(random: Random, world: World) -> Request:
    """A valid query for candidates, or now and then for providers."""
    minor = 39 if random.random() < 0.6 else random.randrange(10, 39)
    if random.random() < 0.15:
        return generate.finish(
            Draft(minor, "GET", "/resource_providers", queries.of_providers(random, minor))
        )
    query = [pair for pair in queries.of_candidates(random, world, minor) if _stays(random, pair[0])]
    return generate.finish(Draft(minor, "GET", "/allocation_candidates", query))


def _stays(random: Random, key: str) -> bool:
    """Conditions mostly go: a query that is full of them has no candidates, and compares nothing."""
    if key == "limit":
        return False
    return key.startswith(("resources", "group_policy", "same_subtree")) or random.random() < 0.3
