# SPDX-License-Identifier: Apache-2.0
"""Trees of providers as a page whose branches fold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import Node
from osc_placement.report.bar import format_amount
from osc_placement.report.page import PLAIN_ROWS, Contents, Origin, make_page
from osc_placement.report.tree import describe_terms
from osc_placement.terminal.escape import printable

#: the number of classes with a column of their own; a provider lists all of its classes when it is opened
_COLUMNS: Final = 6
#: trees are open at first if they have at most this many providers in all
_OPEN: Final = 12

T = TypeVar("T")


def tree_page(cloud: CloudView, origin: Origin | None = None) -> str:
    """Return the page of a cloud or of some of its trees."""
    title = f"Resource providers: {cloud.roots[0].name}" if len(cloud.roots) == 1 else "Resource providers"
    contents = Contents(
        heading="Trees",
        data=_make_data(cloud),
        plain_columns=("provider", "UUID", "used of capacity", "traits", "aggregates"),
        plain_rows=[
            (
                node.name,
                node.uuid,
                "; ".join(
                    f"{name}: {format_amount(name, stock.used)} of {format_amount(name, stock.capacity)}"
                    for name, stock in node.stocks.items()
                ),
                " ".join(sorted(node.traits)),
                " ".join(sorted(node.aggregates)),
            )
            for node, _ in _walk(cloud, PLAIN_ROWS)
        ],
        total=len(cloud.nodes),
        things="resource providers",
    )
    return make_page(title, cloud, contents, origin)


def _make_data(cloud: CloudView) -> Mapping[str, Any]:
    """Return the trees as page.js reads them: what many providers have alike is there once, and has a number.

    A provider is a list: its name, its UUID, the numbers of its parent (-1 for a root), of the set of its
    traits and of that of its aggregates, and a flat list that has for each inventory the number of its *kind*
    (class, capacity, and why that is not the total) and how much is used.
    """
    kinds: dict[tuple[str, int, str], int] = {}
    sets: dict[tuple[str, ...], int] = {}
    numbers: dict[str, int] = {}
    roots: dict[str, str] = {}
    with_class: set[tuple[str, str]] = set()
    providers = []
    for node, parent in _walk(cloud):
        root = roots[node.uuid] = node.uuid if parent is None else roots[parent.uuid]
        with_class.update((root, name) for name in node.stocks)
        stocks: list[int] = []
        for name, stock in node.stocks.items():
            kind = (
                printable(name),
                stock.capacity,
                describe_terms(stock, partial(format_amount, name)).strip("()"),
            )
            stocks += (_number(kinds, kind), stock.used)
        names = (tuple(map(printable, sorted(each))) for each in (node.traits, node.aggregates))
        providers.append(
            [
                printable(node.name),
                printable(node.uuid),
                -1 if parent is None else numbers[parent.uuid],
                *(_number(sets, each) for each in names),
                stocks,
            ]
        )
        numbers[node.uuid] = len(numbers)
    # those that most trees have
    counts = Counter(name for _, name in with_class)
    classes = sorted(counts, key=lambda name: (-counts[name], name))[:_COLUMNS]
    return {
        "filter": "trees by name, UUID, class, trait or aggregate",
        "classes": [printable(name) for name in sorted(classes)],
        "kinds": list(kinds),
        "sets": list(sets),
        "providers": providers,
        "open": _OPEN,
    }


def _number(numbers: dict[T, int], key: T) -> int:
    return numbers.setdefault(key, len(numbers))


def _walk(cloud: CloudView, most: int | None = None) -> Iterator[tuple[Node, Node | None]]:
    """Yield each provider, or the first ones, with its parent, which comes before it."""
    # not recursive: a chain of providers may be longer than Python's recursion limit
    waiting: list[tuple[Node, Node | None]] = [(root, None) for root in reversed(cloud.roots)]
    left = len(cloud.nodes) if most is None else most
    while waiting and left:
        node, parent = waiting.pop()
        yield node, parent
        left -= 1
        waiting.extend((child, node) for child in reversed(cloud.children(node)))
