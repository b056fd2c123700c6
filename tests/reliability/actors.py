# SPDX-License-Identifier: Apache-2.0
"""A cloud whose parts are registers, and clients that change and read it and note what they were told.

Each slot of a provider is held by one consumer at most, and its amount of VCPU tells the slot and the claim,
so that usage shows who is counted in it. DISK_GB is scarce: there is less of it than all slots would hold.
Whoever changes a register holds its lock until the answer is there, as `history` needs; nothing else keeps
clients from meeting each other on one provider.
"""

import collections
import contextlib
import math
import random
import threading
import time
import urllib.parse
import uuid

import sqlalchemy as sa

from tests.reliability import history, truth
from tests.reliability.clients import Client

ROOTS, CHILDREN, SLOTS, NAMES = 4, 3, 6, 6
#: the amount of VCPU that a slot holds tells which slot it is and which claim: codes from 1 to 31, shifted
BITS = 5
CODES = range(1, 1 << BITS)
#: VCPU are more than all slots can hold; the total beyond that is another at each change
PLENTY = 1 << (BITS * SLOTS)
#: DISK_GB are fewer than all slots would hold
SCARCE = range(8, 17)
TRAITS = [f"CUSTOM_LINEAR_{number}" for number in range(NAMES)]
AGGREGATES = [str(uuid.UUID(int=0xA66 + number)) for number in range(NAMES)]
NEW_TRAITS = [f"CUSTOM_NEW_{number}" for number in range(3)]
NEW_CLASSES = [f"CUSTOM_CLASS_{number}" for number in range(3)]
GUESTS = [str(uuid.UUID(int=0x90E57 + number)) for number in range(3)]
DONE, REFUSED = (200, 201, 204), (400, 404, 409)
PROJECT = "project of those who check"


class Held:
    """What a slot of a provider holds: a consumer, and the code that its amounts are made of."""

    def __init__(self, consumer, code):
        self.consumer = consumer
        self.code = code

    def __repr__(self):
        return f"{self.code} of {self.consumer[:8]}"


def disk_of(code):
    """Return how much DISK_GB a claim with this code holds beside its VCPU."""
    return 2 + code % 4 if code else 0


class Cell:
    """A register: its key, its value as far as is known, and the lock of whoever writes to it."""

    def __init__(self, key, value):
        self.key = key
        self.value = value
        self.lock = threading.Lock()
        #: whether the outcome of the last write is unknown; then nobody writes before the database was read
        self.is_unknown = False


class Notes:
    """What clients noted in an epoch. Appending to a list needs no lock."""

    def __init__(self):
        self.writes, self.reads, self.told = [], [], []
        #: lists of a provider and the fields of a `history.Claim` of its DISK_GB
        self.claims = []
        self.statuses = collections.Counter()


