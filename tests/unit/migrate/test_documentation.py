# SPDX-License-Identifier: Apache-2.0
"""The page on `placement-migrate` has every command, option and exit status."""

import argparse
import pathlib
import re

import pytest

from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTIAL
from osc_placement.migrate.exit_statuses import EXIT_UNKNOWN
from osc_placement.package import EXIT_CLOSED_PIPE
from tests.migrate_parsers import make_parsers
from tests.unit.commands.shell import make
from tests.unit.commands.test_requests import load

PAGE = (pathlib.Path(__file__).parents[3] / "doc/source/cli/placement-migrate.rst").read_text()
PARSERS = make_parsers()


def list_options(parser):
    """The options of a command, without those of formatters."""
    groups = [
        each
        for each in parser._action_groups
        if not str(each.title).lower().endswith(("formatter", "formatters"))
    ]
    shown = [
        action for group in groups for action in group._group_actions if action.help != argparse.SUPPRESS
    ]
    return {option for action in shown for option in action.option_strings} - {"-h", "--help"}


@pytest.mark.parametrize("name", [name for name in PARSERS if " " in name])
def test_command_is_documented(name):
    """A command is there with all its words."""
    assert (
        f"``{name.removeprefix('placement-migrate ')}``" in PAGE
        or f"``{name.removeprefix('placement-migrate ')} " in PAGE
    )


@pytest.mark.parametrize("name", PARSERS)
def test_options_are_documented(name):
    """So is each of its options, but those that `openstack resource provider batch run` has as well."""
    options = list_options(PARSERS[name])
    if " run " in name:
        same = load(name.replace("placement-migrate", "resource provider batch"))
        options -= list_options(make(same).get_parser("openstack"))
    assert {option for option in options if f"``{option}``" not in PAGE} == set()


def test_exit_statuses_are_documented():
    """The table has every status that a command ends with."""
    statuses = {int(number) for number in re.findall(r"^   \* - (\d+)$", PAGE, re.MULTILINE)}
    assert {EXIT_DONE, 1, 2, EXIT_PARTIAL, EXIT_UNKNOWN, EXIT_INTERRUPTED, EXIT_CLOSED_PIPE} == statuses
