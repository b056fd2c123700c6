# SPDX-License-Identifier: Apache-2.0
"""Where the service is mounted is decided by its operator, under each way of serving."""

import contextlib
import pathlib

import pytest
import requests

from tests.functional import containers, servers

ETC = pathlib.Path(__file__).parents[3] / "etc"


@pytest.fixture(params=["serve", "gunicorn", "uwsgi"])
def url(request, tmp_path):
    """The URL of the service, which listens at the root of an address."""
    conf = tmp_path / "placement.conf"
    conf.write_text(
        f"[placement_database]\nconnection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    with contextlib.ExitStack() as stack:
        if request.param == "serve":
            yield stack.enter_context(servers.running(tmp_path, "--config-file", conf)).url
            return
        arguments = ()
        if request.param == "gunicorn":
            place = f"OS_PLACEMENT_CONFIG_DIR={tmp_path}"
            arguments = ("--config", ETC / "gunicorn.conf.py", "--env", place)
        serving = containers.serving(tmp_path, *arguments, container=request.param)
        yield stack.enter_context(serving)[0]


def test_mount_headers_of_clients_are_ignored(url):
    """Whether the path begins with it or not, it is a header like others that the service does not know."""
    standard = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    created = requests.post(f"{url}/resource_providers", json={"name": "h"}, headers=standard, timeout=30)
    paths = ("/", "/traits?name=startswith:HW_CPU_X86_A", f"/resource_providers/{created.json()['uuid']}")
    for path in paths:
        plain = requests.get(url + path, headers=standard, timeout=30)
        assert plain.status_code == 200
        for value in ("/elsewhere", "/", "/resource_providers", "resource_providers", "x" * 1000, "%2f"):
            for name in ("SCRIPT_NAME", "PATH_INFO", "Script-Name"):
                answer = requests.get(url + path, headers={**standard, name: value}, timeout=30)
                assert (answer.status_code, answer.json()) == (200, plain.json()), (path, name, value)
