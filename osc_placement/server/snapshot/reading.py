# SPDX-License-Identifier: Apache-2.0
"""The statements that read what a snapshot shows: of all providers, of some, or of a range of ids.

PERF: a provider is one row, with its traits, aggregates and inventories as lists in texts. Drivers take
microseconds for each row and column, and a text that was parsed before is not parsed again, as thousands of
hosts have the same traits. Subqueries follow keys, so that databases sort nothing. 10,000 hosts with 60
traits each are read in a third of the time that a row for each trait takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from osc_placement.candidates.node import Node, Stock
from osc_placement.model import INVENTORY_FIELDS, Inventory
from osc_placement.server.db import dialects, provider
from osc_placement.server.db.tables import (
    allocations,
    inventories,
    placement_aggregates,
    resource_classes,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

#: the ids of some providers, a range of ids, or None for all
Ids = Collection[int] | None
#: the amount used, by (id of provider, id of resource class)
Usage = dict[tuple[int, int], int]
#: the inventories of a provider: id and name of the class, and the inventory, by ascending id
Inventories = tuple[tuple[int, str, Inventory], ...]

_Parse = Callable[[Mapping[int, str], Sequence[str]], tuple[Any, ...]]

#: the number of texts of one kind of which the values are kept
_MOST_KEPT: Final = 20_000


class Names:
    """What ids stand for, and the lists that texts of ids stand for.

    Equal lists share one object, which saves memory, and time when they are compared.

    :ivar classes: the name of each resource class, by id
    :ivar traits: the name of each trait, by id
    :ivar aggregates: the UUID of each aggregate, by id
    :ivar trait_times: the time of the last modification of each trait, by name
    """

    def __init__(
        self,
        classes: Mapping[int, str],
        traits: Mapping[int, str],
        aggregates: Mapping[int, str],
        trait_times: Mapping[str, datetime | None],
    ) -> None:
        """Take what each id stands for."""
        self.classes, self.traits, self.aggregates = classes, traits, aggregates
        self.trait_times = trait_times
        self._lists: dict[tuple[int, str], tuple[tuple[Any, ...], bool]] = {}
        self._values: dict[Any, Any] = {}

    def is_same(self, other: Names) -> bool:
        """Return whether all ids stand for the same."""
        return (self.classes, self.traits, self.aggregates, self.trait_times) == (
            other.classes,
            other.traits,
            other.aggregates,
            other.trait_times,
        )

    def list_traits(self, text: str | None) -> tuple[tuple[str, ...], bool]:
        """Return the names of the traits with these ids, which commas separate, by ascending id.

        Unknown ids are left out; whether there is none is returned, too.
        """
        return self._list(text, self.traits, self._parse_ids)

    def list_aggregates(self, text: str | None) -> tuple[tuple[str, ...], bool]:
        """Return the UUIDs of the aggregates with these ids, as `list_traits` does."""
        return self._list(text, self.aggregates, self._parse_ids)

    def list_inventories(self, text: str | None) -> tuple[Inventories, bool]:
        """Return inventories of known classes, each of which is packed, as `list_traits` does."""
        return self._list(text, self.classes, self._parse_inventories)

    def _list(
        self, text: str | None, names: Mapping[int, str], parse: _Parse
    ) -> tuple[tuple[Any, ...], bool]:
        if not text:
            return (), True
        key = id(names), text
        if key not in self._lists:
            if len(self._lists) >= _MOST_KEPT:
                self._lists.clear()
                self._values.clear()
            items = text.split(",")
            value = parse(names, items)
            # the ids may have another order in each text
            self._lists[key] = self._values.setdefault(value, value), len(value) == len(items)
        return self._lists[key]

    def _parse_ids(self, names: Mapping[int, str], items: Sequence[str]) -> tuple[str, ...]:
        return tuple([names[id_] for id_ in sorted(map(int, items)) if id_ in names])

    def _parse_inventories(self, names: Mapping[int, str], items: Sequence[str]) -> Inventories:
        found = []
        for item in items:
            class_id, *amounts, ratio = item.split(" ")
            # no foreign key prevents the deletion of a class; a deleted class cannot be requested
            if name := names.get(int(class_id)):
                fields: tuple[Any, ...] = (*map(int, amounts), float(ratio))
                inventory = Inventory(*fields)
                found.append((int(class_id), name, self._values.setdefault(inventory, inventory)))
        return tuple(sorted(found, key=lambda each: each[0]))


def read_names(conn: Connection) -> Names:
    """Return the resource classes, traits and aggregates that exist."""
    rows = conn.execute(_TRAITS).all()
    return Names(
        dict(conn.execute(_CLASSES).all()),
        {id_: name for id_, name, _ in rows},
        dict(conn.execute(_AGGREGATES).all()),
        {name: time for _, name, time in rows},
    )


_TRAITS: Final = sa.select(
    traits.c.id, traits.c.name, sa.func.coalesce(traits.c.updated_at, traits.c.created_at)
)
_CLASSES: Final = sa.select(resource_classes.c.id, resource_classes.c.name)
_AGGREGATES: Final = sa.select(placement_aggregates.c.id, placement_aggregates.c.uuid)


class _Read:
    """A statement about all providers, some, and a range; all are built once, because that takes long."""

    def __init__(self, provider_id: sa.ColumnElement[int], make: Callable[..., Any]) -> None:
        """Build them with a function that makes a statement with conditions on the id of providers."""
        first, end = (sa.bindparam(name, type_=sa.BigInteger) for name in ("first", "end"))
        self._all = make()
        self._some = make(provider_id.in_(sa.bindparam("ids", expanding=True)))
        self._range = make(provider_id >= first, provider_id < end)

    def run(self, conn: Connection, ids: Ids) -> Any:
        """Return the rows about these providers."""
        if ids is None:
            return conn.execute(self._all)
        if isinstance(ids, range):
            return conn.execute(self._range, {"first": ids.start, "end": ids.stop})
        return conn.execute(self._some, {"ids": list(ids)})


def _gather(value: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    return sa.func.aggregate_strings(value, ",")


_P, _T, _A = resource_providers.c, resource_provider_traits.c, resource_provider_aggregates.c
_I: Final = inventories.c
_ROW: Final = (
    dialects.packed(
        _P.id,
        provider.packed_generation,
        sa.func.coalesce(_P.parent_provider_id, 0),
        sa.func.coalesce(_P.root_provider_id, _P.id),
        _P.uuid,
        # the name is the last field, as it may contain blanks
        sa.func.coalesce(_P.name, ""),
    ),
    sa.func.coalesce(_P.updated_at, _P.created_at),
)
_CONTENTS: Final = tuple(
    query.where(of == _P.id).scalar_subquery()
    for query, of in (
        (sa.select(_gather(sa.cast(_T.trait_id, sa.String(12)))), _T.resource_provider_id),
        (sa.select(_gather(sa.cast(_A.aggregate_id, sa.String(12)))), _A.resource_provider_id),
        (
            sa.select(
                _gather(dialects.packed(_I.resource_class_id, *(_I[name] for name in INVENTORY_FIELDS)))
            ),
            _I.resource_provider_id,
        ),
        (
            sa.select(sa.func.max(sa.func.coalesce(_I.updated_at, _I.created_at))).join_from(
                inventories, resource_classes, _I.resource_class_id == resource_classes.c.id
            ),
            _I.resource_provider_id,
        ),
    )
)
_ROWS: Final = _Read(_P.id, lambda *conditions: sa.select(*_ROW).where(*conditions))
_NODES: Final = _Read(_P.id, lambda *conditions: sa.select(*_ROW, *_CONTENTS).where(*conditions))


class _Row(NamedTuple):
    """A provider's row but for the time of its last modification; another program may store no generation."""

    id: int
    uuid: str
    parent_id: int | None
    root_id: int
    name: str
    generation: int | None

    @classmethod
    def unpack(cls, text: str) -> _Row:
        """Return the row of the text that the database makes of it."""
        id_, generation, parent_id, root_id, uuid, name = text.split(" ", 5)
        stored = provider.to_generation(int(generation))
        return cls(int(id_), uuid, int(parent_id) or None, int(root_id), name, stored)


