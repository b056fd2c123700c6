# SPDX-License-Identifier: Apache-2.0
"""Statements that find, lock, create, move, rename and delete resource providers.

Several locks are always taken by ascending id, by a claim on several providers as well as by a move, which
locks all providers of the trees concerned. A new child locks its parent and root, so that changes to one tree
wait for each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.model import canonical_uuid
from osc_placement.server import errors
from osc_placement.server.db import dialects, writers
from osc_placement.server.db.tables import (
    allocations,
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider as it is stored; ``modified`` is UTC. Other programs may store no time and no generation."""

    id: int
    uuid: str
    name: str
    generation: int | None
    parent_provider_uuid: str | None
    root_provider_uuid: str
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Locked:
    """A provider that no other transaction can change before this one ends."""

    id: int
    uuid: str
    generation: int
    parent_id: int | None
    root_id: int

    @classmethod
    def from_columns(cls, uuid: str, columns: Iterable[int]) -> Locked:
        """Return the provider whose `LOCKED_COLUMNS` these are."""
        id_, generation, parent_id, root_id = columns
        return cls(id_, uuid, generation, parent_id or None, root_id)


# rows of releases without trees have no root, and are roots themselves
_root_id = sa.func.coalesce(resource_providers.c.root_provider_id, resource_providers.c.id)
_parent = resource_providers.alias("parent")
_root = resource_providers.alias("root")

#: a query for the columns of `Provider`, to which callers add conditions
select_providers = (
    sa.select(
        resource_providers.c.id,
        resource_providers.c.uuid,
        sa.func.coalesce(resource_providers.c.name, "").label("name"),
        resource_providers.c.generation,
        _parent.c.uuid.label("parent_provider_uuid"),
        sa.func.coalesce(_root.c.uuid, resource_providers.c.uuid).label("root_provider_uuid"),
        sa.func.coalesce(resource_providers.c.updated_at, resource_providers.c.created_at).label("modified"),
    )
    .outerjoin(_parent, resource_providers.c.parent_provider_id == _parent.c.id)
    .outerjoin(_root, resource_providers.c.root_provider_id == _root.c.id)
)


_NO_GENERATION: Final = -1
#: the generation for `dialects.packed`, which accepts no NULL; `to_generation` returns it as it is stored
packed_generation = sa.func.coalesce(resource_providers.c.generation, _NO_GENERATION)


def to_generation(number: int) -> int | None:
    """Return a generation read as `packed_generation`, None if another program has stored NULL."""
    return None if number == _NO_GENERATION else number


_load = select_providers.where(resource_providers.c.uuid == sa.bindparam("uuid"))


def load(conn: Connection, uuid: str) -> Provider:
    """Return the provider with this UUID; :raises errors.ProviderNotFound: there is none."""
    row = conn.execute(_load, {"uuid": uuid}).one_or_none()
    if row is None:
        raise errors.ProviderNotFound(uuid)
    return Provider(*row)


def find_ids(conn: Connection, *, name: str | None, uuid: str | None, in_tree: str | None) -> set[int]:
    """Return the ids of the providers with this name, this UUID and in the tree of this UUID, if given."""
    columns = resource_providers.c
    query = sa.select(columns.id)
    if name:
        query = query.where(columns.name == name)
    if uuid:
        query = query.where(columns.uuid == uuid)
    if in_tree:
        root_id = conn.scalar(sa.select(_root_id).where(columns.uuid == in_tree))
        if root_id is None:
            return set()
        query = query.where((columns.root_provider_id == root_id) | (columns.id == root_id))
    return set(conn.scalars(query))


# another program may have stored no generation, which is locked and incremented as 0
_generation = sa.func.coalesce(resource_providers.c.generation, 0)
#: the integers of `Locked`
LOCKED_COLUMNS: Final = (
    resource_providers.c.id,
    _generation,
    sa.func.coalesce(resource_providers.c.parent_provider_id, 0),
    _root_id,
)
_lock = (
    sa.select(resource_providers.c.uuid, dialects.packed_integers(*LOCKED_COLUMNS))
    .order_by(resource_providers.c.id)
    .with_for_update()
)
_lock_by_uuid = _lock.where(resource_providers.c.uuid == sa.bindparam("uuid"))
_lock_by_ids = _lock.where(resource_providers.c.id.in_(sa.bindparam("ids", expanding=True)))


def lock(conn: Connection, uuid: str, *, generation: int | None = None) -> Locked:
    """Lock the provider with this UUID until the transaction ends.

    :param generation: the generation the change is based on, if the client said one
    :raises errors.ProviderNotFound: there is none
    :raises errors.ProviderChanged: its generation is another
    """
    provider = lock_named(conn, uuid).get(uuid)
    if provider is None:
        raise errors.ProviderNotFound(uuid)
    if generation is not None and provider.generation != generation:
        raise errors.ProviderChanged
    return provider


