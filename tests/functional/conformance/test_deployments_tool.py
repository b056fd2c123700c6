# SPDX-License-Identifier: Apache-2.0
"""`tools/conformance deployments`: what needs neither root nor a deployment tool.

The long form, which runs the scripts of the tools, is the command itself.
"""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest
import sqlalchemy as sa

from osc_placement.server.shadow.exchange import Answer, Request
from tests import databases
from tests.functional.conformance import __main__ as tool
from tests.functional.conformance import deployments, images, kolla, openstack_helm
from tests.functional.conformance.distributions import OURS, REFERENCE

DATABASE = sa.make_url("mysql+pymysql://user:secret@127.0.0.1:3307/placement")


def test_without_root_nothing_is_run(monkeypatch, capsys):
    """One line says what is needed, and the status is 2."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert tool.main(["deployments"]) == 2
    line = "tools/conformance: containers are made of namespaces and overlayfs here, which needs root\n"
    assert capsys.readouterr().err == line


def test_missing_program_is_named(monkeypatch, capsys):
    """As many distributions have no debootstrap."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, path: None if name == "debootstrap" else name)
    assert tool.main(["deployments"]) == 2
    assert capsys.readouterr().err == "tools/conformance: not installed: debootstrap\n"


def test_directory_without_charts_is_refused(monkeypatch, capsys, tmp_path):
    """Before anything is made."""
    monkeypatch.setattr(images, "require", lambda: None)
    monkeypatch.setattr(images, "make_base", lambda mirror: pytest.fail("made"))
    assert tool.main(["deployments", "--openstack-helm", str(tmp_path)]) == 2
    line = f"tools/conformance: {tmp_path} has no placement/Chart.yaml: name a clone of openstack-helm\n"
    assert capsys.readouterr().err == line


def test_scripts_of_kolla_get_the_names_and_modes_of_its_dockerfiles(tmp_path):
    """Lines that copy to other places are left out."""
    text = (
        "COPY curlrc /root/.curlrc\n"
        "COPY start.sh /usr/local/bin/kolla_start\n"
        "    COPY in_a_block /usr/local/bin/other\n"
        "COPY check_one check_two /usr/local/bin/\n"
        "COPY sudoers /etc/sudoers\n"
    )
    for name in kolla.DOCKERFILES:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "Dockerfile.j2").write_text("")
    for name in ("curlrc", "start.sh", "check_one", "check_two", "sudoers"):
        (tmp_path / "base" / name).write_text(name)
    (tmp_path / "base" / "Dockerfile.j2").write_text(text)
    last = tmp_path / kolla.DOCKERFILES[-1]
    (last / "Dockerfile.j2").write_text("COPY extend_start.sh /usr/local/bin/kolla_placement_extend_start\n")
    (last / "extend_start.sh").write_text("last")
    kolla.copy_scripts(tmp_path, tmp_path / "layer")
    found = {
        str(path.relative_to(tmp_path / "layer")): (path.read_text(), path.stat().st_mode & 0o777)
        for path in (tmp_path / "layer").rglob("*")
        if path.is_file()
    }
    assert found == {
        "usr/local/bin/kolla_start": ("start.sh", 0o755),
        "usr/local/bin/check_one": ("check_one", 0o755),
        "usr/local/bin/check_two": ("check_two", 0o755),
        "usr/local/bin/kolla_placement_extend_start": ("last", 0o644),
        "etc/sudoers": ("sudoers", 0o440),
    }


def test_validation_is_compared_without_times_and_warnings_of_python():
    """What remains is the status and what is said of the configuration."""
    errors = (
        "/venv/lib/x.py:3: DeprecationWarning: old\n"
        "WARNING:root:cache/backend is not part of the sample\n"
        "ERROR:root:cache/enabled is not part of the sample\n"
    )
    done = subprocess.CompletedProcess([], 1, "", errors)
    assert kolla.describe_validation(done) == [
        "exit status 1",
        "cache/backend is not part of the sample",
        "cache/enabled is not part of the sample",
    ]


