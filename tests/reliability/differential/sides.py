# SPDX-License-Identifier: Apache-2.0
"""The two servers, in this process, each on a database of its own that is emptied between conversations.

The reference keeps its connections and its policy in globals of its modules, so a process has one of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema
import sqlalchemy as sa
from oslo_config import cfg

from osc_placement.server import conf as server_conf
from osc_placement.server import deploy
from osc_placement.server.db import tables
from osc_placement.server.shadow.exchange import Answer, Request, send
from tests.reliability.differential.generate import World

#: what conversations leave behind, in the order in which it can be deleted
_MADE = (
    tables.allocations,
    tables.consumers,
    tables.inventories,
    tables.resource_provider_traits,
    tables.resource_provider_aggregates,
    tables.placement_aggregates,
    tables.projects,
    tables.users,
    tables.consumer_types,
)

#: everything that clients can see, in rows that can be compared; ids, dates and unused names are not
_VISIBLE: Mapping[str, str] = {
    "provider": "SELECT p.uuid, p.name, p.generation, r.uuid AS root, a.uuid AS parent "
    "FROM resource_providers p LEFT JOIN resource_providers r ON r.id = p.root_provider_id "
    "LEFT JOIN resource_providers a ON a.id = p.parent_provider_id",
    "inventory": "SELECT p.uuid, c.name, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, "
    "i.allocation_ratio FROM inventories i JOIN resource_providers p ON p.id = i.resource_provider_id "
    "JOIN resource_classes c ON c.id = i.resource_class_id",
    "allocation": "SELECT p.uuid, a.consumer_id, c.name, a.used FROM allocations a "
    "JOIN resource_providers p ON p.id = a.resource_provider_id "
    "JOIN resource_classes c ON c.id = a.resource_class_id",
    "consumer": "SELECT c.uuid, c.generation, j.external_id AS project, u.external_id AS owner, t.name "
    "FROM consumers c JOIN projects j ON j.id = c.project_id JOIN users u ON u.id = c.user_id "
    "LEFT JOIN consumer_types t ON t.id = c.consumer_type_id",
    "aggregate": "SELECT p.uuid, a.uuid AS aggregate FROM resource_provider_aggregates m "
    "JOIN resource_providers p ON p.id = m.resource_provider_id "
    "JOIN placement_aggregates a ON a.id = m.aggregate_id",
    "trait": "SELECT p.uuid, t.name FROM resource_provider_traits m "
    "JOIN resource_providers p ON p.id = m.resource_provider_id JOIN traits t ON t.id = m.trait_id",
    "custom trait": "SELECT name FROM traits WHERE name LIKE 'CUSTOM%'",
    "custom class": "SELECT name FROM resource_classes WHERE name LIKE 'CUSTOM%'",
}


class Side:
    """A server with its database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = sa.create_engine(url)
        self.application = self._make()

    def _make(self) -> Any:
        raise NotImplementedError

    def send(self, request: Request) -> Answer:
        """The server's answer."""
        return send(self.application, request)

    def close(self) -> None:
        """Close the connections for looking at the database; the server's are its own."""
        self._engine.dispose()

    def empty(self) -> None:
        """Forget everything but the standard traits and classes."""
        providers = tables.resource_providers
        with self._engine.begin() as conn:
            for table in _MADE:
                conn.execute(table.delete())
            conn.execute(providers.update().values(parent_provider_id=None, root_provider_id=None))
            conn.execute(providers.delete())
            for table in (tables.traits, tables.resource_classes):
                conn.execute(table.delete().where(table.c.name.like("CUSTOM%")))

    def state(self) -> frozenset[tuple[Any, ...]]:
        """All that clients can see."""
        with self._engine.connect() as conn:
            return frozenset(
                (kind, *row) for kind, query in _VISIBLE.items() for row in conn.execute(sa.text(query))
            )


class Ours(Side):
    """The server of this project; ``others_write`` if other programs write to its database."""

    def __init__(self, url: str, *, others_write: bool = False) -> None:
        self._others_write = others_write
        super().__init__(url)

    def _make(self) -> Any:
        conf = cfg.ConfigOpts()
        server_conf.register_opts(conf)
        _configure(conf, self._url)
        conf.set_override("other_programs_write", self._others_write, "placement_database")
        return deploy.loadapp(conf)

    def empty(self) -> None:
        """The same, with a new application: what one remembers, it may remember only of its own database."""
        super().empty()
        self.application = self._make()


class Reference(Side):
    """openstack-placement."""

    def _make(self) -> Any:
        from placement import conf as reference_conf
        from placement import db_api
        from placement import deploy as reference_deploy

        conf = cfg.ConfigOpts()
        reference_conf.register_opts(conf)
        _configure(conf, self._url)
        # PERF: with each body it has jsonschema judge its schema too, which takes a quarter of its time
        jsonschema.Draft202012Validator.check_schema = classmethod(lambda *arguments, **keywords: None)
        db_api.configure(conf)
        return reference_deploy.loadapp(conf)

    def forget_phantoms(self) -> None:
        """Delete the consumers that hold nothing, which refused claims leave behind here.

        A known fault (see differences.rst); with them, the claims that follow could not be compared.
        """
        held = sa.select(tables.allocations.c.consumer_id)
        with self._engine.begin() as conn:
            conn.execute(tables.consumers.delete().where(tables.consumers.c.uuid.not_in(held)))


def _configure(conf: cfg.ConfigOpts, url: str) -> None:
    conf.set_default("connection", url, "placement_database")
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("sync_on_startup", True, "placement_database")
    conf.set_override("sqlite_synchronous", False, "placement_database")
    conf.set_override("auth_strategy", "noauth2", "api")


def look(state: frozenset[tuple[Any, ...]]) -> World:
    """What a conversation can be about, in an order that a seed can rely on."""
    rows = sorted((row for row in state if row[0] in ("provider", "consumer")), key=lambda row: row[:2])
    return World(
        # an operator may have stored no generation
        providers={row[1]: row[3] or 0 for row in rows if row[0] == "provider"},
        consumers={row[1]: row[2] for row in rows if row[0] == "consumer"},
    )