def lock_named(conn: Connection, uuid: str) -> dict[str, Locked]:
    """Lock the provider with this UUID, if there is one, and return it by UUID."""
    return _locked(conn.execute(_lock_by_uuid, {"uuid": uuid}))


def lock_ids(conn: Connection, ids: Collection[int], held: Collection[int] = ()) -> dict[str, Locked]:
    """Lock several providers, by ascending id, and return them by UUID.

    :param held: ids that allocations have; a script may have deleted some of these providers
    :raises errors.Retry: one of ``ids`` was deleted
    """
    found: dict[str, Locked] = {}
    for portion in dialects.split(sorted({*ids, *held})):
        found |= _locked(conn.execute(_lock_by_ids, {"ids": portion}))
    if not {locked.id for locked in found.values()} >= set(ids):
        raise errors.Retry
    return found


def _locked(rows: Iterable[Any]) -> dict[str, Locked]:
    # other servers may have stored capital letters, which MariaDB treats as equal
    return {(found := canonical_uuid(uuid)): Locked.from_columns(found, columns) for uuid, columns in rows}


_advance = (
    sa.update(resource_providers)
    # the condition on ids lets SQLite use the primary key, which it does not for pairs
    .where(
        resource_providers.c.id.in_(sa.bindparam("ids", expanding=True)),
        sa.tuple_(resource_providers.c.id, _generation).in_(sa.bindparam("seen", expanding=True)),
    )
    .values(generation=_generation + sa.bindparam("increments"))
)


def advance_generations(
    conn: Connection,
    providers: Iterable[Locked],
    *,
    touched: Collection[int] = (),
    of_use_only: bool = False,
) -> None:
    """Increment the generation of each provider, which tells clients that their data are old.

    The lock keeps other transactions out already. The comparison makes two Galera nodes, whose locks are
    separate, write the same row, so that the second to commit loses.

    :param providers: each as often as its generation is to be incremented by one
    :param touched: ids of further providers whose usage changes
    :param of_use_only: whether nothing but the usage of the providers changes
    :raises errors.Retry: a generation changed in spite of the lock
    :raises errors.GenerationExhausted: a generation is the largest that the database stores
    """
    increments = Counter(providers)
    by_increment: dict[int, list[tuple[int, int]]] = {}
    for provider, increment in increments.items():
        last = provider.generation + increment - 1
        if dialects.of(conn).is_last_generation(last):
            raise errors.GenerationExhausted(resource_providers.name, provider.uuid, last)
        by_increment.setdefault(increment, []).append((provider.id, provider.generation))
    for increment, seen in sorted(by_increment.items()):
        for portion in dialects.split(sorted(seen)):
            parameters = {"ids": [id_ for id_, _ in portion], "seen": portion, "increments": increment}
            if conn.execute(_advance, parameters).rowcount != len(portion):
                raise errors.Retry
    ids = {provider.id for provider in increments}
    if of_use_only:
        writers.record(conn, used={*ids, *touched})
    else:
        writers.record(conn, contents=ids)


@dataclass(frozen=True, slots=True)
class New:
    """A provider to create; without a parent it is the root of a tree."""

    uuid: str
    name: str
    parent_uuid: str | None = None


def create(conn: Connection, new: New) -> Provider:
    """Store a new provider at generation 0.

    :raises errors.TreeRefused: the parent is not a provider, or is the provider itself
    :raises errors.DuplicateProvider: the UUID or the name is taken
    """
    created, refused = create_many(conn, [new], lock_with_parents(conn, [new]))
    for error in refused.values():
        raise error
    record_created(conn, created.values())
    return load(conn, new.uuid)


def lock_with_parents(
    conn: Connection, new: Iterable[New], others: Collection[int] = ()
) -> dict[str, Locked]:
    """Lock the parents of new providers and the roots of their trees, and others; return all by UUID.

    A parent that does not exist is not among them.

    :param others: the ids of other providers
    :raises errors.Retry: one of them was deleted, or a parent moved, after it was looked up
    """
    uuids = {each.parent_uuid for each in new if each.parent_uuid not in (None, each.uuid)}
    found = {
        uuid: (id_, root_id)
        for portion in dialects.split(sorted(filter(None, uuids)))
        for uuid, id_, root_id in conn.execute(_select_places, {"uuids": portion})
    }
    ids = {*others, *(id_ for pair in found.values() for id_ in pair)}
    locked = lock_ids(conn, ids) if ids else {}
    if any(uuid not in locked or locked[uuid].root_id != root_id for uuid, (_, root_id) in found.items()):
        raise errors.Retry
    return locked


_select_places = sa.select(resource_providers.c.uuid, resource_providers.c.id, _root_id).where(
    resource_providers.c.uuid.in_(sa.bindparam("uuids", expanding=True))
)


