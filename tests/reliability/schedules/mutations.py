# SPDX-License-Identifier: Apache-2.0
"""Mistakes that are put into the server, each with the operations whose schedules must find it.

A mutation replaces a function or a statement of the server while its schedules run.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from unittest import mock

import sqlalchemy as sa
from oslo_db import exception as db_exc

from osc_placement.server import errors
from osc_placement.server.db import allocation, consumer, engine, names, provider, writers
from tests.databases import BACKENDS, SERVERS
from tests.reliability import galera
from tests.reliability.schedules import explore
from tests.reliability.schedules.cases import Case, Place, find_first_problem, make_place
from tests.reliability.schedules.controller import LETTERS


@dataclass(frozen=True)
class Mutation:
    """A mistake.

    :ivar operations: the names of the operations that meet
    :ivar patches: returns what replaces parts of the server of a place, as (object, attribute, replacement)
    :ivar backends: the databases on which it matters
    :ivar faults: the number of faults without which no schedule shows it
    :ivar letters: the faults among which one shows it
    """

    operations: str
    patches: Callable[[Place], Iterable[tuple[object, str, object]]]
    backends: Sequence[str] = (*SERVERS, galera.BACKEND)
    faults: int = 0
    letters: str = LETTERS

    @contextlib.contextmanager
    def applied(self, place):
        """Put the mistake into the server."""
        with contextlib.ExitStack() as stack:
            for owner, name, replacement in self.patches(place):
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield

    def search(self, backend, preemptions=2, faults=None):
        """Return what `find_first_problem` does about the server with the mistake, on a new database.

        :param faults: by default as many as it needs
        """
        faults = self.faults if faults is None else faults
        names_of_operations = self.operations.split("+")
        with make_place(backend, len(names_of_operations)) as place:
            case = Case(place, names_of_operations)
            case.carry_out_all()
            with self.applied(place):
                return find_first_problem(explore.explore(case, preemptions, faults, self.letters))


def _without_lock(statement):
    """Return a SELECT ... FOR UPDATE as a plain SELECT."""
    unlocked = statement._clone()
    unlocked._for_update_arg = None
    return unlocked


def _unlocked(owner, *names_of_statements):
    return lambda place: [(owner, name, _without_lock(getattr(owner, name))) for name in names_of_statements]


def _generation_not_compared(place):
    """Providers are incremented whatever their generation is."""
    columns = provider.resource_providers.c
    advance = (
        sa.update(provider.resource_providers)
        .where(columns.id.in_(sa.bindparam("ids", expanding=True)))
        .values(generation=provider._generation + sa.bindparam("increments"))
    )
    return [(provider, "_advance", advance)]


def _nothing_locked_or_compared(place):
    """Claims lock no provider, and do not compare its generation."""
    statements = ("_lock_by_uuid", "_lock_by_ids")
    unlocked = [(provider, name, _without_lock(getattr(provider, name))) for name in statements]
    first = (allocation, "_lock_for_first", _without_lock(allocation._lock_for_first))
    return [*unlocked, first, *_generation_not_compared(place)]


def _stock_read_before_lock(place):
    """A claim reads the stock, and locks the provider afterwards."""
    read = allocation._Judge.read

    def read_and_lock(conn, consumers, before, providers, class_ids):
        judge = read(conn, consumers, before, providers, class_ids)
        locked = provider.lock_ids(conn, [each.id for each in providers.values()])
        judge.providers = locked
        return judge

    return [
        (allocation._Judge, "read", staticmethod(read_and_lock)),
        (allocation, "_lock_for_first", _without_lock(allocation._lock_for_first)),
        (provider, "_lock_by_uuid", _without_lock(provider._lock_by_uuid)),
    ]


def _consumer_not_compared(place):
    """A claim does not compare the generation of its consumer."""
    grant = allocation._Judge.grant

    def grant_unchecked(self, request):
        return grant(self, [dataclasses.replace(claim, checked=False) for claim in request])

    return [(allocation._Judge, "grant", grant_unchecked)]


def _changes_not_recorded(place):
    """A transaction does not write down what it changed."""
    return [(writers.Slot, "store", lambda slot, conn, changes: slot)]


def _slot_stored_elsewhere(place):
    """The count of a slot is raised before the transaction, not by its last statement."""
    store = writers.Slot.store

    def store_outside(slot, conn, changes):
        with conn.engine.connect() as other, other.begin():
            return store(slot, other, changes)

    return [(writers.Slot, "store", store_outside)]


def _duplicate_consumer_is_an_error(place):
    """A consumer that another transaction creates meanwhile is not met with a repetition."""

    @contextlib.contextmanager
    def passing():
        yield

    return [(consumer, "_retrying_duplicates", passing)]


def _deletion_deletes_what_it_did_not_lock(place):
    """A deletion takes what another claim has added since it found no consumer."""

    def delete(conn, consumer_uuid):
        consumer.lock(conn, [consumer_uuid])
        if not allocation._delete_of(conn, [consumer_uuid]):
            raise errors.AllocationsNotFound(consumer_uuid)

    return [(allocation, "delete", delete)]


def _names_created_twice_are_an_error(place):
    """A project that another transaction creates meanwhile is not met with a repetition."""

    def ensure(conn, table, column, values):
        ids = {}
        for value in sorted(values):
            id_ = conn.scalar(sa.select(table.c.id).where(table.c[column] == value))
            ids[value] = id_ or conn.execute(sa.insert(table).values({column: value})).inserted_primary_key[0]
        return ids

    return [(names, "_ensure_each", ensure)]


def _one_attempt(place):
    """A transaction that lost a race is not repeated."""
    return [(engine, "LEAST_SECONDS", 0), *((seat.database, "_attempts", 1) for seat in place.seats)]


def _repeatable_read(place):
    """Writes run at REPEATABLE READ, so that a read after a lock shows the state before it."""
    level = {"isolation_level": "REPEATABLE READ"}
    return [
        (seat.database, "_writer", seat.database._writer.execution_options(**level)) for seat in place.seats
    ]


def _trees_do_not_collide(place):
    """A move in a tree writes no row of the roots."""
    return [(writers, "collide", lambda conn, ids: None)]


def _refusals_not_rolled_back(place):
    """A transaction that is refused goes back to the pool as it is."""
    return [(seat.database._writer.dialect, "do_rollback", lambda connection: None) for seat in place.seats]


def _unknown_commit_repeated(place):
    """A transaction whose connection broke in the commit is carried out once more."""
    once_more = engine._once_more
    lost_at_any_time = (db_exc.DBConnectionError, errors.OutcomeUnknown)
    return [(engine, "_once_more", lambda lost, operation: once_more(lost_at_any_time, operation))]


def _broken_connection_not_replaced(place):
    """A transaction whose connection broke before the commit is not carried out once more."""
    return [(engine, "_once_more", lambda lost, operation: operation())]


def _failed_commit_acknowledged(place):
    """An error of a commit is taken for success."""

    commit = sa.Connection.commit

    def try_to_commit(connection):
        try:
            commit(connection)
        except Exception:
            connection.rollback()

    return [(sa.Connection, "commit", try_to_commit)]


def _errors_not_translated(place):
    """A connection that is lost at the commit is not answered with 503."""
    return [(errors, "OutcomeUnknown", RuntimeError)]


def _statement_repeated(place):
    """A statement whose connection broke is repeated on a new connection, as drivers that reconnect do."""

    # of the class, so that workers that are started again have it, too
    dialect = type(place.database.engine.dialect)
    execute = dialect.do_execute

    def execute_or_reconnect(dialect, cursor, *arguments):
        try:
            execute(dialect, cursor, *arguments)
        except Exception:
            cursor.connection.ping(reconnect=True)
            execute(dialect, cursor, *arguments)

    return [(dialect, "do_execute", execute_or_reconnect)]


def _committed_in_between(place):
    """A claim commits the deletion of the allocations that it replaces."""
    delete = allocation._delete_of

    def delete_and_commit(conn, consumer_uuids):
        number = delete(conn, consumer_uuids)
        conn.connection.dbapi_connection.commit()
        return number

    return [(allocation, "_delete_of", delete_and_commit)]


def _recorded_afterwards(place):
    """The count of a slot is raised by another transaction, after that of the change."""
    store, write_once, noted = writers.Slot.store, engine.Database._write_once, threading.local()

    def note(slot, conn, changes):
        noted.changes = changes
        return slot

    def write_and_record(database, operation):
        noted.changes = None
        found = write_once(database, operation)
        if noted.changes:
            with database._writer.begin() as conn:
                slot = store(database._slots.take(conn.info), conn, noted.changes)
                database._slots.keep(conn.info, slot)
        return found

    return [(writers.Slot, "store", note), (engine.Database, "_write_once", write_and_record)]


def _slot_not_compared():
    """Slots do not rest, and an update of one does not compare its count."""
    columns = writers.writers.c
    advance = writers._advance._clone()
    advance._where_criteria = (columns.id == writers._bound_id,)
    return [(writers, "_advance", advance), (writers, "REST", 0)]


def _slot_of_lost_answer_used_again(place):
    """A slot is used again as it was before a commit whose answer was lost."""

    def take(slots, info):
        return info.get(writers._SLOT) or slots._take_rested() or writers.Slot(slots._pid)

    return [(writers.Slots, "take", take), *_slot_not_compared()]


_ALL = (*BACKENDS, galera.BACKEND)
MUTATIONS = {
    "the provider of a first claim is not locked": Mutation(
        "claim+claim",
        lambda place: [
            (allocation, "_lock_for_first", _without_lock(allocation._lock_for_first)),
            *_generation_not_compared(place),
        ],
    ),
    "providers are neither locked nor compared": Mutation(
        "claim-both+claim-both", _nothing_locked_or_compared
    ),
    "providers are not locked, beside a smaller inventory": Mutation(
        "claim+shrink", _nothing_locked_or_compared
    ),
    "the stock is read before the lock": Mutation("claim+claim", _stock_read_before_lock),
    "consumers are not locked": Mutation("move+empty", _unlocked(consumer, "_lock_named")),
    "the generation of a consumer is not compared": Mutation("move+empty", _consumer_not_compared, _ALL),
    "nothing is recorded": Mutation("claim+look", _changes_not_recorded, _ALL),
    "a change is recorded outside its transaction": Mutation(
        "claim+look", _slot_stored_elsewhere, tuple(SERVERS)
    ),
    "a consumer created twice is an error": Mutation(
        "claim-same+claim-same", _duplicate_consumer_is_an_error
    ),
    "a deletion takes what it did not lock": Mutation("delete+move", _deletion_deletes_what_it_did_not_lock),
    "a project created twice is an error": Mutation(
        "claim-for-new-owner+claim-for-new-owner", _names_created_twice_are_an_error
    ),
    "a lost race is not repeated": Mutation("claim-same+claim-same", _one_attempt),
    "writes run at REPEATABLE READ": Mutation("claim+claim", _repeatable_read, ["mariadb"]),
    "the inventory is removed without a lock": Mutation("remove+claim-both", _nothing_locked_or_compared),
    "a provider is deleted without a lock": Mutation(
        "delete-provider+claim-both", _unlocked(provider, "_lock_by_uuid", "_lock_by_ids")
    ),
    "trees are moved without a lock": Mutation(
        "move-below-first+move-below-second", _unlocked(provider, "_lock_by_uuid", "_lock_by_ids")
    ),
    "trees are moved without a common row": Mutation(
        "move-below-first+move-below-second", _trees_do_not_collide, [galera.BACKEND], faults=1, letters="e"
    ),
    "a refused transaction is not rolled back": Mutation("claim+claim", _refusals_not_rolled_back),
    "a commit of unknown outcome is repeated": Mutation("claim", _unknown_commit_repeated, faults=1),
    "a deletion of unknown outcome is repeated": Mutation("delete", _unknown_commit_repeated, faults=1),
    "a broken connection is not replaced": Mutation("claim", _broken_connection_not_replaced, faults=1),
    "a connection that broke in a wait is not replaced": Mutation(
        "claim+claim", _broken_connection_not_replaced, tuple(SERVERS), faults=1, letters="D"
    ),
    "a failed commit is acknowledged": Mutation("claim", _failed_commit_acknowledged, faults=1),
    "a lost connection is an error of its own": Mutation("claim", _errors_not_translated, faults=1),
    "a statement is repeated on a new connection": Mutation(
        "claim", _statement_repeated, ["mariadb", galera.BACKEND], faults=1
    ),
    "a claim commits in between": Mutation("move", _committed_in_between, _ALL, faults=1),
    "a change is recorded after its transaction": Mutation("claim", _recorded_afterwards, _ALL, faults=1),
    "the slot of a lost answer is used again": Mutation("claim", _slot_of_lost_answer_used_again, faults=1),
}
