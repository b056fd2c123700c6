# SPDX-License-Identifier: Apache-2.0
"""Confirmation of a change by a person on a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TextIO

from osc_placement.errors import PlacementError, without_password
from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import is_terminal, wrap_for


def is_attended(stdin: TextIO | None, stderr: TextIO | None) -> bool:
    """Return whether there is a terminal to ask on."""
    return is_terminal(stdin) and is_terminal(stderr)


def name_cloud(cloud: str | None, region: str | None, find_endpoint: Callable[[], str]) -> str:
    """Return which cloud is changed: the one that the operator named, or else the address of placement."""
    if not cloud:
        return f"Placement at {without_password(find_endpoint())}"
    return f"Cloud {cloud}, region {region}" if region else f"Cloud {cloud}"


def confirm(question: str, stdin: TextIO, stderr: TextIO, advice: str = "", *, cloud: str = "") -> None:
    """Ask a question; raise PlacementError, which ends with an advice, unless the answer is yes.

    :param cloud: the cloud that is changed, as `name_cloud` returns it; "" if the question is about none
    """
    told = f"{cloud}: {question}" if cloud else question
    # the answer begins behind a blank, in the same line
    lines = wrap_for(stderr, f"{printable(told)} [y/N]", free=len(" yes"))
    print(*lines, sep="\n", end=" ", file=stderr, flush=True)
    if stdin.readline().strip().lower() not in ("y", "yes"):
        raise PlacementError("; ".join(filter(None, ("Nothing was changed: not confirmed", advice))))


class ConfirmedCommand:
    """Mixin of commands that show what they would change and ask, unless ``--yes`` is given."""

    #: cliff's application, which has the streams
    app: Any

    def is_harmless(self, parsed_args: argparse.Namespace) -> bool:
        """Return whether nothing will be written to the server."""
        return bool(parsed_args.dry_run)

    def is_attended(self) -> bool:
        """Return whether there is a terminal to ask on."""
        return is_attended(self.app.stdin, self.app.stderr)

    def require_somebody(self, parsed_args: argparse.Namespace) -> None:
        """Raise PlacementError if a confirmation is needed and there is no terminal to ask on."""
        if not (self.is_harmless(parsed_args) or parsed_args.yes or self.is_attended()):
            raise PlacementError(
                "Nothing was changed: without a terminal to confirm on, give --yes to change "
                "or --dry-run to see the plan"
            )

    def confirm(self, question: str, advice: str = "") -> None:
        """Ask a question about the cloud; raise PlacementError, with an advice, unless the answer is yes."""
        manager = self.app.client_manager
        chosen = getattr(getattr(self.app, "options", None), "cloud", None)
        region = getattr(manager, "region_name", None)
        cloud = name_cloud(chosen, region, lambda: manager.placement.endpoint)
        confirm(question, self.app.stdin, self.app.stderr, advice, cloud=cloud)
