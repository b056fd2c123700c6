# SPDX-License-Identifier: Apache-2.0
"""The next request of a conversation, at random: mostly one that makes sense now, else one that does not.

Which request it is, is here; its body is made in `bodies`, its query in `queries`. A request is first made
whole and then, now and then, damaged in one place, so that what refuses it is that one thing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from osc_placement.server.shadow.exchange import Request
from tests.reliability.differential import bodies, queries
from tests.reliability.differential import vocabulary as words

#: how often a request is damaged
DAMAGE = 0.2
METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "FROB")
VERSIONS = ("1.40", "1.999", "2.0", "0.1", "latest", "1", "1.2.3", "x", "")


@dataclass
class World:
    """What exists now: generations, by UUID."""

    providers: Mapping[str, int] = field(default_factory=dict)
    consumers: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Draft:
    """A request that is being made, its body still data; at a microversion 1.``minor``."""

    minor: int
    method: str = "GET"
    path: str = "/"
    query: list[tuple[str, str]] = field(default_factory=list)
    body: Any = None


Maker = Callable[[Random, World, Draft], None]


def _provider_path(random: Random, world: World, *rest: str) -> str:
    known = list(world.providers)
    uuid = random.choice(known) if known and random.random() < 0.93 else random.choice(words.PROVIDERS)
    return "/".join(("/resource_providers", uuid, *rest))


def _create_provider(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "POST", "/resource_providers"
    draft.body = bodies.new_provider(random, world, draft.minor)


def _show_provider(random: Random, world: World, draft: Draft) -> None:
    rest = random.choice(((), ("inventories",), ("usages",), ("aggregates",), ("traits",), ("allocations",)))
    draft.path = _provider_path(random, world, *rest)


def _show_inventory(random: Random, world: World, draft: Draft) -> None:
    draft.path = _provider_path(random, world, "inventories", random.choice(words.CLASSES))


def _list_providers(random: Random, world: World, draft: Draft) -> None:
    draft.path, draft.query = "/resource_providers", queries.of_providers(random, draft.minor)


def _update_provider(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "PUT", _provider_path(random, world)
    draft.body = bodies.changed_provider(random, world, draft.minor)


def _delete_provider(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "DELETE", _provider_path(random, world)


def _set_inventories(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "PUT", _provider_path(random, world, "inventories")
    draft.body = bodies.inventories(random, world, draft.path)


def _add_inventory(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "POST", _provider_path(random, world, "inventories")
    draft.body = {"resource_class": random.choice(words.CLASSES), **bodies.inventory(random)}


def _update_inventory(random: Random, world: World, draft: Draft) -> None:
    draft.method = "PUT"
    draft.path = _provider_path(random, world, "inventories", random.choice(words.CLASSES))
    draft.body = bodies.inventory(random) | bodies.generation(random, world, draft.path)


def _delete_inventory(random: Random, world: World, draft: Draft) -> None:
    rest = random.choice(((), (random.choice(words.CLASSES),), (random.choice(words.CLASSES),)))
    draft.method, draft.path = "DELETE", _provider_path(random, world, "inventories", *rest)


def _set_aggregates(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "PUT", _provider_path(random, world, "aggregates")
    draft.body = bodies.aggregates(random, world, draft.path, draft.minor)


def _set_provider_traits(random: Random, world: World, draft: Draft) -> None:
    draft.path = _provider_path(random, world, "traits")
    draft.method = "DELETE" if random.random() < 0.1 else "PUT"
    if draft.method == "PUT":
        draft.body = bodies.traits(random, world, draft.path)


def _trait(random: Random, world: World, draft: Draft) -> None:
    draft.method = random.choice(("GET", "PUT", "PUT", "DELETE"))
    names = words.TRAITS if draft.method == "GET" else words.CUSTOM_TRAITS
    draft.path = f"/traits/{random.choice(names)}"


def _list_traits(random: Random, world: World, draft: Draft) -> None:
    draft.path, draft.query = "/traits", queries.of_traits(random)


def _resource_class(random: Random, world: World, draft: Draft) -> None:
    draft.method = random.choice(("GET", "PUT", "PUT", "POST", "DELETE"))
    name = random.choice(words.CUSTOM_CLASSES)
    draft.path = "/resource_classes" if draft.method == "POST" else f"/resource_classes/{name}"
    if draft.method == "POST" or (draft.method == "PUT" and draft.minor < 7):
        draft.body = {"name": random.choice(words.CUSTOM_CLASSES)}


def _list_resource_classes(random: Random, world: World, draft: Draft) -> None:
    draft.path = "/resource_classes"


def _claim(random: Random, world: World, draft: Draft) -> None:
    draft.method, consumer = "PUT", random.choice(words.CONSUMERS)
    draft.path = f"/allocations/{consumer}"
    draft.body = bodies.claim(random, world, consumer, draft.minor)


def _claims(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "POST", "/allocations"
    draft.body = bodies.claims(random, world, draft.minor)


def _consumer(random: Random, world: World, draft: Draft) -> None:
    draft.method = random.choice(("GET", "GET", "DELETE"))
    draft.path = f"/allocations/{random.choice(words.CONSUMERS)}"


def _reshape(random: Random, world: World, draft: Draft) -> None:
    draft.method, draft.path = "POST", "/reshaper"
    draft.body = bodies.reshape(random, world, draft.minor)


def _usages(random: Random, world: World, draft: Draft) -> None:
    draft.path, draft.query = "/usages", queries.of_usages(random, draft.minor)


def _candidates(random: Random, world: World, draft: Draft) -> None:
    draft.path = "/allocation_candidates"
    draft.query = queries.of_candidates(random, world, draft.minor)


def _elsewhere(random: Random, world: World, draft: Draft) -> None:
    odd = (
        "/",
        "",
        "/nothing",
        "/resource_providers/",
        "//",
        "/traits/",
        "/resource_classes/VCPU/x",
        "/usages/x",
    )
    draft.path = random.choice(odd)


#: what requests are about, and how often
MAKERS: Mapping[Maker, int] = {
    _create_provider: 8,
    _show_provider: 9,
    _show_inventory: 3,
    _list_providers: 9,
    _update_provider: 4,
    _delete_provider: 2,
    _set_inventories: 9,
    _add_inventory: 4,
    _update_inventory: 4,
    _delete_inventory: 2,
    _set_aggregates: 6,
    _set_provider_traits: 7,
    _trait: 4,
    _list_traits: 2,
    _resource_class: 4,
    _list_resource_classes: 1,
    _claim: 9,
    _claims: 5,
    _consumer: 4,
    _reshape: 5,
    _usages: 4,
    _candidates: 14,
    _elsewhere: 1,
}
#: what a conversation begins with, to have something to talk about
OPENING: tuple[Maker, ...] = (
    _create_provider,
    _create_provider,
    _set_inventories,
    _set_provider_traits,
    _set_aggregates,
    _trait,
    _resource_class,
)


def request(random: Random, world: World, *, opening: bool) -> Request:
    """One request, chosen by what exists."""
    minor = 39 if opening or random.random() < 0.4 else random.randrange(40)
    draft = Draft(minor)
    maker = random.choice(OPENING) if opening else random.choices(*_weighted())[0]
    maker(random, world, draft)
    damaged = not opening and random.random() < DAMAGE
    damage = random.choice(_DAMAGES) if damaged else None
    if damage in _DRAFT_DAMAGES:
        damage(random, draft)
    finished = finish(draft)
    return damage(random, finished) if damage in _REQUEST_DAMAGES else finished


def _weighted() -> tuple[list[Maker], list[int]]:
    return list(MAKERS), list(MAKERS.values())


def finish(draft: Draft) -> Request:
    """The draft as it is sent, by somebody who may do everything."""
    headers = {
        "x-auth-token": "admin",
        # what moves inventory is for services alone
        "x-roles": "admin,service",
        "openstack-api-version": f"placement 1.{draft.minor}",
    }
    body = b""
    if draft.body is not None:
        body = json.dumps(draft.body).encode()
        headers["content-type"] = "application/json"
    query = "&".join(f"{key}={value}" if value is not None else key for key, value in draft.query)
    return Request(draft.method, draft.path, query, headers, body)


def _damage_body(random: Random, draft: Draft) -> None:
    if draft.body is not None:
        draft.body = bodies.damage(random, draft.body)


def _damage_query(random: Random, draft: Draft) -> None:
    draft.query = queries.damage(random, draft.query)


def _damage_path(random: Random, request: Request) -> Request:
    parts = request.path.split("/")
    place = random.randrange(len(parts))
    odd = (words.STRANGER, "x", "", "%C3%A9", "VCPU", "CUSTOM_FAST", "CUSTOM_GOLD", "a" * 300)
    parts[place] = random.choice(odd)
    path = "/".join(parts)
    return replace(request, path=path if path.startswith("/") else f"/{path}")


def _damage_method(random: Random, request: Request) -> Request:
    return replace(request, method=random.choice(METHODS))


def _damage_text(random: Random, request: Request) -> Request:
    """Make the body something that is no JSON, or none at all."""
    text = request.body
    broken = (
        b"",
        b"{",
        text[: len(text) // 2],
        text + b"x",
        b"\xff",
        b'"',
        b"null",
        b"[]",
        b"{}",
        b"1",
        b" ",
    )
    headers = {"content-type": "application/json", **request.headers}
    return replace(request, body=random.choice(broken), headers=headers)


def _damage_header(random: Random, request: Request) -> Request:
    name, values = random.choice(
        (
            (
                "content-type",
                ("text/plain", "application/json; charset=utf-8", "application/xml", "", "json"),
            ),
            ("accept", ("text/html", "text/plain", "*/*", "application/json", "application/xml;q=0.5", "x")),
            ("x-auth-token", ("user", "user:project-1", "admin:project-1", "")),
            ("openstack-api-version", tuple(f"placement {version}" for version in VERSIONS)),
            ("openstack-api-version", ("compute 2.1", "placement", "1.10", "compute 2.1, placement 1.20")),
            ("x-roles", ("reader", "service", "member,reader", "admin")),
            ("content-length", ("0", "x", "-1")),
        )
    )
    return replace(request, headers={**request.headers, name: random.choice(values)})


def _drop_header(random: Random, request: Request) -> Request:
    dropped = random.choice(list(request.headers))
    kept = {name: value for name, value in request.headers.items() if name != dropped}
    return replace(request, headers=kept)


_DRAFT_DAMAGES = (_damage_body, _damage_query)
_REQUEST_DAMAGES = (_damage_path, _damage_method, _damage_text, _damage_header, _drop_header)
_DAMAGES: tuple[Any, ...] = (_damage_body,) * 8 + (_damage_query,) * 6 + _REQUEST_DAMAGES
