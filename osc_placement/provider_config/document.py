# SPDX-License-Identifier: Apache-2.0
"""The rules for a provider configuration file: its text to entries, and the problems that it has. Pure.

The level of a problem says what nova does: it refuses a file that has an *error*, so that nova-compute does
not start; a file with *warnings* alone it loads, but does not do what the file says. Everything that nova's
loader accepts is free of errors here, however odd it is.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from osc_placement.model import CUSTOM_PREFIX, INVENTORY_FIELDS, MAX_RATIO, Inventory
from osc_placement.state.document import SCRATCH_PREFIX
from osc_placement.state.node import InvalidDocument, Node, Path, format_path
from osc_placement.state.text import PURE_LOADER, UnreadableText, YamlText, dump, read_yaml

#: the identification that stands for the root providers of all compute nodes of a nova-compute
COMPUTE_NODE: Final = "$COMPUTE_NODE"
#: the version of the file format that nova 34 knows
SCHEMA_VERSION: Final = "1.0"

# like nova's, these patterns let a line end follow
_VERSION: Final = re.compile(r"^([0-9]+)\.([0-9]|[1-9][0-9]+)$")
_UUID: Final = re.compile(r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")
_NAME: Final = re.compile(r"^[A-Z0-9_]{1,255}$")
#: a custom name that placement stores
_STORED_NAME: Final = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
_LONGEST_PROVIDER_NAME: Final = 200
_INTERNAL_KEY: Final = "__source_file"
_NOVA_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("meta", "providers"),
    "provider": ("identification", "inventories", "traits"),
    "inventories": ("additional",),
    "traits": ("additional",),
}
_KINDS: Final = {dict: "a mapping", list: "a list", type(None): "empty", bool: "a truth value"}
#: the number of characters of a value that a problem shows
_SHOWN: Final = 60


class Level(enum.StrEnum):
    """What nova does about a problem: see the module."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a file; ``line`` counts from 1, and is None where no line has it."""

    source: str
    line: int | None
    level: Level
    text: str

    def __str__(self) -> str:
        return f"{self.source}{f':{self.line}' if self.line else ''}: {self.level}: {self.text}"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a file says of the provider that ``key`` identifies: a UUID, a name or `COMPUTE_NODE`.

    :ivar by: whether the key is a ``uuid`` or a ``name``
    :ivar lines: those of the traits and classes
    """

    key: str
    traits: frozenset[str] = frozenset()
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    by: str = "name"
    source: str = ""
    line: int | None = None
    lines: Mapping[str, int | None] = field(default_factory=dict, compare=False)

    def find_line(self, name: str) -> int | None:
        """Return the line of a trait or class, or of the entry."""
        return self.lines.get(name, self.line)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The entries of one file, which count only if none of its problems is an error."""

    source: str
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()


def parse_file(text: str, source: str) -> ConfigFile:
    """Read the text of a file; ``source`` names it in problems."""
    try:
        found = read_yaml(text, source, loader_type=PURE_LOADER)  # as nova reads it
    except UnreadableText as error:
        problem = Problem(source, error.line, Level.ERROR, error.problem)
        return ConfigFile(source, problems=(problem,))
    reader = _Reader(source, found)
    entries = reader.read()
    problems = sorted(reader.problems, key=lambda problem: problem.line or 0)
    return ConfigFile(source, tuple(entries), tuple(problems))


def find_duplicates(files: Iterable[ConfigFile]) -> list[Problem]:
    """Return an error for each entry whose provider an entry before it identifies in the same way.

    The files are those of one directory, in nova's order.
    """
    first: dict[str, Entry] = {}
    problems = []
    for each in files:
        for entry in each.entries:
            other = first.setdefault(entry.key, entry)
            if other is not entry:
                place = (
                    f"line {other.line}" if other.source == entry.source else f"{other.source}:{other.line}"
                )
                text = f"{entry.key} is identified already, in {place}"
                problems.append(Problem(entry.source, entry.line, Level.ERROR, text))
    return problems