class Cloud:
    """The providers, the registers of all that changes, and what was noted about them."""

    def __init__(self, seed):
        chosen = random.Random(seed)
        self.roots = [str(uuid.UUID(int=chosen.getrandbits(128))) for _ in range(ROOTS)]
        self.children = [str(uuid.UUID(int=chosen.getrandbits(128))) for _ in range(CHILDREN)]
        self.cells = {}
        self.notes = Notes()
        self.carried = {}
        self._number = 0

    def make(self, client):
        """Make the providers and the names of traits, through a server."""
        for name in TRAITS:
            client.insist("PUT", f"/traits/{name}")
        for root in self.roots:
            client.insist("POST", "/resource_providers", {"uuid": root, "name": root})
            totals = (PLENTY, SCARCE[-1])
            client.insist("PUT", f"/resource_providers/{root}/inventories", inventory_body(0, totals))
        for child in self.children:
            body = {"uuid": child, "name": child, "parent_provider_uuid": self.roots[0]}
            client.insist("POST", "/resource_providers", body)

    def adopt(self, values):
        """Begin an epoch with these values of the registers."""
        self.cells = {key: Cell(key, value) for key, value in values.items()}
        self.initial = dict(values)
        self.notes = Notes()
        self.carried = {
            value.consumer: [key[1], -math.inf, -math.inf, disk_of(value.code), False, math.inf]
            for key, value in values.items()
            if key[0] == "slot" and value is not None
        }
        self.notes.claims += self.carried.values()

    def next_number(self):
        """Return a number that was not returned before, so that values can be told apart."""
        self._number += 1
        return self._number

    def judge(self, url):
        """Read the database, return the problems of the epoch, and begin the next one."""
        if any(cell.is_unknown for cell in self.cells.values()):
            # a request without an answer may still be under way
            time.sleep(1)
        begun = time.monotonic()
        values = read_registers(url, self)
        seen = [
            history.Seen((key,), lambda value, found=found: same(value, found), found)
            for key, found in values.items()
        ]
        registers = history.make_registers(self.initial, self.notes.writes)
        final = history.Read(begun, time.monotonic(), "the database", seen)
        problems = history.find_unexplained(registers, [*self.notes.reads, final])
        problems = [
            history.Problem("lost", problem.text) if problem.text.startswith(final.name) else problem
            for problem in problems
        ]
        problems += history.find_generations_out_of_order(self.notes.told)
        for root in self.roots:
            claims = [history.Claim(*rest) for provider, *rest in self.notes.claims if provider == root]
            capacity = registers["inventories", root].project(lambda totals: totals[1])
            problems += history.find_oversold(f"DISK_GB of {root}", claims, capacity)
        self.adopt(values)
        return problems


def same(value, other):
    """Return whether two values of a register are equal."""
    if isinstance(value, Held) and isinstance(other, Held):
        return (value.consumer, value.code) == (other.consumer, other.code)
    return value == other


def inventory_body(generation, totals):
    """Return the body that gives a provider so much VCPU and DISK_GB."""
    names = ("VCPU", "DISK_GB")
    return {
        "resource_provider_generation": generation,
        "inventories": {name: {"total": total} for name, total in zip(names, totals, strict=True)},
    }


