# SPDX-License-Identifier: Apache-2.0
"""The options about the instance that a request is for, and what nova's scheduler adds to its request.

Which filters of the scheduler are enabled is in nova.conf. Flavors, host aggregates and availability zones
come from the compute API, images from the image API, and names of projects from the identity API. What cannot
be read is unknown, never absent: if an option of the command needs it, the command ends with an error, and if
only nova.conf does, a warning names the filters that are left out.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from osc_placement import microversion
from osc_placement.api.names import require_classes, require_traits, suggest_provider
from osc_placement.candidates.image import UNKNOWN_IMAGE, Image, make_image
from osc_placement.candidates.nova_filters import (
    AGGREGATES_UNREAD,
    NAMES,
    NO_NOVA_CONF,
    NODE_TRAIT,
    READ_AGGREGATES,
    ZONE_KEY,
    Asked,
    Boot,
    HostAggregate,
    Options,
    State,
    ask_filters,
    describe_owner_gap,
    list_applied,
    name_aggregates,
    needs_aggregates,
)
from osc_placement.candidates.request import CandidateRequest
from osc_placement.commands import base
from osc_placement.commands.compute import NoAnswer, read_compute
from osc_placement.commands.flavor import find_flavor
from osc_placement.commands.openstack_api import find_image, find_project
from osc_placement.errors import PlacementError, UsageError
from osc_placement.flavor import Flavor, NoClaim
from osc_placement.model import OWNER_NOVA
from osc_placement.report.flavor import groups_of_flavor
from osc_placement.terminal.screen import is_terminal, tell

#: where nova's services have their configuration
NOVA_CONF: Final = "/etc/nova/nova.conf"
_NO_FLAVOR: Final = Flavor(0, 0, 0)
#: the zone of a host that is in no aggregate of one, which has none either; no zone has a blank name
_NO_ZONE: Final = " "
FILTER_COLUMNS: Final = ("filter", "state", "detail")
#: the options, by their names in the parsed arguments, that ask for filters to be applied
_ASKING: Final = (
    "image",
    "image_property",
    "boot_from_volume",
    "availability_zone",
    "for_project",
    "remote_managed_port",
    "nova_conf",
    "nova_filter",
    "show_nova_filters",
)


#: the settings of --nova-conf
CONF_OPTION: Final[Mapping[str, Any]] = {"type": base.read_text, "metavar": "<file>"}


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What the filters of nova's scheduler read besides the instance.

    :ivar options: None if they are not known
    :ivar source: where the options come from
    :ivar aggregates: the host aggregates, if a filter needs them; None if they cannot be read
    :ivar traits: those that placement knows
    :ivar owner_gap: why nova does not yet require `OWNER_NOVA`; empty if it does
    """

    options: Options | None
    source: str
    aggregates: Sequence[HostAggregate] | None
    traits: frozenset[str]
    owner_gap: str


@dataclass(frozen=True, slots=True)
class NovaRequest:
    """The request of nova's scheduler for an instance.

    :ivar groups: those of the flavor; None without a flavor
    :ivar image_traits: those that the image requires, which are in the groups of a flavor already
    :ivar asked: the state of each filter, in nova's order; empty if none is to be applied
    :ivar source: where the options of the filters come from
    :ivar aggregate_names: the names of host aggregates, by UUID, as far as they were read
    """

    groups: CandidateRequest | None
    image_traits: frozenset[str] = frozenset()
    asked: Sequence[Asked] = ()
    source: str = ""
    aggregate_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def applied(self) -> list[Asked]:
        """Return the filters that ask for something."""
        return list_applied(self.asked)

    def rows(self, *, is_table: bool) -> list[tuple[str, str, str]]:
        """Return a row for each filter; in a table, many aggregates are counted."""

        def name(uuids: Collection[str]) -> str:
            if is_table:
                return name_aggregates(uuids, self.aggregate_names)
            known = sorted(self.aggregate_names.get(uuid, uuid) for uuid in uuids)
            return f"aggregate {' or '.join(known)}"

        return [(one.name, one.state.value, one.describe(name)) for one in self.asked]

    def summary(self) -> str:
        """Return a sentence about the filters; empty if none is to be applied."""
        if not self.asked:
            return ""
        unknown = sum(one.state is State.UNKNOWN for one in self.asked)
        more = f"; {unknown} not known, see --show-nova-filters" if unknown else ""
        return f"{describe_applied(self.source, self.asked)}{more}"


