# SPDX-License-Identifier: Apache-2.0
"""The console script ``placement-migrate``: parses the command line, calls a command, explains its errors."""

from __future__ import annotations

import argparse
import copy
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from keystoneauth1 import exceptions as keystone

from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch import EXIT_INTERRUPTED
from osc_placement.candidates.nova_filters import NAMES
from osc_placement.errors import PlacementError, UsageError, advise_on_policy
from osc_placement.migrate import commands
from osc_placement.migrate.exit_statuses import failure_status
from osc_placement.migrate.migrations.flavors import MOST_UNUSED
from osc_placement.migrate.nova.facts import STUCK_AFTER
from osc_placement.migrate.nova.notifications import TOPIC
from osc_placement.migrate.nova.settings import USUAL_TOKEN, Settings
from osc_placement.migrate.nova.shard import WHOLE, read_shard
from osc_placement.migrate.output import explain
from osc_placement.migrate.runner import Execution
from osc_placement.package import EXIT_CLOSED_PIPE, BriefParser, ShowVersion, discard
from osc_placement.report.runs import (
    add_choice,
    add_delete_options,
    add_failed_only_option,
    add_force_option,
    add_list_options,
    check_choice,
    check_deletion,
)
from osc_placement.terminal.escape import printable
from osc_placement.terminal.live import add_watch_option, check_watch
from osc_placement.terminal.screen import wrap_for
from osc_placement.terminal.values import (
    OtherName,
    add_concurrency_option,
    read_age,
    read_percent,
    read_positive,
    read_rate,
    read_seconds,
)

Subparsers = Any


class _Parser(BriefParser):
    """A parser, and parsers of commands; an abbreviation means what their help shows, if it can."""

    def _get_option_tuples(self, option_string: str) -> Any:
        found = super()._get_option_tuples(option_string)
        shown = [each for each in found if each[0].help != argparse.SUPPRESS]
        return shown or found


