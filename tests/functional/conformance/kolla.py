# SPDX-License-Identifier: Apache-2.0
"""The image of kolla and the configuration of kolla-ansible, made of what they publish on PyPI.

The image has the accounts, scripts and paths of kolla's Dockerfiles for Debian, of which the lines with COPY
are read and the others followed. The configuration is written by kolla-ansible's own role, with its Ansible.
What kolla-ansible does with a container engine is done here.
"""

import contextlib
import json
import re
import runpy

from benchmarks import environments
from benchmarks.processes import find_free_port
from tests.functional.conformance import images
from tests.functional.conformance.distributions import REFERENCE
from tests.functional.keystone import cloud

PINS = ("kolla==22.2.0", "kolla-ansible==22.2.0")
VENV = "/var/lib/kolla/venv"
#: of the packages of kolla's openstack-base, those that a placement service uses
PACKAGES = (
    "setuptools",
    "wheel",
    "PyMySQL",
    "cryptography",
    "osprofiler",
    "python-memcached",
    environments.UWSGI,
)
#: directories of kolla's Dockerfiles, the first image first
DOCKERFILES = ("base", "placement/placement-base", "placement/placement-api")
COPY = re.compile(r"^COPY (.+) (/usr/local/bin/\S*|/etc/sudoers)$", re.MULTILINE)
ACCOUNTS = ("kolla", "fluentd", "placement")
#: where kolla has the source of the service, and kolla-ansible's validation finds the generator's file
SOURCE = "/placement"
VALIDATE = (
    "oslo-config-validator",
    "--config-file",
    f"{SOURCE}/etc/placement/config-generator.conf",
    "--input-file",
    "/etc/placement/placement.conf",
)
VARIABLES = {
    "PATH": f"{VENV}/bin:{images.SYSTEM_PATH}",
    "KOLLA_BASE_DISTRO": "debian",
    "KOLLA_CONFIG_STRATEGY": "COPY_ALWAYS",
}
#: the variables with which kolla-ansible runs the container at a deployment, before an upgrade and after it
SYNCHRONIZATIONS = ("KOLLA_BOOTSTRAP", "KOLLA_UPGRADE", "KOLLA_OSM")
COMMAND = ("dumb-init", "--single-child", "--", "kolla_start")
GROUPS = ("placement-api", "memcached", "mariadb", "keystone", "loadbalancer")
PLAY = [{"hosts": GROUPS[0], "gather_facts": False}]
PLAY[0]["tasks"] = [{"import_role": {"name": "placement", "tasks_from": "config.yml"}}]