def make_deployment(tmp_path, documents):
    """A deployment of charts that have been rendered."""
    deployment = openstack_helm.Deployment.__new__(openstack_helm.Deployment)
    deployment._directory, deployment._documents = tmp_path, documents
    return deployment


def test_pod_is_run_as_kubelet_does(tmp_path):
    """Account, read-only root, and files of secrets and config maps, with their modes."""
    text = base64.b64encode(b"[DEFAULT]").decode()
    documents = {
        ("Secret", "etc"): {"data": {"placement.conf": text}},
        ("Secret", "more"): {"data": {"keystone.conf": text}},
        ("ConfigMap", "bin"): {"data": {"db-sync.sh": "true"}},
    }
    container = {
        "command": ["uwsgi"],
        "args": ["--ini", "file"],
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "bin", "mountPath": "/tmp/sync.sh", "subPath": "db-sync.sh", "readOnly": True},
            {"name": "etc", "mountPath": "/etc/placement.conf", "subPath": "placement.conf"},
            {"name": "snippets", "mountPath": "/etc/placement.conf.d/", "readOnly": True},
        ],
    }
    pod = {
        "containers": [container],
        "securityContext": {"runAsUser": 42424},
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "bin", "configMap": {"name": "bin", "defaultMode": 0o555}},
            {"name": "etc", "secret": {"secretName": "etc", "defaultMode": 0o444}},
            {"name": "snippets", "projected": {"sources": [{"secret": {"name": "more"}}]}},
        ],
    }
    options = make_deployment(tmp_path, documents)._make_options(pod, "api")
    assert openstack_helm.find_command(pod) == ["uwsgi", "--ini", "file"]
    assert (options.user, options.read_only, options.no_new_privileges) == (42424, True, True)
    volumes = tmp_path / "volumes-api"
    assert options.mounts == (
        images.Mount("/tmp"),
        images.Mount("/tmp/sync.sh", volumes / "bin" / "db-sync.sh", read_only=True),
        images.Mount("/etc/placement.conf", volumes / "etc" / "placement.conf"),
        images.Mount("/etc/placement.conf.d", volumes / "snippets", read_only=True),
    )
    assert (volumes / "snippets" / "keystone.conf").read_text() == "[DEFAULT]"
    assert [options.mounts[i].source.stat().st_mode & 0o777 for i in (1, 2)] == [0o555, 0o444]


def test_values_name_services_on_loopback():
    """The database with its account, and no port on other addresses."""
    values = openstack_helm.make_values(DATABASE, 5001, 11212, 8779, 1718)
    endpoint = values["endpoints"]["oslo_db"]
    assert (endpoint["path"], endpoint["port"]) == ("/placement", {"mysql": {"default": 3307}})
    assert endpoint["auth"] == {"placement": {"username": "user", "password": "secret"}}
    assert "0.0.0.0" not in json.dumps(values)


class FakeDeployment:
    """A deployment that only notes what is asked of it."""

    name = "fake"

    def __init__(self, checks=("ok", "ok", "ok")):
        self.calls = []
        self.package = REFERENCE
        self._checks = list(checks)

    def install(self, name, instead_of):
        assert instead_of == self.package
        self.calls.append(f"install {name}")
        self.package = name

    def synchronize(self):
        self.calls.append("synchronize")
        return ""

    @contextlib.contextmanager
    def serving(self, log):
        self.calls.append("serve")
        log.touch()
        yield "http://fake", self

    def is_running(self):
        return True

    def check(self, container):
        return [self._checks.pop(0)]

    def read_logs(self):
        return {}


@pytest.fixture
def answers(monkeypatch):
    """What a service answers: of each package, all reads; claims are counted."""
    found = {REFERENCE: b"[]", OURS: b"[]"}
    monkeypatch.setattr(deployments, "fill", lambda asker: None)
    monkeypatch.setattr(deployments, "claim", lambda asker, number: None)
    return found


class FakeAsker:
    """A client whose answers depend on the package that is installed."""

    def __init__(self, deployment, answers):
        self._deployment, self._answers, self.url = deployment, answers, None

    def send(self, method, path, *, token=True, version=deployments.VERSION):
        if path == "/resource_providers":
            body = b'{"resource_providers": []}'
        else:
            body = self._answers[self._deployment.package]
        return Request(method, path), Answer(200, {"content-type": "application/json"}, body)

    def is_ours(self):
        return self._deployment.package == OURS