def describe_applied(source: str, asked: Iterable[Asked]) -> str:
    """Return a sentence about the filters that are applied."""
    names = _sort_names(one.name for one in list_applied(asked))
    return f"Filters of nova's scheduler ({source}): {', '.join(names) or 'none'}"


def _sort_names(names: Iterable[str]) -> list[str]:
    """Return the names of filters in nova's order, each once."""
    return sorted(set(names), key=NAMES.index)


def add_nova_options(
    command: base.PlacementCommand, parser: argparse.ArgumentParser, *, in_query: bool, amounts: str
) -> None:
    """Add the options; with ``in_query`` the filters become part of a query, which needs a version.

    :param amounts: the options that a flavor is given in place of
    """

    def add(*flags: str, help: str, **settings: Any) -> None:
        if in_query:
            command.add_option(parser, *flags, since=microversion.ROOT_REQUIRED, help=help, **settings)
        else:
            parser.add_argument(*flags, help=help, **settings)

    add(
        "--flavor",
        type=base.read_text,
        metavar="<flavor>",
        help="Request what nova's scheduler requests for an instance of this flavor of the compute service, "
        f"given by name or ID, in place of {amounts}, and apply its filters.",
    )
    add(
        "--availability-zone",
        type=base.read_text,
        metavar="<zone>",
        help="Apply the filters of nova's scheduler for an instance in this availability zone.",
    )
    add(
        "--for-project",
        type=base.read_text,
        metavar="<project>",
        help="Apply them for an instance of this project, given by name or ID.",
    )
    add(
        "--image",
        type=base.read_text,
        metavar="<image>",
        help="Apply them for an instance of this image of the image service, given by name or ID.",
    )
    add(
        "--image-property",
        type=_read_property,
        action="append",
        default=[],
        metavar="<key>=<value>",
        help="Apply them for an image with this property, or with this disk_format. May be repeated; with "
        "--image it overrides the image's own.",
    )
    add(
        "--boot-from-volume",
        action="store_true",
        help="Apply them for an instance that boots from a volume, which has no root disk.",
    )
    add(
        "--remote-managed-port",
        action="store_true",
        help="Apply them for an instance with a port of the vNIC type remote-managed.",
    )
    usual = f"(default: {NOVA_CONF}, if it can be read)"
    add("--nova-conf", help=f"The nova.conf that says which filters are enabled {usual}.", **CONF_OPTION)
    add(
        "--nova-filter",
        choices=NAMES,
        action="append",
        default=[],
        metavar="<filter>",
        help="Apply this filter of nova's scheduler whatever nova.conf says, such as isolate_aggregates. May "
        "be repeated.",
    )
    add(
        "--no-nova-filters",
        action="store_true",
        help="Apply no filters of nova's scheduler.",
    )
    add(
        "--show-nova-filters",
        action="store_true",
        help="Show the filters of nova's scheduler, whether they are applied and what they ask for, in place "
        "of the result.",
    )


