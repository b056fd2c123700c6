# SPDX-License-Identifier: Apache-2.0
"""The operations that schedules are made of, the cloud that they begin with, and what must hold afterwards.

Each schedule has a cloud of its own: two providers with VCPU, and a consumer that has claimed from the first.
Clouds are created some at a time, and those that were used are deleted before that.
Answers and tables must be those of one serial order of the operations, in which an operation that ended
before another began comes first. A worker's check for changes must then find what the database has.

An operation whose commit was lost by a fault, or whose worker was killed, may be missing from that order.
After a schedule with faults each worker writes once more, and the checks for changes must find that, too.
"""

import contextlib
import functools
import itertools
import pathlib
import tempfile
import uuid
from dataclasses import dataclass, field

import sqlalchemy as sa

from osc_placement.model import Inventory
from osc_placement.server import errors
from osc_placement.server.db import (
    aggregate,
    allocation,
    engine,
    inventory,
    names,
    provider,
    reshaper,
    standard_names,
    tables,
    trait,
    upgrade,
    writers,
)
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.claim_queue import ClaimQueue
from osc_placement.server.db.consumer import Owner
from osc_placement.server.snapshot.current import Current
from osc_placement.server.snapshot.load import load
from tests import databases
from tests.reliability import galera, own_servers
from tests.reliability.schedules.controller import KILLED, Seat, make_monitor

TOTAL, HELD = 8, 2
TRAIT = "HW_CPU_X86_VMX"
#: clouds that are created at a time: more make the snapshots of workers larger, fewer are created more often
CLOUDS = 10
OWNER = Owner("project", "user")

#: the outcomes of an operation that had no effect, and of one that may have had it
_UNDONE, _LOST = errors.DatabaseUnavailable.__name__, errors.OutcomeUnknown.__name__
_UNKNOWN = (KILLED, _LOST)


@dataclass
class Setting:
    """The cloud of one schedule.

    :ivar ids: by UUID of a provider
    :ivar generations: by UUID of a provider, as clients have read them
    :ivar labels: by UUID or name, what it is called in outcomes
    """

    first: str
    second: str
    consumer: str
    ids: dict[str, int]
    generations: dict[str, int]
    labels: dict[str, str] = field(default_factory=dict)

    def new(self, label):
        """Return a new UUID that outcomes call by this label."""
        made = str(uuid.uuid4())
        self.labels[made] = label
        return made

    def share(self, label):
        """Return the UUID with this label, which is new for the first operation that asks."""
        return next((uuid_ for uuid_, each in self.labels.items() if each == label), None) or self.new(label)

    def either(self, number):
        """Return the first provider for even numbers, the second for odd ones."""
        return (self.first, self.second)[number % 2]


def _answer(function):
    """Make an operation return the name of the error for which the server refuses it."""

    @functools.wraps(function)
    def answer(setting, number):
        operation = function(setting, number)

        def carry_out(database):
            try:
                return operation(database)
            except errors.PlacementError as error:
                return type(error).__name__

        return carry_out

    return answer


def _claim(setting, number, amounts, *, consumer=None, generation=None, checked=True, owner=OWNER):
    resources = {uuid_: {"VCPU": amount} for uuid_, amount in amounts.items() if amount}
    return Claim(consumer or setting.new(f"new {number}"), owner, resources, generation, checked)


def _replacing(*claims):
    return lambda database: ClaimQueue(database).replace(claims)


@_answer
def claim(setting, number):
    """Claim more than half of what is left of the first provider, for a new consumer."""
    return _replacing(_claim(setting, number, {setting.first: 4}))


@_answer
def claim_both(setting, number):
    """Claim from both providers, for a new consumer."""
    return _replacing(_claim(setting, number, {setting.second: 4, setting.first: 4}))


@_answer
def claim_same(setting, number):
    """Claim from one of the providers for a new consumer that other operations like this name too."""
    consumer = setting.share("shared")
    return _replacing(_claim(setting, number, {setting.either(number): 1 + number}, consumer=consumer))


