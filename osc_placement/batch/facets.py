# SPDX-License-Identifier: Apache-2.0
"""What the states of providers, consumers and custom names consist of: a class for each kind of facet.

Pure. The value of a facet consists of *cells*: what is set, kept, undone, compared and shown by itself, such
as a trait, a field of an inventory, or an amount that is allocated. States keep values and not cells, as
those of 10,000 providers share most of their names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from osc_placement.model import INVENTORY_FIELDS, Inventory, is_same_ratio

Facet = Literal["identity", "inventories", "traits", "aggregates", "allocations", "owner", "consumer_type"]
#: all facets of a provider, in the order in which they are written
FACETS: Final[tuple[Facet, ...]] = ("inventories", "traits", "aggregates")
#: those of anything that is changed, in the order in which they are written
ALL_FACETS: Final[tuple[Facet, ...]] = ("identity", *FACETS, "allocations", "owner", "consumer_type")
#: the identity of what does not exist, and the generation of such a provider
ABSENT: Final[frozenset[str]] = frozenset()
NO_GENERATION: Final = -1
#: by names: of a trait, of a class or of a class and a field, of a provider or consumer and a class
Cells = dict[tuple[str, ...], Any]
#: characters of a bad value that are shown
_LONGEST: Final = 60
_INVENTORY_TYPES: Final = {
    name: (int, float) if name == "allocation_ratio" else int for name in INVENTORY_FIELDS
}


def describe_identity(name: str, parent: str | None = None) -> frozenset[str]:
    """Return the identity of what has this name and, of a provider, this parent by UUID."""
    return frozenset((f"name={name}", *((f"parent={parent}",) if parent else ())))


def describe_owner(project_id: str, user_id: str) -> frozenset[str]:
    """Return the owner of a consumer."""
    return frozenset((f"project_id={project_id}", f"user_id={user_id}"))


def read_identity(identity: frozenset[str] | None) -> tuple[str | None, str | None]:
    """Return the name and the parent of an identity; None where it has none."""
    values = dict(text.split("=", 1) for text in identity or ())
    return values.get("name"), values.get("parent")


class WordFacet:
    """Words of which each is a cell: traits, aggregates. What the other kinds do otherwise, they override."""

    def split(self, *values: Any) -> list[Cells]:
        """Return the cells of some values, which are split alike; None has the cells of an empty value."""
        return [{(word,): True for word in value or ()} for value in values]

    def join(self, cells: Cells) -> Any:
        """Return the value of which these are the cells."""
        return frozenset(word for (word,) in cells)

    def is_same(self, one: Any, other: Any) -> bool:
        """Return whether two values are equal as far as every database keeps them."""
        if one == other:
            return True
        if one is None or other is None:
            return False
        first, second = self.split(one, other)
        return first.keys() == second.keys() and all(
            is_same_cell(cell, second[key]) for key, cell in first.items()
        )

    def describe(self, value: Any, other: Any, *, comes: bool = False) -> dict[str, str]:
        """Return by name the text of each cell beside another value; "" of one that has a name only.

        :param comes: whether what is not in the other value is new, rather than gone
        """
        return {name: text for name, _, text in (word.partition("=") for word in value or ())}

    def to_json(self, value: Any) -> Any:
        """Return a value as journals have it."""
        return sorted(value)

    def from_json(self, document: Any, what: Facet) -> Any:
        """Read what `to_json` returned; raise ValueError at anything else."""
        check_names(document, what)
        return frozenset(document)


class WholeFacet(WordFacet):
    """Words that are one cell, as half of one owner and half of another is nobody: owner, consumer type."""

    def split(self, *values: Any) -> list[Cells]:
        """Return one cell for each value."""
        return [{("whole",): value} for value in values]

    def join(self, cells: Cells) -> Any:
        """Return the value of the cell."""
        return cells["whole",]


class IdentityFacet(WholeFacet):
    """The name and the parent, as long as something exists."""

    def split(self, *values: Any) -> list[Cells]:
        """Return a cell for the name and one for the parent, unless something is created or deleted."""
        if not all(values):
            return super().split(*values)
        return [dict(zip((("name",), ("parent",)), read_identity(value), strict=True)) for value in values]

    def join(self, cells: Cells) -> Any:
        """Return the identity."""
        if ("parent",) not in cells:
            return super().join(cells)
        return describe_identity(cells["name",], cells["parent",])


class InventoryFacet(WordFacet):
    """Inventories by class: a cell for each field of one that stays, one for a class that comes or goes."""

    def split(self, *values: Any) -> list[Cells]:
        """Return a cell for each field of the classes that all values have, and one for each other class."""
        kept = frozenset.intersection(*(frozenset(value or ()) for value in values))
        return [
            {
                key: cell
                for name, inventory in (value or {}).items()
                for key, cell in (
                    {(name, field): getattr(inventory, field) for field in INVENTORY_FIELDS}
                    if name in kept
                    else {(name,): inventory}
                ).items()
            }
            for value in values
        ]

    def join(self, cells: Cells) -> Any:
        """Return the inventories."""
        whole = {key[0]: cell for key, cell in cells.items() if len(key) == 1}
        fields = _nest({key: cell for key, cell in cells.items() if len(key) == 2})
        return whole | {name: Inventory(**values) for name, values in fields.items()}

    def describe(self, value: Any, other: Any, *, comes: bool = False) -> dict[str, str]:
        """Return the fields of each class that stays, and the total of each that comes or goes."""
        texts: dict[str, str] = {}
        for name, inventory in (value or {}).items():
            if name in (other or {}):
                texts |= {f"{name}:{field}": str(getattr(inventory, field)) for field in INVENTORY_FIELDS}
            else:
                texts[f"{name}:total"] = _describe_new(inventory) if comes else str(inventory.total)
        return texts

    def to_json(self, value: Any) -> Any:
        """Return the inventories as the API has them."""
        return {name: inventory.to_json() for name, inventory in value.items()}

    def from_json(self, document: Any, what: Facet) -> Any:
        """Read inventories; raise ValueError at anything else."""
        check_types({what: document}, {what: dict})
        for inventory in document.values():
            check_types(inventory, _INVENTORY_TYPES)
        return {name: Inventory.from_json(inventory) for name, inventory in document.items()}


class AllocationFacet(WordFacet):
    """Amounts by class, by the other side of the claim: a cell for each amount."""

    def split(self, *values: Any) -> list[Cells]:
        """Return a cell for each amount."""
        return [
            {
                (holder, name): amount
                for holder, amounts in (value or {}).items()
                for name, amount in amounts.items()
            }
            for value in values
        ]

    def join(self, cells: Cells) -> Any:
        """Return the amounts."""
        return _nest(cells)

    def describe(self, value: Any, other: Any, *, comes: bool = False) -> dict[str, str]:
        """Return each amount."""
        (cells,) = self.split(value)
        return {":".join(key): str(amount) for key, amount in cells.items()}

    def to_json(self, value: Any) -> Any:
        """Return the amounts."""
        return {holder: dict(amounts) for holder, amounts in value.items()}

    def from_json(self, document: Any, what: Facet) -> Any:
        """Read amounts; raise ValueError at anything else."""
        check_types({what: document}, {what: dict})
        for holder, amounts in document.items():
            check_amounts(amounts, holder)
        return document


HANDLERS: Final[Mapping[Facet, WordFacet]] = {
    "identity": IdentityFacet(),
    "inventories": InventoryFacet(),
    "traits": WordFacet(),
    "aggregates": WordFacet(),
    "allocations": AllocationFacet(),
    "owner": WholeFacet(),
    "consumer_type": WholeFacet(),
}


def is_same_cell(one: Any, other: Any) -> bool:
    """Return whether two cells are equal to every database, of which some round ratios."""
    if isinstance(one, Inventory) and isinstance(other, Inventory):
        is_same = is_same_ratio(one.allocation_ratio, other.allocation_ratio)
        return is_same and replace(one, allocation_ratio=other.allocation_ratio) == other
    if one is None or other is None or float not in (type(one), type(other)):
        return bool(one == other)
    return is_same_ratio(one, other)


def _nest(cells: Cells) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for (first, second), cell in cells.items():
        nested.setdefault(first, {})[second] = cell
    return nested


def _describe_new(inventory: Inventory) -> str:
    """Return the total of an inventory, with the fields that have no default value.

    A ``max_unit`` of the total or more has the effect of the default.
    """
    default = Inventory(inventory.total, max_unit=max(inventory.max_unit, inventory.total))
    fields = [field for field in INVENTORY_FIELDS if getattr(inventory, field) != getattr(default, field)]
    return " ".join((str(inventory.total), *(f"{field}={getattr(inventory, field)}" for field in fields)))


@dataclass(frozen=True, slots=True)
class ProviderState:
    """The state of a provider or consumer; None means that a facet was not read.

    Of a consumer it is ``allocations``, amounts by class, by the UUID of the provider; and ``owner``, made by
    `describe_owner`. Of a provider, ``allocations`` has amounts by class, by the UUID of the consumer,
    and ``owner`` whose those consumers are that hold nothing yet (see `batch.writers.reshape`).

    ``identity`` is made by `describe_identity`, and ABSENT of what does not exist: a run may create, rename,
    move and delete providers, and create and delete custom names. ``consumer_type`` has the type of a
    consumer, and is empty if it has none.
    """

    inventories: Mapping[str, Inventory] | None = None
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None
    allocations: Mapping[str, Mapping[str, int]] | None = None
    owner: frozenset[str] | None = None
    consumer_type: frozenset[str] | None = None
    identity: frozenset[str] | None = None

    @property
    def known(self) -> dict[Facet, Any]:
        """Return by facet the values that were read, or are to be written."""
        return {facet: value for facet in ALL_FACETS if (value := getattr(self, facet)) is not None}

    def owned_by(self, project_id: str, user_id: str) -> ProviderState:
        """Return the state of a consumer with this owner."""
        return replace(self, owner=describe_owner(project_id, user_id))

    def to_json(self, facets: Iterable[Facet] = ALL_FACETS) -> dict[str, Any]:
        """Return those of some facets that are known."""
        return {
            facet: HANDLERS[facet].to_json(value) for facet, value in self.known.items() if facet in facets
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ProviderState:
        """Read what `to_json` returned; raise ValueError at anything else."""
        check_types(document, {})
        return cls(
            **{
                facet: HANDLERS[facet].from_json(document[facet], facet)
                for facet in HANDLERS
                if facet in document
            }
        )


def find_differing(one: ProviderState, other: ProviderState) -> tuple[Facet, ...]:
    """Return the facets in which two states differ."""
    return tuple(facet for facet in ALL_FACETS if getattr(one, facet) != getattr(other, facet))


def holds(now: ProviderState, wanted: ProviderState, facets: Iterable[Facet]) -> bool:
    """Return whether a state that was read is the one wanted, as far as every database keeps it."""
    return all(HANDLERS[facet].is_same(getattr(now, facet), getattr(wanted, facet)) for facet in facets)


def check_types(document: Any, types: Mapping[str, Any], *, optional: bool = False) -> None:
    """Raise ValueError unless a document has these members, and they are of these types.

    ``optional`` members may be missing or null. A truth value is no number.
    """
    if not isinstance(document, dict):
        raise ValueError(f"{show_value(document)} is where a JSON object belongs")
    for name, kind in types.items():
        value = document.get(name) if optional else document[name]
        if optional and value is None:
            continue
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{name} is {show_value(value)}")


def check_names(value: object, what: str) -> None:
    """Raise ValueError unless a value is a list of names."""
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise ValueError(f"{what} is {show_value(value)}, and no list of names")


def check_amounts(value: object, what: str, types: tuple[type, ...] = (int,)) -> None:
    """Raise ValueError unless a value has numbers by name."""
    check_types({what: value}, {what: dict})
    assert isinstance(value, dict)
    check_types(value, dict.fromkeys(value, types))


def show_value(value: object) -> str:
    """Return a value of a document, cut if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
