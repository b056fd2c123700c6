# SPDX-License-Identifier: Apache-2.0
"""The program ``placement-migrate``: its commands, the access to the cloud, signals, and how it ends."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib.metadata import EntryPoint
from itertools import takewhile
from typing import Any, Final, cast

from cliff.app import App
from cliff.commandmanager import CommandManager
from keystoneauth1 import exceptions as keystone

from osc_placement.api.client import PlacementClient
from osc_placement.batch import EXIT_INTERRUPTED
from osc_placement.errors import PlacementError, UsageError, advise_on_policy
from osc_placement.migrate.nova.settings import USUAL_TOKEN, Misconfigured, Settings
from osc_placement.migrate.tool import ACCESS, PROGRAM, Tool, explain, failure_status
from osc_placement.package import EXIT_CLOSED_PIPE, ShowVersion, discard, refuse_usage
from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import break_log_lines
from osc_placement.terminal.values import read_seconds

#: the class of each command, which is loaded only when it is used, and what it does
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "mirror-aggregates": ("commands:MirrorCommand", "mirror nova's host aggregates in placement"),
    "status": ("commands:StatusCommand", "say whether the caching scheduler can be left"),
    "heal-allocations": ("commands:HealCommand", "give instances the allocations that they lack"),
    "carry-ratios": ("commands:RatiosCommand", "carry ratios of host aggregates to inventories"),
    "move-baremetal": ("commands:BareMetalCommand", "move bare metal nodes to custom resource classes"),
    "audit": ("commands:AuditCommand", "find orphaned allocations and other differences"),
    "providers": ("commands:ProvidersCommand", "replace duplicated providers, delete stale ones"),
    "decommission": ("commands:DecommissionCommand", "show what holds a host, delete its providers"),
    "flavors": ("commands:FlavorsCommand", "find flavors that fit nowhere, create names"),
    "online_data_migrations": ("commands:OnlineCommand", "run all migrations, in their order"),
    "run list": ("runs:ListRun", "list the runs for this cloud, the oldest first"),
    "run show": ("runs:ShowRun", "show what a run changed"),
    "run resume": ("runs:ResumeRun", "resume a run that was stopped"),
    "run undo": ("runs:UndoRun", "undo a run, except where what it set was changed since"),
    "run delete": ("runs:DeleteRun", "delete the journals of runs"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    return Application().run(list(sys.argv[1:] if arguments is None else arguments))


class Application(App):
    """The application: it finds a command, gives it the access to the cloud, and explains its errors.

    :ivar access: the options that all commands have
    :ivar stop: set by SIGINT and SIGTERM
    :ivar untold: set while something was written that was not printed: the first signal then only sets `stop`
    """

    NAME = PROGRAM
    LOG = logging.getLogger(PROGRAM)

    def __init__(self) -> None:
        super().__init__(None, None, CommandManager())
        # placement-completion knows more, and help is that of the command
        self.command_manager.commands.clear()
        package = __name__.rpartition(".")[0]
        for name, (place, _) in COMMANDS.items():
            self.command_manager.commands[name] = EntryPoint(name, f"{package}.{place}", PROGRAM)
        self.stop, self.untold = threading.Event(), threading.Event()
        self.options = argparse.Namespace(debug=False)
        console = logging.StreamHandler(self.stderr)
        console.setFormatter(logging.Formatter(f"{PROGRAM}: %(message)s"))
        self.LOG.handlers[:] = [console]
        self.LOG.propagate = False
        break_log_lines(PROGRAM)
        # its warnings repeat the error that follows
        logging.getLogger("keystoneauth").setLevel(logging.ERROR)

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: Any = None
    ) -> argparse.ArgumentParser:
        """Return the parser of the options that all commands have; it leaves the others alone."""
        parser = argparse.ArgumentParser(
            prog=PROGRAM,
            usage=f"{PROGRAM} [ACCESS] COMMAND [OPTIONS]",
            description="Bring placement in line with nova. Migrations do not ask; their --dry-run shows "
            "what would change. 'run resume', 'run undo' and 'run delete' ask for confirmation, and on a "
            "terminal 'decommission' with --free or --delete.",
            epilog=f"See '{PROGRAM} COMMAND --help' for the options of a command and its exit statuses.",
            add_help=False,
            # an abbreviation is of an option of the command
            allow_abbrev=False,
        )
        cast(Any, parser).error = partial(refuse_usage, parser)
        _list_commands(parser, COMMANDS)
        parser.add_argument(
            "--version", action=ShowVersion, help="print the version of osc-placement and exit"
        )
        _add_access(parser)
        return parser

    @cached_property
    def settings(self) -> Settings:
        """Return the access to nova and placement that the options give."""
        return Settings(**vars(self.access))

    @property
    def client_manager(self) -> Application:
        """Return where commands of OpenStackClient look for the client of placement."""
        return self

    @cached_property
    def placement(self) -> PlacementClient:
        """Return the client of placement; raise Misconfigured if the settings lead to none."""
        try:
            return self.settings.open_client()
        except UsageError as error:
            raise Misconfigured(str(error)) from error

    def run(self, argv: list[str]) -> int:
        """Run one command and return its exit status; end the process with 2 if the command line is wrong."""
        command, options = self.parse(argv)
        self._stop_on_signals()
        try:
            _ = self.settings  # it refuses what is no address
            return command.run(options)
        except (PlacementError, keystone.ClientException) as error:
            self.LOG.error("%s%s%s", explain(error), advise_on_policy(error), self.hint_at_runs())
            return failure_status(options, error)
        except BrokenPipeError:
            discard(self.stdout)
            return EXIT_CLOSED_PIPE
        except OSError as error:
            discard(self.stdout)
            self.LOG.error("%s%s", printable(str(error)), self.hint_at_runs())
            return failure_status(options, error)
        except KeyboardInterrupt:
            self.LOG.error("interrupted%s", self.hint_at_runs())
            return EXIT_INTERRUPTED

    def parse(self, argv: Sequence[str]) -> tuple[Tool, argparse.Namespace]:
        """Return the command of a command line, with its own options; keep those that all commands have."""
        self.access, words = self.parser.parse_known_args(argv)
        # of two ways to name placement, the address counts
        self.options.cloud = None if self.access.placement_endpoint else self.access.cloud
        command, arguments = self.find_command(words)
        return command, command.get_parser(f"{PROGRAM} {command.cmd_name}").parse_args(arguments)

    def find_command(self, words: list[str]) -> tuple[Tool, list[str]]:
        """Return the command that the words begin with, and its arguments; list commands if that is asked."""
        if words[:1] == ["help"]:
            words = [*words[1:], "--help"]
        given = list(takewhile(lambda word: not word.startswith("-"), words))
        option = words[len(given) : len(given) + 1]
        begun = [name for name in COMMANDS if name.split()[: len(given)] == given]
        if begun and " ".join(given) not in begun:
            if option in (["-h"], ["--help"]):
                self._make_group(given, begun).print_help()
                self.parser.exit()
            what = f"unrecognized arguments: {option[0]}" if option else f"give one of: {', '.join(begun)}"
            self.parser.error(what)
        try:
            kind, name, arguments = self.command_manager.find_command(words)
        except ValueError:
            name = ""
        # cliff takes the beginning of a name for it
        if name not in COMMANDS:
            self.parser.error(f"there is no command {' '.join(given)}")
        return cast(Tool, kind(self, None, cmd_name=name)), arguments

    def _make_group(self, given: Sequence[str], names: Sequence[str]) -> argparse.ArgumentParser:
        """Return the parser whose help lists commands that begin with the same words."""
        if not given:
            return self.parser
        prog = " ".join((PROGRAM, *given))
        parser = argparse.ArgumentParser(prog, f"{prog} ACTION [OPTIONS]", add_help=False, epilog=ACCESS)
        _list_commands(parser, names)
        return parser

    def hint_at_runs(self) -> str:
        """Return where to read what was written, if its result could not be printed."""
        return f"; see {PROGRAM} run list for what was done" if self.untold.is_set() else ""

    def _stop_on_signals(self) -> None:
        """Let SIGINT and SIGTERM end a command: at once, but not before what was written is printed.

        The second of either does not wait for them.
        """

        def ask(_number: int, _frame: object) -> None:
            is_first = not self.stop.is_set()
            self.stop.set()
            if not (is_first and self.untold.is_set()):
                raise KeyboardInterrupt

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, ask)


def _list_commands(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Have a help text list commands."""
    group = parser.add_argument_group("commands")
    # they are no arguments of the parser
    group._group_actions += [
        argparse.Action((), name, metavar=name, help=COMMANDS[name][1]) for name in names
    ]


def _add_access(parser: argparse.ArgumentParser) -> None:
    access = parser.add_argument_group("access to nova and placement")
    access.add_argument(
        "--config-file",
        dest="config_files",
        metavar="<file>",
        action="append",
        default=[],
        help="nova.conf; may be given several times, the last wins (default: where nova looks for it)",
    )
    access.add_argument(
        "--nova-api-db",
        dest="api_database",
        metavar="<url>",
        help="Nova's API database, in place of [api_database]/connection",
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
        "--os-cloud",
        dest="cloud",
        metavar="<cloud>",
        help="A cloud of clouds.yaml, in place of [placement] in nova.conf",
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
        dest="neutron_database",
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
