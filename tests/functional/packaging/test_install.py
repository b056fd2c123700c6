# SPDX-License-Identifier: Apache-2.0
"""The wheel beside what one extra asks for, and nothing else.

Each test has a directory of what pip would install: the distributions that the wheel's metadata name, those
that they name, and so on, as links to those of this environment. The interpreter sees no other.
"""

import importlib.metadata
import json
import re
import zipfile

import pytest

from tests.functional.packaging.installing import Installed, find_all


@pytest.fixture
def install(built, tmp_path):
    """A function that installs the wheel with extras."""

    def install_(*extras):
        directory = tmp_path / "installed"
        with zipfile.ZipFile(built[0]) as wheel:
            wheel.extractall(directory)
        (metadata,) = directory.glob("osc_placement-*.dist-info")
        installed = Installed(directory)
        for distribution in find_all(importlib.metadata.PathDistribution(metadata).metadata, extras):
            installed.link(distribution)
        return installed

    return install_


def test_plain_install_runs_plugin_commands(install, server_url):
    """Commands reach a server; a command that needs an extra says which, in one line."""
    installed = install()
    variables = {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": server_url, "OS_TOKEN": "admin"}

    def openstack(*words):
        arguments = ("resource", "provider", *words)
        done = installed.call("openstackclient.shell", *arguments, **variables)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    created = json.loads(openstack("create", "plainly-installed", "-f", "json"))
    found = openstack("list", "--name", "plainly-installed", "-f", "value", "-c", "uuid")
    assert found == f"{created['uuid']}\n"
    assert "plainly-installed" in openstack("tree")
    openstack("delete", created["uuid"])
    listed = installed.run(
        "from importlib.util import find_spec as f; print(f('sqlalchemy'), f('oslo_policy'), f('webob'))"
    )
    assert listed.stdout == "None None None\n"


@pytest.mark.parametrize(
    ("program", "module", "action", "extra"),
    [
        ("placement-server", "osc_placement.server.main", "serve", "server"),
        ("placement-migrate", "osc_placement.migrate.entry", "status", "migrate"),
    ],
)
def test_command_without_its_extra_names_the_extra(install, program, module, action, extra):
    """One line, and no traceback."""
    done = install().call(module, action)
    assert (done.returncode, done.stdout) == (1, "")
    line = rf"{program}: \w+ is not installed: run pip install 'osc-placement\[{extra}\]'\n"
    assert re.fullmatch(line, done.stderr), done.stderr


SERVE = """
from osc_placement.server.testing import direct
with direct() as client:
    assert client.get("/-/readyz").json() == {"status": "ready"}
    assert client.get("/-/metrics").status_code == 200
    answer = client.get("/resource_providers")
    assert answer.json() == {"resource_providers": []}
from osc_placement.server.api import auth
from osc_placement.server.process import serve
import keystonemiddleware.auth_token
"""


def test_extra_server_suffices_to_serve(install):
    """Tables, samples and the application, on SQLite."""
    installed = install("server")
    main = "osc_placement.server.main"
    done = installed.call(main, "db", "sync", "--database", "sqlite:///p.db")
    assert (done.returncode, done.stderr) == (0, "")
    for kind, text in (("config", "[placement_database]"), ("policy", "placement:reshaper:reshape")):
        assert text in installed.call(main, kind, "sample").stdout
    done = installed.run(SERVE)
    assert (done.returncode, done.stderr) == (0, "")


def test_extra_migrate_suffices_to_migrate(install):
    """It has every command, and gets as far as asking for nova's database."""
    installed = install("migrate")
    main = "osc_placement.migrate.entry"
    assert installed.call(main, "--help").returncode == 0
    done = installed.call(main, "status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("placement-migrate: There is no nova.conf in the usual places")
    where = ("--placement-endpoint", "http://127.0.0.1:1", "--placement-token", "x")
    done = installed.call(main, "--nova-api-db", "sqlite:///nova.db", *where, "aggregates", "--dry-run")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("extra", "module"),
    [("mysql", "pymysql"), ("postgresql", "psycopg2"), ("notifications", "oslo_messaging")],
)
def test_small_extras_install_their_library(install, extra, module):
    """A driver, or a library that is loaded when it is needed; without the extra it is not there."""
    assert install(extra).run(f"import {module}").returncode == 0


def test_plain_install_has_no_library_of_an_extra(install):
    """The tests above can fail."""
    installed = install()
    assert installed.run("import pymysql").returncode != 0
    assert "ModuleNotFoundError" in installed.run("import sqlalchemy").stderr
