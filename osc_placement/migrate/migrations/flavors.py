# SPDX-License-Identifier: Apache-2.0
"""Compare what flavors, images and host aggregates ask for with what placement knows and has.

Finds traits and resource classes that placement does not know: one of them makes placement refuse every
request of a flavor. The custom ones are the plan, which creates them; others cannot be created. Reports extra
specs that nova ignores, requests that nova or placement refuses, flavors that fit on no host or on none at
present, and flavors that leave a large part of a host unused (candidates/flavor_fit.py).

The hosts on which a flavor fits are those that the request filters of nova's scheduler leave. What these read
of an instance is not known, and is not guessed: see `Filters`.

Never touches flavors, images, aggregates and providers, and never deletes a name. What an image asks for is
judged by its names only: which flavor it will be booted with is not known.

Placement is read before nova, so a name that is created meanwhile may be planned too; the run then finds that
it exists. A trait in the metadata of an aggregate keeps all instances from its hosts that do not require it,
if nova isolates aggregates ([scheduler]/enable_isolated_aggregate_filtering).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeVar

from osc_placement import microversion
from osc_placement.api.names import suggest
from osc_placement.batch import Change, CustomName, plan_staged
from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.flavor import make_groups
from osc_placement.candidates.flavor_fit import BestHost, FlavorFit
from osc_placement.candidates.node import Node
from osc_placement.candidates.nova_filters import (
    STATUS_FILTER,
    SWITCHES,
    Asked,
    add_filters,
    name_aggregates,
    needs_aggregates,
)
from osc_placement.candidates.request import CandidateRequest, NotCountable
from osc_placement.errors import UsageError
from osc_placement.flavor import Flavor, NoClaim
from osc_placement.migrate.migrations.base import Assessment, Context
from osc_placement.migrate.migrations.constraints import Filters
from osc_placement.migrate.migrations.move_baremetal import SIZES, mend
from osc_placement.migrate.nova.facts import HostAggregate, Image
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES, find_ignored
from osc_placement.migrate.nova.source import Source, Unreadable
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import CUSTOM_PREFIX, PARTS
from osc_placement.report.explain import describe_shortage, explain_cloud
from osc_placement.syntax import NAME as VALID_NAME
from osc_placement.terminal.lines import list_names

TITLE: Final = "names of flavors, images and host aggregates"
#: the part of a class of a host, in percent, that a flavor may leave unused without being reported
MOST_UNUSED: Final = 50
_TRAIT_KEY: Final = "trait:"
#: names of those that ask for a trait or class, in the note of its creation
_EXAMPLES: Final = 3
#: unknown names for which similar ones are searched, as that takes some milliseconds each
_MOST_GUESSES: Final = 100
#: the order in which problems are shown
_ORDER: Final = (
    Reason.UNKNOWN,
    Reason.UNKNOWN_NAME,
    Reason.REFUSED,
    Reason.NO_HOST,
    Reason.IGNORED,
    Reason.FULL,
    Reason.WASTE,
)

Value = TypeVar("Value")
Kind = Literal["trait", "resource class"]
FROM_GLANCE: Final = "images: read from glance"
FROM_GLANCE_IN_PART: Final = f"{FROM_GLANCE}, as this user sees them"
FROM_INSTANCES: Final = (
    "images: read from the metadata of instances, as nothing says where glance is; an image without "
    "instances is not among them"
)


@dataclass(frozen=True, slots=True)
class FlavorState:
    """What was found about a flavor.

    :ivar state: "fits", or the reason why it does not
    :ivar best: the host on which it leaves the least unused, if that can be told
    """

    flavor: Flavor
    state: str
    best: BestHost | None = None


@dataclass(frozen=True, slots=True)
class FlavorSurvey:
    """The result of the comparison.

    :ivar images: the number of images that were read
    :ivar aggregates: the number of host aggregates that were read
    """

    assessment: Assessment
    flavors: Sequence[FlavorState] = ()
    images: int = 0
    aggregates: int = 0


@dataclass(frozen=True, slots=True)
class Flavors:
    """The comparison.

    :ivar flavors: names or ids of the flavors to be compared, without images and aggregates; empty means all
    :ivar names: the traits and classes to be created; empty means all
    :ivar most_unused: the percentage of a class of the best host that a flavor may leave unused
    :ivar applies_filters: whether hosts that the filters of nova's scheduler remove do not count
    :ivar forced_filters: filters that are on, whatever nova.conf says
    """

    flavors: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    most_unused: int = MOST_UNUSED
    applies_filters: bool = True
    forced_filters: frozenset[str] = frozenset()

    def assess(self, context: Context) -> FlavorSurvey:
        """Read all sides and compare."""
        client = context.client
        client.require(microversion.TRAITS, "a comparison of traits")
        options, gap = context.read_scheduler_options() if self.applies_filters else (None, "")
        traits = frozenset(client.list_traits())
        known = _Names(
            {
                "trait": traits,
                "resource class": frozenset(each["name"] for each in client.list_resource_classes()),
            }
        )
        cloud = CloudView(client.read_providers(want=PARTS, concurrency=context.concurrency))
        judge = _Judge(known, cloud, self.most_unused)
        source = context.source
        flavors: Sequence[Flavor] = judge.read(source.list_flavors)
        flavors = flavors if judge.unread else self._choose(flavors)
        images: list[Image] = []
        aggregates: list[HostAggregate] = []
        notes: list[str] = []
        unread = len(judge.unread)
        if not self.flavors or (self.applies_filters and needs_aggregates(options, self.forced_filters)):
            aggregates = judge.read(source.list_aggregates)
        filters = None
        if self.applies_filters:
            read = aggregates if len(judge.unread) == unread else None
            filters = Filters(options, gap, self.forced_filters, traits, read, cloud)
        judge.judge_flavors(flavors, filters)
        if not self.flavors:
            images, note = _read_images(context, source, judge)
            notes.append(note)
            judge.judge_aggregates(aggregates)
            judge.judge_images(images)
        if filters is not None:
            notes.append(filters.note)
        plan = plan_staged(TITLE, list(known.plan(self.names, is_complete=not judge.unread)))
        problems = dict.fromkeys((*judge.unread, *judge.problems))
        ordered = sorted(problems, key=lambda each: _ORDER.index(each.reason))
        assessment = Assessment(plan, ordered, notes=list(filter(None, notes)))
        return FlavorSurvey(assessment, judge.states, len(images), 0 if self.flavors else len(aggregates))

    def _choose(self, flavors: Sequence[Flavor]) -> Sequence[Flavor]:
        """Return the flavors to be compared; raise UsageError if nova does not have one of them."""
        if not self.flavors:
            return flavors
        chosen = [each for each in flavors if not self.flavors.isdisjoint((each.name, each.flavorid))]
        missing = self.flavors - {text for each in chosen for text in (each.name, each.flavorid)}
        if missing:
            raise UsageError(
                f"Nova has no flavor {', '.join(sorted(missing))}"
                f"{suggest(sorted(missing), [each.name for each in flavors])}"
            )
        return chosen


def _read_images(context: Context, source: Source, judge: _Judge) -> tuple[list[Image], str]:
    """Read the images from glance or, if nothing says where it is, from nova; say which."""
    try:
        glance = context.open_glance()
    except Unreadable as error:
        judge.unread.append(error.problem)
        return [], ""
    unread = len(judge.unread)
    if glance is not None:
        images = judge.read(glance.list_images)
        if len(judge.unread) > unread or all(judge.read(lambda: [glance.sees_all()])):
            return images, "" if len(judge.unread) > unread else FROM_GLANCE
        uuids = {
            uuid
            for cell in judge.read(source.list_cells)
            for uuid in judge.read(partial(source.list_image_uuids, cell))
        }
        if hidden := len(uuids - {image.uuid for image in images}):
            text = (
                f"this user does not see {hidden:,} image{'s' * (hidden != 1)} of instances, which may be "
                "deleted; an administrator sees all that there are"
            )
            judge.unread.append(Problem(Reason.UNKNOWN, "glance", text))
        return images, FROM_GLANCE_IN_PART
    found: dict[str, Image] = {}
    for cell in judge.read(source.list_cells):
        for image in judge.read(partial(source.list_images, cell)):
            known = found.get(image.uuid, image)
            found[image.uuid] = Image(image.uuid, properties={**known.properties, **image.properties})
    is_unknown = not found and len(judge.unread) > unread
    return list(found.values()), "" if is_unknown else FROM_INSTANCES


class _Names:
    """The traits and classes that placement knows, and those that it lacks, with who asks for them."""

    def __init__(self, known: Mapping[Kind, frozenset[str]]) -> None:
        self._known = known
        self._guesses: dict[tuple[Kind, str], str] = {}
        #: the custom names that can be created
        self.missing: dict[tuple[Kind, str], list[str]] = {}

    def find_unknown(self, kind: Kind, names: Iterable[str]) -> list[str]:
        """Return which of the names placement does not know."""
        return sorted(set(names) - self._known[kind])

    def note(self, kind: Kind, name: str, subject: str) -> str:
        """Note that something asks for an unknown name; return why it cannot be created, or nothing."""
        if is_creatable(name):
            self.missing.setdefault((kind, name), []).append(subject)
            return ""
        library = "os-traits" if kind == "trait" else "os-resource-classes"
        remedy = (
            f"it is no valid name, such as {CUSTOM_PREFIX} with capital letters, digits and underscores"
            if not VALID_NAME.fullmatch(name) or name.startswith(CUSTOM_PREFIX)
            else f"it comes with {library}, and only names that begin with {CUSTOM_PREFIX} can be created"
        )
        return f"placement does not know {kind} {name}{self._guess(kind, name)}; {remedy}"

    def plan(self, only: Collection[str], *, is_complete: bool) -> Iterator[Change]:
        """Yield the creation of each missing name, or of these only; UsageError if one is not missing.

        Unless all was read (``is_complete``), what could not be read may ask for it, and it is left out.
        """
        names = {name for _, name in self.missing}
        if is_complete and (strange := sorted(set(only) - names)):
            raise UsageError(
                f"No trait or resource class {', '.join(strange)} is missing{suggest(strange, names)}"
            )
        for (kind, name), subjects in sorted(self.missing.items()):
            if not only or name in only:
                asking = list(dict.fromkeys(subjects))
                reason = f"{kind} asked for by {list_names(asking, _EXAMPLES)}{self._guess(kind, name)}"
                yield Change.creating(CustomName(kind, name), reason)

    def _guess(self, kind: Kind, name: str) -> str:
        if (kind, name) not in self._guesses and len(self._guesses) < _MOST_GUESSES:
            self._guesses[kind, name] = suggest((name.upper(),), self._known[kind])
        return self._guesses.get((kind, name), "")


def is_creatable(name: str) -> bool:
    """Return whether a trait or resource class of this name can be created."""
    return bool(VALID_NAME.fullmatch(name)) and name.startswith(CUSTOM_PREFIX) and name != CUSTOM_PREFIX


@dataclass(frozen=True, slots=True)
class _Request:
    """The request of nova's scheduler for a flavor.

    :ivar own: what the flavor asks for
    :ivar asked: what filters add to it
    """

    own: CandidateRequest
    asked: Sequence[Asked] = ()

    @property
    def lasting(self) -> list[Asked]:
        """Return the filters that do not depend on whether a host is enabled at present."""
        return [one for one in self.asked if one.name != STATUS_FILTER]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What was found about a request: its state, the problems and the host that suits it best."""

    state: str
    found: Sequence[tuple[Reason, str]] = ()
    best: BestHost | None = None


