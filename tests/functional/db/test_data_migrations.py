# SPDX-License-Identifier: Apache-2.0
"""`placement-server db` and `status`, beside placement-manage and placement-status on the same rows."""

import json
import uuid

import pytest
import sqlalchemy as sa

from osc_placement.server.db import tables, upgrade
from osc_placement.server.db.engine import Database
from tests import databases
from tests.functional import forking

#: the commands of the reference, and ours, to which the arguments of theirs are added
THEIRS = {"db": ("placement-manage",), "upgrade": ("placement-status",)}
OURS = {"db": ("placement-server",), "upgrade": ("placement-server", "status")}

OLD_PROVIDERS = 3
OLD_CONSUMERS = 4


def run(commands, conf, *arguments):
    """Run a command with a placement.conf; exit status and standard output, with our name for the command."""
    command = commands[arguments[0]]
    if commands is THEIRS:
        databases.require_reference()
    config = ["--config-file", str(conf)]
    # oslo.config wants its own options first
    line = [*config, *arguments] if commands is THEIRS else [*arguments, *config]
    done = forking.run(*command, *line)
    return done.returncode, done.stdout.replace("placement-manage", "placement-server")


def write_conf(directory, url, *lines):
    """Write a placement.conf for a database."""
    path = directory / f"placement-{uuid.uuid4().hex[:8]}.conf"
    path.write_text("\n".join(["[placement_database]", f"connection = {url}", *lines]))
    return path


def make_old_rows(url):
    """Make rows as releases wrote them that knew neither trees nor consumers."""
    database = Database(url)
    upgrade.upgrade(database)
    database.write(_insert_old_rows)
    database.dispose()


def _insert_old_rows(conn):
    for number in range(1, OLD_PROVIDERS + 2):
        # the last one is new, and has a root
        root = number if number > OLD_PROVIDERS else None
        row = {
            "id": number,
            "uuid": str(uuid.UUID(int=number)),
            "name": f"host{number}",
            "root_provider_id": root,
        }
        conn.execute(sa.insert(tables.resource_providers).values(row))
    for number in range(OLD_CONSUMERS):
        consumer = str(uuid.UUID(int=1000 + number))
        for resource_class in (0, 1):
            row = {"resource_provider_id": 1, "consumer_id": consumer, "resource_class_id": resource_class}
            conn.execute(sa.insert(tables.allocations).values(used=1, **row))


def read_rows(url):
    """What the repairs change: the roots, and the consumers with their owners and generations."""
    database = Database(url)
    try:
        return database.read(_read_rows)
    finally:
        database.dispose()


def _read_rows(conn):
    providers, consumers = tables.resource_providers.c, tables.consumers.c
    roots = sa.select(providers.id, providers.root_provider_id).order_by(providers.id)
    owners = (
        sa.select(
            consumers.uuid, tables.projects.c.external_id, tables.users.c.external_id, consumers.generation
        )
        .join(tables.projects, tables.projects.c.id == consumers.project_id)
        .join(tables.users, tables.users.c.id == consumers.user_id)
        .order_by(consumers.uuid)
    )
    return [tuple(row) for query in (roots, owners) for row in conn.execute(query)]


@pytest.fixture
def twins(make_database):
    """Two databases of a kind with the same old rows."""
    urls = make_database(), make_database()
    for url in urls:
        make_old_rows(url)
    return urls


@pytest.fixture
def sqlite_twins(tmp_path):
    """The same on SQLite only, where the kind of database makes no difference."""
    urls = tuple(f"sqlite:///{tmp_path}/{name}.db" for name in ("theirs", "ours"))
    for url in urls:
        make_old_rows(url)
    return urls


def compare(twins, tmp_path, *arguments):
    """Run the same command of the reference's and of ours, each on its database; what ours said."""
    theirs, ours = (write_conf(tmp_path, url) for url in twins)
    said = run(OURS, ours, *arguments)
    assert said == run(THEIRS, theirs, *arguments)
    assert read_rows(twins[1]) == read_rows(twins[0])
    return said


