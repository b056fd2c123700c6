# SPDX-License-Identifier: Apache-2.0
"""The base of all commands: the client, minimum versions, providers by name, the exit status.

A minimum version is declared once, by its name in microversion.py: ``minimum`` of a command, ``since`` of an
option. The check before the first request and the sentence in the help text are both made from it. Other
versions in a help text are written in its docstring by name too, in braces.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar, Final, cast

from osc_lib.command import command

from osc_placement import microversion
from osc_placement.api.client import Document, PlacementClient
from osc_placement.api.concurrency import map_in_order
from osc_placement.api.names import suggest_provider
from osc_placement.commands.host_aggregate import AggregateNames
from osc_placement.errors import (
    NameNotFound,
    OutcomeUnknown,
    PlacementError,
    UsageError,
    advise_on_policy,
    is_outcome_unknown,
)
from osc_placement.microversion import Version
from osc_placement.model import canonical_uuid, is_uuid
from osc_placement.package import discard, refuse_usage
from osc_placement.state.node import join_mistakes
from osc_placement.terminal.escape import printable_lines
from osc_placement.terminal.screen import break_log_lines, open_output
from osc_placement.terminal.tables import VisibleFormatter, sort_rows

EXIT_USAGE: Final = 2
EXIT_STATUSES = "Exit status: 0 done; 1 not done, the reason is on stderr; 2 the command line is wrong."
#: the name of a version in a docstring, such as ``{CONSUMER_TYPES}``
_VERSION_NAME = re.compile(r"\{([A-Z_]+)\}")
PROVIDER_HELP = "Name or UUID of the resource provider"


class Paragraphs(argparse.HelpFormatter):
    """Mixin of formatters of help texts that keeps the paragraphs of descriptions, which argparse joins.

    One that is a command line can be pasted as it is.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = []
        for part in text.split("\n\n"):
            if part.startswith(("openstack ", "placement-migrate ")):
                lines = textwrap.wrap(part, width - 8, break_long_words=False, break_on_hyphens=False)
                filled.append("  " + " \\\n      ".join(lines))
            else:
                filled.append(super()._fill_text(part, width, indent))
        return "\n\n".join(filled)


class BriefUsage(argparse.HelpFormatter):
    """Mixin of formatters of help texts whose usage has only what a command cannot do without."""

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None,
    ) -> str:
        needed = [action for action in actions if action.required or not action.option_strings]
        self._prog += " [options]"
        return super()._format_usage(usage, needed, (), prefix)


def _format_help(parser: argparse.ArgumentParser) -> str:
    """Return the help of a parser with its groups in the order in which one needs them.

    First the arguments and the groups of the command, then its other options, and those of formatters last.
    """
    arguments, options, *groups = parser._action_groups
    formatters = [each for each in groups if str(each.title).lower().endswith(("formatter", "formatters"))]
    others = [each for each in groups if each not in formatters]
    formatter = parser._get_formatter()
    formatter.add_usage(parser.usage, parser._actions, ())
    formatter.add_text(parser.description)
    for group in (arguments, *others, options, *formatters):
        formatter.start_section(group.title)
        formatter.add_text(group.description)
        formatter.add_arguments(group._group_actions)
        formatter.end_section()
    formatter.add_text(parser.epilog)
    return formatter.format_help()


