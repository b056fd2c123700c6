# SPDX-License-Identifier: Apache-2.0
"""Trees as text and drawings: their shape, their width, and names that mean to do harm."""

import json

import pytest

from osc_placement.report.bar import draw_bar, format_percent, level_of
from osc_placement.report.tree import draw_dot, draw_mermaid, draw_trees, trees_to_json
from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import ASCII, BLOCKS, Screen, marks_for
from tests.unit.report.clouds import cloud, node, stock

TREE = cloud(
    node("host", DISK_GB=stock(100, 50)),
    node("numa0", "host", VCPU=stock(10, 10, reserved=2, allocation_ratio=2.0)),
    node("numa1", "host", VCPU=0),
    node("gpu", "numa0", traits=["HW_GPU"]),
)
HOSTILE = 'x"];</script><b>\x1b[31m\u202e'


def test_a_child_stands_below_its_parent():
    """Lines lead from each provider to those below it, and a bar says how full each class is."""
    assert list(draw_trees(TREE, Screen(brief=True))) == [
        "host",
        "│  DISK_GB █████░░░░░  50 %  50 of 100",
        "├─ numa0",
        "│  │  VCPU ██████░░░░  62 %  10 of 16  (total 10 x 2, 2 reserved)",
        "│  └─ gpu",
        "└─ numa1",
        "      VCPU ░░░░░░░░░░     -  0 of 0",
    ]


def test_lines_fit_the_width():
    """What does not fit on a line of 60 columns goes to the next, or is left out."""
    traits = [f"HW_CPU_X86_FEATURE_{number:02}" for number in range(30)]
    wide = cloud(node("compute-0001.rack-0001.example.org", traits=traits, VCPU=stock(64, 9, reserved=2)))
    wide = cloud(
        *wide.records.values(),
        node("child", "compute-0001.rack-0001.example.org", MEMORY_MB=stock(10**9, 10**8)),
    )
    lines = list(draw_trees(wide, Screen(60)))
    assert max(map(len, lines)) <= 60
    assert all(any(trait in line for line in lines) for trait in traits)


def test_an_inventory_that_does_not_fit_has_two_lines():
    """The name of a long class, and below it the bar and the numbers."""
    name = "CUSTOM_" + "X" * 40
    host = node("host", VCPU=stock(8, 4), **{name: stock(10**6, 10**5, reserved=2)})
    assert list(draw_trees(cloud(host), Screen(60, ASCII, brief=True))) == [
        "host",
        f"   {name}",
        "     #.........  10 %  100000 of 999998  (2 reserved)",
        "   VCPU",
        "     #####.....  50 %  4 of 8",
    ]


def test_a_deep_chain_is_drawn():
    """There is no depth at which drawing fails."""
    chain = [node("n0"), *(node(f"n{number}", f"n{number - 1}") for number in range(1, 3000))]
    assert sum(1 for _ in draw_trees(cloud(*chain), Screen(brief=True))) == 3000


@pytest.mark.parametrize(
    ("used", "capacity", "bar", "percent", "level"),
    [
        (0, 10, "....", "0 %", "low"),
        (1, 1000, "#...", "<1 %", "low"),
        (7, 10, "###.", "70 %", "middle"),
        (999, 1000, "###.", "99 %", "high"),
        (10, 10, "####", "100 %", "high"),
        (15, 10, "####", "150 %", "high"),
        (0, 0, "....", "-", "low"),
        (3, 0, "####", "-", "high"),
    ],
)
def test_bar_shows_small_usage_and_small_free_capacity(used, capacity, bar, percent, level):
    """A little shows, and so does a little that is missing."""
    assert draw_bar(used, capacity, 4, ASCII) == bar
    assert (format_percent(used, capacity), level_of(used, capacity)) == (percent, level)


def test_bars_are_ascii_where_the_encoding_has_no_blocks():
    """Bars are made of blocks where the encoding has them."""
    assert marks_for("utf-8") is BLOCKS
    assert [marks_for(name) for name in ("latin-1", "ascii", None, "no-such-encoding")] == [ASCII] * 4


def test_control_characters_in_names_are_escaped():
    """Escape sequences and marks that turn the writing round are spelled out."""
    assert printable(HOSTILE) == 'x"];</script><b>\\x1b[31m\\u202e'
    assert all(line.isprintable() for line in draw_trees(cloud(node(HOSTILE)), Screen()))


def test_drawings_have_all_providers_and_arrows():
    """A box for each provider, an arrow from each to those below it."""
    arrows = [line.strip() for line in draw_mermaid(TREE) if "-->" in line]
    assert arrows == ["n2 --> n3", "n2 --> n4", "n3 --> n1"]
    assert "  n3 -> n1" in list(draw_dot(TREE))
    assert '  n2 [label="host\\lDISK_GB 50/100\\l"]' in list(draw_dot(TREE))


def test_quotes_and_brackets_in_names_are_escaped():
    """Quotes and brackets end neither a label of graphviz nor one of mermaid."""
    dot = next(line for line in draw_dot(cloud(node('a"b\\'))) if "n1" in line)
    assert dot == '  n1 [label="a\\"b\\\\\\l"]'
    mermaid = list(draw_mermaid(cloud(node(HOSTILE))))[1]
    assert mermaid == '  n1["x#34;]#59;#60;/script#62;#60;b#62;#92;x1b[31m#92;u202e"]'


def test_the_document_nests_like_the_trees():
    """Children are in their parents, with what the API has and the capacity that follows from it."""
    (host,) = json.loads(json.dumps(trees_to_json(TREE)))
    assert [child["name"] for child in host["children"]] == ["numa0", "numa1"]
    inventory = host["children"][0]["inventories"]["VCPU"]
    assert (inventory["total"], inventory["capacity"], inventory["used"], inventory["free"]) == (
        10,
        16,
        10,
        6,
    )
    assert host["children"][0]["children"][0]["traits"] == ["HW_GPU"]
