# SPDX-License-Identifier: Apache-2.0
"""The whole way with a real Keystone: `openstack --os-cloud`, a token, its validation, the policy."""

import contextlib
import json
import subprocess
import time
import uuid

import pytest
import requests

from benchmarks import environments
from tests import databases
from tests.functional import containers, forking, servers
from tests.functional.keystone import cloud
from tests.functional.server import test_shadow as shadows


@pytest.fixture(scope="module")
def binaries():
    """Where Keystone is installed."""
    try:
        return cloud.install()
    except (environments.NotInstallable, subprocess.CalledProcessError) as error:
        databases.skip_or_fail(f"Keystone cannot be installed: {error}")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Where Keystone keeps its state."""
    return tmp_path_factory.mktemp("keystone")


@pytest.fixture(scope="module")
def keystone(binaries, directory):
    """A running Keystone."""
    port = cloud.find_free_port()
    with cloud.serving(binaries, cloud.bootstrap(binaries, directory, port), port) as running:
        cloud.populate(running)
        yield running


@pytest.fixture(scope="module")
def expired_token(binaries, directory, keystone):
    """A token of the running Keystone that has expired."""
    with cloud.serving_short_lived(binaries, directory) as hasty:
        token = hasty.issue_token("service")
    time.sleep(2)
    return token


@contextlib.contextmanager
def _serving(directory, keystone, **policy):
    conf = directory / "placement.conf"
    cloud.write_placement_conf(conf, keystone, **policy)
    with servers.running(directory, "--config-file", conf, "--workers", 1) as server:
        yield server


@pytest.fixture(scope="module", params=[True, False], ids=["new defaults", "old defaults too"])
def server(request, keystone, tmp_path_factory):
    """Our server, that asks this Keystone, with either setting of enforce_new_defaults."""
    directory = tmp_path_factory.mktemp("placement")
    with _serving(directory, keystone, enforce_new_defaults=request.param) as server:
        server.enforces_new_defaults = request.param
        yield server


def send(server, method, path, *, token=None, version="1.39", **arguments):
    """Send a request to our server."""
    headers = {"openstack-api-version": f"placement {version}"}
    if token is not None:
        headers["x-auth-token"] = token
    return requests.request(method, f"{server.url}{path}", headers=headers, timeout=60, **arguments)


def test_root_needs_no_token(server):
    """The range of versions is there for everybody."""
    assert send(server, "GET", "/").json()["versions"][0]["max_version"] == "1.39"


@pytest.mark.parametrize("token", [None, "", "no-token-at-all"], ids=["missing", "empty", "bogus"])
def test_missing_or_invalid_token_is_401_naming_keystone(server, keystone, token):
    """Who has no token, or none that is one, learns where to get it."""
    answer = send(server, "GET", "/resource_providers", token=token)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == f'Keystone uri="{keystone.url}"'
    assert answer.headers["x-openstack-request-id"].startswith("req-")


def test_a_revoked_token_is_refused(server, keystone):
    """What was good is not any more."""
    token = keystone.issue_token("service")
    assert send(server, "GET", "/resource_providers", token=token).status_code == 200
    keystone.call("DELETE", "/auth/tokens", **{"x-subject-token": token})
    answer = send(server, "GET", "/resource_providers", token=token)
    assert (answer.status_code, "www-authenticate" in answer.headers) == (401, True)


def test_an_expired_token_is_refused(server, expired_token):
    """A token that is past its time is none."""
    assert send(server, "GET", "/resource_providers", token=expired_token).status_code == 401


#: what users may do: list providers, make one, reshape, see the usages of blue, and of green
MAY = {
    "admin": (True, True, None, True, True),
    "service": (True, True, True, True, True),
    "member": (False, False, False, True, False),
    "reader": (False, False, False, True, False),
}


@pytest.mark.parametrize("user", MAY)
def test_policy_decides_by_role_and_project(server, keystone, user):
    """Who may do what is told by the policy; the usages of a project, by the token's project too."""
    blue, green = (keystone.find_id("projects", name) for name in cloud.PROJECTS)
    token = keystone.issue_token(user, "admin" if user == "admin" else "blue")
    reshape = {"inventories": {}, "allocations": {}}
    answers = [
        send(server, "GET", "/resource_providers", token=token),
        send(server, "POST", "/resource_providers", token=token, json={"name": str(uuid.uuid4())}),
        send(server, "POST", "/reshaper", token=token, json=reshape),
        send(server, "GET", f"/usages?project_id={blue}", token=token),
        send(server, "GET", f"/usages?project_id={green}", token=token),
    ]
    # an administrator may reshape by the old defaults only
    wanted = [not server.enforces_new_defaults if may is None else may for may in MAY[user]]
    assert [answer.status_code != 403 for answer in answers] == wanted
    for answer in answers:
        if answer.status_code == 403:
            (error,) = answer.json()["errors"]
            assert (error["title"], error["code"]) == ("Forbidden", "placement.undefined_code")
            assert "Policy does not allow placement:" in error["detail"]


