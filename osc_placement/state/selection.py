# SPDX-License-Identifier: Apache-2.0
"""The selection of the trees that a state file is about. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from osc_placement.errors import PlacementError
from osc_placement.model import Provider
from osc_placement.state.document import Document, find_places


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on trees: names of the root (any pattern), and aggregates (any provider in any of them).

    If both are given, both must hold; if none is given, all trees are selected.
    """

    names: tuple[str, ...] = ()
    aggregates: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.names or self.aggregates)

    def has(self, root: str, *, is_member: bool) -> bool:
        """Return whether a tree is selected whose root has this name."""
        named = not self.names or any(fnmatchcase(root, pattern) for pattern in self.names)
        return named and (is_member or not self.aggregates)


class NoTreeSelected(PlacementError):
    """No tree meets the conditions; a pattern or a UUID is probably mistyped."""

    def __init__(self, selection: Selection, where: str) -> None:
        self.selection = selection
        named = f"a root named like {' or '.join(selection.names)}" if selection.names else ""
        member = f"a provider in aggregate {' or '.join(sorted(selection.aggregates))}"
        conditions = [text for text in (named, member if selection.aggregates else "") if text]
        super().__init__(
            f"No tree {where} has {' and '.join(conditions)}; see what there is with: openstack resource "
            "provider tree --brief"
        )


def select_providers(
    selection: Selection, providers: Iterable[Provider], members: Collection[str]
) -> list[Provider]:
    """Return the providers of the selected trees; ``members`` are the UUIDs of those in the aggregates."""
    providers = list(providers)
    names = {provider.uuid: provider.name for provider in providers}
    roots = {provider.root_provider_uuid for provider in providers if provider.uuid in members}
    return [
        provider
        for provider in providers
        if selection.has(
            names.get(provider.root_provider_uuid or "", provider.name),
            is_member=provider.root_provider_uuid in roots,
        )
    ]


def select_document(selection: Selection, document: Document, there: Collection[Provider] = ()) -> Document:
    """Return the part of a document about the selected trees, with the consumers that use nothing else.

    ``there`` are the providers of the trees that are selected by their state on the server. Their entries
    belong to the part too; otherwise a provider that the document takes out of the selection would count as
    not named.
    """
    if not selection:
        return document
    parents = {entry.name: entry.parent for entry in document.providers}
    roots = {name: root for name, (root, _) in find_places(parents).items()}
    members = {
        roots[entry.name]
        for entry in document.providers
        if selection.aggregates.intersection(entry.state.aggregates or ())
    }
    uuids, names = {provider.uuid for provider in there}, {provider.name for provider in there}
    selected = {
        roots[entry.name] for entry in document.providers if entry.name in names or entry.uuid in uuids
    }
    selected |= {root for root in roots.values() if selection.has(root, is_member=root in members)}
    providers = tuple(entry for entry in document.providers if roots[entry.name] in selected)
    kept = {entry.name for entry in providers}
    consumers = tuple(entry for entry in document.consumers if kept.issuperset(entry.resources))
    return replace(document, providers=providers, consumers=consumers)


def find_trees(part: Document, providers: Iterable[Provider], selected: Iterable[Provider]) -> list[Provider]:
    """Find further trees on the server whose root ``part`` names, and return their providers."""
    known = {provider.uuid for provider in selected}
    uuids = {entry.uuid for entry in part.providers}
    names = {entry.name for entry in part.providers if entry.uuid is None}
    providers = list(providers)
    roots = {
        provider.uuid
        for provider in providers
        if provider.root_provider_uuid == provider.uuid and (provider.uuid in uuids or provider.name in names)
    }
    return [
        provider
        for provider in providers
        if provider.root_provider_uuid in roots and provider.uuid not in known
    ]
