# SPDX-License-Identifier: Apache-2.0
"""Pods of openstack-helm's chart of placement, rendered by Helm's library, in containers.

What kubelet does for a pod is done for its only container: volumes of secrets, config maps and empty
directories, the account, and a read-only root directory. Init containers, which only wait, are left out. The
image is made as its publisher describes it: a virtual environment at ``/var/lib/openstack``, and the account
42424.
"""

import base64
import contextlib
import json
import shutil
import subprocess

import requests
import yaml

from benchmarks import environments
from benchmarks.processes import find_free_port
from tests.functional.conformance import images
from tests.functional.conformance.distributions import REFERENCE
from tests.functional.keystone import cloud

PINS = ("helm-python-sdk==0.2.2",)
VENV = "/var/lib/openstack"
PACKAGES = ("PyMySQL", "cryptography", "python-memcached", environments.UWSGI)
UID = 42424
VARIABLES = {"PATH": f"{VENV}/bin:{images.SYSTEM_PATH}"}
CHART, LIBRARY = "placement", "helm-toolkit"
RENDER = """
import json, sys
from helm_python.chart import Chart

with Chart.load(sys.argv[1]) as chart:
    json.dump(chart.render(json.load(sys.stdin), name="placement", namespace="openstack"), sys.stdout)
"""


class NoChart(Exception):
    """There is no chart of placement in the directory; the text names it."""