class PlacementCommand(command.Command):
    """A command that talks to placement."""

    #: the lowest API version in which the command works
    minimum: ClassVar[Version] = microversion.MIN
    #: the meaning of the exit statuses, which ends the help text
    exit_statuses: ClassVar[str] = EXIT_STATUSES
    #: the exit status after all output was written, unless an error ends the command before
    exit_status: int = 0
    #: whether an option was given that makes required options optional
    waives_required: bool = False
    _option_minimums: Mapping[str, Version] = {}
    #: what follows the program in the example of the help; commands of the reference plugin have none, as
    #: scripts may match their usage text
    example: ClassVar[str] = ""
    program: ClassVar[str] = "openstack"
    #: whether OpenStackClient authenticates before the command runs; one that need not has no client
    auth_required = True

    @property
    def client(self) -> PlacementClient:
        """Return the client of this process."""
        return cast(PlacementClient, cast(Any, self.app.client_manager).placement)

    @cached_property
    def aggregates(self) -> AggregateNames:
        """Return the resolver for names of host aggregates; it asks the compute service if it has to."""
        return AggregateNames(self.app.client_manager)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return a parser whose help text has paragraphs, and whose errors are short if they may be."""
        parser = super().get_parser(prog_name)
        known: Any = parser.formatter_class
        mixins = (BriefUsage, Paragraphs) if self.example else (Paragraphs,)
        formatter: Any = type("HelpFormatter", (*mixins, known), {})
        parser.formatter_class = formatter
        if self.example:
            first, *others = (parser.description or "").split("\n\n")
            line = f"{self.program} {self.example}"
            parser.description = "\n\n".join((first, "For example:", line, *others))
            cast(Any, parser).error = partial(refuse_usage, parser)
            cast(Any, parser).format_help = partial(_format_help, parser)
        return parser

    def get_description(self) -> str:
        """Return the docstring with its versions filled in; for one of the reference, the minimum version."""
        description = _VERSION_NAME.sub(
            lambda name: _option_for(getattr(microversion, name[1])), super().get_description()
        )
        return description if self.example else "\n\n".join((description, *self._tell_minimum()))

    def _tell_minimum(self) -> Iterable[str]:
        if self.minimum != microversion.MIN:
            yield f"This command requires at least {_option_for(self.minimum)}."

    def get_epilog(self) -> str:
        """Return the minimum version of a command of ours, the exit statuses and the name of the plugin.

        PERF: cliff finds the name by reading the metadata of all installed distributions, at every start of
        every command, with or without help: 0.1 s.
        """
        hooks = [hook.obj.get_epilog() for hook in self._hooks if hook.obj is not None]
        plugin = "This command is provided by the osc-placement plugin."
        needs = self._tell_minimum() if self.example else ()
        return "\n\n".join(filter(None, (*needs, self.exit_statuses, self._epilog, *hooks, plugin)))

    def add_option(
        self, parser: argparse._ActionsContainer, *flags: str, since: Version, help: str, **settings: Any
    ) -> None:
        """Add an option that works from API version ``since`` on; refuse its use below that."""
        if help != argparse.SUPPRESS:
            needs = (
                f"(API {since})" if self.example else f"This option requires at least {_option_for(since)}."
            )
            help = f"{help} {needs}"
        action = parser.add_argument(*flags, help=help, **settings)
        self._option_minimums = {**self._option_minimums, action.dest: since}

    def check_versions(self, given: Mapping[str, Any]) -> None:
        """Raise VersionTooLow if the command or a given option needs a newer version than the one in use."""
        if self.minimum > microversion.MIN:
            self.client.require(self.minimum)
        for option, since in self._option_minimums.items():
            value = given.get(option)
            # 0 counts as given
            if not (value is None or value is False or value == "" or value == []):
                self.client.require(since, option)

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        """Convert arguments to values, in place; it runs before the first request."""

    def warn(self, text: str) -> None:
        """Log a warning, escaped."""
        self.log.warning("%s", printable_lines(text))

    def act(self, parsed_args: argparse.Namespace) -> int:
        """Do what the arguments say and print the result; return the exit status."""
        return super().run(parsed_args)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Read the arguments, check versions, act and print; return the exit status."""
        self.app.stdout = open_output(self.app.stdout)
        break_log_lines()
        given = dict(vars(parsed_args))
        written = self.client.writes if self.auth_required else 0
        try:
            if self.auth_required and not self.client.negotiates:
                self.check_versions(given)
            self.read_arguments(parsed_args)
            if self.auth_required and self.client.negotiates:
                self.check_versions(given)
            status = self.act(parsed_args) or self.exit_status
            self.app.stdout.flush()
        except BrokenPipeError:
            discard(self.app.stdout)
            raise
        except PlacementError as error:
            # say what is known of the writes
            told = error
            if is_outcome_unknown(error):
                told = OutcomeUnknown(error)
            elif getattr(error, "method", None) == "GET" and self.client.writes > written:
                told = DoneBefore(error)
            text = printable_lines(f"{told}{advise_on_policy(told) if self.example else ''}")
            # OpenStackClient ends a command that raises with 1, as it does those of the reference plugin;
            # with --detailed-exitcode 2 would be read as a change
            if isinstance(error, UsageError) and self.example and not given.get("detailed_exitcode"):
                self.app.LOG.error(text, exc_info=self.app.options.debug)
                return EXIT_USAGE
            if text != str(told):
                told = PlacementError(text)
            if told is error:
                raise
            raise told from error
        return status