def openstack(tmp_path, *arguments):
    """Run the command with the clouds.yaml of a directory."""
    environment = servers.make_environment(
        HOME=str(tmp_path), OS_CLIENT_CONFIG_FILE=str(tmp_path / "clouds.yaml")
    )
    return forking.run("openstack", *arguments, cwd=tmp_path, env=environment)


def test_openstack_command_finds_the_endpoint_in_the_catalog(keystone, server, tmp_path):
    """`openstack --os-cloud` gets a token, the endpoint, and an answer; or is told that it may not."""
    made = cloud.register(keystone, server.url)
    try:
        cloud.write_clouds_yaml(tmp_path / "clouds.yaml", keystone, "service", "blue")
        line = (
            "--os-cloud",
            "service",
            "resource",
            "provider",
            "create",
            f"host-{uuid.uuid4()}",
            "-f",
            "json",
        )
        done = openstack(tmp_path, *line)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["name"] == line[-3]

        cloud.write_clouds_yaml(tmp_path / "clouds.yaml", keystone, "reader", "blue")
        done = openstack(tmp_path, "--os-cloud", "reader", "resource", "provider", "list")
        assert (done.returncode, done.stdout) == (1, "")
        assert "Policy does not allow placement:resource_providers:list to be performed" in done.stderr

        cloud.write_clouds_yaml(tmp_path / "clouds.yaml", keystone, "service", "green")
        done = openstack(tmp_path, "--os-cloud", "service", "resource", "provider", "list")
        assert done.returncode == 1
        assert "401" in done.stderr
    finally:
        keystone.call("DELETE", f"/services/{made}")


@contextlib.contextmanager
def _serving_reference(directory):
    """openstack-placement, as the placement.conf of a directory says; its URL."""
    databases.require_reference()
    port = cloud.find_free_port()
    line = ["--bind", f"127.0.0.1:{port}", "--workers", "1", "placement.wsgi.api:application"]
    environment = servers.make_environment(OS_PLACEMENT_CONFIG_DIR=str(directory))
    with containers.running([containers.GUNICORN, *line], directory, environment, port):
        url = f"http://127.0.0.1:{port}"
        # the first request makes the tables, which a shadow does not
        assert requests.get(url, timeout=60).status_code == 200
        yield url


@pytest.fixture(scope="module")
def reference(keystone, tmp_path_factory):
    """openstack-placement that asks this Keystone, and the file that configures it."""
    directory = tmp_path_factory.mktemp("reference")
    conf = directory / "placement.conf"
    cloud.write_placement_conf(conf, keystone, enforce_new_defaults=True)
    with _serving_reference(directory) as url:
        yield url, conf


def test_shadow_passes_tokens_on_and_our_side_validates_them_too(reference, keystone, tmp_path):
    """Whoever may not, who has no token, or one that is revoked, gets one answer from both sides."""
    url, conf = reference
    tokens = {user: keystone.issue_token(user) for user in cloud.ROLES}
    revoked = keystone.issue_token("service")
    keystone.call("DELETE", "/auth/tokens", **{"x-subject-token": revoked})
    with shadows.compared(tmp_path, url, None, conf=conf) as (shadow, wait):
        made = send(shadow, "POST", "/resource_providers", token=tokens["service"], json={"name": "host"})
        assert made.status_code == 200
        for token, status in (
            (tokens["service"], 200),
            (tokens["reader"], 403),
            (None, 401),
            (revoked, 401),
        ):
            answer = send(shadow, "GET", "/resource_providers", token=token)
            assert answer.status_code == status
        assert answer.headers["www-authenticate"] == f'Keystone uri="{keystone.url}"'
        wait('{method="GET",result="equal",route="/resource_providers",version="1.39"} 2.0')
        wait('{method="GET",result="equal",route="/resource_providers",version=""} 2.0')
        report = shadows.read_report(shadow)
    assert (report["different"], report["notes"]) == (0, [])


def test_shadow_reports_what_our_rules_decide_otherwise_without_a_token(reference, keystone, tmp_path):
    """Our side has the roles of the token from Keystone; neither the report nor the log has the token."""
    url, conf = reference
    policy = tmp_path / "policy.yaml"
    policy.write_text('"placement:resource_providers:list": "role:reader or role:service"\n')
    ours = tmp_path / "ours.conf"
    ours.write_text(f"{conf.read_text()}policy_file = {policy}\n")
    tokens = {user: keystone.issue_token(user) for user in ("service", "reader")}
    with shadows.compared(tmp_path, url, None, "--verbose", conf=ours) as (shadow, wait):
        for user, token in tokens.items():
            answer = send(shadow, "GET", "/resource_providers", token=token)
            assert answer.status_code == (200 if user == "service" else 403)
        wait('result="equal",route="/resource_providers"')
        wait('result="different",route="/resource_providers"')
        shadows.read_report(shadow)
    text = shadow.report.read_text()
    (entry,) = json.loads(text)["differences"]
    statuses = [entry[side]["status"] for side in ("upstream", "ours")]
    assert statuses == [403, 200]
    for token in tokens.values():
        assert token not in text
        assert token not in shadow.log.read_text()
