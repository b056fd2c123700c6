# SPDX-License-Identifier: Apache-2.0
"""The control plane: what it is made of in a directory, in MariaDB, in RabbitMQ, and as processes.

Each service is a script in the directory's ``services``, which starts it in the foreground; its log is in
``logs``. The scripts mark their processes in the environment, by which these are found and ended, whoever
started them.
"""

import contextlib
import hashlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import requests
import sqlalchemy as sa
from openstack.config import loader
from openstack.connection import Connection

from benchmarks import environments, uwsgi
from benchmarks.processes import find_free_port
from tests import databases
from tests.functional.keystone import cloud
from tests.functional.migrate import glance, nova_databases

PLACE = environments.CACHE / "cloud"
SCRIPTS = PLACE / "services"
LOGS = PLACE / "logs"
#: the account in MariaDB and in RabbitMQ, the virtual host there, and what the names of databases begin with
NAME = "osc_cloud_" + hashlib.sha256(str(PLACE).encode()).hexdigest()[:8]
#: placement has an account of its own, so that it alone can be locked out
ACCOUNTS = (NAME, f"{NAME}_placement")
DATABASES = {"nova_api": "api", "nova_cell0": "main", "nova_cell1": "main", "placement": None}
#: the variable that has the path of the script in each process that it started
MARK = "OSC_PLACEMENT_CLOUD_SERVICE"
#: seconds until a service answers
PATIENCE = 180
#: the programs of the two placement services
OURS, REFERENCE = "placement-server", "openstack-placement"
PAUSE = 0.5
#: the user of the services
USER = {"user": "nova", "project": "service"}
BIN = pathlib.Path(sys.executable).parent

PLACEMENT = """\
[placement_database]
connection = {database}
sync_on_startup = true
[keystone_authtoken]
{login}
"""
GLANCE = """\
[keystone_authtoken]
{login}
[paste_deploy]
flavor = keystone
config_file = {paste}
"""
NOVA = """\
[DEFAULT]
transport_url = {transport}
state_path = {directory}
compute_driver = hypervisor.Driver
# what is lost is known to be lost sooner than after a minute
rpc_response_timeout = 20
report_interval = 4
service_down_time = 20
[api]
auth_strategy = keystone
[api_database]
connection = {api}
[database]
connection = {cell1}
[keystone_authtoken]
{login}
[placement]
{login}
[neutron]
{login}
[service_user]
send_service_user_token = true
{login}
[oslo_concurrency]
lock_path = {directory}
[conductor]
workers = 1
[scheduler]
workers = 1
[quota]
instances = 100
cores = -1
ram = -1
[vnc]
enabled = false
"""
COMPUTE = """\
[DEFAULT]
host = {host}
state_path = {directory}
"""
OPENRC = """\
for name in $(env | sed -n 's/^\\(OS_[A-Z0-9_]*\\)=.*/\\1/p'); do
    unset "$name"
done
export OS_CLIENT_CONFIG_FILE={place}/clouds.yaml OS_CLOUD=admin OS_COMPUTE_API_VERSION=2.96
export OS_PLACEMENT_API_VERSION=1.39 NO_PROXY=127.0.0.1
PATH={binaries}:$PATH:{nova}
"""


class NotPossible(Exception):
    """The control plane cannot be brought up; a line that says why."""