@dataclass
class _Judge:
    """The problems that were found so far."""

    names: _Names
    cloud: CloudView
    most_unused: int
    problems: list[Problem] = field(default_factory=list)
    #: those of what could not be read
    unread: list[Problem] = field(default_factory=list)
    states: list[FlavorState] = field(default_factory=list)
    #: by request
    _verdicts: dict[object, _Verdict] = field(default_factory=dict)
    #: by the traits and aggregates that are required
    _suitable: dict[object, list[Node]] = field(default_factory=dict)
    #: by these, class and amount
    _shortages: dict[object, str] = field(default_factory=dict)

    def read(self, read: Callable[[], list[Value]]) -> list[Value]:
        """Return what is read, or nothing and a problem if it cannot be read."""
        try:
            return read()
        except Unreadable as error:
            self.unread.append(error.problem)
            return []

    def judge_flavors(self, flavors: Iterable[Flavor], filters: Filters | None) -> None:
        """Judge each flavor: what is ignored, the names, and where the request fits if all are known."""
        aggregate_names = filters.names if filters else {}
        if not self.cloud.roots:
            text = "it has no resource provider, so it was not compared where flavors fit"
            self.problems.append(Problem(Reason.NO_HOST, "placement", text))
        requests = [(flavor, self._read_request(flavor, filters)) for flavor in flavors]
        fit = FlavorFit(
            self.cloud,
            [add_filters(each.own, each.lasting) for _, each in requests if isinstance(each, _Request)],
        )
        for flavor, request in requests:
            if isinstance(request, Reason):
                self.states.append(FlavorState(flavor, request))
                continue
            # PERF: many flavors make the same request
            parts = [(each.suffix, *each.resources.items(), each.traits) for each in request.own.groups]
            conditions = [(one.name, one.root, one.membership, one.reason) for one in request.asked]
            known = request.own.isolated, *parts, *conditions
            if known not in self._verdicts:
                self._verdicts[known] = self._judge_request(request, fit, aggregate_names)
            verdict = self._verdicts[known]
            for reason, text in verdict.found:
                mending = _mend(flavor, request.own, fit.empty) if reason is Reason.NO_HOST else ""
                told = "; ".join(filter(None, (text, mending)))
                self.problems.append(Problem(reason, f"flavor {flavor.name}", told))
            self.states.append(FlavorState(flavor, verdict.state, verdict.best))

    def judge_images(self, images: Iterable[Image]) -> None:
        """Judge the traits that images require."""
        for image in images:
            self._judge_properties(image.label, image.properties)

    def judge_aggregates(self, aggregates: Iterable[HostAggregate]) -> None:
        """Judge the traits that aggregates require of instances on their hosts."""
        for aggregate in aggregates:
            subject = f"host aggregate {aggregate.name}"
            self._judge_properties(subject, aggregate.metadata)

    def _judge_properties(self, subject: str, properties: Mapping[str, str]) -> None:
        for key, value in sorted(properties.items()):
            if not key.startswith(_TRAIT_KEY):
                continue
            if value != "required":
                text = f"nova ignores {key}={value}: it is not required"
                self.problems.append(Problem(Reason.IGNORED, subject, text))
            elif unknown := self.names.find_unknown("trait", (key.removeprefix(_TRAIT_KEY),)):
                self._note("trait", unknown[0], subject)

    def _note(self, kind: Kind, name: str, subject: str) -> None:
        if reason := self.names.note(kind, name, subject):
            self.problems.append(Problem(Reason.UNKNOWN_NAME, subject, reason))

    def _read_request(self, flavor: Flavor, filters: Filters | None) -> _Request | Reason:
        """Return what a flavor asks for; report why it cannot be answered, if so, and return that."""
        subject = f"flavor {flavor.name}"
        ignored = dict(find_ignored(flavor))
        for key, reason in ignored.items():
            text = f"nova ignores {key}={flavor.extra_specs[key]}: {reason}"
            self.problems.append(Problem(Reason.IGNORED, subject, text))
        rest = {key: value for key, value in flavor.extra_specs.items() if key not in ignored}
        try:
            request = make_groups(replace(flavor, extra_specs=rest), STANDARD_CLASSES)
            asked = filters.ask(flavor, request) if filters else []
        except NotCountable as error:
            self.problems.append(Problem(Reason.REFUSED, subject, f"no boot can succeed: it {error}"))
            return Reason.REFUSED
        except NoClaim as error:
            self.problems.append(Problem(Reason.REFUSED, subject, f"no boot can succeed: {error}"))
            return Reason.REFUSED
        traits = frozenset[str]().union(*(group.traits.names for group in request.groups))
        names: Sequence[tuple[Kind, Iterable[str]]] = (("trait", traits), ("resource class", request.classes))
        unknown = [(kind, name) for kind, each in names for name in self.names.find_unknown(kind, each)]
        for kind, name in unknown:
            self._note(kind, name, subject)
        # only filters that are on whatever nova and placement are: see ask_filters
        by_filters = [
            (one.name, name) for one in asked for name in self.names.find_unknown("trait", one.root.names)
        ]
        for filter_name, name in by_filters:
            text = f"{self.names.note('trait', name, subject)}; nova's {filter_name} asks for it"
            self.problems.append(Problem(Reason.UNKNOWN_NAME, subject, text))
        return Reason.UNKNOWN_NAME if unknown or by_filters else _Request(request, asked)

    def _judge_request(self, asked: _Request, fit: FlavorFit, aggregate_names: Mapping[str, str]) -> _Verdict:
        if not self.cloud.roots:
            return _Verdict(Reason.NO_HOST)
        lasting = asked.lasting
        filtered = add_filters(asked.own, lasting)
        if not fit.fits_empty(filtered):
            # the filters are in nova's order: find the first after which it does not fit
            fits = (
                (number, fit.fits_empty(add_filters(asked.own, lasting[:number])))
                for number in range(len(lasting) + 1)
            )
            number, does_fit = next(each for each in fits if not each[1])
            if does_fit is None:
                text = "its groups have too many combinations to tell whether it fits on a host"
                return _Verdict(Reason.UNKNOWN, ((Reason.UNKNOWN, text),))
            text = f"fits on no empty host: {_name_limit(fit, asked.own)}"
            if number:
                last = lasting[number - 1]
                conditions = last.describe(partial(name_aggregates, names=aggregate_names))
                text = "fits on no empty host that nova's filters leave; "
                text += f"{last.name} removes the last: {conditions}"
                # a filter without a switch is always called, unless nova is too old to have it
                has_trait = self.cloud.snapshot.with_any_trait
                if last.name not in SWITCHES and not all(map(has_trait, last.root.required)):
                    text += (
                        "; no host reports it, and a nova that is older than this filter does not ask for it"
                    )
            return _Verdict(Reason.NO_HOST, ((Reason.NO_HOST, text),))
        best = fit.find_best(filtered)
        waste = _describe_waste(best, self.most_unused) if best is not None else ""
        found = ((Reason.WASTE, waste),) if waste else ()
        request = add_filters(asked.own, asked.asked)
        does_fit = fit.fits_now(request)
        if does_fit is None:
            text = "its groups have too many combinations to tell whether it fits on a host now"
            return _Verdict(Reason.UNKNOWN, (*found, (Reason.UNKNOWN, text)), best)
        if not does_fit:
            text = f"fits on no host now: {self._name_shortage(request, fit)}"
            return _Verdict(Reason.FULL, (*found, (Reason.FULL, text)), best)
        return _Verdict("fits", found, best)

    def _name_shortage(self, request: CandidateRequest, fit: FlavorFit) -> str:
        """Return what no host that suits a request has free."""
        # PERF: a shortage takes 10 ms on 10,000 hosts, and in a full cloud most flavors have one
        wanted = (
            frozenset(any_of for group in request.groups for any_of in group.traits.required),
            request.root,
            *(group.membership for group in request.groups),
        )
        if wanted not in self._suitable:
            self._suitable[wanted] = fit.find_suitable(request)
        nodes = self._suitable[wanted]
        if not nodes:
            return "all hosts that suit it are disabled"
        short = []
        for group in request.groups:
            for name, amount in group.resources.items():
                known = wanted, name, amount
                if known not in self._shortages:
                    self._shortages[known] = describe_shortage(nodes, name, amount)
                short.append(self._shortages[known])
        return "; ".join(filter(None, short)) or "no host that suits it has all of it free"


