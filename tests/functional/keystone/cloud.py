# SPDX-License-Identifier: Apache-2.0
"""A real Keystone: from PyPI, on SQLite, under gunicorn, with the users that the tests are about."""

import contextlib
import grp
import os
import pathlib
import pwd
import subprocess
import time
from dataclasses import dataclass

import requests

from benchmarks import environments
from benchmarks.processes import find_free_port
from tests.functional import forking, servers

REQUIREMENTS = ("keystone==30.0.0", "gunicorn")
PASSWORD = "a-password-that-is-only-used-in-tests"
PROJECTS = ("blue", "green")
#: users by the role that they have in the project blue; admin is made by the bootstrap
ROLES = ("service", "member", "reader")
PATIENCE = 90

# the one with a cache is one process, so that it knows of all changes; without, a request takes a tenth of a
# second
CONFIGURATION = """\
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///{directory}/keystone.db
[token]
expiration = {lifetime}
[fernet_tokens]
key_repository = {directory}/fernet-keys
[fernet_receipts]
key_repository = {directory}/fernet-keys
[credential]
key_repository = {directory}/credential-keys
[identity]
password_hash_rounds = 4
[cache]
enabled = {cached}
backend = dogpile.cache.memory
"""


@dataclass
class Keystone:
    """A Keystone that answers."""

    url: str
    process: subprocess.Popen

    def issue_token(self, user, project="blue", password=PASSWORD):
        """Log in, as clients do; the token."""
        domain = {"id": "default"}
        identity = {
            "methods": ["password"],
            "password": {"user": {"name": user, "domain": domain, "password": password}},
        }
        scope = {"project": {"name": project, "domain": domain}}
        answer = requests.post(
            f"{self.url}/auth/tokens", json={"auth": {"identity": identity, "scope": scope}}, timeout=PATIENCE
        )
        assert answer.status_code == 201, answer.text
        return answer.headers["x-subject-token"]

    def call(self, method, path, body=None, **headers):
        """A request of the administrator; the answer."""
        token = self.issue_token("admin", "admin")
        headers = {"x-auth-token": token, **headers}
        answer = requests.request(
            method, f"{self.url}{path}", json=body, headers=headers, timeout=PATIENCE, allow_redirects=False
        )
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else {}

    def find_id(self, kind, name):
        """The id of a role, project, user or service, by its name."""
        (found,) = self.call("GET", f"/{kind}?name={name}")[kind]
        return found["id"]


def install():
    """The bin directory of an environment that has Keystone; :raises environments.NotInstallable."""
    return environments.make("keystone", REQUIREMENTS, constraints=environments.CONSTRAINTS)