def find_processes():
    """The ids of the processes that run of each service that has some."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            marks = [each for each in path.read_bytes().split(b"\0") if each.startswith(f"{MARK}=".encode())]
            script = pathlib.Path(os.fsdecode(marks[0].partition(b"=")[2])) if marks else None
            if script and script.parent == SCRIPTS:
                found.setdefault(script.name, []).append(int(path.parent.name))
    return {name: sorted(pids) for name, pids in found.items()}


def _write_script(path, name, command, **variables):
    """Write the program that starts a service."""
    variables = {
        "HOME": PLACE,
        "PATH": os.environ["PATH"],
        "NO_PROXY": "127.0.0.1",
        MARK: SCRIPTS / name,
        # setproctitle writes over the environment otherwise
        "SPT_NOENV": 1,
        **variables,
    }
    words = ["env", "-i", *(f"{key}={value}" for key, value in variables.items()), *map(str, command)]
    log = shlex.quote(str(LOGS / f"{name}.log"))
    path.write_text(
        f"#!/bin/sh\ncd {shlex.quote(str(environments.ROOT))} && exec {shlex.join(words)} >>{log} 2>&1\n"
    )
    path.chmod(0o755)


def choose_placement(which):
    """Have the next start of placement be that of `OURS` or of `REFERENCE`, on the same port and database."""
    shutil.copy(PLACE / "placement" / which, SCRIPTS / "placement")


def find_placement():
    """Which placement service the script starts."""
    text = (SCRIPTS / "placement").read_text()
    return next(which for which in (OURS, REFERENCE) if (PLACE / "placement" / which).read_text() == text)


def await_placement():
    """Wait until placement answers."""
    url = connect().session.get_endpoint(service_type="placement", skip_discovery=True)
    await_that("answer of placement", lambda: _answers(url))


def lock_out(accounts, seconds):
    """Keep accounts from MariaDB for a while, and end their connections, as when it is stopped."""
    names = [f"'{account}'@'%'" for account in accounts]
    execute(*(f"ALTER USER {name} ACCOUNT LOCK" for name in names))
    try:
        execute(*(f"KILL CONNECTION USER {name}" for name in names))
        time.sleep(seconds)
    finally:
        execute(*(f"ALTER USER {name} ACCOUNT UNLOCK" for name in names))


def discover():
    """Map the hosts that nova has not mapped yet."""
    nova_databases.manage(PLACE / "nova" / "nova.conf", "cell_v2", "discover_hosts")


def start(name):
    """Start a service, which runs on when this process ends; its process."""
    # with the mark from the first moment on
    environment = {**os.environ, MARK: str(SCRIPTS / name)}
    return subprocess.Popen(
        [SCRIPTS / name], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )


def stop(name, *, sign=signal.SIGTERM):
    """End the processes of a service, and wait until they have ended.

    :raises NotPossible: they do not end
    """
    for pid in find_processes().get(name, ()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
    await_that(f"the end of {name}", lambda: name not in find_processes())


def await_that(what, is_there, processes=()):
    """Wait for something that needs these processes, each with the name of its service.

    :raises NotPossible: one of them has ended, or it takes too long
    """
    give_up = time.monotonic() + PATIENCE
    while not is_there():
        ended = [name for name, process in processes if process.poll() is not None]
        if ended or time.monotonic() > give_up:
            reason = f"{ended[0]} has ended" if ended else f"no {what} after {PATIENCE} s"
            raise NotPossible(f"{reason}; see {LOGS}, and then: tools/cloud down")
        time.sleep(PAUSE)


def _answers(url):
    with contextlib.suppress(requests.RequestException):
        return requests.get(url, timeout=5).status_code < 400
    return False


def run_rabbitmqctl(*arguments):
    """Run ``rabbitmqctl``.

    :raises NotPossible: it is not there, or fails
    """
    try:
        done = subprocess.run(
            ["rabbitmqctl", "--quiet", *arguments], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise NotPossible(f"RabbitMQ: rabbitmqctl: {error.strerror}") from error
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotPossible(f"RabbitMQ: {' '.join(lines[:2])}")


def find_database(name):
    """The URL of a database of `DATABASES`, for the account of the tests."""
    return databases.find_server("mariadb").set(database=f"{NAME}_{name}")


def execute(*statements):
    """Run statements on MariaDB as the account of the tests.

    :raises NotPossible: it refuses one
    """
    server = databases.find_server("mariadb")
    try:
        for statement in statements:
            databases.execute(server, statement)
    except sa.exc.DBAPIError as error:
        raise NotPossible(f"MariaDB: {error.orig}") from error


def make_accounts():
    """Make the accounts in MariaDB and RabbitMQ, and the virtual host.

    :raises NotPossible: one of them cannot be made; none is left, unless RabbitMQ fails meanwhile
    """
    run_rabbitmqctl("add_vhost", NAME)
    try:
        execute(*(f"CREATE USER '{account}'@'%' IDENTIFIED BY '{cloud.PASSWORD}'" for account in ACCOUNTS))
    except NotPossible:
        run_rabbitmqctl("delete_vhost", NAME)
        raise
    run_rabbitmqctl("add_user", NAME, cloud.PASSWORD)
    run_rabbitmqctl("set_permissions", "--vhost", NAME, NAME, ".*", ".*", ".*")


class Plane:
    """The control plane while it is made."""

    def __init__(self, binaries):
        """Use environments, by the name of what is in them."""
        self._binaries = binaries
        self._started = []
        self._ports = {}
        server = databases.find_server("mariadb")
        self._urls = {
            name: server.set(
                username=ACCOUNTS[name == "placement"], password=cloud.PASSWORD, database=f"{NAME}_{name}"
            ).render_as_string(hide_password=False)
            for name in DATABASES
        }
        self._transport = f"rabbit://{NAME}:{cloud.PASSWORD}@127.0.0.1:5672/{NAME}"
        self._keystone = None

    def make(self, computes, vcpus, *, is_reference):
        """Make everything, and start it; if nothing can be made, nothing is left."""
        make_accounts()
        for path in (SCRIPTS, LOGS):
            path.mkdir(parents=True)
        self._make_databases()
        self._start_keystone()
        self._start_placement(is_reference=is_reference)
        self._start_glance()
        self._register("neutron", "network")
        self._start(
            "neutron", self._format_gunicorn("neutron", "tests.reliability.cloud.neutron_stub:application")
        )
        hosts = [f"compute{number}" for number in range(1, computes + 1)]
        nova = self._start_nova(hosts, vcpus)
        self._write_clients()
        connection = connect()
        self._await("answer of nova's API", lambda: _answers(self._url("nova-api")))
        self._await("compute service", lambda: _count_up(connection) == len(hosts) + 2)
        nova("cell_v2", "discover_hosts")
        self._await("inventory of all hosts", lambda: _count_hosts(connection) == len(hosts))
        _populate(connection)

    def _url(self, name):
        return f"http://127.0.0.1:{self._ports[name]}"

    def _await(self, what, is_there):
        await_that(what, is_there, self._started)

    def _make_databases(self):
        for name, kind in DATABASES.items():
            execute(
                databases.CREATE["mariadb"].format(name=f"{NAME}_{name}"),
                f"GRANT ALL ON {NAME}_{name}.* TO '{ACCOUNTS[name == 'placement']}'@'%'",
            )
            if kind:
                nova_databases.load_dump(self._urls[name], nova_databases.make_templates("mariadb")[kind])

    def _start(self, name, command, **variables):
        _write_script(SCRIPTS / name, name, command, **variables)
        self._started.append((name, start(name)))

    def _make_directory(self, name):
        directory = PLACE / name
        directory.mkdir()
        return directory

    def _register(self, name, kind, path=""):
        self._ports[name] = find_free_port()
        cloud.register(self._keystone, self._url(name) + path, kind)

    def _format_gunicorn(self, name, application):
        bind = f"127.0.0.1:{self._ports[name]}"
        # one process: several would make openstack-placement's tables at the same time; and nova names all
        # instances of a page to neutron in one URL
        return [BIN / "gunicorn", "--bind", bind, "--threads", 8, "--limit-request-line", 0, application]

    def _start_uwsgi(self, name, service, application, **variables):
        options = (*uwsgi.ANSIBLE, "processes = 1", "threads = 8", f"module = {application}")
        path = PLACE / f"{name}.ini"
        uwsgi.write(path, options, port=self._ports[name])
        home = self._binaries[service].parent
        self._start(name, [self._binaries["uwsgi"], "--home", home, "--ini", path], **variables)

    def _start_keystone(self):
        directory = self._make_directory("keystone")
        port = self._ports["keystone"] = find_free_port()
        binaries = self._binaries["keystone"]
        configuration = cloud.bootstrap(binaries, directory, port)
        self._start("keystone", [binaries / "gunicorn"], **cloud.set_up_gunicorn(configuration, port))
        self._keystone = cloud.Keystone(f"{self._url('keystone')}/v3", None)
        self._await("answer of Keystone", lambda: _answers(self._keystone.url))
        cloud.add_service(self._keystone, USER["user"])
        self._login = cloud.format_login(self._keystone, **USER)

    def _start_placement(self, *, is_reference):
        path = self._make_directory("placement") / "placement.conf"
        path.write_text(PLACEMENT.format(database=self._urls["placement"], login=self._login))
        self._register("placement", "placement")
        port = self._ports["placement"]
        _write_script(
            path.parent / OURS,
            "placement",
            [BIN / "placement-server", "serve", "--config-file", path, "--port", port],
        )
        _write_script(
            path.parent / REFERENCE,
            "placement",
            self._format_gunicorn("placement", "placement.wsgi.api:application"),
            OS_PLACEMENT_CONFIG_DIR=path.parent,
        )
        choose_placement(REFERENCE if is_reference else OURS)
        self._started.append(("placement", start("placement")))

    def _start_glance(self):
        directory = self._make_directory("glance")
        binaries = self._binaries["glance"]
        paste = binaries.parent / "etc" / "glance" / "glance-api-paste.ini"
        glance.configure(directory, binaries, GLANCE.format(login=self._login, paste=paste))
        self._register("glance", "image")
        self._start_uwsgi("glance", "glance", "glance.wsgi.api:application", OS_GLANCE_CONFIG_DIR=directory)

    def _start_nova(self, hosts, vcpus):
        """Start nova; what runs ``nova-manage``."""
        directory = self._make_directory("nova")
        binaries = self._binaries["nova"]
        shutil.copy(binaries.parent / "etc" / "nova" / "api-paste.ini", directory)
        urls = {name.removeprefix("nova_"): url for name, url in self._urls.items()}
        path = directory / "nova.conf"
        path.write_text(
            NOVA.format(transport=self._transport, directory=directory, login=self._login, **urls)
        )

        def manage(*arguments):
            done = nova_databases.manage(path, *arguments)
            if done.returncode:
                raise NotPossible(f"nova-manage: {(done.stderr or done.stdout).strip().splitlines()[-1]}")

        manage("cell_v2", "map_cell0", "--database_connection", urls["cell0"])
        cell = ("--database_connection", urls["cell1"], "--transport-url", self._transport)
        manage("cell_v2", "create_cell", "--name", "cell1", *cell)
        self._register("nova-api", "compute", "/v2.1")
        for name in ("nova-conductor", "nova-scheduler"):
            self._start(name, [binaries / name, "--config-file", path])
        self._start_uwsgi(
            "nova-api", "nova", "nova.wsgi.osapi_compute:application", OS_NOVA_CONFIG_DIR=directory
        )
        for host in hosts:
            place = self._make_directory(f"nova/{host}")
            (place / "compute.conf").write_text(COMPUTE.format(host=host, directory=place))
            files = ("--config-file", path, "--config-file", place / "compute.conf")
            program = pathlib.Path(__file__).with_name("hypervisor.py")
            self._start(f"nova-{host}", [binaries / "python", program, *files], CLOUD_VCPUS=vcpus)
        return manage

    def _write_clients(self):
        cloud.write_clouds_yaml(PLACE / "clouds.yaml", self._keystone, "admin", "admin")
        (PLACE / "openrc").write_text(
            OPENRC.format(place=shlex.quote(str(PLACE)), binaries=BIN, nova=self._binaries["nova"])
        )
        # where nova-manage and placement-migrate look for it
        (PLACE / ".nova").symlink_to("nova")


def connect():
    """A connection of openstacksdk, as the administrator."""
    config = loader.OpenStackConfig(config_files=[str(PLACE / "clouds.yaml")], load_envvars=False)
    return Connection(config=config.get_one("admin"))


def _count_up(connection):
    return sum(each.state == "up" for each in connection.compute.services())


def _count_hosts(connection):
    """How many resource providers have inventory for instances."""
    answer = connection.placement.get(
        "/resource_providers?resources=VCPU:1", headers={"OpenStack-API-Version": "placement 1.39"}
    )
    return len(answer.json()["resource_providers"])


def _populate(connection):
    """Make what a first instance needs."""
    connection.compute.create_flavor(name="tiny", ram=128, vcpus=1, disk=1)
    connection.compute.create_flavor(name="small", ram=512, vcpus=2, disk=5)
    connection.image.create_image(
        name="empty", data=b"\0", disk_format="raw", container_format="bare", visibility="public"
    )


def up(*, computes, vcpus, is_reference):
    """Bring the control plane up.

    :raises NotPossible: there is one, or something is missing or does not start
    """
    if PLACE.exists():
        raise NotPossible("it is up, or was not taken down: tools/cloud status, tools/cloud down")
    if not is_installed():
        print(f"installing nova and others into {environments.CACHE}, in some minutes", flush=True)
    binaries = {
        "keystone": cloud.install(),
        "glance": environments.make("glance", glance.REQUIREMENTS),
        "nova": environments.make_nova(),
        "uwsgi": environments.make_uwsgi(),
    }
    print("starting Keystone, placement, glance and nova", flush=True)
    Plane(binaries).make(computes, vcpus, is_reference=is_reference)


def is_installed():
    """Whether the environments are there."""
    names = ("keystone", "glance", "nova", "uwsgi")
    return all(any(environments.CACHE.glob(f"{name}-*/bin")) for name in names)


def down():
    """Take everything away but the environments, whatever of it is there."""
    for name in find_processes():
        stop(name, sign=signal.SIGKILL)
    for name in DATABASES:
        execute(f"DROP DATABASE IF EXISTS {NAME}_{name}")
    for account in ACCOUNTS:
        execute(f"DROP USER IF EXISTS '{account}'@'%'")
    for kind in ("vhost", "user"):
        try:
            run_rabbitmqctl(f"delete_{kind}", NAME)
        except NotPossible as error:
            # an up that was interrupted did not make it
            if "does not exist" not in str(error) and "no_such" not in str(error):
                raise
    shutil.rmtree(PLACE, ignore_errors=True)


def describe():
    """The lines of ``status``, and whether all is well."""
    if not PLACE.exists():
        return ["nothing is up"], False
    running = find_processes()
    names = sorted(path.name for path in SCRIPTS.glob("*"))
    lines = [
        f"{name:16} {'process ' + str(running[name][0]) if name in running else 'not running':16} {name}.log"
        for name in names
    ]
    lines.append(f"logs: {LOGS}")
    if "placement" not in running:
        return [*lines, "placement does not answer"], False
    try:
        hosts = _count_hosts(connect())
    except Exception as error:
        return [*lines, f"placement does not answer: {error}"], False
    return [*lines, f"placement answers, with {hosts} hosts"], running.keys() == set(names)
