# SPDX-License-Identifier: Apache-2.0
"""Request bodies as data, mostly such as the state of things and the microversion admit."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from tests.reliability.differential import vocabulary as words


def _some(random: Random, values: Any, least: int = 0) -> list[Any]:
    values = list(values)
    return random.sample(values, random.randint(min(least, len(values)), min(3, len(values))))


def new_provider(random: Random, world: Any, minor: int) -> dict[str, Any]:
    """POST /resource_providers."""
    free = [uuid for uuid in words.PROVIDERS if uuid not in world.providers] or list(words.PROVIDERS)
    uuid = random.choice(free)
    body = {"uuid": uuid, "name": f"host-{words.PROVIDERS.index(uuid) + 1}"}
    if random.random() < 0.05:
        body["name"] = random.choice(words.NAMES)
    if minor >= 14 and world.providers and random.random() < 0.55:
        body["parent_provider_uuid"] = random.choice(list(world.providers))
    return body


def changed_provider(random: Random, world: Any, minor: int) -> dict[str, Any]:
    """PUT /resource_providers/{uuid}."""
    body = {"name": random.choice((*words.NAMES, "renamed", "ünïcode"))}
    if minor >= 14 and random.random() < 0.6:
        body["parent_provider_uuid"] = random.choice((None, *world.providers))
    return body


def generation(random: Random, world: Any, path: str) -> dict[str, Any]:
    """The generation of the provider in the path, now and then a wrong one."""
    now = world.providers.get(path.split("/")[2], 0)
    return {"resource_provider_generation": now if random.random() < 0.93 else random.choice((0, now + 1))}


def inventory(random: Random) -> dict[str, Any]:
    """One inventory, often only its total."""
    fields: dict[str, Any] = {"total": random.choice((1, 2, 4, 8, 8, 16, 16, 1000))}
    optional = {
        "reserved": (0, 1, 2, 8, 16),
        "min_unit": (1, 1, 2, 4),
        "max_unit": (4, 8, 16, 2**31 - 1),
        "step_size": (1, 1, 2, 3),
        "allocation_ratio": (1, 1.0, 1.5, 0.5, 16.0, 0.1),
    }
    for name, values in optional.items():
        if random.random() < 0.2:
            fields[name] = random.choice(values)
    return fields


def _by_class(random: Random) -> dict[str, Any]:
    return {name: inventory(random) for name in _some(random, words.CLASSES)}


def inventories(random: Random, world: Any, path: str) -> dict[str, Any]:
    """PUT /resource_providers/{uuid}/inventories."""
    return {"inventories": _by_class(random), **generation(random, world, path)}


def aggregates(random: Random, world: Any, path: str, minor: int) -> Any:
    """PUT /resource_providers/{uuid}/aggregates."""
    chosen = _some(random, words.AGGREGATE_TEXTS)
    return chosen if minor < 19 else {"aggregates": chosen, **generation(random, world, path)}


def traits(random: Random, world: Any, path: str) -> dict[str, Any]:
    """PUT /resource_providers/{uuid}/traits."""
    return {"traits": _some(random, words.TRAITS), **generation(random, world, path)}


def _resources(random: Random) -> dict[str, int]:
    return {
        name: random.choice((1, 1, 2, 3, 4, 8))
        for name in random.sample(words.CLASSES[:5], random.randint(1, 2))
    }


def _amounts(random: Random, world: Any, *, least: int) -> dict[str, Any]:
    known = list(world.providers) or list(words.PROVIDERS)
    chosen = random.sample(known, random.randint(min(least, len(known)), min(2, len(known))))
    return {uuid: _resources(random) for uuid in chosen}


def claim(random: Random, world: Any, consumer: str, minor: int, *, many: bool = False) -> dict[str, Any]:
    """PUT /allocations/{consumer_uuid}; or a consumer's part of a body for several."""
    least = 0 if many or minor >= 28 else 1
    amounts = _amounts(random, world, least=least if random.random() < 0.3 else 1)
    if minor < 12 and not many:
        listed = [{"resource_provider": {"uuid": uuid}, "resources": item} for uuid, item in amounts.items()]
        body: dict[str, Any] = {"allocations": listed}
    else:
        body = {"allocations": {uuid: {"resources": item} for uuid, item in amounts.items()}}
    if minor >= 8:
        body |= {"project_id": random.choice(words.PROJECTS), "user_id": random.choice(words.USERS)}
    if minor >= 28:
        now = world.consumers.get(consumer)
        body["consumer_generation"] = now if random.random() < 0.93 else random.choice((None, 0, 1))
    if minor >= 34 and random.random() < 0.2:
        body["mappings"] = {"": list(amounts) or [words.STRANGER]}
    if minor >= 38:
        body["consumer_type"] = random.choice(words.CONSUMER_TYPES)
    return body


def claims(random: Random, world: Any, minor: int) -> dict[str, Any]:
    """POST /allocations."""
    consumers = random.sample(words.CONSUMERS, random.randint(1, 3))
    return {consumer: claim(random, world, consumer, minor, many=True) for consumer in consumers}


def reshape(random: Random, world: Any, minor: int) -> dict[str, Any]:
    """POST /reshaper."""
    known = list(world.providers) or list(words.PROVIDERS)
    chosen = random.sample(known, random.randint(1, min(2, len(known))))
    return {
        "inventories": {
            uuid: {"inventories": _by_class(random), **generation(random, world, f"/x/{uuid}")}
            for uuid in chosen
        },
        "allocations": claims(random, world, max(minor, 30)) if random.random() < 0.6 else {},
    }


def damage(random: Random, body: Any) -> Any:
    """The same with one thing replaced, taken away or added, somewhere in it."""
    whole = {"body": copy.deepcopy(body)}
    containers: list[Any] = []
    _collect(whole, containers)
    container = random.choice(containers)
    key = random.choice(list(container) if isinstance(container, dict) else range(len(container)))
    action = random.randrange(4)
    if action == 0 and container is not whole:
        del container[key]
    elif action == 1 and isinstance(container, dict) and container is not whole:
        container[random.choice(("x", "uuid", "extra", "VCPU", words.STRANGER))] = random.choice(
            words.ODD_VALUES
        )
    elif action == 2 and isinstance(container, dict) and container is not whole:
        container[random.choice(("x", "vcpu", "CUSTOM_", words.STRANGER, ""))] = container.pop(key)
    else:
        container[key] = copy.deepcopy(random.choice(words.ODD_VALUES))
    return whole["body"]


def _collect(value: Any, containers: list[Any]) -> None:
    if isinstance(value, dict | list) and value:
        containers.append(value)
        for item in value.values() if isinstance(value, dict) else value:
            _collect(item, containers)
