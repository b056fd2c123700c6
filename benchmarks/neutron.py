# SPDX-License-Identifier: Apache-2.0
"""A real neutron for the benchmarks: its tables by `neutron-db-manage`, filled here, its API by gunicorn.

Each instance of `benchmarks.nova` has a port, which Open vSwitch has bound on its host; some have a QoS
policy with guaranteed bandwidth. The agents of all hosts count as alive for as long as a run takes, so that
neutron binds a port again whose binding profile is written, as it does in a cloud. There is no message bus:
what neutron tells its agents goes nowhere.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks import clouds, databases, environments, nova
from benchmarks.case import Unavailable
from benchmarks.nova import Row
from benchmarks.processes import find_free_port
from benchmarks.servers import PATIENCE, WORKERS

PROGRAM = pathlib.Path(__file__).with_name("neutron_api.py")
#: neutron's own but for keystonemiddleware, whose headers are set by the program that serves
PASTE = """\
[composite:neutron]
use = egg:Paste#urlmap
/: neutronversions
/v2.0: neutronapi
[pipeline:neutronapi]
pipeline = request_id catch_errors keystonecontext extensions neutronapiapp_v2_0
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
[filter:catch_errors]
paste.filter_factory = oslo_middleware:CatchErrors.factory
[filter:keystonecontext]
paste.filter_factory = neutron.auth:NeutronKeystoneContext.factory
[filter:extensions]
paste.filter_factory = neutron.api.extensions:plugin_aware_extension_middleware_factory
[app:neutronversions]
paste.app_factory = neutron.pecan_wsgi.app:versions_factory
[app:neutronapiapp_v2_0]
paste.app_factory = neutron.api.v2.router:APIRouter.factory
"""
#: what the neutron of the functional tests has as well
COMMON_CONFIGURATION = """\
[DEFAULT]
auth_strategy = keystone
core_plugin = ml2
service_plugins = qos
transport_url = fake://
rpc_workers = 0
state_path = {directory}
log_file = {directory}/neutron.log
api_paste_config = {directory}/api-paste.ini
[database]
connection = {database}
[oslo_concurrency]
lock_path = {directory}
"""
CONFIGURATION = f"""\
{COMMON_CONFIGURATION}
[DEFAULT]
# as long as a run takes
agent_down_time = 86400
# there is no nova to tell
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[ml2]
type_drivers = vlan
tenant_network_types = vlan
mechanism_drivers = openvswitch
extension_drivers = qos,port_security
[ml2_type_vlan]
network_vlan_ranges = physnet0:100:4000
"""
#: networks that the ports are on in turn
NETWORKS = 20
FIRST_VLAN = 100
#: kbit/s in each direction
BANDWIDTH = 1000
AGENT = {
    "agent_type": "Open vSwitch agent",
    "binary": "neutron-openvswitch-agent",
    "topic": "N/A",
    "admin_state_up": True,
    "load": 0,
    "configurations": json.dumps(
        {
            "bridge_mappings": {"physnet0": clouds.BRIDGE},
            "datapath_type": "system",
            "devices": 10,
            "resource_provider_bandwidths": {clouds.BRIDGE: {"egress": 10_000_000, "ingress": 10_000_000}},
            "resource_provider_hypervisors": {},
            "tunnel_types": [],
        }
    ),
}
POLICY = clouds.make_uuid("policy")
SECURITY_GROUP = clouds.make_uuid("security group")


@dataclass(frozen=True)
class Neutron:
    """A neutron that serves: its URL, that of its database, and the process whose children serve."""

    url: str
    database: str
    pid: int

    def show_port(self, number: int) -> Mapping[str, Any]:
        """The port of an instance, as an administrator sees it."""
        with urllib.request.urlopen(f"{self.url}/v2.0/ports/{port_uuid(number)}", timeout=PATIENCE) as answer:
            port: Mapping[str, Any] = json.load(answer)["port"]
        return port


def port_uuid(number: int) -> str:
    """The UUID of the port of an instance."""
    return clouds.make_uuid(f"port{number}")


@contextlib.contextmanager
def serving(directory: pathlib.Path, size: nova.Size, guaranteed: int) -> Iterator[Neutron]:
    """A neutron with a port for each instance, of which the first so many have guaranteed bandwidth."""
    try:
        binaries = environments.compile_all(environments.make_neutron())
    except environments.NotInstallable as error:
        raise Unavailable(f"neutron cannot be installed: {error}") from error
    with databases.mariadb(directory) as database:
        (directory / "api-paste.ini").write_text(PASTE)
        conf = directory / "neutron.conf"
        conf.write_text(CONFIGURATION.format(directory=directory, database=database))
        manage = [binaries / "neutron-db-manage", "--config-file", conf, "upgrade", "heads"]
        subprocess.run(manage, check=True, capture_output=True)
        nova.insert(database, _rows(size, guaranteed))
        with _started(binaries, conf) as (url, pid):
            yield Neutron(url, database, pid)


@contextlib.contextmanager
def _started(binaries: pathlib.Path, conf: pathlib.Path) -> Iterator[tuple[str, int]]:
    bind = f"127.0.0.1:{find_free_port()}"
    log = conf.with_name("neutron-api.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            # not with the directory of the program in its path, where modules have the names of packages
            [binaries / "python", "-P", PROGRAM, "--config-file", conf],
            cwd=conf.parent,
            env={**os.environ, "BENCH_BIND": bind, "BENCH_WORKERS": str(WORKERS)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://{bind}"
        give_up = time.monotonic() + PATIENCE
        while not _answers(url):
            if time.monotonic() > give_up or process.poll() is not None:
                raise RuntimeError(f"neutron does not answer; its log:\n{log.read_text()}")
            time.sleep(0.1)
        yield url, process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v2.0/networks?limit=1", timeout=PATIENCE):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False


class _Attributes:
    """The rows of the table that has an id for each thing of the tables of things."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, kind: str) -> dict[str, int]:
        """The column that refers to another one."""
        # neutron's migrations may have made some
        number = 1_000_000 + len(self.rows)
        self.rows.append({"id": number, "resource_type": kind, "revision_number": 1})
        return {"standard_attr_id": number}


