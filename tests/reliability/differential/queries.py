# SPDX-License-Identifier: Apache-2.0
"""Query strings as pairs, mostly such as the microversion admits."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.reliability.differential import vocabulary as words

Query = list[tuple[str, str]]


def _resources(random: Random) -> str:
    names = random.sample(words.CLASSES[:5], random.choice((1, 1, 1, 2, 2, 3)))
    return ",".join(f"{name}:{random.choice((1, 1, 2, 4, 8))}" for name in names)


def _traits(random: Random, minor: int) -> str:
    names = random.sample(words.TRAITS, random.choice((1, 1, 2)))
    if minor >= 39 and random.random() < 0.3:
        return "in:" + ",".join(names)
    if minor >= 22:
        names = [f"!{name}" if random.random() < 0.3 else name for name in names]
    return ",".join(names)


def _member_of(random: Random, minor: int) -> str:
    uuids = random.sample(words.AGGREGATE_TEXTS, random.choice((1, 1, 2)))
    text = f"in:{','.join(uuids)}" if len(uuids) > 1 or random.random() < 0.2 else uuids[0]
    return f"!{text}" if minor >= 32 and random.random() < 0.3 else text


def _repeated(random: Random, key: str, make: Any, minor: int, since: int) -> Query:
    count = 2 if minor >= since and random.random() < 0.3 else 1
    return [(key, make(random, minor)) for _ in range(count)]


def of_providers(random: Random, minor: int) -> Query:
    """GET /resource_providers."""
    query: Query = []
    if random.random() < 0.15:
        query.append(("name", random.choice(words.NAMES)))
    if random.random() < 0.1:
        query.append(("uuid", random.choice(words.PROVIDERS)))
    if minor >= 3 and random.random() < 0.3:
        query += _repeated(random, "member_of", _member_of, minor, 24)
    if minor >= 4 and random.random() < 0.3:
        query.append(("resources", _resources(random)))
    if minor >= 14 and random.random() < 0.3:
        query.append(("in_tree", random.choice(words.PROVIDERS)))
    if minor >= 18 and random.random() < 0.3:
        query += _repeated(random, "required", _traits, minor, 39)
    return query


def of_traits(random: Random) -> Query:
    """GET /traits; never all of them, which are a great many and always the same."""
    names = ("in:CUSTOM_FAST,CUSTOM_RED,COMPUTE_NODE", "startswith:CUSTOM_", "startswith:HW_CPU_X86_A")
    query: Query = [("name", random.choice(names))]
    if random.random() < 0.5:
        query = [*query, ("associated", random.choice(("true", "false")))]
    return query


def of_usages(random: Random, minor: int) -> Query:
    """GET /usages."""
    query: Query = [("project_id", random.choice(words.PROJECTS))]
    if random.random() < 0.4:
        query.append(("user_id", random.choice(words.USERS)))
    if minor >= 38 and random.random() < 0.5:
        query.append(("consumer_type", random.choice((*words.CONSUMER_TYPES, "all", "unknown"))))
    return query


def of_candidates(random: Random, world: Any, minor: int) -> Query:
    """GET /allocation_candidates: one group that may be spread over a tree, and others that may not."""
    suffixes = _suffixes(random, minor)
    query: Query = []
    if not suffixes or random.random() < 0.6:
        query += _group(random, world, minor, "")
    for suffix in suffixes:
        query += _group(random, world, minor, suffix)
    if len(suffixes) > 1 or (minor >= 25 and random.random() < 0.1):
        query.append(("group_policy", random.choice(("none", "isolate"))))
    if minor >= 16 and random.random() < 0.15:
        query.append(("limit", random.choice(("1", "2", "5", "1000"))))
    if minor >= 35 and random.random() < 0.2:
        query.append(("root_required", _traits(random, 22)))
    if minor >= 36 and suffixes and random.random() < 0.4:
        query.append(("same_subtree", ",".join(random.sample(suffixes, min(2, len(suffixes))))))
    return query


def _suffixes(random: Random, minor: int) -> list[str]:
    if minor < 25 or random.random() < 0.4:
        return []
    names = ["1", "2", "3"] if minor < 33 else ["_a", "_NIC-1", "2", "_c"]
    return random.sample(names, random.choice((1, 2, 2, 3)))


def _group(random: Random, world: Any, minor: int, suffix: str) -> Query:
    query: Query = []
    if not (suffix and minor >= 36 and random.random() < 0.2):
        query.append((f"resources{suffix}", _resources(random)))
    if minor >= 17 and random.random() < 0.35:
        query += _repeated(random, f"required{suffix}", _traits, minor, 39)
    if minor >= 21 and random.random() < 0.25:
        query += _repeated(random, f"member_of{suffix}", _member_of, minor, 24)
    if minor >= 31 and random.random() < 0.15:
        query.append((f"in_tree{suffix}", random.choice(list(world.providers) or words.PROVIDERS)))
    return query


def damage(random: Random, query: Query) -> Query:
    """The same with one parameter odd, gone, twice or new."""
    changed = list(query)
    place = random.randrange(len(changed)) if changed else None
    action = random.randrange(4)
    if place is None or action == 0:
        keys = ("x", "name", "uuid", "in_tree", "member_of", "required", "resources", "limit", "resources1")
        changed.append((random.choice(keys), random.choice(words.ODD_TEXTS)))
    elif action == 1:
        changed.append((changed[place][0], random.choice(words.ODD_TEXTS)))
    elif action == 2:
        del changed[place]
    else:
        changed[place] = (changed[place][0], random.choice(words.ODD_TEXTS))
    return changed
