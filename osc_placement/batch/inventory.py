# SPDX-License-Identifier: Apache-2.0
"""Edits of inventories: allocation ratios, any other fields, and whole classes that go.

Pure. A provider that lacks a resource class is left as it is; a class that no provider has is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from osc_placement.api.names import suggest
from osc_placement.batch.facets import Facet, ProviderState
from osc_placement.batch.plan import Decision, EditRefused, JournalledEdit
from osc_placement.errors import UsageError
from osc_placement.model import Inventory, Percent, is_same_ratio, settle_shares
from osc_placement.syntax import parse_inventory_value


@dataclass(frozen=True, slots=True)
class RatioEdit(JournalledEdit):
    """Set the allocation ratio of some resource classes; all else in the inventories stays."""

    ratios: Mapping[str, float]
    kind: ClassVar[str] = "ratio"
    facets: ClassVar[tuple[Facet, ...]] = ("inventories",)

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        return "ratio set " + " ".join(f"{name}={ratio}" for name, ratio in self.ratios.items())

    def check(self, states: Sequence[ProviderState]) -> None:
        """Raise EditRefused if no provider has inventory of one of the classes."""
        _require_classes(self.ratios, states, "there is no ratio to set")

    def decide(self, state: ProviderState) -> Decision:
        """Say which inventories the provider shall have."""
        current = state.inventories or {}
        after = dict(current)
        for name, ratio in self.ratios.items():
            if name in after and not is_same_ratio(after[name].allocation_ratio, ratio):
                after[name] = replace(after[name], allocation_ratio=ratio)
        missing = [name for name in self.ratios if name not in current]
        already = "has the ratio already" if len(missing) < len(self.ratios) else ""
        reason = _describe_missing(missing, already, changed=after != current)
        return Decision(replace(state, inventories=after), reason)

    def to_json(self) -> dict[str, Any]:
        """Return the ratios."""
        return {"ratios": dict(self.ratios)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RatioEdit:
        """Return the edit that sets these ratios."""
        return cls(document["ratios"])


@dataclass(frozen=True, slots=True)
class InventoryEdit(JournalledEdit):
    """Set fields of inventories; the other fields and classes stay, or go if ``replace_all``.

    A class that a provider lacks is added where its total is given. A share is one of each provider's own
    total, or of the total that is given.
    """

    fields: Mapping[str, Mapping[str, int | float | Percent]]
    replace_all: bool = False
    kind: ClassVar[str] = "inventory"
    facets: ClassVar[tuple[Facet, ...]] = ("inventories",)

    def __post_init__(self) -> None:
        bare = [name for name, fields in self.fields.items() if "total" not in fields]
        if self.replace_all and bare:
            raise UsageError(f"To replace inventories, the total of each is needed: {bare[0]}:total=<number>")

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        words = [
            f"{name}:{field}={value}"
            for name, fields in self.fields.items()
            for field, value in fields.items()
        ]
        return " ".join(["inventory set", *words, *(["--replace"] if self.replace_all else [])])

    def check(self, states: Sequence[ProviderState]) -> None:
        """Raise EditRefused if a class without a total is one that no provider has."""
        bare = [name for name, fields in self.fields.items() if "total" not in fields]
        _require_classes(bare, states, "its total must be given too")

    def decide(self, state: ProviderState) -> Decision:
        """Say which inventories the provider shall have."""
        current = state.inventories or {}
        after = {} if self.replace_all else dict(current)
        for name, fields in self.fields.items():
            if name in current and not self.replace_all:
                wanted = replace(current[name], **settle_shares(fields, current[name].total))
                after[name] = _keep_ratio(wanted, current[name])
            elif "total" in fields:
                wanted = Inventory.from_json(settle_shares(fields))
                after[name] = _keep_ratio(wanted, current.get(name))
        missing = [
            name for name, fields in self.fields.items() if name not in current and "total" not in fields
        ]
        already = "has these values already" if len(missing) < len(self.fields) else ""
        reason = _describe_missing(missing, already, changed=after != current)
        return Decision(replace(state, inventories=after), reason)

    def to_json(self) -> dict[str, Any]:
        """Return the fields, with shares as text, and whether they replace the others."""
        fields = {
            name: {field: str(value) if isinstance(value, Percent) else value for field, value in own.items()}
            for name, own in self.fields.items()
        }
        return {"fields": fields, "replace": self.replace_all}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> InventoryEdit:
        """Return the edit that sets these fields."""
        fields = {
            name: {
                field: parse_inventory_value(name, field, value) if isinstance(value, str) else value
                for field, value in own.items()
            }
            for name, own in document["fields"].items()
        }
        return cls(fields, document["replace"])


def _describe_missing(names: Iterable[str], already: str, *, changed: bool) -> str:
    """Return why classes are left out of a change, or why a provider stays as it is."""
    if changed:
        return "; ".join(f"{name} left out: no inventory of it" for name in names)
    return "; ".join(filter(None, (already, *(f"no inventory of {name}" for name in names))))


def _keep_ratio(wanted: Inventory, current: Inventory | None) -> Inventory:
    """Return the wanted inventory, with the current ratio if both are equal for the server."""
    if current is not None and is_same_ratio(wanted.allocation_ratio, current.allocation_ratio):
        return replace(wanted, allocation_ratio=current.allocation_ratio)
    return wanted


@dataclass(frozen=True, slots=True)
class InventoryDeletion(JournalledEdit):
    """Take inventories of some classes away; the others stay."""

    classes: tuple[str, ...]
    kind: ClassVar[str] = "inventory deletion"
    facets: ClassVar[tuple[Facet, ...]] = ("inventories",)

    @property
    def title(self) -> str:
        """Return the edit in the words of the command line."""
        return f"inventory delete {' '.join(self.classes)}"

    def decide(self, state: ProviderState) -> Decision:
        """Say which inventories the provider shall have."""
        current = state.inventories or {}
        after = {name: inventory for name, inventory in current.items() if name not in self.classes}
        return Decision(replace(state, inventories=after), "" if after != current else "has none of them")

    def to_json(self) -> dict[str, Any]:
        """Return the classes."""
        return {"classes": list(self.classes)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> InventoryDeletion:
        """Return the edit that deletes the inventories of these classes."""
        return cls(tuple(document["classes"]))


def _require_classes(names: Iterable[str], states: Sequence[ProviderState], so: str) -> None:
    present = {name for state in states for name in state.inventories or ()}
    missing = [name for name in names if name not in present]
    if missing and states:
        guess = suggest(missing, present)
        known = ", ".join(sorted(present)) or "none"
        # a host that is a tree may have its processors in its NUMA nodes
        below = "" if guess else "; what is below them, as NUMA nodes are, has to be selected itself"
        raise EditRefused(
            f"No selected resource provider has inventory of {', '.join(missing)}{guess}, so {so}; "
            f"the resource classes they have: {known}{below}"
        )
