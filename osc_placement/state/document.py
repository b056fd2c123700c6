# SPDX-License-Identifier: Apache-2.0
"""The contents of a state file as values, and the rules for them: plain data to values and back.

Pure; only text.py knows YAML. A key of a provider that is absent leaves that part of the provider unchanged;
one that is present gives the whole of that part. Providers and consumers that the file does not name are left
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Final, TypeVar

from osc_placement.api.names import suggest, suggest_provider
from osc_placement.batch.plan import ProviderState
from osc_placement.model import CUSTOM_PREFIX, INVENTORY_FIELDS, Inventory, canonical_uuid, is_uuid
from osc_placement.state.node import InvalidDocument, Node, Path

#: the version of the file format
FORMAT: Final = 1
#: the prefix of top-level keys that are ignored; they hold the anchors to which other keys refer
SCRATCH_PREFIX: Final = "x-"

_SECTIONS: Final = ("version", "resource_classes", "traits", "providers", "allocations")
_PROVIDER_KEYS: Final = ("name", "uuid", "parent", "aggregates", "traits", "inventories")
_CONSUMER_KEYS: Final = ("consumer", "project", "user", "type", "resources")
_LONGEST_PROVIDER_NAME: Final = 200

Value = TypeVar("Value")
#: the name of each provider in the file, by its name and by its UUID
References = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """The target state of a provider; ``parent`` is a name in the file, None for a root, ... to keep it."""

    name: str
    uuid: str | None = None
    parent: str | EllipsisType | None = ...
    state: ProviderState = field(default_factory=ProviderState)


@dataclass(frozen=True, slots=True)
class ConsumerEntry:
    """The allocations that a consumer is to have: amounts by class, by the name of a provider in the file."""

    uuid: str
    project: str
    user: str
    resources: Mapping[str, Mapping[str, int]]
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A whole file; ``resource_classes`` and ``traits`` are the custom ones.

    ``sections`` are the sections that the file has, empty ones included.
    """

    resource_classes: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    providers: tuple[ProviderEntry, ...] = ()
    consumers: tuple[ConsumerEntry, ...] = ()
    sections: frozenset[str] = field(default=frozenset(), compare=False)


# plain data to values


def parse_document(data: object) -> Document:
    """Read and check plain data; raise InvalidDocument if it breaks a rule."""
    sections = {key: node for key, node in Node(data).entries().items() if not key.startswith(SCRATCH_PREFIX)}
    Node(dict.fromkeys(sections)).fields(_SECTIONS)
    _check_version(sections)
    providers = _parse_each(sections, "providers", _parse_provider)
    references = index_providers(providers)
    resource_classes = _parse_each(sections, "resource_classes", _parse_custom_name)
    traits = _parse_each(sections, "traits", _parse_custom_name)
    providers = tuple(
        replace(entry, parent=_resolve(entry.parent, references, ("providers", position, "parent")))
        if isinstance(entry.parent, str)
        else entry
        for position, entry in enumerate(providers)
    )
    _check_cycles(providers)
    document = Document(
        resource_classes=resource_classes,
        traits=traits,
        providers=providers,
        consumers=_parse_each(
            sections,
            "allocations",
            lambda node: _parse_consumer(node, lambda text, path: _resolve(text, references, path)),
        ),
        sections=frozenset(sections),
    )
    known_traits, known_classes = frozenset(traits), frozenset(resource_classes)
    for position, entry in enumerate(providers):
        above = ("providers", position)
        _check_custom(entry.state.traits, known_traits, (*above, "traits"))
        _check_custom(entry.state.inventories, known_classes, (*above, "inventories"))
    _check_once("allocations", "consumer", [entry.uuid for entry in document.consumers])
    inventories = {entry.name: entry.state.inventories for entry in providers}
    for position, consumer in enumerate(document.consumers):
        for provider, amounts in consumer.resources.items():
            missing = sorted(set(amounts) - set(inventories[provider] or amounts))
            if missing:
                place: Path = ("allocations", position, "resources", provider)
                raise InvalidDocument(place, f"the provider has no inventory of {missing[0]} in this file")
    return document


def _check_version(sections: Mapping[str, Node]) -> None:
    version = sections.get("version")
    if version and version.value != FORMAT:
        version.fail(f"must be {FORMAT}, not {version.value!r}")


def _parse_each(
    sections: Mapping[str, Node], section: str, parse: Callable[[Node], Value]
) -> tuple[Value, ...]:
    return tuple(parse(node) for node in sections[section].items()) if section in sections else ()


