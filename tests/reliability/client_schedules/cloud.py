# SPDX-License-Identifier: Apache-2.0
"""A placement server in this process, its contents as cells, and the record of who wrote which cell.

A cell is the smallest thing that a client can set: a field of an inventory, one trait of a provider, the
amount that a consumer has allocated of a class. It is a tuple of the kind and the id of its subject, and of
what it is there. Generations are no cells. Cells are read from the tables, not through the API.
"""

import itertools

from osc_placement.server import deploy
from osc_placement.server.db import upgrade
from osc_placement.server.db.engine import Database
from osc_placement.server.testing import make_conf
from tests.reliability.fault_proxy import direct_client

RUN, OTHER = "run", "other"

FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


class Server:
    """A server on a database of SQLite in memory, whose contents can be saved and restored."""

    def __init__(self):
        conf = make_conf()
        conf.set_override("auth_strategy", "noauth2", "api")
        self._database = Database.from_conf(conf)
        upgrade.upgrade(self._database)
        self._borrowed = self._database.engine.raw_connection()
        self._connection = self._borrowed.driver_connection
        self.application = deploy.make_application(conf, self._database)
        self._identities = itertools.count(1)
        #: no fault can reach it
        self.client = direct_client(self.application)

    def close(self):
        """Close the database."""
        self._borrowed.close()
        self._database.dispose()

    def save(self):
        """Return the contents of the database."""
        return self._connection.serialize()

    def restore(self, contents):
        """Replace the contents of the database, and let the server see that it is another one.

        It may have as many writes as the one before it, by the same server, and the server would believe that
        it has read them.
        """
        self._connection.deserialize(contents)
        identity = next(self._identities)
        self._connection.execute("UPDATE oscp_database_identity SET identity = ?", [identity])
        self._connection.commit()

    def read_cells(self):
        """Return the value of each cell."""
        execute = self._connection.execute
        cells = {}
        for uuid, name, parent in execute(
            "SELECT p.uuid, p.name, a.uuid FROM resource_providers p "
            "LEFT JOIN resource_providers a ON a.id = p.parent_provider_id"
        ):
            cells["provider", uuid, "name"] = name
            cells["provider", uuid, "parent"] = parent
        for uuid, name, *values in execute(
            "SELECT p.uuid, c.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, "
            "i.allocation_ratio FROM inventories i "
            "JOIN resource_providers p ON p.id = i.resource_provider_id "
            "JOIN resource_classes c ON c.id = i.resource_class_id"
        ):
            for field, value in zip(FIELDS, values, strict=True):
                cells["provider", uuid, "inventories", name, field] = value
        for uuid, trait in execute(
            "SELECT p.uuid, t.name FROM resource_provider_traits m "
            "JOIN resource_providers p ON p.id = m.resource_provider_id JOIN traits t ON t.id = m.trait_id"
        ):
            cells["provider", uuid, "traits", trait] = True
        for uuid, aggregate in execute(
            "SELECT p.uuid, a.uuid FROM resource_provider_aggregates m "
            "JOIN resource_providers p ON p.id = m.resource_provider_id "
            "JOIN placement_aggregates a ON a.id = m.aggregate_id"
        ):
            cells["provider", uuid, "aggregates", aggregate] = True
        for consumer, provider, name, amount in execute(
            "SELECT a.consumer_id, p.uuid, c.name, a.used FROM allocations a "
            "JOIN resource_providers p ON p.id = a.resource_provider_id "
            "JOIN resource_classes c ON c.id = a.resource_class_id"
        ):
            cells["consumer", consumer, "allocations", provider, name] = amount
        for consumer, *owner in execute(
            "SELECT c.uuid, j.external_id, u.external_id, t.name FROM consumers c "
            "JOIN projects j ON j.id = c.project_id JOIN users u ON u.id = c.user_id "
            "LEFT JOIN consumer_types t ON t.id = c.consumer_type_id"
        ):
            cells["consumer", consumer, "owner"] = tuple(owner)
        for table, kind in (("traits", "trait"), ("resource_classes", "resource class")):
            for (name,) in execute(f"SELECT name FROM {table} WHERE name LIKE 'CUSTOM%'"):  # noqa: S608
                cells["name", f"{kind} {name}", "exists"] = True
        return cells


class Ledger:
    """Who wrote which cell, of two: the run, and everybody else.

    :ivar first: the cells before anybody wrote
    :ivar now: the cells after the last write
    :ivar without: the cells as they would be if the run had written nothing
    :ivar written: the cells that the run has changed at least once
    :ivar others: the cells that others have changed at least once
    :ivar last: by cell, who changed it last
    """

    def __init__(self, cells):
        self.first, self.now, self.without = dict(cells), dict(cells), dict(cells)
        self.written, self.others, self.last = set(), set(), {}

    def copy(self):
        """Return another ledger with the same contents."""
        other = Ledger(self.first)
        other.now, other.without = dict(self.now), dict(self.without)
        other.written, other.others, other.last = set(self.written), set(self.others), dict(self.last)
        return other

    def note(self, actor, cells):
        """Note that an actor made the cloud these cells."""
        for cell in self.now.keys() | cells.keys():
            value = cells.get(cell)
            if value == self.now.get(cell) and (cell in cells) == (cell in self.now):
                continue
            self.last[cell] = actor
            if actor == RUN:
                self.written.add(cell)
                continue
            self.others.add(cell)
            if cell in cells:
                self.without[cell] = value
            else:
                self.without.pop(cell, None)
        self.now = dict(cells)

    def is_overwritten(self, uuid):
        """Return whether others changed a cell of a subject that the run had changed.

        Of a consumer any change of others counts, as all that it holds is one claim.
        """
        return any(
            cell[1] == uuid and actor == OTHER and (cell in self.written or cell[0] == "consumer")
            for cell, actor in self.last.items()
        )

    @property
    def is_alone(self):
        """Return whether nobody else wrote."""
        return not self.others

    def has_other(self, uuid):
        """Return whether somebody else changed a subject."""
        return any(cell[1] == uuid for cell in self.others)


def of_subject(cells, uuid):
    """Return the cells of one subject."""
    return {cell: value for cell, value in cells.items() if cell[1] == uuid}