def read_nodes(conn: Connection, names: Names, ids: Ids) -> tuple[dict[int, Node], bool]:
    """Return these providers by id, as far as they exist, and whether all that they have is known."""
    usage = read_usage(conn, ids)
    found = {}
    is_known = True
    for text, modified, trait_ids, aggregate_ids, packed, stocked in _NODES.run(conn, ids):
        row = _Row.unpack(text)
        inventories, *known = names.list_inventories(packed)
        trait_names, *more = names.list_traits(trait_ids)
        aggregates, *rest = names.list_aggregates(aggregate_ids)
        is_known &= all((*known, *more, *rest))
        stocks = {
            name: Stock(inventory, usage.get((row.id, class_id), 0))
            for class_id, name, inventory in inventories
        }
        found[row.id] = Node(
            row.id,
            row.uuid,
            row.parent_id,
            row.root_id,
            stocks,
            trait_names,
            aggregates,
            row.name,
            row.generation,
            modified,
            stocked,
        )
    return found, is_known


def read_used(conn: Connection, names: Names, known: Mapping[int, Node]) -> dict[int, Node]:
    """Return these providers by id, as far as they exist, after changes of nothing but their usage.

    Only their rows and their usage are read.
    """
    usage = read_usage(conn, known.keys())
    class_ids = {name: id_ for id_, name in names.classes.items()}
    found = {}
    for text, modified in _ROWS.run(conn, known.keys()):
        row = _Row.unpack(text)
        node = known[row.id]
        found[row.id] = Node(
            row.id,
            row.uuid,
            row.parent_id,
            row.root_id,
            {
                name: Stock(stock.inventory, usage.get((row.id, class_ids.get(name, -1)), 0))
                for name, stock in node.stocks.items()
            },
            node.traits,
            node.aggregates,
            row.name,
            row.generation,
            modified,
            node.stocked,
        )
    return found


_KEY: Final = allocations.c.resource_provider_id, allocations.c.resource_class_id


def _sum_usage(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return a statement with the usage of many inventories in one text.

    The ids of a text differ in their low bits only, so that none becomes too long.
    """
    used = sa.func.sum(allocations.c.used).label("used")
    sums = sa.select(*_KEY, used).where(*conditions).group_by(*_KEY).subquery()
    query = sa.select(_gather(dialects.packed(*sums.c)))
    return query.group_by(sums.c.resource_provider_id.op(">>")(sa.literal_column("5")))


_USAGE: Final = _Read(_KEY[0], _sum_usage)


def read_usage(conn: Connection, ids: Ids = None) -> Usage:
    """Return the usage of each inventory, existing or deleted, of these providers."""
    usage = {}
    for (text,) in _USAGE.run(conn, ids):
        for item in text.split(","):
            id_, class_id, used = item.split(" ")
            usage[int(id_), int(class_id)] = int(used)
    return usage


_STOCKING: Final = sa.select(_I.resource_provider_id).where(
    _I.resource_class_id.in_(sa.bindparam("class_ids", expanding=True))
)


def find_stocked(conn: Connection, class_ids: Collection[int]) -> set[int]:
    """Return the ids of the providers with inventory of one of these classes, whether they exist or not."""
    return set(conn.scalars(_STOCKING, {"class_ids": sorted(class_ids)}))