def _parse_custom_name(node: Node) -> str:
    name = node.name()
    if not name.startswith(CUSTOM_PREFIX):
        node.fail(f"must start with {CUSTOM_PREFIX}; the others are there already")
    return name


def _parse_provider(node: Node) -> ProviderEntry:
    fields = node.fields(_PROVIDER_KEYS, required=("name",))
    parent: str | EllipsisType | None = ...
    if "parent" in fields:
        parent = None if fields["parent"].value is None else fields["parent"].text()
    return ProviderEntry(
        name=fields["name"].text(longest=_LONGEST_PROVIDER_NAME),
        uuid=_parse_given(fields, "uuid", Node.uuid),
        parent=parent,
        state=ProviderState(
            inventories=_parse_given(
                fields,
                "inventories",
                lambda node: {name: _parse_inventory(each) for name, each in _by_name(node).items()},
            ),
            traits=_parse_given(fields, "traits", lambda items: _parse_set(items, Node.name)),
            aggregates=_parse_given(fields, "aggregates", lambda items: _parse_set(items, Node.uuid)),
        ),
    )


def _parse_given(fields: Mapping[str, Node], key: str, parse: Callable[[Node], Value]) -> Value | None:
    return parse(fields[key]) if key in fields else None


def _parse_set(node: Node, parse: Callable[[Node], str]) -> frozenset[str]:
    return frozenset(parse(item) for item in node.items())


def _by_name(node: Node) -> dict[str, Node]:
    return {Node(key, value.path).name(): value for key, value in node.entries().items()}


def _parse_inventory(node: Node) -> Inventory:
    fields = node.fields(INVENTORY_FIELDS, required=("total",))
    values: dict[str, Any] = {
        key: value.ratio() if key == "allocation_ratio" else value.amount(smallest=int(key != "reserved"))
        for key, value in fields.items()
    }
    inventory = Inventory(**values)
    if inventory.reserved > inventory.total:
        fields["reserved"].fail(f"must be at most the total, which is {inventory.total}")
    return inventory


def _parse_consumer(
    node: Node, resolve: Callable[[str, Path], str], *, may_be_empty: bool = False
) -> ConsumerEntry:
    fields = node.fields(_CONSUMER_KEYS, required=("consumer", "project", "user", "resources"))
    resources: dict[str, Mapping[str, int]] = {}
    for text, amounts in fields["resources"].entries().items():
        provider = resolve(text, amounts.path)
        if provider in resources:
            amounts.fail(f"the provider {provider!r} is there by its name and by its UUID")
        resources[provider] = {name: amount.amount(smallest=1) for name, amount in _by_name(amounts).items()}
        if not resources[provider]:
            amounts.fail("must name at least one resource class")
    if not (resources or may_be_empty):
        fields["resources"].fail("must name at least one provider")
    return ConsumerEntry(
        uuid=fields["consumer"].uuid(),
        project=fields["project"].text(),
        user=fields["user"].text(),
        type=_parse_given(fields, "type", Node.name),
        resources=resources,
    )


def parse_consumers(data: object) -> tuple[ConsumerEntry, ...]:
    """Read the ``allocations`` of a file that has nothing else; its providers need not be in it.

    A consumer whose ``resources`` are empty is to have none.
    """
    plain = {} if data is None else data
    sections = Node(plain).fields(("version", "allocations"), required=("allocations",))
    _check_version(sections)
    consumers = tuple(
        _parse_consumer(node, lambda text, _path: text, may_be_empty=True)
        for node in sections["allocations"].items()
    )
    if not consumers:
        sections["allocations"].fail("must have at least one consumer")
    _check_once("allocations", "consumer", [entry.uuid for entry in consumers])
    return consumers


# references from one part to another


def index_providers(providers: Sequence[ProviderEntry]) -> dict[str, str]:
    """Return the name of each provider by its UUID and by its name; raise InvalidDocument at a duplicate.

    Where the name of one provider is the UUID of another, the name wins.
    """
    _check_once("providers", "uuid", [entry.uuid for entry in providers])
    _check_once("providers", "name", [entry.name for entry in providers])
    by_uuid = {entry.uuid: entry.name for entry in providers if entry.uuid}
    return by_uuid | {entry.name: entry.name for entry in providers}


def _check_once(section: str, key: str, values: Iterable[str | None]) -> None:
    first: dict[str, int] = {}
    for position, value in enumerate(values):
        if value is not None and first.setdefault(value, position) != position:
            raise InvalidDocument(
                (section, position, key), f"{value!r} is already that of {section}[{first[value]}]"
            )


