# SPDX-License-Identifier: Apache-2.0
"""What every command shares: the client, minimum versions, providers by name, the exit status.

A minimum version is declared once, by its name in microversion.py: ``minimum`` of a command, ``since`` of an
option. The check before the first request and the sentence in the help text both come from there. Other
versions that a help text names are written in its docstring by name too, in braces.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, TextIO, cast

from osc_lib.command import command

from osc_placement import microversion
from osc_placement.api.client import Document, PlacementClient
from osc_placement.commands.host_aggregate import AggregateNames
from osc_placement.errors import NameNotFound, OutcomeUnknown, PlacementError, is_outcome_unknown
from osc_placement.microversion import Version
from osc_placement.model import canonical_uuid, is_uuid
from osc_placement.terminal.escape import printable_lines
from osc_placement.terminal.tables import VisibleFormatter

EXIT_STATUSES = "Exit status: 0 done; 1 not done, the reason is on stderr; 2 the command line is wrong."
#: ``{CONSUMER_TYPES}`` in a docstring
_VERSION_NAME = re.compile(r"\{([A-Z_]+)\}")
PROVIDER_HELP = "Name or UUID of the resource provider"


class PlacementCommand(command.Command):
    """A command that talks to placement."""

    #: the lowest API version in which the command works
    minimum: ClassVar[Version] = microversion.MIN
    #: what the exit statuses mean; the last words of the help text
    exit_statuses: ClassVar[str] = EXIT_STATUSES
    #: what the process ends with after all output was written, unless an error ends it before
    exit_status: int = 0
    #: whether an option was read that makes required ones optional
    waives_required: bool = False
    _option_minimums: Mapping[str, Version] = {}

    @property
    def client(self) -> PlacementClient:
        """The client of this process."""
        return cast(PlacementClient, cast(Any, self.app.client_manager).placement)

    @cached_property
    def aggregates(self) -> AggregateNames:
        """What turns names of host aggregates into UUIDs; asks the compute service when it has to."""
        return AggregateNames(self.app.client_manager)

    def get_description(self) -> str:
        """Put versions into what the docstring says, and add the minimum."""
        description = _VERSION_NAME.sub(
            lambda name: _option_for(getattr(microversion, name[1])), super().get_description()
        )
        if self.minimum == microversion.MIN:
            return description
        return f"{description}\n\nThis command requires at least {_option_for(self.minimum)}."

    def get_epilog(self) -> str:
        """End the help text with the exit statuses, and with whose command this is.

        PERF: cliff finds that out by reading the metadata of all distributions that are installed, at every
        start of every command, help or not: 0.1 s.
        """
        hooks = [hook.obj.get_epilog() for hook in self._hooks if hook.obj is not None]
        plugin = "This command is provided by the osc-placement plugin."
        return "\n\n".join(filter(None, (self.exit_statuses, self._epilog, *hooks, plugin)))

    def add_option(
        self, parser: argparse._ActionsContainer, *flags: str, since: Version, help: str, **settings: Any
    ) -> None:
        """Add an option that works from API version ``since`` on; its use below that is refused."""
        if help != argparse.SUPPRESS:
            help = f"{help} This option requires at least {_option_for(since)}."
        action = parser.add_argument(*flags, help=help, **settings)
        self._option_minimums = {**self._option_minimums, action.dest: since}

    def check_versions(self, given: Mapping[str, Any]) -> None:
        """Raise VersionTooLow if the command, or an option that was given, is newer than what is in use."""
        if self.minimum > microversion.MIN:
            self.client.require(self.minimum)
        for option, since in self._option_minimums.items():
            if _is_given(given.get(option)):
                self.client.require(since, option)

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        """Turn texts into values, in place; comes before the first request, so that a typo costs nothing."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Read, check versions, act, print, and only then give the exit status."""
        given = dict(vars(parsed_args))
        if not self.client.negotiates:
            self.check_versions(given)
        self.read_arguments(parsed_args)
        if self.client.negotiates:
            self.check_versions(given)
        written = self.client.writes
        try:
            status = super().run(parsed_args) or self.exit_status
            if self.app.stdout is not None:
                self.app.stdout.flush()
        except BrokenPipeError:
            _discard(self.app.stdout)
            raise
        except PlacementError as error:
            told = self._judge_failure(error, written)
            text = str(told)
            if not text.isprintable():
                told = PlacementError(printable_lines(text))
            if told is error:
                raise
            raise told from error
        return status

    def _judge_failure(self, error: PlacementError, written: int) -> PlacementError:
        """Return the error with what is known of the writes; there were ``written`` before the command."""
        if is_outcome_unknown(error):
            return OutcomeUnknown(error)
        if getattr(error, "method", None) == "GET" and self.client.writes > written:
            return DoneBefore(error)
        return error


