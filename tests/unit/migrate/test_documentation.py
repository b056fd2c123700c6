# SPDX-License-Identifier: Apache-2.0
"""The page on `placement-migrate` has every command, option and exit status."""

import argparse
import pathlib
import re

import pytest

from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTIAL
from osc_placement.migrate.exit_statuses import EXIT_UNKNOWN
from osc_placement.migrate.main import make_parser
from osc_placement.package import EXIT_CLOSED_PIPE

PAGE = (pathlib.Path(__file__).parents[3] / "doc/source/cli/placement-migrate.rst").read_text()
#: what every program has
UNIVERSAL = {"-h", "--help"}


def commands_of(parser, path=()):
    """All commands below a parser, by their words."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from commands_of(inner, (*path, name))


COMMANDS = dict(commands_of(make_parser()))


@pytest.mark.parametrize("path", [path for path in COMMANDS if path])
def test_command_is_documented(path):
    """A command is there with all its words."""
    if path == ("run",):
        return
    assert f"``{' '.join(path)}``" in PAGE


@pytest.mark.parametrize("path", COMMANDS)
def test_options_are_documented(path):
    """So is each of its options."""
    shown = [action for action in COMMANDS[path]._actions if action.help != argparse.SUPPRESS]
    options = {option for action in shown for option in action.option_strings} - UNIVERSAL
    assert {option for option in options if f"``{option}``" not in PAGE} == set()


def test_exit_statuses_are_documented():
    """The table has every status that a command ends with."""
    statuses = {int(number) for number in re.findall(r"^   \* - (\d+)$", PAGE, re.MULTILINE)}
    assert {EXIT_DONE, 1, 2, EXIT_PARTIAL, EXIT_UNKNOWN, EXIT_INTERRUPTED, EXIT_CLOSED_PIPE} == statuses
