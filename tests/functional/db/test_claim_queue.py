# SPDX-License-Identifier: Apache-2.0
"""Claims that arrive together: one transaction for all, a verdict for each."""

import random
import threading
import time
import uuid
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from osc_placement.server import errors
from osc_placement.server.db import allocation, claim_queue, names, provider, tables
from osc_placement.server.db.allocation import Claim
from osc_placement.server.db.claim_queue import ClaimQueue
from osc_placement.server.db.consumer import Owner

OWNER = Owner("project", "user")


@pytest.fixture(autouse=True)
def owner(database):
    """The project and the user exist, so that groups need not create them."""
    names.ensure(database, tables.projects, "external_id", [OWNER.project])
    names.ensure(database, tables.users, "external_id", [OWNER.user])


@pytest.fixture
def queue(database):
    """A queue of its own for each test."""
    return ClaimQueue(database)


class Held:
    """A queue whose first transaction does not end before all other requests wait."""

    def __init__(self, database, queue, monkeypatch):
        self.groups = []
        self._began, self._may_end = threading.Event(), threading.Event()
        self._database, self._queue, self._monkeypatch = database, queue, monkeypatch
        self._write = database.write

    def write(self, operation, argument):
        """Do as `Database.write`, and note the requests of each group."""
        self.groups.append(argument if operation == self._queue._replace_each else [argument])
        if len(self.groups) == 1:
            self._began.set()
            assert self._may_end.wait(30)
        return self._write(operation, argument)

    def fail_after_groups(self, error):
        """Raise an error after the transaction of each group of several requests is committed."""
        carry_out = self.write

        def fail(operation, argument):
            outcome = carry_out(operation, argument)
            if operation == self._queue._replace_each:
                raise error
            return outcome

        self._monkeypatch.setattr(self, "write", fail)

    def send(self, first, requests):
        """Send the requests, in order, while the first one is being carried out; return the error of each."""
        with self._monkeypatch.context() as patch, ThreadPoolExecutor(len(requests) + 1) as threads:
            patch.setattr(self._database, "write", self.write)
            begun = threads.submit(self._queue.replace, first)
            assert self._began.wait(30)
            futures = []
            for number, request in enumerate(requests, 1):
                futures.append(threads.submit(self._queue.replace, request))
                await_waiting(self._queue, number)
            self._may_end.set()
            assert begun.exception(30) is None
            return [future.exception(30) for future in futures]


def await_waiting(queue, number):
    """Return when as many requests wait."""
    end = time.monotonic() + 30
    while len(queue._waiting) < number:
        assert time.monotonic() < end, f"{len(queue._waiting)} of {number} requests wait"
        time.sleep(0.001)


@pytest.fixture
def held(database, queue, monkeypatch):
    """A function that holds the first transaction, while requests wait for as long as it takes."""
    monkeypatch.setattr(claim_queue, "LONGEST_WAIT", 30)
    return Held(database, queue, monkeypatch)


def make_request(item, amount=1, consumer=None, **more):
    """A request that claims so much of VCPU on a provider for a consumer."""
    return [Claim(consumer or str(uuid.uuid4()), OWNER, {item.uuid: {"VCPU": amount}}, **more)]


def read_used(database, item):
    """The amount of VCPU that is used on a provider, and its generation."""
    held = tables.allocations.c.resource_provider_id == item.id
    used = database.read(
        lambda conn: conn.scalar(sa.select(sa.func.sum(tables.allocations.c.used)).where(held))
    )
    return int(used or 0), database.read(provider.load, item.uuid).generation


def test_requests_that_wait_share_a_transaction(database, make_provider, held):
    """The first has one of its own, since none was under way; the others have one together."""
    items = [make_provider(VCPU=8) for _ in range(3)]
    before = [read_used(database, item) for item in items]
    requests = [make_request(item) for item in items * 2]
    assert held.send(make_request(items[0]), requests) == [None] * 6
    assert [len(group) for group in held.groups] == [1, 6]
    after = [read_used(database, item) for item in items]
    # a generation is incremented once for each claim, as if each had a transaction of its own
    claims = [3, 2, 2]
    assert after == [
        (number, generation + number) for (_, generation), number in zip(before, claims, strict=True)
    ]


