# SPDX-License-Identifier: Apache-2.0
"""The argument of every command of ``placement-migrate``: access to services, limits, options."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osc_placement.migrate.migrations.base import Assessment, Context, Migration
from osc_placement.migrate.nova.settings import Settings
from osc_placement.migrate.nova.source import Opening
from osc_placement.migrate.runner import Execution
from osc_placement.terminal.escape import printable_lines


@dataclass(frozen=True)
class Command:
    """Settings, execution and options of one command of ``placement-migrate``."""

    settings: Settings
    execution: Execution
    options: argparse.Namespace

    def assess(self, migration: Migration) -> tuple[Context, Assessment]:
        """Compare nova with placement."""
        client = self.settings.open_client()
        opening = Opening(self.settings.open_source)
        try:
            context = Context(opening, client, self.execution.concurrency, self.settings.open_ironic)
            return context, migration.assess(context)
        finally:
            opening.close()

    def describe_undo(self, run_id: str) -> str:
        """Return the command that undoes a run, ready to be pasted."""
        words = ["placement-migrate", *self.settings.placement_options, "runs", "undo", run_id]
        return f"undo it with: {shlex.join(words)}"

    def show(self, document: Mapping[str, Any], text: Sequence[str]) -> None:
        """Print the document, or the text that says the same to people, nothing of which moves a cursor."""
        if self.options.format == "json":
            print(json.dumps(document, indent=2))
            return
        for line in filter(None, text):
            print(printable_lines(line))
