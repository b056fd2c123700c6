# SPDX-License-Identifier: Apache-2.0
"""How much of other modules a reader has to know: the names that modules take from each other.

The limits are what was reached. They are lowered with what a change reaches, and not raised for it.
"""

import ast

import pytest

from osc_placement.batch import _MODULES as HOMES
from tests.unit.test_layers import MODULES, PACKAGE, find_module, is_in

#: by part of the package, at most so many names of other modules for each 1,000 lines of it
NAMES_PER_1000_LINES = {"": 25, "batch": 27, "commands": 53, "migrate": 33}
#: of other modules, that one module takes
MOST_NAMES_OF_ONE_MODULE = 112
#: of the batch engine: its lines, and the names of its door, all of which others use
LINES_OF_BATCH = 8_871
NAMES_OF_BATCH = 88


def read_uses(module):
    """The names, each with the module of ours that has it, that a module takes from others."""
    tree = ast.parse(MODULES[module].read_text())
    aliases, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_in(node.module or "", PACKAGE):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                inner = full.removeprefix(f"{PACKAGE}.")
                if inner in MODULES:
                    aliases[alias.asname or alias.name] = inner
                else:
                    found.add((find_module(full), alias.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            found.add((aliases[node.value.id], node.attr))
    return {(other, name) for other, name in map(go_home, found) if other != module}


def go_home(use):
    """Return the module that has a name, in place of the door of the batch engine."""
    other, name = use
    return (f"batch.{HOMES[name]}", name) if other == "batch" and name in HOMES else use


#: the door is no user of the names that it has
USES = {module: read_uses(module) for module in MODULES if module != "batch"}


def count_lines(part):
    """The lines of a part of the package."""
    files = [path for module, path in MODULES.items() if not part or is_in(module, part)]
    return sum(path.read_text().count("\n") for path in files)


@pytest.mark.parametrize("part", NAMES_PER_1000_LINES)
def test_modules_take_few_names_from_each_other(part):
    """A part that is read by itself takes little from others."""
    taken = set().union(*(names for module, names in USES.items() if not part or is_in(module, part)))
    assert round(1000 * len(taken) / count_lines(part)) <= NAMES_PER_1000_LINES[part]


def test_no_module_takes_too_many_names():
    """The one that takes the most is the hardest to change."""
    module = max(USES, key=lambda each: len(USES[each]))
    assert len(USES[module]) <= MOST_NAMES_OF_ONE_MODULE, module


def test_the_batch_engine_has_a_narrow_door():
    """Others use each of its few names; the Ansible collection, which is no part of the package, uses one."""
    used = {name for module, names in USES.items() if not is_in(module, "batch") for _, name in names}
    assert count_lines("batch") <= LINES_OF_BATCH
    assert len(HOMES) <= NAMES_OF_BATCH
    assert HOMES.keys() - used == {"NothingSelected"}
    assert not {name for names in USES.values() for other, name in names if other == "batch"}


def test_the_door_of_the_batch_engine_has_the_names_that_types_are_checked_with():
    """It has a list for programs, which imports them when they are used, and one for mypy."""
    inner = f"{PACKAGE}.batch."
    nodes = [node for node in ast.walk(ast.parse(MODULES["batch"].read_text())) if hasattr(node, "module")]
    named = {name.name: node.module for node in nodes for name in node.names if node.module.startswith(inner)}
    assert {name: module.removeprefix(inner) for name, module in named.items()} == HOMES
