# SPDX-License-Identifier: Apache-2.0
"""Provider configuration files made from what providers have. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Final, Literal

from osc_placement.errors import PlacementError
from osc_placement.model import ProviderRecord
from osc_placement.provider_config.compare import COMPUTE_NODE_TRAIT
from osc_placement.provider_config.document import COMPUTE_NODE, Entry
from osc_placement.provider_config.ownership import Held, find_lasting, find_owner
from osc_placement.state.document import Document, find_places

By = Literal["name", "uuid"]
#: a name of a host that is a file name on every system, and one that nova reads
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class NotKnown(PlacementError):
    """A state file does not have what is needed of a provider."""

    def __init__(self, provider: str, what: str, remedy: str) -> None:
        super().__init__(f"The state file does not have {what} of {provider}; {remedy}")


@dataclass(frozen=True, slots=True)
class Generated:
    """The entries for each host, by the name of its root provider, and what was left out.

    :ivar left_out: how many names were left to whom
    :ivar lasting: how many inventories were left out because nova would find them already there, of whom
    """

    hosts: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    lasting: Mapping[str, int] = field(default_factory=dict)


def generate(providers: Iterable[Held], by: By, *, compute_node: bool = False) -> Generated:
    """Return entries with the custom traits and classes of providers, without those that others report.

    Inventories that the driver does not replace are left out too, see `find_lasting`.

    :param by: what identifies a provider
    :param compute_node: identify the roots of compute nodes by $COMPUTE_NODE
    """
    hosts: dict[str, list[Entry]] = {}
    left_out: Counter[str] = Counter()
    lasting: Counter[str] = Counter()
    for held in sorted(providers, key=lambda each: (each.root, not each.is_root, each.name)):
        mine = []
        for item in held.custom:
            owner = find_owner(held, *item)
            if owner:
                left_out[owner] += 1
            elif item[0] == "inventory" and (whose := find_lasting(held.is_root, held.traits)):
                lasting[whose] += 1
            else:
                mine.append(item)
        if not mine:
            continue
        traits = frozenset(name for kind, name in mine if kind == "trait")
        inventories = {name: held.inventories[name] for kind, name in mine if kind == "inventory"}
        if compute_node and held.is_root and COMPUTE_NODE_TRAIT in held.traits:
            entry = Entry(COMPUTE_NODE, traits, inventories, "uuid")
        elif by == "name":
            entry = Entry(held.name, traits, inventories, "name")
        elif held.uuid is None:
            raise NotKnown(held.name, "the UUID", "give --identify name")
        else:
            entry = Entry(held.uuid, traits, inventories, "uuid")
        hosts.setdefault(held.root, []).append(entry)
    return Generated(hosts, left_out, lasting)


def held_from_records(records: Iterable[ProviderRecord]) -> list[Held]:
    """Return providers that were read with their traits and inventories."""
    records = list(records)
    names = {record.provider.uuid: record.provider.name for record in records}
    return [
        Held(
            record.provider.name,
            record.provider.uuid,
            names.get(record.provider.root_provider_uuid or "", record.provider.name),
            record.provider.parent_provider_uuid is None,
            record.traits or frozenset(),
            record.inventories or {},
        )
        for record in records
    ]


def held_from_document(document: Document) -> list[Held]:
    """Return the providers of a state file; raise NotKnown if it does not say what one has."""
    parents: dict[str, str | EllipsisType | None] = {entry.name: entry.parent for entry in document.providers}
    roots = {name: root for name, (root, _) in find_places(parents).items()}
    found = []
    for entry in document.providers:
        for what in ("traits", "inventories"):
            if getattr(entry.state, what) is None:
                raise NotKnown(entry.name, f"the {what}", "use one that resource provider export wrote")
        if entry.parent is ...:
            raise NotKnown(entry.name, "the parent", "use one that resource provider export wrote")
        found.append(
            Held(
                entry.name,
                entry.uuid,
                roots[entry.name],
                entry.parent is None,
                entry.state.traits or frozenset(),
                entry.state.inventories or {},
            )
        )
    return found


def name_files(hosts: Mapping[str, Sequence[Entry]], uuids: Mapping[str, str | None]) -> dict[str, str]:
    """Return the file for each host: its name, or its UUID where the name is not fit for a file.

    A file with $COMPUTE_NODE is in a directory of its host, as a directory has no more than one of them.
    """
    names: dict[str, str] = {}
    for host, entries in hosts.items():
        stem = host if _FILE_NAME.fullmatch(host) else uuids.get(host)
        if stem is None:
            raise NotKnown(repr(host), "the UUID", "its name cannot be that of a file")
        is_apart = any(entry.key == COMPUTE_NODE for entry in entries)
        names[host] = f"{stem}/{stem}.yaml" if is_apart else f"{stem}.yaml"
    return names
