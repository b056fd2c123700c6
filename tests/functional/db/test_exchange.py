# SPDX-License-Identifier: Apache-2.0
"""The two servers take turns on one database: each finds what the other left, and goes on from there."""

import json
import uuid

import pytest
import sqlalchemy as sa

from osc_placement.server.shadow.exchange import Request
from tests import databases
from tests.functional import forking

SERVERS = ("reference", "ours")
HEADERS = {
    "x-auth-token": "admin",
    "x-roles": "admin,service",
    "openstack-api-version": "placement 1.39",
    "content-type": "application/json",
}


def ask(method, path, body=None, query="", **headers):
    """A request of an administrator at the newest microversion."""
    return Request(method, path, query, HEADERS | headers, b"" if body is None else json.dumps(body).encode())


def make_uuid(turn, name):
    """The UUID of something in one turn."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{turn}/{name}"))


def claim(provider, amounts, *, generation=None, kind="INSTANCE"):
    """What one consumer is to hold."""
    return {
        "allocations": {provider: {"resources": amounts}} if amounts else {},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": kind,
    }


def write(turn):
    """A tree with all that a provider can have, claims on it, and a few changes of mind."""
    root, child, other, one, two = (
        make_uuid(turn, name) for name in ("root", "child", "other", "one", "two")
    )
    aggregate = make_uuid(turn, "aggregate")
    trait, resource_class = f"CUSTOM_TRAIT_{turn}", f"CUSTOM_CLASS_{turn}"
    inventories = {"VCPU": {"total": 16, "reserved": 2, "allocation_ratio": 4.0}, "DISK_GB": {"total": 100}}
    path = f"/resource_providers/{root}"
    yield ask("PUT", f"/traits/{trait}")
    yield ask("PUT", f"/resource_classes/{resource_class}")
    for provider, parent in ((root, None), (child, root), (other, None)):
        body = {"uuid": provider, "name": f"{turn}-{provider[:8]}-é", "parent_provider_uuid": parent}
        yield ask("POST", "/resource_providers", body)
    yield ask("PUT", f"{path}/inventories", {"resource_provider_generation": 0, "inventories": inventories})
    for provider in (child, other):
        body = {"resource_class": resource_class, "total": 8}
        yield ask("POST", f"/resource_providers/{provider}/inventories", body)
    traits = {"resource_provider_generation": 1, "traits": [trait, "HW_CPU_X86_AVX2"]}
    yield ask("PUT", f"{path}/traits", traits)
    aggregates = {"resource_provider_generation": 2, "aggregates": [aggregate]}
    yield ask("PUT", f"{path}/aggregates", aggregates)
    yield ask("PUT", f"/allocations/{one}", claim(root, {"VCPU": 2, "DISK_GB": 5}))
    yield ask("POST", "/allocations", {two: claim(child, {resource_class: 3}, kind=f"TYPE_{turn}")})
    yield ask("PUT", f"/resource_providers/{child}", {"name": f"{turn}-moved", "parent_provider_uuid": other})
    yield ask("PUT", f"{path}/inventories/VCPU", {"resource_provider_generation": 4, "total": 32})
    moved = {"inventories": {"VCPU": {"total": 32}}, "resource_provider_generation": 5}
    taken = {"inventories": {resource_class: {"total": 8}}, "resource_provider_generation": 1}
    taken["inventories"]["DISK_GB"] = {"total": 100}
    reshaped = claim(root, {"VCPU": 2}, generation=1)
    reshaped["allocations"][other] = {"resources": {"DISK_GB": 5}}
    body = {"inventories": {root: moved, other: taken}, "allocations": {one: reshaped}}
    yield ask("POST", "/reshaper", body)


def change(turn):
    """What one does with what another left behind: claims more, gives back, takes apart."""
    root, child, one, two = (make_uuid(turn, name) for name in ("root", "child", "one", "two"))
    yield ask("PUT", f"/allocations/{one}", claim(root, {"VCPU": 4}, generation=2))
    yield ask("DELETE", f"/allocations/{two}")
    yield ask("DELETE", f"/resource_providers/{child}/inventories")
    yield ask("DELETE", f"/resource_providers/{child}")
    yield ask("DELETE", f"/resource_providers/{root}/traits")
    yield ask("DELETE", f"/traits/CUSTOM_TRAIT_{turn}")


def read(turns):
    """All there is to see."""
    yield ask("GET", "/resource_providers")
    yield ask("GET", "/resource_classes")
    yield ask("GET", "/traits", query="name=startswith:CUSTOM_")
    # from 1.38 on the reference answers 500 on PostgreSQL
    yield ask("GET", "/usages", query="project_id=project", **{"openstack-api-version": "placement 1.37"})
    yield ask("GET", "/allocation_candidates", query="resources=VCPU:1")
    yield ask(
        "GET", "/allocation_candidates", query="resources=VCPU:1&resources_d=DISK_GB:1&group_policy=none"
    )
    for turn in turns:
        yield ask("GET", "/allocation_candidates", query=f"resources=CUSTOM_CLASS_{turn}:1")
        for name in ("root", "child", "other"):
            provider = make_uuid(turn, name)
            for rest in ("", "/inventories", "/usages", "/aggregates", "/traits", "/allocations"):
                yield ask("GET", f"/resource_providers/{provider}{rest}")
        for name in ("one", "two"):
            yield ask("GET", f"/allocations/{make_uuid(turn, name)}")


def converse(server, url, *conversations):
    """Have a server on the database answer conversations; a list of [status, body] for each."""
    asked = [list(conversation) for conversation in conversations]
    lines = "".join(f"{request.to_json()}\n" for requests in asked for request in requests)
    done = forking.run("tests.functional.db.resident:main", server, url, text=lines)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = iter(done.stdout.splitlines())
    return [[json.loads(next(answers)) for _ in requests] for requests in asked]


def describe_schema(url):
    """The tables of openstack-placement, as the database has them; ours beside them do not count."""
    engine = sa.create_engine(url)
    inspector = sa.inspect(engine)
    tables = sorted(name for name in inspector.get_table_names() if not name.startswith("oscp_"))
    with engine.connect() as connection:
        revision = connection.scalars(sa.text("SELECT version_num FROM alembic_version")).all()
    described = {
        name: [
            [{**column, "type": str(column["type"])} for column in inspector.get_columns(name)],
            inspector.get_pk_constraint(name),
            sorted(inspector.get_foreign_keys(name), key=str),
            sorted(inspector.get_unique_constraints(name), key=str),
            sorted(inspector.get_indexes(name), key=str),
        ]
        for name in tables
    }
    engine.dispose()
    return revision, described


def failures(answers):
    """The answers that are not of success."""
    return [answer for answer in answers if not 200 <= answer[0] < 300]


@pytest.mark.parametrize("first", SERVERS)
def test_both_servers_read_what_the_other_wrote(database_url, first):
    """What one wrote the other reads alike, changes, and gives back; the tables stay as they were made."""
    databases.require_reference()
    (second,) = {*SERVERS} - {first}

    wrote, before = converse(first, database_url, write("A"), read("A"))
    assert failures(wrote) == []
    made = describe_schema(database_url)

    found, wrote, changed, left = converse(
        second, database_url, read("A"), write("B"), change("A"), read("AB")
    )
    assert found == before
    assert failures(wrote + changed) == []
    assert describe_schema(database_url) == made

    again, changed, wrote, after = converse(
        first, database_url, read("AB"), change("B"), write("C"), read("ABC")
    )
    assert again == left
    assert failures(changed + wrote) == []
    assert describe_schema(database_url) == made
    assert converse(second, database_url, read("ABC")) == [after]