@_answer
def claim_for_new_owner(setting, number):
    """Claim one unit from one of the providers for a project that does not exist yet."""
    owner = Owner(setting.share("project"), "user")
    return _replacing(_claim(setting, number, {setting.either(number): 1}, owner=owner))


@_answer
def move(setting, number):
    """Replace the allocations of the consumer by those of the second provider."""
    claims = _claim(setting, number, {setting.second: 5}, consumer=setting.consumer, generation=1)
    return _replacing(claims)


@_answer
def empty(setting, number):
    """Replace the allocations of the consumer by none."""
    return _replacing(_claim(setting, number, {}, consumer=setting.consumer, generation=1))


@_answer
def delete(setting, number):
    """Delete the allocations of the consumer."""
    return lambda database: database.write(allocation.delete, setting.consumer)


@_answer
def shrink(setting, number):
    """Reduce the inventory of the first provider to what is used."""
    wanted, generation = {"VCPU": Inventory(HELD)}, setting.generations[setting.first]
    return lambda database: (
        database.write(inventory.replace, setting.first, wanted, generation=generation) and None
    )


@_answer
def remove(setting, number):
    """Delete the inventory of the second provider."""
    return lambda database: database.write(inventory.delete, setting.second, "VCPU")


@_answer
def delete_provider(setting, number):
    """Delete the second provider."""
    return lambda database: database.write(provider.delete, setting.second)


@_answer
def create_child(setting, number):
    """Create a provider below the second one."""
    made = setting.new(f"child {number}")
    setting.labels[f"name of {made}"] = f"child {number}"
    return lambda database: (
        database.write(provider.create, provider.New(made, f"name of {made}", setting.second)) and None
    )


@_answer
def move_below_first(setting, number):
    """Make the first provider the parent of the second."""
    changes = {"name": f"name of {setting.second}", "parent_provider_uuid": setting.first}
    return lambda database: (
        database.write(provider.update, setting.second, changes, reparenting_allowed=True) and None
    )


@_answer
def move_below_second(setting, number):
    """Make the second provider the parent of the first."""
    changes = {"name": f"name of {setting.first}", "parent_provider_uuid": setting.second}
    return lambda database: (
        database.write(provider.update, setting.first, changes, reparenting_allowed=True) and None
    )


@_answer
def set_traits(setting, number):
    """Replace the traits of the first provider."""
    generation = setting.generations[setting.first]
    return lambda database: (
        database.write(trait.replace, setting.first, [TRAIT], generation=generation) and None
    )


@_answer
def set_aggregates(setting, number):
    """Replace the aggregates of the first provider, without a generation."""
    aggregates = [setting.new(f"aggregate {number}")]
    return lambda database: (
        database.write(aggregate.replace, setting.first, aggregates, generation=None) and None
    )


@_answer
def set_aggregates_at_generation(setting, number):
    """Replace the aggregates of the first provider, with a generation."""
    aggregates, generation = [setting.new(f"aggregate {number}")], setting.generations[setting.first]
    return lambda database: (
        database.write(aggregate.replace, setting.first, aggregates, generation=generation) and None
    )


@_answer
def reshape(setting, number):
    """Move the inventory of the first provider to the second, with the allocations of the consumer."""
    inventories = {setting.first: {}, setting.second: {"VCPU": Inventory(2 * TOTAL)}}
    wanted = {
        each: reshaper.NewInventories(setting.generations[each], stock) for each, stock in inventories.items()
    }
    moved = _claim(setting, number, {setting.second: HELD}, consumer=setting.consumer, generation=1)
    return lambda database: database.write(reshaper.reshape, wanted, [moved])


@_answer
def look(setting, number):
    """Check for changes as a worker does, and return the generations and the usage that it sees."""

    def see(database):
        loaded = database.worker.get()
        nodes = (_find_node(loaded, setting.ids[each]) for each in (setting.first, setting.second))
        return [
            (node.generation, node.stocks["VCPU"].used if node.stocks else None) if node else None
            for node in nodes
        ]

    return see


