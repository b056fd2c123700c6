# SPDX-License-Identifier: Apache-2.0
"""Parsers of command-line arguments: ``VCPU:total=8``, ``rp=<uuid>,VCPU=1``, traits.

Pure: no server is asked, so a mistake is found before the first request. The values of the API's query
parameters that use the same syntax (``in:``, ``!``) are written here too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import MAX_AMOUNT, MAX_RATIO, Percent, canonical_uuid, is_uuid

#: the fields of an inventory in the order in which commands show them, and the type of each
INVENTORY_FIELDS: Mapping[str, type[int] | type[float]] = {
    "allocation_ratio": float,
    "min_unit": int,
    "max_unit": int,
    "reserved": int,
    "step_size": int,
    "total": int,
}

#: inventory fields by resource class, then by field name
Inventories = dict[str, dict[str, int | float | Percent]]
#: amounts by provider, then by resource class
Allocations = dict[str, dict[str, int]]

#: the names of traits and resource classes
NAME = re.compile(r"[A-Z0-9_]{1,255}", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
#: a number with a unit or a per cent sign
_QUANTITY = re.compile(r"\s*([0-9]{1,19})(?:\.([0-9]{1,19}))?\s*(%|[A-Za-z]+)\s*", re.ASCII)
#: the units of memory and disk as powers of 1024: nova and placement call a mebibyte MB and a gibibyte GB
_POWERS: Mapping[str, int] = {
    f"{prefix}{ending}": power for power, prefix in enumerate("MGTP", 2) for ending in ("B", "iB")
}


def names_provider(text: str, uuid: str, name: str) -> bool:
    """Return whether a text is the UUID of a provider, in any spelling, or its name.

    A text that looks like a UUID is never taken for a name: a provider whose name looks like a UUID has to be
    given by its own UUID.
    """
    return canonical_uuid(text) == uuid if is_uuid(text) else text == name


class UnknownField(UsageError):
    """No inventory has such a field; the message is that of the reference plugin."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(f"Unknown inventory field {field}")


def parse_inventories(texts: Iterable[str]) -> Inventories:
    """Read ``CLASS=total`` and ``CLASS:field=value``, in order; a later value of the same field wins."""
    inventories: Inventories = {}
    for text in texts:
        parts = text.split("=")
        if len(parts) != 2:
            raise UsageError('Resource argument must have "name=value" format')
        names = parts[0].split(":")
        if len(names) > 2:
            raise UsageError("Resource argument can contain only one colon")
        resource_class, field = names if len(names) == 2 else (names[0], "total")
        if not (resource_class and field and parts[1]):
            raise UsageError("Name, field and value must be not empty")
        if field not in INVENTORY_FIELDS:
            raise UnknownField(field)
        value = parse_inventory_value(resource_class, field, parts[1])
        inventories.setdefault(resource_class, {})[field] = value
    return inventories


def parse_inventory_value(resource_class: str, field: str, text: str) -> int | float | Percent:
    """Read the value of a field of an inventory: a number, an amount with a unit, or ``10%`` reserved."""
    what = f"{field} of {resource_class}"
    if INVENTORY_FIELDS[field] is float:
        return parse_ratio(text, what)
    quantity = _QUANTITY.fullmatch(text)
    if quantity is None or quantity[3] != "%":
        return parse_amount(resource_class, text, what, may_be_share=field == "reserved")
    if field != "reserved":
        raise UsageError(f"{what} must be a number, not {text!r}: only reserved is a share of the total")
    share = Percent(f"{quantity[1]}.{quantity[2]}" if quantity[2] else quantity[1])
    if share.of(MAX_AMOUNT) > MAX_AMOUNT:
        raise UsageError(f"{what} must be from 0% to 100%, not {text!r}")
    return share


