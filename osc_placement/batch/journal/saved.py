# SPDX-License-Identifier: Apache-2.0
"""Saved plans: written to files, read back, and checked for providers that were changed since.

A file has a checksum of its content, however it is laid out: what was edited is not what was shown.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch.device import DeviceRelease
from osc_placement.batch.difference import describe_difference
from osc_placement.batch.facets import FACETS, Facet, ProviderState, holds
from osc_placement.batch.guards import guard
from osc_placement.batch.guards.capacity import find_excesses, is_shrinking
from osc_placement.batch.guards.managed import describe_dropped, warn_of_dropped
from osc_placement.batch.journal.file import check_server, identify_server
from osc_placement.batch.journal.record import (
    change_from_json,
    change_to_json,
    edit_from_json,
    edit_to_json,
    error_to_json,
    selection_from_json,
    selection_to_json,
)
from osc_placement.batch.merge import merge
from osc_placement.batch.plan import (
    SAVED,
    Change,
    Edit,
    Gone,
    Plan,
    Policy,
    Reading,
    plan_change,
    refuse_gone,
)
from osc_placement.batch.reselect import Reselection
from osc_placement.batch.select import read_again
from osc_placement.batch.undo import MOST_NAMES
from osc_placement.errors import PlacementError
from osc_placement.terminal.lines import list_names
from osc_placement.whole_file import write_whole

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch.selection import Selection

FORMAT: Final = SAVED
VERSION: Final = 1
_OWNER_ONLY: Final = 0o600


class BadPlanFile(PlacementError):
    """A file is not a plan, or cannot be read."""

    verb = "used"

    def __init__(self, path: object, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"The plan {path} cannot be {self.verb}: {reason}")


class RefusedBefore(PlacementError):
    """A change was refused, or its provider could not be read, when the plan was made."""

    error_code: str | None = None

    def __init__(self, reason: str, code: str | None) -> None:
        self.error_code = code
        super().__init__(f"when the plan was made: {reason}")


class PlanNotSaved(BadPlanFile):
    """A plan cannot be written to its file."""

    verb = "written"


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The content of a file; ``usages`` and ``warnings`` are those of the moment at which it was planned."""

    server: str
    selection: str
    edit: Edit
    steps: tuple[Change, ...]
    usages: Mapping[str, Mapping[str, int]]
    atomic: bool = False
    warnings: tuple[str, ...] = ()
    #: judged again when it is carried out
    selects: Selection | None = None
    #: whether traits that nova-compute reports must stay
    keeps_managed: bool = False
    #: what was refused or could not be read when it was planned, with the reasons
    refused: tuple[tuple[Change, RefusedBefore], ...] = ()

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the facets that tell whether the plan holds; aggregates do for the ratios in several."""
        needed = {*self.edit.facets, *(facet for step in self.steps for facet in step.facets)}
        if "inventories" in needed and self.selects and len(self.selects.aggregates) > 1:
            needed.add("aggregates")
        return tuple(facet for facet in FACETS if facet in needed)


@dataclass(frozen=True, slots=True)
class Found:
    """What is found of a saved plan before it is carried out.

    :ivar readings: of the providers of its steps, as they are now
    :ivar left: by UUID, why some are not changed, as they left the selection since
    :ivar moves: those for which it does not hold any more
    """

    saved: SavedPlan
    readings: Sequence[Reading]
    left: Mapping[str, str]
    moves: Sequence[Moved]

    def plan(
        self, client: PlacementClient, policy: Policy, *, replan: bool, concurrency: int = CONCURRENCY
    ) -> Plan:
        """Return the plan of what is there now, guarded; warn of changes that are left out.

        :param policy: it keeps traits that nova-compute reports only if the saved plan does, too
        :param replan: whether it is the operator's word that one-time-use devices were cleaned since
        """
        saved = self.saved
        plan = guard(
            client,
            plan_saved(saved, self.moves, self.readings, self.left),
            replace(policy, keeps_managed=policy.keeps_managed and saved.keeps_managed),
            # providers that did not move were judged when they were planned
            [move.now for move in self.moves],
            planned=() if replan else saved.steps,
            concurrency=concurrency,
        )
        return replace(plan, warnings=(*plan.warnings, *_describe_vain(saved, self.readings, plan)))


def find_saved(client: PlacementClient, saved: SavedPlan, *, concurrency: int = CONCURRENCY) -> Found:
    """Read the providers of a saved plan; raise WrongServer if it was made for another server."""
    check_server(saved.server, client.endpoint)
    readings = read_again(
        client,
        [step.subject for step in saved.steps],
        saved.facets,
        with_usages=any(map(is_shrinking, saved.steps)),
        concurrency=concurrency,
    )
    left = Reselection(client, saved.selects).find_left_of(readings)
    moves = [move for move in find_moves(saved, readings) if move.step.uuid not in left]
    return Found(saved, readings, left, moves)


@dataclass(frozen=True, slots=True)
class Moved:
    """A provider for which a saved plan does not hold any more; ``what`` changed, in words.

    ``facets`` are those that are not as they were; none if the provider cannot be read. It
    ``is_overcommitted`` if all that moved is that more is allocated than would be left.
    """

    step: Change
    now: Reading
    what: str
    facets: frozenset[Facet] = frozenset()
    is_overcommitted: bool = False

    @property
    def is_gone(self) -> bool:
        """Return whether the provider was deleted."""
        return isinstance(self.now.error, Gone)


def save_plan(
    path: pathlib.Path,
    plan: Plan,
    readings: Iterable[Reading],
    *,
    server: str,
    selection: str,
    atomic: bool = False,
) -> None:
    """Write what a plan would change, with generations; readable by its owner only.

    :param server: the endpoint that it was made for
    """
    usages = {reading.subject.uuid: reading.usages for reading in readings}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "server": identify_server(server),
        "selection": selection,
        "atomic": atomic,
        "keeps_managed": plan.policy.keeps_managed,
        "selects": selection_to_json(plan.selection),
        "edit": edit_to_json(plan.edit),
        "warnings": list(plan.warnings),
        "steps": [{**change_to_json(change), "usages": usages.get(change.uuid)} for change in plan.changes],
        "refused": [
            {"change": change_to_json(change), **error_to_json(plan.untried[change.uuid])}
            for change in plan.unreached
        ],
    }
    document["checksum"] = _sum(document)
    try:
        write_whole(path, [json.dumps(document, indent=1), "\n"], _OWNER_ONLY, keep_mode=False)
    except OSError as error:
        raise PlanNotSaved(path.absolute(), error.strerror or str(error)) from error


def load_plan(path: pathlib.Path) -> SavedPlan:
    """Read a file that `save_plan` wrote."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise BadPlanFile(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError):
        is_state = path.suffix in (".yaml", ".yml")
        command = f"openstack resource provider apply -f {shlex.quote(str(path))}"
        advice = f"to apply a state file: {command}" if is_state else "plans are made by --plan-out"
        raise BadPlanFile(path, f"it is not JSON; {advice}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadPlanFile(path, "it is no plan that --plan-out wrote")
    if document.get("version") != VERSION:
        raise BadPlanFile(path, f"its version is {document.get('version')}, not {VERSION}")
    try:
        if document.get("checksum") != _sum(document):
            raise BadPlanFile(
                path,
                "it was edited since --plan-out wrote it; plan again, with --providers-file if only some of "
                "its resource providers are meant",
            )
        steps = [(change_from_json(entry), entry["usages"] or {}) for entry in document["steps"]]
        return SavedPlan(
            document["server"],
            document["selection"],
            edit_from_json(document["edit"]),
            tuple(step for step, _ in steps),
            {step.uuid: usages for step, usages in steps},
            document["atomic"],
            tuple(document["warnings"]),
            selection_from_json(document["selects"]),
            document["keeps_managed"],
            tuple(
                (change_from_json(each["change"]), RefusedBefore(each["error"], each.get("code")))
                for each in document["refused"]
            ),
        )
    except KeyError as error:
        raise BadPlanFile(path, f"it is damaged, as it has no {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise BadPlanFile(path, f"it is damaged: {error}") from error


def _sum(document: Mapping[str, Any]) -> str:
    """Return the checksum of all else in a document."""
    said = {key: value for key, value in document.items() if key != "checksum"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def find_moves(saved: SavedPlan, readings: Sequence[Reading]) -> list[Moved]:
    """Find the steps that cannot be carried out as they were shown.

    A step has moved if a field that it changes is neither as it was nor as it is to be, if its edit would
    change other fields as well by now, or if there would be another warning: more is allocated than it
    leaves, or the provider joined another of the selected aggregates. Nothing else is compared; the
    generation only is for the release of a device, which may have been used again meanwhile.

    :param readings: of the steps, with the `facets` of the plan, and usages where a step leaves less capacity
    """
    moves = [
        _find_move(saved, step, saved.edit.edit_of(step), now)
        for step, now in zip(saved.steps, readings, strict=True)
    ]
    return [move for move in moves if move.what]


def _find_move(saved: SavedPlan, step: Change, edit: Edit, now: Reading) -> Moved:
    """Return what moved, with words that are empty if nothing did."""
    if now.state is None:
        is_gone = isinstance(now.error, Gone)
        return Moved(
            step, now, "it does not exist any more" if is_gone else f"it cannot be read: {now.error}"
        )
    facets: set[Facet] = set()
    wanted, expected = merge(step, now.state)
    again = plan_change(edit, now.subject, now.state)
    gone, come = describe_difference(expected, now.state)
    if expected == now.state and not holds(again.after, wanted, edit.facets):
        others = {facet: None for facet in FACETS if facet not in edit.facets}
        expected = replace(step.before, **others)
        gone, come = describe_difference(expected, replace(now.state, **others))
    if gone or come:
        facets |= {facet for facet in edit.facets if getattr(expected, facet) != getattr(now.state, facet)}
    told = [f"{', '.join(gone) or 'nothing'} became {', '.join(come) or 'nothing'}"] if gone or come else []
    # the warning of aggregates that have different ratios
    selected = frozenset(saved.selects.aggregates if saved.selects else ())
    joined = selected & (now.state.aggregates or frozenset()) - (step.before.aggregates or frozenset())
    before, after = step.before.inventories or {}, step.after.inventories or {}
    kept = before.keys() & after.keys()
    if joined and any(before[name].allocation_ratio != after[name].allocation_ratio for name in kept):
        told.append(f"it joined the aggregate {', '.join(sorted(joined))}")
        facets.add("aggregates")
    known = {each.resource_class: each.missing for each in find_excesses(step, saved.usages[step.uuid])}
    excesses = find_excesses(again, now.usages or {})
    is_done = holds(now.state, step.after, step.facets)
    if isinstance(edit, DeviceRelease) and now.subject.generation != step.subject.generation and not is_done:
        told = told or ["it was changed since, and may have been used again"]
        facets.add("allocations")
    grown = [str(each) for each in excesses if each.missing > known.get(each.resource_class, 0)]
    if grown:
        facets.add("allocations")
    return Moved(step, now, "; ".join([*told, *grown]), frozenset(facets), bool(grown) and not told)


def plan_saved(
    saved: SavedPlan,
    moves: Sequence[Moved] = (),
    readings: Sequence[Reading] | None = None,
    left: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan that was saved, with the providers that moved planned again.

    What was refused when it was made stays so, whatever became of the reason.

    :param readings: what `find_moves` was given; with it, the other providers are planned again too, which
        makes the same of them as was shown, or nothing where it is done already: they are written with the
        generation that was read
    :param left: by UUID why some are not changed, as they left the selection since
    """
    edits = {step.uuid: saved.edit.edit_of(step) for step in saved.steps}
    moved = {move.step.uuid: move.now for move in moves}
    now = dict(zip((step.uuid for step in saved.steps), readings or (), strict=readings is not None)) | moved
    unreadable: dict[str, Exception] = {}
    steps: list[Change] = []
    # those of the plan that is made now are given again
    stale = warn_of_dropped(describe_dropped(saved.steps), keeps=saved.keeps_managed)
    warnings = [warning for warning in saved.warnings if warning != stale]
    for step in saved.steps:
        reading = now.get(step.uuid)
        if reading is None:
            steps.append(step)
            continue
        if reading.state is None:
            unreadable[step.uuid] = reading.error or PlacementError("it could not be read")
            steps.append(step)
        elif why := (left or {}).get(step.uuid):
            steps.append(Change(reading.subject, reading.state, reading.state, why))
        else:
            steps.append(plan_change(edits[step.uuid], reading.subject, reading.state))
        told = _warn_of_excesses(step, saved.usages[step.uuid])
        # those that moved are judged again by whoever carries the plan out
        again = [] if step.uuid in moved else _warn_of_excesses(steps[-1], reading.usages or {})
        if told != again:
            warnings = [warning for warning in warnings if warning not in told] + again
    plan = Plan(
        saved.edit,
        (*steps, *(step for step, _ in saved.refused)),
        unreadable,
        {step.uuid: reason for step, reason in saved.refused},
        edits=edits,
        warnings=tuple(warnings) if any(step.facets for step in steps) else (),
        selection=saved.selects,
    )
    return refuse_gone(plan)


def _describe_vain(saved: SavedPlan, readings: Iterable[Reading], plan: Plan) -> Iterator[str]:
    """Yield a line for each reason for which a plan leaves providers other than it was saved for them.

    :param readings: of the steps that were saved
    :param plan: made of these; those that it refuses, or could not read, have rows of their own
    """
    unchanged = {step.uuid: step.reason for step in plan.unchanged}
    lost: dict[str, list[str]] = {}
    for step, now in zip(saved.steps, readings, strict=True):
        if step.uuid in unchanged and now.state and not _is_made(step, now.state):
            lost.setdefault(unchanged[step.uuid], []).append(step.subject.name)
    for reason, names in lost.items():
        change = "change that was" if len(names) == 1 else "changes that were"
        told = f"{len(names):,} {change} planned {'is' if len(names) == 1 else 'are'} left out"
        yield f"{told} ({reason}): {list_names(names, MOST_NAMES)}"


def _is_made(step: Change, state: ProviderState) -> bool:
    """Return whether each field that a change sets is as the change leaves it, whatever the others are."""
    again, expected = merge(step, state)
    return state == again and state == expected


def _warn_of_excesses(step: Change, usages: Mapping[str, int]) -> list[str]:
    return [f"{step.subject.name}: {excess}" for excess in find_excesses(step, usages)]
