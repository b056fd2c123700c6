# SPDX-License-Identifier: Apache-2.0
"""The creation, upgrade and check of the schema.

The revisions have the ids of openstack-placement's, so that either server can use a database that the other
made. An empty database gets the newest schema in one step, as it would have after all revisions.
Tables of our own (prefix ``oscp_``) are a `History` beside openstack-placement's, with a version table of
their own.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import dialects, driver_errors, own_tables, tables
from osc_placement.server.db.driver_errors import Kind
from osc_placement.server.db.names import FIRST_CUSTOM_CLASS_ID
from osc_placement.server.db.own_tables import database_identity, writers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from osc_placement.server.db.engine import Database

LOG = logging.getLogger(__name__)


class SchemaError(Exception):
    """The schema is not as required or cannot be upgraded; the text says what to do."""


@dataclass(frozen=True, slots=True)
class History:
    """A sequence of revisions, and the table that records the current one."""

    #: the ids of the revisions, oldest first
    revisions: tuple[str, ...]
    #: the tables at the newest revision
    metadata: sa.MetaData
    versions: sa.Table

    @property
    def head(self) -> str:
        """Return the newest revision."""
        return self.revisions[-1]


def _describe_version_table(name: str) -> sa.Table:
    """Return the version table as alembic creates it."""
    column = sa.Column("version_num", sa.String(32), nullable=False)
    return sa.Table(name, sa.MetaData(), column, sa.PrimaryKeyConstraint("version_num", name=f"{name}_pkc"))


PLACEMENT: Final = History(
    revisions=("b4ed3a175331", "611cd6dffd7b", "b5c396305c25", "422ece571366", "a082b8bb98d0"),
    metadata=tables.metadata,
    versions=_describe_version_table("alembic_version"),
)
HEAD: Final = PLACEMENT.head

#: tables of our own, which openstack-placement does not see
OWN: Final = History(
    revisions=("d81f5b7a9c23",),
    metadata=own_tables.metadata,
    versions=_describe_version_table("oscp_alembic_version"),
)

#: the advice when a revision finds rows that it cannot convert
REPAIR_FIRST: Final = 'Run the "placement-server db online_data_migrations" command.'


def version(database: Database) -> str | None:
    """Return the recorded revision of the schema, or None."""
    return database.read(_read_version)


def _read_version(connection: Connection, history: History = PLACEMENT) -> str | None:
    versions = history.versions
    if not sa.inspect(connection).has_table(versions.name):
        return None
    return connection.scalar(sa.select(versions.c.version_num))


@dataclass(frozen=True, slots=True)
class State:
    """Values that differ if a database was replaced, or lost standard names.

    :ivar identity: of `own_tables.database_identity`; None without that table
    :ivar classes: how many standard resource classes there are
    :ivar traits: how many traits there are that are not custom
    """

    identity: int | None
    classes: int
    traits: int

    def is_of_the_same_database(self, before: State) -> bool:
        """Return whether this is the same database without a loss; added names are allowed."""
        gone = self.classes < before.classes or self.traits < before.traits
        return self.identity == before.identity and not gone


def read_state(connection: Connection, *, own_tables: bool) -> State:
    """Read the state, in one statement."""
    classes, traits = tables.resource_classes.c, tables.traits.c
    identity: sa.Select[Any] = sa.select(sa.null())
    if own_tables:
        identity = sa.select(sa.func.max(database_identity.c.identity))
    count = sa.func.count()
    queries = (
        identity,
        sa.select(count).select_from(tables.resource_classes).where(classes.id < FIRST_CUSTOM_CLASS_ID),
        sa.select(count).select_from(tables.traits).where(traits.name.not_like("CUSTOM%")),
    )
    return State(*connection.execute(sa.select(*(query.scalar_subquery() for query in queries))).one())


def upgrade(database: Database, revision: str = "head") -> None:
    """Upgrade the schema to a revision; do nothing if it is there already.

    This is one transaction if the database has transactions for schemas. MariaDB has none, so an interrupted
    upgrade may have to be finished by hand. Processes that start together take turns.

    :raises SchemaError: there is no such revision, or the present tables prevent the upgrade
    """
    wants_head = revision in ("head", HEAD)
    if not (wants_head and version(database) == HEAD):
        with database.engine.begin() as connection, dialects.of(connection).schema_lock(connection):
            # read again, as another process may have upgraded it meanwhile
            current = _read_version(connection)
            present = sa.inspect(connection).get_table_names()
            if current is None and not PLACEMENT.metadata.tables.keys().isdisjoint(present):
                raise SchemaError(
                    "There are tables of placement, but no record of their version. If they came from "
                    "elsewhere, say which it is with 'placement-server db stamp'; if their making was "
                    "interrupted, start over with an empty database"
                )
            if not wants_head or current not in (None, HEAD):
                _run(connection, "upgrade", revision)
            elif current is None:
                _create(connection, PLACEMENT)
    if wants_head:
        upgrade_own(database)


def upgrade_own(database: Database) -> None:
    """Upgrade the tables of our own, create those that were dropped by hand, and let writes record changes.

    :raises SchemaError: the present tables prevent it, or the account has no privilege
    :raises errors.DatabaseUnavailable: the connection was lost
    """
    try:
        if not database.read(_can_use_own):
            with database.engine.begin() as connection, dialects.of(connection).schema_lock(connection):
                _complete(connection)
    except (db_exc.DBConnectionError, db_exc.DBDeadlock) as error:
        raise errors.DatabaseUnavailable from error
    except (db_exc.DBError, sa.exc.DatabaseError, errors.DatabaseReadOnly) as error:
        # the driver of MariaDB raises the same class for a missing privilege as for a failing server
        reason = getattr(error, "inner_exception", None) or getattr(error, "orig", None) or error
        raise SchemaError(" ".join(str(reason).split())) from error
    database.records_changes = True


def use_own(database: Database) -> None:
    """Let writes record changes if the tables of our own are complete, without creating any."""
    database.records_changes = database.read(_can_use_own)


def _is_complete(connection: Connection) -> bool:
    """Return whether all tables of our own are there, at the newest revision, with the rows they begin with.

    :raises SchemaError: they belong to another release
    """
    current = _read_version(connection, OWN)
    if current not in (None, *OWN.revisions):
        raise SchemaError(
            f"the tables of our own are at version {current}, not at {OWN.head}: another release made them; "
            "if no server of it uses this database any more, drop the tables whose names begin with oscp_"
        )
    if current != OWN.head or not OWN.metadata.tables.keys() <= set(sa.inspect(connection).get_table_names()):
        return False
    return connection.scalar(sa.select(database_identity.c.identity).limit(1)) is not None


def _complete(connection: Connection) -> None:
    """Create the tables of our own as far as that is not done."""
    if _is_complete(connection):
        # another process did it meanwhile
        return
    if _read_version(connection, OWN) is not None:
        # they were dropped by hand, but not the record of their version
        connection.execute(sa.delete(OWN.versions))
    _create(connection, OWN)
    if connection.scalar(sa.select(sa.func.count()).select_from(database_identity)) == 0:
        connection.execute(sa.insert(database_identity).values(identity=secrets.randbits(62)))


def _can_use_own(connection: Connection) -> bool:
    """Return whether the tables of our own are complete.

    :raises SchemaError: they belong to another release, or the account may not use them
    """
    try:
        if not _is_complete(connection):
            return False
        if dialects.of(connection).is_server:
            # others have no accounts. The statements change no row, and fail if the account may not write; if
            # nobody may, changes come from where the database can be written, and are recorded there
            nobody = writers.c.id < 0
            copy = sa.select(writers).where(nobody)
            with contextlib.suppress(errors.DatabaseReadOnly):
                connection.execute(sa.update(writers).where(nobody).values(count=0))
                connection.execute(sa.insert(writers).from_select(writers.c.keys(), copy))
                connection.execute(sa.delete(writers).where(nobody))
    except (db_exc.DBError, sa.exc.OperationalError) as error:
        cause = driver_errors.find(error)
        if driver_errors.classify(cause) is Kind.DENIED:
            raise SchemaError(" ".join(str(cause).split())) from error
        raise
    return True


def stamp(database: Database, revision: str) -> None:
    """Record a revision without changing the schema.

    :raises SchemaError: there is no such revision
    """
    with database.engine.begin() as connection, dialects.of(connection).schema_lock(connection):
        _run(connection, "stamp", revision)


def check(database: Database) -> None:
    """Raise SchemaError if the schema cannot be used; a version newer than ours is accepted, and logged.

    :raises SchemaError: it is absent or too old
    """
    if fault := find_fault(database):
        raise SchemaError(fault)
    current = version(database)
    if current not in (HEAD, None):
        LOG.warning("the schema is at version %s, which is newer than %s or not ours", current, HEAD)


def find_fault(database: Database) -> str | None:
    """Return why the schema cannot be used, and what to do, or None if it can."""
    current = version(database)
    if current in PLACEMENT.revisions[:-1]:
        return f"The schema is at version {current}, and {HEAD} is needed: run 'placement-server db sync'"
    if current is None:
        present = database.read(lambda connection: sa.inspect(connection).get_table_names())
        if not PLACEMENT.metadata.tables.keys() <= set(present):
            return "It has no tables of placement: run 'placement-server db sync'"
    return None


def _create(connection: Connection, history: History) -> None:
    # tables of our own exist without a version if their creation was interrupted
    history.metadata.create_all(connection, checkfirst=history is OWN)
    history.versions.create(connection, checkfirst=True)
    connection.execute(sa.insert(history.versions).values(version_num=history.head))


def _run(connection: Connection, command: str, revision: str) -> None:
    # imported late: it takes a tenth of a second, and most starts have nothing to upgrade
    import alembic.command
    from alembic.config import Config
    from alembic.util import CommandError

    # without an ini file, which could be lost or inconsistent
    config = Config(attributes={"connection": connection, "history": PLACEMENT})
    scripts = str(Path(__file__).with_name("migrations"))
    # ConfigParser reads the value and would interpolate %
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    try:
        getattr(alembic.command, command)(config, revision)
    except CommandError as error:
        raise SchemaError(" ".join(str(error).split())) from error
