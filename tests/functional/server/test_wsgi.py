# SPDX-License-Identifier: Apache-2.0
"""`osc_placement.server.wsgi:application` in a container: gunicorn, importing before or after it forks."""

import contextlib
import os
import subprocess
import sys

import pytest
import requests

from tests.functional import containers


def write_conf(directory, *lines):
    """Write a placement.conf into a directory."""
    (directory / "placement.conf").write_text("\n".join(lines))


@contextlib.contextmanager
def serving(directory, *arguments):
    """A container that serves the application as configured in a directory; its URL."""
    with containers.serving(directory, *arguments) as (url, _):
        yield url


@pytest.mark.parametrize("arguments", [(), ("--preload",), ("--worker-class", "gthread", "--threads", "4")])
def test_application_serves_in_a_wsgi_container(tmp_path, database_url, arguments):
    """Workers that import the application, or inherit it, answer from a database that one of them made."""
    write_conf(
        tmp_path,
        "[placement_database]",
        f"connection = {database_url}",
        "sync_on_startup = True",
        "[api]",
        "auth_strategy = noauth2",
    )
    with serving(tmp_path, *arguments) as url:
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.20"}
        for number in range(20):
            # a connection each, so that both workers get some
            created = requests.post(f"{url}/resource_providers", json={"name": f"h{number}"}, headers=headers)
            assert created.status_code == 200
        found = requests.get(f"{url}/resource_providers", headers=headers).json()
    assert len(found["resource_providers"]) == 20
    assert "Traceback" not in (tmp_path / "container.log").read_text()


def test_requests_are_logged_as_configured(tmp_path):
    """The log options of placement.conf are used."""
    write_conf(
        tmp_path,
        "[DEFAULT]",
        f"log_file = {tmp_path}/placement.log",
        "[placement_database]",
        f"connection = sqlite:///{tmp_path}/placement.db",
        "sync_on_startup = True",
        "[api]",
        "auth_strategy = noauth2",
    )
    with serving(tmp_path) as url:
        assert requests.get(f"{url}/traits").status_code == 401
    assert '"GET /traits" status: 401' in (tmp_path / "placement.log").read_text()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["[api]", "auth_strategy = noauth2"], "value required for option connection in group"),
        (["[placement_database]", "connection = sqlite://", "max_retries = many"], "max_retries"),
    ],
)
def test_import_fails_with_an_invalid_configuration(tmp_path, lines, message):
    """A configuration that cannot be worked with is found when the application is imported."""
    write_conf(tmp_path, *lines)
    environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(tmp_path)}
    command = [sys.executable, "-c", "import osc_placement.server.wsgi"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("container", ["gunicorn", "uwsgi"])
def test_container_does_not_start_with_a_policy_that_cannot_be_read(tmp_path, container):
    write_conf(
        tmp_path, "[placement_database]", "connection = sqlite://", "[oslo_policy]", "policy_file = p.yaml"
    )
    (tmp_path / "p.yaml").write_text("'placement:usages': 'role:reader")
    # gunicorn listens before its workers import the application, uWSGI ends before it listens
    with (
        contextlib.suppress(AssertionError),
        containers.serving(tmp_path, container=container) as (_, process),
    ):
        assert process.wait(timeout=60) != 0
    assert "The policy, p.yaml, cannot be read: " in (tmp_path / "container.log").read_text()


def test_import_fails_with_an_unusable_metrics_directory(tmp_path):
    """It is found when the application is imported, and not by each request."""
    write_conf(tmp_path, "[placement_database]", "connection = sqlite://")
    (tmp_path / "file").touch()
    shared = str(tmp_path / "file" / "metrics")
    environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(tmp_path), "PROMETHEUS_MULTIPROC_DIR": shared}
    command = [sys.executable, "-c", "import osc_placement.server.wsgi"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    line = f"PROMETHEUS_MULTIPROC_DIR is {shared}, which cannot be made: Not a directory"
    assert done.stderr.splitlines()[-1].endswith(line)
