# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider config generate|lint|drift|prune``: nova's provider configuration files."""

from __future__ import annotations

import argparse
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from osc_placement import batch, microversion, syntax
from osc_placement.batch import Job, Reading, Selection, guard
from osc_placement.candidates.node import SHARING_TRAIT
from osc_placement.commands import base
from osc_placement.commands.batch_execution import PlanCommand, TextLister
from osc_placement.commands.batch_options import add_execution, add_selectors, read_policy, read_selection
from osc_placement.commands.fitted import FittedLister
from osc_placement.commands.input_file import STANDARD_STREAM, name_source, read_file
from osc_placement.commands.reading import show_reading
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import Provider
from osc_placement.provider_config import compare
from osc_placement.provider_config.compare import COMPUTE_NODE_TRAIT, Drift, Location, Resolved, State
from osc_placement.provider_config.document import COMPUTE_NODE, Level, Problem, format_file
from osc_placement.provider_config.files import (
    DEFAULT_LOCATION,
    list_problems,
    read_locations,
    require_good,
)
from osc_placement.provider_config.generate import (
    generate,
    held_from_document,
    held_from_records,
    name_files,
)
from osc_placement.provider_config.ownership import Held, Kind, find_lasting
from osc_placement.provider_config.prune import FACETS, Evidence, hold, plan_prune
from osc_placement.report.read import read_cloud
from osc_placement.state.selection import NoTreeSelected, select_document
from osc_placement.state.selection import Selection as TreeSelection
from osc_placement.state.text import parse_text
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import count_lines, count_providers, count_things, fit
from osc_placement.terminal.progress import ProgressBar
from osc_placement.terminal.screen import say, screen_of, tell
from osc_placement.terminal.values import add_concurrency_option
from osc_placement.whole_file import replace_file

_EXIT_WARNINGS: Final = 3
_EXIT_ERRORS: Final = 4
_EXIT_DRIFT: Final = 3
#: how many lines of problems a terminal shows
_MOST_LINES: Final = 50
_MOST_WARNINGS: Final = 8

_LINT_COLUMNS: Final = ("file", "line", "level", "problem")
_DRIFT_COLUMNS: Final = (
    "provider",
    "uuid",
    "kind",
    "item",
    "state",
    "in_file",
    "in_placement",
    "reported_by",
    "file",
    "line",
)


class _OfflineCommand(base.PlacementCommand):
    """The base of commands that need a cloud only with some arguments."""

    auth_required = False
    minimum = microversion.NESTED_PROVIDERS

    def connect(self, parsed_args: argparse.Namespace) -> None:
        """Authenticate, and check the versions of the command and its options."""
        self.auth_required = True
        cast(Any, self.app).prepare_to_run_command(self)
        # the base class checks a negotiated version after the arguments were read
        if not self.client.negotiates:
            self.check_versions(vars(parsed_args))


