# SPDX-License-Identifier: Apache-2.0
"""Characters that the database, or the connection to it, cannot hold, as deployments configure them."""

import contextlib
import uuid
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from osc_placement.server import deploy, errors
from osc_placement.server.db import names, tables, upgrade
from osc_placement.server.db.consumer import Owner
from osc_placement.server.db.engine import Database
from osc_placement.server.testing import make_conf
from tests import databases
from tests.functional.api.test_bulk_write import make_sender

# fixtures of these modules are used here, too
from tests.functional.db.conftest import make_provider  # noqa: F401
from tests.functional.db.test_claim_queue import OWNER, held, make_request, queue, read_used  # noqa: F401

LATIN1 = "CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
ASCII = LATIN1.replace("LATIN1", "SQL_ASCII")
MYSQL = "CREATE DATABASE {name} CHARACTER SET "
#: kind of database, statement that creates it, query and driver of its URL
DEPLOYMENTS = {
    "utf8 of the URL": ("mariadb", f"{MYSQL}utf8mb4", {"charset": "utf8"}, None),
    "utf8mb3": ("mariadb", f"{MYSQL}utf8mb3", {}, None),
    "utf8mb3 and utf8": ("mariadb", f"{MYSQL}utf8mb3", {"charset": "utf8"}, None),
    "latin1": ("mariadb", f"{MYSQL}latin1", {}, None),
    "latin1 of the URL": ("mariadb", f"{MYSQL}utf8mb4", {"charset": "latin1"}, None),
    "LATIN1": ("postgresql", LATIN1, {}, None),
    "LATIN1, psycopg": ("postgresql", LATIN1, {}, "postgresql+psycopg"),
    "LATIN1 of the client": (
        "postgresql",
        databases.CREATE["postgresql"],
        {"client_encoding": "latin1"},
        None,
    ),
}
LETTER = "💥"
PATH = quote(LETTER)
PROVIDERS = "/resource_providers"
#: reads and their bodies where nothing is found; of a status, the body is an error
NOWHERE = {
    f"{PROVIDERS}/{PATH}": 404,
    f"{PROVIDERS}/{PATH}/allocations": 404,
    f"{PROVIDERS}/{PATH}/inventories": 404,
    f"{PROVIDERS}?name={PATH}": {"resource_providers": []},
    f"/-/providers?name={PATH}": {"providers": []},
    f"/traits/{PATH}": 404,
    f"/traits?name=in:{PATH},HW_CPU_X86_AVX": {"traits": ["HW_CPU_X86_AVX"]},
    f"/traits?name=startswith:{PATH}": {"traits": []},
    f"/resource_classes/{PATH}": 404,
    f"/allocations/{PATH}": {"allocations": {}},
    f"/usages?project_id={PATH}": {"usages": {}},
    f"/usages?project_id=p&user_id={PATH}": {"usages": {}},
}


@pytest.fixture(scope="module", params=DEPLOYMENTS)
def url(request, tmp_path_factory):
    """A database that lacks characters, or is reached by a connection that does."""
    kind, create, query, driver = DEPLOYMENTS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(databases.CREATE, kind, create)
        with databases.make_database(kind, tmp_path_factory.mktemp("characters")) as made:
            url = sa.make_url(made).update_query_dict(query)
            yield url.set(drivername=driver or url.drivername)


@contextlib.contextmanager
def opened(url):
    """A database at a URL, with its tables, and our server on it."""
    database = Database(url)
    upgrade.upgrade(database)
    conf = make_conf()
    conf.set_override("auth_strategy", "noauth2", "api")
    try:
        yield database, deploy.make_application(conf, database)
    finally:
        database.dispose()


@pytest.fixture(scope="module")
def server(url):
    """The database, and our server on it."""
    with opened(url) as (database, application):
        names.ensure(database, tables.projects, "external_id", [OWNER.project])
        names.ensure(database, tables.users, "external_id", [OWNER.user])
        yield database, application


@pytest.fixture
def database(server):
    """The database that the server is on."""
    return server[0]


@pytest.fixture
def send(server):
    """A function that sends a request of an administrator to the server."""
    return make_sender(server[1])


@pytest.fixture
def host(send):
    """A provider at generation 1, with processors."""
    uuid_ = str(uuid.uuid4())
    assert send("POST", PROVIDERS, {"uuid": uuid_, "name": uuid_}).status_int == 200
    inventory = {"resource_class": "VCPU", "total": 8}
    assert send("POST", f"{PROVIDERS}/{uuid_}/inventories", inventory).status_int == 201
    return uuid_


def test_character_that_cannot_be_stored_is_found_nowhere(send):
    """Reads answer as where it can be stored, and nothing has it in its name."""
    for path, expected in NOWHERE.items():
        answer = send("GET", path)
        found = answer.json if answer.status_int == 200 else answer.status_int
        assert found == expected, path