def test_refused_request_spoils_no_other_of_its_group(database, make_provider, held):
    """In order of arrival, the first two fit, the third does not, and a smaller fourth does."""
    item = make_provider(VCPU=8)
    requests = [
        make_request(item, 3),
        make_request(item, 3),
        make_request(item, 3),
        make_request(item, 1),
        [Claim(str(uuid.uuid4()), OWNER, {str(uuid.uuid4()): {"VCPU": 1}})],
        [Claim(str(uuid.uuid4()), OWNER, {item.uuid: {"CUSTOM_NO_SUCH_CLASS": 1}})],
        make_request(item, 1, generation=7, checked=True),
    ]
    found = held.send(make_request(item), requests)
    assert [type(error) for error in found] == [
        type(None),
        type(None),
        errors.CapacityExceeded,
        type(None),
        errors.ProviderNotFound,
        errors.ResourceClassNotFound,
        errors.ConsumerChanged,
    ]
    assert read_used(database, item)[0] == 8
    assert len(held.groups) == 2


def test_consumer_occurs_once_in_a_group(database, make_provider, held):
    """The second request for a consumer is judged after the first is committed."""
    item = make_provider(VCPU=8)
    consumer = str(uuid.uuid4())
    requests = [make_request(item, 2, consumer, checked=True) for _ in range(2)]
    first, second = held.send(make_request(item), requests)
    assert first is None
    assert isinstance(second, errors.ConsumerChanged)
    # the second is tried as the first claim of its consumer before
    assert [len(group) for group in held.groups] == [1, 1, 1, 1]


def test_size_of_a_group_is_limited(database, make_provider, held, monkeypatch):
    """A request with more claims than the limit is a group by itself."""
    monkeypatch.setattr(claim_queue, "MOST_CLAIMS", 3)
    item = make_provider(VCPU=64)
    large = [claim for _ in range(5) for claim in make_request(item)]
    requests = [make_request(item), large, *(make_request(item) for _ in range(4))]
    assert held.send(make_request(item), requests) == [None] * 6
    assert [len(group) for group in held.groups] == [1, 1, 1, 3, 1]
    assert read_used(database, item)[0] == 11


def test_value_that_cannot_be_stored_fails_its_own_request_only(database, make_provider, held, backend):
    """The transaction of the group is rolled back, and each request gets one of its own."""
    item = make_provider(VCPU=8)
    long = Owner("p" * 300, OWNER.user)
    bad = [Claim(str(uuid.uuid4()), long, {item.uuid: {"VCPU": 1}})]
    found = held.send(make_request(item), [make_request(item), bad, make_request(item)])
    stores = backend == "sqlite"
    assert [type(error) for error in found] == [
        type(None),
        type(None) if stores else errors.Unstorable,
        type(None),
    ]
    assert read_used(database, item)[0] == (4 if stores else 3)


def test_database_that_fails_is_an_error_of_each_request(database, make_provider, held):
    """The outcome of a commit may be unknown, so nothing is sent again."""
    item = make_provider(VCPU=8)
    held.fail_after_groups(errors.DatabaseUnavailable)
    found = held.send(make_request(item), [make_request(item), make_request(item)])
    assert [type(error) for error in found] == [errors.DatabaseUnavailable] * 2
    assert len(held.groups) == 2


def test_thread_that_ends_in_a_transaction_ends_no_other(database, make_provider, held):
    """The other requests of the group are told that the outcome is unknown."""
    item = make_provider(VCPU=8)
    held.fail_after_groups(SystemExit)
    found = held.send(make_request(item), [make_request(item) for _ in range(3)])
    assert [type(error) for error in found] == [SystemExit, *[errors.OutcomeUnknown] * 2]


