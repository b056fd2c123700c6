# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the migrations: a cloud of nova on each kind of database, and an empty placement."""

import contextlib
import io
import json
import signal
from dataclasses import dataclass

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.migrate import runner
from osc_placement.migrate.main import main
from tests.functional import servers
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import Cloud
from tests.functional.migrate.placement import SIZES, clear, provide

BACKENDS = ("sqlite", "mariadb")


def pytest_generate_tests(metafunc):
    """Run a test on the kinds of database in its mark ``nova_on`` or that of its file, or else on all.

    A test that has them in its own parameters is left alone.
    """
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "nova_databases" in metafunc.fixturenames and not any("nova_databases" in names for names in named):
        mark = metafunc.definition.get_closest_marker("nova_on")
        metafunc.parametrize("nova_databases", mark.args if mark else BACKENDS, indirect=True)


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def kept_databases():
    """Those on MariaDB, which are made at their first use."""
    kept = nova.Kept()
    yield kept
    kept.close()


@pytest.fixture
def nova_databases(request, kept_databases, tmp_path):
    """The empty databases of a cloud with two cells, of the kind that the test is run on."""
    make = {"sqlite": nova.copy_files, "mariadb": kept_databases.lent}[request.param]
    with make(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def reshaping_url(tmp_path_factory):
    """The URL of a server that lets administrators reshape; by default only services may, as nova is one."""
    directory = tmp_path_factory.mktemp("placement")
    (directory / "policy.yaml").write_text('"placement:reshaper:reshape": "rule:admin_or_service_api"\n')
    environment = servers.make_environment(OS_OSLO_POLICY__POLICY_FILE=str(directory / "policy.yaml"))
    with servers.running(directory, environment=environment) as server:
        yield server.url


@pytest.fixture
def cloud(nova_databases):
    """A cloud without hosts."""
    return Cloud(nova_databases.urls)


@pytest.fixture
def client(server_url):
    """What makes the state of a test, and looks what became of it; placement is empty when a test begins."""
    client = PlacementClient(Session(auth=Token(server_url, "admin")))
    clear(client)
    return client


@pytest.fixture
def nova_conf(nova_databases, server_url, tmp_path):
    """The nova.conf of the cloud."""
    return nova_databases.configure(tmp_path, server_url)


@pytest.fixture
def migrate(client, nova_conf, tmp_path, monkeypatch):
    """Run `placement-migrate`, in this process to be quick; its journals are of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), kept_signals():
            status = main(["--config-file", str(nova_conf), *arguments])
        return Result(status, out.getvalue(), err.getvalue())

    return run


@contextlib.contextmanager
def kept_signals():
    """Give the signals that a command takes back to pytest."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def migrate_json(migrate):
    """Run `placement-migrate` for its document; returns that and the exit status."""

    def run(*arguments):
        done = migrate(*arguments, "-f", "json")
        assert done.stderr == ""
        return json.loads(done.stdout), done.returncode

    return run


@pytest.fixture
def add_host(cloud, client):
    """A function that adds a host to nova and its provider to placement; returns the UUID of its node."""

    def add(host, cell="cell1", inventories=SIZES, nodes=None, **columns):
        uuids = cloud.add_host(host, cell, nodes=nodes, **columns)
        provide(client, [(name, uuid, inventories, (), ()) for name, uuid in uuids.items()])
        return next(iter(uuids.values()))

    return add


@pytest.fixture
def meanwhile(monkeypatch):
    """A function that has something happen after everything was looked at, and before it is written."""

    def happen(action):
        carry_out = runner.carry_out

        def act_first(*arguments):
            action()
            return carry_out(*arguments)

        monkeypatch.setattr(runner, "carry_out", act_first)

    return happen
