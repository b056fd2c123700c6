# SPDX-License-Identifier: Apache-2.0
"""Rows that old releases, or scripts, left as no server writes them: both servers do the same with them."""

import uuid

import pytest
import sqlalchemy as sa

from osc_placement.server.db import tables
from tests import databases
from tests.functional.db import test_exchange as exchange
from tests.functional.db.test_exchange import ask, claim, converse, failures
from tests.reliability.differential.sides import Ours

VCPU, MEMORY_MB = 0, 1


#: without its root, openstack-placement does not find a provider; for a name that is NULL we say ""
DIFFERENT = ("root_provider_id", "name")


def make_uuids(number):
    """So many UUIDs, the same in each database."""
    return [str(uuid.uuid5(uuid.NAMESPACE_URL, str(each))) for each in range(number)]


HOST, OTHER, *CONSUMERS = make_uuids(12)


@pytest.fixture
def twins(make_database):
    """Two databases of a kind, made by openstack-placement, with the same two hosts."""
    databases.require_reference()
    urls = make_database(), make_database()
    for url in urls:
        (answers,) = converse("reference", url, make_hosts())
        assert failures(answers) == []
    return urls


def make_hosts():
    """Two roots with 10 processors and memory each."""
    for host in (HOST, OTHER):
        yield ask("POST", "/resource_providers", {"uuid": host, "name": host})
        inventories = {"VCPU": {"total": 10, "max_unit": 10}, "MEMORY_MB": {"total": 1000}}
        body = {"resource_provider_generation": 0, "inventories": inventories}
        yield ask("PUT", f"/resource_providers/{host}/inventories", body)


def edit(urls, *statements):
    """Execute statements on each of the databases, as no server would."""
    for url in urls:
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(statement)


def compare(urls, *requests):
    """Ask openstack-placement and our server the same, each on its database; the answers of ours."""
    (theirs,), (ours,) = (
        converse(server, url, requests) for server, url in zip(("reference", "ours"), urls, strict=True)
    )
    for request, expected, answer in zip(requests, theirs, ours, strict=True):
        assert answer == expected, f"{request.method} {request.path}?{request.query}"
    assert read_held(urls[1]) == read_held(urls[0])
    return ours


def read_held(url):
    """What consumers hold of providers, and the generation of each consumer that has a record."""
    of, consumers = tables.allocations.c, tables.consumers.c
    held = sa.select(of.consumer_id, of.resource_provider_id, of.resource_class_id, of.used)
    recorded = sa.select(consumers.uuid, consumers.generation)
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        return [sorted(map(tuple, connection.execute(query))) for query in (held, recorded)]


def hold(provider_id, consumer, **used):
    """An allocation as releases without consumers stored it."""
    ids = {"VCPU": VCPU, "MEMORY_MB": MEMORY_MB}
    rows = [
        {
            "resource_provider_id": provider_id,
            "consumer_id": consumer,
            "resource_class_id": ids[name],
            "used": amount,
        }
        for name, amount in used.items()
    ]
    return sa.insert(tables.allocations).values(rows)


def look(*consumers):
    """All that shows what consumers hold."""
    for consumer in consumers:
        yield ask("GET", f"/allocations/{consumer}")
    for host in (HOST, OTHER):
        for part in ("", "/allocations", "/usages"):
            yield ask("GET", f"/resource_providers/{host}{part}")
    for project in ("project", "other"):
        old = {"openstack-api-version": "placement 1.37"}
        yield ask("GET", "/usages", query=f"project_id={project}", **old)
    yield ask("GET", "/allocation_candidates", query="resources=VCPU:3")


def replace_all(one, two, three, four, five, six):
    """Replace what consumers hold with each request that can, and with some that are refused."""
    admin = {"x-roles": "admin,service"}
    yield ask("DELETE", f"/allocations/{one}")
    yield ask("PUT", f"/allocations/{one}", claim(HOST, {"VCPU": 2}, generation=0))
    yield ask("PUT", f"/allocations/{one}", claim(HOST, {"VCPU": 11}))
    yield from look(one)
    yield ask("PUT", f"/allocations/{one}", claim(HOST, {"VCPU": 2}))
    yield ask("PUT", f"/allocations/{two}", claim(OTHER, {"VCPU": 2, "MEMORY_MB": 5}))
    yield ask("POST", "/allocations", {three: claim(HOST, {}), four: claim(HOST, {"VCPU": 3})})
    old = {key: value for key, value in claim(OTHER, {"VCPU": 1}).items() if not key.startswith("consumer_")}
    yield ask("PUT", f"/allocations/{five}", old, **{"openstack-api-version": "placement 1.12"})
    inventories = {"VCPU": {"total": 10, "max_unit": 10}, "MEMORY_MB": {"total": 1000}}
    yield ask("GET", f"/resource_providers/{OTHER}")
    body = {
        "inventories": {OTHER: {"inventories": inventories, "resource_provider_generation": 3}},
        "allocations": {six: claim(OTHER, {"VCPU": 4})},
    }
    yield ask("POST", "/reshaper", body, **admin)
    yield from look(one, two, three, four, five, six)