@pytest.mark.parametrize("moment", ["waits", "leads a group", "is in a group"])
def test_thread_that_ends_while_it_waits_stops_no_other(
    database, make_provider, queue, held, monkeypatch, moment
):
    """Its request is not waited for; if it is in a group already, it is carried out."""
    item = make_provider(VCPU=8)
    position = 1 if moment == "is in a group" else 0
    wait, carry_out = futures.Future.result, held.write
    has_group, has_ended = threading.Event(), threading.Event()

    def result(future, timeout=None):
        waiting = list(queue._waiting)
        is_this = len(waiting) > position and waiting[position].turn is future and not has_ended.is_set()
        if is_this and moment == "leads a group":
            wait(future, timeout)
        if is_this and moment == "is in a group":
            assert has_group.wait(30)
        if is_this:
            has_ended.set()
            raise SystemExit
        return wait(future, timeout)

    def write(operation, argument):
        if operation == queue._replace_each and moment == "is in a group":
            has_group.set()
            assert has_ended.wait(30)
            time.sleep(0.1)
            raise ValueError
        return carry_out(operation, argument)

    def start():
        """Send a request from a thread that does not keep the tests from ending; return its outcome."""
        outcome = futures.Future()

        def run():
            try:
                outcome.set_result(queue.replace(make_request(item)))
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return outcome

    monkeypatch.setattr(database, "write", write)
    first = start()
    assert held._began.wait(30)
    monkeypatch.setattr(futures.Future, "result", result)
    others = []
    for number in (1, 2):
        others.append(start())
        if moment == "waits" and number == 1:
            assert has_ended.wait(30)
        else:
            await_waiting(queue, number - (moment == "waits"))
    held._may_end.set()
    assert first.exception(10) is None
    found = [type(other.exception(10)) for other in others]
    expected = [type(None), type(None)]
    expected[position] = SystemExit
    assert found == expected
    assert read_used(database, item)[0] == (2 if moment == "waits" else 3)
    assert not queue._running
    assert not queue._waiting


@pytest.fixture
def locked(database, make_provider, backend):
    """A provider that a transaction has locked, and the event that ends that."""
    if backend == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    item = make_provider(VCPU=8)
    is_locked, may_end = threading.Event(), threading.Event()

    def hold(conn):
        provider.lock(conn, item.uuid)
        is_locked.set()
        assert may_end.wait(30)

    with ThreadPoolExecutor(1) as threads:
        holder = threads.submit(database.write, hold)
        assert is_locked.wait(30)
        yield item, may_end
        holder.result(30)


def test_request_does_not_wait_for_a_transaction_that_hangs(database, make_provider, queue, locked):
    """A claim on a provider that another transaction has locked delays no claim on other providers."""
    (locked, may_end), free = locked, make_provider(VCPU=8)
    with ThreadPoolExecutor(4) as threads:
        blocked = threads.submit(queue.replace, make_request(locked))
        while not queue._running:
            time.sleep(0.001)
        others = [threads.submit(queue.replace, make_request(free)) for _ in range(2)]
        assert [other.result(30) for other in others] == [None, None]
        assert not blocked.done()
        may_end.set()
        blocked.result(30)
    assert read_used(database, free)[0] == 2
    assert read_used(database, locked)[0] == 1


