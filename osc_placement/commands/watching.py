# SPDX-License-Identifier: Apache-2.0
"""``--watch``: a command's output on the whole terminal, read and shown again after some seconds."""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Sequence
from typing import Final

from keystoneauth1.exceptions import ClientException
from osc_lib.exceptions import CommandError

from osc_placement.commands import base
from osc_placement.commands.html_page import format_command
from osc_placement.errors import UsageError
from osc_placement.terminal.live import watch
from osc_placement.terminal.screen import is_terminal
from osc_placement.terminal.values import read_interval

#: the formats that people read
_SHOWN: Final = ("table", "text")


class WatchedCommand(base.PlacementCommand):
    """Mixin of commands with ``--watch``; it comes before ``base.Lister``."""

    #: how many lines the output may have, while it is shown with --watch
    height: int | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--watch",
            metavar="<seconds>",
            type=read_interval,
            help="Show the output on the whole terminal, and read it again after so many seconds, until "
            "Ctrl-C, which ends the command with exit status 0. An error of the server is shown above what "
            "was read before.",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.watch is not None:
            form = getattr(parsed_args, "formatter", None) or parsed_args.format
            if form not in _SHOWN:
                raise UsageError(f"--watch cannot be used with -f {form}; it shows what a terminal shows")
            if getattr(parsed_args, "html", None):
                raise UsageError("--watch cannot be used with --html")
            stdout = self.app.stdout
            if not is_terminal(stdout) or os.environ.get("TERM") == "dumb":
                raise UsageError("--watch needs a terminal as standard output; leave it out to read once")
            # the command line as it was given: values are converted by what follows
            given = argparse.Namespace(**{**vars(parsed_args), "watch": None})
            parsed_args.title = format_command(self, self.get_parser(self.cmd_name or ""), given)
        super().read_arguments(parsed_args)

    def act(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.watch is None:
            return super().act(parsed_args)
        stdout, stderr = self.app.stdout, self.app.stderr
        once = super().act

        def draw(height: int) -> Sequence[str]:
            self.height = height
            shown = self.app.stdout = _TerminalText(stdout.encoding)
            try:
                once(parsed_args)
            finally:
                self.app.stdout = stdout
                # the first reading shows how far it is; the screen of the others has no place for it
                self.app.stderr = io.StringIO()
            return shown.getvalue().splitlines()

        try:
            watch(stdout, parsed_args.watch, parsed_args.title, draw, (CommandError, ClientException))
        finally:
            self.app.stderr = stderr
        return 0


class _TerminalText(io.StringIO):
    """Text for a terminal, with its encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True
