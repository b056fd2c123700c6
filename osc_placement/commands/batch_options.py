# SPDX-License-Identifier: Apache-2.0
"""The options of batch commands: the selection of providers, and the execution of the plan."""

from __future__ import annotations

import argparse
import pathlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TextIO

from osc_placement import microversion, syntax
from osc_placement.batch import Policy, Selection
from osc_placement.commands import base
from osc_placement.errors import PlacementError
from osc_placement.terminal.values import add_concurrency_option, or_none, read_count, read_rate


class _Once(argparse.Action):
    """The action of an option that takes one value; argparse would use the last of several."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "may be given only once")
        setattr(namespace, self.dest, values)


def add_aggregate_option(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, help: str, flag: str = "--aggregate"
) -> None:
    """Add an option for aggregates, each given by UUID or name; the help says what ``{aggregate}`` does."""
    named = "this aggregate, by UUID or its name in nova"
    parser.add_argument(
        flag,
        type=base.read_text,
        metavar="<aggregate>",
        action="append",
        default=[],
        help=help.format(aggregate=named),
    )


def add_selectors(
    command: base.PlacementCommand,
    parser: argparse.ArgumentParser,
    title: str = "all conditions that are given must hold",
) -> None:
    """Add the options that select providers."""
    group = parser.add_argument_group("selection", title)
    add_aggregate_option(group, "Members of {aggregate}. May be repeated for any of several.")
    command.add_option(
        group,
        "--in-tree",
        action=_Once,
        type=base.read_text,
        metavar="<provider>",
        since=microversion.NESTED_PROVIDERS,
        help="The tree of this provider, by name or UUID.",
    )
    _add_capabilities(command, group)
    group.add_argument(
        "--name",
        action=_Once,
        type=base.read_text,
        metavar="<pattern>",
        help="Those whose name fits, such as ``'rack1-*'``.",
    )
    group.add_argument(
        "--providers-file",
        action=_Once,
        type=base.read_text,
        metavar="<file>",
        help="Those listed in this file, a name or UUID in each line, # for comments; - is standard input.",
    )
    group.add_argument("--all", action="store_true", help="All resource providers.")
    group.add_argument("--allow-empty", action="store_true", help="Do not fail if none is selected.")


def _add_capabilities(command: base.PlacementCommand, group: argparse._ArgumentGroup) -> None:
    """Add the options that select by traits and free capacity."""
    command.add_option(
        group,
        "--required",
        type=base.read_text,
        metavar="<trait>",
        action="append",
        default=[],
        since=microversion.LIST_BY_TRAITS,
        help=f"Those with this trait, or with one of A,B (API {microversion.ANY_TRAITS}). May be repeated; "
        "all must hold.",
    )
    command.add_option(
        group,
        "--forbidden",
        type=base.read_trait,
        metavar="<trait>",
        action="append",
        default=[],
        since=microversion.FORBIDDEN_TRAITS,
        help="Those without this trait. May be repeated.",
    )
    command.add_option(
        group,
        "--resource",
        type=base.read_text,
        metavar="<resource_class>=<value>",
        action="append",
        default=[],
        since=microversion.LIST_BY_RESOURCES,
        help="Those with so much of a class free. May be repeated.",
    )


def read_selection(
    parsed_args: argparse.Namespace,
    stdin: TextIO | None,
    aggregates: Iterable[str] | None,
    named: Sequence[str] = (),
) -> Selection:
    """Make the selection of the arguments; raise UsageError if it is none.

    :param aggregates: the UUIDs of the given aggregates, or None to leave these out until their names are
        resolved, see `select_aggregates`
    :param named: the providers that arguments name, in place of a file
    """
    return Selection(
        aggregates=tuple(aggregates or ()),
        in_tree=parsed_args.in_tree,
        required=tuple(parsed_args.required),
        forbidden=tuple(parsed_args.forbidden),
        resources=syntax.parse_amounts(parsed_args.resource, once=True) or None,
        name=parsed_args.name,
        providers=tuple(named) or _read_providers_file(parsed_args.providers_file, stdin),
        everything=parsed_args.all or (aggregates is None and bool(parsed_args.aggregate)),
    )


def select_aggregates(
    selection: Selection, parsed_args: argparse.Namespace, aggregates: Iterable[str]
) -> Selection:
    """Return a selection that was made without the aggregates with them."""
    return replace(selection, aggregates=tuple(aggregates), everything=parsed_args.all)


def _read_providers_file(name: str | None, stdin: TextIO | None) -> tuple[str, ...] | None:
    if name is None:
        return None
    try:
        if name == "-":
            return read_names(stdin or ())
        # a list exported from a spreadsheet may begin with a byte order mark
        return read_names(pathlib.Path(name).read_text("utf-8-sig").splitlines())
    except OSError as error:
        raise PlacementError(f"The file {name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise PlacementError(f"The file {name} cannot be read: it is not text") from None


def read_names(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the providers that a file names, one per line.

    A ``#`` at the start of a line, or behind white space, begins a comment; elsewhere it is part of a name.
    """
    names = (re.sub(r"(^|\s)#.*", "", line, flags=re.DOTALL).strip() for line in lines)
    return tuple(dict.fromkeys(name for name in names if name))


def add_execution(parser: argparse.ArgumentParser, *, is_resume: bool = False) -> None:
    """Add the options for the execution of a plan; a resume takes the defaults of some from its run."""
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="Write nothing; show what would change",
    )
    group.add_argument(
        "--yes",
        action="store_true",
        help="Do not ask for confirmation on the terminal",
    )
    if not is_resume:
        group.add_argument(
            "--atomic",
            action="store_true",
            help="Make all changes in one transaction of the server, or none; servers other than "
            "placement-server can do so for inventories only, and need the right to reshape",
        )
    if is_resume:
        add_concurrency_option(group, default=None, told="that of the run")
    else:
        add_concurrency_option(group)
    group.add_argument(
        "--max-failures",
        metavar="<number>",
        type=or_none(read_count) if is_resume else read_count,
        help="Stop after more failures than this, not counting refusals of the plan"
        f"{'; never with none' if is_resume else ''}; by default "
        f"{'as when the run was started' if is_resume else 'every resource provider is tried'}",
    )
    group.add_argument(
        "--canary",
        metavar="<number>",
        type=read_count,
        default=0,
        help="Change this many first and read them back; continue only if they are as planned",
    )
    group.add_argument(
        "--throttle",
        metavar="<rate>",
        type=or_none(read_rate) if is_resume else read_rate,
        default=None if is_resume else 0.0,
        help=f"Change at most this many a second{', any number with none' if is_resume else ''}; the control "
        "file can change the rate during the run"
        f"{' (default: the rate with which it was started)' if is_resume else ''}",
    )
    group.add_argument(
        "--detailed-exitcode",
        action="store_true",
        help="Exit with 0 if there was nothing to do, and with 2 if something changed or would change",
    )


def add_force(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the option that does what is refused without it; for a plan, see `read_policy`."""
    parser.add_argument("--force", action="store_true", help=help)


def read_policy(parsed_args: argparse.Namespace) -> Policy:
    """Return what the options of a command allow a plan to take away."""
    return Policy.for_operator(force=getattr(parsed_args, "force", False))