class Deployment:
    """kolla's image of placement-api with kolla-ansible's configuration.

    :ivar name: the name of the deployment tool
    """

    name = "kolla"

    def __init__(self, base, directory, distributions):
        """Make the image, with openstack-placement.

        :raises environments.NotInstallable: kolla or kolla-ansible cannot be installed
        :raises images.Failed: a command of the image fails
        """
        self._binaries = environments.make("kolla", PINS)
        self._share = self._binaries.parent / "share"
        self._directory = directory
        self._distributions = distributions
        self._url = None
        layer = directory / "base"
        copy_scripts(self._share / "kolla" / "docker", layer)
        (packages,) = self._binaries.parent.glob("lib/python*/site-packages")
        users = runpy.run_path(str(packages / "kolla" / "common" / "users.py"))["USERS"]
        commands = [
            *make_accounts(users),
            f"python3 -m venv --system-site-packages {VENV}",
            f"ln -s $(basename {VENV}/lib/python3.*) {VENV}/lib/python3",
            distributions.install(VENV, *PACKAGES),
            "mkdir -p /etc/placement",
        ]
        self._image = base.extend(layer, commands, mounts=[distributions.mount])
        self.install(REFERENCE)
        self._logs = directory / "logs"
        self._logs.mkdir()
        self._logs.chmod(0o2777)

    def install(self, name, instead_of=None):
        """Install a placement from its source, after the other was uninstalled."""
        uninstall = [f"{VENV}/bin/pip uninstall --quiet --yes {instead_of}"] if instead_of else []
        commands = [
            *uninstall,
            f"rm -rf /placement-base-source {SOURCE}",
            "mkdir /placement-base-source",
            f"tar --extract --directory /placement-base-source --file {self._distributions.get_source(name)}",
            f"ln -s placement-base-source/* {SOURCE}",
            self._distributions.install(VENV, SOURCE),
            f"cp -r {SOURCE}/etc/placement/* /etc/placement/",
        ]
        layer = self._directory / f"layer-{len(self._image.layers)}"
        layer.mkdir()
        self._image = self._image.extend(layer, commands, mounts=[self._distributions.mount])

    def configure(self, database, keystone_url, memcached_port):
        """Have kolla-ansible's role write the configuration.

        :param database: a `sqlalchemy.URL`
        :raises images.Failed: the role fails
        """
        port = find_free_port()
        self._url = f"http://127.0.0.1:{port}"
        host = {"ansible_connection": "local", "ansible_become": False}
        host["ansible_python_interpreter"] = str(self._binaries / "python")
        groups = {group: {"hosts": {"container-host": {}}} for group in GROUPS}
        inventory = {"all": {"hosts": {"container-host": host}, "children": groups}}
        variables = {
            "node_config": str(self._directory / "etc"),
            "node_config_directory": str(self._directory / "etc"),
            "config_owner_user": "root",
            "config_owner_group": "root",
            "network_interface": "lo",
            "ansible_facts": {"lo": {"ipv4": {"address": "127.0.0.1"}}, "processor_vcpus": 2},
            "kolla_base_distro": "debian",
            "kolla_internal_vip_address": "127.0.0.1",
            # made with a filter of a collection that is not on PyPI
            "kolla_same_external_internal_vip": True,
            "keystone_internal_url": keystone_url,
            "keystone_public_url": keystone_url,
            "placement_api_port": str(port),
            "placement_api_listen_port": str(port),
            "placement_keystone_password": cloud.PASSWORD,
            "placement_database_name": database.database,
            "placement_database_user": database.username,
            "placement_database_password": database.password or "",
            "placement_database_address": f"{database.host}:{database.port or 3306}",
            "nova_api_database_password": "",
            "memcached_port": str(memcached_port),
            "memcache_secret_key": cloud.PASSWORD,
        }
        ansible = self._share / "kolla-ansible" / "ansible"
        play = self._directory / "play"
        play.mkdir()
        (play / "group_vars").symlink_to(ansible / "group_vars")
        for name, content in (("inventory.yml", inventory), ("variables.yml", variables), ("play.yml", PLAY)):
            (play / name).write_text(json.dumps(content))
        settings = {
            "ANSIBLE_ROLES_PATH": ansible / "roles",
            "ANSIBLE_FILTER_PLUGINS": ansible / "filter_plugins",
            "ANSIBLE_ACTION_PLUGINS": ansible / "action_plugins",
            "ANSIBLE_LIBRARY": ansible / "library",
            "HOME": play,
            "PATH": f"{self._binaries}:{images.SYSTEM_PATH}",
        }
        program = [self._binaries / "ansible-playbook", "-i", "inventory.yml", "-e", "@variables.yml"]
        words = [f"{name}={value}" for name, value in settings.items()]
        images.run(["env", "--chdir", play, *words, *program, "play.yml"])

    def synchronize(self):
        """Run the container as kolla-ansible does to make and upgrade the tables; what it wrote.

        :raises images.Failed: it does not end with status 0
        """
        return "".join(self._image.run(COMMAND, self._options(**{name: ""})) for name in SYNCHRONIZATIONS)

    @contextlib.contextmanager
    def serving(self, log):
        """Run the container; its URL, and the container."""
        with self._image.running(COMMAND, self._options(), log) as container:
            yield self._url, container

    def check(self, container):
        """Run what kolla-ansible runs in the container that serves: its health check, and its validation.

        :returns: what the validation says
        :raises images.Failed: the health check fails
        """
        done = container.execute(["healthcheck_curl", self._url], self._options())
        if done.returncode:
            raise images.Failed(f"healthcheck_curl: {done.stderr}")
        done = container.execute(VALIDATE, self._options())
        return describe_validation(done)

    def read_logs(self):
        """Return what the service has written to kolla's directory of logs, by file."""
        return {path.name: path.read_text() for path in self._logs.rglob("*.log")}

    def _options(self, **variables):
        files = self._directory / "etc" / "placement-api"
        mounts = (
            images.Mount("/var/lib/kolla/config_files", files, read_only=True),
            images.Mount("/var/log/kolla", self._logs),
        )
        return images.Options({**VARIABLES, **variables}, mounts, user="placement")


def copy_scripts(dockerfiles, layer):
    """Copy what the Dockerfiles copy to the places of programs, with the modes that they set."""
    for name in DOCKERFILES:
        text = (dockerfiles / name / "Dockerfile.j2").read_text()
        for files, target in COPY.findall(text):
            for file in files.split():
                place = layer / target[1:]
                place = place / file if target.endswith("/") else place
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes((dockerfiles / name / file).read_bytes())
                place.chmod(find_mode(place.name))


def find_mode(name):
    """Return the mode that kolla's Dockerfiles give to a file with this name."""
    if name == "sudoers":
        return 0o440
    return 0o644 if name.endswith("extend_start") else 0o755


def make_accounts(users):
    """Return the commands that make the accounts, with the numbers of kolla."""
    for name in ACCOUNTS:
        numbers = users[f"{name}-user"]
        yield f"groupadd --gid {numbers['gid']} {name}"
        yield f"useradd -l -M -s /usr/sbin/nologin --uid {numbers['uid']} --gid {numbers['gid']} {name}"
    yield "usermod --append --home /var/lib/placement --groups kolla placement"
    yield "mkdir -p /var/lib/placement && chown placement:placement /var/lib/placement"


def describe_validation(done):
    """Return what oslo-config-validator says, without times and the warnings of Python.

    :param done: the process that has ended
    :raises images.Failed: it could not run
    """
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise images.Failed(f"the validation could not run: {done.stderr[-500:]}")
    lines = re.findall(r"^(?:ERROR|WARNING):[^:]*:(.*)$", done.stderr, re.MULTILINE)
    return [f"exit status {done.returncode}", *lines]