def _rows(size: nova.Size, guaranteed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each table, after those of the tables that they refer to."""
    attributes = _Attributes()
    networks, uuids = list(map(_network, range(NETWORKS))), list(map(port_uuid, range(size.instances)))
    group = {"id": SECURITY_GROUP, "name": "default", "project_id": "admin", "stateful": True}
    policy = {"id": POLICY, "name": "guaranteed", "project_id": "admin"}
    tables = [
        ("networks", [_network_row(number, attributes) for number in range(NETWORKS)]),
        ("networksecuritybindings", [_secured("network_id", network) for network in networks]),
        ("subnets", [_subnet(number, attributes) for number in range(NETWORKS)]),
        ("networksegments", [_segment(number, attributes) for number in range(NETWORKS)]),
        ("securitygroups", [{**group, **attributes.add("securitygroups")}]),
        ("qos_policies", [{**policy, **attributes.add("qos_policies")}]),
        ("qos_minimum_bandwidth_rules", [_rule(direction) for direction in ("egress", "ingress")]),
        ("ports", [{**_port(number), **attributes.add("ports")} for number in range(size.instances)]),
        ("portsecuritybindings", [_secured("port_id", port) for port in uuids]),
        (
            "securitygroupportbindings",
            [{"port_id": port, "security_group_id": SECURITY_GROUP} for port in uuids],
        ),
        ("ipallocations", [_address(number) for number in range(size.instances)]),
        ("qos_port_policy_bindings", [{"policy_id": POLICY, "port_id": port} for port in uuids[:guaranteed]]),
        ("ml2_port_bindings", [_binding(number, size) for number in range(size.instances)]),
        ("ml2_port_binding_levels", [_binding_level(number, size) for number in range(size.instances)]),
        ("agents", [_agent(number) for number in range(size.hosts)]),
    ]
    yield "standardattributes", attributes.rows
    yield from tables


def _network(number: int) -> str:
    return clouds.make_uuid(f"network{number % NETWORKS}")


def _network_row(number: int, attributes: _Attributes) -> Row:
    return {
        "id": _network(number),
        "project_id": "admin",
        **attributes.add("networks"),
        "name": f"n{number}",
        "status": "ACTIVE",
        "mtu": 1500,
        "admin_state_up": True,
    }


def _subnet(number: int, attributes: _Attributes) -> Row:
    return {
        "id": clouds.make_uuid(f"subnet{number}"),
        "network_id": _network(number),
        "project_id": "admin",
        "ip_version": 4,
        "cidr": f"10.{number}.0.0/16",
        "enable_dhcp": False,
        **attributes.add("subnets"),
    }


def _segment_uuid(number: int) -> str:
    return clouds.make_uuid(f"segment{number % NETWORKS}")


def _segment(number: int, attributes: _Attributes) -> Row:
    return {
        "id": _segment_uuid(number),
        "network_id": _network(number),
        "network_type": "vlan",
        "physical_network": "physnet0",
        "segmentation_id": FIRST_VLAN + number,
        "is_dynamic": False,
        "segment_index": 0,
        **attributes.add("networksegments"),
    }


def _rule(direction: str) -> Row:
    return {
        "id": clouds.make_uuid(f"rule {direction}"),
        "qos_policy_id": POLICY,
        "min_kbps": BANDWIDTH,
        "direction": direction,
    }


def _secured(column: str, value: str) -> Row:
    return {column: value, "port_security_enabled": True}


def _port(number: int) -> Row:
    return {
        "id": port_uuid(number),
        "name": "",
        "network_id": _network(number),
        "mac_address": f"fa:16:3e:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
        "admin_state_up": True,
        "status": "ACTIVE",
        "device_id": nova.instance_uuid(number),
        "device_owner": "compute:nova",
        "project_id": nova.project_name(number),
        "ip_allocation": "immediate",
    }


def _address(number: int) -> Row:
    network, place = number % NETWORKS, number // NETWORKS
    return {
        "port_id": port_uuid(number),
        "ip_address": str(ipaddress.IPv4Address(f"10.{network}.0.10") + place),
        "subnet_id": clouds.make_uuid(f"subnet{network}"),
        "network_id": _network(number),
    }


def _binding(number: int, size: nova.Size) -> Row:
    return {
        "port_id": port_uuid(number),
        "host": nova.host_name(number % size.hosts),
        "vnic_type": "normal",
        "profile": "",
        "vif_type": "ovs",
        "vif_details": json.dumps({"port_filter": True, "connectivity": "l2"}),
        "status": "ACTIVE",
    }


def _binding_level(number: int, size: nova.Size) -> Row:
    return {
        "port_id": port_uuid(number),
        "host": nova.host_name(number % size.hosts),
        "level": 0,
        "driver": "openvswitch",
        "segment_id": _segment_uuid(number),
    }


def _agent(number: int) -> Row:
    now = datetime.now(UTC).replace(tzinfo=None)
    times = dict.fromkeys(("created_at", "started_at", "heartbeat_timestamp"), now)
    return {**AGENT, **times, "id": str(uuid.uuid4()), "host": nova.host_name(number)}