def test_allocations_without_a_consumer_are_replaced(twins):
    """A consumer that has no record is new, and its old allocations go, by whichever request."""
    one, two, three, four, five, six, untouched = CONSUMERS[:7]
    amounts = {one: 2, two: 2, three: 2, four: 1, five: 1, six: 1, untouched: 1}
    edit(twins, *(hold(1, consumer, VCPU=amount, MEMORY_MB=1) for consumer, amount in amounts.items()))
    answers = compare(twins, *replace_all(one, two, three, four, five, six))
    assert failures(answers)[0][0] == 404
    assert [status for status, _ in failures(answers)[1:]] == [409, 409]
    allocations, consumers = read_held(twins[1])
    used = {row[0]: row[1:] for row in allocations if row[2] == VCPU}
    assert used == {
        one: (1, VCPU, 2),
        two: (2, VCPU, 2),
        four: (1, VCPU, 3),
        five: (2, VCPU, 1),
        six: (2, VCPU, 4),
        untouched: (1, VCPU, 1),
    }
    assert dict(consumers) == dict.fromkeys((one, two, four, five, six), 1)


@pytest.fixture
def full_twins(make_database):
    """Two databases in which openstack-placement has stored everything that there is."""
    databases.require_reference()
    urls = make_database(), make_database()
    for url in urls:
        (answers,) = converse("reference", url, exchange.write("A"))
        assert failures(answers) == []
    return urls


def read_all():
    """All reads, twice, since ours answers the second time from its snapshot."""
    provider, aggregate = exchange.make_uuid("A", "root"), exchange.make_uuid("A", "aggregate")
    for _ in range(2):
        yield from exchange.read("A")
        yield ask("GET", "/traits/CUSTOM_TRAIT_A")
        yield ask("GET", "/resource_classes/CUSTOM_CLASS_A")
        yield ask("GET", f"/resource_providers/{provider}/inventories/VCPU")
        yield ask("GET", "/resource_providers", query=f"uuid={provider}")
        for query in (
            f"in_tree={provider}",
            f"member_of={aggregate}",
            f"member_of=!{aggregate}",
            "required=CUSTOM_TRAIT_A",
            "required=!CUSTOM_TRAIT_A",
        ):
            yield ask("GET", "/resource_providers", query=query)
            yield ask("GET", "/allocation_candidates", query=f"{query}&resources=VCPU:1")


def clear(are_different):
    """Set to NULL, in all rows, the columns that may be: those of `DIFFERENT`, or all others."""
    for table in tables.metadata.tables.values():
        names = [column.name for column in table.columns if column.nullable]
        if cleared := [name for name in names if (name in DIFFERENT) == are_different]:
            yield sa.update(table).values(dict.fromkeys(cleared, sa.null()))


def test_null_is_read_as_openstack_placement_does(full_twins):
    """Wherever the schema allows it; besides, we find a provider without a root, as the root of a tree."""
    edit(full_twins, *clear(are_different=False))
    compare(full_twins, *read_all())
    url = full_twins[1]
    edit([url], *clear(are_different=True))
    (answers,) = converse("ours", url, read_all())
    assert failures(answers) == []
    listed = answers[0][1]["resource_providers"]
    assert [each["name"] for each in listed] == [""] * 3
    assert all(each["root_provider_uuid"] == each["uuid"] for each in listed)


#: what a script deletes, each with the rows that the database does not let it leave behind
DELETIONS = {
    "trait": [
        sa.delete(tables.resource_provider_traits),
        sa.delete(tables.traits).where(tables.traits.c.name == "CUSTOM_TRAIT_A"),
    ],
    "consumer type": [
        sa.update(tables.consumers).values(consumer_type_id=None),
        sa.delete(tables.consumer_types),
    ],
    "aggregate": [sa.delete(tables.placement_aggregates)],
    "class": [sa.delete(tables.resource_classes).where(tables.resource_classes.c.name == "CUSTOM_CLASS_A")],
    "provider": [
        sa.delete(tables.resource_providers).where(
            tables.resource_providers.c.uuid == exchange.make_uuid("A", "child")
        )
    ],
    "users": [sa.delete(tables.users)],
    "projects": [sa.delete(tables.projects)],
    "inventories": [sa.delete(tables.inventories)],
}


def test_rows_that_a_script_deletes_fail_no_request(database_url):
    """Every read of a server that runs is answered, and the consumers give back what they hold."""
    server = Ours(database_url, others_write=True)
    assert not [answer for each in exchange.write("A") if (answer := server.send(each)).status >= 400]
    for deleted, statements in DELETIONS.items():
        edit([database_url], *statements)
        for request in read_all():
            assert server.send(request).status < 500, (deleted, request)
    one, two = (exchange.make_uuid("A", name) for name in ("one", "two"))
    ended = ask("PUT", f"/allocations/{one}", claim(None, {}, generation=2))
    assert server.send(ended).status == 204
    ended = ask("POST", "/allocations", {two: claim(None, {}, generation=1)})
    assert server.send(ended).status == 204
    assert read_held(database_url) == [[], []]
    server.close()
