# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider export|apply``: the state of a placement service as a file."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Final

from osc_placement import microversion
from osc_placement.commands import base
from osc_placement.commands.concurrency import add_concurrency_option
from osc_placement.commands.progress import ProgressBar, nothing_changed_on_interrupt, stop_on_interrupt
from osc_placement.errors import PlacementError
from osc_placement.state import read, write
from osc_placement.state.description import describe_plan
from osc_placement.state.document import Document
from osc_placement.state.plan import ApplyPlan, Kind, plan_apply
from osc_placement.state.text import format_document, parse_text

STANDARD_STREAM: Final = "-"


class ExportState(base.PlacementCommand):
    """Write the state of the placement service to a file that ``resource provider apply`` reads.

    All resource providers with their inventories, traits and aggregates, all allocations, and the custom
    resource classes and traits. What is changed while it is being read may be in the file or not.
    """

    minimum = microversion.NESTED_PROVIDERS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-o",
            "--output",
            metavar="<file>",
            default=STANDARD_STREAM,
            help="File to write, and to replace if it is there; - for standard output (default: -)",
        )
        add_concurrency_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        providers = read.list_providers(self.client)
        with ProgressBar("Reading", len(providers), self.app.stderr) as progress:
            document = read.read_document(
                self.client, providers, concurrency=parsed_args.concurrency, on_provider=progress.advance
            )
        text = format_document(document)
        if parsed_args.output == STANDARD_STREAM:
            self.app.stdout.write(text)
        else:
            replace_file(parsed_args.output, text)


class ApplyState(base.PlacementCommand):
    """Make the state of the placement service what a file says.

    Creates and changes what differs, parents before children; a resource provider or consumer that the file
    does not name stays as it is, and so does what the file leaves out of a provider. Nothing is written
    before the whole file is found right. What is as the file says is not written again, so after a failure
    or an interruption the same command goes on.
    """

    minimum = microversion.NESTED_PROVIDERS
    exit_statuses = (
        "Exit status: 0 everything is as the file says, or the plan was shown; 1 nothing was changed, the "
        "reason is on stderr; 2 the command line is wrong; 3 something failed, and what depends on "
        "it was not begun; 130 interrupted."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-f",
            "--file",
            metavar="<file>",
            required=True,
            help="File in the format that ``resource provider export`` writes; - for standard input",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Write nothing; show what would be created and changed"
        )
        add_concurrency_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        source = "standard input" if parsed_args.file == STANDARD_STREAM else parsed_args.file
        parsed_args.document = parse_text(read_file(parsed_args.file), source)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with nothing_changed_on_interrupt(self.app.stderr):
            plan = self._make_plan(parsed_args.document, parsed_args.concurrency)
        if plan.size == 0:
            lines = [
                f"Nothing to do: all that {parsed_args.file} says is so ({count_things(plan.unchanged)})"
            ]
        elif parsed_args.dry_run:
            lines = [*describe_plan(plan), f"unchanged: {count_things(plan.unchanged)}"]
        else:
            report = self._execute(plan, parsed_args.concurrency)
            self.exit_status = report.exit_status
            lines = list(summarize(report))
            self._complain(report)
        print("\n".join(lines), file=self.app.stdout)

    def _make_plan(self, document: Document, concurrency: int) -> ApplyPlan:
        with ProgressBar("Reading", len(document.providers), self.app.stderr) as progress:
            current = read.read_current(
                self.client, document, concurrency=concurrency, on_provider=progress.advance
            )
        return plan_apply(document, current)

    def _execute(self, plan: ApplyPlan, concurrency: int) -> write.ApplyReport:
        with (
            stop_on_interrupt(self.app.stderr) as stop,
            ProgressBar("Writing", plan.size, self.app.stderr) as progress,
        ):
            return write.apply_plan(
                self.client, plan, concurrency=concurrency, on_deed=progress.advance, stop=stop
            )

    def _complain(self, report: write.ApplyReport) -> None:
        for deed in report.failures:
            print(f"{deed.kind} {deed.name}: {deed.error}", file=self.app.stderr)
        if report.exit_status:
            print("Not everything was done; the same command goes on from here.", file=self.app.stderr)


def summarize(report: write.ApplyReport) -> Iterable[str]:
    """A line for each kind of thing that the file has."""
    for kind, unchanged in report.plan.unchanged.items():
        counts = [f"{number} {done}" for done, number in sorted(report.count(kind).items())]
        if unchanged:
            counts.append(f"{unchanged} unchanged")
        if counts:
            yield f"{_PLURALS[kind]}: {', '.join(counts)}"


_PLURALS: Final[Mapping[Kind, str]] = {
    "resource class": "resource classes",
    "trait": "traits",
    "resource provider": "resource providers",
    "consumer": "consumers",
}


def count_things(numbers: Mapping[Kind, int]) -> str:
    """Numbers of things in words."""
    counts = [
        f"{number} {kind if number == 1 else _PLURALS[kind]}" for kind, number in numbers.items() if number
    ]
    return ", ".join(counts) or "nothing"


def read_file(name: str) -> str:
    """The text of a file or of standard input."""
    try:
        if name == STANDARD_STREAM:
            return sys.stdin.read()
        return pathlib.Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise PlacementError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlacementError(f"{name} cannot be read: byte {error.start} is not UTF-8 text") from error


def replace_file(name: str, text: str) -> None:
    """Write a file whole or not at all."""
    target = pathlib.Path(name)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise PlacementError(f"{name} cannot be written: {error.strerror}") from error
