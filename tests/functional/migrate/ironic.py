# SPDX-License-Identifier: Apache-2.0
"""A real Ironic: from PyPI, on SQLite, its API under gunicorn, with a conductor for its fake hardware.

The API makes and moves nodes through a conductor, which both of them reach by JSON-RPC on loopback: there is
no message bus. Nobody logs in.
"""

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass

from benchmarks import environments
from benchmarks.processes import find_free_port
from tests.functional import servers

REQUIREMENTS = ("ironic==39.0.0", "gunicorn")
#: the version with which tests make nodes
VERSION = "1.80"
PATIENCE = 60
#: seconds between two looks at what a conductor is busy with
PAUSE = 0.05

CONFIGURATION = """\
[DEFAULT]
auth_strategy = noauth
rpc_transport = json-rpc
host = 127.0.0.1
log_file = {directory}/ironic.log
state_path = {directory}
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
graceful_shutdown_timeout = 1
[database]
connection = sqlite:///{directory}/ironic.db
[json_rpc]
auth_strategy = noauth
host_ip = 127.0.0.1
port = {rpc_port}
[conductor]
automated_clean = false
[oslo_concurrency]
lock_path = {directory}
"""


@dataclass(frozen=True)
class Ironic:
    """An Ironic that answers."""

    url: str

    def call(self, method, path, body=None):
        """A request; the document of the answer."""
        request = urllib.request.Request(
            f"{self.url}/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-OpenStack-Ironic-API-Version": VERSION},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            content = answer.read()
        return json.loads(content) if content else {}

    def enroll(self, resource_class=None, **fields):
        """A node that nobody has looked at yet; its UUID."""
        named = {"resource_class": resource_class} if resource_class else {}
        return self.call("POST", "/nodes", {"driver": "fake-hardware", **named, **fields})["uuid"]

    def add_node(self, resource_class=None, **fields):
        """A node that is available and off; its UUID."""
        uuid = self.enroll(resource_class, **fields)
        self.call("PUT", f"/nodes/{uuid}/states/power", {"target": "power off"})
        self.wait(uuid, "power_state", "power off")
        for target, state in (("manage", "manageable"), ("provide", "available")):
            self.provision(uuid, target, state)
        return uuid

    def deploy(self, uuid, instance):
        """Put an instance on a node, as nova's driver does."""
        self.update(uuid, instance_uuid=instance)
        self.provision(uuid, "active", "active")

    def provision(self, uuid, target, state):
        """Ask for a provision state and wait until it is reached."""
        self.call("PUT", f"/nodes/{uuid}/states/provision", {"target": target})
        self.wait(uuid, "provision_state", state)

    def update(self, uuid, **fields):
        """Set fields of a node."""
        patch = [{"op": "add", "path": f"/{name}", "value": value} for name, value in fields.items()]
        self.call("PATCH", f"/nodes/{uuid}", patch)

    def wait(self, uuid, field, value):
        """Wait until a field of a node, which no conductor holds any more, has a value."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            node = self.call("GET", f"/nodes/{uuid}")
            if node[field] == value and not node["reservation"]:
                return
            time.sleep(PAUSE)
        raise AssertionError(f"{field} of {uuid} is {node[field]}: {node['last_error']}")

    def clear(self):
        """Take all nodes away, whatever they are doing."""
        for node in self.call("GET", "/nodes?fields=uuid")["nodes"]:
            self.update(node["uuid"], maintenance=True)
            with contextlib.suppress(urllib.error.HTTPError):  # only a node with an instance needs it
                self.call("PATCH", f"/nodes/{node['uuid']}", [{"op": "remove", "path": "/instance_uuid"}])
            self.call("DELETE", f"/nodes/{node['uuid']}")


def install():
    """The bin directory of an environment that has Ironic; :raises environments.NotInstallable."""
    return environments.make("ironic", REQUIREMENTS, constraints=environments.CONSTRAINTS)


@contextlib.contextmanager
def serving(binaries, directory):
    """An Ironic without nodes."""
    configuration = directory / "ironic.conf"
    configuration.write_text(CONFIGURATION.format(directory=directory, rpc_port=find_free_port()))
    arguments = ("--config-file", configuration)
    made = subprocess.run(
        [binaries / "ironic-dbsync", *arguments, "create_schema"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-3000:]
    port = find_free_port()
    # not as arguments: Ironic takes those of the process, whatever it is, for its own
    settings = directory / "gunicorn.py"
    settings.write_text(f'bind = "127.0.0.1:{port}"\nwsgi_app = "ironic.wsgi:application"\n')
    environment = servers.make_environment(
        HOME=str(directory),
        IRONIC_CONFIG_FILE=str(configuration),
        GUNICORN_CMD_ARGS=f"--config {settings}",
    )
    commands = ([binaries / "ironic-conductor", *arguments], [binaries / "gunicorn"])
    with contextlib.ExitStack() as running:
        processes = [running.enter_context(_running(command, directory, environment)) for command in commands]
        ironic = Ironic(f"http://127.0.0.1:{port}")
        _await_conductor(ironic, processes, directory)
        yield ironic


@contextlib.contextmanager
def _running(command, directory, environment):
    with (directory / f"{command[0].name}.log").open("w") as output:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _await_conductor(ironic, processes, directory):
    """Nodes can be made when the API knows the driver of a conductor."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and all(process.poll() is None for process in processes):
        with contextlib.suppress(OSError):
            if ironic.call("GET", "/drivers")["drivers"]:
                return
        time.sleep(PAUSE)
    raise AssertionError("\n".join(path.read_text()[-3000:] for path in directory.glob("*.log")))