def read_registers(url, cloud):
    """Return the value of every register, read from the database by statements of our own."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:

        def rows(statement):
            return connection.execute(sa.text(statement)).all()

        providers = {
            provider: (name, parent)
            for provider, name, parent in rows(
                "SELECT p.uuid, p.name, q.uuid FROM resource_providers p "
                "LEFT JOIN resource_providers q ON q.id = p.parent_provider_id"
            )
        }
        traits = rows(
            "SELECT p.uuid, t.name FROM resource_provider_traits m "
            "JOIN resource_providers p ON p.id = m.resource_provider_id JOIN traits t ON t.id = m.trait_id"
        )
        aggregates = rows(
            "SELECT p.uuid, g.uuid FROM resource_provider_aggregates m "
            "JOIN resource_providers p ON p.id = m.resource_provider_id "
            "JOIN placement_aggregates g ON g.id = m.aggregate_id"
        )
        totals = {
            (provider, name): total
            for provider, name, total in rows(
                "SELECT p.uuid, c.name, i.total FROM inventories i "
                "JOIN resource_providers p ON p.id = i.resource_provider_id "
                "JOIN resource_classes c ON c.id = i.resource_class_id"
            )
        }
        names = {name for (name,) in rows("SELECT name FROM traits")}
        names |= {name for (name,) in rows("SELECT name FROM resource_classes")}
    values = {}
    for root in cloud.roots:
        values["traits", root] = frozenset(name for of, name in traits if of == root)
        values["aggregates", root] = frozenset(name for of, name in aggregates if of == root)
        values["inventories", root] = (totals[root, "VCPU"], totals[root, "DISK_GB"])
        values |= {("slot", root, slot): None for slot in range(SLOTS)}
    for consumer, held in truth.held(url).items():
        for (provider, name), amount in held.items():
            if name == "VCPU":
                slot, code = decode_one(amount)
                values["slot", provider, slot] = Held(consumer, code)
    values |= {("place", child): providers[child] for child in cloud.children}
    values |= {("name", name): name in names for name in (*NEW_TRAITS, *NEW_CLASSES)}
    values |= {("guest", guest): providers.get(guest, (None,))[0] for guest in GUESTS}
    return values


def decode_one(amount):
    """Return the slot and the code of an amount of VCPU that one consumer holds."""
    slot = next(slot for slot in range(SLOTS) if amount < 1 << (BITS * (slot + 1)))
    return slot, amount >> (BITS * slot)


class Actor:
    """A client that changes and reads the cloud, now through one server and now through another."""

    def __init__(self, cloud, chosen, addresses):
        """Take the URLs of servers, and of each whether it is one of ours."""
        self.cloud, self.random, self.addresses = cloud, chosen, addresses
        self.notes = cloud.notes
        self.client = self.reader = None
        self.connect()

    def connect(self):
        """Take new connections: to any of the servers, and to any of ours, whose answers are judged."""
        self.close()
        url, self.is_ours = self.random.choice(self.addresses)
        self.client = Client(url)
        self.reader = Client(self.random.choice([url for url, is_ours in self.addresses if is_ours]))

    def close(self):
        """Close the connections."""
        for client in (self.client, self.reader):
            if client is not None:
                client.close()

    def work(self, stop):
        """Change and read until told to stop."""
        writes = (
            [self.set_traits, self.set_aggregates, self.set_inventories, self.set_many]
            + [self.claim] * 5
            + [self.move, self.swap, self.claim_in_vain] * 2
            + [self.release, self.replace]
            + [self.place, self.name, self.come_or_go]
        )
        while not stop.is_set():
            if self.random.random() < 0.03:
                self.connect()
            if self.random.random() < 0.5:
                self.random.choice(self.reads())()
            else:
                self.random.choice(writes)()
            # marks are only kept where nobody is busy
            time.sleep(self.random.choice((0, 0, 0, 0.001, 0.005, 0.05)))

    def read_all(self):
        """Make each of the reads once."""
        for read in self.reads():
            read()

    # writing

    @contextlib.contextmanager
    def locked(self, *cells):
        """Hold the registers, or get False if somebody else does or one has an outcome that nobody knows."""
        with contextlib.ExitStack() as held:
            for cell in cells:
                if not cell.lock.acquire(blocking=False):
                    yield False
                    return
                held.callback(cell.lock.release)
            yield not any(cell.is_unknown for cell in cells)

    def write(self, method, path, body, values, vain=()):
        """Send a write of these values to registers that are held; its answer, and when it was sent.

        :param vain: more statuses that say that nothing was written
        """
        begun = time.monotonic()
        answer = self.client.send(method, path, body)
        ended = time.monotonic()
        self.notes.statuses[self.is_ours, answer.status] += 1
        if answer.status not in vain:
            self.settle(answer.status, begun, ended, values)
        return answer, begun, ended

    def settle(self, status, begun, ended, values):
        """Note the outcome of a write."""
        if status in REFUSED:
            return
        is_known = status in DONE
        self.notes.writes.append(history.Write(begun, ended if is_known else math.inf, values))
        for key, value in values.items():
            cell = self.cloud.cells[key]
            cell.value = value
            cell.is_unknown = not is_known

    def root(self):
        """Return any of the providers."""
        return self.random.choice(self.cloud.roots)

    def cell(self, *key):
        """Return a register."""
        return self.cloud.cells[key]

    def generation_of(self, root):
        """Return the present generation of a provider as this server tells it; None if it does not."""
        body = self.client.send("GET", f"/resource_providers/{root}/aggregates").body
        return body.get("resource_provider_generation") if body else None

    def some(self, names):
        """Return any of the sets of names."""
        return frozenset(name for name in names if self.random.random() < 0.5)

    def put_part(self, root, part, value, make_body):
        """Replace a part of a provider, as often as others come between, a few times at most."""
        with self.locked(self.cell(part, root)) as is_held:
            if not is_held or same(self.cell(part, root).value, value):
                return
            for _ in range(5):
                generation = self.generation_of(root)
                if generation is None:
                    return
                answer, begun, ended = self.write(
                    "PUT", f"/resource_providers/{root}/{part}", make_body(generation), {(part, root): value}
                )
                if answer.status == 200:
                    made = answer.body["resource_provider_generation"]
                    self.notes.told.append(history.Told(begun, ended, root, made, True))
                if answer.status != 409:
                    return

    def set_traits(self):
        """Give a provider other traits."""
        value = self.some(TRAITS)
        self.put_part(
            self.root(),
            "traits",
            value,
            lambda generation: {"traits": sorted(value), "resource_provider_generation": generation},
        )

    def set_aggregates(self):
        """Put a provider in other aggregates."""
        value = self.some(AGGREGATES)
        self.put_part(
            self.root(),
            "aggregates",
            value,
            lambda generation: {"aggregates": sorted(value), "resource_provider_generation": generation},
        )

    def totals(self):
        """Return totals of VCPU, which nobody had before, and of DISK_GB."""
        return PLENTY + self.cloud.next_number(), self.random.choice(SCARCE)

    def set_inventories(self):
        """Give a provider another amount of everything; of DISK_GB it may be less than is used."""
        value = self.totals()
        self.put_part(self.root(), "inventories", value, lambda generation: inventory_body(generation, value))

    def set_many(self):
        """Exchange the aggregates of two providers, and change their traits, in one request."""
        if not self.is_ours:
            return
        roots = self.random.sample(self.cloud.roots, 2)
        parts = ("aggregates", "traits")
        cells = {(part, root): self.cell(part, root) for root in roots for part in parts}
        with self.locked(*cells.values()) as is_held:
            if not is_held:
                return
            changes, values = [], {}
            for root, other in zip(roots, reversed(roots), strict=True):
                values[root] = {
                    ("aggregates", root): cells["aggregates", other].value,
                    ("traits", root): self.some(TRAITS),
                }
                changes.append(
                    {
                        "uuid": root,
                        "resource_provider_generation": self.generation_of(root),
                        **{part: sorted(values[root][part, root]) for part in parts},
                    }
                )
            if any(change["resource_provider_generation"] is None for change in changes):
                return
            begun = time.monotonic()
            answer = self.client.send("POST", "/-/providers", {"changes": changes})
            ended = time.monotonic()
            self.notes.statuses[self.is_ours, answer.status] += 1
            for number, root in enumerate(roots):
                result = answer.body["results"][number] if answer.status == 200 else {}
                status = result["errors"][0]["status"] if "errors" in result else answer.status
                self.settle(status, begun, ended, values[root])

    def claim_body(self, amounts, generation):
        """Return the body of a claim.

        :param amounts: by provider and slot, the code
        """
        allocations = {
            provider: {"resources": {"VCPU": code << (BITS * slot), "DISK_GB": disk_of(code)}}
            for (provider, slot), code in amounts.items()
        }
        return {
            "allocations": allocations,
            "project_id": PROJECT,
            "user_id": PROJECT,
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
        }

    def any_slot(self, is_free):
        """Return the cell of any slot that is free, or is not; None if there is none."""
        cells = [
            cell
            for key, cell in self.cloud.cells.items()
            if key[0] == "slot" and (cell.value is None) == is_free and not cell.is_unknown
        ]
        return self.random.choice(cells) if cells else None

    def note_granted(self, cell, held, begun, ended):
        """Note that a claim on a slot was granted."""
        claim = [cell.key[1], begun, ended, disk_of(held.code), self.is_ours, math.inf]
        self.cloud.carried[held.consumer] = claim
        self.notes.claims.append(claim)

    def note_release(self, held):
        """Note that a consumer begins to give back what it holds."""
        claim = self.cloud.carried.get(held.consumer)
        before = claim[5]
        claim[5] = min(before, time.monotonic())
        return claim, before

    def claim(self):
        """Have a new consumer claim; it may be refused."""
        cell = self.any_slot(True)
        if cell is None:
            return
        with self.locked(cell) as is_held:
            if not is_held or cell.value is not None:
                return
            held = Held(str(uuid.uuid4()), self.random.choice(CODES))
            body = self.claim_body({cell.key[1:]: held.code}, None)
            answer, *times = self.write("PUT", f"/allocations/{held.consumer}", body, {cell.key: held})
            if answer.status == 204:
                self.note_granted(cell, held, *times)

    @contextlib.contextmanager
    def taken_slot(self):
        """Hold any slot that a consumer has; None if there is none that is free to be held."""
        cell = self.any_slot(False)
        if cell is None:
            yield None
            return
        with self.locked(cell) as is_held:
            yield cell if is_held and cell.value is not None else None

    def release(self):
        """Delete the allocations of a consumer."""
        with self.taken_slot() as cell:
            if cell is not None:
                self.give_back(cell)

    def give_back(self, cell):
        """Delete the allocations of the consumer of a slot that is held."""
        held = cell.value
        claim, before = self.note_release(held)
        answer, *_ = self.write("DELETE", f"/allocations/{held.consumer}", None, {cell.key: None})
        if answer.status in REFUSED:
            claim[5] = before

    def claim_in_vain(self):
        """Delete a consumer, and have another claim more than there is: a consumer less, and one more."""
        with self.taken_slot() as cell:
            if cell is None:
                return
            self.give_back(cell)
            # where the provider does not exist, openstack-placement keeps the consumer nevertheless
            body = self.claim_body({(self.random.choice((cell.key[1], str(uuid.uuid4()))), 0): 1}, None)
            for wanted in body["allocations"].values():
                wanted["resources"]["DISK_GB"] = 10_000
            self.write("PUT", f"/allocations/{uuid.uuid4()}", body, {})
            # before anybody else has a reason to look at consumers
            self.read_everything()

    def consumer_generation(self, consumer):
        """Return the generation of a consumer as this server tells it; None if it does not."""
        body = self.client.send("GET", f"/allocations/{consumer}").body
        return body.get("consumer_generation") if body else None

    def replace(self):
        """Have a consumer hold another amount of VCPU and as much of DISK_GB as before."""
        with self.taken_slot() as cell:
            if cell is None:
                return
            held = cell.value
            codes = [code for code in CODES if disk_of(code) == disk_of(held.code) and code != held.code]
            changed = Held(held.consumer, self.random.choice(codes))
            generation = self.consumer_generation(held.consumer)
            body = self.claim_body({cell.key[1:]: changed.code}, generation)
            if generation is not None:
                self.write("PUT", f"/allocations/{held.consumer}", body, {cell.key: changed})

    def move(self):
        """Have a consumer hold the same of another provider, all at once."""
        source, target = self.any_slot(False), self.any_slot(True)
        if source is None or target is None or source.key[1] == target.key[1]:
            return
        with self.locked(source, target) as is_held:
            if not is_held or source.value is None or target.value is not None:
                return
            held = source.value
            generation = self.consumer_generation(held.consumer)
            if generation is None:
                return
            claim, before = self.note_release(held)
            body = self.claim_body({target.key[1:]: held.code}, generation)
            values = {source.key: None, target.key: held}
            answer, *times = self.write("PUT", f"/allocations/{held.consumer}", body, values)
            if answer.status == 204:
                self.note_granted(target, held, *times)
            elif answer.status in REFUSED:
                claim[5] = before

    def swap(self):
        """Delete one consumer and have a new one claim in its place, in one request."""
        source, target = self.any_slot(False), self.any_slot(True)
        if source is None or target is None:
            return
        with self.locked(source, target) as is_held:
            if not is_held or source.value is None or target.value is not None:
                return
            gone, held = source.value, Held(str(uuid.uuid4()), self.random.choice(CODES))
            generation = self.consumer_generation(gone.consumer)
            if generation is None:
                return
            claim, before = self.note_release(gone)
            body = {
                gone.consumer: self.claim_body({}, generation),
                held.consumer: self.claim_body({target.key[1:]: held.code}, None),
            }
            values = {source.key: None, target.key: held}
            answer, *times = self.write("POST", "/allocations", body, values)
            is_no_more = source.key[1] == target.key[1] and disk_of(held.code) <= disk_of(gone.code)
            if answer.status == 204 and is_no_more:
                # it takes no more, so it is granted also where a provider has less than is used of it
                claim[3], claim[5] = disk_of(held.code), before
                self.cloud.carried[held.consumer] = claim
            elif answer.status == 204:
                self.note_granted(target, held, *times)
            elif answer.status in REFUSED:
                claim[5] = before

    def place(self):
        """Move a provider below another, with another name."""
        child = self.random.choice(self.cloud.children)
        cell = self.cell("place", child)
        with self.locked(cell) as is_held:
            if not is_held:
                return
            value = (f"child {self.cloud.next_number()}", self.root())
            body = {"name": value[0], "parent_provider_uuid": value[1]}
            self.write("PUT", f"/resource_providers/{child}", body, {cell.key: value})

    def name(self):
        """Make a trait or a class, or delete it."""
        name = self.random.choice((*NEW_TRAITS, *NEW_CLASSES))
        cell = self.cell("name", name)
        kind = "traits" if name in NEW_TRAITS else "resource_classes"
        with self.locked(cell) as is_held:
            if is_held:
                method = "DELETE" if cell.value else "PUT"
                # openstack-placement on MariaDB says that a class exists, and makes none, where another
                # server has just taken the ID that it chose
                vain = (204,) if method == "PUT" and kind == "resource_classes" and not self.is_ours else ()
                self.write(method, f"/{kind}/{name}", None, {cell.key: not cell.value}, vain)

    def come_or_go(self):
        """Make a provider, with the same UUID each time and another name, or delete it."""
        guest = self.random.choice(GUESTS)
        cell = self.cell("guest", guest)
        with self.locked(cell) as is_held:
            if not is_held:
                return
            if cell.value is None:
                name = f"guest {self.cloud.next_number()}"
                body = {"uuid": guest, "name": name}
                self.write("POST", "/resource_providers", body, {cell.key: name})
            else:
                self.write("DELETE", f"/resource_providers/{guest}", None, {cell.key: None})

    # reading

    def reads(self):
        """Return the ways to read."""
        return [
            self.read_traits,
            self.read_aggregates,
            self.read_inventories,
            self.read_usages,
            self.read_allocations,
            self.list_providers,
            self.list_members,
            self.list_with_traits,
            self.list_with_room,
            self.list_names,
            self.find_members,
            self.find_with_traits,
            self.find_with_room,
            self.read_everything,
            self.ask_for_new_trait,
        ]

    def read(self, path, **query):
        """Send a read; its answer, and the read that it is, to be told what it saw."""
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        begun = time.monotonic()
        answer = self.reader.send("GET", target)
        ended = time.monotonic()
        read = history.Read(begun, ended, f"GET {target}", [])
        self.notes.statuses[True, answer.status] += 1
        if answer.status in DONE or answer.status in REFUSED:
            self.notes.reads.append(read)
        return answer, read

    def part(self, name):
        """Read a part of a provider; the read and the provider, and what is told, or None."""
        root = self.root()
        answer, read = self.read(f"/resource_providers/{root}/{name}")
        if answer.status != 200:
            return root, read, None
        self.note_generation(read, root, answer.body["resource_provider_generation"])
        return root, read, answer.body

    def note_generation(self, read, provider, generation):
        """Note a generation that a read told."""
        if provider not in GUESTS:
            self.notes.told.append(history.Told(read.begun, read.ended, provider, generation, False))

    def read_traits(self):
        """Read a provider's traits."""
        root, read, body = self.part("traits")
        if body:
            read.seen.append(is_equal(("traits", root), frozenset(body["traits"])))

    def read_aggregates(self):
        """Read a provider's aggregates."""
        root, read, body = self.part("aggregates")
        if body:
            read.seen.append(is_equal(("aggregates", root), frozenset(body["aggregates"])))

    def read_inventories(self):
        """Read a provider's inventories."""
        root, read, body = self.part("inventories")
        if body:
            read.seen.append(see_totals(root, body["inventories"]))

    def read_usages(self):
        """Read what is used of a provider."""
        root, read, body = self.part("usages")
        if body:
            read.seen.extend(see_usages(root, body["usages"]))

    def read_allocations(self):
        """Read what a consumer holds that holds something, or has just given it back."""
        cell = self.any_slot(False)
        held = cell and cell.value
        if held is None:
            return
        answer, read = self.read(f"/allocations/{held.consumer}")
        if answer.status != 200:
            return
        allocations = answer.body["allocations"]
        root, slot = cell.key[1:]
        resources = allocations.get(root, {}).get("resources", {})
        code = resources.get("VCPU", 0) >> (BITS * slot)
        expected = {"VCPU": code << (BITS * slot), "DISK_GB": disk_of(code)} if resources else {}
        shown = Held(held.consumer, code) if code else None
        read.seen.append(
            history.Seen(
                (cell.key,),
                lambda value: (
                    resources == expected
                    and (same(value, shown) if shown else value is None or value.consumer != held.consumer)
                ),
                allocations,
            )
        )

    def see_places(self, read, items):
        """Note what a list of all providers tells of names, places and generations."""
        found = {item["uuid"]: item for item in items}
        for guest in GUESTS:
            read.seen.append(is_equal(("guest", guest), found.get(guest, {}).get("name")))
        self.see_items(read, items)

    def see_items(self, read, items):
        """Note what a list tells of those in it."""
        for item in items:
            provider = item["uuid"]
            self.note_generation(read, provider, item["generation"])
            if provider in self.cloud.children:
                shown = item["name"], item["parent_provider_uuid"]
                read.seen.append(is_equal(("place", provider), shown))
                if item["root_provider_uuid"] != item["parent_provider_uuid"]:
                    read.seen.append(history.Seen((("place", provider),), lambda value: False, item))

    def list_providers(self):
        """List all providers."""
        answer, read = self.read("/resource_providers")
        if answer.status == 200:
            self.see_places(read, answer.body["resource_providers"])

    def list_filtered(self, query, fulfils, key):
        """List providers by a filter that is about one register of each."""
        answer, read = self.read("/resource_providers", **query)
        if answer.status == 200:
            items = answer.body["resource_providers"]
            self.see_items(read, items)
            self.see_members(read, {item["uuid"] for item in items}, fulfils, key)

    def see_members(self, read, members, fulfils, key):
        """Note which providers fulfil a condition on a register of theirs, and which do not."""
        for root in self.cloud.roots:
            is_in = root in members
            read.seen.append(
                history.Seen(
                    ((key, root),),
                    lambda value, is_in=is_in: fulfils(value) == is_in,
                    "listed" if is_in else "not listed",
                )
            )

    def list_members(self):
        """List the members of an aggregate."""
        name = self.random.choice(AGGREGATES)
        self.list_filtered({"member_of": name}, lambda value: name in value, "aggregates")

    def list_with_traits(self):
        """List providers with one trait and without another."""
        wanted, unwanted = self.random.sample(TRAITS, 2)
        query = {"required": f"{wanted},!{unwanted}"}
        self.list_filtered(query, lambda value: wanted in value and unwanted not in value, "traits")

    def see_room(self, read, members, amount):
        """Note which providers have so much DISK_GB left, and which have not."""
        for root in self.cloud.roots:
            slots = [("slot", root, slot) for slot in range(SLOTS)]
            is_in = root in members
            read.seen.append(
                history.Seen(
                    (("inventories", root), *slots),
                    lambda totals, *held, is_in=is_in: (
                        (totals[1] - sum(disk_of(each.code) for each in held if each) >= amount) == is_in
                    ),
                    f"{amount} free" if is_in else f"not {amount} free",
                )
            )

    def list_with_room(self):
        """List providers with so much left."""
        amount = self.random.randint(1, 8)
        answer, read = self.read("/resource_providers", resources=f"DISK_GB:{amount}")
        if answer.status == 200:
            items = answer.body["resource_providers"]
            self.see_items(read, items)
            self.see_room(read, {item["uuid"] for item in items}, amount)

    def list_names(self):
        """List the names of traits, or of classes."""
        kind, names = self.random.choice((("traits", NEW_TRAITS), ("resource_classes", NEW_CLASSES)))
        answer, read = self.read(f"/{kind}")
        if answer.status == 200:
            listed = answer.body[kind]
            found = set(listed if kind == "traits" else (item["name"] for item in listed))
            read.seen.extend(is_equal(("name", name), name in found) for name in names)

    def ask_for_new_trait(self):
        """Ask for providers with a trait that may not exist, of which none has it."""
        name = self.random.choice(NEW_TRAITS)
        path = self.random.choice(("/resource_providers", "/allocation_candidates"))
        resources = {"resources": "VCPU:1"} if path == "/allocation_candidates" else {}
        answer, read = self.read(path, required=name, **resources)
        if answer.status in (200, 400):
            read.seen.append(is_equal(("name", name), answer.status == 200))

    def find_candidates(self, read, answer):
        """Note what candidates tell of providers; those that are candidates."""
        for root, summary in answer.body["provider_summaries"].items():
            if root in self.cloud.children:
                read.seen.append(
                    history.Seen(
                        (("place", root),),
                        lambda value, parent=summary["parent_provider_uuid"]: value[1] == parent,
                        summary["parent_provider_uuid"],
                    )
                )
                continue
            resources = summary["resources"]
            totals = {name: {"total": each["capacity"]} for name, each in resources.items()}
            read.seen.append(see_totals(root, totals))
            read.seen.extend(see_usages(root, {name: each["used"] for name, each in resources.items()}))
            read.seen.append(is_equal(("traits", root), frozenset(summary["traits"])))
        return {root for each in answer.body["allocation_requests"] for root in each["allocations"]}

    def find_members(self):
        """Find candidates in an aggregate."""
        name = self.random.choice(AGGREGATES)
        answer, read = self.read("/allocation_candidates", resources1="VCPU:1", member_of1=name)
        if answer.status == 200:
            found = self.find_candidates(read, answer)
            self.see_members(read, found, lambda value: name in value, "aggregates")

    def find_with_traits(self):
        """Find candidates with one trait and without another."""
        wanted, unwanted = self.random.sample(TRAITS, 2)
        required = f"{wanted},!{unwanted}"
        answer, read = self.read("/allocation_candidates", resources1="VCPU:1", required1=required)
        if answer.status == 200:
            found = self.find_candidates(read, answer)
            self.see_members(read, found, lambda value: wanted in value and unwanted not in value, "traits")

    def find_with_room(self):
        """Find candidates with so much left."""
        amount = self.random.randint(1, 8)
        answer, read = self.read("/allocation_candidates", resources1=f"DISK_GB:{amount}")
        if answer.status == 200:
            self.see_room(read, self.find_candidates(read, answer), amount)

    def read_everything(self):
        """Read all providers with all that they have."""
        answer, read = self.read("/-/providers")
        if answer.status != 200:
            return
        self.see_places(read, answer.body["providers"])
        for item in answer.body["providers"]:
            root = item["uuid"]
            if root in self.cloud.roots:
                read.seen.append(see_totals(root, item["inventories"]))
                read.seen.extend(see_usages(root, item["usages"]))
                read.seen.append(is_equal(("traits", root), frozenset(item["traits"])))
                read.seen.append(is_equal(("aggregates", root), frozenset(item["aggregates"])))


def is_equal(key, shown):
    """Return the observation that a register has this value."""
    return history.Seen((key,), lambda value: value == shown, shown)


def see_totals(root, inventories):
    """Return the observation of a provider's totals."""
    return is_equal(("inventories", root), (inventories["VCPU"]["total"], inventories["DISK_GB"]["total"]))


def see_usages(root, usages):
    """Return what a provider's usages tell of each slot; and that both classes tell of the same claims."""
    amount = usages.get("VCPU", 0)
    codes = [amount >> (BITS * slot) & (1 << BITS) - 1 for slot in range(SLOTS)]
    is_whole = sum(map(disk_of, codes)) == usages.get("DISK_GB", 0)
    return [
        history.Seen(
            (("slot", root, slot),),
            lambda value, code=code: is_whole and (value.code if value else 0) == code,
            (code, usages),
        )
        for slot, code in enumerate(codes)
    ]
