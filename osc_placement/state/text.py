# SPDX-License-Identifier: Apache-2.0
"""YAML to a document and back; errors name the line. Pure."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, TypeVar

import yaml

from osc_placement.api.garbage import no_collection
from osc_placement.batch import SAVED
from osc_placement.errors import PlacementError
from osc_placement.state import emit
from osc_placement.state.document import Document, iterate_plain, parse_document
from osc_placement.state.node import InvalidDocument, Path, join_mistakes
from osc_placement.terminal.escape import is_printable

Parsed = TypeVar("Parsed")

#: the maximum depth of nesting; libyaml recurses in C, where too deep a nesting crashes the process
_DEEPEST: Final = 100
#: the maximum number of values after aliases are expanded, each value counted as often as it is repeated
_MOST_VALUES: Final = 10_000_000
#: the maximum size of a whole number, and the maximum length of its text
_MOST_BITS: Final = 64
_LONGEST_NUMBER: Final = 100


class _DepthLimit:
    """A limit on the depth, counted in the two methods by which PyYAML enters and leaves a node."""

    _depth = 0

    def descend_resolver(self, parent: yaml.Node | None, _index: object) -> None:
        self._depth += 1
        if parent is not None and self._depth > _DEEPEST:
            problem = f"nested more than {_DEEPEST} deep"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=parent.start_mark)

    def ascend_resolver(self) -> None:
        self._depth -= 1


def _construct_number(loader: Any, node: yaml.ScalarNode) -> int:
    # the length is for what int() refuses; what it reads of other bases may be refused by str()
    if len(node.value) <= _LONGEST_NUMBER:
        number: int = loader.construct_yaml_int(node)
        if number.bit_length() <= _MOST_BITS:
            return number
    problem = f"a number of more than {_MOST_BITS} bits; put it in quotes if it is text"
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


# libyaml is ten times faster; PyYAML is built without it on some platforms
_LOADER: Final[Any] = type("_Loader", (_DepthLimit, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), {})
#: the loader of services that do not use libyaml; it refuses tabs that libyaml takes for spaces
PURE_LOADER: Final[Any] = type("_PureLoader", (_DepthLimit, yaml.SafeLoader), {})
for _each in (_LOADER, PURE_LOADER):
    _each.add_constructor("tag:yaml.org,2002:int", _construct_number)
_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
#: how many providers or consumers are turned into text at a time
_PIECE: Final = 100
_MERGE: Final = "tag:yaml.org,2002:merge"


class UnreadableText(PlacementError):
    """The text is not a state file; ``line`` counts from 1.

    ``others`` are lines and problems of further mistakes, of which the text of the error has a line each.
    """

    def __init__(
        self, source: str, line: int | None, problem: str, others: Sequence[tuple[int | None, str]] = ()
    ) -> None:
        self.source = source
        self.line = line
        self.problem = problem
        told = [
            f"{source}, line {line}: {problem}" if line else f"{source}: {problem}"
            for line, problem in ((line, problem), *others)
        ]
        super().__init__(join_mistakes(told))


def parse_text(text: str, source: str, path: str = "FILE") -> Document:
    """Read a state file; ``source`` names it in errors, which are UnreadableText.

    A file without a document is an error: it is truncated or was never written, because an export is never
    empty.

    :param path: names the file in a command, if the text is from a file
    """

    def parse(plain: Any) -> Document:
        if plain is None:
            raise UnreadableText(source, None, "there is nothing in it; {} is a state with nothing in it")
        if isinstance(plain, dict) and plain.get("format") == SAVED:
            command = f"openstack resource provider batch apply {shlex.quote(path)}"
            problem = f"it is a plan that --plan-out saved; to carry it out: {command}"
            raise UnreadableText(source, None, problem)
        return parse_document(plain)

    return parse_yaml(text, source, parse)


@dataclass(frozen=True, slots=True)
class YamlText:
    """A YAML document: its plain data, and its nodes, which have the lines.

    :ivar repeated: each key that its mapping has already, with the line; YAML libraries take the last one
    """

    data: Any
    root: yaml.Node | None
    repeated: tuple[tuple[str, int], ...] = ()
    #: the values of mappings, and the lines of their keys, by the ID of the node
    _entries: dict[int, dict[str, tuple[yaml.Node, int]]] = field(default_factory=dict)

    def find_line(self, path: Path) -> int | None:
        """Return the line of a place, or of the nearest place around it that is in the text."""
        if self.root is None:
            return None
        node, line = self.root, self.root.start_mark.line
        for part in path:
            inner: tuple[yaml.Node, int] | None = None
            if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
                inner = next(((item, item.start_mark.line) for item in node.value[part : part + 1]), None)
            elif isinstance(node, yaml.MappingNode):
                inner = self._list_entries(node).get(str(part))
            if inner is None:
                break
            node, line = inner
        return line + 1

    def _list_entries(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, int]]:
        # construction put the keys merged by << before a mapping's own keys, so the last one wins
        if id(node) not in self._entries:
            self._entries[id(node)] = {
                key.value: (value, key.start_mark.line)
                for key, value in node.value
                if isinstance(key, yaml.ScalarNode)
            }
        return self._entries[id(node)]


def read_yaml(text: str, source: str, *, keys_once: bool = False, loader_type: Any = _LOADER) -> YamlText:
    """Read one YAML document; raise UnreadableText if the text is not one.

    :param keys_once: whether a key that its mapping has already is an error
    """
    try:
        loader = loader_type(text)
        root = loader.get_single_node()
        # before the construction, which puts merged keys before those that are given again
        repeated = tuple(_list_repeated(root))
        if keys_once and repeated:
            first, *others = sorted((line, f"the key {key!r} is there twice") for key, line in repeated)
            raise UnreadableText(source, *first, others)
        # aliases may multiply the values so often that they would exhaust the memory
        if root and _count_values(root, {}) > _MOST_VALUES:
            raise UnreadableText(source, None, f"its aliases make more than {_MOST_VALUES} values of it")
        return YamlText(None if root is None else loader.construct_document(root), root, repeated)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableText(source, mark.line + 1 if mark else None, f"not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise UnreadableText(source, None, f"not YAML: {problem}") from error
    except (LookupError, AttributeError) as error:
        # PyYAML does not check the value of such a tag
        problem = "not YAML: a value is not of its type !!bool, !!int, !!float or !!timestamp"
        raise UnreadableText(source, None, problem) from error


def parse_yaml(text: str, source: str, parse: Callable[[Any], Parsed]) -> Parsed:
    """Read any YAML file; an InvalidDocument of ``parse`` becomes an UnreadableText that names the lines."""
    with no_collection():
        found = read_yaml(text, source, keys_once=True)
        try:
            return parse(found.data)
        except InvalidDocument as error:
            told: dict[tuple[int | None, str], str] = {}
            for each in (error, *error.others):
                # what aliases repeat is told once
                told.setdefault((found.find_line(each.path), each.problem), each.told)
            lines = [(line, text) for (line, _), text in told.items()]
            first, *others = sorted(lines, key=lambda place: place[0] or 0)
            raise UnreadableText(source, *first, others) from error


def format_document(document: Document) -> Iterator[str]:
    """Yield a state file, piece by piece: equal documents give equal text."""
    names, entries = iterate_plain(document)
    yield dump(names)
    for section, values in entries.items():
        first = next(values, None)
        if first is None:
            yield dump({section: []})
            continue
        yield f"{section}:\n"
        remaining = map(_format_entry, chain((first,), values))
        while piece := "".join(islice(remaining, _PIECE)):
            yield piece


def _format_entry(entry: dict[str, Any]) -> str:
    try:
        return emit.format_entry(entry)
    except emit.Unusual:
        return dump([entry])


def dump(plain: object, *, flow: bool | None = None) -> str:
    """Return plain data as YAML; by default, only lists and mappings of single values are in flow style."""
    write = functools.partial(
        yaml.dump, plain, Dumper=_DUMPER, sort_keys=False, default_flow_style=flow, width=emit.WIDTH
    )
    text = str(write(allow_unicode=True))
    # YAML escapes control characters, but not those that change the direction of writing
    return text if is_printable(text) else str(write())


def _list_repeated(root: yaml.Node | None) -> Iterator[tuple[str, int]]:
    checked: set[int] = set()
    waiting = [root] if root else []
    while waiting:
        node = waiting.pop()
        if id(node) in checked:  # an alias repeats it
            continue
        checked.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            seen = set()
            for key, _value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                    if key.value in seen:
                        yield key.value, key.start_mark.line + 1
                    seen.add(key.value)
            waiting += [part for pair in node.value for part in pair]


def _count_values(node: yaml.Node, counts: dict[int, int]) -> int:
    if id(node) not in counts:
        counts[id(node)] = 1  # a node that contains itself counts as one within itself
        if isinstance(node, yaml.MappingNode):
            counts[id(node)] += sum(_count_values(part, counts) for pair in node.value for part in pair)
        elif isinstance(node, yaml.SequenceNode):
            counts[id(node)] += sum(_count_values(item, counts) for item in node.value)
    return counts[id(node)]