def create_many(
    conn: Connection, new: Iterable[New], locked: Mapping[str, Locked]
) -> tuple[dict[str, Locked], dict[str, errors.PlacementError]]:
    """Store new providers at generation 0, parents before their children.

    Return by UUID the providers that were created, and why the others were not. The caller calls
    `record_created`.

    :param locked: by UUID, the parents that exist already, as `lock_with_parents` returned them; the others
        are among the new providers
    :raises errors.Retry: another transaction took a UUID or a name meanwhile
    """
    created: dict[str, Locked] = {}
    refused: dict[str, errors.PlacementError] = {}
    left = list(new)
    while left:
        known = {**locked, **created}
        ready = [each for each in left if each.parent_uuid is None or each.parent_uuid in known]
        if not ready:
            break
        left = [each for each in left if each.parent_uuid is not None and each.parent_uuid not in known]
        places = {each.uuid: known[each.parent_uuid] if each.parent_uuid else None for each in ready}
        ids = _insert(conn, ready, places)
        for each in ready:
            value, parent = ids[each.uuid], places[each.uuid]
            if isinstance(value, errors.PlacementError):
                refused[each.uuid] = value
            else:
                root_id = parent.root_id if parent else value
                created[each.uuid] = Locked(value, each.uuid, 0, parent.id if parent else None, root_id)
    for each in left:
        refused[each.uuid] = errors.TreeRefused(
            "create",
            "parent provider UUID cannot be same as UUID. Please set parent provider UUID to None if there "
            "is no parent."
            if each.parent_uuid == each.uuid
            else "parent provider UUID does not exist.",
        )
    roots = sorted(each.id for each in created.values() if each.parent_id is None)
    for portion in dialects.split(roots):
        # the root belongs to the creation of the provider and is not a modification that clients should see
        _set_root(conn, portion, resource_providers.c.id, updated_at=None)
    return created, refused


def _insert(
    conn: Connection, new: Sequence[New], places: Mapping[str, Locked | None]
) -> dict[str, int | errors.DuplicateProvider]:
    """Insert the rows of providers below their parents; return by UUID the ids, or why there is none.

    All are inserted at once. If a UUID or a name is taken, they are inserted one by one, since the database
    decides which names are equal; in MariaDB, "Blue" equals "blue".
    """
    rows = {
        each.uuid: {
            "uuid": each.uuid,
            "name": each.name,
            "generation": 0,
            "parent_provider_id": parent.id if parent else None,
            "root_provider_id": parent.root_id if parent else None,
        }
        for each in new
        for parent in [places[each.uuid]]
    }
    if len(new) > 1:
        try:
            with conn.begin_nested():
                conn.execute(sa.insert(resource_providers), list(rows.values()))
        except db_exc.DBDuplicateEntry:
            pass
        else:
            return {
                uuid: id_
                for portion in dialects.split(list(rows))
                for uuid, id_, _ in conn.execute(_select_places, {"uuids": portion})
            }
    inserted: dict[str, int | errors.DuplicateProvider] = {}
    columns = resource_providers.c
    for each in new:
        is_taken = (columns.uuid == each.uuid) | (columns.name == each.name)
        taken = conn.scalars(sa.select(columns.uuid).where(is_taken)).all()
        if taken:
            what = f"uuid: {each.uuid}" if each.uuid in taken else f"name: {each.name}"
            inserted[each.uuid] = errors.DuplicateProvider(what)
            continue
        try:
            result = conn.execute(sa.insert(resource_providers).values(rows[each.uuid]))
        except db_exc.DBDuplicateEntry as error:
            # another transaction took the UUID or name after the check; the retry finds out which
            raise errors.Retry from error
        inserted[each.uuid] = result.inserted_primary_key[0]  # type: ignore[index]  # an INSERT of one row has it
    return inserted


def record_created(conn: Connection, created: Collection[Locked]) -> None:
    """Record that providers were created, and let changes of the trees that they joined collide on Galera."""
    ids = {each.id for each in created}
    writers.record(conn, contents=ids)
    if roots := {each.root_id for each in created} - ids:
        writers.collide(conn, roots)


def _set_root(conn: Connection, ids: Collection[int], root_id: object, **more: object) -> None:
    statement = sa.update(resource_providers).where(resource_providers.c.id.in_(sorted(ids)))
    conn.execute(statement.values(root_provider_id=root_id, **more))


