# SPDX-License-Identifier: Apache-2.0
"""``--watch``: a command's output on the whole terminal, read and shown again after some seconds."""

from __future__ import annotations

import argparse
import io
from typing import TextIO

from keystoneauth1.exceptions import ClientException
from osc_lib.exceptions import CommandError

from osc_placement.commands import base
from osc_placement.commands.html_page import format_command
from osc_placement.errors import UsageError
from osc_placement.terminal.live import add_watch_option, check_watch, watch_command


class WatchedCommand(base.PlacementCommand):
    """Mixin of commands with ``--watch``; it comes before ``base.Lister``."""

    #: how many lines the output may have, while it is shown with --watch
    height: int | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_watch_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.watch is not None:
            form = getattr(parsed_args, "formatter", None) or parsed_args.format
            if getattr(parsed_args, "html", None):
                raise UsageError("--watch cannot be used with --html")
            check_watch(form, self.app.stdout)
            # the command line as it was given: values are converted by what follows
            given = argparse.Namespace(**{**vars(parsed_args), "watch": None})
            parsed_args.title = format_command(self, self.get_parser(self.cmd_name or ""), given)
        super().read_arguments(parsed_args)

    def act(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.watch is None:
            return super().act(parsed_args)
        stdout, stderr = self.app.stdout, self.app.stderr
        once = super().act

        def read(shown: TextIO, height: int) -> None:
            self.height = height
            self.app.stdout = shown
            try:
                once(parsed_args)
            finally:
                self.app.stdout = stdout
                # the first reading shows how far it is; the screen of the others has no place for it
                self.app.stderr = io.StringIO()

        try:
            watch_command(stdout, parsed_args.watch, parsed_args.title, read, (CommandError, ClientException))
        finally:
            self.app.stderr = stderr
        return 0
