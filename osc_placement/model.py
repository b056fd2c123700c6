# SPDX-License-Identifier: Apache-2.0
"""The objects of placement as values, and the arithmetic of capacity.

Client and server both compute capacity with these functions, so a plan shown to an operator and the server's
decision follow one rule. This module imports nothing else of the project.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

#: the largest amount, in any unit, that the API accepts and the schema's integer columns hold
MAX_AMOUNT: Final = 0x7FFFFFFF
#: the largest single-precision float that MariaDB stores; the API refuses a greater allocation ratio
MAX_RATIO: Final = 3.40282e38

INVENTORY_FIELDS: Final = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")

CUSTOM_PREFIX: Final = "CUSTOM_"
#: traits of nova-compute: of every provider that it reports, and of devices that one instance may use once
OWNER_NOVA: Final = "OWNER_NOVA"
ONE_TIME_USE: Final = "HW_PCI_ONE_TIME_USE"

#: the API's name for the type of a consumer that has none, in answers and in queries
UNKNOWN_TYPE: Final = "unknown"
#: the types of nova's consumers; none is that of those made before there were types
NOVA_TYPES: Final = frozenset(("INSTANCE", "MIGRATION", UNKNOWN_TYPE))

#: the parts of a provider that are read by requests of their own
Part = Literal["inventories", "usages", "traits", "aggregates"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


_UUID_DIGITS = re.compile(r"([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})")


def _match_uuid(text: str) -> re.Match[str] | None:
    # not uuid.UUID, which takes every number of 32 characters that int() reads: with blanks, signs, "0x", "_"
    # or digits of other scripts; openstack-placement takes none of them
    plain = text.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return _UUID_DIGITS.fullmatch(plain.lower())


def is_uuid(text: str) -> bool:
    """Return whether the API accepts this as a UUID: with or without dashes, braces, ``urn:uuid:``."""
    return _match_uuid(text) is not None


def canonical_uuid(text: str) -> str:
    """Return the UUID in lower case and with dashes, as UUIDs are compared; return other text as it is."""
    match = _match_uuid(text)
    return text if match is None else "-".join(match.groups())


#: greater than any capacity
_WITHOUT_END: Final = 2**1024


def check_text(text: str) -> None:
    """Raise ValueError if text cannot be stored and sent, because it has a NUL or half a surrogate pair."""
    if "\0" in text:
        raise ValueError("text must not contain the character NUL")
    text.encode()


#: MariaDB keeps six digits of a ratio, so a ratio that was set may be read back this much off
_RATIO_PRECISION: Final = 5e-6


@dataclass(frozen=True, slots=True)
class Percent:
    """A share of the total of an inventory; ``number`` is a decimal number, such as ``12.5``."""

    number: str

    def __str__(self) -> str:
        return f"{self.number}%"

    def of(self, total: int) -> int:
        """Return this share of a total, rounded up to a whole number."""
        whole, _, decimals = self.number.partition(".")
        parts: int = 100 * 10 ** len(decimals)
        return -(-total * int(whole + decimals) // parts)


def settle_shares(fields: Mapping[str, Any], total: int = 0) -> dict[str, Any]:
    """Return fields of an inventory with the amount in place of each `Percent`.

    :param total: the one that counts if the fields have none
    """
    total = fields.get("total", total)
    return {name: value.of(total) if isinstance(value, Percent) else value for name, value in fields.items()}


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of one class of a provider; field names, units and defaults are the API's."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_AMOUNT
    step_size: int = 1
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> int:
        """Return the capacity: ``(total - reserved) * allocation_ratio``, rounded down.

        Where the ratio makes it infinite, return a number that is greater, or less, than any amount.
        """
        product = (self.total - self.reserved) * self.allocation_ratio
        try:
            return int(product)
        except OverflowError:
            return _WITHOUT_END if product > 0 else -_WITHOUT_END

    def fits_unit(self, amount: int) -> bool:
        """Return whether ``min_unit``, ``max_unit`` and ``step_size`` admit one allocation of this amount."""
        return self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0

    def has_room(self, amount: int, used: int) -> bool:
        """Return whether ``amount`` more fits beside ``used``, by the product before it is rounded."""
        return used + amount <= (self.total - self.reserved) * self.allocation_ratio

    def how_many(self, amount: int, used: int) -> int:
        """Return how many more allocations of this amount fit, one after the other, beside ``used``."""
        return max(0, self.capacity - used) // amount if self.fits_unit(amount) else 0

    def to_json(self) -> dict[str, Any]:
        """Return the API's representation: every field, in the API's order."""
        return {field: getattr(self, field) for field in INVENTORY_FIELDS}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Inventory:
        """Make an inventory from the API's representation; an absent field gets its default."""
        return cls(**{field: data[field] for field in INVENTORY_FIELDS if field in data})


def is_same_ratio(one: float, other: float) -> bool:
    """Return whether two ratios are equal as far as every database keeps them."""
    return math.isclose(one, other, rel_tol=_RATIO_PRECISION)


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider as the API shows it; parent and root are None below microversion 1.14."""

    uuid: str
    name: str
    generation: int
    parent_provider_uuid: str | None = None
    root_provider_uuid: str | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Provider:
        """Make a provider from the API's representation."""
        return cls(
            data["uuid"],
            data["name"],
            data["generation"],
            data.get("parent_provider_uuid"),
            data.get("root_provider_uuid"),
        )


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """A provider with the parts that were read; a part is None if it was not read.

    :ivar usages: what is allocated, of each class that the provider has an inventory of
    """

    provider: Provider
    inventories: dict[str, Inventory] | None = None
    usages: dict[str, int] | None = None
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None
