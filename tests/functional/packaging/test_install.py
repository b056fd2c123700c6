# SPDX-License-Identifier: Apache-2.0
"""The wheel in environments that have what one extra asks for, and nothing else."""

import configparser
import json
import subprocess
import sys

import pytest

from tests import databases, environments
from tests.functional import servers
from tests.functional.packaging.conftest import ROOT

CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")


def list_requirements(*extras):
    """What an install with extras asks for."""
    sections = [CONFIG["options"]["install_requires"]]
    sections += [CONFIG["options.extras_require"][extra] for extra in extras]
    return sorted({line for section in sections for line in section.split("\n") if line})


@pytest.fixture
def install(built, tmp_path):
    """A function that installs the wheel beside the dependencies of extras; where their programs are."""

    def install_(*extras):
        name = "-".join(("installed", *extras))
        try:
            programs = environments.make(
                name, list_requirements(*extras), constraints=ROOT / "constraints.txt"
            )
        except environments.NotInstallable as error:
            databases.skip_or_fail(f"the dependencies cannot be installed: {error}")
        # not into the environment, which is kept for the next time
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", tmp_path / "wheel"]
        subprocess.run([*pip, built[0]], check=True, capture_output=True)
        return programs

    return install_


@pytest.fixture
def run(tmp_path):
    """A function that runs a command with the wheel installed; what came of it."""

    def run_(command, **variables):
        environment = servers.make_environment(
            PYTHONPATH=str(tmp_path / "wheel"), HOME=str(tmp_path), **variables
        )
        return subprocess.run(
            [str(part) for part in command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run_


def call(python, module):
    """A command that runs a console script of ours by its module."""
    return [python, "-c", f"import sys; from {module} import main; sys.exit(main())"]


def test_the_plain_install_is_a_working_plugin(install, run, server_url):
    """Commands reach a server; what needs an extra says which, in one line."""
    programs = install()
    variables = {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": server_url, "OS_TOKEN": "admin"}
    openstack = [programs / "openstack", "resource", "provider"]
    done = run([*openstack, "create", "plainly-installed", "-f", "json"], **variables)
    assert (done.returncode, done.stderr) == (0, "")
    created = json.loads(done.stdout)
    done = run([*openstack, "list", "--name", "plainly-installed", "-f", "value", "-c", "uuid"], **variables)
    assert (done.stdout, done.stderr) == (f"{created['uuid']}\n", "")
    assert run([*openstack, "tree"], **variables).returncode == 0
    assert run([*openstack, "delete", created["uuid"]], **variables).returncode == 0
    for module, name, extra in (
        ("osc_placement.server.main", "placement-server", "server"),
        ("osc_placement.migrate.entry", "placement-migrate", "migrate"),
    ):
        action = ["serve"] if extra == "server" else ["status"]
        done = run([*call(programs / "python", module), *action])
        assert (done.returncode, done.stdout) == (1, "")
        line = rf"{name}: \w+ is not installed: run pip install 'osc-placement[{extra}]'"
        assert done.stderr.startswith(f"{name}: ")
        assert done.stderr.endswith(line.partition(r"\w+")[2] + "\n")
        assert done.stderr.count("\n") == 1


def test_the_extra_server_is_enough_to_serve(install, run):
    """Tables, samples and the application, on SQLite."""
    programs = install("server")
    main = call(programs / "python", "osc_placement.server.main")
    assert run([*main, "db", "sync", "--database", "sqlite:///p.db"]).returncode == 0
    assert "[placement_database]" in run([*main, "config", "sample"]).stdout
    code = """
from osc_placement.server.testing import direct
with direct() as client:
    assert client.get("/-/readyz").json() == {"status": "ready"}
    assert client.get("/-/metrics").status_code == 200
    assert client.get("/traits").status_code in (200, 404)
"""
    done = run([programs / "python", "-W", "ignore", "-c", code])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_extra_migrate_is_enough_to_migrate(install, run):
    """It gets as far as asking for nova's configuration, and offers every command."""
    programs = install("migrate")
    main = call(programs / "python", "osc_placement.migrate.entry")
    assert run([*main, "--help"]).returncode == 0
    done = run([*main, "status"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("placement-migrate: There is no nova.conf in the usual places")
    done = run(
        [
            *main,
            "--nova-api-db",
            "sqlite:///nova.db",
            "--placement-endpoint",
            "http://127.0.0.1:1",
            "--placement-token",
            "x",
            "aggregates",
            "--dry-run",
        ]
    )
    assert "Traceback" not in done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("extra", "module"),
    [("mysql", "pymysql"), ("postgresql", "psycopg2"), ("notifications", "oslo_messaging")],
)
def test_the_small_extras_bring_what_they_are_for(extra, module):
    """A driver or a library that is loaded when it is needed."""
    try:
        programs = environments.make(
            f"extra-{extra}",
            [line for line in CONFIG["options.extras_require"][extra].split("\n") if line],
            constraints=ROOT / "constraints.txt",
        )
    except environments.NotInstallable as error:
        databases.skip_or_fail(f"the extra cannot be installed: {error}")
    code = f"import {module}"
    subprocess.run([programs / "python", "-W", "ignore", "-c", code], check=True)