def update(conn: Connection, uuid: str, changes: Mapping[str, Any], *, reparenting_allowed: bool) -> Provider:
    """Rename a provider, or move it with its subtree to another place in a tree.

    :param changes: ``name``, and ``parent_provider_uuid`` if the request has it; None makes it a root
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.TreeRefused: the move is not allowed, or would create a loop
    :raises errors.DuplicateProvider: another provider has the name
    """
    provider = load(conn, uuid)
    parent_uuid = changes.get("parent_provider_uuid", provider.parent_provider_uuid)
    if parent_uuid != provider.parent_provider_uuid:
        _move(conn, uuid, parent_uuid, reparenting_allowed=reparenting_allowed)
    if changes["name"] != provider.name:
        statement = sa.update(resource_providers).where(resource_providers.c.id == provider.id)
        try:
            if conn.execute(statement.values(name=changes["name"])).rowcount != 1:
                raise errors.Retry
        except db_exc.DBDuplicateEntry as error:
            raise errors.DuplicateProvider(changes["name"]) from error
        writers.record(conn, contents=[provider.id])
    return load(conn, uuid)


def _move(conn: Connection, uuid: str, parent_uuid: str | None, *, reparenting_allowed: bool) -> None:
    tree = _lock_trees(conn, uuid, parent_uuid)
    provider = tree[uuid]
    if provider.parent_id is not None and not reparenting_allowed:
        verb = "un-parenting" if parent_uuid is None else "re-parenting"
        raise errors.TreeRefused("update", f"{verb} a provider is not currently allowed.")
    children: dict[int | None, list[int]] = {}
    for member in tree.values():
        children.setdefault(member.parent_id, []).append(member.id)
    moved: set[int] = set()
    waiting = [provider.id]
    while waiting:
        id_ = waiting.pop()
        if id_ not in moved:
            moved.add(id_)
            waiting.extend(children.get(id_, ()))
    parent = None if parent_uuid is None else tree[parent_uuid]
    if parent is not None and parent.id in moved:
        raise errors.TreeRefused("update", "creating loop in the provider tree is not allowed.")
    conn.execute(
        sa.update(resource_providers)
        .where(resource_providers.c.id == provider.id)
        .values(parent_provider_id=None if parent is None else parent.id)
    )
    _set_root(conn, moved, provider.id if parent is None else parent.root_id)
    writers.record(conn, contents=moved)
    # two moves on two nodes of a cluster must not make a loop
    writers.collide(conn, {other.root_id for other in tree.values()})


def _lock_trees(conn: Connection, uuid: str, parent_uuid: str | None) -> dict[str, Locked]:
    """Lock every provider of the old and of the new tree; return them by UUID."""
    columns = resource_providers.c
    uuids = [uuid] if parent_uuid is None else [uuid, parent_uuid]
    query = sa.select(columns.uuid, _root_id).where(columns.uuid.in_(uuids))
    roots = dict(conn.execute(query).all())
    if uuid not in roots:
        # the provider was deleted after it was read
        raise errors.Retry
    if parent_uuid is not None and parent_uuid not in roots:
        # the reference says "create" for a move too, and clients may match on it
        raise errors.TreeRefused("create", "parent provider UUID does not exist.")
    root_ids = sorted(set(roots.values()))
    members = sa.select(columns.id).where(columns.root_provider_id.in_(root_ids) | columns.id.in_(root_ids))
    ids = set(conn.scalars(members))
    # locked by ids, because the index of roots would lock them in another order than claims do
    tree = lock_ids(conn, ids)
    if any(uuid not in tree or tree[uuid].root_id != root_id for uuid, root_id in roots.items()):
        raise errors.Retry
    if set(conn.scalars(members)) != ids:
        # a child was created before its parent was locked
        raise errors.Retry
    return tree


def delete(conn: Connection, uuid: str) -> None:
    """Delete a provider with its inventories and its associations with traits and aggregates.

    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ProviderHasChildren: other providers have it as their parent
    :raises errors.ProviderInUse: consumers hold allocations on it
    """
    provider = lock(conn, uuid)
    child = sa.select(resource_providers.c.id).where(resource_providers.c.parent_provider_id == provider.id)
    if conn.execute(child.limit(1)).first():
        raise errors.ProviderHasChildren
    held = sa.select(allocations.c.id).where(allocations.c.resource_provider_id == provider.id)
    if conn.execute(held.limit(1)).first():
        raise errors.ProviderInUse
    for table in (inventories, resource_provider_aggregates, resource_provider_traits):
        conn.execute(sa.delete(table).where(table.c.resource_provider_id == provider.id))
    itself = resource_providers.c.id == provider.id
    # a root refers to itself, which some databases treat as a reference that forbids the deletion
    conn.execute(sa.update(resource_providers).where(itself).values(root_provider_id=None))
    try:
        conn.execute(sa.delete(resource_providers).where(itself))
    except db_exc.DBReferenceError as error:
        raise errors.ProviderHasChildren from error
    writers.record(conn, contents=[provider.id])
    if provider.root_id != provider.id:
        writers.collide(conn, [provider.root_id])