def test_group_does_not_wait_for_a_lock_of_one_of_its_requests(
    database, make_provider, held, locked, backend
):
    """The others are carried out alone while another program holds it, and the one that needs it follows."""
    (locked, may_end), free = locked, make_provider(VCPU=8)

    def end_when_others_are_stored():
        while read_used(database, free)[0] < 3 and not may_end.wait(0.01):
            pass
        may_end.set()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(end_when_others_are_stored)
        requests = [make_request(free), make_request(locked), make_request(free)]
        assert held.send(make_request(free), requests) == [None] * 3
    assert [len(group) for group in held.groups[:2]] == [1, 3]
    assert read_used(database, locked)[0] == 1
    # the connection waits for locks as long as ever again
    variable = "@@innodb_lock_wait_timeout" if backend == "mariadb" else "current_setting('lock_timeout')"
    limits = {database.write(lambda conn: conn.scalar(sa.text(f"SELECT {variable}"))) for _ in range(5)}
    assert limits == {50 if backend == "mariadb" else "0"}


def make_history(generator, providers, consumers):
    """Random groups of requests, for one or two consumers each, by index of provider."""
    groups = []
    for _ in range(30):
        free = generator.sample(consumers, len(consumers))
        group = []
        while free and len(group) < 6:
            size = generator.choice((1, 1, 1, 2))
            request = []
            for consumer in (free.pop() for _ in range(min(size, len(free)))):
                chosen = generator.sample(range(len(providers)), generator.choice((0, 1, 1, 2)))
                amounts = {
                    index: {"VCPU": generator.randint(1, 4), "MEMORY_MB": generator.choice((64, 128, 100))}
                    for index in chosen
                }
                generation = generator.choice((None, 1, 2, 3))
                request.append((consumer, amounts, generation, generator.random() < 0.4))
            group.append(request)
        groups.append(group)
    return groups


def read_outcome(database, providers, prefix):
    """The generation of each provider, and the allocations by consumer and provider with generations."""
    generations = [database.read(provider.load, item.uuid).generation for item in providers]
    index_of = {item.id: index for index, item in enumerate(providers)}
    rows = database.read(
        lambda conn: conn.execute(
            sa.select(
                tables.allocations.c.consumer_id,
                tables.allocations.c.resource_provider_id,
                tables.allocations.c.resource_class_id,
                tables.allocations.c.used,
                tables.consumers.c.generation,
            ).join(tables.consumers, tables.consumers.c.uuid == tables.allocations.c.consumer_id)
        ).all()
    )
    held = sorted(
        (consumer[8:], index_of[provider_id], class_id, used, generation)
        for consumer, provider_id, class_id, used, generation in rows
        if consumer.startswith(prefix)
    )
    return generations, held


@pytest.mark.parametrize("seed", range(4))
def test_group_does_what_its_requests_do_one_after_the_other(database, make_provider, seed):
    """In random histories of equal providers, verdicts, generations and allocations are the same."""
    generator = random.Random(seed)
    sides = {
        prefix: [make_provider(VCPU=8, MEMORY_MB=512) for _ in range(4)]
        for prefix in (f"aaaaaaa{seed}", f"bbbbbbb{seed}")
    }
    grouped = next(iter(sides))
    consumers = [str(uuid.UUID(int=generator.getrandbits(96)))[8:] for _ in range(10)]
    refused = 0
    for group in make_history(generator, sides[grouped], consumers):
        verdicts = {}
        for prefix, providers in sides.items():
            requests = [
                [
                    Claim(
                        prefix + consumer,
                        OWNER,
                        {providers[index].uuid: resources for index, resources in amounts.items()},
                        generation,
                        checked,
                    )
                    for consumer, amounts, generation, checked in request
                ]
                for request in group
            ]
            if prefix == grouped:
                found = database.write(allocation.replace_each, requests)
            else:
                found = [replace_alone(database, request) for request in requests]
            verdicts[prefix] = [type(error) for error in found]
        together, alone = verdicts.values()
        assert together == alone
        refused += sum(verdict is not type(None) for verdict in together)
        together, alone = (read_outcome(database, providers, prefix) for prefix, providers in sides.items())
        assert together == alone
    assert refused > 10


def replace_alone(database, request):
    """Carry out a request in a transaction of its own and return its error."""
    try:
        database.write(allocation.replace, request)
    except errors.PlacementError as error:
        return error
    return None