def test_repairs_equal_the_reference(twins, tmp_path):
    """Both repair the same rows, say the same, and end with the same status, from the check to the check."""
    assert compare(twins, tmp_path, "upgrade", "check")[0] == 2
    status, said = compare(twins, tmp_path, "db", "online_data_migrations")
    assert status == 0
    assert f"{OLD_CONSUMERS} rows matched query create_incomplete_consumers" in said
    assert compare(twins, tmp_path, "upgrade", "check")[0] == 0
    assert compare(twins, tmp_path, "db", "online_data_migrations")[0] == 0
    nobody = "00000000-0000-0000-0000-000000000000"
    assert read_rows(twins[1]) == [
        *((number, number) for number in range(1, OLD_PROVIDERS + 2)),
        *((str(uuid.UUID(int=1000 + number)), nobody, nobody, 0) for number in range(OLD_CONSUMERS)),
    ]


def test_count_limits_the_repairs(sqlite_twins, tmp_path):
    """With --max-count both repair so many rows in all, and end with 1 as long as there are any."""
    counts = []
    for _ in range(5):
        counts.append(compare(sqlite_twins, tmp_path, "db", "online_data_migrations", "--max-count", "2")[0])
    assert counts == [1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("roots", "count"),
    [
        ((None,) * 6, ()),
        ((1, 2, None, 1, None, 5), ()),
        ((None, 3, 3, None, None, 2), ("--max-count", "1")),
    ],
    ids=("none", "some", "wrong"),
)
def test_repair_gives_a_tree_its_root(database_url, tmp_path, roots, count):
    """Each provider gets the one at the top of its tree, which openstack-placement does with roots only.

    With wrong roots, openstack-placement has repaired a part of the tree before, or a move was lost.
    """
    # the first is the root of the others but for the last two, which a script put below each other
    parents = (None, 1, 2, 2, 6, 5)
    database = Database(database_url)
    upgrade.upgrade(database)

    def insert(conn):
        for id_ in range(1, 7):
            row = {"id": id_, "uuid": str(uuid.UUID(int=id_)), "name": f"host{id_}"}
            conn.execute(sa.insert(tables.resource_providers).values(row))
        for id_, (parent, root) in enumerate(zip(parents, roots, strict=True), 1):
            place = {"parent_provider_id": parent, "root_provider_id": root}
            statement = sa.update(tables.resource_providers).values(place)
            conn.execute(statement.where(tables.resource_providers.c.id == id_))

    database.write(insert)
    database.dispose()
    conf = write_conf(tmp_path, database_url)
    for _ in range(10):
        status, _ = run(OURS, conf, "db", "online_data_migrations", *count)
        if status == 0:
            break
    assert status == 0
    assert read_rows(database_url) == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 5), (6, 5)]


def test_check_warns_of_consumers(sqlite_twins, tmp_path):
    """Allocations without a consumer are a warning: status 1."""
    for url in sqlite_twins:
        database = Database(url)
        providers = tables.resource_providers
        database.write(
            lambda conn, table=providers: conn.execute(sa.update(table).values(root_provider_id=table.c.id))
        )
        database.dispose()
    status, said = compare(sqlite_twins, tmp_path, "upgrade", "check")
    assert status == 1
    assert f"There are {OLD_CONSUMERS} incomplete consumers" in said


@pytest.fixture
def conf(tmp_path):
    """A placement.conf with a database on SQLite."""
    url = f"sqlite:///{tmp_path}/placement.db"
    path = write_conf(tmp_path, url)
    run(OURS, path, "db", "sync")
    return path


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_bad_count_is_refused(conf, count):
    """A count that is not a positive number ends with 127, as with placement-manage."""
    arguments = ("db", "online_data_migrations", f"--max-count={count}")
    assert run(OURS, conf, *arguments) == run(THEIRS, conf, *arguments)
    assert run(OURS, conf, *arguments) == (127, "Must supply a positive value for max_count\n")


