# SPDX-License-Identifier: Apache-2.0
"""Changes, edits and selections as JSON and back, for journals and saved plans; reads journals. Pure."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final, get_args

from osc_placement.api.consumer import Consumer
from osc_placement.batch.device import DeviceRelease
from osc_placement.batch.facets import (
    ALL_FACETS,
    Facet,
    ProviderState,
    check_amounts,
    check_names,
    check_types,
    show_value,
)
from osc_placement.batch.inventory import InventoryDeletion, InventoryEdit, RatioEdit
from osc_placement.batch.journal.checksum import START, check_line
from osc_placement.batch.journal.run import Ending, Header, JournalDamaged, JournalError, Run
from osc_placement.batch.membership import AggregateEdit, TraitEdit, Verb
from osc_placement.batch.plan import Change, CustomName, Edit, JournalledEdit, Result, Subject
from osc_placement.batch.repeat import Recorded, StateEdit
from osc_placement.batch.selection import Selection
from osc_placement.batch.undo import UndoEdit
from osc_placement.model import Percent, Provider
from osc_placement.syntax import parse_inventory_value

Document = dict[str, Any]
#: of the format of journals
VERSION: Final = 1
_SETTINGS: Final = {
    **dict.fromkeys(("atomic", "keeps_managed"), bool),
    **dict.fromkeys(("kind", "capacity"), str),
    "throttle": (int, float),
    **dict.fromkeys(("concurrency", "max_failures"), int),
}
#: the edits that are read back from a journal or a saved plan
EDITS: Final[tuple[type[JournalledEdit], ...]] = (
    RatioEdit,
    InventoryEdit,
    InventoryDeletion,
    DeviceRelease,
    TraitEdit,
    AggregateEdit,
    StateEdit,
    UndoEdit,
)
_SELECTION_TYPES: Final = {"in_tree": str, "name": str, "everything": bool}
_NAME_CONDITIONS: Final = ("aggregates", "required", "forbidden", "providers")
_PROVIDER_TYPES: Final = {"generation": int, "parent_provider_uuid": str, "root_provider_uuid": str}
_CONSUMER_TYPES: Final = {"generation": int, "project_id": str, "user_id": str, "consumer_type": str}
#: facets of which a change knows both what was and what is to be
_BOTH_SIDES: Final[tuple[Facet, ...]] = ("identity", "inventories", "traits", "aggregates", "allocations")
_SUBJECTS: Final[Mapping[type, str]] = {Provider: "provider", Consumer: "consumer", CustomName: "name"}


def change_to_json(change: Change) -> Document:
    """Return a change: its subject, before-image, after-image and reason."""
    kind = _SUBJECTS[type(change.subject)]
    subject = {name: value for name, value in asdict(change.subject).items() if value is not None}
    subject.pop("allocations", None)  # the states have them
    return {
        kind: subject,
        "before": change.before.to_json(),
        "after": change.after.to_json(),
        "reason": change.reason,
        **({"partial": True} if change.is_partial else {}),
        **({"halves": [each.to_json() for each in change.halves]} if change.halves else {}),
    }


def error_to_json(error: Exception) -> dict[str, str]:
    """Return the text of an error and, if it has one, its code."""
    code = getattr(error, "error_code", None)
    return {"error": str(error), **({"code": code} if code else {})}


def change_from_json(document: Document) -> Change:
    """Read what `change_to_json` wrote; raise ValueError at what it does not write."""
    check_types(document, {"reason": str, "partial": bool}, optional=True)
    subject: Subject
    if "name" in document:
        check_types(document["name"], {"kind": str, "name": str})
        subject = CustomName(document["name"]["kind"], document["name"]["name"])
    elif "consumer" in document:
        check_types(document["consumer"], {"uuid": str})
        check_types(document["consumer"], _CONSUMER_TYPES, optional=True)
        subject = Consumer(**_known(Consumer, document["consumer"]) | {"allocations": {}})
    else:
        check_types(document["provider"], {"uuid": str, "name": str})
        check_types(document["provider"], _PROVIDER_TYPES, optional=True)
        subject = Provider(**_known(Provider, document["provider"]))
    before, after = ProviderState.from_json(document["before"]), ProviderState.from_json(document["after"])
    one_sided = [
        name for name in _BOTH_SIDES if (getattr(before, name) is None) != (getattr(after, name) is None)
    ]
    if one_sided:
        raise ValueError(f"{one_sided[0]} are known before or after only")
    halves = tuple(map(ProviderState.from_json, document.get("halves", ())))
    return Change(subject, before, after, document.get("reason", ""), document.get("partial", False), halves)


def _known(kind: type, document: Document) -> Document:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


def edit_to_json(edit: Edit) -> Document:
    """Return an edit with all it needs to plan again; only its title if its kind is not known here."""
    if isinstance(edit, JournalledEdit):
        return {"kind": edit.kind, "title": edit.title, **edit.to_json()}
    return {"kind": "recorded", "title": edit.title, "facets": list(edit.facets)}


def selection_to_json(selection: Selection | None) -> Document | None:
    """Return the conditions that are given."""
    if selection is None:
        return None
    conditions = asdict(selection).items()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in conditions if value}


def selection_from_json(document: Document | None) -> Selection | None:
    """Read what `selection_to_json` wrote; raise ValueError at what it does not write."""
    if document is None:
        return None
    check_types(document, _SELECTION_TYPES, optional=True)
    unknown = document.keys() - _known(Selection, document).keys()
    if unknown:
        raise ValueError(f"there is no condition {min(unknown)}")
    for name in _NAME_CONDITIONS:
        if name in document:
            check_names(document[name], name)
    if "resources" in document:
        check_amounts(document["resources"], "resources")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
    }
    return Selection(**values)


def edit_from_json(document: Document) -> Edit:
    """Read what `edit_to_json` wrote; raise ValueError at what it does not write."""
    check_types(document, {"kind": str, "title": str})
    check_types(document, {"replace": bool, "force": bool, "verb": str, "fields": dict}, optional=True)
    if document.get("verb", "add") not in get_args(Verb):
        raise ValueError(f"verb is {show_value(document['verb'])}")
    for name in ("classes", "aggregates", "names", "facets"):
        if name in document:
            check_names(document[name], name)
    unknown = set(document.get("facets", ())).difference(ALL_FACETS)
    if unknown:
        raise ValueError(f"there are no {min(unknown)} to change")
    for name, amounts in (document.get("fields") or {}).items():
        check_types({name: amounts}, {name: dict})
        numbers = dict(amounts)
        # what is reserved may be a share of the total
        if isinstance(share := numbers.get("reserved"), str) and isinstance(
            parse_inventory_value("inventory", "reserved", share), Percent
        ):
            del numbers["reserved"]
        check_amounts(numbers, name, (int, float))
    if "ratios" in document:
        check_amounts(document["ratios"], "ratios", (int, float))
    known = next((each for each in EDITS if each.kind == document["kind"]), None)
    return known.from_json(document) if known else Recorded(document["title"], tuple(document["facets"]))


def parse(path: pathlib.Path, content: bytes) -> Run:
    """Read a journal; what stands behind the last line end is torn, and never was.

    Raise JournalDamaged if a line does not follow the line before it, or is none that a run writes.
    """
    lines = content.split(b"\n")[:-1]
    reader = _Reader()
    sums: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            sums.append(check_line(line, sums[-1] if sums else START))
            reader.take(json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            wrong = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise JournalDamaged(path, f"at line {number}: {wrong}") from error
    if reader.header is None:
        raise JournalError(f"{path} has no first line: its run died before it began; nothing was changed")
    return Run(
        reader.header,
        reader.intents,
        reader.endings,
        reader.is_planned,
        status=reader.status,
        ended=reader.ended,
        sums=sums,
    )


class _Reader:
    """The content of the lines that were read so far."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.intents: dict[str, Change] = {}
        self.endings: dict[str, Ending] = {}
        self.is_planned = False
        self.status: int | None = None
        self.ended = ""
        #: of which something may have been written before it was planned again
        self._doubtful: set[str] = set()
        #: what is planned of the next attempt, and what the present one may write
        self._announced: set[str] = set()
        self._tried: set[str] = set()
        #: of changes, since the last line of another kind
        self._intents_in_a_row = 0

    def take(self, record: Mapping[str, Any]) -> None:
        """Take one line; a kind that a later version invented is passed over."""
        check_types(record, {"record": str})
        if (self.header is None) is not (record["record"] == "run"):
            raise ValueError("the first line, and no other, must say which run it is")
        match record["record"]:
            case "run":
                self._take_header(record)
            case "intent":
                self._take_intent(record)
                return
            case "planned":
                check_types(record, {"changes": int})
                number = self._intents_in_a_row
                if number < record["changes"]:
                    raise ValueError(f"{record['changes']} changes were planned, {number} are there")
                self.is_planned = True
                self._tried, self._announced = self._announced, set()
            case "outcome":
                self._take_outcome(record)
            case "end":
                check_types(record, {"status": int})
                check_types(record, {"time": str}, optional=True)
                self.status, self.ended = record["status"], record.get("time") or ""
        self._intents_in_a_row = 0

    def _take_header(self, record: Mapping[str, Any]) -> None:
        check_types(record, {"version": int, "id": str, "server": str, "edit": dict})
        check_types(
            record, {"selection": str, "started": str, "undoes": str, "settings": dict}, optional=True
        )
        check_types(record.get("settings") or {}, _SETTINGS, optional=True)
        if record["version"] > VERSION:
            raise ValueError(f"version {record['version']} is newer than this osc-placement")
        self.header = Header(
            record["id"],
            record["server"],
            edit_from_json(record["edit"]),
            record.get("selection", ""),
            record.get("started", ""),
            record.get("undoes"),
            dict(record.get("settings") or {}),
            selection_from_json(record.get("selects")),
        )

    def _take_intent(self, record: Mapping[str, Any]) -> None:
        check_types(record, {"error": str, "code": str, "refused": bool}, optional=True)
        change = change_from_json(dict(record))
        ending = self.endings.pop(change.uuid, None)
        untouched = ending.untouched if ending else change.uuid not in self.intents
        self.intents[change.uuid] = change
        if "error" in record:
            # this attempt does not try it: what was true before is true
            refused = bool(record.get("refused"))
            self.endings[change.uuid] = Ending(
                Result.FAILED,
                error=record["error"],
                code=record.get("code", ""),
                untouched=untouched,
                refused=refused,
            )
            return
        if not untouched:
            self._doubtful.add(change.uuid)
        self._announced.add(change.uuid)
        self._intents_in_a_row += 1

    def _take_outcome(self, record: Mapping[str, Any]) -> None:
        check_types(record, {"uuid": str, "result": str})
        optional = {"generation": int, "untouched": bool, "refused": bool}
        optional |= dict.fromkeys(("error", "code", "note"), str)
        check_types(record, optional, optional=True)
        if not self.is_planned or record["uuid"] not in self.intents:
            raise ValueError(f"nothing was planned for {record['uuid']}")
        uuid, result = record["uuid"], Result(record["result"])
        before = self.endings.get(uuid)
        if uuid in self._tried:
            untouched = bool(record.get("untouched")) and uuid not in self._doubtful
        else:  # this attempt has sent nothing for it: what was true before is true
            untouched = before is not None and before.untouched
        self.endings[uuid] = Ending(
            result,
            record.get("generation"),
            record.get("error", ""),
            record.get("code", ""),
            record.get("note", ""),
            untouched,
            rejected=untouched and bool(record.get("refused")),
            refused=result is Result.FAILED and before is not None and before.refused,
        )