def _resolve(text: str, references: References, path: Path) -> str:
    name = references.get(text) or references.get(canonical_uuid(text))
    if name is None:
        guess = suggest_provider([text], {*references.values()})
        raise InvalidDocument(path, f"no provider in this file has the name or UUID {text!r}{guess}")
    return name


def _check_cycles(providers: Sequence[ProviderEntry]) -> None:
    parents = {entry.name: entry.parent for entry in providers}
    positions = {entry.name: position for position, entry in enumerate(providers)}
    #: providers from which the chain of parents is known to end at a root
    sound: set[str] = set()
    for entry in providers:
        above: dict[str, None] = {}
        name: str | EllipsisType | None = entry.name
        while isinstance(name, str) and name not in sound:
            if name in above:
                circle = list(above)[list(above).index(name) :]
                first = min(range(len(circle)), key=lambda place: positions[circle[place]])
                told = " in ".join(map(repr, [*circle[first:], *circle[: first + 1]]))
                path = ("providers", positions[circle[first]], "parent")
                raise InvalidDocument(path, f"the tree goes in a circle: {told}")
            above[name] = None
            name = parents[name]
        sound.update(above)


def _check_custom(names: Iterable[str] | None, listed: Set[str], path: Path) -> None:
    for name in sorted(names or ()):
        if name.startswith(CUSTOM_PREFIX) and name not in listed:
            section = "traits" if path[-1] == "traits" else "resource_classes"
            guess = suggest([name], listed)
            raise InvalidDocument(path, f"{name} is not listed under {section} at the top level{guess}")


# values to plain data


def iterate_plain(document: Document) -> tuple[dict[str, Any], dict[str, Iterator[dict[str, Any]]]]:
    """Return the plain data of a document in a fixed order; every provider has all keys.

    The first value holds the short sections, the second one yields the entries of each large section. Trees
    are sorted by the name of their root, parents before children; all else by names and UUIDs.
    """
    # a provider is referred to by its UUID if its name could be taken for one
    references = {
        entry.name: entry.uuid if entry.uuid and is_uuid(entry.name) else entry.name
        for entry in document.providers
    }
    names = {
        "version": FORMAT,
        "resource_classes": sorted(document.resource_classes),
        "traits": sorted(document.traits),
    }
    providers = (_provider_to_plain(entry, references) for entry in sort_into_trees(document.providers))
    consumers = (
        {
            "consumer": entry.uuid,
            "project": entry.project,
            "user": entry.user,
            **({} if entry.type is None else {"type": entry.type}),
            "resources": {
                references[name]: dict(sorted(amounts.items()))
                for name, amounts in sorted(entry.resources.items())
            },
        }
        for entry in sorted(document.consumers, key=lambda entry: entry.uuid)
    )
    return names, {"providers": providers, "allocations": consumers}


def _provider_to_plain(entry: ProviderEntry, references: References) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": entry.name}
    if entry.uuid is not None:
        plain["uuid"] = entry.uuid
    if entry.parent is not ...:
        plain["parent"] = None if entry.parent is None else references[entry.parent]
    for key in ("aggregates", "traits"):
        names = getattr(entry.state, key)
        if names is not None:
            plain[key] = sorted(names)
    if entry.state.inventories is not None:
        plain["inventories"] = {
            name: inventory.to_json() for name, inventory in sorted(entry.state.inventories.items())
        }
    return plain


def sort_into_trees(providers: Sequence[ProviderEntry]) -> list[ProviderEntry]:
    """Sort trees by the name of the root, with parents before children, and siblings by name."""
    entries = {entry.name: entry for entry in providers}
    children: dict[str | None, list[str]] = {}
    for entry in providers:
        parent = entry.parent if isinstance(entry.parent, str) else None
        children.setdefault(parent, []).append(entry.name)
        if parent is not None and parent not in entries:
            # the parent is not in the file and takes its place under its name
            children.setdefault(None, []).append(parent)
    waiting = sorted(set(children.get(None, ())), reverse=True)
    ordered = []
    while waiting:
        name = waiting.pop()
        if name in entries:
            ordered.append(entries[name])
        waiting += sorted(children.get(name, ()), reverse=True)
    return ordered


def find_places(parents: Mapping[str, str | EllipsisType | None]) -> dict[str, tuple[str, int]]:
    """Return the root of each provider and its depth below it, following ``parents``; in linear time."""
    places: dict[str, tuple[str, int]] = {}
    for start in parents:
        path, name = [], start
        while name not in places and isinstance(parent := parents.get(name), str):
            path.append(name)
            name = parent
        root, above = places.setdefault(name, (name, 0))
        places |= {each: (root, depth) for depth, each in enumerate(reversed(path), above + 1)}
    return places