def test_configured_owner_is_used(tmp_path):
    """The consumers that are made belong to the project and user of the configuration."""
    url = f"sqlite:///{tmp_path}/placement.db"
    make_old_rows(url)
    lines = ("[placement]", "incomplete_consumer_project_id = p", "incomplete_consumer_user_id = u")
    run(OURS, write_conf(tmp_path, url, *lines), "db", "online_data_migrations")
    owners = {row[1:3] for row in read_rows(url) if len(row) == 4}
    assert owners == {("p", "u")}


def test_failing_repair_does_not_stop_the_others(tmp_path):
    """A repair that fails is named, the other one is made, and at the end the status is 2."""
    url = f"sqlite:///{tmp_path}/placement.db"
    make_old_rows(url)
    database = Database(url)
    database.write(lambda conn: tables.consumers.drop(conn))
    database.dispose()
    status, said = run(OURS, write_conf(tmp_path, url), "db", "online_data_migrations")
    assert status == 2
    assert f"{OLD_PROVIDERS} rows matched query set_root_provider_ids, {OLD_PROVIDERS} migrated" in said
    assert "Error attempting to run create_incomplete_consumers: " in said
    assert said.endswith("Some migrations failed unexpectedly. Check log for details.\n")


def test_json_policy_file_fails_the_check(conf, tmp_path):
    """A policy file in JSON is a failure, in the words of placement-status."""
    (tmp_path / "policy.yaml").write_text('{"placement:traits:list": ""}')
    said = run(OURS, conf, "upgrade", "check")
    assert said == run(THEIRS, conf, "upgrade", "check")
    assert said[0] == 2


def test_empty_policy_file_passes_the_check(conf, tmp_path):
    """That of openstack-helm, which placement-status takes for JSON."""
    (tmp_path / "policy.yaml").write_text("{}\n")
    assert run(OURS, conf, "upgrade", "check")[0] == 0


def test_check_as_json(conf):
    """--json has the same results for programs."""
    status, said = run(OURS, conf, "upgrade", "check", "--json")
    assert status == 0
    assert json.loads(said)["name"] == "Upgrade Check Results"
    assert [check["result"] for check in json.loads(said)["checks"]] == [0, 0, 0]


def test_check_without_a_database_ends_with_255(tmp_path):
    """Status 255 tells that there was no check from the results of one."""
    conf = write_conf(tmp_path, f"sqlite:///{tmp_path}/nothing.db")
    assert run(OURS, conf, "upgrade", "check") == (255, "")
    assert not (tmp_path / "nothing.db").exists()


def test_version_is_printed(conf, tmp_path):
    """`db version` prints the revision, or None where there is none, as placement-manage does."""
    assert run(OURS, conf, "db", "version") == run(THEIRS, conf, "db", "version") == (0, f"{upgrade.HEAD}\n")
    empty = write_conf(tmp_path, f"sqlite:///{tmp_path}/empty.db")
    (tmp_path / "empty.db").touch()
    assert run(OURS, empty, "db", "version") == run(THEIRS, empty, "db", "version") == (0, "None\n")


def test_stamp_records_a_version(conf):
    """`db stamp` records a revision, which placement-manage then sees; one that is none is refused."""
    assert run(OURS, conf, "db", "stamp", "b5c396305c25") == (0, "")
    assert run(THEIRS, conf, "db", "version") == (0, "b5c396305c25\n")
    assert run(OURS, conf, "db", "stamp", "nonsense") == (1, "")
    assert run(THEIRS, conf, "db", "version") == (0, "b5c396305c25\n")


@pytest.mark.parametrize("action", ["sync", "version"])
def test_database_must_be_named(tmp_path, action):
    """Without a database the command says how to name one, and makes none."""
    done = forking.run("placement-server", "db", action, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("placement-server: No database is named: say --database URL")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
