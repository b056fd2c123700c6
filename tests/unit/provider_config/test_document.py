# SPDX-License-Identifier: Apache-2.0
"""The rules of provider configuration files; tests/functional/provider_config compares them with nova's."""

import pytest

from osc_placement.model import Inventory
from osc_placement.provider_config.document import (
    ConfigFile,
    Entry,
    Level,
    find_duplicates,
    format_file,
    parse_file,
)

GOOD = """\
meta:
  schema_version: "1.0"
providers:
  - identification:
      name: compute-1
    traits:
      additional:
        - CUSTOM_GOLD
    inventories:
      additional:
        - CUSTOM_LICENSE:
            total: 10
            reserved: 2
"""

CLASS = "providers[0].inventories.additional[0].CUSTOM_LICENSE"


def told(text):
    """The problems of a text as lines."""
    return [str(problem) for problem in parse_file(text, "a.yaml").problems]


def test_entry_has_what_the_file_says():
    """With the lines, and defaults for what it leaves out."""
    (entry,) = parse_file(GOOD, "a.yaml").entries
    assert entry == Entry(
        "compute-1",
        frozenset({"CUSTOM_GOLD"}),
        {"CUSTOM_LICENSE": Inventory(10, 2)},
        "name",
        "a.yaml",
        4,
    )
    assert [entry.find_line(name) for name in ("CUSTOM_GOLD", "CUSTOM_LICENSE", "other")] == [8, 11, 4]


def test_all_problems_are_told_in_the_order_of_lines():
    """Not only the first one."""
    text = GOOD.replace("CUSTOM_GOLD", "gold").replace("total: 10", "totl: 10").replace("name:", "hostname:")
    assert [line.split(": ")[0] for line in told(text)] == ["a.yaml:5", "a.yaml:8", "a.yaml:11", "a.yaml:12"]


def test_number_that_is_too_large_is_a_problem_of_its_line():
    """Python refuses to write it, so it is in no message."""
    text = GOOD.replace('"1.0"', f"0x{'f' * 6000}")
    assert told(text) == [
        "a.yaml:2: error: not YAML: a number of more than 64 bits; put it in quotes if it is text"
    ]


def test_long_values_are_cut():
    """A file of another kind is one long text to YAML."""
    (line,) = told("x" * 500)
    assert len(line) < 160


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            '"1.0"',
            "1.0",
            '2: error: meta.schema_version: must be text in quotes, such as "1.0", not 1.0',
        ),
        (
            "identification:",
            "identifcation:",
            "4: error: providers[0]: the key identification is missing; it needs uuid or name",
        ),
        (
            "reserved: 2",
            "reserved: 11",
            "13: warning: CLASS.reserved: reserves more than the total of 10; placement refuses it",
        ),
        (
            "reserved: 2",
            "min_unit: 3000000000",
            "13: warning: CLASS.min_unit: must be from 1 to 2147483647, not 3000000000; placement refuses it",
        ),
        (
            "reserved: 2",
            "min_unit: 8\n            max_unit: 4",
            "13: warning: CLASS.min_unit: is more than the max_unit of 4: nothing can be allocated",
        ),
        (
            "reserved: 2",
            "allocation_ratio: 0",
            "13: warning: CLASS.allocation_ratio: must be greater than 0, not 0: nothing can be allocated",
        ),
        (
            "additional:\n        - CUSTOM_GOLD",
            "extra:\n        - CUSTOM_GOLD",
            "7: warning: providers[0].traits.extra: unknown key, which nova ignores; it reads additional",
        ),
    ],
)
def test_problem_names_the_place_and_the_rule(old, new, problem):
    """In one line."""
    assert f"a.yaml:{problem}".replace("CLASS", CLASS) in told(GOOD.replace(old, new))


def test_duplicates_name_the_first_place():
    """In the same file by the line, in another one by file and line."""
    first = Entry("a", frozenset({"CUSTOM_A"}), source="a.yaml", line=3)
    again = Entry("a", frozenset({"CUSTOM_B"}), source="a.yaml", line=9)
    other = Entry("a", frozenset({"CUSTOM_B"}), source="b.yaml", line=3)
    problems = find_duplicates([ConfigFile("a.yaml", (first, again)), ConfigFile("b.yaml", (other,))])
    assert [(str(problem), problem.level) for problem in problems] == [
        ("a.yaml:9: error: a is identified already, in line 3", Level.ERROR),
        ("b.yaml:3: error: a is identified already, in a.yaml:3", Level.ERROR),
    ]


def test_formatted_entries_are_read_back():
    """Equal entries give equal text, and no problems."""
    entries = [
        Entry("yes", frozenset({"CUSTOM_B", "CUSTOM_A"}), {}, "name"),
        Entry("$COMPUTE_NODE", frozenset(), {"CUSTOM_C": Inventory(4, 1, 2, 3, 1, 1.5)}, "uuid"),
    ]
    found = parse_file(format_file(entries), "a.yaml")
    assert found.problems == ()
    assert [(each.key, each.by, each.traits, each.inventories) for each in found.entries] == [
        (each.key, each.by, each.traits, each.inventories) for each in entries
    ]