def bootstrap(binaries, directory, port):
    """Make the database, the keys, the administrator, and the catalog's entry of what will listen there."""
    configuration = _configure(directory, "keystone.conf", lifetime=3600, cached=True)
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    for arguments in (
        ("db_sync",),
        ("fernet_setup", "--keystone-user", user, "--keystone-group", group),
        (
            "bootstrap",
            f"--bootstrap-password={PASSWORD}",
            "--bootstrap-region-id=RegionOne",
            *(
                f"--bootstrap-{interface}-url=http://127.0.0.1:{port}/v3"
                for interface in ("public", "internal", "admin")
            ),
        ),
    ):
        done = forking.run(
            "keystone-manage",
            "--config-file",
            configuration,
            *arguments,
            python=binaries / "python",
            cwd=directory,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    return configuration


def _configure(directory, name, *, lifetime, cached):
    path = directory / name
    path.write_text(CONFIGURATION.format(directory=directory, lifetime=lifetime, cached=cached))
    return path


def set_up_gunicorn(configuration, port):
    """Write the settings with which gunicorn serves Keystone; the variables that it needs."""
    # not as arguments: Keystone takes those of the process, whatever it is, for its own
    settings = configuration.parent / f"{configuration.stem}.gunicorn.py"
    settings.write_text(
        f'bind = "127.0.0.1:{port}"\nworkers = 1\nwsgi_app = "keystone.wsgi.api:application"\n'
    )
    return {
        "HOME": str(configuration.parent),
        "OS_KEYSTONE_CONFIG_FILES": str(configuration),
        "GUNICORN_CMD_ARGS": f"--config {settings}",
    }


@contextlib.contextmanager
def serving(binaries, configuration, port):
    """Keystone under gunicorn, with this configuration."""
    directory = configuration.parent
    log = directory / f"{configuration.stem}.log"
    environment = servers.make_environment(**set_up_gunicorn(configuration, port))
    with log.open("w") as output:
        process = subprocess.Popen(
            [binaries / "gunicorn"],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        url = f"http://127.0.0.1:{port}/v3"
        _await_answer(url, process, log)
        yield Keystone(url, process)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _await_answer(url, process, log):
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and process.poll() is None:
        with contextlib.suppress(requests.RequestException):
            if requests.get(url, timeout=5).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(f"Keystone does not answer: {log.read_text()[-3000:]}")


@contextlib.contextmanager
def serving_short_lived(binaries, directory, lifetime=1):
    """The same Keystone with another door, behind which tokens expire after a moment."""
    configuration = _configure(directory, "short-lived.conf", lifetime=lifetime, cached=False)
    with serving(binaries, configuration, find_free_port()) as keystone:
        yield keystone


def populate(keystone):
    """Make the projects and the users, each with its role in the project blue."""
    for project in PROJECTS:
        keystone.call("POST", "/projects", {"project": {"name": project, "domain_id": "default"}})
    blue = keystone.find_id("projects", "blue")
    for role in ROLES:
        user = {"name": role, "domain_id": "default", "password": PASSWORD}
        made = keystone.call("POST", "/users", {"user": user})["user"]["id"]
        keystone.call("PUT", f"/projects/{blue}/users/{made}/roles/{keystone.find_id('roles', role)}")


def add_service(keystone, name):
    """Make the project of services, and in it the administrator as whom a service with this name logs in."""
    project = {"name": "service", "domain_id": "default"}
    made = keystone.call("POST", "/projects", {"project": project})["project"]["id"]
    user = {"name": name, "domain_id": "default", "password": PASSWORD}
    account = keystone.call("POST", "/users", {"user": user})["user"]["id"]
    for role in ("admin", "service"):
        role_id = keystone.find_id("roles", role)
        keystone.call("PUT", f"/projects/{made}/users/{account}/roles/{role_id}")


def register(keystone, url, name="placement"):
    """Put the service of this type at this URL into the catalog; the id of the service."""
    service = {"service": {"type": name, "name": name}}
    made = keystone.call("POST", "/services", service)["service"]["id"]
    endpoint = {"service_id": made, "interface": "public", "region_id": "RegionOne", "url": url}
    keystone.call("POST", "/endpoints", {"endpoint": endpoint})
    return made


LOGIN = """\
www_authenticate_uri = {url}
auth_url = {url}
auth_type = password
username = {user}
password = {password}
project_name = {project}
user_domain_id = default
project_domain_id = default"""


def format_login(keystone, user="service", project="blue"):
    """The lines of a section in which keystoneauth and keystonemiddleware find how to log in."""
    return LOGIN.format(url=keystone.url, user=user, password=PASSWORD, project=project)


def write_placement_conf(path: pathlib.Path, keystone, *, enforce_new_defaults):
    """A placement.conf that validates tokens there, asking each time: tests revoke tokens."""
    path.write_text(
        f"""\
[placement_database]
connection = sqlite:///{path.parent}/placement.db
sync_on_startup = true
[keystone_authtoken]
{format_login(keystone)}
token_cache_time = -1
[oslo_policy]
enforce_new_defaults = {enforce_new_defaults}
"""
    )


CLOUDS = """\
clouds:
  {user}:
    auth:
      auth_url: {url}
      username: {user}
      password: {password}
      project_name: {project}
      user_domain_id: default
      project_domain_id: default
    region_name: RegionOne
"""


def write_clouds_yaml(path, keystone, user, project, password=PASSWORD):
    """A clouds.yaml with the cloud of one user, named after the user."""
    path.write_text(CLOUDS.format(url=keystone.url, user=user, project=project, password=password))