class DoneBefore(PlacementError):
    """A command changed something, and what it had to read then could not be read."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(f"{reason}; but something was changed before that, and stays")


class Lister(PlacementCommand, command.Lister):
    """A command that prints rows."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the rows; in tables, and on terminals, nothing in them moves the cursor."""
        self.formatter = cast(Any, VisibleFormatter(self.formatter, parsed_args.formatter, self.app.stdout))
        return super().produce_output(parsed_args, column_names, data)


class ShowOne(PlacementCommand, command.ShowOne):
    """A command that prints one object."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the fields; in tables, and on terminals, nothing in them moves the cursor."""
        self.formatter = cast(Any, VisibleFormatter(self.formatter, parsed_args.formatter, self.app.stdout))
        return super().produce_output(parsed_args, column_names, data)


class RequiredWhen:
    """Whether an option must be given, found out only when argparse needs to know.

    That is when the option is missing and when usage is printed; otherwise the version in use need not be
    known (and asked for) before the command line is read. Without a cloud, in ``openstack help``, it is 1.0.
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
        # without an application, too, where a manual is made of the parsers
        manager = getattr(self._owner.app, "client_manager", None)
        if getattr(manager, "session", None) is None:
            return self._test(microversion.MIN)
        client = self._owner.client
        return not (self._asked and client.negotiates) and self._test(client.version)


def required_when(owner: PlacementCommand, test: Callable[[Version], bool], *, asked: bool = False) -> Any:
    """A value for ``required=``; with ``asked`` it holds only for versions the operator asked for."""
    return RequiredWhen(owner, test, asked=asked)


def waiving(owner: PlacementCommand, kind: type[argparse.Action]) -> type[argparse.Action]:
    """A value for ``action=`` of an option with which those of ``required_when`` may be left out."""

    class Waiving(kind):  # type: ignore[valid-type, misc]
        def __call__(self, *arguments: Any, **settings: Any) -> None:
            owner.waives_required = True
            super().__call__(*arguments, **settings)

    return Waiving


def add_provider_argument(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument that names a provider; ``uuid``, as scripts know it from usage texts."""
    parser.add_argument("uuid", metavar="<uuid>", help=PROVIDER_HELP)


def resolve_provider(client: PlacementClient, text: str) -> str:
    """Turn the name of a provider, or any spelling of its UUID, into its UUID, which costs no request."""
    if is_uuid(text):
        return canonical_uuid(text)
    # to the server an empty name is no condition: it would answer with all providers
    providers = client.list_providers(name=text) if text else []
    if not providers:
        raise NameNotFound(text)
    return cast(str, providers[0]["uuid"])


def require_any_traits(client: PlacementClient, required: Iterable[str]) -> None:
    """Raise VersionTooLow at ``A,B``, any of several traits, where the version in use has none of it."""
    if any("," in traits for traits in required):
        client.require(microversion.ANY_TRAITS, "required")


def read_text(text: str) -> str:
    """Read what must not be empty, as ``type=`` of an option: as a variable that is not set would have it."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def read_trait(text: str) -> str:
    """Read a forbidden trait, as ``type=`` of an option: the API requires those that follow a comma."""
    if "," in text:
        raise argparse.ArgumentTypeError(f"takes one trait, not {text!r}: give it once for each trait")
    return read_text(text)


def version_before_consumer_types(client: PlacementClient) -> Version | None:
    """The version for a request whose meaning consumer types would change; None for the version in use.

    An operator who asked for 1.38 means it; one whose client negotiated it wants what the command always did.
    """
    if client.negotiates and client.version >= microversion.CONSUMER_TYPES:
        return microversion.REPARENTING
    return None


def columns_of(item: Document, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of some columns; an absent one is empty."""
    return tuple(item.get(column, "") for column in columns)


def _is_given(value: object) -> bool:
    """Whether an option has more than its default; 0 counts."""
    return not (value is None or value is False or value == "" or value == [])


def _discard(stream: TextIO) -> None:
    """Send what is not written yet to nowhere, or the interpreter complains about it at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _option_for(version: Version) -> str:
    return f"``--os-placement-api-version {version}``"