OPERATIONS = {
    each.__name__.replace("_", "-"): each
    for each in (
        claim,
        claim_both,
        claim_same,
        claim_for_new_owner,
        move,
        empty,
        delete,
        shrink,
        remove,
        delete_provider,
        create_child,
        move_below_first,
        move_below_second,
        set_traits,
        set_aggregates,
        set_aggregates_at_generation,
        reshape,
        look,
    )
}


class Case:
    """Some operations on one database, which schedules are run of."""

    def __init__(self, place, names_of_operations):
        self._place = place
        self._makers = [OPERATIONS[name] for name in names_of_operations]
        self._serial = {}

    @property
    def monitor(self):
        """The monitor of the database."""
        return self._place.monitor

    @property
    def seats(self):
        """The seats of the operations."""
        return self._place.seats[: len(self._makers)]

    def carry_out(self, order):
        """Return the answers by operation, and the rows, of carrying out these operations in this order."""
        if order not in self._serial:
            setting = self._place.take_cloud()
            self._place.is_behind = True
            operations = self.operations(setting)
            answers = {number: operations[number](self.seats[number].database) for number in order}
            self._serial[order] = answers, self._describe(setting)
        return self._serial[order]

    def carry_out_all(self):
        """Carry out the operations, and some of them, in every order; otherwise that is done when needed."""
        for number in range(len(self._makers) + 1):
            for order in itertools.permutations(range(len(self._makers)), number):
                self.carry_out(order)

    def prepare(self):
        """Return the cloud of one schedule, which all workers have seen.

        A worker that has not seen it reads all of it with the next change, and misses nothing.
        """
        setting = self._place.take_cloud()
        if self._place.is_behind:
            self._place.check_for_changes()
        self._place.is_behind = True
        return setting

    def operations(self, setting):
        """Return the operations on this cloud."""
        return [make(setting, number) for number, make in enumerate(self._makers)]

    def judge(self, setting, controller):
        """Start the killed workers anew, and return what is wrong after a schedule, empty if nothing is."""
        met = {step.fault for step, _ in controller.trace} - {""}
        if "r" in met:
            # that its connections died as well is no part of the schedule
            self._place.database.dispose()
        for actor in controller.actors:
            if actor.outcome == KILLED:
                self._place.renew(actor.seat)
        for actor in controller.actors:
            if actor.failure is not None:
                return f"operation {actor.number} raised {actor.failure!r}"
            if actor.outcome in (_UNDONE, _LOST) and actor.number not in controller.doubtful:
                return f"operation {actor.number} was refused, though nothing happened to its commit"
        if open_ := self.monitor.find_open():
            return f"transactions of the sessions {sorted(open_)} are left"
        rows = self._describe(setting)
        problem = ""
        if met:
            # a worker that does not check in between must see both the changes before and this one
            problem = self._place.find_stale(setting, of_actors=False) or self._place.write_everywhere()
        outcomes = {actor.number: actor.outcome for actor in controller.actors if actor.outcome != _UNDONE}
        # the workers are looked at first, as carrying out operations in another order has them check
        return problem or self._place.find_stale(setting) or self._compare(rows, outcomes, controller.spans)

    def _compare(self, rows, outcomes, spans):
        """Return how answers and rows are not those of a serial order, empty if they are."""
        answers = {number: outcome for number, outcome in outcomes.items() if outcome not in _UNKNOWN}
        orders = [order for order in self._list_orders(outcomes, answers, spans) if _respects(order, spans)]
        for order in orders:
            due, due_rows = self.carry_out(order)
            if rows == due_rows and all(due[number] == answer for number, answer in answers.items()):
                return ""
        lines = [f"{order}: {self.carry_out(order)}" for order in orders]
        return "\n".join([f"the outcome is that of no serial order: {outcomes}, {rows}", *lines])

    def _list_orders(self, outcomes, answers, spans):
        """Yield the orders of those that were answered, and of any of the others.

        First is the order in which they were over, since that is the order of their commits most of the time.
        """
        others = outcomes.keys() - answers.keys()
        for number in range(len(others), -1, -1):
            for chosen in itertools.combinations(sorted(others), number):
                yield from itertools.permutations(
                    sorted({*answers, *chosen}, key=lambda each: spans[each][1])
                )

    def renew_workers(self):
        """Start the workers of all operations anew, after a problem that may have left any of them unfit."""
        for seat in self.seats:
            self._place.renew(seat)

    def _describe(self, setting):
        """Return the rows of this cloud, with labels in place of UUIDs and ids."""
        return self._place.database.read(_read_rows, setting)