def _read_property(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (separator and key):
        raise argparse.ArgumentTypeError(f"must be of the form key=value, not {text!r}")
    return key, value


def asks_for_nova(parsed_args: argparse.Namespace) -> bool:
    """Return whether an option asks for a request of nova's scheduler; raise UsageError if one denies it."""
    given = [name for name in _ASKING if getattr(parsed_args, name)]
    if parsed_args.no_nova_filters:
        only_filters = set(_ASKING).difference(("image", "image_property", "boot_from_volume"))
        for name in given:
            if name in only_filters:
                raise UsageError(f"--no-nova-filters cannot be used with --{name.replace('_', '-')}")
        if given and not parsed_args.flavor:
            raise UsageError(f"--no-nova-filters with --{given[0].replace('_', '-')} needs a flavor")
        return bool(parsed_args.flavor)
    return bool(given or parsed_args.flavor)


def read_nova_request(
    command: base.PlacementCommand,
    parsed_args: argparse.Namespace,
    required: Collection[str] = (),
) -> NovaRequest:
    """Read what the request of nova's scheduler depends on, and make it.

    ``required`` are the traits that other options require.
    """
    manager = command.app.client_manager
    flavor, groups = _NO_FLAVOR, None
    image = _read_image(manager, parsed_args)
    if parsed_args.flavor is not None:
        document = find_flavor(manager, parsed_args.flavor)
        known = {each["name"] for each in command.client.list_resource_classes()}
        flavor, groups = groups_of_flavor(
            parsed_args.flavor, document, known, image, volume_root=parsed_args.boot_from_volume
        )
    names = {trait for group in groups.groups for trait in group.traits.names} if groups else image.required
    require_traits(command.client, names, in_query=True)
    require_classes(command.client, groups.classes if groups else (), in_query=True)
    if parsed_args.no_nova_filters:
        return NovaRequest(groups, image.required)
    scheduler = read_scheduler(
        command,
        parsed_args.nova_conf,
        forced=parsed_args.nova_filter,
        zone=parsed_args.availability_zone,
        project=parsed_args.for_project,
    )
    boot = Boot(
        flavor,
        (groups.required if groups else image.required).union(required),
        image,
        parsed_args.boot_from_volume,
        find_project(manager, parsed_args.for_project) if parsed_args.for_project else None,
        parsed_args.availability_zone,
        scheduler.traits,
        scheduler.aggregates,
        scheduler.owner_gap,
        parsed_args.remote_managed_port,
    )
    try:
        asked = ask_filters(boot, scheduler.options, parsed_args.nova_filter)
    except NoClaim as error:
        raise PlacementError(f"No host: {error}") from error
    warn_of_unread(command, asked)
    aggregate_names = {aggregate.uuid: aggregate.name for aggregate in scheduler.aggregates or ()}
    request = NovaRequest(groups, image.required, asked, scheduler.source, aggregate_names)
    _require_filter_traits(request, scheduler.traits)
    return request


def read_scheduler(
    command: base.PlacementCommand,
    nova_conf: str | None,
    *,
    forced: Collection[str] = (),
    zone: str | None = None,
    project: str | None = None,
    of_projects: bool = False,
) -> Scheduler:
    """Read what filters of nova's scheduler read besides the instance.

    :param nova_conf: None for that of nova's services
    :param forced: the filters that are on, whatever nova.conf says
    :param of_projects: whether projects are known that no option names
    """
    command.client.require(microversion.FORBIDDEN_TRAITS, "filters of nova's scheduler")
    options, source = _read_filter_options(command, nova_conf)
    forced = READ_AGGREGATES.intersection(forced)
    aggregates: Sequence[HostAggregate] | None = ()
    if zone or needs_aggregates(options, forced, has_project=of_projects or bool(project)):
        aggregates = _read_aggregates(command, forced, zone, project)
    traits = frozenset(command.client.list_traits())
    nodes = without = 0
    if {OWNER_NOVA, NODE_TRAIT}.issubset(traits):
        # below 1.39 only the last of several values counts
        without = len(command.client.list_providers(required=[f"{NODE_TRAIT},!{OWNER_NOVA}"]))
        nodes = without or len(command.client.list_providers(required=[NODE_TRAIT]))
    return Scheduler(options, source, aggregates, traits, describe_owner_gap(traits, nodes, without))


def ask_for_consumer(
    scheduler: Scheduler, project: str | None, traits: frozenset[str], aggregates: Collection[str]
) -> list[Asked]:
    """Return what the filters ask for of a new host of a consumer, as far as its present hosts tell.

    Its flavor and image are not known, but required the traits of the hosts at most. It has a zone of its own
    if there is a default one, and is in it.
    """
    default = scheduler.options and scheduler.options.default_schedule_zone
    zone = None
    if default:
        present = [one for one in scheduler.aggregates or () if one.uuid in aggregates]
        zone = next((one.metadata[ZONE_KEY] for one in present if ZONE_KEY in one.metadata), _NO_ZONE)
    boot = Boot(
        _NO_FLAVOR,
        traits,
        project=project,
        zone=zone,
        traits=scheduler.traits,
        aggregates=scheduler.aggregates,
        owner_gap=scheduler.owner_gap,
    )
    return ask_filters(boot, scheduler.options)


def show_summary(command: base.PlacementCommand, request: NovaRequest) -> None:
    """Print which filters are applied, on a terminal."""
    text = request.summary()
    if text and is_terminal(command.app.stderr):
        tell(command.app.stderr, text)


def _read_image(manager: Any, parsed_args: argparse.Namespace) -> Image:
    if not (parsed_args.image or parsed_args.image_property):
        return UNKNOWN_IMAGE
    own = find_image(manager, parsed_args.image) if parsed_args.image else {}
    try:
        return make_image({**own, **dict(parsed_args.image_property)})
    except NoClaim as error:
        raise PlacementError(f"Nova would refuse the image: {error}") from error


def _read_filter_options(command: base.PlacementCommand, path: str | None) -> tuple[Options | None, str]:
    """Return the options of nova.conf about filters, None if there is no such file, and where they are from.

    Without a path it is that of nova's services; if that cannot be read, a warning says so.
    """
    file = path or NOVA_CONF
    cause: Exception
    try:
        if path is None:
            os.stat(file)
        # PERF: oslo.config is loaded only where there is a nova.conf
        from osc_placement.migrate.nova.scheduler_options import read_options

        return read_options(file, is_usual=path is None), file
    except (FileNotFoundError, NotADirectoryError):
        return None, NO_NOVA_CONF
    except OSError as error:
        problem, cause = f"{file} cannot be read: {error.strerror}", error
    except ImportError as error:
        problem = f"{file} cannot be read: it needs oslo.config ({error})"
        cause = error
    except PlacementError as error:
        problem, cause = str(error), error
    if path is not None:
        raise PlacementError(problem) from cause
    command.warn(f"{problem}; it is not known which filters of nova's scheduler it enables")
    return None, f"{file} not read"


def _read_aggregates(
    command: base.PlacementCommand, forced: Collection[str], zone: str | None, project: str | None
) -> Sequence[HostAggregate] | None:
    """Return the host aggregates; None if they cannot be read and no option needs them."""
    try:
        documents = command.aggregates.documents()
    except NoAnswer as failure:
        if zone or forced or project:
            what = (
                "--availability-zone"
                if zone
                else "--for-project"
                if project
                else f"--nova-filter {min(forced)}"
            )
            raise PlacementError(
                f"{what} needs the host aggregates, which cannot be read from the compute service: "
                f"{failure.reason}"
            ) from failure
        return None
    found = [HostAggregate(each["uuid"], each["name"], each.get("metadata") or {}) for each in documents]
    if zone and not any(each.metadata.get(ZONE_KEY) == zone for each in found):
        _require_zone(command, zone)
    return found


def _require_zone(command: base.PlacementCommand, zone: str) -> None:
    """Raise PlacementError unless the compute service has an availability zone of this name.

    The zone of hosts that are in no other one has no aggregate.
    """
    try:
        document = read_compute(command.app.client_manager, "/os-availability-zone")
        names = [each["zoneName"] for each in document["availabilityZoneInfo"]]
    except NoAnswer as failure:
        raise PlacementError(f"Availability zone {zone!r} cannot be looked up: {failure.reason}") from failure
    except (LookupError, TypeError) as error:
        raise PlacementError(f"Availability zone {zone!r} cannot be looked up") from error
    if zone not in names:
        guess = suggest_provider([zone], names)
        raise PlacementError(
            f"There is no availability zone {zone!r}{guess}; there is {', '.join(names) or 'none'}"
        )


def warn_of_unread(command: base.PlacementCommand, asked: Iterable[Asked]) -> None:
    """Warn of filters that nova.conf enables and that cannot be judged without the host aggregates."""
    unread = {one.name for one in asked if one.reason == AGGREGATES_UNREAD}
    if unread:
        command.warn(
            "The host aggregates cannot be read from the compute service, so hosts that nova's "
            f"{' and '.join(_sort_names(unread))} would remove are not removed"
        )


def _require_filter_traits(request: NovaRequest, known: Collection[str]) -> None:
    """Raise PlacementError if a filter asks for a trait that placement does not know.

    Only one that is on by --nova-filter does.
    """
    for one in request.applied:
        for trait in sorted(one.root.names):
            if trait not in known:
                raise PlacementError(
                    f"Nova's {one.name} asks for the trait {trait}, which the placement service does not "
                    "know, so it would refuse the request"
                )
