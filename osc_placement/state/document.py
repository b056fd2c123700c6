# SPDX-License-Identifier: Apache-2.0
"""The contents of a state file as values, and the rules for them: plain data to values and back.

Pure; only text.py knows YAML. A key of a provider that is absent leaves that part of the provider unchanged;
one that is present gives the whole of that part. Providers and consumers that the file does not name are left
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import EllipsisType
from typing import Any, Final

from osc_placement.api.names import suggest, suggest_provider
from osc_placement.batch import Facet, ProviderState
from osc_placement.model import (
    CUSTOM_PREFIX,
    INVENTORY_FIELDS,
    MAX_AMOUNT,
    Inventory,
    canonical_uuid,
    is_uuid,
)
from osc_placement.state.node import MOST_MISTAKES, InvalidDocument, Node, format_path, read_field
from osc_placement.syntax import NAME

#: the version of the file format
FORMAT: Final = 1
#: the prefix of top-level keys that are ignored; they hold the anchors to which other keys refer
SCRATCH_PREFIX: Final = "x-"

_LISTS: Final = ("resource_classes", "traits", "providers", "allocations")
_SECTIONS: Final = ("version", *_LISTS)
_PROVIDER_KEYS: Final = ("name", "uuid", "parent", "aggregates", "traits", "inventories")
_CONSUMER_KEYS: Final = ("consumer", "project", "user", "type", "resources")
_LONGEST_PROVIDER_NAME: Final = 200

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
    """Read and check plain data; raise InvalidDocument, which has all mistakes, if it breaks a rule.

    Mistakes of the sections themselves are told alone, as many others would follow from them. What cannot be
    read gets a substitute, so that nothing that refers to it is taken for a mistake too.
    """
    root = Node(data)
    sections = root.attempt(_read_sections, dict[str, Node]())
    root.finish()
    document = _parse_sections(sections, root.mistakes)
    root.finish()
    return document


def _read_sections(root: Node) -> dict[str, Node]:
    sections = {key: node for key, node in root.entries().items() if not key.startswith(SCRATCH_PREFIX)}
    Node(dict.fromkeys(sections), mistakes=root.mistakes).fields(_SECTIONS)
    _check_version(sections)
    for section, node in sections.items():
        if section in _LISTS:
            node.attempt(Node.items, ())
    return sections


def _check_version(sections: Mapping[str, Node]) -> None:
    version = sections.get("version")
    if version and version.value != FORMAT:
        version.note(f"must be {FORMAT}, not {version.value!r}")


def _parse_sections(sections: Mapping[str, Node], mistakes: list[InvalidDocument]) -> Document:
    classes, traits, items, claims = (sections.get(section, Node([])) for section in _LISTS)
    resource_classes = tuple(classes.each(_parse_custom_name))
    custom_traits = tuple(traits.each(_parse_custom_name))
    providers = [
        item.attempt(_parse_provider, ProviderEntry(_name_unreadable(item))) for item in items.items()
    ]
    mistakes += _find_repeated("providers", "uuid", [entry.uuid for entry in providers])
    mistakes += _find_repeated("providers", "name", [entry.name for entry in providers])
    references = index_providers(providers)
    for position, entry in enumerate(providers):
        if isinstance(entry.parent, str):
            place = Node(None, ("providers", position, "parent"), mistakes)
            name = _resolve(references, entry.parent, place)
            providers[position] = replace(entry, parent=... if name is None else name)
    mistakes += _find_circles(providers)
    _note_unlisted(providers, "traits", "traits", custom_traits, mistakes)
    _note_unlisted(providers, "inventories", "resource_classes", resource_classes, mistakes)
    consumers = [
        item.attempt(partial(_parse_consumer, references=references), None) for item in claims.items()
    ]
    uuids = [consumer.uuid if consumer else None for consumer in consumers]
    mistakes += _find_repeated("allocations", "consumer", uuids)
    inventories = {entry.name: entry.state.inventories for entry in providers}
    for position, consumer in enumerate(consumers):
        for provider, amounts in (consumer.resources if consumer else {}).items():
            place = Node(None, ("allocations", position, "resources", provider), mistakes)
            for name in sorted(set(amounts) - set(inventories[provider] or amounts)):
                place.note(f"the provider has no inventory of {name} in this file")
    return Document(
        resource_classes=resource_classes,
        traits=custom_traits,
        providers=tuple(providers),
        consumers=tuple(consumer for consumer in consumers if consumer),
        sections=frozenset(sections),
    )


def _name_unreadable(item: Node) -> str:
    """Return a name for an entry that cannot be read: one to which others may refer, or that of no other."""
    name = item.value.get("name") if isinstance(item.value, dict) else item.value
    return name if isinstance(name, str) else format_path(item.path)


def _parse_custom_name(node: Node) -> str:
    name = node.name()
    if not name.startswith(CUSTOM_PREFIX):
        node.fail(f"must start with {CUSTOM_PREFIX}; the others are there already")
    return name


def _parse_provider(node: Node) -> ProviderEntry:
    fields = node.fields(_PROVIDER_KEYS, required=("name",))
    return ProviderEntry(
        name=read_field(
            fields, "name", partial(Node.text, longest=_LONGEST_PROVIDER_NAME), _name_unreadable(node)
        ),
        uuid=read_field(fields, "uuid", Node.uuid, None),
        parent=read_field(fields, "parent", lambda place: None if place.value is None else place.text(), ...),
        state=ProviderState(
            inventories=read_field(fields, "inventories", _parse_inventories, None),
            traits=read_field(fields, "traits", lambda items: frozenset(items.each(Node.name)), None),
            aggregates=read_field(fields, "aggregates", lambda items: frozenset(items.each(Node.uuid)), None),
        ),
    )


def _by_name(node: Node) -> dict[str, Node]:
    """Return the entries of a mapping whose keys are names; note the other keys."""
    entries = node.entries()
    for key in [key for key in entries if not NAME.fullmatch(key)]:
        Node(key, entries.pop(key).path, node.mistakes).attempt(Node.name, None)
    return entries


def _parse_inventories(node: Node) -> dict[str, Inventory]:
    # the amounts of an inventory that cannot be read are unknown, but the class is there
    return {name: each.attempt(_parse_inventory, Inventory(1)) for name, each in _by_name(node).items()}


def _parse_inventory(node: Node) -> Inventory:
    fields = node.fields(INVENTORY_FIELDS, required=("total",))
    values: dict[str, Any] = {}
    for key, field_ in fields.items():
        smallest = int(key != "reserved")
        read = Node.ratio if key == "allocation_ratio" else partial(Node.amount, smallest=smallest)
        if (value := field_.attempt(read, None)) is not None:
            values[key] = value
    inventory = Inventory(**{"total": MAX_AMOUNT, **values})
    if inventory.reserved > inventory.total:
        fields["reserved"].note(f"must be at most the total, which is {inventory.total}")
    return inventory


def _parse_consumer(node: Node, references: References) -> ConsumerEntry:
    fields = node.fields(_CONSUMER_KEYS, required=("consumer", "project", "user", "resources"))
    resources: dict[str, Mapping[str, int]] = {}
    given = read_field(fields, "resources", Node.entries, None)
    for text, amounts in (given or {}).items():
        provider = _resolve(references, text, amounts)
        if provider in resources:
            amounts.note(f"the provider {provider!r} is there by its name and by its UUID")
        elif provider is not None:
            resources[provider] = amounts.attempt(parse_amounts, {})
    if given == {}:
        fields["resources"].note("must name at least one provider")
    return ConsumerEntry(
        uuid=read_field(fields, "consumer", Node.uuid, format_path(node.path)),
        project=read_field(fields, "project", Node.text, ""),
        user=read_field(fields, "user", Node.text, ""),
        type=read_field(fields, "type", Node.name, None),
        resources=resources,
    )


def parse_amounts(node: Node) -> dict[str, int]:
    """Read amounts by resource class."""
    amounts = {
        name: each.attempt(partial(Node.amount, smallest=1), 1) for name, each in _by_name(node).items()
    }
    if not node.value:
        node.fail("must name at least one resource class")
    return amounts


# references from one part to another


def index_providers(providers: Sequence[ProviderEntry]) -> dict[str, str]:
    """Return the name of each provider by its UUID and by its name.

    Where the name of one provider is the UUID of another, the name wins.
    """
    by_uuid = {entry.uuid: entry.name for entry in providers if entry.uuid}
    return by_uuid | {entry.name: entry.name for entry in providers}


def _find_repeated(section: str, key: str, values: Iterable[str | None]) -> Iterator[InvalidDocument]:
    first: dict[str, int] = {}
    for position, value in enumerate(values):
        if value is not None and first.setdefault(value, position) != position:
            problem = f"{value!r} is already that of {section}[{first[value]}]"
            yield InvalidDocument((section, position, key), problem)


def _resolve(references: References, text: str, place: Node) -> str | None:
    """Return the name of the provider that a text refers to; note a mistake if there is none."""
    name = references.get(text) or references.get(canonical_uuid(text))
    if name is None:
        # PERF: not for those that are not told, of which there may be as many as providers
        is_told = len(place.mistakes) < MOST_MISTAKES
        guess = suggest_provider([text], {*references.values()}) if is_told else ""
        place.note(f"no provider in this file has the name or UUID {text!r}{guess}")
    return name


def _find_circles(providers: Sequence[ProviderEntry]) -> Iterator[InvalidDocument]:
    parents = {entry.name: entry.parent for entry in providers}
    positions = {entry.name: position for position, entry in enumerate(providers)}
    #: providers from which the chain of parents is known to end at a root, or in a circle that was found
    known: set[str] = set()
    for entry in providers:
        above: dict[str, None] = {}
        name: str | EllipsisType | None = entry.name
        while isinstance(name, str) and name not in known:
            if name in above:
                circle = list(above)[list(above).index(name) :]
                first = min(range(len(circle)), key=lambda place: positions[circle[place]])
                told = " in ".join(map(repr, [*circle[first:], *circle[: first + 1]]))
                path = ("providers", positions[circle[first]], "parent")
                yield InvalidDocument(path, f"the tree goes in a circle: {told}")
                break
            above[name] = None
            name = parents[name]
        known.update(above)


def _note_unlisted(
    providers: Iterable[ProviderEntry],
    facet: Facet,
    section: str,
    listed: Iterable[str],
    mistakes: list[InvalidDocument],
) -> None:
    """Note the custom names that providers have and a section does not list, each at the first provider."""
    known = set(listed)
    for position, entry in enumerate(providers):
        for name in sorted(getattr(entry.state, facet) or ()):
            if name.startswith(CUSTOM_PREFIX) and name not in known:
                guess = suggest([name], listed) if len(mistakes) < MOST_MISTAKES else ""
                problem = f"{name} is not listed under {section} at the top level{guess}"
                mistakes.append(InvalidDocument(("providers", position, facet), problem))
                known.add(name)


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
