# SPDX-License-Identifier: Apache-2.0
"""Plain data (dicts, lists, text, numbers) read together with its place in the file, which errors name.

Pure. This module knows the types of single values in the API, but not the structure of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from osc_placement import syntax
from osc_placement.errors import PlacementError
from osc_placement.model import MAX_AMOUNT, MAX_RATIO, canonical_uuid, check_text, is_uuid

#: the number of characters of a value that an error shows; YAML reads a file of another kind as one long text
_SHOWN: Final = 80
#: the keys and list positions that lead to a place
Path = tuple[str | int, ...]


class InvalidDocument(PlacementError):
    """The value at ``path`` breaks a rule."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{format_path(path)}: {problem}" if path else problem)


def format_path(path: Path) -> str:
    """Return the path as text, such as ``providers[3].inventories.VCPU``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place; every method returns the value as some type, or raises InvalidDocument."""

    value: Any
    path: Path = ()

    def fail(self, problem: str) -> NoReturn:
        """Raise InvalidDocument for this place."""
        raise InvalidDocument(self.path, problem)

    # mappings and lists

    def entries(self) -> dict[str, Node]:
        """Return the entries of a mapping with arbitrary keys."""
        if not isinstance(self.value, dict):
            self._fail_kind("a mapping (key: value)")
        entries = {}
        for key, value in self.value.items():
            if not isinstance(key, str):
                Node(key, (*self.path, str(key)))._fail_kind("text; put the key in quotes")
            entries[key] = Node(value, (*self.path, key))
        return entries

    def fields(self, known: Sequence[str], *, required: Sequence[str] = ()) -> dict[str, Node]:
        """Return the entries of a mapping that may have these keys only."""
        entries = self.entries()
        for key, node in entries.items():
            if key not in known:
                node.fail(f"unknown key; the keys here are {', '.join(known)}")
        for key in required:
            if key not in entries:
                self.fail(f"the key {key!r} is missing")
        return entries

    def items(self) -> list[Node]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            self._fail_kind("a list")
        return [Node(value, (*self.path, position)) for position, value in enumerate(self.value)]

    # single values

    def text(self, *, longest: int = 255) -> str:
        """Return a text of at least one character."""
        if not isinstance(self.value, str):
            self._fail_kind("text; put it in quotes")
        if not 1 <= len(self.value) <= longest:
            self.fail(f"must have 1 to {longest} characters, not {len(self.value)}")
        try:
            check_text(self.value)
        except ValueError as error:
            self.fail(f"{self.value!r} cannot be stored: {error}")
        return self.value

    def uuid(self) -> str:
        """Return a UUID, in the spelling that the server answers with."""
        text = self.text()
        if not is_uuid(text):
            self.fail(f"must be a UUID, not {text!r}")
        return canonical_uuid(text)

    def name(self) -> str:
        """Return the name of a trait, a resource class or a consumer type."""
        text = self.text()
        if not syntax.NAME.fullmatch(text):
            self.fail(f"must have only upper-case letters, digits and underscores, unlike {text!r}")
        return text

    def amount(self, *, smallest: int) -> int:
        """Return an integer that the API accepts as an amount."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self._fail_kind("a whole number")
        if not smallest <= self.value <= MAX_AMOUNT:
            self.fail(f"must be from {smallest} to {MAX_AMOUNT}, not {self.value}")
        return self.value

    def ratio(self) -> float:
        """Return an allocation ratio."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            self._fail_kind("a number")
        if not 0 < self.value <= MAX_RATIO:
            self.fail(f"must be greater than 0 and at most {MAX_RATIO}, not {self.value}")
        return float(self.value)

    def _fail_kind(self, wanted: str) -> NoReturn:
        kinds = {dict: "a mapping", list: "a list", type(None): "empty"}
        text = repr(self.value)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.fail(f"must be {wanted}, not {kinds.get(type(self.value)) or shown}")