def _mend(flavor: Flavor, request: CandidateRequest, empty: CloudView) -> str:
    """Return the command for a flavor that asks nodes of bare metal for sizes, or nothing."""
    totals = request.totals
    custom = [name for name in totals if name.startswith(CUSTOM_PREFIX)]
    if len(custom) != 1 or SIZES.isdisjoint(totals):
        return ""
    nodes = [node for node in empty.nodes if custom[0] in node.stocks]
    has_sizes = any(not SIZES.isdisjoint(each.stocks) for node in nodes for each in empty.tree_of(node.uuid))
    if not nodes or has_sizes or any(node.stocks[custom[0]].inventory.total != 1 for node in nodes):
        return ""
    return f"its nodes are bare metal and have no sizes: {mend(flavor, custom[0])}"


def _describe_waste(best: BestHost, most_unused: int) -> str:
    """Describe what a flavor leaves unused of its best host; empty if that is no more than it may be."""
    unused = {name: share for name, share in best.unused.items() if share * 100 > most_unused}
    if not unused:
        return ""
    shares = " and ".join(f"{share:.0%} of {name}" for name, share in sorted(unused.items()))
    limits = f"{' and '.join(best.limits)} run{'s' * (len(best.limits) == 1)} out"
    number = f"{'' if best.exact else 'at least '}{best.count} fit{'s' * (best.count == 1)}"
    return f"leaves {shares} unused where {limits}: {number} on {best.host.name}, its best host"


def _name_limit(fit: FlavorFit, request: CandidateRequest) -> str:
    """Return the condition of a request that excludes the last hosts, or what is closest to its amount."""
    steps, _ = explain_cloud(fit.empty, request)
    last = next((step for step in steps if not step.left), None)
    if last is None:
        return "its groups fit on no host together"
    where = f" (group {last.group})" if last.group and last.group != "root" else ""
    asked = [
        describe_shortage(fit.empty.nodes, name, amount, fit.alike)
        for group in request.groups
        if group.suffix == last.group
        for name, amount in group.resources.items()
        if last.text == f"has {name}" or last.text.startswith(f"{name}={amount}:")
    ]
    return f"{'; '.join(filter(None, asked)) or last.text}{where}"
