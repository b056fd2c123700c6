# SPDX-License-Identifier: Apache-2.0
"""The functions that read the snapshot from the database, completely or as far as it changed.

Each runs in one read transaction, whose first statement reads the mark of the vector (see `vector`), so the
vector and the snapshot kept with it belong to one moment.
"""

from __future__ import annotations

import bisect
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from osc_placement.candidates.snapshot import Snapshot
from osc_placement.server import errors
from osc_placement.server.db.writers import Changes
from osc_placement.server.snapshot.reading import (
    Ids,
    Names,
    find_stocked,
    read_names,
    read_nodes,
    read_used,
)
from osc_placement.server.snapshot.vector import Vector, find_changes, read_mark, read_vector

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.candidates.node import Node

#: with more providers than this, reading everything costs as much, and databases limit parameters
MANY: Final = 4000
#: the number of providers that `find_outdated` compares at once
CHUNK: Final = 256


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot with the data that a refresh needs; it is immutable.

    :ivar vector: None without the tables of our own
    """

    vector: Vector | None
    names: Names
    snapshot: Snapshot

    def check_names(self, trait_names: Collection[str], classes: Collection[str]) -> None:
        """Raise an error if one of these traits and classes does not exist.

        :raises errors.TraitNotFound: a trait does not exist
        :raises errors.ResourceClassNotFound: a class does not exist
        """
        for name in sorted(set(trait_names) - self.names.trait_times.keys()):
            raise errors.TraitNotFound(name)
        known = set(self.names.classes.values())
        for name in classes:
            if name not in known:
                raise errors.ResourceClassNotFound(name)


def load(conn: Connection, *, own_tables: bool) -> Loaded:
    """Return all providers, with their inventories, traits and aggregates."""
    vector = read_vector(conn, read_mark(conn))[0] if own_tables else None
    nodes, names = _read_nodes(conn, read_names(conn), None)
    return Loaded(vector, names, Snapshot(nodes.values()))


def refresh(conn: Connection, old: Loaded, *, own_tables: bool, more: Changes | None = None) -> Loaded:
    """Return the same as `load`, reading only the data that can have changed since.

    Nodes that are the same are kept, and if nothing changed, ``old`` is returned.

    :param more: changes that are not recorded
    """
    vector, changes = _find_changes(conn, old, own_tables=own_tables)
    if more is not None:
        changes.add(more)
    return _follow(conn, old, vector, changes)


def _find_changes(conn: Connection, old: Loaded, *, own_tables: bool) -> tuple[Vector | None, Changes]:
    """Return the vector as it is now, and the changes recorded since, which is everything without vectors."""
    mark = read_mark(conn) if own_tables else None
    if mark is not None and old.vector is not None and mark == old.vector.mark:
        return old.vector, Changes()
    vector, recent = read_vector(conn, mark, old.vector) if mark is not None else (None, {})
    if vector is None or old.vector is None:
        return vector, Changes(everything=True)
    return vector, find_changes(old.vector, vector, recent)


def _follow(conn: Connection, old: Loaded, vector: Vector | None, changes: Changes) -> Loaded:
    """Return the snapshot after these changes."""
    if not changes:
        return old if vector is old.vector else Loaded(vector, old.names, old.snapshot)
    is_whole = changes.everything or len(changes.used) > MANY
    names = _read_names(conn, old.names) if is_whole or changes.names else old.names
    while True:
        ids = None if is_whole else _find_ids(conn, old, names, changes)
        nodes, known_names = _read_nodes(conn, names, ids)
        if known_names is names:
            break
        # an aggregate was added, or another program added a trait or a class
        names = known_names
    before = old.snapshot.node
    concerned: Collection[int] = [node.id for node in old.snapshot.nodes]
    if ids is not None:
        known = {id_: node for id_ in changes.used - ids if (node := before(id_))}
        nodes |= read_used(conn, names, known)
        concerned = ids | changes.used
    changed = [node for node in nodes.values() if node != before(node.id)]
    removed = [id_ for id_ in concerned if id_ not in nodes and before(id_)]
    snapshot = old.snapshot.replace(changed, removed=removed) if changed or removed else old.snapshot
    if (vector, names, snapshot) == (old.vector, old.names, old.snapshot):
        return old
    return Loaded(vector, names, snapshot)


def _find_ids(conn: Connection, old: Loaded, names: Names, changes: Changes) -> set[int] | None:
    """Return the ids of the providers of which more than the usage may have changed, or None for all."""
    ids = changes.contents | {id_ for id_ in changes.used if old.snapshot.node(id_) is None}
    if names is old.names:
        return ids
    lost = {name for id_, name in old.names.traits.items() if names.traits.get(id_) != name}
    if (
        old.snapshot.with_any_trait(lost)
        or any(names.aggregates.get(id_) != uuid for id_, uuid in old.names.aggregates.items())
        or any(names.classes.get(id_, name) != name for id_, name in old.names.classes.items())
    ):
        return None
    # inventory of a class that was deleted stays if it was created meanwhile, and a new class may have the
    # id of a deleted one
    if classes := names.classes.keys() ^ old.names.classes.keys():
        ids |= find_stocked(conn, classes)
    return None if len(ids) > MANY else ids


def _read_names(conn: Connection, known: Names) -> Names:
    """Return the names as they are now: the same object if they are the same."""
    names = read_names(conn)
    return known if names.is_same(known) else names


def _read_nodes(conn: Connection, names: Names, ids: Ids) -> tuple[dict[int, Node], Names]:
    """Return providers, and the names, which are read again if a provider has something unknown."""
    if ids is not None and not ids:
        return {}, names
    nodes, is_known = read_nodes(conn, names, ids)
    if not is_known and (fresh := _read_names(conn, names)) is not names:
        return read_nodes(conn, fresh, ids)[0], fresh
    return nodes, names


def find_outdated(conn: Connection, old: Loaded, first: int) -> tuple[Changes, int]:
    """Compare the next `CHUNK` providers with the database, to find the changes that are not recorded.

    :param first: the id to begin with; at 0, names are compared, too
    :return: what differs, and the id to go on with, which is 0 after the last provider
    """
    vector, changes = _find_changes(conn, old, own_tables=True)
    found = Changes()
    if changes.everything:
        # this node of a cluster is behind another, or the next check reads everything
        return found, first
    true = _follow(conn, old, vector, changes)
    names = true.names if first else _read_names(conn, true.names)
    nodes = true.snapshot.nodes
    begin = bisect.bisect_left(nodes, first, key=lambda node: node.id)
    known = {node.id: node for node in nodes[begin : begin + CHUNK]}
    end = nodes[begin + CHUNK].id if begin + CHUNK < len(nodes) else 0
    present, known_names = _read_nodes(conn, names, range(first, end or sys.maxsize))
    found.names = known_names is not true.names
    found.contents = {id_ for id_ in present.keys() | known.keys() if present.get(id_) != known.get(id_)}
    found.used = found.contents
    return found, end
