# SPDX-License-Identifier: Apache-2.0
"""Who may do what; what must be in no log and no answer; what must not become SQL."""

import ast
import contextlib
import logging
import pathlib
import subprocess

import pytest
import sqlalchemy as sa
import webob
import yaml

import osc_placement.server
from osc_placement.server import deploy
from tests import databases
from tests.functional import servers
from tests.functional.server.test_wsgi import serving, write_conf
from tests.reliability import authorization, scale
from tests.reliability.clients import Client, make_provider

GENERATIONS = {"legacy defaults": False, "new defaults": True}
PASSWORD = "s3cret-of-the-database"


@pytest.fixture(scope="module")
def expected():
    """The table that is checked in."""
    return yaml.safe_load(authorization.TABLE.read_text())


def test_policy_defaults_equal_the_expected_table(expected):
    """A rule that lets somebody else in does not come about by accident."""
    assert authorization.describe() == expected


def test_every_operation_has_a_policy_rule():
    """None is forgotten, and none is governed that does not exist."""
    assert set(authorization.find_rules()) == set(authorization.list_operations())


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_role_is_admitted_exactly_as_the_table_says(expected, generation, tmp_path):
    """Every operation is asked for in every role and scope."""
    answers = authorization.as_application_answers(
        new_defaults=GENERATIONS[generation], connection=f"sqlite:///{tmp_path}/placement.db"
    )
    assert answers == expected[generation]


def test_without_a_token_only_public_paths_are_answered(tmp_path):
    """Every other operation of every path answers 401 before it looks at anything else."""
    conf = authorization.make_configuration(
        new_defaults=True, connection=f"sqlite:///{tmp_path}/placement.db"
    )
    application = deploy.loadapp(conf)
    for operation in authorization.list_operations():
        method, _, path = operation.partition(" ")
        request = webob.Request.blank(path.format_map(authorization.VALUES), method=method)
        assert request.get_response(application).status_int == 401, operation
    assert authorization.list_public_paths() == ["/", "/-/healthz", "/-/readyz"]
    for path in authorization.list_public_paths():
        assert webob.Request.blank(path).get_response(application).status_int == 200, path


def wrong_url(backend):
    """The URL of a database server with a password that is not the right one."""
    url = databases.find_server(backend)
    return url.set(username="nobody_knows", password=PASSWORD, database="placement")


