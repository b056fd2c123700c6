# SPDX-License-Identifier: Apache-2.0
"""Plans in files: saved to be read and carried out later, and refused where the cloud changed since.

A file has a checksum of its content, however it is laid out: what was edited is not what was shown.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from osc_placement.batch.difference import describe_difference, holds
from osc_placement.batch.journal.record import (
    change_from_json,
    change_to_json,
    edit_from_json,
    edit_to_json,
    selection_from_json,
    selection_to_json,
)
from osc_placement.batch.plan import FACETS, Change, Edit, Plan, Reading, plan_change
from osc_placement.batch.repeat import edits_of
from osc_placement.batch.selection import Selection
from osc_placement.errors import PlacementError
from osc_placement.whole_file import write_whole

FORMAT: Final = "osc-placement-plan"
VERSION: Final = 1
_OWNER_ONLY: Final = 0o600


class BadPlanFile(PlacementError):
    """A file is not a plan, or cannot be read or written."""

    def __init__(self, path: object, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"The plan {path} cannot be used: {reason}")


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
    #: judged again when it is carried out; None where an earlier version saved the plan
    selects: Selection | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A provider is not what it was when it was planned; ``what`` changed, as far as the API tells."""

    step: Change
    now: Reading
    what: str


def save_plan(path: pathlib.Path, plan: Plan, readings: Iterable[Reading], **about: Any) -> None:
    """Write what a plan would change, with generations; readable by its owner only."""
    usages = {reading.subject.uuid: reading.usages for reading in readings}
    document = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "selects": selection_to_json(plan.selection),
        "edit": edit_to_json(plan.edit),
        "warnings": list(plan.warnings),
        "steps": [{**change_to_json(change), "usages": usages.get(change.uuid)} for change in plan.changes],
    }
    document["checksum"] = _sum(document)
    try:
        write_whole(path, [json.dumps(document, indent=1), "\n"], _OWNER_ONLY, keep_mode=False)
    except OSError as error:
        raise BadPlanFile(path, error.strerror or str(error)) from error


def load_plan(path: pathlib.Path) -> SavedPlan:
    """Read a file that `save_plan` wrote."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise BadPlanFile(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError):
        raise BadPlanFile(path, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadPlanFile(path, "it is no plan that --plan-out wrote")
    if document.get("version") != VERSION:
        raise BadPlanFile(path, f"its version is {document.get('version')}, not {VERSION}")
    if "checksum" not in document:
        raise BadPlanFile(path, "it was written by an earlier version of osc-placement; plan again")
    try:
        if document["checksum"] != _sum(document):
            raise BadPlanFile(
                path, "it was edited since --plan-out wrote it; plan again, and choose with --providers-file"
            )
        return _read_document(document)
    except KeyError as error:
        raise BadPlanFile(path, f"it is damaged, as it has no {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise BadPlanFile(path, f"it is damaged: {error}") from error


def _sum(document: Mapping[str, Any]) -> str:
    """Return the checksum of all else in a document."""
    said = {key: value for key, value in document.items() if key != "checksum"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _read_document(document: Mapping[str, Any]) -> SavedPlan:
    steps = [(change_from_json(entry), entry["usages"] or {}) for entry in document["steps"]]
    return SavedPlan(
        document["server"],
        document["selection"],
        edit_from_json(document["edit"]),
        tuple(step for step, _ in steps),
        {step.uuid: usages for step, usages in steps},
        document.get("atomic", False),
        tuple(document["warnings"]),
        selection_from_json(document.get("selects")),
    )


def find_moves(saved: SavedPlan, readings: Sequence[Reading]) -> list[Move]:
    """Find the steps that are not as they were when they were planned; ``readings`` have usages.

    The generation alone does not tell: requests before 1.19 change aggregates without it.
    """
    return [
        Move(step, now, _describe_move(step, saved.usages[step.uuid], now))
        for step, now in zip(saved.steps, readings, strict=True)
        if now.state is None
        or now.subject.generation != step.subject.generation
        or not holds(
            now.state, step.before, [each for each in FACETS if getattr(step.before, each) is not None]
        )
    ]


def _describe_move(step: Change, usages: Mapping[str, int], now: Reading) -> str:
    if now.state is None:
        return f"it cannot be read: {now.error}"
    told = [
        f"{_KINDS[facet]}: {', '.join(gone) or 'nothing'} became {', '.join(come) or 'nothing'}"
        for facet in FACETS
        for gone, come in [
            describe_difference(
                replace(step.before, **_without(facet)), replace(now.state, **_without(facet))
            )
        ]
        if gone or come
    ]
    told += [
        f"allocation: {name}={usages.get(name, 0)} became {name}={amount}"
        for name, amount in (now.usages or {}).items()
        if amount != usages.get(name, 0)
    ]
    moved = f"generation {step.subject.generation} became {now.subject.generation}"
    return "; ".join(told) or f"{moved}, and what changed can no longer be seen"


_KINDS: Final = {"inventories": "inventory", "traits": "trait", "aggregates": "aggregate"}


def _without(kept: str) -> dict[str, None]:
    return {facet: None for facet in FACETS if facet != kept}


def plan_saved(saved: SavedPlan, moves: Sequence[Move] = ()) -> Plan:
    """Return the plan that was saved, with the providers that moved planned again."""
    edits = edits_of(saved.edit, saved.steps)
    moved = {move.step.uuid: move for move in moves}
    unreadable, steps = {}, []
    for step in saved.steps:
        move = moved.get(step.uuid)
        if move is None:
            steps.append(step)
        elif move.now.state is None:
            unreadable[step.uuid] = move.now.error or PlacementError("it could not be read")
            steps.append(step)
        else:
            edit = edits.get(step.uuid, saved.edit)
            steps.append(plan_change(edit, move.now.subject, move.now.state))
    judged_again = tuple(f"{move.step.subject.name}: " for move in moves)
    warnings = tuple(warning for warning in saved.warnings if not warning.startswith(judged_again))
    return Plan(saved.edit, tuple(steps), unreadable, edits=edits, warnings=warnings, selection=saved.selects)
