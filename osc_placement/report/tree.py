# SPDX-License-Identifier: Apache-2.0
"""Trees of providers as text, as a document, and as graphs for graphviz and mermaid. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import Node, Stock
from osc_placement.report.bar import draw_bar, format_percent, level_of
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import count_things
from osc_placement.terminal.screen import Screen

_BAR_CELLS: Final = 10
_NARROWEST: Final = 20
#: what mermaid or the page around it would interpret, as entities of mermaid
_MERMAID_ENTITIES: Final = {ord(letter): f"#{ord(letter)};" for letter in '"#<>&;`\\'}


def draw_trees(cloud: CloudView, screen: Screen, height: int | None = None) -> Iterator[str]:
    """Yield the lines of every tree, each provider before its descendants.

    Where trees take more than ``height`` lines, yield the first ones whole, and how many there are besides.
    """
    taken = 0
    for number, root in enumerate(cloud.roots):
        lines = list(_draw_tree(cloud, root, screen))
        taken += len(lines)
        others = len(cloud.roots) - number
        if number and height is not None and taken + (others > 1) > height:
            yield f"... and {count_things(others, 'more tree')} (name one to see it, or see all with | less)"
            return
        yield from lines


def _draw_tree(cloud: CloudView, root: Node, screen: Screen) -> Iterator[str]:
    # not recursive: a chain of providers may be longer than Python's recursion limit
    marks = screen.marks
    waiting: list[tuple[Node, str, str]] = [(root, "", "")]
    while waiting:
        node, lead, indent = waiting.pop()
        children = cloud.children(node)
        yield from _draw_node(node, lead, indent + (marks.line if children else marks.gap), screen)
        for position, child in enumerate(reversed(children)):
            mark, below = (marks.last, marks.gap) if position == 0 else (marks.branch, marks.line)
            waiting.append((child, indent + mark, indent + below))


def _draw_node(node: Node, lead: str, indent: str, screen: Screen) -> Iterator[str]:
    name, uuid = printable(node.name), printable(node.uuid)
    if screen.brief:
        yield lead + screen.paint(name, "name")
    elif screen.width is None or len(lead) + len(name) + 2 + len(uuid) <= screen.width:
        yield f"{lead}{screen.paint(name, 'name')}  {screen.paint(uuid, 'aside')}"
    else:
        yield lead + screen.paint(name, "name")
        yield indent + screen.paint(uuid, "aside")
    longest = max(map(len, node.stocks), default=0)
    for name, stock in node.stocks.items():
        lead = f"{indent}{printable(name).ljust(longest)} "
        numbers = f" {format_percent(stock.used, stock.capacity):>5}  {stock.used} of {stock.capacity}"
        if screen.width is not None and len(lead) + _BAR_CELLS + len(numbers) > screen.width:
            yield indent + printable(name)
            lead = f"{indent}  "
        bar = screen.paint(
            draw_bar(stock.used, stock.capacity, _BAR_CELLS, screen.marks),
            level_of(stock.used, stock.capacity),
        )
        aside = describe_terms(stock)
        width = len(lead) + _BAR_CELLS + len(numbers) + 2 + len(aside)
        if not aside or (screen.width is not None and width > screen.width):
            yield f"{lead}{bar}{numbers}"
        else:
            yield f"{lead}{bar}{numbers}  {screen.paint(aside, 'aside')}"
    if not screen.brief:
        yield from _draw_names("traits", node.traits, indent, screen)
        yield from _draw_names("aggregates", node.aggregates, indent, screen)


def describe_terms(stock: Stock, show: Callable[[int], str] = str) -> str:
    """Describe why the capacity differs from the total: ``(64 x 4.0, 2 reserved)``."""
    inventory = stock.inventory
    ratio = f" x {inventory.allocation_ratio:g}" if inventory.allocation_ratio != 1 else ""
    reserved = f"{show(inventory.reserved)} reserved" if inventory.reserved else ""
    parts = [f"total {show(inventory.total)}{ratio}" if ratio else "", reserved]
    text = ", ".join(part for part in parts if part)
    return f"({text})" if text else ""


def _draw_names(title: str, names: Iterable[str], indent: str, screen: Screen) -> Iterator[str]:
    if not names:
        return
    hanging = indent + " " * (len(title) + 2)
    width = max(screen.width or 100, len(hanging) + _NARROWEST)
    for line in textwrap.wrap(
        printable(" ".join(sorted(names))),
        width,
        initial_indent=f"{indent}{title}: ",
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        yield indent + screen.paint(line.removeprefix(indent), "aside")


def trees_to_json(cloud: CloudView) -> list[dict[str, Any]]:
    """Return a document for each tree: its root, with all descendants nested in ``children``."""
    documents = {node.uuid: node_to_json(node) for node in cloud.nodes}
    for node in cloud.nodes:
        documents[node.uuid]["children"] = [documents[child.uuid] for child in cloud.children(node)]
    return [documents[root.uuid] for root in cloud.roots]


def node_to_json(node: Node) -> dict[str, Any]:
    """Return the document of a provider; names are sorted."""
    return {
        "name": node.name,
        "uuid": node.uuid,
        "generation": node.generation,
        "inventories": {
            name: {
                **stock.inventory.to_json(),
                "capacity": stock.capacity,
                "used": stock.used,
                "free": stock.free,
            }
            for name, stock in node.stocks.items()
        },
        "traits": sorted(node.traits),
        "aggregates": sorted(node.aggregates),
    }


def draw_dot(cloud: CloudView) -> Iterator[str]:
    """Yield a digraph for graphviz: a box for each provider, an arrow from parent to child."""
    yield "digraph providers {"
    yield "  rankdir=LR"
    yield '  node [shape=box, style=rounded, fontname="sans-serif"]'
    ids = _number(cloud.nodes)
    for node in cloud.nodes:
        # \l ends a line that is aligned to the left
        label = "".join(line.replace("\\", "\\\\").replace('"', '\\"') + "\\l" for line in _label(node))
        yield f'  {ids[node.uuid]} [label="{label}"]'
    for parent, child in _edges(cloud):
        yield f"  {ids[parent.uuid]} -> {ids[child.uuid]}"
    yield "}"


def draw_mermaid(cloud: CloudView) -> Iterator[str]:
    """Yield a flowchart for mermaid, to be put into a Markdown page."""
    yield "flowchart LR"
    ids = _number(cloud.nodes)
    for node in cloud.nodes:
        label = "<br/>".join(line.translate(_MERMAID_ENTITIES) for line in _label(node))
        yield f'  {ids[node.uuid]}["{label}"]'
    for parent, child in _edges(cloud):
        yield f"  {ids[parent.uuid]} --> {ids[child.uuid]}"


def _number(nodes: Sequence[Node]) -> Mapping[str, str]:
    return {node.uuid: f"n{number}" for number, node in enumerate(nodes, 1)}


def _label(node: Node) -> Iterator[str]:
    yield printable(node.name)
    for name, stock in node.stocks.items():
        yield f"{printable(name)} {stock.used}/{stock.capacity}"


def _edges(cloud: CloudView) -> Iterator[tuple[Node, Node]]:
    return ((node, child) for node in cloud.nodes for child in cloud.children(node))
