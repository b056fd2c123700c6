# SPDX-License-Identifier: Apache-2.0
"""Ports from databases of neutron of several releases; the functional tests have a real one."""

import json

import pytest
import sqlalchemy as sa

from osc_placement.migrate.nova.neutron_db import NeutronDatabase
from osc_placement.migrate.nova.ports import Port
from osc_placement.migrate.nova.source import Unreadable

PORT, INSTANCE = "7b95cff1-7662-4420-8c9d-53c3b78a81aa", "i1"
#: the columns that are read, as they were in Stein
STEIN = {
    "ports": ("id", "network_id", "device_id", "device_owner"),
    "ml2_port_bindings": ("port_id", "host", "vnic_type", "vif_type", "profile", "status"),
    "qos_minimum_bandwidth_rules": ("id", "qos_policy_id", "direction", "min_kbps"),
    "qos_port_policy_bindings": ("port_id", "policy_id"),
    "qos_network_policy_bindings": ("network_id", "policy_id"),
    "networksegments": ("network_id", "physical_network", "segment_index"),
}
ROWS = {
    "ports": [(PORT, "n", INSTANCE, "compute:nova")],
    "ml2_port_bindings": [
        (PORT, "h1", "normal", "ovs", "", "ACTIVE"),
        (PORT, "h2", "normal", "ovs", "", "INACTIVE"),
    ],
    "qos_minimum_bandwidth_rules": [("r", "gold", "egress", 1000), ("s", "silver", "ingress", 5)],
    "qos_port_policy_bindings": [(PORT, "gold")],
    "qos_network_policy_bindings": [("n", "silver")],
    "networksegments": [("n", "late", 1), ("n", "early", 0)],
}


@pytest.fixture
def read(tmp_path):
    """A function that makes a database with these rows in place of the usual ones; the ports in it."""

    def make(schema=STEIN, **rows):
        path = tmp_path / "neutron.db"
        path.unlink(missing_ok=True)
        engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            for table, columns in schema.items():
                connection.exec_driver_sql(f"CREATE TABLE {table} ({', '.join(columns)})")
                for row in {**ROWS, **rows}.get(table, ()):
                    marks = ", ".join("?" * len(columns))
                    statement = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608
                    connection.exec_driver_sql(statement, row[: len(columns)])
        return NeutronDatabase(f"sqlite:///{path}").list_ports()

    return make


def test_port_has_the_rules_of_its_policy(read):
    """Those of its own policy before its network's, on its active binding, with the first segment's trait."""
    (port,) = read()
    assert (port.uuid, port.instance, port.host, port.error) == (PORT, INSTANCE, "h1", "")
    assert [(dict(group.resources), group.required) for group in port.groups] == [
        ({"NET_BW_EGR_KILOBIT_PER_SEC": 1000}, {"CUSTOM_PHYSNET_EARLY", "CUSTOM_VNIC_TYPE_NORMAL"})
    ]


def test_port_is_chosen_by_its_device(read):
    """Users may name any owner; a port of no device is left out."""
    rows = [(PORT, "n", INSTANCE, "mine"), ("free", "n", "", "")]
    assert [port.uuid for port in read(ports=rows)] == [PORT]


def test_port_without_a_policy_has_that_of_its_network(read):
    """As neutron decides it."""
    (port,) = read(qos_port_policy_bindings=[])
    assert [dict(group.resources) for group in port.groups] == [{"NET_BW_IGR_KILOBIT_PER_SEC": 5}]


def test_later_tables_are_read_where_they_are(read):
    """Packet rates came with Yoga, device profiles with Wallaby."""
    later = {
        "qos_minimum_packet_rate_rules": ("id", "qos_policy_id", "direction", "min_kpps"),
        "portdeviceprofiles": ("port_id", "device_profile"),
    }
    (port,) = read(
        {**STEIN, **later},
        qos_minimum_packet_rate_rules=[("t", "gold", "any", 50)],
        portdeviceprofiles=[(PORT, "smartnic")],
    )
    assert [dict(group.resources) for group in port.groups][1] == {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 50}
    assert port.device_profile == "smartnic"


def test_profile_of_a_neutron_of_before_yoga_names_one_provider(read):
    """Its requests have one group without an id, and so have those of its API."""
    (port,) = read()
    assert (port.is_grouped, [group.id for group in port.groups]) == (False, [PORT])
    later = {"qos_minimum_packet_rate_rules": ("id", "qos_policy_id", "direction", "min_kpps")}
    (port,) = read({**STEIN, **later})
    assert port.is_grouped
    assert [group.id for group in port.groups] != [PORT]


def test_binding_without_a_status_is_the_only_one(read):
    """Before Rocky a port had one."""
    columns = STEIN["ml2_port_bindings"][:-1]
    (port,) = read({**STEIN, "ml2_port_bindings": columns}, ml2_port_bindings=[ROWS["ml2_port_bindings"][0]])
    assert port.host == "h1"


def test_port_that_asks_for_nothing_is_not_relevant(read):
    """It is returned all the same, as it tells that its instance has a port."""
    (port,) = read(qos_port_policy_bindings=[], qos_network_policy_bindings=[])
    assert (port.instance, port.is_relevant) == (INSTANCE, False)


def test_granted_port_matters_without_a_policy(read):
    """Its instance may hold what was granted."""
    profile = json.dumps({"allocation": {"g": "rp"}})
    binding = (PORT, "h1", "normal", "ovs", profile, "ACTIVE")
    (port,) = read(qos_port_policy_bindings=[], qos_network_policy_bindings=[], ml2_port_bindings=[binding])
    assert (port.groups, port.granted) == ((), {"g": "rp"})


def test_port_without_binding_is_on_no_host(read):
    """It still asks for what it asks for."""
    (port,) = read(ml2_port_bindings=[])
    assert (port.host, len(port.groups)) == ("", 1)


@pytest.mark.parametrize("profile", ["{", "[1]"])
def test_unreadable_profile_is_an_error_of_the_port(read, profile):
    """An unknown provider is not an absent one."""
    (port,) = read(ml2_port_bindings=[(PORT, "h1", "normal", "ovs", profile, "ACTIVE")])
    assert port.error.startswith("its resource request cannot be read")


def test_rule_with_an_unknown_direction_is_an_error_of_the_port(read):
    """A later neutron may have others."""
    (port,) = read(qos_minimum_bandwidth_rules=[("r", "gold", "sideways", 1)])
    assert "sideways" in port.error


def test_other_database_is_unreadable(tmp_path):
    """The line names the database and the table."""
    path = tmp_path / "other.db"
    sa.create_engine(f"sqlite:///{path}").connect().exec_driver_sql("CREATE TABLE a (b)")
    with pytest.raises(Unreadable, match=r"^neutron's database: there is no table .*database of neutron"):
        NeutronDatabase(f"sqlite:///{path}").list_ports()


def test_database_writes_no_profile(tmp_path):
    """It says what does."""
    (tmp_path / "neutron.db").touch()
    database = NeutronDatabase(f"sqlite:///{tmp_path}/neutron.db")
    (reason,) = database.grant_all([(Port(PORT, INSTANCE), "rp")])
    assert "without --neutron-db, or with --write-neutron-db" in reason
    assert database.refuse(Port(PORT, INSTANCE, "h1")) == reason
