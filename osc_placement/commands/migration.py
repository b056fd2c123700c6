# SPDX-License-Identifier: Apache-2.0
"""``openstack placement migration list|check|run``: the migrations of placement-migrate, from nova's API.

Their code is in osc_placement/migrate, which only these commands load.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from osc_placement import microversion
from osc_placement.api.names import suggest
from osc_placement.batch.page import SEE_ALL, Page
from osc_placement.batch.plan import APPLY, EXIT_DONE, EXIT_PARTIAL
from osc_placement.batch.service import Job
from osc_placement.commands import base
from osc_placement.commands.batch_execution import PlanCommand
from osc_placement.commands.batch_options import add_execution
from osc_placement.commands.nova_request import read_filter_options
from osc_placement.commands.watching import WatchedCommand
from osc_placement.errors import PlacementError, UsageError
from osc_placement.terminal.screen import is_terminal, say, screen_of
from osc_placement.terminal.values import add_concurrency_option

if TYPE_CHECKING:
    from osc_placement.migrate.migrations.base import Assessment, Migration
    from osc_placement.migrate.nova.source import BareMetalSource, ImageSource, NetworkSource
    from osc_placement.migrate.problem import Problem

_BARE_METAL: Final = "baremetal"
_NETWORK: Final = "network"
_IMAGE: Final = "image"
_WRITES_GRANTS: Final = "placement-migrate heal-allocations writes it"
_CHECK_COLUMNS: Final = ("name", "to_change", "left_alone", "state")
#: lines of a terminal about what one of the migrations leaves alone, and about what the only one does
_MOST_OF_CHECK: Final = 8
_MOST_OF_RUN: Final = 12
_NAME_HELP: Final = "Name of a migration, as `openstack placement migration list` shows it"


class ListMigration(base.Lister):
    """List the migrations from nova to placement, in the order in which they are to be run."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        import inspect

        rows = []
        for name, migration in _load().BY_NAME.items():
            # the first line of the docstring of its module
            text = inspect.getdoc(inspect.getmodule(type(migration))) or ""
            rows.append((name, text.partition("\n")[0].rstrip(".")))
        return ("name", "description"), rows