def list_unknown(given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names of ``-c`` that are no column, in any of the spellings that cliff takes."""
    return [name for name in given if name.lower().replace(" ", "_") not in known]


def require_columns(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise UsageError if ``-c`` names an unknown column, before anything is written."""
    if unknown := list_unknown(given, known):
        raise UsageError(f"there is no column {' or '.join(unknown)}; the columns are {', '.join(known)}")


class DoneBefore(PlacementError):
    """A command changed something, and could not read afterwards what it shows."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(f"{reason}; but something was changed before that, and stays")


def _produce_visibly(
    command: Any, produce: Callable[..., int], parsed_args: argparse.Namespace, names: Any, data: Any
) -> int:
    command.formatter = VisibleFormatter(command.formatter, parsed_args.formatter, command.app.stdout)
    try:
        return produce(parsed_args, names, data)
    except ValueError as error:
        # cliff raises it if none of the columns of -c is known
        raise PlacementError(str(error)) from error


class Lister(PlacementCommand, command.Lister):
    """The base of commands that print rows."""

    #: cliff does not sort a column with cells that cannot be compared, such as a number and an empty text
    need_sort_by_cliff = False

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the rows; in tables and on terminals, escape control characters."""
        is_descending = parsed_args.sort_direction == "desc"
        data = sort_rows(column_names, data, parsed_args.sort_columns, is_descending=is_descending)
        return _produce_visibly(self, super().produce_output, parsed_args, column_names, data)


class ShowOne(PlacementCommand, command.ShowOne):
    """The base of commands that print one object."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the fields; in tables and on terminals, escape control characters."""
        return _produce_visibly(self, super().produce_output, parsed_args, column_names, data)


class ProviderCommand(PlacementCommand):
    """The base of commands on one resource provider, which is their first argument."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # usage texts have always called it uuid
        parser.add_argument("uuid", metavar="<uuid>", help=PROVIDER_HELP)
        return parser


class RequiredWhen:
    """The value of ``required=`` of an option, computed only when argparse evaluates it.

    That is when the option is missing and when usage is printed. Otherwise the version in use need not be
    known, and negotiated, before the command line is read. Without a cloud, in ``openstack help``, it is 1.0.
    """

    def __init__(
        self, owner: PlacementCommand, test: Callable[[Version], bool], *, asked: bool = False
    ) -> None:
        self._owner = owner
        self._test = test
        self._asked = asked

    def __bool__(self) -> bool:
        if self._owner.waives_required:
            return False
        # a manual is made from the parsers without an application
        manager = getattr(self._owner.app, "client_manager", None)
        if getattr(manager, "session", None) is None:
            return self._test(microversion.MIN)
        client = self._owner.client
        return not (self._asked and client.negotiates) and self._test(client.version)


def required_when(owner: PlacementCommand, test: Callable[[Version], bool], *, asked: bool = False) -> Any:
    """Return a value for ``required=``; with ``asked`` it is true only for versions that were asked for."""
    return RequiredWhen(owner, test, asked=asked)


def waiving(owner: PlacementCommand, kind: type[argparse.Action]) -> type[argparse.Action]:
    """Return a value for ``action=`` of an option that makes those of ``required_when`` optional."""

    class Waiving(kind):  # type: ignore[valid-type, misc]
        def __call__(self, *arguments: Any, **settings: Any) -> None:
            owner.waives_required = True
            super().__call__(*arguments, **settings)

    return Waiving


def resolve_provider(client: PlacementClient, text: str) -> str:
    """Return the UUID of a provider given by its UUID, in any spelling, without a request, or by its name.

    :raises NameNotFound: no provider has the name; it names those that are similar, for one more request
    """
    if is_uuid(text):
        return canonical_uuid(text)
    # the server ignores an empty name as a condition and would return all providers
    providers = client.list_providers(name=text) if text else []
    if not providers:
        known = (provider["name"] for provider in client.list_providers()) if text else ()
        raise NameNotFound(text, suggest_provider([text], known))
    return cast(str, providers[0]["uuid"])


def resolve_providers(client: PlacementClient, texts: Iterable[str]) -> dict[str, str]:
    """Return the UUIDs of providers by their names or UUIDs in a file; tell all that are not found at once.

    :raises PlacementError: some are not found, with a line for each
    """

    def find(text: str) -> str | NameNotFound:
        try:
            return resolve_provider(client, text)
        except NameNotFound as error:
            return error

    names = list(dict.fromkeys(texts))
    found = dict(zip(names, map_in_order(find, names), strict=True))
    if missing := [str(each) for each in found.values() if isinstance(each, NameNotFound)]:
        raise PlacementError(join_mistakes(missing))
    return {text: str(each) for text, each in found.items()}


def require_any_traits(client: PlacementClient, required: Iterable[str]) -> None:
    """Raise VersionTooLow at ``A,B`` (any of several traits) if the version in use does not support it."""
    if any("," in traits for traits in required):
        client.require(microversion.ANY_TRAITS, "required")


def read_text(text: str) -> str:
    """Read a text, as ``type=`` of an option; it must not be empty, as an unset shell variable is."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def read_trait(text: str) -> str:
    """Read one forbidden trait, as ``type=`` of an option; in the API, a comma would start a required one."""
    if "," in text:
        raise argparse.ArgumentTypeError(f"takes one trait, not {text!r}: give it once for each trait")
    return read_text(text)


def version_before_consumer_types(client: PlacementClient) -> Version | None:
    """Return the version for a request that consumer types would change; None for the version in use.

    An operator who asked for 1.38 gets its meaning; with a negotiated version the command does what it always
    did.
    """
    if client.negotiates and client.version >= microversion.CONSUMER_TYPES:
        return microversion.REPARENTING
    return None


def columns_of(item: Document, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the values of some columns; an absent one is empty."""
    return tuple(item.get(column, "") for column in columns)


def _option_for(version: Version) -> str:
    return f"``--os-placement-api-version {version}``"