def parse_amount(resource_class: str, text: str, what: str = "", *, may_be_share: bool = False) -> int:
    """Read an amount of a class: a number, or ``16GB`` of memory or disk.

    A class whose name ends in ``_MB`` or ``_GB`` is counted in mebibytes or gibibytes.

    :param what: names the amount in the error; by default it is the amount of the class
    :param may_be_share: whether the value may be a percentage in place of an amount, for the error
    """
    what = what or f"Amount of {resource_class}"
    quantity = _QUANTITY.fullmatch(text)
    if quantity is None:
        return parse_whole_number(text, what)
    whole, decimals, unit = quantity[1], quantity[2] or "", quantity[3]
    own_unit = resource_class.rpartition("_")[2]
    if own_unit not in ("MB", "GB"):
        expected = f"a number{' or a percentage such as 10%' if may_be_share else ''}"
        raise UsageError(f"{what} must be {expected}, not {text!r}, as {resource_class} has no unit")
    if unit not in _POWERS:
        raise UsageError(f"{what} must have no unit or MB, GB, TB, PB, MiB, GiB, TiB or PiB, not {text!r}")
    denominator: int = 10 ** len(decimals) * 1024 ** _POWERS[own_unit]
    numerator: int = int(whole + decimals) * 1024 ** _POWERS[unit]
    amount, rest = divmod(numerator, denominator)
    if rest:
        raise UsageError(f"{what} must be a whole number of {own_unit}, unlike {text!r}")
    return amount


def parse_whole_number(text: str, what: str) -> int:
    """Read an integer; ``what`` names it in the error."""
    if _WHOLE_NUMBER.fullmatch(text) is None:
        raise UsageError(f"{what} must be a whole number, not {text!r}")
    return int(text)