class CheckMigration(WatchedCommand, base.Lister):
    """Show what migrations would change, and what they would leave alone and why; change nothing.

    The facts about nova come from its API, which is called as an administrator. The reason why a host or
    instance is left alone is printed on stderr: for each of them, or on a terminal once with their number.
    """

    minimum = microversion.CONSUMER_GENERATIONS
    exit_statuses = (
        "Exit status: 0 there is nothing to do; 1 nothing could be compared, the reason is on "
        "stderr; 2 the command line is wrong; 3 there is something to do, or something is left "
        "alone; 4 something of nova could not be read."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name", metavar="<name>", nargs="*", help=f"{_NAME_HELP}; without one, all are checked"
        )
        add_concurrency_option(parser)
        parser.add_argument(
            "--long",
            action="store_true",
            help="Print a line for each host or instance that is left alone on a terminal too, where those "
            "with the same reason are otherwise counted",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.migrations = _choose(parsed_args.name)
        super().read_arguments(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        from osc_placement.migrate.exit_statuses import exit_status

        rows = []
        stderr = self.app.stderr
        is_short = is_terminal(stderr) and not parsed_args.long
        page = Page(screen_of(stderr).width if is_short else None)
        for migration in parsed_args.migrations:
            assessment = _assess(self, migration, parsed_args.concurrency)
            _tell_problems(self, assessment.problems, page, SEE_ALL, _MOST_OF_CHECK)
            status = exit_status(assessment.problems, None)
            state = "done" if status == EXIT_DONE else "done, except for what is left alone"
            if assessment.plan.changes:
                state, status = "to do", max(status, EXIT_PARTIAL)
            self.exit_status = max(self.exit_status, status)
            left = [each for each in assessment.problems if not each.reason.is_hint]
            numbers = len(assessment.plan.changes), len(left)
            rows.append((migration.name, *numbers, state))
        return _CHECK_COLUMNS, rows


class RunMigration(PlanCommand):
    """Run a migration: compare nova with placement, show the differences, and write them to placement.

    The facts about nova come from its API, which is called as an administrator. If a host or instance cannot
    be migrated, the reason is printed on stderr and the others are migrated; on a terminal, a reason that
    many have is printed once with their number. The run has a journal and can be
    undone, like the run of a batch command.
    """

    minimum = microversion.CONSUMER_GENERATIONS
    exit_statuses = (
        "Exit status: 0 the migration is complete, or the plan was shown; 1 nothing was changed, "
        "the reason is on stderr; 2 the command line is wrong; 3 something failed or was left alone, "
        "the output says what and why; 4 something of nova could not be read, and what depends on it "
        "was left alone; 130 interrupted, the rows say what was done. With --detailed-exitcode, 2 also "
        "says that something changed or would change, and a value that is wrong ends with 1."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help=_NAME_HELP)
        add_execution(parser, with_atomic=False)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        (parsed_args.migration,) = _choose([parsed_args.name])
        super().read_arguments(parsed_args)

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        assessment = _assess(self, parsed_args.migration, parsed_args.concurrency)
        self._problems = assessment.problems
        self.page.names = assessment.names
        is_short = is_terminal(self.app.stderr) and not parsed_args.long
        page = self.page if is_short else Page()
        _tell_problems(self, assessment.problems, page, "(--dry-run --long shows each of them)", _MOST_OF_RUN)
        if assessment.refusal and not self.is_harmless(parsed_args):
            raise PlacementError(f"Nothing was done: {assessment.refusal}")
        return Job(
            assessment.plan,
            f"migration {parsed_args.migration.name}",
            kind=APPLY if assessment.plan.is_staged else "",
            classes=frozenset(assessment.classes),
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        from osc_placement.migrate.exit_statuses import exit_status

        columns, rows = super().take_action(parsed_args)
        if self.exit_status in (EXIT_DONE, EXIT_PARTIAL):
            self.exit_status = exit_status(self._problems, None) or self.exit_status
        return columns, rows


def _load() -> ModuleType:
    """Return the registry of migrations, which needs an extra."""
    try:
        from osc_placement.migrate.migrations import registry
    except ModuleNotFoundError as error:
        raise PlacementError(
            f"Migrations need {error.name}: install it with pip install 'osc-placement[migrate]'"
        ) from error
    return registry


def _choose(names: Iterable[str]) -> list[Migration]:
    """Return the migrations of these names, or all of them; raise UsageError at an unknown name."""
    registry = _load()
    known, wanted = registry.BY_NAME, set(map(registry.current_name, names))
    unknown = sorted(wanted.difference(known))
    if unknown:
        told = f"{', '.join(unknown)}{suggest(unknown, known)}"
        raise UsageError(f"There is no migration {told}; the migrations are {', '.join(known)}")
    return [migration for name, migration in known.items() if not wanted or name in wanted]


def _assess(command: base.PlacementCommand, migration: Migration, concurrency: int) -> Assessment:
    """Compare what the APIs of nova and Ironic return with placement."""
    from keystoneauth1.adapter import Adapter

    from osc_placement.migrate.migrations.base import Context
    from osc_placement.migrate.nova.api_source import ApiSource
    from osc_placement.migrate.nova.glance import GlanceSource
    from osc_placement.migrate.nova.ironic import IronicSource
    from osc_placement.migrate.nova.neutron import NeutronApi
    from osc_placement.migrate.nova.rest import NovaApi, limit_waiting

    manager: Any = command.app.client_manager

    def open_service(service_type: str) -> Adapter:
        return Adapter(
            limit_waiting(manager.session, command.client.timeout),
            service_type=service_type,
            endpoint_override=manager._cli_options.get_endpoint(service_type),
            region_name=manager.region_name,
            interface=manager.interface,
        )

    def open_ironic() -> BareMetalSource:
        return IronicSource(open_service(_BARE_METAL))

    def open_neutron() -> NetworkSource:
        return NeutronApi(open_service(_NETWORK))

    def open_glance() -> ImageSource:
        return GlanceSource(open_service(_IMAGE))

    api = NovaApi(
        manager.session,
        endpoint=manager._cli_options.get_endpoint("compute"),
        region_name=manager.region_name,
        interface=manager.interface,
        timeout=command.client.timeout,
    )
    source = ApiSource(api)
    context = Context(
        lambda: source,
        command.client,
        concurrency,
        open_ironic,
        open_neutron,
        open_glance=open_glance,
        read_scheduler_options=lambda: read_filter_options(command, None),
    )
    return _name_grants(migration.assess(context))


def _name_grants(assessment: Assessment) -> Assessment:
    """Return the assessment with a problem for each binding profile, which these commands do not write."""
    if not assessment.grants:
        return assessment
    from osc_placement.migrate.migrations.port_claims import describe_grant

    known = {
        str(describe_grant(instance, grant)): describe_grant(instance, grant, _WRITES_GRANTS)
        for instance, grants in assessment.grants.items()
        for grant in grants
    }
    others = [each for each in assessment.problems if str(each) not in known]
    return replace(assessment, problems=(*others, *known.values()))


def _tell_problems(
    command: base.PlacementCommand, problems: Sequence[Problem], page: Page, more: str, most: int
) -> None:
    for prefix, is_hint in (("Left alone: ", False), ("", True)):
        found = [(each.subject, each.text) for each in problems if each.reason.is_hint is is_hint]
        say(command.app.stderr, page.complain(found, prefix, more=more, most=most))
