# SPDX-License-Identifier: Apache-2.0
"""HTML pages of commands: the option, the origin of a page, and the line that says what was written."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from osc_placement.commands import base
from osc_placement.errors import without_password
from osc_placement.report.page import Origin
from osc_placement.terminal.screen import is_terminal, tell
from osc_placement.whole_file import replace_file

#: the names of clouds that openstacksdk makes up for settings that are in no clouds.yaml
_NO_NAMES: Final = ("", "defaults", "envvars")
_MEGABYTE: Final = 1_000_000


def add_html_option(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the option that names the file of the page."""
    parser.add_argument("--html", metavar="<file>", type=base.read_text, help=help)


def write_page(
    command: base.PlacementCommand, parsed_args: argparse.Namespace, make: Callable[[Origin], str], what: str
) -> None:
    """Write the page to the file of ``--html``, and say so on a terminal; ``what`` is the page's contents.

    Raises PlacementError if the file cannot be written.
    """
    parser = command.get_parser(command.cmd_name or "")
    origin = Origin(
        describe_server(command), datetime.now().astimezone(), format_command(command, parser, parsed_args)
    )
    page = make(origin)
    replace_file(parsed_args.html, [page])
    stderr = command.app.stderr
    if is_terminal(stderr):
        size = len(page.encode())
        shown = f"{size / _MEGABYTE:.1f} MB" if size >= _MEGABYTE else f"{size // 1000 + 1} kB"
        tell(stderr, f"Wrote {parsed_args.html}: {what}, {shown}")


def describe_server(command: base.PlacementCommand) -> str:
    """Return the name of the cloud, if it has one, with the address of its placement service."""
    settings = getattr(command.app.client_manager, "_cli_options", None)
    name = getattr(settings, "name", None) or ""
    endpoint = without_password(command.client.endpoint)
    return endpoint if name in _NO_NAMES else f"{name} ({endpoint})"


def format_command(
    command: base.PlacementCommand, parser: argparse.ArgumentParser, parsed_args: argparse.Namespace
) -> str:
    """Return the command line, with those options of the command that differ from their defaults.

    It has no global options: they may be secrets, and say only which cloud it is.
    """
    name = command.cmd_name or parser.prog.removeprefix(f"{command.program} ")
    words = [word for action in parser._actions for word in _words_of(action, parsed_args)]
    return shlex.join([command.program, *name.split(), *words])


def _words_of(action: argparse.Action, parsed_args: argparse.Namespace) -> Iterator[str]:
    value: Any = getattr(parsed_args, action.dest, None)
    if value == action.default or value is None:
        return
    values = value if isinstance(value, list) else [value]
    if not action.option_strings:
        yield from map(str, values)
        return
    option = next((each for each in action.option_strings if each.startswith("--")), action.option_strings[0])
    if action.nargs == 0:
        yield option
    elif isinstance(action.nargs, str | int):
        yield from (option, *map(str, values))
    else:
        for each in map(str, values):
            # a value that looks like an option is none to argparse
            yield from (f"{option}={each}",) if each.startswith("-") else (option, each)