class Deployment:
    """The pods of a chart, with an image of their own.

    :ivar name: the name of the deployment tool
    """

    name = "openstack-helm"

    def __init__(self, base, directory, distributions, chart):
        """Make the image, with openstack-placement.

        :param chart: a directory with openstack-helm, or with its charts ``placement`` and ``helm-toolkit``
        :raises environments.NotInstallable: Helm's library cannot be installed
        :raises images.Failed: a command of the image fails
        """
        self._python = environments.make("helm", PINS) / "python"
        self._chart = chart
        self._directory = directory
        self._distributions = distributions
        self._documents = {}
        layer = directory / "base"
        layer.mkdir()
        commands = [
            f"groupadd --gid {UID} placement && useradd -m --uid {UID} --gid {UID} placement",
            f"python3 -m venv {VENV}",
            distributions.install(VENV, *PACKAGES, environments.PINS[0]),
            "mkdir -p /etc/placement",
        ]
        self._image = base.extend(layer, commands, mounts=[distributions.mount])

    def install(self, name, instead_of):
        """Install a placement after the other was uninstalled."""
        requirement = environments.PINS[0] if name == REFERENCE else f"{name}[mysql]"
        commands = [
            f"{VENV}/bin/pip uninstall --quiet --yes {instead_of}",
            self._distributions.install(VENV, requirement),
        ]
        layer = self._directory / f"layer-{len(self._image.layers)}"
        layer.mkdir()
        self._image = self._image.extend(layer, commands, mounts=[self._distributions.mount])

    def configure(self, database, keystone_url, memcached_port):
        """Render the chart.

        :param database: a `sqlalchemy.URL`
        :raises images.Failed: the chart cannot be rendered
        """
        # as "helm dependency build" does
        copy = self._directory / "chart"
        shutil.copytree(self._chart / CHART, copy)
        shutil.copytree(self._chart / LIBRARY, copy / "charts" / LIBRARY, dirs_exist_ok=True)
        keystone_port = int(keystone_url.rpartition(":")[2])
        values = make_values(database, keystone_port, memcached_port, find_free_port(), find_free_port())
        done = subprocess.run(
            [self._python, "-c", RENDER, copy],
            input=json.dumps(values),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise images.Failed(f"the chart cannot be rendered: {done.stderr.strip()}")
        for text in json.loads(done.stdout).values():
            for document in yaml.safe_load_all(text):
                if document:
                    self._documents[document["kind"], document["metadata"]["name"]] = document

    def synchronize(self):
        """Run the pod of the job that makes and upgrades the tables; what it wrote.

        :raises images.Failed: it does not end with status 0
        """
        pod = self._find_pod("Job", "placement-db-sync")
        return self._image.run(find_command(pod), self._make_options(pod, "db-sync"))

    @contextlib.contextmanager
    def serving(self, log):
        """Run the pod of the service; its URL, and the container."""
        pod = self._find_pod("Deployment", "placement-api")
        (port,) = pod["containers"][0]["ports"]
        options = self._make_options(pod, "api")
        with self._image.running(find_command(pod), options, log) as container:
            yield f"http://127.0.0.1:{port['containerPort']}", container

    def check(self, container):
        """Ask what the probes of the pod ask; the status of each.

        :raises images.Failed: an answer is not 200
        """
        pod = self._find_pod("Deployment", "placement-api")["containers"][0]
        lines = []
        for name in ("readinessProbe", "livenessProbe"):
            target = pod[name]["httpGet"]
            answer = requests.get(f"http://127.0.0.1:{target['port']}{target['path']}", timeout=30)
            if answer.status_code != 200:
                raise images.Failed(f"{name}: {answer.status_code}")
            lines.append(f"{name}: {answer.status_code}")
        return lines

    def read_logs(self):
        """Return nothing: the service writes to the output of the container."""
        return {}

    def _find_pod(self, kind, name):
        return self._documents[kind, name]["spec"]["template"]["spec"]

    def _make_options(self, pod, name):
        """Return how the container of a pod is run, with the files of its volumes in a new directory."""
        directory = self._directory / f"volumes-{name}"
        shutil.rmtree(directory, ignore_errors=True)
        sources = {}
        for volume in pod["volumes"]:
            files = self._read_volume(volume)
            if files is not None:
                sources[volume["name"]] = write_files(directory / volume["name"], *files)
        (container,) = pod["containers"]
        context = {**(pod.get("securityContext") or {}), **(container.get("securityContext") or {})}
        return images.Options(
            VARIABLES,
            tuple(make_mounts(container["volumeMounts"], sources)),
            user=context.get("runAsUser", ""),
            read_only=context.get("readOnlyRootFilesystem", False),
            no_new_privileges=not context.get("allowPrivilegeEscalation", True),
        )

    def _read_volume(self, volume):
        """Return the files of a volume and their mode; none for an empty directory."""
        if "secret" in volume:
            secret = volume["secret"]
            return self._read_secret(secret["secretName"]), secret.get("defaultMode", 0o644)
        if "configMap" in volume:
            config = volume["configMap"]
            data = self._documents["ConfigMap", config["name"]]["data"]
            files = {name: text.encode() for name, text in data.items()}
            return files, config.get("defaultMode", 0o644)
        if "projected" in volume:
            files = {}
            for source in volume["projected"]["sources"]:
                files.update(self._read_secret(source["secret"]["name"]))
            return files, 0o644
        return None

    def _read_secret(self, name):
        data = self._documents["Secret", name]["data"]
        return {file: base64.b64decode(text) for file, text in data.items()}


def require(chart):
    """Raise `NoChart` unless a directory has the charts."""
    for name in (CHART, LIBRARY):
        if not (chart / name / "Chart.yaml").exists():
            raise NoChart(f"{chart} has no {name}/Chart.yaml: name a clone of openstack-helm")


def make_values(database, keystone_port, memcached_port, port, stats_port):
    """Return the values of the chart for services on loopback."""
    # Kubernetes resolves the names of services; the name is asked for where the host is an address
    here = {"hosts": {"default": "127.0.0.1", "internal": "127.0.0.1"}, "service": {"name": "loopback"}}
    credentials = {"username": database.username, "password": database.password or ""}
    domains = {"user_domain_name": "Default", "project_domain_name": "Default", "password": cloud.PASSWORD}
    return {
        "endpoints": {
            "oslo_db": {
                **here,
                "path": f"/{database.database}",
                "port": {"mysql": {"default": database.port or 3306}},
                "auth": {"placement": credentials},
            },
            "identity": {
                **here,
                "port": {"api": {"default": keystone_port, "internal": keystone_port}},
                "auth": {"placement": domains},
            },
            "oslo_cache": {**here, "port": {"memcache": {"default": memcached_port}}},
            "placement": {"port": {"api": {"service": port}}},
        },
        # the default is every address of the pod, which here are those of this machine
        "conf": {
            "placement_api_uwsgi": {
                "uwsgi": {"http-socket": f"127.0.0.1:{port}", "stats": f"127.0.0.1:{stats_port}"}
            }
        },
        "pod": {"probes": {"placement": {"api": {"liveness": {"port": stats_port}}}}},
    }


def find_command(pod):
    """Return the command of the container of a pod."""
    (container,) = pod["containers"]
    return [*container["command"], *container.get("args", [])]


def make_mounts(mounts, sources):
    """Return the mounts of a container, of which those without a source are empty directories."""
    for mount in mounts:
        source = sources.get(mount["name"])
        if source and "subPath" in mount:
            source = source / mount["subPath"]
        yield images.Mount(mount["mountPath"].rstrip("/"), source, mount.get("readOnly", False))


def write_files(directory, files, mode):
    """Write the files of a volume; their directory."""
    directory.mkdir(parents=True)
    for name, content in files.items():
        path = directory / name
        path.write_bytes(content)
        path.chmod(mode)
    return directory