def test_change_of_what_cannot_be_found_is_answered_with_404(send, host):
    """Of a path with such a character, whatever the change."""
    based = {"resource_provider_generation": 1}
    for method, path, body in (
        ("DELETE", f"{PROVIDERS}/{PATH}", None),
        ("DELETE", f"{PROVIDERS}/{PATH}/inventories", None),
        ("DELETE", f"{PROVIDERS}/{host}/inventories/{PATH}", None),
        ("DELETE", f"{PROVIDERS}/{PATH}/traits", None),
        ("DELETE", f"/traits/{PATH}", None),
        ("DELETE", f"/resource_classes/{PATH}", None),
        ("DELETE", f"/allocations/{PATH}", None),
        ("PUT", f"{PROVIDERS}/{PATH}", {"name": "x"}),
        ("PUT", f"{PROVIDERS}/{PATH}/inventories", {"inventories": {}, **based}),
        ("PUT", f"{PROVIDERS}/{PATH}/traits", {"traits": [], **based}),
        ("PUT", f"{PROVIDERS}/{PATH}/aggregates", {"aggregates": [], **based}),
    ):
        assert send(method, path, body).status_int == 404, (method, path)


def make_claim(host, project="project", user="user"):
    """The body of a claim."""
    return {
        "allocations": {host: {"resources": {"VCPU": 1}}},
        "project_id": project,
        "user_id": user,
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }


def test_body_that_cannot_be_stored_is_refused(send, host):
    """With 400, and nothing is changed."""
    based = {"resource_provider_generation": 1}
    one, two = (str(uuid.uuid4()) for _ in range(2))
    for method, path, body in (
        ("POST", PROVIDERS, {"name": LETTER}),
        ("PUT", f"{PROVIDERS}/{host}", {"name": LETTER}),
        ("PUT", f"{PROVIDERS}/{host}/traits", {"traits": [LETTER], **based}),
        ("PUT", f"{PROVIDERS}/{host}/inventories", {"inventories": {LETTER: {"total": 1}}, **based}),
        ("PUT", f"/allocations/{one}", make_claim(host, project=LETTER)),
        ("PUT", f"/allocations/{one}", make_claim(host, user=LETTER)),
        ("POST", "/allocations", {one: make_claim(host), two: make_claim(host, project=LETTER)}),
    ):
        assert send(method, path, body).status_int == 400, (method, path, body)
    new = {"uuid": one, "resource_provider_generation": None, "name": LETTER}
    changes = [new, {"uuid": host, "traits": ["HW_CPU_X86_AVX"], **based}]
    refused, made = send("POST", "/-/providers", {"changes": changes}).json["results"]
    assert (refused["errors"][0]["status"], made["resource_provider_generation"]) == (400, 2)
    assert send("GET", f"{PROVIDERS}/{host}").json["name"] == host
    assert send("GET", f"{PROVIDERS}/{host}/usages").json["usages"] == {"VCPU": 0}


def test_claim_that_cannot_be_stored_fails_no_other_of_its_group(database, make_provider, held):  # noqa: F811
    """The innocent ones are carried out, and only the first is refused."""
    item = make_provider(VCPU=8)
    (poisoned,) = make_request(item)
    requests = [
        [type(poisoned)(poisoned.consumer_uuid, Owner(LETTER, OWNER.user), poisoned.resources)],
        *(make_request(item) for _ in range(3)),
    ]
    found = held.send(make_request(item), requests)
    assert [type(error) for error in found] == [errors.Unstorable, *[type(None)] * 3]
    assert read_used(database, item)[0] == 4


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
def test_sql_ascii_database_stores_every_character(tmp_path, monkeypatch, driver):
    """It does not look at characters, and the connection sends UTF-8."""
    monkeypatch.setitem(databases.CREATE, "postgresql", ASCII)
    with databases.make_database("postgresql", tmp_path) as made:
        url = sa.make_url(made).set(drivername=f"postgresql+{driver}")
        with opened(url) as (_, application):
            send = make_sender(application)
            assert send("POST", PROVIDERS, {"name": LETTER}).json["name"] == LETTER
            assert len(send("GET", f"{PROVIDERS}?name={PATH}").json["resource_providers"]) == 1


def test_tables_of_different_collations_are_named(tmp_path):
    """No value can be compared then, and the operator is told what to do."""
    with databases.make_database("mariadb", tmp_path) as url, opened(url) as (_, application):
        collate = "ALTER TABLE consumers CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
        databases.execute(sa.make_url(url), collate)
        answer = make_sender(application)("GET", "/usages?project_id=p")
    assert answer.status_int == 503
    assert "different collations: convert them to one" in answer.text
