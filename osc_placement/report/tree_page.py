# SPDX-License-Identifier: Apache-2.0
"""Trees of providers as a page whose branches fold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from osc_placement.report import page
from osc_placement.report.capacity import Amounts
from osc_placement.report.cloud import Cloud, Node, Stock
from osc_placement.report.tree import describe_terms

#: the number of classes with a column of their own; a provider lists all of its classes when it is opened
_COLUMNS: Final = 6
#: trees are open at first if they have at most this many providers in all
_OPEN: Final = 12


def tree_page(cloud: Cloud) -> str:
    """Return the page of a cloud or of some of its trees."""
    title = f"Resource providers: {cloud.roots[0].name}" if len(cloud.roots) == 1 else "Resource providers"
    return page.make_page(title, page.describe_cloud(cloud), [page.class_panels(cloud), _forest(cloud)])


def _forest(cloud: Cloud) -> str:
    columns = _choose_columns(cloud)
    sums = _sum_subtrees(cloud)
    head = "".join(f'<span class="col">{page.text(column)}</span>' for column in columns)
    trees = "\n".join(_draw_tree(cloud, root, columns, sums) for root in cloud.roots)
    return (
        '<section aria-labelledby="trees"><h2 id="trees">Trees</h2>\n'
        f"{page.tools('trees by name, UUID, trait or aggregate', folds=True)}\n"
        f'<div class="forest" style="--columns:{max(1, len(columns))}">'
        f'<div class="row head" aria-hidden="true"><span class="col">provider, with all below it</span>{head}'
        f"</div>\n{trees or '<p class=empty>There are no resource providers.</p>'}</div></section>"
    )


def _choose_columns(cloud: Cloud) -> Sequence[str]:
    """Return the classes that most trees have, sorted by name."""
    counts = Counter(
        name for nodes in cloud.trees.values() for name in {name for node in nodes for name in node.stocks}
    )
    return sorted(sorted(counts, key=lambda name: (-counts[name], name))[:_COLUMNS])


def _sum_subtrees(cloud: Cloud) -> Mapping[str, Mapping[str, Amounts]]:
    """Return the sums of each provider and all its descendants, by UUID."""
    sums: dict[str, dict[str, Amounts]] = {node.uuid: {} for node in cloud.nodes}
    for node in cloud.nodes:
        for name, stock in node.stocks.items():
            for above in cloud.ancestry(node):
                sums[above.uuid][name] = sums[above.uuid].get(name, Amounts()).add(stock)
    return sums


def _draw_tree(
    cloud: Cloud, root: Node, columns: Sequence[str], sums: Mapping[str, Mapping[str, Amounts]]
) -> str:
    parts: list[str] = []
    opened = " open" if len(cloud.nodes) <= _OPEN else ""
    # not recursive: a chain of providers may be longer than Python's recursion limit
    waiting: list[Node | str] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        is_root = node is root
        find = f' data-find="{page.text(_findable(cloud, root))}"' if is_root else ""
        parts.append(
            f'<details class="node{" root" if is_root else ""}"{find}{opened}>'
            f"{_summary(node, columns, sums[node.uuid])}{_facts(node)}"
        )
        children = cloud.children(node)
        waiting.append("</div></details>" if children else "</details>")
        if children:
            parts.append('<div class="below">')
            waiting.extend(reversed(children))
    return "".join(parts)


def _findable(cloud: Cloud, root: Node) -> str:
    """Return the words by which the filter finds a tree: names, classes, traits and aggregates of its
    providers.
    """
    words: dict[str, None] = {}
    for node in cloud.trees[root.uuid]:
        words.update(dict.fromkeys((node.name, node.uuid, *sorted(node.traits), *sorted(node.aggregates))))
    return " ".join(words)


def _summary(node: Node, columns: Sequence[str], sums: Mapping[str, Amounts]) -> str:
    cells = "".join(
        f'<span class="cell" data-class="{page.text(column)}">'
        + (page.meter(sums[column].used, sums[column].capacity) if column in sums else "")
        + "</span>"
        for column in columns
    )
    return f'<summary class="row"><span class="name">{page.name(node.name)}</span>{cells}</summary>'


def _facts(node: Node) -> str:
    return (
        f'<div class="facts"><span class="uuid">{page.text(node.uuid)}</span>'
        + _inventory_table(node.stocks)
        + _chips("Traits", node.traits)
        + _chips("Aggregates", node.aggregates)
        + "</div>"
    )


def _inventory_table(stocks: Mapping[str, Stock]) -> str:
    if not stocks:
        return ""
    rows = "".join(
        f'<tr><th scope="row" class="class">{page.text(name)}</th>'
        f'<td class="bar">{page.meter(stock.used, stock.capacity)}</td>'
        f'<td class="number">{stock.used:,}</td><td class="number">{stock.capacity:,}</td>'
        f'<td class="number">{stock.free:,}</td>'
        f'<td class="aside">{page.text(describe_terms(stock).strip("()"))}</td></tr>'
        for name, stock in stocks.items()
    )
    return (
        '<div class="wide"><table><thead><tr><th scope="col">class</th><th scope="col"></th>'
        '<th scope="col" class="number">used</th><th scope="col" class="number">capacity</th>'
        '<th scope="col" class="number">free</th><th scope="col"></th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _chips(title: str, names: Iterable[str]) -> str:
    items = "".join(_chip(name) for name in sorted(names))
    return f'<div><span class="label">{title}</span><ul class="chips">{items}</ul></div>' if items else ""


def _chip(name: str) -> str:
    return f'<li class="chip">{page.text(name)}</li>'
