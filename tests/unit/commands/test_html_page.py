# SPDX-License-Identifier: Apache-2.0
"""What a page says of the command that wrote it."""

import shlex

import pytest

from osc_placement.commands.capacity import ShowCapacity
from osc_placement.commands.html_page import format_command, write_page
from osc_placement.commands.tree import ShowTree
from tests.unit.commands.shell import make
from tests.unit.fake_placement import FakePlacement

NAMES = {ShowTree: "resource provider tree", ShowCapacity: "resource provider capacity"}


@pytest.mark.parametrize(
    ("kind", "line", "shown"),
    [
        (ShowTree, "--html a.html", "--html a.html"),
        (ShowTree, "'host 1' host2 --brief --html a.html", "'host 1' host2 --brief --html a.html"),
        (ShowTree, "-f dot --html 'a b.html' x", "x --format dot --html 'a b.html'"),
        (ShowCapacity, "--name='-rack*' --html=-a.html", "'--name=-rack*' --html=-a.html"),
        (ShowCapacity, "--by provider --html a.html", "--html a.html"),
        (
            ShowCapacity,
            "--html a.html --fit VCPU=1 --fit DISK_GB=2 -c host",
            "--column host --fit VCPU=1 --fit DISK_GB=2 --html a.html",
        ),
    ],
)
def test_command_has_the_options_that_are_not_defaults(kind, line, shown):
    """It is a command line that can be run again."""
    command = make(kind)
    command.cmd_name = NAMES[kind]
    parser = command.get_parser("openstack test")
    parsed_args = parser.parse_args(shlex.split(line))
    written = format_command(command, parser, parsed_args)
    assert written == f"openstack {NAMES[kind]} {shown}"
    assert parser.parse_args(shlex.split(written.removeprefix(f"openstack {NAMES[kind]}"))) == parsed_args


def test_page_is_written_where_standard_error_is_closed(tmp_path):
    """The interpreter has None in its place."""
    command = make(ShowTree, FakePlacement().client())
    command.cmd_name = NAMES[ShowTree]
    command.app.stderr = None
    path = tmp_path / "a.html"
    parsed_args = command.get_parser("openstack test").parse_args(["--html", str(path)])
    write_page(command, parsed_args, lambda _origin: "<html>", "a tree")
    assert path.read_text() == "<html>"
