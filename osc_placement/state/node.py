# SPDX-License-Identifier: Apache-2.0
"""Plain data (dicts, lists, text, numbers) read together with its place in the file, which errors name.

Pure. This module knows the types of single values in the API, but not the structure of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeVar

from osc_placement import syntax
from osc_placement.errors import PlacementError
from osc_placement.model import MAX_AMOUNT, MAX_RATIO, canonical_uuid, check_text, is_uuid

#: the number of characters of a value that an error shows; YAML reads a file of another kind as one long text
_SHOWN: Final = 80
#: how many mistakes are told
MOST_MISTAKES: Final = 20
Value = TypeVar("Value")
Substitute = TypeVar("Substitute")
#: the keys and list positions that lead to a place
Path = tuple[str | int, ...]


class InvalidDocument(PlacementError):
    """The value at ``path`` breaks a rule; ``others`` are the mistakes of the same document beside this one.

    :ivar told: the place with the problem; the text of the error has a line for each mistake
    """

    def __init__(self, path: Path, problem: str, others: Sequence[InvalidDocument] = ()) -> None:
        self.path = path
        self.problem = problem
        self.others = tuple(others)
        self.told = f"{format_path(path)}: {problem}" if path else problem
        super().__init__(join_mistakes([self.told, *(other.told for other in others)]))


def join_mistakes(mistakes: Sequence[str]) -> str:
    """Return a text with a line for each mistake, cut if there are many."""
    more = len(mistakes) - MOST_MISTAKES
    return "\n".join([*mistakes[:MOST_MISTAKES], *([f"and {more:,} more mistakes"] if more > 0 else ())])


def format_path(path: Path) -> str:
    """Return the path as text, such as ``providers[3].inventories.VCPU``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


# PERF: a frozen one takes twice as long to make, and a large file has millions
@dataclass(slots=True)
class Node:
    """A value and its place; every method returns the value as some type, or raises InvalidDocument.

    So that all mistakes of a document are told, what reads it notes those that leave the rest readable, and
    ends with `finish`.

    :ivar mistakes: those that were noted, of all nodes of the document
    """

    value: Any
    path: Path = ()
    mistakes: list[InvalidDocument] = field(default_factory=list, compare=False)

    def fail(self, problem: str) -> NoReturn:
        """Raise InvalidDocument for this place."""
        raise InvalidDocument(self.path, problem)

    def note(self, problem: str) -> None:
        """Note a mistake at this place."""
        self.mistakes.append(InvalidDocument(self.path, problem))

    def attempt(self, parse: Callable[[Node], Value], substitute: Substitute) -> Value | Substitute:
        """Return what a function reads of this node; at a mistake, note it and return the substitute."""
        try:
            return parse(self)
        except InvalidDocument as mistake:
            self.mistakes.append(mistake)
            return substitute

    def finish(self) -> None:
        """Raise InvalidDocument if mistakes were noted."""
        if self.mistakes:
            first, *others = self.mistakes
            raise InvalidDocument(first.path, first.problem, others)

    # mappings and lists

    def entries(self) -> dict[str, Node]:
        """Return the entries of a mapping with arbitrary keys."""
        if not isinstance(self.value, dict):
            self._fail_kind("a mapping (key: value)")
        entries = {}
        for key, value in self.value.items():
            if not isinstance(key, str):
                Node(key, (*self.path, str(key)))._fail_kind("text; put the key in quotes")
            entries[key] = Node(value, (*self.path, key), self.mistakes)
        return entries

    def fields(self, known: Sequence[str], *, required: Sequence[str] = ()) -> dict[str, Node]:
        """Return the entries of a mapping with these keys; note other keys, and those that are missing."""
        entries = self.entries()
        for key in [key for key in entries if key not in known]:
            entries.pop(key).note(f"unknown key; the keys here are {', '.join(known)}")
        missing = " and ".join(repr(key) for key in required if key not in entries)
        if missing:
            self.note(
                f"the keys {missing} are missing" if " and " in missing else f"the key {missing} is missing"
            )
        return entries

    def items(self) -> list[Node]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            self._fail_kind("a list")
        return [
            Node(value, (*self.path, position), self.mistakes) for position, value in enumerate(self.value)
        ]

    def each(self, parse: Callable[[Node], Value]) -> list[Value]:
        """Return what a function reads of the items of a list; note the mistakes of items, and omit these."""
        values = [item.attempt(parse, None) for item in self.items()]
        return [value for value in values if value is not None]

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
        """Return an allocation ratio; servers take 0 as well, so that an export may have it."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            self._fail_kind("a number")
        if not 0 <= self.value <= MAX_RATIO:
            self.fail(f"must be from 0 to {MAX_RATIO}, not {self.value}")
        return float(self.value)

    def _fail_kind(self, wanted: str) -> NoReturn:
        kinds = {dict: "a mapping", list: "a list", type(None): "empty"}
        text = repr(self.value)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.fail(f"must be {wanted}, not {kinds.get(type(self.value)) or shown}")


def read_field(
    fields: Mapping[str, Node], key: str, parse: Callable[[Node], Value], substitute: Substitute
) -> Value | Substitute:
    """Return what a function reads of a field; the substitute if it is absent, or wrong, which is noted."""
    return fields[key].attempt(parse, substitute) if key in fields else substitute