def _respects(order, spans):
    """Return whether each operation that was over before another began comes before it."""
    return all(spans[late][1] > spans[early][0] for early, late in itertools.combinations(order, 2))


def _make_statement():
    """Return the statement that reads what the tables have about the values ``labels``, with their names."""
    known, parent, root = (tables.resource_providers.alias() for _ in range(3))
    provider_rows = (
        sa.select(known.c.uuid, known.c.generation, parent.c.uuid, root.c.uuid)
        .outerjoin(parent, known.c.parent_provider_id == parent.c.id)
        .outerjoin(root, known.c.root_provider_id == root.c.id)
    )
    own, used, stock = tables.resource_providers.c, tables.allocations.c, tables.inventories.c
    member, has = tables.resource_provider_aggregates.c, tables.resource_provider_traits.c
    held, aggregates, projects = tables.consumers.c, tables.placement_aggregates.c, tables.projects.c
    # by what it is about: the statement, and the column whose value is one of this cloud
    statements = {
        "providers": (provider_rows, known.c.uuid),
        "inventories": (
            sa.select(own.uuid, stock.total).join_from(
                tables.inventories, tables.resource_providers, stock.resource_provider_id == own.id
            ),
            own.uuid,
        ),
        "aggregates": (
            sa.select(own.uuid, aggregates.uuid)
            .join_from(
                tables.resource_provider_aggregates,
                tables.resource_providers,
                member.resource_provider_id == own.id,
            )
            .join(tables.placement_aggregates, member.aggregate_id == aggregates.id),
            own.uuid,
        ),
        "traits": (
            sa.select(own.uuid, has.trait_id).join_from(
                tables.resource_provider_traits, tables.resource_providers, has.resource_provider_id == own.id
            ),
            own.uuid,
        ),
        # an outer join, because a provider must not be gone while it is claimed from
        "allocations": (
            sa.select(used.consumer_id, own.uuid, used.used).outerjoin_from(
                tables.allocations, tables.resource_providers, used.resource_provider_id == own.id
            ),
            used.consumer_id,
        ),
        "consumers": (
            sa.select(held.uuid, held.generation, projects.external_id).join_from(
                tables.consumers, tables.projects, held.project_id == projects.id
            ),
            held.uuid,
        ),
        "projects": (sa.select(projects.external_id), projects.external_id),
        "names of aggregates": (sa.select(aggregates.uuid), aggregates.uuid),
    }
    labels = sa.bindparam("labels", expanding=True)
    found = {name: statement.where(column.in_(labels)) for name, (statement, column) in statements.items()}
    width = max(len(statement.selected_columns) for statement in found.values())
    # as text, so that one statement has all, and with NULL where a table has fewer columns
    return sa.union_all(
        *(
            statement.with_only_columns(
                sa.literal(name),
                *(sa.cast(column, sa.String(255)) for column in statement.selected_columns),
                *[sa.cast(sa.null(), sa.String(255))] * (width - len(statement.selected_columns)),
            )
            for name, statement in found.items()
        )
    )


_SELECT_ROWS = _make_statement()


