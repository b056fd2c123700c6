# SPDX-License-Identifier: Apache-2.0
"""Exchanges that leave counts and sums of hashes as they were are seen by a worker nevertheless.

A worker that keeps a snapshot has to notice every change from next to nothing. Each exchange here changes
what it answers, and leaves equal what is easily summed up: how many rows there are, sums and products of ids,
and sums of CRC32, which is linear. Names are found by solving equations over bits, memberships by trying all
ids. Our server or openstack-placement makes the exchange; nobody looks in between. Afterwards the worker's
answers are compared with the database.

``memberships``
    two providers leave an aggregate for another, and two others come from there;
``traits``
    two providers exchange their traits;
``names``
    two providers exchange their names;
``places``
    a provider moves below another, with another name;
``trait names``, ``class names``
    a trait or a class is deleted, and another takes its place, with its id where the database gives it again;
``consumers``
    a consumer is deleted, and openstack-placement stores another whose claim it then refuses.

Run as a program for as many exchanges as one likes. Exit status 1 if an answer is stale, or if of some kind
no exchange left the sums as they were.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import logging
import pathlib
import secrets
import sys
import tempfile
import urllib.parse
import uuid
import warnings
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import sqlalchemy as sa

from osc_placement.server.shadow.exchange import Answer, Request
from tests import databases
from tests.reliability.differential.sides import Ours, Reference, Side

PROVIDERS, CHILDREN, AGGREGATES, NAMES = 24, 4, 12, 4
#: characters of a name that may be 0 or 1: more than CRC32 has bits, so that there are many solutions
WIDTH = 48
#: rows of which sums are made, as columns of integers and texts
SUMMED = {
    "memberships": "SELECT resource_provider_id, aggregate_id FROM resource_provider_aggregates",
    "providers": "SELECT id, name, root_provider_id, parent_provider_id FROM resource_providers",
    "generations": "SELECT generation FROM resource_providers",
    "trait names": "SELECT id, name FROM traits",
    "class names": "SELECT id, name FROM resource_classes",
    "provider traits": "SELECT 1 FROM resource_provider_traits",
    "consumers": "SELECT 1 FROM consumers",
}
#: of an exchange of each kind, the sums that stay
KEPT = {
    "memberships": ("memberships",),
    "traits": ("provider traits",),
    "names": ("providers", "generations"),
    "places": ("providers", "generations"),
    "trait names": ("trait names",),
    "class names": ("class names",),
    "consumers": ("consumers", "generations"),
}


class Unsolvable(Exception):
    """The equations have no solution with these bits."""


def solve(make_text: Callable[[str], str], target: int, random: Random) -> str:
    """Return a string of zeros and ones of which a text is made that has this CRC32.

    :param make_text: makes texts that differ in nothing but the string, at the same place
    :raises Unsolvable: there is no such string
    """
    bits = [random.getrandbits(1) for _ in range(WIDTH)]

    def checksum(flipped: int = 0) -> int:
        string = "".join(str(bit ^ (flipped >> place & 1)) for place, bit in enumerate(bits))
        return zlib.crc32(make_text(string).encode())

    start = checksum()
    # the difference that each flip makes is the same whatever the other bits are
    basis: dict[int, tuple[int, int]] = {}
    for place in range(WIDTH):
        difference, flipped = checksum(1 << place) ^ start, 1 << place
        while difference and difference.bit_length() in basis:
            other, others = basis[difference.bit_length()]
            difference, flipped = difference ^ other, flipped ^ others
        if difference:
            basis[difference.bit_length()] = difference, flipped
    rest, flipped = start ^ target, 0
    while rest:
        if rest.bit_length() not in basis:
            raise Unsolvable
        other, others = basis[rest.bit_length()]
        rest, flipped = rest ^ other, flipped ^ others
    return "".join(str(bit ^ (flipped >> place & 1)) for place, bit in enumerate(bits))


def find_membership_exchanges(
    providers: list[int], aggregates: list[int]
) -> list[tuple[tuple[int, int], tuple[int, int], int, int]]:
    """Return the exchanges between two pairs of providers that leave both sums of memberships as they are.

    Each is a pair of providers in the first aggregate, a pair in the second one, and the two aggregates. The
    sum of products of ids stays if both pairs have the same sum.
    """
    pairs = collections.defaultdict(list)
    for pair in itertools.combinations(providers, 2):
        pairs[sum(pair)].append(pair)
    found = []
    for alike in pairs.values():
        for one, other in itertools.combinations(alike, 2):
            for x, y in itertools.combinations(aggregates, 2):
                before = _sum_memberships(one, x) + _sum_memberships(other, y)
                if before == _sum_memberships(one, y) + _sum_memberships(other, x):
                    found.append((one, other, x, y))
    return found


def _sum_memberships(providers: tuple[int, ...], aggregate: int) -> int:
    return sum(zlib.crc32(f"{provider}:{aggregate}".encode()) for provider in providers)


class Cloud:
    """One database, those who write to it, and the worker whose answers are compared with it."""

    def __init__(self, url: str, random: Random) -> None:
        self._url, self._random = url, random
        self._engine = sa.create_engine(url)
        self._ours, self._reference = Ours(url, others_write=True), Reference(url)
        self._watcher = Ours(url, others_write=True)
        self._number = 0
        self.kinds: dict[str, Callable[[], None]] = {
            "memberships": self._exchange_memberships,
            "traits": self._exchange_traits,
            "names": self._exchange_names,
            "places": self._exchange_places,
            "trait names": self._exchange_trait_names,
            "class names": self._exchange_class_names,
            "consumers": self._exchange_consumers,
        }
        self._make()
        self._exchanges = find_membership_exchanges(
            list(self._ids("SELECT id, uuid FROM resource_providers WHERE parent_provider_id IS NULL")),
            list(self._aggregates),
        )
        assert self._exchanges, "no exchange of memberships leaves the sums as they are"

    def close(self) -> None:
        """Close the connections for looking at the database."""
        for side in (self._ours, self._reference, self._watcher):
            side.close()
        self._engine.dispose()

    def exchange(self, kind: str) -> tuple[bool, list[str]]:
        """Make one exchange; whether the sums stayed as they were, and what is stale afterwards."""
        self._prepare(kind)
        # the worker looks, and knows the state before
        self._candidates(resources="VCPU:1")
        before = self._sum(kind)
        self.kinds[kind]()
        is_same = self._sum(kind) == before
        stale = self._find_stale()
        if stale:
            # it would be found once more each time
            self._watcher.close()
            self._watcher = Ours(self._url, others_write=True)
        return is_same, stale

    # what is exchanged

    def _make(self) -> None:
        uuids = [str(uuid.UUID(int=self._random.getrandbits(128))) for _ in range(PROVIDERS)]
        for provider in uuids:
            body = {"uuid": provider, "name": f"host-{self._bits()}"}
            self._insist(self._ours, "POST", "/resource_providers", body)
            inventory = {"inventories": {"VCPU": {"total": 100}}, "resource_provider_generation": 0}
            self._insist(self._ours, "PUT", f"/resource_providers/{provider}/inventories", inventory)
        for _ in range(CHILDREN):
            body = {"name": f"child-{self._bits()}", "parent_provider_uuid": uuids[0]}
            self._insist(self._ours, "POST", "/resource_providers", body)
        aggregates = [str(uuid.UUID(int=self._random.getrandbits(128))) for _ in range(AGGREGATES)]
        self._set_memberships(self._ours, {uuids[0]: aggregates})
        self._aggregates = self._ids("SELECT id, uuid FROM placement_aggregates")
        self._traits = [f"CUSTOM_HELD_{number}" for number in range(NAMES)]
        for name in self._traits:
            self._send(self._ours, "PUT", f"/traits/{name}")
        self._trait = self._create("traits", self._ours, f"CUSTOM_{self._bits()}")
        self._class = self._create("resource_classes", self._ours, f"CUSTOM_{self._bits()}")

    def _prepare(self, kind: str) -> None:
        """Make what an exchange of this kind is to be made of, and choose what is asked for after it."""
        self._asked_aggregates = self._random.sample(list(self._aggregates.values()), 2)
        self._asked_traits = self._random.sample(self._traits, 2)
        if kind == "memberships":
            self._pick = self._random.choice(self._exchanges)
            one, other, x, y = self._pick
            self._asked_aggregates = [self._aggregates[x], self._aggregates[y]]
            everyone = dict.fromkeys(self._roots(), ())
            uuids = self._ids("SELECT id, uuid FROM resource_providers")
            places = {uuids[id_]: [self._aggregates[x]] for id_ in one}
            places |= {uuids[id_]: [self._aggregates[y]] for id_ in other}
            self._set_memberships(self._ours, {**everyone, **places})
        elif kind == "names":
            self._pair = self._random.sample(self._roots(), 2)
            name = f"host-{self._bits()}"
            same = "host-" + self._solve(lambda bits: f"host-{bits}", zlib.crc32(name.encode()))
            self._rename(self._ours, self._pair[0], name)
            self._rename(self._ours, self._pair[1], same)
            self._names = name, same
        elif kind == "traits":
            self._pair = self._random.sample(self._roots(), 2)
            for provider in self._pair:
                self._set_traits(self._ours, provider, self._random.sample(self._traits, 2))
        elif kind == "consumers":
            self._consumer = str(uuid.uuid4())
            answer = self._claim(self._ours, self._consumer, self._random.choice(self._roots()), 5)
            assert answer.status == 204, answer

    def _exchange_memberships(self) -> None:
        one, other, x, y = self._pick
        uuids = self._ids("SELECT id, uuid FROM resource_providers")
        places = {uuids[id_]: [self._aggregates[y]] for id_ in one}
        places |= {uuids[id_]: [self._aggregates[x]] for id_ in other}
        self._set_memberships(self._side(), places)

    def _exchange_traits(self) -> None:
        side, (one, other) = self._side(), self._pair
        held = {provider: self._traits_of(provider) for provider in self._pair}
        self._set_traits(side, one, held[other])
        self._set_traits(side, other, held[one])

    def _exchange_names(self) -> None:
        side, (one, other), (name, same) = self._side(), self._pair, self._names
        self._rename(side, one, "between names")
        self._rename(side, other, name)
        self._rename(side, one, same)

    def _exchange_places(self) -> None:
        query = (
            "SELECT c.uuid, c.name, c.root_provider_id, c.parent_provider_id FROM resource_providers c "
            "WHERE c.parent_provider_id IS NOT NULL"
        )
        child, name, root, parent = self._random.choice(self._rows(query))
        ids = self._ids("SELECT id, uuid FROM resource_providers WHERE parent_provider_id IS NULL")
        target = self._random.choice([id_ for id_ in ids if id_ != parent])
        checksum = zlib.crc32(f"{name}:{root}:{parent}".encode())
        same = self._solve(lambda bits: f"child-{bits}:{target}:{target}", checksum)
        body = {"name": f"child-{same}", "parent_provider_uuid": ids[target]}
        self._send(self._side(), "PUT", f"/resource_providers/{child}", body)

    def _exchange_trait_names(self) -> None:
        side = self._side()
        id_, name = self._trait
        self._send(side, "DELETE", f"/traits/{name}")
        # SQLite gives the greatest id again, the others the one after it
        next_id = id_ if self._engine.dialect.name == "sqlite" else id_ + 1
        self._trait = self._create("traits", side, self._find_name(id_, name, next_id))

    def _exchange_class_names(self) -> None:
        side = self._side()
        id_, name = self._class
        renamed = self._find_name(id_, name, id_)
        if self._random.random() < 0.5:
            self._send(side, "PUT", f"/resource_classes/{name}", {"name": renamed}, version="1.6")
            self._class = id_, renamed
        else:
            self._send(side, "DELETE", f"/resource_classes/{name}")
            self._class = self._create("resource_classes", side, renamed)

    def _exchange_consumers(self) -> None:
        self._send(self._reference, "DELETE", f"/allocations/{self._consumer}")
        # it stores the consumer before it finds that there is no such provider
        answer = self._claim(self._reference, str(uuid.uuid4()), str(uuid.uuid4()), 1)
        assert answer.status == 400, answer

    # requests

    def _side(self) -> Side:
        return self._random.choice((self._ours, self._reference))

    def _send(
        self, side: Side, method: str, path: str, body: Any = None, *, version: str = "1.39", **query: str
    ) -> Answer:
        headers = {
            "x-auth-token": "admin",
            "accept": "application/json",
            "openstack-api-version": f"placement {version}",
        }
        content = b""
        if body is not None:
            headers["content-type"] = "application/json"
            content = json.dumps(body).encode()
        answer = side.send(Request(method, path, urllib.parse.urlencode(query), headers, content))
        assert answer.status < 500, (method, path, body, answer)
        return answer

    def _insist(self, side: Side, method: str, path: str, body: Any) -> None:
        answer = self._send(side, method, path, body)
        assert answer.status < 300, (method, path, body, answer)

    def _set_memberships(self, side: Side, places: dict[str, Any]) -> None:
        """Put providers in aggregates: by one request of ours, or by requests that move no generation."""
        if side is self._reference:
            for provider, aggregates in places.items():
                path = f"/resource_providers/{provider}/aggregates"
                self._send(side, "PUT", path, list(aggregates), version="1.1")
            return
        generations = dict(self._rows("SELECT uuid, generation FROM resource_providers"))
        changes = [
            {
                "uuid": provider,
                "resource_provider_generation": generations[provider],
                "aggregates": list(aggregates),
            }
            for provider, aggregates in places.items()
        ]
        answer = self._send(side, "POST", "/-/providers", {"changes": changes})
        assert not any("errors" in result for result in answer.data["results"]), answer

    def _set_traits(self, side: Side, provider: str, names: list[str]) -> None:
        generations = dict(self._rows("SELECT uuid, generation FROM resource_providers"))
        body = {"traits": names, "resource_provider_generation": generations[provider]}
        self._insist(side, "PUT", f"/resource_providers/{provider}/traits", body)

    def _rename(self, side: Side, provider: str, name: str) -> None:
        self._insist(side, "PUT", f"/resource_providers/{provider}", {"name": name})

    def _claim(self, side: Side, consumer: str, provider: str, amount: int) -> Answer:
        body = {
            "allocations": {provider: {"resources": {"VCPU": amount}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        return self._send(side, "PUT", f"/allocations/{consumer}", body)

    def _create(self, table: str, side: Side, name: str) -> tuple[int, str]:
        """Make a trait or a class; its id and its name."""
        answer = self._send(side, "PUT", f"/{table}/{name}")
        assert answer.status == 201, answer
        query = {"traits": SUMMED["trait names"], "resource_classes": SUMMED["class names"]}[table]
        return next((id_, found) for id_, found in self._rows(query) if found == name)

    # names

    def _bits(self) -> str:
        return "".join(self._random.choice("01") for _ in range(WIDTH))

    def _solve(self, make_text: Callable[[str], str], target: int) -> str:
        while True:
            with contextlib.suppress(Unsolvable):
                return solve(make_text, target, self._random)

    def _find_name(self, id_: int, name: str, next_id: int) -> str:
        """Return a name that has with the next id the checksum that a name has with its id."""
        target = zlib.crc32(f"{id_}:{name}".encode())
        return "CUSTOM_" + self._solve(lambda bits: f"{next_id}:CUSTOM_{bits}", target)

    # the database

    def _rows(self, query: str) -> list[Any]:
        with self._engine.connect() as connection:
            return list(connection.execute(sa.text(query)))

    def _ids(self, query: str) -> dict[int, str]:
        return dict(self._rows(query))

    def _roots(self) -> list[str]:
        query = "SELECT uuid FROM resource_providers WHERE parent_provider_id IS NULL ORDER BY id"
        return [row[0] for row in self._rows(query)]

    def _traits_of(self, provider: str) -> list[str]:
        return sorted(row[2] for row in self._ours.state() if row[:2] == ("trait", provider))

    def _sum(self, kind: str) -> list[Any]:
        """Return how many rows there are, and the sums of their first numbers, checksums and products."""
        sums = []
        for name in KEPT[kind]:
            rows = self._rows(SUMMED[name])
            # the checksums of providers are of what their rows say, and multiplied by their ids
            parts = [row[1:] if name == "providers" else row for row in rows]
            texts = [":".join(str(value) for value in part if value is not None) for part in parts]
            checksums = [zlib.crc32(text.encode()) for text in texts]
            numbers = [row[0] for row in rows]
            products = [
                row[0] * row[1] if name == "memberships" else row[0] * checksum if name == "providers" else 0
                for row, checksum in zip(rows, checksums, strict=True)
            ]
            sums += [len(rows), sum(checksums), sum(products)]
            sums += [sum(numbers)] if name == "class names" else []
        return sums

    # what is compared

    def _find_stale(self) -> list[str]:
        """Return in which answers the watcher tells something else than the database."""
        true, told = self._read_database(), self._ask_watcher()
        return [
            f"{key}: {told.get(key)} is told, {true.get(key)} is so"
            for key in true | told
            if true.get(key) != told.get(key)
        ]

    def _read_database(self) -> dict[Any, Any]:
        rows = collections.defaultdict(list)
        for kind, *fields in self._ours.state():
            rows[kind].append(fields)
        used: collections.Counter[Any] = collections.Counter()
        for provider, _, name, amount in rows["allocation"]:
            used[provider, name] += amount
        facts: dict[Any, Any] = {}
        for provider, name, generation, root, parent in rows["provider"]:
            facts["provider", provider] = name, generation, root, parent
            facts["listed", provider] = name, generation, root, parent
        for provider, name, total, *_ in rows["inventory"]:
            facts["inventory", provider, name] = total, used[provider, name]
            facts["candidate", provider, name] = total, used[provider, name]
        for key, kind in (("aggregates", "aggregate"), ("traits", "trait")):
            for provider in {row[0] for row in rows["provider"]}:
                facts[key, provider] = {name for of, name in rows[kind] if of == provider}
        for name in self._asked_aggregates:
            members = {of for of, aggregate in rows["aggregate"] if aggregate == name}
            facts["members", name] = facts["candidates in", name] = members
        for name in self._asked_traits:
            facts["with", name] = facts["candidates with", name] = {
                of for of, held in rows["trait"] if held == name
            }
        facts["traits"] = {name for (name,) in rows["custom trait"]}
        facts["classes"] = {name for (name,) in rows["custom class"]}
        facts["trait", self._trait[1]] = facts["class", self._class[1]] = 200
        return facts

    def _ask_watcher(self) -> dict[Any, Any]:
        facts: dict[Any, Any] = {}
        # candidates first: what is asked later may make the worker look
        for name in self._asked_aggregates:
            facts["candidates in", name] = self._candidates(resources1="VCPU:1", member_of1=name)
        for name in self._asked_traits:
            facts["candidates with", name] = self._candidates(resources1="VCPU:1", required1=name)
        answer = self._ask("/allocation_candidates", resources="VCPU:1")
        for provider, summary in answer["provider_summaries"].items():
            for name, each in summary["resources"].items():
                facts["candidate", provider, name] = each["capacity"], each["used"]
        for item in self._ask("/-/providers")["providers"]:
            provider = item["uuid"]
            facts["provider", provider] = self._describe(item)
            facts["aggregates", provider] = set(item["aggregates"])
            facts["traits", provider] = set(item["traits"])
            for name, inventory in item["inventories"].items():
                facts["inventory", provider, name] = inventory["total"], item["usages"].get(name, 0)
        for item in self._ask("/resource_providers")["resource_providers"]:
            facts["listed", item["uuid"]] = self._describe(item)
        for name in self._asked_aggregates:
            facts["members", name] = self._listed(member_of=name)
        for name in self._asked_traits:
            facts["with", name] = self._listed(required=name)
        facts["traits"] = {name for name in self._ask("/traits")["traits"] if name.startswith("CUSTOM")}
        classes = self._ask("/resource_classes")["resource_classes"]
        facts["classes"] = {item["name"] for item in classes if item["name"].startswith("CUSTOM")}
        for key, query in (
            (("trait", self._trait[1]), {"resources": "VCPU:1", "required": self._trait[1]}),
            (("class", self._class[1]), {"resources": f"{self._class[1]}:1"}),
        ):
            facts[key] = self._send(self._watcher, "GET", "/allocation_candidates", **query).status
        return facts

    def _describe(self, item: Any) -> tuple[Any, ...]:
        return (
            item["name"],
            item["generation"],
            item["root_provider_uuid"],
            item["parent_provider_uuid"],
        )

    def _ask(self, path: str, **query: str) -> Any:
        answer = self._send(self._watcher, "GET", path, **query)
        assert answer.status == 200, answer
        # a stream of lines is JSON too, without saying so
        return json.loads(answer.body)

    def _candidates(self, **query: str) -> set[str]:
        requests = self._ask("/allocation_candidates", **query)["allocation_requests"]
        return {provider for each in requests for provider in each["allocations"]}

    def _listed(self, **query: str) -> set[str]:
        return {item["uuid"] for item in self._ask("/resource_providers", **query)["resource_providers"]}


def run(cloud: Cloud, exchanges: int, *, go_on: bool) -> dict[str, collections.Counter[str]]:
    """Make so many exchanges, of each kind in turn; how many of each there were, collided and were stale."""
    counts: dict[str, collections.Counter[str]] = {kind: collections.Counter() for kind in cloud.kinds}
    for kind in itertools.islice(itertools.cycle(cloud.kinds), exchanges):
        if counts[kind]["stale"] and not go_on:
            continue
        is_same, stale = cloud.exchange(kind)
        counts[kind].update(exchanges=1, collided=int(is_same), stale=int(bool(stale)))
        if counts[kind]["stale"] == 1 and stale:
            print(f"{kind}: {stale[0]}")
    return counts


def main() -> int:
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=databases.BACKENDS, default="sqlite")
    parser.add_argument("--exchanges", type=int, default=140)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument(
        "--go-on", action="store_true", help="count all stale answers instead of one of each kind"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    with (
        tempfile.TemporaryDirectory() as directory,
        databases.make_database(options.backend, pathlib.Path(directory)) as url,
        contextlib.closing(Cloud(url, Random(options.seed))) as cloud,
    ):
        counts = run(cloud, options.exchanges, go_on=options.go_on)
    for kind, counted in counts.items():
        print(
            f"{kind}: {', '.join(f'{counted[name]} {name}' for name in ('exchanges', 'collided', 'stale'))}"
        )
    total = sum(counts.values(), collections.Counter[str]())
    print(f"{options.backend}, seed {options.seed}: {total['exchanges']} exchanges, {total['stale']} stale")
    is_vacuous = any(counted["exchanges"] > counted["collided"] == 0 for counted in counts.values())
    return int(bool(total["stale"]) or is_vacuous)


if __name__ == "__main__":
    sys.exit(main())
