# SPDX-License-Identifier: Apache-2.0
"""A query for allocation candidates, read from the parameters that are sent to the server. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from osc_placement.model import canonical_uuid

_KEY: Final = re.compile(r"(resources|required|member_of|in_tree)(.*)", re.DOTALL)
_ANY: Final = "in:"


@dataclass(frozen=True, slots=True)
class Condition:
    """A set of names, of which a provider must have any, or must have none."""

    names: frozenset[str]
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The conditions of one group of a query; only the group without a suffix may use several providers."""

    suffix: str
    amounts: Mapping[str, int]
    traits: Sequence[Condition] = ()
    aggregates: Sequence[Condition] = ()
    in_tree: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its groups, and the traits of the root."""

    groups: Sequence[Group]
    root: Sequence[Condition] = ()


def read_query(params: Iterable[tuple[str, str]]) -> Query:
    """Read the parameters of ``GET /allocation_candidates``, which must be well-formed."""
    values: dict[str, dict[str, list[str]]] = {}
    others: dict[str, list[str]] = {}
    for key, value in params:
        match = _KEY.fullmatch(key)
        if match:
            values.setdefault(match[2], {}).setdefault(match[1], []).append(value)
        else:
            others.setdefault(key, []).append(value)
    return Query(
        [_read_group(suffix, group) for suffix, group in values.items()],
        _read_traits(others.get("root_required", ())),
    )


def _read_group(suffix: str, values: Mapping[str, Sequence[str]]) -> Group:
    pairs = [pair.split(":") for text in values.get("resources", ()) for pair in text.split(",")]
    return Group(
        suffix,
        {name: int(amount) for name, amount in pairs},
        _read_traits(values.get("required", ())),
        [_read_condition(text, canonical=True) for text in values.get("member_of", ())],
        next((canonical_uuid(text) for text in values.get("in_tree", ())), None),
    )


def _read_traits(texts: Iterable[str]) -> list[Condition]:
    conditions = []
    for text in texts:
        # a list is one condition for each name, except with "any of"
        parts = [text] if text.startswith((_ANY, "!" + _ANY)) else text.split(",")
        conditions += [_read_condition(part, canonical=False) for part in parts]
    return conditions


def _read_condition(text: str, *, canonical: bool) -> Condition:
    names = text.removeprefix("!").removeprefix(_ANY).split(",")
    return Condition(
        frozenset(map(canonical_uuid, names) if canonical else names), forbidden=text.startswith("!")
    )