def _read_rows(conn, setting):
    """Return the rows that the tables have about this cloud, each with the name of its table."""
    labels = setting.labels
    found = conn.execute(_SELECT_ROWS, {"labels": list(labels)})
    return sorted(repr(tuple(labels.get(value, value) for value in row)) for row in found)


_delete_other_traits = sa.delete(tables.traits).where(tables.traits.c.name != TRAIT)

#: the tables whose rows do not belong to one cloud
_COMMON = (
    tables.projects,
    tables.users,
    tables.traits,
    tables.resource_classes,
    tables.consumer_types,
)


def _delete_clouds(conn):
    """Delete all clouds, without a record: workers have to load anew."""
    columns = tables.resource_providers.c
    nowhere = {columns.parent_provider_id: None, columns.root_provider_id: None}
    conn.execute(sa.update(tables.resource_providers).values(nowhere))
    for table in reversed(tables.metadata.sorted_tables):
        if table not in _COMMON:
            conn.execute(sa.delete(table))


def _create_clouds(conn, clouds):
    """Create clouds, each given as the UUIDs of two providers and of a consumer; return the providers."""
    uuids = [each for *pair, _ in clouds for each in pair]
    created, _ = provider.create_many(conn, [provider.New(each, f"name of {each}") for each in uuids], {})
    provider.record_created(conn, created.values())
    inventory.replace_many(conn, {each.id: {"VCPU": Inventory(TOTAL)} for each in created.values()})
    claims = [Claim(consumer, OWNER, {first: {"VCPU": HELD}}) for first, _, consumer in clouds]
    allocation.replace(conn, claims)
    columns = tables.resource_providers.c
    return conn.execute(
        sa.select(columns.uuid, columns.id, columns.generation).where(columns.uuid.in_(uuids))
    ).all()


class _Worker(Current):
    """A worker that compares nothing in the background, which would come between two steps.

    It does not read everything at each check either, which would need no records of changes.
    """

    _is_watched = True