def test_package_is_exchanged_and_exchanged_back(answers, tmp_path, capsys):
    """The tables are synchronized before each start."""
    deployment = FakeDeployment()
    deployments.take_over_and_give_back(deployment, FakeAsker(deployment, answers), tmp_path)
    start = ["synchronize", "serve"]
    assert deployment.calls == [*start, f"install {OURS}", *start, f"install {REFERENCE}", *start]
    assert capsys.readouterr().out.count("answers equal") == 2


def test_different_answer_fails_and_is_named(answers, tmp_path):
    """With the path and both sides."""
    answers[OURS] = b'["other"]'
    deployment = FakeDeployment()
    with pytest.raises(images.Failed, match=r"GET /traits at \n.*body: \[\]\n.*other"):
        deployments.take_over_and_give_back(deployment, FakeAsker(deployment, answers), tmp_path)


def test_different_check_of_the_tool_fails(answers, tmp_path):
    """Such as its validation of the configuration."""
    deployment = FakeDeployment(checks=("exit status 0", "exit status 1"))
    with pytest.raises(images.Failed, match=r"checks differ: .*exit status 0.*exit status 1"):
        deployments.take_over_and_give_back(deployment, FakeAsker(deployment, answers), tmp_path)


def require_containers():
    """Skip or fail the test if containers cannot be made here; debootstrap is not needed."""
    try:
        images.require(programs=("mount", "nsenter", "unshare", "setpriv"))
    except images.NotPossible as error:
        databases.skip_or_fail(str(error))


def make_image():
    """The root directory of this machine as an image."""
    return images.Image((pathlib.Path("/"),))


def test_container_has_account_variables_mounts_and_a_layer_of_its_own(tmp_path):
    """Of what it writes, only the layer that is built remains."""
    require_containers()
    (tmp_path / "file").write_text("mounted")
    layer = tmp_path / "layer"
    layer.mkdir()
    image = make_image().extend(layer, ["mkdir /made && echo built > /made/file"])
    assert (layer / "made" / "file").read_text() == "built\n"
    options = images.Options(
        {"NAME": "value"},
        (images.Mount("/made/mounted", tmp_path / "file", read_only=True), images.Mount("/made/empty")),
        user=42424,
        read_only=True,
    )
    script = "id -u; echo $NAME $$; cat /made/file /made/mounted; touch /made/empty/x && touch /made/y"
    with pytest.raises(images.Failed) as caught:
        image.run(["sh", "-c", script], options)
    lines = str(caught.value).splitlines()
    assert lines[:3] == ["exit status 1: 42424", "value 1", "built"]
    assert "Read-only file system" in lines[-1]
    assert not (layer / "made" / "empty" / "x").exists()


def test_container_that_does_not_end_when_told_fails(tmp_path, monkeypatch):
    """And is killed; one that ends is not mentioned, and commands can be run beside it."""
    require_containers()
    monkeypatch.setattr(images, "GRACE", 1)
    log = tmp_path / "log"
    image = make_image()
    for handler, fails in (("exit 0", False), ("", True)):
        log.write_text("")
        command = ["sh", "-c", f"trap '{handler}' TERM; echo 1; sleep 60 & wait"]
        with contextlib.ExitStack() as stack:
            if fails:
                stack.enter_context(pytest.raises(images.Failed, match="did not end in 1 seconds"))
            # ``unshare`` cannot end a process of another account
            container = stack.enter_context(image.running(command, images.Options(user=42424), log))
            while not log.read_text():
                assert container.is_running()
            done = container.execute(
                ["sh", "-c", "ls -d /proc/[0-9]* | head -1; echo $NAME"], images.Options({"NAME": "x"})
            )
            assert done.stdout == "/proc/1\nx\n"
            first = container.first
        assert not container.is_running()
        assert not pathlib.Path(f"/proc/{first}").exists()
