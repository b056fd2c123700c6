# SPDX-License-Identifier: Apache-2.0
"""``openstack trait list|show|create|delete`` and the ``openstack resource provider trait`` commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from osc_placement import microversion, syntax
from osc_placement.api.client import PlacementClient
from osc_placement.api.names import require_traits
from osc_placement.api.retry import retry
from osc_placement.batch import find_managed
from osc_placement.commands import base
from osc_placement.errors import BadRequest, PlacementError
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.screen import tell

COLUMNS = ("name",)


class _OneTrait(base.PlacementCommand):
    """A command on the trait that its argument names."""

    minimum = microversion.TRAITS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="Name of the trait")
        return parser


class ListTrait(base.Lister):
    """List traits, standard and custom."""

    minimum = microversion.TRAITS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--name",
            metavar="<name>",
            help="Traits whose name starts with a text (``startswith:CUSTOM_``) or is in a list "
            "(in:HW_CPU_X86_AVX,HW_CPU_X86_SSE)",
        )
        parser.add_argument("--associated", action="store_true", help="Traits that some provider has")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        traits = self.client.list_traits(
            name=parsed_args.name or None, associated=parsed_args.associated or None
        )
        return COLUMNS, [[trait] for trait in traits]


class ShowTrait(_OneTrait, base.ShowOne):
    """Show a trait; the command fails if it does not exist."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        self.client.show_trait(parsed_args.name)
        return COLUMNS, [parsed_args.name]


class CreateTrait(_OneTrait):
    """Create a custom trait unless it exists: ``CUSTOM_`` and upper-case letters, digits or underscores."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.create_trait(parsed_args.name)


class DeleteTrait(_OneTrait):
    """Delete a custom trait that no provider has."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.delete_trait(parsed_args.name)


class ListResourceProviderTrait(base.ProviderCommand, base.Lister):
    """List the traits of a resource provider."""

    minimum = microversion.TRAITS

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        return COLUMNS, [[trait] for trait in self.client.list_provider_traits(uuid)["traits"]]


class _DropTraits(ConfirmedCommand, base.ProviderCommand):
    """A command that removes traits that it does not name.

    The reference plugin's scripts must run on, so without a terminal to ask on it only warns.
    """

    minimum = microversion.TRAITS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--yes",
            action="store_true",
            help="Remove traits that nova-compute reports (OWNER_NOVA, COMPUTE_*, HW_*) without a warning, "
            "and on a terminal without confirmation",
        )
        return parser

    def agree(self, parsed_args: argparse.Namespace, uuid: str, kept: Iterable[str] = ()) -> None:
        """Name the traits of a provider that it loses and nova-compute reports; on a terminal, ask.

        Where traits may be written and not read, the write goes on as without this question.
        """
        if parsed_args.yes:
            return
        try:
            current = self.client.list_provider_traits(uuid)["traits"]
        except PlacementError:  # the write says what is wrong with it, as that of the reference plugin
            return
        names = sorted(find_managed(set(current).difference(kept)))
        if not names:
            return
        told = f"Warning: {parsed_args.uuid} loses traits that nova-compute reports: {', '.join(names)}"
        tell(self.app.stderr, told)
        if self.is_attended():
            self.confirm("Remove them?")


class SetResourceProviderTrait(_DropTraits, base.Lister):
    """Replace the traits of a resource provider; traits that are not named are removed.

    If nova-compute reports one of them (OWNER_NOVA, COMPUTE_*, HW_*), a warning names them, and on a terminal
    the command asks for confirmation. ``trait add`` and ``trait remove`` keep what is not named.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--trait",
            metavar="<trait>",
            help="Name of a trait. May be repeated.",
            default=[],
            action="append",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        generation = self.client.show_provider(uuid)["generation"]
        # a change after this request is a conflict of the write
        self.agree(parsed_args, uuid, parsed_args.trait)
        document = self.client.set_provider_traits(uuid, parsed_args.trait, generation)
        return COLUMNS, [[trait] for trait in document["traits"]]


class _AmendTraits(base.ProviderCommand, base.Lister):
    """A command that changes some of the traits of a resource provider."""

    minimum = microversion.TRAITS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("traits", metavar="<trait>", nargs="+", help="Name of a trait")
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.traits = syntax.parse_traits(parsed_args.traits)

    def amend(self, current: frozenset[str], named: frozenset[str]) -> frozenset[str]:
        """Return the traits that the provider is to have."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        try:
            traits = retry(
                lambda _attempt: amend_traits(
                    self.client, uuid, lambda current: self.amend(current, parsed_args.traits)
                )
            )
        except BadRequest:
            require_traits(self.client, parsed_args.traits)
            raise
        return COLUMNS, [[trait] for trait in sorted(traits)]


def amend_traits(
    client: PlacementClient, uuid: str, amend: Callable[[frozenset[str]], frozenset[str]]
) -> frozenset[str]:
    """Change the traits of a provider; write them only if they differ."""
    document = client.list_provider_traits(uuid)
    current = frozenset(document["traits"])
    wanted = amend(current)
    if wanted != current:
        client.set_provider_traits(uuid, sorted(wanted), document["resource_provider_generation"])
    return wanted


class AddResourceProviderTrait(_AmendTraits):
    """Add traits to a resource provider, which keeps its others, also those that others add meanwhile."""

    example = "resource provider trait add compute-1 CUSTOM_GOLD"

    def amend(self, current: frozenset[str], named: frozenset[str]) -> frozenset[str]:
        return current | named


class RemoveResourceProviderTrait(_AmendTraits):
    """Remove traits from a resource provider, which keeps its others; it may lack them already."""

    example = "resource provider trait remove compute-1 CUSTOM_GOLD"

    def amend(self, current: frozenset[str], named: frozenset[str]) -> frozenset[str]:
        return current - named


class DeleteResourceProviderTrait(_DropTraits):
    """Remove all traits from a resource provider, even if somebody else changes them at the same time.

    If nova-compute reports one of them (OWNER_NOVA, COMPUTE_*, HW_*), a warning names them, and on a terminal
    the command asks for confirmation.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        uuid = base.resolve_provider(self.client, parsed_args.uuid)
        self.agree(parsed_args, uuid)
        self.client.delete_provider_traits(uuid)