class Place:
    """One database with the connections of so many actors, and workers that keep a snapshot of it.

    :ivar seats: those of the actors
    :ivar is_behind: whether a worker may not have seen all changes
    """

    def __init__(self, urls, actors, restart=None):
        """Prepare the database.

        :param urls: of its nodes, to which the actors connect in turns
        """
        self._urls = urls
        self.database = engine.Database(urls[0])
        upgrade.upgrade(self.database)
        standard_names.synchronize(self.database)
        # whoever loads a snapshot reads the names of all traits
        self.database.write(lambda conn: conn.execute(_delete_other_traits) and None)
        for table, value in ((tables.projects, "project"), (tables.users, "user")):
            names.ensure(self.database, table, "external_id", [value])
        # with the driver that the server chooses
        chosen = [engine.Database(each).url.render_as_string(hide_password=False) for each in urls]
        self.monitor = make_monitor(chosen, restart)
        self._clouds = []
        self.is_behind = True
        self._onlooker = self._start_worker(1)
        self.seats = [self._start_worker(number) for number in range(actors)]

    def _start_worker(self, number):
        """Return the seat of a new worker, which has a snapshot, and a connection that has written.

        Without this, the statements of a schedule would depend on the schedules before it.
        """
        database = engine.Database(self._urls[number % len(self._urls)])
        database.records_changes = self.database.records_changes
        database.worker = _Worker(database)
        seat = Seat(database, self.monitor)
        database.write(lambda conn: writers.record(conn, names=True))
        database.worker.get()
        return seat

    def renew(self, seat):
        """Start a new worker in place of one that was killed."""
        number = self.seats.index(seat)
        self.seats[number] = self._start_worker(number)
        seat.database.dispose()

    def take_cloud(self):
        """Return a cloud that no schedule has used."""
        if not self._clouds:
            self._create_clouds()
        return self._clouds.pop()

    def _create_clouds(self):
        """Replace all clouds by new ones, and the snapshots of all workers by new ones."""
        clouds = [tuple(str(uuid.uuid4()) for _ in range(3)) for _ in range(CLOUDS)]
        self.database.write(_delete_clouds)
        rows = {each.uuid: each for each in self.database.write(_create_clouds, clouds)}
        for first, second, consumer in clouds:
            ids = {each: rows[each].id for each in (first, second)}
            generations = {each: rows[each].generation for each in (first, second)}
            labels = {first: "first", second: "second", consumer: "consumer", "project": "known project"}
            self._clouds.append(Setting(first, second, consumer, ids, generations, labels))
        for seat in (self._onlooker, *self.seats):
            seat.database.worker = _Worker(seat.database)
        self.check_for_changes()

    def check_for_changes(self):
        """Let each worker check for changes."""
        for seat in (self._onlooker, *self.seats):
            seat.database.worker.get()

    def find_stale(self, setting, *, of_actors=True):
        """Return how a worker sees the providers of a cloud otherwise than the database has them.

        :param of_actors: whether to ask the workers of the actors, too, and not only one that has none
        """
        true = self.database.read(load, own_tables=True)
        for seat in (self._onlooker, *(self.seats if of_actors else ())):
            worker = seat.database.worker
            try:
                kept = worker.get()
            except Exception as error:
                return f"a worker cannot check for changes: {error!r}"
            for each, id_ in setting.ids.items():
                seen, stored = _find_node(kept, id_), _find_node(true, id_)
                if seen != stored:
                    return f"a worker sees {setting.labels[each]} as {seen}, and the database has {stored}"
        self.is_behind = not of_actors
        return ""

    def write_everywhere(self):
        """Let each worker of an actor write something else, and return how one cannot.

        A slot that is not as its worker knows it shows only when it is written again.
        """
        for number, seat in enumerate(self.seats):
            made = str(uuid.uuid4())
            try:
                seat.database.write(provider.create, provider.New(made, f"name of {made}"))
            except Exception as error:
                return f"worker {number} cannot write afterwards: {error!r}"
        return ""

    def close(self):
        """Close all connections."""
        self.monitor.close()
        for database in (self.database, *(seat.database for seat in (self._onlooker, *self.seats))):
            database.dispose()


def _find_node(loaded, id_):
    return next((node for node in loaded.snapshot.nodes if node.id == id_), None)


#: settings of a server that is started for schedules. A deadlock is found by the session that closes it,
#: before the database is asked whether that waits; and clouds that were deleted slow down nobody for long
_OWN_SETTINGS = {
    "postgresql": (
        "ALTER SYSTEM SET deadlock_timeout = '1ms'",
        "ALTER SYSTEM SET autovacuum_naptime = '1s'",
        "SELECT pg_reload_conf()",
    )
}


@contextlib.contextmanager
def make_place(backend, actors, *, own_server=False):
    """A `Place` on a new database; transactions that lose a race are repeated without a pause.

    :param own_server: whether a server is started for it, which is killed and started where a schedule says
        that the database restarts
    """
    pauses = engine.FIRST_PAUSE, engine.LONGEST_PAUSE
    engine.FIRST_PAUSE = engine.LONGEST_PAUSE = 0
    try:
        with contextlib.ExitStack() as stack:
            if own_server:
                server, url = stack.enter_context(own_servers.own_server(backend))
                urls = [url]
                for statement in _OWN_SETTINGS.get(backend, ()):
                    databases.execute(server.administration, statement)
                restart = functools.partial(_restart, server)
            else:
                directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
                urls, restart = stack.enter_context(galera.make_databases(backend, directory)), None
            yield stack.enter_context(contextlib.closing(Place(urls, actors, restart)))
    finally:
        engine.FIRST_PAUSE, engine.LONGEST_PAUSE = pauses


def _restart(server):
    server.kill()
    server.start()


def find_first_problem(results):
    """Return the number of schedules until the first with a problem, and that result, or None."""
    number = 0
    for number, result in enumerate(results, 1):
        if result.problem:
            return number, result
    return number, None