def parse_ratio(text: str, what: str) -> float:
    """Read a number that is neither infinite nor NaN; ``what`` names it in the error."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{what} must be a number, not {text!r}")
    return value


def parse_ratios(texts: Iterable[str]) -> dict[str, float]:
    """Read ``CLASS=ratio``, each class once; an allocation ratio is greater than 0 and at most MAX_RATIO."""
    ratios: dict[str, float] = {}
    for text in texts:
        resource_class, separator, number = text.partition("=")
        if not (separator and NAME.fullmatch(resource_class) and number):
            hint = "" if separator else "; resource providers are selected by options, such as --name"
            if number and NAME.fullmatch(resource_class.upper()):
                hint = f"; the names of resource classes are in capitals: {text.upper()}"
            raise UsageError(f"An allocation ratio must be of the form VCPU=4.0, not {text!r}{hint}")
        ratio = parse_ratio(number, f"Allocation ratio of {resource_class}")
        if not 0 < ratio <= MAX_RATIO:
            raise UsageError(
                f"Allocation ratio of {resource_class} must be greater than 0 and at most {MAX_RATIO}, "
                f"not {number}"
            )
        if resource_class in ratios:
            raise UsageError(f"Allocation ratio of {resource_class} is given twice")
        ratios[resource_class] = ratio
    return ratios


def parse_traits(texts: Iterable[str]) -> frozenset[str]:
    """Read names of traits; the server is not asked whether it knows them."""
    names = frozenset(texts)
    for name in sorted(names):
        if not NAME.fullmatch(name):
            raise UsageError(
                f"The name of a trait has only upper-case letters, digits and underscores, unlike {name!r}"
            )
    return names


def parse_aggregates(texts: Iterable[str]) -> frozenset[str]:
    """Read UUIDs of aggregates and return them in canonical spelling."""
    for text in texts:
        if not is_uuid(text):
            raise UsageError(f"An aggregate must be given by its UUID, not {text!r}")
    return frozenset(canonical_uuid(text) for text in texts)


def check_consumers(*texts: str) -> None:
    """Raise UsageError unless each of the texts is a UUID."""
    for text in texts:
        if not is_uuid(text):
            raise UsageError(f"A consumer must be given by its UUID, not {text!r}")


def check_inventories(inventories: Inventories) -> Inventories:
    """Return the inventories; raise UsageError if a value is one that no server accepts for any provider."""
    for resource_class, fields in inventories.items():
        if not NAME.fullmatch(resource_class):
            raise UsageError(
                "The name of a resource class has only upper-case letters, digits and underscores, "
                f"unlike {resource_class!r}"
            )
        for field, value in fields.items():
            if isinstance(value, Percent):
                continue
            least = _LEAST.get(field, 1)
            if field == "allocation_ratio" and not 0 < value <= MAX_RATIO:
                raise UsageError(
                    f"{field} of {resource_class} must be greater than 0 and at most {MAX_RATIO}"
                )
            if field != "allocation_ratio" and not least <= value <= MAX_AMOUNT:
                raise UsageError(
                    f"{field} of {resource_class} must be from {least} to {MAX_AMOUNT}, not {value}"
                )
    return inventories


#: the smallest value of an inventory field, where that is not 1
_LEAST: Mapping[str, int] = {"reserved": 0}


def parse_amounts(texts: Iterable[str], *, once: bool = False) -> dict[str, int]:
    """Read ``CLASS=amount``, as a request for resources; a later amount of the same class wins.

    :param once: raise UsageError if a class is given twice
    """
    amounts: dict[str, int] = {}
    for text in texts:
        parts = text.split("=")
        if len(parts) != 2 or not all(parts):
            raise UsageError(
                f"Arguments to --resource must be of form <resource_class>=<value>, not {text!r}"
            )
        if once and parts[0] in amounts:
            raise UsageError(f"Amount of {parts[0]} is given twice")
        amounts[parts[0]] = parse_whole_number(parts[1], f"Amount of {parts[0]}")
    return amounts


def parse_allocations(texts: Iterable[str]) -> list[tuple[str, dict[str, int]]]:
    """Read ``rp=provider,CLASS=amount,...``: a pair of provider and amounts for each text."""
    parsed = []
    for text in texts:
        pairs = [part.split("=") for part in text.split(",")]
        if len(pairs) < 2 or any(len(pair) != 2 for pair in pairs):
            raise UsageError("Incorrect allocation string format")
        amounts = dict(pairs)
        if len(amounts) < len(pairs):
            raise UsageError(f"Allocation {text!r} names something twice")
        if "rp" not in amounts:
            raise UsageError("Resource provider parameter is required for allocation string")
        provider = amounts.pop("rp")
        parsed.append(
            (
                provider,
                {name: parse_whole_number(value, f"Amount of {name}") for name, value in amounts.items()},
            )
        )
    return parsed


def merge_allocations(pairs: Iterable[tuple[str, Mapping[str, int]]]) -> Allocations:
    """Gather amounts by provider; raise PlacementError at two different amounts for one class of one
    provider.
    """
    merged: Allocations = {}
    for provider, amounts in pairs:
        gathered = merged.setdefault(provider, {})
        for resource_class, amount in amounts.items():
            if gathered.setdefault(resource_class, amount) != amount:
                raise PlacementError(
                    f"Conflict detected for resource provider {provider} resource class {resource_class}"
                )
    return merged


def format_traits(required: Sequence[str], forbidden: Sequence[str]) -> list[str]:
    """Write trait conditions as values of the API's ``required``; ``A,B`` means any of the two."""
    any_of = [f"in:{traits}" for traits in required if "," in traits]
    one_by_one = [trait for trait in required if "," not in trait] + [f"!{trait}" for trait in forbidden]
    return [*any_of, ",".join(one_by_one)] if one_by_one else any_of


def format_member_of(member_of: Iterable[str], aggregates: Sequence[str] = ()) -> list[str]:
    """Write aggregate conditions as values of the API's ``member_of``.

    Each text of ``member_of`` is one condition (any aggregate of a comma-separated list); ``aggregates`` are
    together one.
    """
    conditions = [f"in:{text}" for text in member_of]
    return [*conditions, "in:" + ",".join(aggregates)] if aggregates else conditions
