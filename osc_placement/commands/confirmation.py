# SPDX-License-Identifier: Apache-2.0
"""Asking before something is changed: on a terminal, or not at all."""

from __future__ import annotations

import argparse

from osc_placement.commands import base
from osc_placement.errors import PlacementError, UsageError
from osc_placement.printing import printable


class ConfirmedCommand(base.PlacementCommand):
    """A command that shows what it would change and asks, unless ``--yes`` is given."""

    def is_harmless(self, parsed_args: argparse.Namespace) -> bool:
        """Whether nothing will be written to the server."""
        return bool(parsed_args.dry_run)

    def is_attended(self) -> bool:
        """Whether somebody can be asked; a stream that was closed is None."""
        return all(stream is not None and stream.isatty() for stream in (self.app.stdin, self.app.stderr))

    def require_somebody(self, parsed_args: argparse.Namespace) -> None:
        """Raise UsageError where somebody has to be asked and nobody can be."""
        if not (self.is_harmless(parsed_args) or parsed_args.yes or self.is_attended()):
            raise UsageError(
                "Nothing was changed: without a terminal to confirm on, give --yes to change "
                "or --dry-run to see the plan"
            )

    def confirm(self, question: str) -> None:
        """Ask about what was shown; PlacementError unless it is a yes."""
        print(f"{printable(question)} [y/N] ", end="", file=self.app.stderr, flush=True)
        if self.app.stdin.readline().strip().lower() not in ("y", "yes"):
            raise PlacementError("Nothing was changed: not confirmed")
