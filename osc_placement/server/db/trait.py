# SPDX-License-Identifier: Apache-2.0
"""Traits, and their associations with providers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import os_traits
import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import association, dialects, provider, writers
from osc_placement.server.db.tables import resource_provider_traits, traits

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class Trait:
    """A trait as it is stored; ``modified`` is UTC, None on rows from before it was recorded."""

    id: int
    name: str
    modified: datetime | None


_select = sa.select(traits.c.id, traits.c.name, sa.func.coalesce(traits.c.updated_at, traits.c.created_at))


def load_all(
    conn: Connection,
    *,
    names: Collection[str] | None = None,
    prefix: str | None = None,
    associated: bool | None = None,
) -> list[Trait]:
    """Return the traits that pass every filter given, by id.

    :param associated: whether a provider has the trait
    """
    query = _select.order_by(traits.c.id)
    if names is not None:
        query = query.where(traits.c.name.in_(sorted(set(names))))
    if prefix is not None:
        query = query.where(traits.c.name.startswith(prefix, autoescape=True))
    if associated is not None:
        used = traits.c.id.in_(sa.select(resource_provider_traits.c.trait_id))
        query = query.where(used if associated else ~used)
    return [Trait(*row) for row in conn.execute(query)]


def load(conn: Connection, name: str) -> Trait:
    """Return the trait of this name; :raises errors.TraitNotFound: there is none."""
    row = conn.execute(_select.where(traits.c.name == name)).one_or_none()
    if row is None:
        raise errors.TraitNotFound(name)
    return Trait(*row)


def ensure(conn: Connection, name: str) -> tuple[Trait, bool]:
    """Return the trait of this name, and whether it had to be created."""
    try:
        return load(conn, name), False
    except errors.TraitNotFound:
        pass
    try:
        conn.execute(sa.insert(traits).values(name=name))
    except db_exc.DBDuplicateEntry as error:
        raise errors.Retry from error
    writers.record(conn, names=True)
    return load(conn, name), True


def delete(conn: Connection, name: str) -> None:
    """Delete a custom trait that no provider has; it is locked first, so no provider can get it meanwhile.

    :raises errors.TraitNotFound: there is no such trait
    :raises errors.StandardIsFixed: it is not a custom one
    :raises errors.TraitInUse: a provider has it
    """
    id_ = conn.scalar(sa.select(traits.c.id).where(traits.c.name == name).with_for_update())
    if id_ is None:
        raise errors.TraitNotFound(name)
    if not os_traits.is_custom(name):
        raise errors.StandardIsFixed(f"Cannot delete standard trait {name}.")
    having = sa.select(resource_provider_traits.c.trait_id).where(resource_provider_traits.c.trait_id == id_)
    if conn.execute(having.limit(1)).first():
        raise errors.TraitInUse(name)
    try:
        conn.execute(sa.delete(traits).where(traits.c.id == id_))
    except db_exc.DBReferenceError as error:
        raise errors.TraitInUse(name) from error
    writers.record(conn, names=True)


_is_of_provider = resource_provider_traits.c.resource_provider_id == sa.bindparam("provider_id")
_select_of = (
    _select.join(resource_provider_traits, resource_provider_traits.c.trait_id == traits.c.id)
    .where(_is_of_provider)
    .order_by(traits.c.id)
)


def load_of(conn: Connection, uuid: str) -> tuple[provider.Provider, list[Trait]]:
    """Return a provider and its traits; :raises errors.ProviderNotFound: there is no such provider."""
    found = provider.load(conn, uuid)
    return found, [Trait(*row) for row in conn.execute(_select_of, {"provider_id": found.id})]


_select_named = _select.where(traits.c.name.in_(sa.bindparam("names", expanding=True))).order_by(traits.c.id)


def replace(
    conn: Connection, uuid: str, names: Collection[str], *, generation: int | None = None
) -> tuple[int, list[Trait]]:
    """Replace the traits of a provider; return its new generation and the traits.

    The generation is incremented only if the traits change.

    :param generation: the generation the change is based on, if the client said one
    :raises errors.ProviderNotFound: there is no such provider
    :raises errors.ProviderChanged: its generation is another
    :raises errors.TraitNotFound: some of the traits do not exist; its ``name`` lists them
    """
    locked = provider.lock(conn, uuid, generation=generation)
    wanted = [
        Trait(*row)
        for portion in dialects.split(sorted(set(names)))
        for row in conn.execute(_select_named, {"names": portion})
    ]
    if unknown := set(names) - {trait.name for trait in wanted}:
        raise errors.TraitNotFound(", ".join(sorted(unknown)))
    if not association.TRAITS.replace(conn, {locked.id: {trait.id for trait in wanted}}):
        return locked.generation, wanted
    provider.advance_generations(conn, [locked])
    return locked.generation + 1, wanted