class _Reader:
    """Reads one file and collects its problems."""

    def __init__(self, source: str, found: YamlText) -> None:
        self._source = source
        self._found = found
        self.problems: list[Problem] = []
        #: the lines of the traits and classes of the entry that is read
        self._lines: dict[str, int | None] = {}

    def _add(self, level: Level, path: Path, text: str) -> None:
        line = self._found.find_line(path)
        told = f"{format_path(path)}: {text}" if path else text
        self.problems.append(Problem(self._source, line, level, told))

    def _refuse(self, path: Path, text: str) -> None:
        self._add(Level.ERROR, path, text)

    def _warn(self, path: Path, text: str) -> None:
        self._add(Level.WARNING, path, text)

    def read(self) -> list[Entry]:
        """Return the entries that do something."""
        for key, line in self._found.repeated:
            text = f"the key {key!r} is there twice; nova takes the last one"
            self.problems.append(Problem(self._source, line, Level.WARNING, text))
        data = self._found.data
        if data is None:
            self._refuse((), "there is nothing in it; nova needs meta with its schema_version")
            return []
        if not self._is_kind(data, dict, (), "a mapping with meta and providers"):
            return []
        self._check_keys(data, (), "")
        if _INTERNAL_KEY in data:
            self._refuse((_INTERNAL_KEY,), "the key is reserved for nova")
        self._check_meta(data)
        if "providers" not in data:
            self._warn((), "names no providers, so nova does nothing with it")
            return []
        if not self._is_kind(data["providers"], list, ("providers",), "a list"):
            return []
        if not data["providers"]:
            self._warn(("providers",), "names no providers, so nova does nothing with it")
        found = (self._read_provider(item, ("providers", n)) for n, item in enumerate(data["providers"]))
        return [entry for entry in found if entry is not None]

    def _is_kind(self, value: object, kind: type, path: Path, wanted: str) -> bool:
        if isinstance(value, kind):
            return True
        self._refuse(path, f"must be {wanted}, not {_show(value)}")
        return False

    def _check_keys(self, data: Mapping[Any, object], path: Path, where: str) -> None:
        """Warn of keys that nova ignores; those of anchors are meant to be."""
        known = _NOVA_KEYS[where]
        for key in data:
            is_scratch = not where and isinstance(key, str) and key.startswith(SCRATCH_PREFIX)
            if key not in (*known, _INTERNAL_KEY) and not is_scratch:
                self._warn(
                    (*path, str(key)), f"unknown key, which nova ignores; it reads {' and '.join(known)}"
                )

    def _check_meta(self, data: Mapping[str, Any]) -> None:
        if "meta" not in data:
            self._refuse((), 'the key meta is missing: it needs schema_version: "1.0"')
            return
        if not self._is_kind(data["meta"], dict, ("meta",), "a mapping"):
            return
        if "schema_version" not in data["meta"]:
            self._refuse(("meta",), 'the key schema_version is missing; give schema_version: "1.0"')
            return
        path = ("meta", "schema_version")
        value = data["meta"]["schema_version"]
        if not isinstance(value, str):
            self._refuse(path, f'must be text in quotes, such as "1.0", not {_show(value)}')
            return
        match = _VERSION.search(value)
        if match is None or match[1] != "1":
            self._refuse(path, f"nova does not know version {value!r}; it knows {SCHEMA_VERSION}")
        elif match[2] != "0":
            self._warn(path, f"nova 34 knows {SCHEMA_VERSION}, and ignores what is new in {value}")

    def _read_provider(self, item: object, path: Path) -> Entry | None:
        if not isinstance(item, dict):
            self._refuse(path, f"must be a mapping, not {_show(item)}")
            return None
        self._check_keys(item, path, "provider")
        self._lines = {}
        found = self._read_identification(item, path)
        traits, has_traits = self._read_traits(item, path)
        inventories, has_inventories = self._read_inventories(item, path)
        if found is None:
            return None
        by, key = found
        if not (has_traits or has_inventories):
            self._warn(path, f"{key} has no additional traits and no additional inventories: nova ignores it")
            return None
        line = self._found.find_line(path)
        return Entry(key, frozenset(traits), inventories, by, self._source, line, self._lines)

    def _read_identification(self, item: Mapping[str, Any], path: Path) -> tuple[str, str] | None:
        """Return by what the provider is identified, and the value."""
        if "identification" not in item:
            self._refuse(path, "the key identification is missing; it needs uuid or name")
            return None
        path = (*path, "identification")
        given = item["identification"]
        if not self._is_kind(given, dict, path, "a mapping with uuid or name"):
            return None
        unknown = [key for key in given if key not in ("uuid", "name")]
        for key in unknown:
            self._refuse((*path, str(key)), "unknown key; the keys here are uuid and name")
        if len(given) != 1:
            told = "both are there" if {"uuid", "name"} <= given.keys() else f"there are {len(given)} keys"
            self._refuse(path, f"must have either uuid or name; {told if given else 'neither is there'}")
        if unknown or len(given) != 1:
            return None
        ((by, value),) = given.items()
        path = (*path, by)
        if not self._is_kind(value, str, path, "text"):
            return None
        if by == "uuid":
            if value != COMPUTE_NODE and not _UUID.search(value):
                self._refuse(path, f"must be a UUID with dashes or {COMPUTE_NODE}, not {_show(value)}")
                return None
            if value != COMPUTE_NODE and value != value.strip().lower():
                self._warn(path, "nova compares UUIDs as text and finds no provider: write it in lower case")
        elif not 1 <= len(value) <= _LONGEST_PROVIDER_NAME:
            self._refuse(path, f"must have 1 to {_LONGEST_PROVIDER_NAME} characters, not {len(value)}")
            return None
        return by, value

    def _read_additional(self, item: Mapping[str, Any], path: Path, section: str) -> tuple[list[Any], Path]:
        """Return the list ``additional`` of a section of a provider, and its place."""
        place = (*path, section, "additional")
        if section not in item or not self._is_kind(item[section], dict, place[:-1], "a mapping"):
            return [], place
        self._check_keys(item[section], place[:-1], section)
        value = item[section].get("additional", [])
        return (value, place) if self._is_kind(value, list, place, "a list") else ([], place)

    def _read_traits(self, item: Mapping[str, Any], path: Path) -> tuple[list[str], bool]:
        values, path = self._read_additional(item, path, "traits")
        names: list[str] = []
        for number, value in enumerate(values):
            place = (*path, number)
            if not self._check_name(value, place, "trait"):
                continue
            if value in names:
                self._warn(place, f"{value} is there twice")
            names.append(value)
        return names, bool(values)

    def _check_name(self, value: object, path: Path, what: str) -> bool:
        """Return whether nova accepts the name of a trait or resource class."""
        if not isinstance(value, str) or not _NAME.search(value):
            self._refuse(
                path,
                f"must be the name of a {what}, of up to 255 upper-case letters, digits and underscores, "
                f"not {_show(value)}",
            )
            return False
        if not value.startswith(CUSTOM_PREFIX):
            self._refuse(path, f"{value} is no custom {what}; nova takes only names that start with CUSTOM_")
            return False
        if not _STORED_NAME.fullmatch(value):
            self._warn(path, f"placement stores no {what} with the name {value!r}")
        self._lines[value] = self._found.find_line(path)
        return True

    def _read_inventories(self, item: Mapping[str, Any], path: Path) -> tuple[dict[str, Inventory], bool]:
        values, path = self._read_additional(item, path, "inventories")
        found: dict[str, Inventory] = {}
        for number, value in enumerate(values):
            place = (*path, number)
            if not isinstance(value, dict):
                text = f"must be a mapping of resource classes, not {_show(value)}"
                # nova looks only whether what is in it are custom names
                parts = value if isinstance(value, list | str) else [None]
                if all(isinstance(part, str) and part.startswith(CUSTOM_PREFIX) for part in parts):
                    self._warn(place, f"{text}; nova loads it, and fails at each update of the provider")
                else:
                    self._refuse(place, text)
                continue
            for name, fields in value.items():
                inventory = self._read_inventory(name, fields, (*place, str(name)))
                if inventory is None:
                    continue
                if name in found:
                    self._warn((*place, name), f"{name} is there twice; nova takes the last one")
                found[name] = inventory
        return found, bool(values)

    def _read_inventory(self, name: object, fields: object, path: Path) -> Inventory | None:
        if not self._check_name(name, path, "resource class"):
            return None
        if not isinstance(fields, dict):
            self._refuse(path, f"must be a mapping with the total, not {_show(fields)}")
            return None
        is_right = True
        for key, value in fields.items():
            place = (*path, str(key))
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if key not in INVENTORY_FIELDS:
                self._refuse(place, f"unknown key; the keys here are {', '.join(INVENTORY_FIELDS)}")
            elif key == "allocation_ratio" and not is_number:
                self._refuse(place, f"must be a number, not {_show(value)}")
            elif key != "allocation_ratio" and not (is_number and (type(value) is int or value.is_integer())):
                self._refuse(place, f"must be a whole number, not {_show(value)}")
            else:
                continue
            is_right = False
        if "total" not in fields:
            self._refuse(path, "the key total is missing")
            return None
        if not is_right:
            return None
        return self._judge_amounts(fields, path)

    def _judge_amounts(self, fields: Mapping[str, Any], path: Path) -> Inventory:
        """Return an inventory; warn of amounts that placement refuses, and with them the whole update."""
        amounts: dict[str, Any] = {
            key: value if key == "allocation_ratio" else int(value) for key, value in fields.items()
        }
        inventory = Inventory(**amounts)
        for key, value in amounts.items():
            place = (*path, key)
            if key != "allocation_ratio":
                try:
                    Node(value, place).amount(smallest=int(key != "reserved"))
                except InvalidDocument as error:
                    self._warn(place, f"{error.problem}; placement refuses it")
            elif value > MAX_RATIO:
                self._warn(place, f"must be at most {MAX_RATIO}, not {value}; placement refuses it")
            elif not value > 0:
                self._warn(place, f"must be greater than 0, not {value}: nothing can be allocated")
        if inventory.reserved > inventory.total:
            told = f"reserves more than the total of {inventory.total}; placement refuses it"
            self._warn((*path, "reserved"), told)
        elif inventory.total > 0 and inventory.min_unit > inventory.max_unit:
            self._warn(
                (*path, "min_unit"),
                f"is more than the max_unit of {inventory.max_unit}: nothing can be allocated",
            )
        return inventory


def _show(value: object) -> str:
    text = repr(value)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return _KINDS.get(type(value)) or shown


def format_file(entries: Iterable[Entry]) -> str:
    """Return entries as the text of a file; of inventories, the total and what is no default."""
    providers = []
    for entry in entries:
        plain: dict[str, Any] = {"identification": {entry.by: entry.key}}
        if entry.inventories:
            additional = []
            for name, inventory in sorted(entry.inventories.items()):
                assumed = Inventory(inventory.total).to_json()
                fields = inventory.to_json().items()
                kept = {key: value for key, value in fields if key == "total" or value != assumed[key]}
                additional.append({name: kept})
            plain["inventories"] = {"additional": additional}
        if entry.traits:
            plain["traits"] = {"additional": sorted(entry.traits)}
        providers.append(plain)
    return dump({"meta": {"schema_version": SCHEMA_VERSION}, "providers": providers}, flow=False)