EXIT_STATUSES: Final = (
    "Exit status: 0 all is as it should be, or the plan was shown; 1 nothing was done, the reason is on "
    "stderr; 2 the command line is wrong; 3 something failed or was left alone, the output says what and "
    "why; 4 something of nova, glance or Ironic could not be read, and what depends on it was left alone; "
    "130 interrupted."
)
NOVA_EXIT_STATUSES: Final = (
    f"{EXIT_STATUSES} With --nova-exit-codes those of nova-manage, see the documentation."
)
_RUN_HELP: Final = "ID of a run, or its beginning (see: placement-migrate run list)"
_ACCESS: Final = "access to nova and placement"
_ACCESS_NOTE: Final = (
    "--config-file, --neutron-db and the other options that 'placement-migrate --help' explains; they can "
    "stand before or after the command."
)
#: where the values of --config-file after a command, and after an action of a command, are kept
_LATER_FILES: Final = ("command_config_file", "action_config_file")
#: the options that need --follow
_OF_FOLLOW: Final = ("interval", "notifications", "notifications_topic")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = parse(arguments)
    # its warnings repeat the error that follows
    logging.getLogger("keystoneauth").setLevel(logging.ERROR)
    execution = Execution(
        concurrency=getattr(options, "concurrency", CONCURRENCY),
        rate=getattr(options, "throttle", 0.0),
        max_count=getattr(options, "max_count", None),
        max_failures=getattr(options, "max_failures", None),
    )
    _stop_on_signals(execution)
    try:
        settings = Settings(
            config_files=tuple(options.config_file),
            api_database=options.nova_api_db,
            cloud=options.os_cloud,
            placement_endpoint=options.placement_endpoint,
            placement_token=options.placement_token,
            ironic_endpoint=options.ironic_endpoint,
            neutron_database=options.neutron_db,
            is_neutron_database_written=getattr(options, "write_neutron_db", False),
            neutron_endpoint=options.neutron_endpoint,
            glance_endpoint=options.glance_endpoint,
            source=options.source,
            nova_endpoint=options.nova_endpoint,
            nova_token=options.nova_token,
            timeout=options.timeout,
        )
        command = commands.Command(settings, execution, options)
        is_watched = getattr(options, "watch", None) is not None
        status: int = commands.watch(command) if is_watched else options.act(command)
        print(end="", flush=True)
    except (PlacementError, keystone.ClientException) as error:
        text = f"placement-migrate: {explain(error)}{advise_on_policy(error)}"
        print(*wrap_for(sys.stderr, text), sep="\n", file=sys.stderr)
        return failure_status(options, error)
    except BrokenPipeError:
        discard(sys.stdout)
        return EXIT_CLOSED_PIPE
    except OSError as error:
        discard(sys.stdout)
        print(f"placement-migrate: {printable(str(error))}{_hint_at_runs(execution)}", file=sys.stderr)
        return failure_status(options, error)
    except KeyboardInterrupt:
        print(f"placement-migrate: interrupted{_hint_at_runs(execution)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return status


def _hint_at_runs(execution: Execution) -> str:
    """Return where to read what was written, if its result could not be printed."""
    return "; see placement-migrate run list for what was done" if execution.untold.is_set() else ""


def _stop_on_signals(execution: Execution) -> None:
    """Let SIGINT and SIGTERM end a command: at once, but not before what was written is printed.

    The second of either does not wait for them.
    """

    def ask(_number: int, _frame: object) -> None:
        is_first = not execution.stop.is_set()
        execution.stop.set()
        if not (is_first and execution.untold.is_set()):
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line; end the process with 2 if it is wrong."""
    options = make_parser().parse_args(arguments)
    parser = options.parser
    options.config_file = [
        path for dest in ("config_file", *_LATER_FILES) for path in getattr(options, dest, [])
    ]
    stray = [name for name in _OF_FOLLOW if getattr(options, name, None) is not None]
    if stray and not options.follow:
        parser.error(f"--{stray[0].replace('_', '-')} can be used with --follow only")
    if getattr(options, "write_neutron_db", False):
        if not options.neutron_db:
            parser.error("--write-neutron-db needs --neutron-db, which names the database to write to")
        if getattr(options, "skip_port_allocations", False):
            parser.error(
                "--write-neutron-db cannot be used with --skip-port-allocations, which leaves ports alone"
            )
    try:
        if getattr(options, "watch", None) is not None:
            check_watch(options.format, sys.stdout)
        if check := getattr(options, "check", None):
            check(options)
    except UsageError as error:
        parser.error(str(error))
    return options


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line of ``placement-migrate``."""
    parser: argparse.ArgumentParser = _Parser(
        prog="placement-migrate",
        description="Bring placement in line with nova. Only 'run undo', 'run delete' and "
        "'decommission' with --free or --delete ask for confirmation, on a terminal; --dry-run of the "
        "migrations shows what would change.",
        epilog=EXIT_STATUSES,
    )
    parser.add_argument("--version", action=ShowVersion, help="print the version of osc-placement and exit")
    access = _add_access(parser)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_aggregates(subparsers)
    _add_status(subparsers)
    _add_allocations(subparsers)
    _add_ratios(subparsers)
    _add_baremetal(subparsers)
    _add_audit(subparsers)
    _add_providers(subparsers)
    _add_decommission(subparsers)
    _add_flavors(subparsers)
    _add_online_data_migrations(subparsers)
    _add_runs(subparsers)
    for command in subparsers.choices.values():
        _accept_access(command, access, *_LATER_FILES)
    return parser


def _add_access(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    access = parser.add_argument_group(_ACCESS)
    access.add_argument(
        "--config-file",
        metavar="<file>",
        action="append",
        default=[],
        help="nova.conf; may be given several times, the last wins (default: where nova looks for it)",
    )
    access.add_argument(
        "--nova-api-db", metavar="<url>", help="Nova's API database, in place of [api_database]/connection"
    )
    access.add_argument(
        "--source",
        choices=("db", "api"),
        default="db",
        help="Where nova's facts come from: its databases (default), or its REST API",
    )
    access.add_argument(
        "--nova-endpoint",
        metavar="<url>",
        help="With --source api: nova's API itself, in place of that in the service catalog",
    )
    access.add_argument(
        "--nova-token", metavar="<token>", default=USUAL_TOKEN, help="The token for --nova-endpoint"
    )
    access.add_argument(
        "--os-cloud", metavar="<cloud>", help="A cloud of clouds.yaml, in place of [placement] in nova.conf"
    )
    access.add_argument(
        "--placement-endpoint", metavar="<url>", help="Placement itself, in place of [placement] in nova.conf"
    )
    access.add_argument(
        "--placement-token",
        metavar="<token>",
        default=USUAL_TOKEN,
        help="The token for --placement-endpoint",
    )
    access.add_argument(
        "--ironic-endpoint",
        metavar="<url>",
        help="Ironic itself, in place of [ironic] in nova.conf; without --os-cloud requests have no token",
    )
    access.add_argument(
        "--neutron-db",
        metavar="<url>",
        help="Neutron's database as the source of ports that ask for resources, in place of neutron's API",
    )
    access.add_argument(
        "--neutron-endpoint",
        metavar="<url>",
        help="Neutron itself, in place of [neutron] in nova.conf; without --os-cloud requests have no token",
    )
    access.add_argument(
        "--glance-endpoint",
        metavar="<url>",
        help="Glance itself, in place of the one in the service catalog; without --os-cloud requests have "
        "no token",
    )
    access.add_argument(
        "--timeout",
        metavar="<seconds>",
        type=read_seconds,
        help="How long to wait for each answer of placement, nova's API, neutron, glance or Ironic (default: "
        "600, or what timeout says in [placement], [neutron] and [ironic])",
    )
    return access


def list_access(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the options of access to nova and placement, with their help; `make_parser` made the parser."""
    actions = next(group for group in parser._action_groups if group.title == _ACCESS)._group_actions
    return {option: action.help or "" for action in actions for option in action.option_strings}


def _accept_access(
    parser: argparse.ArgumentParser, access: argparse._ArgumentGroup, files: str, *inner_files: str
) -> None:
    """Let a command accept the options of access, too, which count more there than before the command.

    :param files: where the values of --config-file are kept, which a command would otherwise replace
    :param inner_files: the same for the actions of the command
    """
    parser.set_defaults(parser=parser)
    group = parser.add_argument_group(access.title, _ACCESS_NOTE)
    for known in access._group_actions:
        option = copy.copy(known)
        option.default = option.help = argparse.SUPPRESS
        if option.dest == "config_file":
            option.dest = files
        group._add_action(option)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _accept_access(inner, access, *inner_files)


def _add_execution(parser: argparse.ArgumentParser, *, nova_exit_codes: bool = False) -> None:
    execution = parser.add_argument_group("execution")
    execution.add_argument("--dry-run", action="store_true", help="Show what would be done, and do nothing")
    _add_number(execution, "--max-count", "Change at most this many")
    _add_number(
        execution,
        "--max-failures",
        "Stop after more failures than these, not counting what is refused before it is tried",
    )
    _add_throttle(execution)
    _add_concurrency(execution)
    _add_format(parser)
    if nova_exit_codes:
        parser.add_argument(
            "--nova-exit-codes", action="store_true", help="End with the exit codes of nova-manage"
        )


def _add_number(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    parser.add_argument(name, metavar="<number>", type=read_positive, help=text)


def _add_throttle(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--throttle", metavar="<rate>", type=read_rate, default=0.0, help="Writes a second at most"
    )
    parser.add_argument("--rate", action=OtherName, name="--throttle")


def _add_skip_ports(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--skip-port-allocations", action="store_true", help=text)


def _add_write_neutron(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--write-neutron-db",
        action="store_true",
        help="With --neutron-db: write the binding profiles of ports to that database, without binding the "
        "ports anew as neutron's API does",
    )


def _add_concurrency(parser: argparse._ActionsContainer) -> None:
    add_concurrency_option(parser, read_positive)
    parser.add_argument(
        "--shard",
        metavar="<I/N>",
        type=read_shard,
        default=WHOLE,
        help="Only part I of N of the hosts, so that N processes share the work",
    )


def _add_format(parser: argparse.ArgumentParser) -> None:
    _add_format_alone(parser)
    parser.add_argument(
        "--long",
        action="store_true",
        help="Show each change and each problem on a terminal too, where many are otherwise counted; JSON, "
        "files and pipes always get all of them",
    )


def _add_format_alone(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table", help="How to print")


def _add_repeatable(parser: argparse._ActionsContainer, name: str, metavar: str, text: str) -> None:
    parser.add_argument(name, metavar=metavar, action="append", default=[], help=f"{text}; may be repeated")


def _add_aggregates(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "mirror-aggregates",
        help="mirror nova's host aggregates to aggregates of resource providers",
        description="Put the resource provider of every compute node into the aggregates of its host. "
        "A problem of one host does not stop the others.",
        epilog=NOVA_EXIT_STATUSES,
    )
    _add_repeatable(parser, "--host", "<host>", "Only this host")
    _add_repeatable(parser, "--aggregate", "<aggregate>", "Only this host aggregate, by name or UUID")
    parser.add_argument(
        "--prune",
        action="store_true",
        help="Take providers out of nova's aggregates that their hosts are not in",
    )
    parser.add_argument(
        "--prune-foreign",
        action="store_true",
        help="Like --prune, and take them out of aggregates that nova does not know, too",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="Continue to mirror changes until SIGINT or SIGTERM; then the exit status is 0",
    )
    parser.add_argument(
        "--interval",
        metavar="<seconds>",
        type=read_seconds,
        help=f"With --follow: seconds between two comparisons (default: {commands.INTERVAL:g})",
    )
    parser.add_argument(
        "--notifications",
        metavar="<url>",
        nargs="?",
        const="",
        help="With --follow: compare also as soon as nova notifies of a change; the URL is that of the "
        "message broker (default: the one in nova.conf)",
    )
    parser.add_argument(
        "--notifications-topic",
        metavar="<topic>",
        help=f"With --follow: the topic of nova's versioned notifications (default: {TOPIC})",
    )
    _add_execution(parser, nova_exit_codes=True)
    parser.set_defaults(act=commands.mirror_aggregates, nova_failure=255)


def _add_status(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "status",
        help="say whether the caching scheduler can be left",
        description="Compare what every instance holds with what nova's scheduler would claim for it. To "
        "leave the caching scheduler, run this, then carry-ratios and heal-allocations, each with --dry-run "
        "first, and then this again.",
        epilog="Exit status: 0 the caching scheduler can be left, 3 it cannot yet, 4 unknown, as "
        "something of nova could not be read, 1 nothing could be compared, 2 the command line is wrong.",
    )
    _add_skip_ports(parser, "Do not read neutron, and say that ports are not judged")
    _add_concurrency(parser)
    _add_format(parser)
    add_watch_option(parser)
    parser.set_defaults(act=commands.show_status, title="placement-migrate status")


def _add_allocations(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "heal-allocations",
        help="give instances without allocations those that nova's scheduler would have made",
        description="Make the allocations of instances that hold nothing, from their embedded flavors. "
        "Then compare again, and say in one sentence whether that was all.",
        epilog=NOVA_EXIT_STATUSES,
    )
    _add_repeatable(parser, "--instance", "<uuid>", "Only this instance")
    _add_repeatable(parser, "--host", "<host>", "Only on this host")
    _add_repeatable(parser, "--cell", "<cell>", "Only in this cell, by UUID or name; not with --instance")
    parser.add_argument(
        "--force",
        action="store_true",
        help="Correct wrong amounts too, of instances that are in no task and not moving",
    )
    _add_skip_ports(parser, "Do not read neutron, and leave what ports ask for alone")
    _add_write_neutron(parser)
    _add_execution(parser, nova_exit_codes=True)
    parser.set_defaults(act=commands.heal_allocations, nova_failure=255, nova_invalid=127)


def _add_ratios(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "carry-ratios",
        help="carry allocation ratios from the metadata of host aggregates to the inventories",
        description="Set the allocation ratios that host aggregates have in cpu_allocation_ratio, "
        "ram_allocation_ratio and disk_allocation_ratio on the inventories of their hosts.",
        epilog=EXIT_STATUSES,
    )
    _add_repeatable(parser, "--host", "<host>", "Only this host")
    parser.add_argument(
        "--conflict", choices=("min", "max"), help="The ratio to use where the aggregates of a host disagree"
    )
    parser.add_argument(
        "--allow-overcommitted",
        action="store_true",
        help="Set ratios even if they leave less than is allocated",
    )
    _add_execution(parser)
    parser.set_defaults(act=commands.carry_ratios)


def _add_baremetal(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "move-baremetal",
        help="move bare metal nodes from sizes to their custom resource classes",
        description="Give the provider of every node of Ironic its resource class, move what its instance "
        "holds to it, and remove the inventories of VCPU, MEMORY_MB and DISK_GB that no consumer holds. "
        "Flavors that still ask for sizes are listed with the command that corrects each.",
        epilog=EXIT_STATUSES,
    )
    _add_repeatable(parser, "--host", "<host>", "Only of this host")
    _add_repeatable(parser, "--node", "<node>", "Only this node, by its UUID in Ironic")
    _add_execution(parser)
    parser.set_defaults(act=commands.move_baremetal)


def _add_online_data_migrations(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "online_data_migrations",
        help="run mirror-aggregates, carry-ratios, move-baremetal and heal-allocations, in this order",
        description="Run mirror-aggregates, carry-ratios, move-baremetal and heal-allocations, in "
        "this order. It may be stopped and repeated at any time: what is done already is not done again.",
        epilog="Exit status, as nova-manage's: 0 nothing is left to do; 1 more is left for the next run; 2 "
        "some could not be done, and no more can; 130 interrupted; 255 nothing was done, the reason is on "
        "stderr.",
    )
    _add_write_neutron(parser)
    _add_number(parser, "--max-count", "Change at most this many, in all")
    _add_throttle(parser)
    _add_concurrency(parser)
    _add_format(parser)
    parser.set_defaults(act=commands.run_all, nova_exit_codes=True, nova_failure=255)


def _add_audit(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "audit",
        help="find orphaned allocations, and other differences between nova and placement",
        description="Find allocations that belong to no instance and no migration of nova, or are on a host "
        "that their instance is not on; and whatever else differs. Nothing is removed unless --delete is "
        "given and all of nova can be read.",
        epilog=NOVA_EXIT_STATUSES,
    )
    parser.add_argument("--delete", action="store_true", help="Remove the orphaned allocations")
    _add_repeatable(
        parser,
        "--resource-provider",
        "<provider>",
        "Remove only what is held of this provider, by name or UUID",
    )
    parser.add_argument(
        "--max-removals",
        metavar="<number>",
        type=read_positive,
        help="Remove from so many consumers at most, or from none (default: 5, or a tenth of all consumers "
        "if that is more)",
    )
    parser.add_argument(
        "--stuck-after",
        metavar="<seconds>",
        type=read_age,
        default=STUCK_AFTER,
        help="Report an instance on no host that nova has been building, or has had in a task, for longer "
        f"than this (default: {STUCK_AFTER:g})",
    )
    _add_skip_ports(parser, "Do not read neutron, and say that ports are not judged")
    _add_execution(parser, nova_exit_codes=True)
    parser.set_defaults(act=commands.audit, nova_failure=1, nova_invalid=127)


def _add_providers(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "providers",
        help="replace providers of hosts that have another UUID in nova, and delete stale ones",
        description="Find resource providers of hosts that no compute node of nova has: duplicated after a "
        "reinstallation, stale because the host is gone, or still in use. Nothing is changed unless --repair "
        "or --delete is given and all of nova can be read.",
        epilog=EXIT_STATUSES,
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="Replace each duplicated provider by that of the compute node, and move its allocations; the "
        "compute service of its host has to be disabled",
    )
    parser.add_argument(
        "--delete", action="store_true", help="Delete stale providers, of which nothing is held"
    )
    _add_repeatable(parser, "--resource-provider", "<provider>", "Only this provider, by name or UUID")
    _add_number(
        parser,
        "--max-removals",
        "Delete so many stale providers at most, or none (default: 5, or a tenth of those of hosts if "
        "that is more)",
    )
    parser.add_argument("--dry-run", action="store_true", help="Show what would be done, and do nothing")
    _add_number(parser, "--max-count", "Replace at most this many")
    _add_throttle(parser)
    _add_concurrency(parser)
    _add_format(parser)
    parser.set_defaults(act=commands.providers)


def _add_decommission(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "decommission",
        help="show what still holds a host that is to be removed, and delete its providers",
        description="Show what still holds a host, in the order in which it is to be removed. --free removes "
        "what evacuated, moved and ended consumers still hold of it. If nothing else does, --delete deletes "
        "the resource providers that are left of it.",
        epilog=EXIT_STATUSES,
    )
    parser.add_argument("host", metavar="<host>", help="Name of the host, as nova has it")
    parser.add_argument(
        "--free",
        action="store_true",
        help="Remove the orphaned allocations of the host, if its nova-compute is not up; with --delete, its "
        "providers are deleted afterwards also if nova still has its service",
    )
    parser.add_argument(
        "--delete", action="store_true", help="Delete the resource providers of the host if nothing holds it"
    )
    parser.add_argument("--dry-run", action="store_true", help="Show what would be done, and do nothing")
    _add_yes(parser)
    _add_throttle(parser)
    add_concurrency_option(parser, read_positive)
    _add_format(parser)
    parser.set_defaults(act=commands.decommission_host)


def _add_flavors(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "flavors",
        help="find flavors whose instances no host can take, and create the names they lack in placement",
        description="Find the traits and resource classes that flavors, images and host aggregates ask for "
        "and placement does not know, extra specs that nova ignores, flavors that fit on no host, or on none "
        "that the request filters of nova's scheduler leave, and flavors that leave a large part of a host "
        "unused. Nothing is changed unless --create is given.",
        epilog=EXIT_STATUSES,
    )
    parser.add_argument(
        "--create", action="store_true", help="Create the custom traits and resource classes that are missing"
    )
    _add_repeatable(parser, "--name", "<name>", "Create only this trait or resource class")
    _add_repeatable(
        parser,
        "--flavor",
        "<flavor>",
        "Compare only this flavor, by name or ID, and no images and host aggregates",
    )
    parser.add_argument(
        "--max-unused",
        metavar="<percent>",
        type=read_percent,
        default=MOST_UNUSED,
        help="Report a flavor that leaves more than this part of a class of a host unused (default: "
        f"{MOST_UNUSED})",
    )
    parser.add_argument(
        "--nova-filter",
        choices=NAMES,
        action="append",
        default=[],
        metavar="<filter>",
        help="Apply this filter of nova's scheduler whatever nova.conf says, such as isolate_aggregates; may "
        "be repeated",
    )
    parser.add_argument(
        "--no-nova-filters",
        action="store_true",
        help="Apply no filters of nova's scheduler, so that hosts which they remove count",
    )
    execution = parser.add_argument_group("execution")
    execution.add_argument("--dry-run", action="store_true", help="Show what would be done, and do nothing")
    _add_number(execution, "--max-count", "Create at most this many")
    _add_number(execution, "--max-failures", "Stop after more failures than these")
    _add_throttle(execution)
    add_concurrency_option(execution, read_positive)
    _add_format(parser)
    parser.set_defaults(act=commands.flavors)


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yes",
        action="store_true",
        help="Do not ask for confirmation, which is asked for only where there is a terminal",
    )


def _add_runs(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "run",
        help="list, show, resume, undo and delete runs",
        description="Runs of migrations and batches, from their journals.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    action = actions.add_parser("list", help="list the runs for this cloud, the oldest first")
    add_list_options(action)
    _add_format_alone(action)
    action.set_defaults(act=commands.list_runs)
    action = actions.add_parser("show", help="show what a run changed")
    add_choice(action, _RUN_HELP)
    add_failed_only_option(action)
    _add_format(action)
    add_watch_option(action)
    action.set_defaults(act=commands.show_run, title="placement-migrate run show", check=check_choice)
    action = actions.add_parser("resume", help="resume a run that was stopped")
    add_choice(action, _RUN_HELP)
    _add_format(action)
    action.set_defaults(act=commands.resume_run, check=check_choice)
    action = actions.add_parser("undo", help="undo a run, except where what it set was changed since")
    add_choice(action, _RUN_HELP)
    add_force_option(action)
    _add_yes(action)
    _add_format(action)
    action.set_defaults(act=commands.undo_run, check=check_choice)
    action = actions.add_parser("delete", help="delete the journals of runs")
    add_delete_options(action, _RUN_HELP)
    _add_yes(action)
    action.set_defaults(act=commands.delete_runs, check=check_deletion)
