# SPDX-License-Identifier: Apache-2.0
"""A real neutron: from PyPI, its API in a process of its own, with the plugins ML2 and QoS.

There is no agent and no message bus: ports are bound on any host without them, and the tests write bindings.
"""

import contextlib
import http.server
import json
import pathlib
import subprocess
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass

import sqlalchemy as sa

from benchmarks import environments
from benchmarks.neutron import COMMON_CONFIGURATION, PASTE
from tests import databases
from tests.functional import servers
from tests.functional.migrate.cloud import PROJECT

PROGRAM = pathlib.Path(__file__).with_name("neutron_api.py")
CONFIGURATION = f"""\
{COMMON_CONFIGURATION}
[ml2]
type_drivers = vlan,vxlan
tenant_network_types = vxlan
mechanism_drivers = openvswitch,sriovnicswitch
extension_drivers = qos
[ml2_type_vlan]
network_vlan_ranges = physnet0:100:4000,physnet1:100:4000
[ml2_type_vxlan]
vni_ranges = 1:10000
[quotas]
default_quota = -1
quota_port = -1
quota_network = -1
quota_security_group = -1
quota_security_group_rule = -1
"""


@dataclass(frozen=True)
class Neutron:
    """A neutron that serves; ``database`` is the URL of its database."""

    url: str
    database: str

    def call(self, method, path, body=None, headers=()):
        """Send a request; return the document."""
        request = urllib.request.Request(
            f"{self.url}/v2.0{path}",
            method=method,
            data=json.dumps(body).encode() if body else None,
            headers={"Content-Type": "application/json", **dict(headers)},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()}") from error
        return json.loads(text) if text else None

    def add_policy(self, *, egress=None, ingress=None, packets=None):
        """Make a QoS policy with these guarantees; return its UUID."""
        policy = {"name": "guaranteed", "project_id": PROJECT}
        uuid = self.call("POST", "/qos/policies", {"policy": policy})["policy"]["id"]
        for direction, amount in (("egress", egress), ("ingress", ingress)):
            if amount:
                rule = {"min_kbps": amount, "direction": direction}
                path = f"/qos/policies/{uuid}/minimum_bandwidth_rules"
                self.call("POST", path, {"minimum_bandwidth_rule": rule})
        if packets:
            rule = {"min_kpps": packets, "direction": "any"}
            path = f"/qos/policies/{uuid}/minimum_packet_rate_rules"
            self.call("POST", path, {"minimum_packet_rate_rule": rule})
        return uuid

    def add_network(self, physical="physnet0", **fields):
        """Make a network, a tunnel without a physical one; return its UUID."""
        kind = {"provider:network_type": "vxlan"}
        if physical:
            kind = {"provider:network_type": "vlan", "provider:physical_network": physical}
        network = {"name": "n", "project_id": PROJECT, **kind, **fields}
        return self.call("POST", "/networks", {"network": network})["network"]["id"]

    def add_port(self, network, instance, host="h1", profile=None, **fields):
        """Make a port of an instance that is bound to a host, None for no host; return its UUID."""
        port = {
            "network_id": network,
            "project_id": PROJECT,
            "device_id": instance,
            "device_owner": "compute:nova",
            **fields,
        }
        uuid = self.call("POST", "/ports", {"port": port})["port"]["id"]
        self.bind(uuid, host, profile)
        return uuid

    def bind(self, port, host, profile=None):
        """Write the binding of a port as ML2 does when an agent has bound it."""
        engine = sa.create_engine(self.database, poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "UPDATE ml2_port_bindings SET host = :host, vif_type = :kind, profile = :profile"
                    " WHERE port_id = :port"
                ),
                {
                    "port": port,
                    "host": host or "",
                    "kind": "ovs" if host else "unbound",
                    "profile": json.dumps(profile) if profile else "",
                },
            )

    def execute(self, statement, **parameters):
        """Change its database."""
        with sa.create_engine(self.database, poolclass=sa.pool.NullPool).begin() as connection:
            connection.execute(sa.text(statement), parameters)

    def read_binding(self, port):
        """Return the row of the binding of a port, in which the profile is a text."""
        engine = sa.create_engine(self.database, poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            statement = sa.text("SELECT * FROM ml2_port_bindings WHERE port_id = :port")
            return dict(connection.execute(statement, {"port": port}).mappings().one())

    def forget_ports(self):
        """Delete all ports; neutron takes long to list them."""
        engine = sa.create_engine(self.database, poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM ports"))

    def show_port(self, uuid):
        """Return a port as its administrator sees it."""
        return self.call("GET", f"/ports/{uuid}")["port"]

    def show_granted(self, uuid):
        """Return the providers in the binding profile of a port."""
        return self.show_port(uuid)["binding:profile"].get("allocation")


def find_neutron():
    """Return the bin directory of neutron's environment; skip or fail the test if it cannot be installed."""
    try:
        return environments.make_neutron()
    except environments.NotInstallable as error:
        return databases.skip_or_fail(f"neutron cannot be installed: {error}")


@contextlib.contextmanager
def starting(directory, database=None):
    """Start an empty neutron in a directory; return a function that waits until it serves, and returns it.

    It takes seconds, in which tests without neutron can run.

    :param database: the URL of its empty database; None for a SQLite file in the directory
    """
    database = database or f"sqlite:///{directory}/neutron.db"
    binaries = find_neutron()
    (directory / "api-paste.ini").write_text(PASTE)
    path = directory / "neutron.conf"
    path.write_text(CONFIGURATION.format(directory=directory, database=database))
    log = directory / "neutron-api.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            # not with the directory of the program in its path, where this module has the name of the package
            [binaries / "python", "-P", PROGRAM, "--config-file", path],
            cwd=directory,
            env=servers.make_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def wait():
        url = process.stdout.readline().strip()
        assert url.startswith("http"), log.read_text()
        return Neutron(url, database)

    try:
        yield wait
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Answers(http.server.BaseHTTPRequestHandler):
    """A handler whose subclass has ``answer``, which returns a status and a document, or None."""

    def handle_request(self):
        """Answer a request, or never if there is no answer."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = self.answer(self.command, self.path.removeprefix("/v2.0"), json.loads(body) if body else None)
        if found is None:
            self.server.ended.wait(60)
            return
        status, document = found
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = handle_request  # noqa: N815

    def log_message(self, *_arguments):
        """Say nothing."""


@contextlib.contextmanager
def _serve(answer):
    handler = type("Handler", (Answers,), {"answer": staticmethod(answer)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.ended = threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.02,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.ended.set()
            server.shutdown()


def answering(answers):
    """Serve these answers, status and document by name of a list; what is not in them is never answered."""
    return _serve(lambda _method, path, _body: answers.get(path.strip("/").partition("?")[0]))


def older(neutron):
    """Serve a neutron as one of before Yoga, whose requests have one group, and none of packet rate."""

    def answer(method, path, body):
        document = neutron.call(method, path, body)
        if path.startswith("/extensions"):
            document["extensions"] = [
                each for each in document["extensions"] if each["alias"] != "port-resource-request-groups"
            ]
        for port in [*document.get("ports", ()), *filter(None, [document.get("port")])]:
            groups = (port.get("resource_request") or {}).get("request_groups", ())
            bandwidth = [each for each in groups if any("NET_BW" in name for name in each["resources"])]
            request = {key: bandwidth[0][key] for key in ("required", "resources")} if bandwidth else None
            port["resource_request"] = request
        return 200, document

    return _serve(answer)