class GenerateConfig(_OfflineCommand):
    """Write provider configuration files with the custom traits and inventories that hosts have.

    A file of nova (``[compute]provider_config_location``) names the traits and inventories that nova-compute
    adds to those of its driver. The file has an entry for each provider of the selected trees that has custom
    traits or inventories. What another part of OpenStack is known to report is left out: classes and traits
    of bare metal nodes, of devices of PCI in placement, of vGPUs and persistent memory, of neutron, Cyborg
    and Blazar. So are inventories of providers that are no roots or have MISC_SHARES_VIA_AGGREGATE: nova's
    updates fail if a file names them.

    It writes one file for all hosts, or with ``--directory`` one for each host.
    """

    example = "resource provider config generate --name compute-1 -o compute-1.yaml"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        where = parser.add_mutually_exclusive_group()
        where.add_argument(
            "-o",
            "--output",
            metavar="<file>",
            default=STANDARD_STREAM,
            help="File to write, which is replaced if it exists; - for standard output (default: -)",
        )
        where.add_argument(
            "--directory",
            type=base.read_text,
            metavar="<directory>",
            help="Write a file for each host to this directory, named after the host; files of the same name "
            "are replaced",
        )
        parser.add_argument(
            "--identify",
            choices=("name", "uuid"),
            default="name",
            help="How entries identify resource providers (default: name)",
        )
        parser.add_argument(
            "--compute-node",
            action="store_true",
            help="Identify roots with the trait COMPUTE_NODE by $COMPUTE_NODE, so that a file holds for the "
            "host that it is on; with several hosts it needs --directory, which then has one for each",
        )
        parser.add_argument(
            "--state",
            type=base.read_text,
            metavar="<file>",
            help="Read no cloud but a file that ``resource provider export`` wrote; - for standard input. Of "
            "the conditions, --name and --aggregate select trees of it",
        )
        add_selectors(
            self,
            parser,
            "which resource providers, with their whole trees; all given conditions must hold (default: all)",
        )
        add_concurrency_option(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.state is None:
            self.connect(parsed_args)
            base.require_any_traits(self.client, parsed_args.required)
            return
        others = ("in_tree", "required", "forbidden", "resource", "providers_file")
        given = [f"--{name.replace('_', '-')}" for name in others if getattr(parsed_args, name)]
        if given:
            raise UsageError(f"{' and '.join(given)} cannot be used with --state; --name and --aggregate can")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        providers = self._read_providers(parsed_args)
        found = generate(providers, parsed_args.identify, compute_node=parsed_args.compute_node)
        if found.left_out:
            told = ", ".join(f"{number:,} of {owner}" for owner, number in sorted(found.left_out.items()))
            tell(self.app.stderr, f"Left out, as others report them: {told}")
        if found.lasting:
            told = ", ".join(
                f"{count_things(number, 'inventory')} of {whose}"
                for whose, number in sorted(found.lasting.items())
            )
            tell(self.app.stderr, f"Left out, as nova's updates would fail: {told}")
        if not found.hosts:
            tell(self.app.stderr, "No custom trait or inventory is left for a file; nothing was written")
            return
        told = count_providers(sum(map(len, found.hosts.values())))
        if parsed_args.directory is None:
            chosen = [entry for entries in found.hosts.values() for entry in entries]
            nodes = sum(entry.key == COMPUTE_NODE for entry in chosen)
            if nodes > 1:
                raise UsageError(
                    f"{COMPUTE_NODE} can stand in a file once, and there are {nodes:,} compute nodes; give "
                    "--directory to write a file for each of them"
                )
            text = format_file(chosen)
            if parsed_args.output == STANDARD_STREAM:
                self.app.stdout.write(text)
                return
            replace_file(parsed_args.output, [text])
            tell(self.app.stderr, f"Wrote {told} to {parsed_args.output}")
            return
        uuids = {held.root: held.uuid for held in providers if held.is_root}
        directory = pathlib.Path(parsed_args.directory)
        for written, (host, name) in enumerate(name_files(found.hosts, uuids).items()):
            _write(directory / name, format_file(found.hosts[host]), written)
        files = count_things(len(found.hosts), "file")
        tell(self.app.stderr, f"Wrote {told} to {files} in {parsed_args.directory}")

    def _read_providers(self, parsed_args: argparse.Namespace) -> list[Held]:
        if parsed_args.state is not None:
            source = name_source(parsed_args.state)
            document = parse_text(read_file(parsed_args.state, source), source)
            names = (parsed_args.name,) if parsed_args.name else ()
            for aggregate in parsed_args.aggregate:
                syntax.parse_aggregates([aggregate])
            trees = TreeSelection(names, frozenset(parsed_args.aggregate))
            part = select_document(trees, document)
            if trees and not part.providers:
                raise NoTreeSelected(trees, "of the file")
            return held_from_document(part)
        selection = _read_selection(self, parsed_args)
        roots = None
        if selection.has_conditions:
            chosen = batch.select_providers(self.client, selection, allow_empty=parsed_args.allow_empty)
            roots = {provider.root_provider_uuid or provider.uuid for provider in chosen}
        with show_reading(self.app.stderr, parsed_args.concurrency) as reading:
            cloud = read_cloud(self.client, ("inventories", "traits"), roots=roots, reading=reading)
        return held_from_records(cloud.records.values())


def _write(path: pathlib.Path, text: str, written: int) -> None:
    """Write a file and the directories above it; an error says how many were written before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(path), [text])
    except (OSError, PlacementError) as error:
        what = error if isinstance(error, PlacementError) else f"{path} cannot be written: {error.strerror}"
        before = f"{written:,} files were written before" if written else "nothing was written"
        raise PlacementError(f"{what}; {before}") from error


def _read_selection(command: base.PlacementCommand, parsed_args: argparse.Namespace) -> Selection:
    """Return the selection of the options, which is everything if there are none."""
    given = argparse.Namespace(**{**vars(parsed_args), "all": True})
    aggregates = command.aggregates.resolve(parsed_args.aggregate)
    selection = read_selection(given, command.app.stdin, aggregates)
    if selection.in_tree:
        return replace(selection, in_tree=base.resolve_provider(command.client, selection.in_tree))
    return selection


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="<file>",
        nargs="*",
        default=[DEFAULT_LOCATION],
        help="File, or directory whose ``*.yaml`` nova reads together, or directory with such a directory "
        "for each host, named after the root provider; - is standard input. Single files count as those "
        f"of one directory (default: {DEFAULT_LOCATION})",
    )


def _read_files(names: Sequence[str]) -> tuple[Location, ...]:
    return read_locations(names, partial(read_file, STANDARD_STREAM, name_source(STANDARD_STREAM)))


def _resolve(
    command: base.PlacementCommand,
    locations: Iterable[Location],
    providers: Sequence[Provider],
    *,
    own_trees: bool = False,
) -> Resolved:
    """Find the providers that files identify, see `compare.resolve`; $COMPUTE_NODE costs a request."""
    locations = tuple(locations)
    nodes: frozenset[str] = frozenset()
    if any(entry.key == COMPUTE_NODE for location in locations for entry in location.entries):
        nodes = _find_with(command, COMPUTE_NODE_TRAIT)
    return compare.resolve(locations, providers, nodes, own_trees=own_trees)


def _find_with(command: base.PlacementCommand, trait: str) -> frozenset[str]:
    """Return the UUIDs of the providers with a trait; raise VersionTooLow if placement cannot be asked."""
    command.client.require(microversion.LIST_BY_TRAITS)
    return frozenset(each["uuid"] for each in command.client.list_providers(required=[trait]))


class LintConfig(_OfflineCommand, TextLister):
    """Check provider configuration files by the rules of nova, without a cloud.

    Each problem is a line with the file and the line in it. A file with an error is one that nova refuses, so
    that nova-compute does not start. A warning is about a file that nova loads, but which does not do what it
    says, because nova ignores a part of it or placement refuses the inventory.

    With ``--check-placement``, resource providers, traits and resource classes are looked up in placement.
    """

    example = "resource provider config lint /etc/nova/provider_config/gpus.yaml"
    exit_statuses = (
        "Exit status: 0 no problems; 1 not done, the reason is on stderr; 2 the command line is wrong; "
        "3 there are warnings; 4 there are errors."
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_files(parser)
        parser.add_argument(
            "--check-placement",
            action="store_true",
            help="Also warn of resource providers, traits and resource classes that placement does not have",
        )
        parser.add_argument("--errors-only", action="store_true", help="Show no warnings, and ignore them")
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.locations = _read_files(parsed_args.file)
        if parsed_args.check_placement:
            self.connect(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        locations: tuple[Location, ...] = parsed_args.locations
        problems = list_problems(locations)
        if parsed_args.check_placement:
            problems += self._ask_placement(locations)
        problems.sort(key=lambda problem: (problem.source, problem.line or 0))
        if parsed_args.errors_only:
            problems = [problem for problem in problems if problem.level is Level.ERROR]
        numbers = Counter(problem.level for problem in problems)
        if problems:
            self.exit_status = _EXIT_ERRORS if numbers[Level.ERROR] else _EXIT_WARNINGS
        if parsed_args.formatter == self.formatter_default and not parsed_args.columns:
            self.text = self._describe(locations, problems, numbers)
        rows = [(each.source, each.line, str(each.level), each.text) for each in problems]
        return _LINT_COLUMNS, rows

    def _describe(
        self, locations: Iterable[Location], problems: Sequence[Problem], numbers: Mapping[Level, int]
    ) -> list[str]:
        """Return a line for each problem, on a terminal not all of them, and the totals."""
        files = sum(len(location.files) for location in locations)
        entries = sum(1 for location in locations for _ in location.entries)
        counts = [count_things(numbers[level], level) for level in Level if numbers.get(level)]
        total = f"{count_things(files, 'file')}, {count_things(entries, 'entry')}"
        # each is one line, for editors that read these from their terminal
        lines = [printable(str(problem)) for problem in problems]
        width = screen_of(self.app.stdout).width
        if width is not None and count_lines(lines, width) > _MOST_LINES:
            shown = lines[:_MOST_LINES]
            while count_lines(shown, width) >= _MOST_LINES:
                shown.pop()
            more = f"... and {len(lines) - len(shown):,} more problems; -f csv | less shows all"
            lines = [*shown, more]
        return [*lines, f"{total}: {', '.join(counts) or 'no problems'}"]

    def _ask_placement(self, locations: Sequence[Location]) -> list[Problem]:
        """Return the problems that only placement tells."""
        providers = [Provider.from_json(document) for document in self.client.list_providers()]
        resolved = _resolve(self, locations, providers)
        problems = list(resolved.everything)
        # inventories with which nova's updates fail, as the provider keeps them
        by_uuid = {provider.uuid: provider for provider in providers}
        named = [
            (by_uuid[uuid], entry)
            for uuid, entries in resolved.entries.items()
            for entry in entries
            if entry.inventories
        ]
        sharing = _find_with(self, SHARING_TRAIT) if named else frozenset()
        for provider, entry in named:
            traits = (SHARING_TRAIT,) if provider.uuid in sharing else ()
            whose = find_lasting(provider.parent_provider_uuid is None, traits)
            for name in entry.inventories if whose else ():
                text = f"{whose} keep {name}, and nova-compute fails at each update once it is there"
                problems.append(Problem(entry.source, entry.find_line(name), Level.WARNING, text))
        known: Mapping[Kind, frozenset[str]] = {
            "trait": frozenset(self.client.list_traits()),
            "inventory": frozenset(each["name"] for each in self.client.list_resource_classes()),
        }
        for location in locations:
            for entry in location.entries:
                for kind, name in compare.list_items(entry):
                    if name not in known[kind]:
                        what = "trait" if kind == "trait" else "resource class"
                        text = f"placement does not know the {what} {name}; nova-compute will create it"
                        line = entry.find_line(name)
                        problems.append(Problem(entry.source, line, Level.WARNING, text))
        return problems


@dataclass(frozen=True, slots=True)
class _Targets:
    """The providers that a command is about, and the entries that identify them.

    :ivar everything: all providers
    :ivar earlier: what earlier files identify
    """

    providers: Sequence[Provider]
    everything: Sequence[Provider]
    selection: Selection
    resolved: Resolved
    earlier: Resolved

    @property
    def names(self) -> Mapping[str, str]:
        """Return the names of all providers, by UUID."""
        return {provider.uuid: provider.name for provider in self.everything}


class _ComparingCommand(base.PlacementCommand):
    """The base of commands that compare files with providers."""

    minimum = microversion.NESTED_PROVIDERS

    def add_files_and_selectors(self, parser: argparse.ArgumentParser) -> None:
        """Add the files, and the conditions that restrict the providers."""
        _add_files(parser)
        parser.add_argument(
            "--unidentified",
            action="store_true",
            help="Include selected resource providers that no file identifies; needs a condition or --all",
        )
        add_selectors(
            self,
            parser,
            "which of the resource providers that the files identify; all given conditions must hold "
            "(default: all of them, but $COMPUTE_NODE in files of no known host needs a condition or --all)",
        )

    def check_versions(self, given: Mapping[str, Any]) -> None:
        super().check_versions(given)
        base.require_any_traits(self.client, given["required"])

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.locations = _read_files(parsed_args.file)
        require_good(parsed_args.locations)
        super().read_arguments(parsed_args)

    def find_targets(self, parsed_args: argparse.Namespace, earlier: Sequence[Location] = ()) -> _Targets:
        """Return the providers that the files identify, or earlier files, and the conditions select."""
        selection = _read_selection(self, parsed_args)
        if parsed_args.unidentified and not (selection.has_conditions or parsed_args.all):
            raise UsageError(
                "--unidentified needs a condition, such as --name or --aggregate; --all is all there are"
            )
        if not (selection.has_conditions or parsed_args.all):
            # nothing tells for which host these files are
            unplaced = (each for each in (*parsed_args.locations, *earlier) if each.host is None)
            for entry in (entry for location in unplaced for entry in location.entries):
                if entry.key == COMPUTE_NODE:
                    raise UsageError(
                        f"{entry.source}:{entry.line}: {COMPUTE_NODE} is the host that has the file, and "
                        "nothing tells which one that is; give a condition, such as --name, or --all if all "
                        "compute nodes have the file, or a directory with a directory for each host"
                    )
        providers = [Provider.from_json(document) for document in self.client.list_providers()]
        resolved = _resolve(self, parsed_args.locations, providers)
        before = _resolve(self, earlier, providers, own_trees=True)
        identified = {*resolved.entries, *before.entries}
        chosen = providers
        if selection.has_conditions:
            chosen = batch.select_providers(self.client, selection, allow_empty=parsed_args.allow_empty)
        if not parsed_args.unidentified:
            chosen = [provider for provider in chosen if provider.uuid in identified]
        if not chosen and not parsed_args.allow_empty and not resolved.missing:
            raise PlacementError(
                "The files identify none of the selected resource providers; see what there is with: "
                "openstack resource provider list"
            )
        chosen = sorted(chosen, key=lambda provider: (provider.name, provider.uuid))
        return _Targets(chosen, providers, selection, resolved, before)

    def complain(self, problems: Iterable[Problem]) -> None:
        """Say what nova ignores in the files, and which entries mean no provider or one of another entry."""
        stream = self.app.stderr
        if stream is None:
            return
        lines = [printable(str(problem)) for problem in problems]
        width = screen_of(stream).width
        if width is not None:
            lines = fit(lines, _MOST_WARNINGS, width, "more; see: openstack resource provider config lint")
        say(stream, lines)

    def read_targets(self, targets: _Targets, concurrency: int) -> list[Reading]:
        """Read the inventories and traits of the providers."""
        with ProgressBar("Reading", len(targets.providers), self.app.stderr) as progress:
            return batch.read_again(
                self.client,
                targets.providers,
                FACETS,
                concurrency=concurrency,
                on_reading=progress.advance,
            )


class ShowDrift(_ComparingCommand, FittedLister):
    """Show how provider configuration files and placement differ.

    For each resource provider that the files identify: traits and inventories that a file names and placement
    does not have, inventories whose fields differ, and custom traits and inventories that no file names. What
    another part of OpenStack is known to report is not shown without ``--with-others``: see
    ``openstack resource provider config generate``. Fields that a file leaves out have placement's defaults.
    """

    example = "resource provider config drift /etc/nova/provider_config/gpus.yaml"
    exit_statuses = (
        "Exit status: 0 nothing differs; 1 not done, the reason is on stderr; 2 the command line is wrong; 3 "
        "something differs."
    )
    fits_height = True
    droppable: Sequence[str] = ("uuid", "line", "file", "kind", "reported_by")
    #: how many providers were compared
    _compared = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--with-others",
            action="store_true",
            help="Also show custom traits and inventories that another part of OpenStack is known to report",
        )
        self.add_files_and_selectors(parser)
        add_concurrency_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        targets = self.find_targets(parsed_args)
        found = [
            Drift(
                entry.key,
                "",
                "provider",
                entry.key,
                State.NO_PROVIDER,
                compare.PRESENT,
                source=entry.source,
                line=entry.line,
            )
            for entry, _problem in targets.resolved.missing
        ]
        self.complain([*list_problems(parsed_args.locations), *targets.resolved.problems])
        names = targets.names
        for reading in self.read_targets(targets, parsed_args.concurrency):
            if reading.state is None or not isinstance(reading.subject, Provider):
                raise reading.error or PlacementError(f"{reading.subject.uuid} could not be read")
            held = hold(reading.subject, reading.state, names)
            found += compare.compare(held, targets.resolved.entries.get(reading.subject.uuid, ()))
        differing = [each for each in found if not each.owner]
        if differing or targets.resolved.problems:
            self.exit_status = _EXIT_DRIFT
        shown = found if parsed_args.with_others else differing
        self._compared = len(targets.providers)
        return _DRIFT_COLUMNS, [
            (
                each.provider,
                each.uuid,
                each.kind,
                each.item,
                str(each.state),
                each.file,
                each.placement,
                each.owner,
                each.source,
                each.line,
            )
            for each in shown
        ]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        if data or parsed_args.formatter != self.formatter_default:
            return super().produce_output(parsed_args, column_names, data)
        tell(self.app.stdout, f"Nothing differs: {count_providers(self._compared)}")
        return 0


class PruneConfig(_ComparingCommand, PlanCommand):
    """Remove custom traits and inventories that provider configuration files do not name any more.

    nova-compute adds what the files name, and never removes a trait that they do not name any more. A custom
    trait that no file names may also have been set by an operator, for instance to isolate an aggregate, and
    nothing in placement tells. Therefore only that is removed which ``--previous`` files named for the same
    resource provider, or which ``--trait`` and ``--resource-class`` name; with ``--all-custom`` everything
    that nova reports and nothing else is known to report. All else is left alone and counted.

    Restart nova-compute with the new files first: it adds again what the files named that it has read.
    Inventories in use are refused. It is a run: openstack resource provider batch run list, show, resume and
    undo take it.
    """

    example = "resource provider config prune gpus.yaml --previous gpus.yaml.old --dry-run"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        group = parser.add_argument_group("what to remove", "of the custom names that no file names")
        group.add_argument(
            "--previous",
            metavar="<file>",
            action="append",
            default=[],
            help="File or directory as it was before; what it names is removed where no file names it now. "
            "May be repeated",
        )
        group.add_argument(
            "--trait",
            metavar="<trait>",
            action="append",
            default=[],
            help="Remove this trait. May be repeated",
        )
        group.add_argument(
            "--resource-class",
            metavar="<resource_class>",
            action="append",
            default=[],
            help="Remove inventories of this class. May be repeated",
        )
        group.add_argument(
            "--all-custom",
            action="store_true",
            help="Remove every custom trait and inventory of resource providers with OWNER_NOVA that no "
            "other part of OpenStack is known to report, those that an operator set on nova's hosts included",
        )
        self.add_files_and_selectors(parser)
        add_execution(parser)
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        for option, names in (
            ("--trait", parsed_args.trait),
            ("--resource-class", parsed_args.resource_class),
        ):
            for name in names:
                if not syntax.NAME.fullmatch(name) or not name.startswith("CUSTOM_"):
                    raise UsageError(f"{option} takes a name that starts with CUSTOM_, not {name!r}")
        super().read_arguments(parsed_args)
        parsed_args.earlier = _read_files(parsed_args.previous) if parsed_args.previous else ()
        require_good(parsed_args.earlier)

    def prepare(self, parsed_args: argparse.Namespace) -> Job:
        targets = self.find_targets(parsed_args, parsed_args.earlier)
        read = (*parsed_args.locations, *parsed_args.earlier)
        self.complain([*list_problems(read), *targets.resolved.everything])
        evidence = Evidence(
            targets.earlier.entries,
            frozenset(
                [("trait", name) for name in parsed_args.trait]
                + [("inventory", name) for name in parsed_args.resource_class]
            ),
            parsed_args.all_custom,
        )
        readings = self.read_targets(targets, parsed_args.concurrency)
        plan = plan_prune(readings, targets.resolved.entries, evidence, _describe(parsed_args), targets.names)
        gone = [
            step
            for step in plan.changes
            if step.uuid in targets.earlier.entries and step.uuid not in targets.resolved.entries
        ]
        if gone:
            verb = "is" if len(gone) == 1 else "are"
            warning = (
                f"{count_providers(len(gone))}, such as {gone[0].subject.name}, {verb} "
                "identified by earlier files only; give all files that there are now"
            )
            plan = replace(plan, warnings=(warning, *plan.warnings))
        if targets.selection.has_conditions:
            plan = replace(plan, selection=targets.selection)
        policy = read_policy(parsed_args)
        plan = guard(self.client, plan, policy, readings, concurrency=parsed_args.concurrency)
        return Job(plan, f"identified by {' '.join(map(name_source, parsed_args.file))}")


def _describe(parsed_args: argparse.Namespace) -> str:
    """Return a prune in the words of the command line, without its files."""
    words = [f"--previous {name}" for name in parsed_args.previous]
    words += [f"--trait {name}" for name in parsed_args.trait]
    words += [f"--resource-class {name}" for name in parsed_args.resource_class]
    return " ".join(["config prune", *words, *(["--all-custom"] if parsed_args.all_custom else [])])
