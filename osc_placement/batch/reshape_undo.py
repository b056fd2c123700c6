# SPDX-License-Identifier: Apache-2.0
"""The way back from a reshape as a file: what was moved, and what providers had before and after."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from osc_placement.batch.reshape import Inventories, ReshapePlan, Transfer
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory

_FORMAT: Final = "osc-placement reshape undo 1"


class UnreadableUndo(PlacementError):
    """A file that is not there, or is none of ours."""


@dataclass(frozen=True, slots=True)
class Undo:
    """The way back: inventories by provider, of the classes that were moved."""

    before: Mapping[str, Inventories]
    after: Mapping[str, Inventories]
    transfers: tuple[Transfer, ...]

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers concerned."""
        return tuple(self.after)


def undo_of(plan: ReshapePlan) -> Undo:
    """What undoes a plan."""
    classes: dict[str, set[str]] = {}
    for move in plan.moves:
        classes.setdefault(move.source, set()).add(move.resource_class)
        classes.setdefault(move.target, set()).add(move.resource_class)
    return Undo(
        {uuid: _only(plan.world.inventories[uuid], names) for uuid, names in classes.items()},
        {uuid: _only(plan.inventories[uuid], names) for uuid, names in classes.items()},
        tuple(plan.transfers),
    )


def _only(inventories: Inventories, names: set[str]) -> Inventories:
    return {name: inventory for name, inventory in inventories.items() if name in names}


def state_directory() -> pathlib.Path:
    """Where undo files are kept."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    root = pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".local" / "state"
    return root / "osc-placement" / "reshape"


def new_path() -> pathlib.Path:
    """A file that is not there yet; its name is the ID by which it is found."""
    now = datetime.datetime.now(datetime.UTC)
    return state_directory() / f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}.json"


def find_path(text: str) -> pathlib.Path:
    """The file that a command line means: a file, or the ID of one that we keep."""
    path = pathlib.Path(text)
    return path if path.exists() or "/" in text else state_directory() / f"{text}.json"


def write_undo(path: pathlib.Path, undo: Undo) -> None:
    """Write the file, for nobody else to read."""
    document = {
        "format": _FORMAT,
        "before": _inventories_to_json(undo.before),
        "after": _inventories_to_json(undo.after),
        "transfers": [asdict(transfer) for transfer in undo.transfers],
    }
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise PlacementError(
            f"Nothing was changed: {path}, which would undo it, cannot be written: {error.strerror}"
        ) from error


def read_undo(path: pathlib.Path) -> Undo:
    """Read such a file."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UnreadableUndo(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableUndo(f"{path} is not the undo of a reshape: it is not JSON") from error
    try:
        if document["format"] != _FORMAT:
            raise ValueError(document["format"])
        return Undo(
            _inventories_from_json(document["before"]),
            _inventories_from_json(document["after"]),
            tuple(Transfer(**transfer) for transfer in document["transfers"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableUndo(f"{path} is not the undo of a reshape") from error


def _inventories_to_json(inventories: Mapping[str, Inventories]) -> dict[str, Any]:
    return {
        uuid: {name: inventory.to_json() for name, inventory in held.items()}
        for uuid, held in inventories.items()
    }


def _inventories_from_json(document: Mapping[str, Any]) -> dict[str, Inventories]:
    return {
        uuid: {name: Inventory.from_json(fields) for name, fields in held.items()}
        for uuid, held in document.items()
    }
