# SPDX-License-Identifier: Apache-2.0
"""Changes and edits as JSON and back: what journals and saved plans are made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from osc_placement.batch.inventory import InventoryDeletion, InventoryEdit, RatioEdit
from osc_placement.batch.membership import AggregateEdit, TraitEdit
from osc_placement.batch.plan import (
    ALL_FACETS,
    Change,
    Consumer,
    Decision,
    Edit,
    Facet,
    ProviderState,
    Subject,
)
from osc_placement.batch.repeat import Repeat
from osc_placement.batch.takeback import WayBack
from osc_placement.model import Inventory, Provider

Document = dict[str, Any]


def facet_to_json(state: ProviderState, facet: Facet) -> Any:
    """One facet of a state as the API has it; names in alphabetical order."""
    value = getattr(state, facet)
    if value is None:
        return None
    if facet == "inventories":
        return {name: inventory.to_json() for name, inventory in value.items()}
    if facet == "allocations":
        return {provider: dict(amounts) for provider, amounts in value.items()}
    return sorted(value)


def state_to_json(state: ProviderState) -> Document:
    """The facets that are known."""
    return {facet: facet_to_json(state, facet) for facet in ALL_FACETS if getattr(state, facet) is not None}


def state_from_json(document: Document) -> ProviderState:
    """What `state_to_json` wrote."""
    values = {facet: document[facet] for facet in ALL_FACETS if facet in document}
    if "inventories" in values:
        inventories = values["inventories"].items()
        values["inventories"] = {name: Inventory.from_json(entry) for name, entry in inventories}
    for facet in ("traits", "aggregates", "owner"):
        if facet in values:
            values[facet] = frozenset(values[facet])
    return ProviderState(**values)


def change_to_json(change: Change) -> Document:
    """A change whole: whom it is about, before-image, after-image and reason."""
    kind = "consumer" if isinstance(change.subject, Consumer) else "provider"
    subject = {name: value for name, value in asdict(change.subject).items() if value is not None}
    return {
        kind: subject,
        "before": state_to_json(change.before),
        "after": state_to_json(change.after),
        "reason": change.reason,
    }


def change_from_json(document: Document) -> Change:
    """What `change_to_json` wrote."""
    subject: Subject
    if "consumer" in document:
        subject = Consumer(**_known(Consumer, document["consumer"]))
    else:
        subject = Provider(**_known(Provider, document["provider"]))
    return Change(
        subject,
        state_from_json(document["before"]),
        state_from_json(document["after"]),
        document.get("reason", ""),
    )


def _known(kind: type, document: Document) -> Document:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


class Recorded:
    """An edit of which only the words are known; its steps are planned by what they changed."""

    def __init__(self, title: str, facets: tuple[Facet, ...]) -> None:
        self.title = title
        self.facets = facets

    def check(self, states: object) -> None:
        """It was checked when it was planned."""

    def decide(self, state: ProviderState) -> Decision:
        """Nothing: each step has its own edit."""
        return Decision(state)

    def edit_of(self, step: Change) -> Edit:
        """What a step changed, as an edit."""
        return Repeat.of(step, self.title)


class Undoing(Recorded):
    """The undo of a run, with ``force`` or without: each step has a way back of its own."""

    def __init__(self, title: str, facets: tuple[Facet, ...], *, force: bool) -> None:
        super().__init__(title, facets)
        self.force = force

    def edit_of(self, step: Change) -> Edit:
        """The way back of a step."""
        return WayBack(self.title, step, self.force)


def edits_of(edit: Edit, steps: tuple[Change, ...]) -> Mapping[str, Edit]:
    """The edits by UUID of the steps of a plan whose edit is known in words only."""
    if not isinstance(edit, Recorded):
        return {}
    return {step.uuid: edit.edit_of(step) for step in steps}


def edit_to_json(edit: Edit) -> Document:
    """An edit with all it needs to plan again, as far as its kind is known here; else its words."""
    for kind, (of_type, write, _read) in _EDITS.items():
        if isinstance(edit, of_type):
            return {"kind": kind, "title": edit.title, **write(edit)}
    return {"kind": "recorded", "title": edit.title, "facets": list(edit.facets)}


def edit_from_json(document: Document) -> Edit:
    """What `edit_to_json` wrote."""
    if document["kind"] in _EDITS:
        edit: Edit = _EDITS[document["kind"]][2](document)
        return edit
    return Recorded(document["title"], tuple(document["facets"]))


_EDITS: Final[Mapping[str, tuple[type, Callable[[Any], Document], Callable[[Document], Any]]]] = {
    "ratio": (
        RatioEdit,
        lambda edit: {"ratios": dict(edit.ratios)},
        lambda document: RatioEdit(document["ratios"]),
    ),
    "inventory": (
        InventoryEdit,
        lambda edit: {
            "fields": {name: dict(fields) for name, fields in edit.fields.items()},
            "replace": edit.replace_all,
        },
        lambda document: InventoryEdit(document["fields"], document["replace"]),
    ),
    "inventory deletion": (
        InventoryDeletion,
        lambda edit: {"classes": list(edit.classes)},
        lambda document: InventoryDeletion(tuple(document["classes"])),
    ),
    "aggregate": (
        AggregateEdit,
        lambda edit: {"verb": edit.verb, "aggregates": sorted(edit.aggregates)},
        lambda document: AggregateEdit(document["verb"], frozenset(document["aggregates"])),
    ),
    "undo": (
        Undoing,
        lambda edit: {"facets": list(edit.facets), "force": edit.force},
        lambda document: Undoing(document["title"], tuple(document["facets"]), force=document["force"]),
    ),
    "trait": (
        TraitEdit,
        lambda edit: {"verb": edit.verb, "names": sorted(edit.names)},
        lambda document: TraitEdit(document["verb"], frozenset(document["names"])),
    ),
}