@pytest.mark.parametrize("backend", ["mariadb", "postgresql"])
@pytest.mark.parametrize("verbosity", [(), ("--verbose",)], ids=("quiet", "verbose"))
def test_server_that_cannot_log_in_hides_the_password(backend, verbosity, tmp_path):
    """Neither in the line that it ends with nor in the log, however much it logs."""
    if backend not in scale.databases(databases.BACKENDS):
        pytest.skip("another kind of database was asked for")
    url = wrong_url(backend).render_as_string(hide_password=False)
    done = subprocess.run(
        [servers.PROGRAM, "serve", "--port", "0", "--database", url, *verbosity],
        cwd=tmp_path,
        env=servers.make_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=servers.PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr
    assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize("backend", ["mariadb", "postgresql"])
def test_wsgi_container_that_cannot_log_in_hides_the_password(backend, tmp_path):
    """It answers 503; neither answer nor log has the password or the URL, at level DEBUG with all options."""
    if backend not in scale.databases(databases.BACKENDS):
        pytest.skip("another kind of database was asked for")
    url = wrong_url(backend).render_as_string(hide_password=False)
    write_conf(
        tmp_path,
        f"[DEFAULT]\ndebug = true\nlog_options = true\n[placement_database]\nconnection = {url}\n",
        "[api]\nauth_strategy = noauth2\n",
    )
    with serving(tmp_path) as address, contextlib.closing(Client(address)) as client:
        answer = client.send("GET", "/resource_providers")
        assert answer.status == 503
        assert "nobody_knows" not in str(answer.body)
    log = (tmp_path / "container.log").read_text()
    assert "placement_database.connection" in log
    assert PASSWORD not in log


def test_tokens_and_the_password_of_the_service_are_not_logged(tmp_path, caplog):
    """Not while keystone is asked about a token, at level DEBUG, though it cannot be reached."""
    conf = authorization.make_configuration(
        new_defaults=True, connection=f"sqlite:///{tmp_path}/placement.db"
    )
    conf.set_override("auth_strategy", "keystone", group="api")
    config = tmp_path / "placement.conf"
    config.write_text(
        "[keystone_authtoken]\nwww_authenticate_uri = http://127.0.0.1:1\nauth_url = http://127.0.0.1:1\n"
        "auth_type = password\nusername = placement\nproject_name = service\nuser_domain_id = default\n"
        f"project_domain_id = default\npassword = {PASSWORD}\nhttp_request_max_retries = 0\n"
    )
    conf([], default_config_files=[str(config)], default_config_dirs=[])
    caplog.set_level(logging.DEBUG)
    application = deploy.loadapp(conf)
    token = "gAAAAABtokenThatNobodyElseMaySee"
    request = webob.Request.blank("/resource_providers", headers={"X-Auth-Token": token})
    response = request.get_response(application)
    assert response.status_int in (401, 503)
    assert caplog.records
    for text in (caplog.text, response.text):
        assert token not in text
        assert PASSWORD not in text


def test_unexpected_error_shows_only_a_request_id(tmp_path, make_database_of):
    """A column that is gone: the answer has a request id, and no statement, path or traceback."""
    database = make_database_of("postgresql")
    with (
        servers.launched(tmp_path, "--database", database) as server,
        contextlib.closing(Client(server.url)) as client,
    ):
        subject = make_provider(client, 1)
        databases.execute(sa.make_url(database), "ALTER TABLE inventories DROP COLUMN step_size")
        answer = client.send("GET", f"/resource_providers/{subject}/inventories")
        assert answer.status == 500
        detail = answer.body["errors"][0]
        assert detail["request_id"].startswith("req-")
        for inner in ("step_size", "SELECT", "Traceback", "psycopg2", ".py", "osc_placement"):
            assert inner not in str(answer.body)


@pytest.fixture
def make_database_of(tmp_path):
    """A function that makes an empty database of a kind; skips what was not asked for."""
    with contextlib.ExitStack() as made:

        def make(backend):
            if backend not in scale.databases(databases.BACKENDS):
                pytest.skip("another kind of database was asked for")
            return made.enter_context(databases.make_database(backend, tmp_path))

        yield make


#: what takes SQL as text
TAKES_SQL = {"text", "exec_driver_sql", "literal_column", "DDL", "execute", "executemany"}
SOURCES = sorted(pathlib.Path(osc_placement.server.__file__).parent.rglob("*.py"))


def is_made_up(node, names):
    """Whether an expression is text that depends on something that is not written in the source."""
    if isinstance(node, ast.Constant):
        return False
    if isinstance(node, ast.IfExp):
        return is_made_up(node.body, names) or is_made_up(node.orelse, names)
    if isinstance(node, ast.JoinedStr):
        values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return any(not is_fixed(value, names) for value in values)
    if isinstance(node, ast.BinOp):
        return not (is_fixed(node.left, names) and is_fixed(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("format", "join", "replace", "format_map") and isinstance(
            node.func.value, (ast.Constant, ast.JoinedStr)
        )
    if isinstance(node, ast.Name):
        return any(is_made_up(value, {}) for value in names.get(node.id, ()))
    return False


def is_fixed(node, names):
    """Whether an expression is text that is written in the source."""
    if isinstance(node, ast.Name):
        return bool(names.get(node.id)) and all(is_fixed(value, {}) for value in names[node.id])
    if isinstance(node, ast.IfExp):
        return is_fixed(node.body, names) and is_fixed(node.orelse, names)
    return isinstance(node, ast.Constant)


def find_made_up_sql(source):
    """The lines of a module that send SQL which is put together from values."""
    tree = ast.parse(source)
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    names.setdefault(target.id, []).append(node.value)
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in TAKES_SQL
        and is_made_up(node.args[0], names)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_values_are_bound_in_every_statement(path):
    """Values are bound; SQL in words is written in the source as it is sent."""
    assert find_made_up_sql(path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        'conn.execute(sa.text(f"DELETE FROM t WHERE name = {name}"))',
        'conn.exec_driver_sql("SELECT %s" % name)',
        'cursor.execute("SELECT " + name)',
        'cursor.execute("SELECT {}".format(name))',
        'sql = f"SELECT {name}"\ncursor.execute(sql)',
    ],
)
def test_search_for_unbound_values_finds_them(line):
    """The test above can fail."""
    assert find_made_up_sql(line)
