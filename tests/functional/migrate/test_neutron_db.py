# SPDX-License-Identifier: Apache-2.0
"""Neutron's database beside its API: the requests of ports, and binding profiles that are written there."""

import contextlib
import threading

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from osc_placement.migrate.nova.neutron_db import NeutronDatabase
from osc_placement.migrate.nova.ports import KEEPS_CHANGING, Port
from osc_placement.migrate.nova.source import Unreadable
from tests import databases
from tests.functional.migrate import neutron as networking
from tests.functional.migrate.nova_databases import new_uuid

PROVIDER = "9ab7b50e-cb5b-4464-928e-488dba76f257"


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def serving_neutron(request, tmp_path_factory):
    """A neutron on each kind of database, which all tests of this file share."""
    directory = tmp_path_factory.mktemp("neutron")
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(databases.make_database(request.param, directory))
        yield stack.enter_context(networking.starting(directory, made))()


@pytest.fixture
def neutron(serving_neutron):
    """The neutron, without ports."""
    yield serving_neutron
    serving_neutron.forget_ports()


@pytest.fixture(scope="module")
def network(serving_neutron):
    """A network of physnet0."""
    return serving_neutron.add_network()


@pytest.fixture(scope="module")
def policy(serving_neutron):
    """A QoS policy that guarantees something of every kind."""
    return serving_neutron.add_policy(egress=1000, ingress=2000, packets=50)


@pytest.fixture
def add_ports(neutron, network, policy):
    """A function that makes ports of instances; returns them as they are read, with what is to be granted."""

    def add(number=1, profile=None):
        wanted = [
            neutron.add_port(network, new_uuid(), qos_policy_id=policy, profile=profile)
            for _ in range(number)
        ]
        ports = {port.uuid: port for port in NeutronDatabase(neutron.database, may_write=True).list_ports()}
        return [(ports[uuid], {group.id: PROVIDER for group in ports[uuid].groups}) for uuid in wanted]

    return add


@pytest.fixture
def write(neutron):
    """A function that writes grants to the database; returns the reasons why they were not written."""
    return lambda grants: NeutronDatabase(neutron.database, may_write=True).grant_all(grants)


@contextlib.contextmanager
def before_each_write(neutron, port, statement, times=1):
    """Change a port, so many times, right before a transaction would write its binding profile."""
    left = [times]

    def act(_connection, _cursor, text, parameters, *_):
        is_write = text.startswith("UPDATE ml2_port_bindings SET profile=") and port in str(parameters)
        if is_write and left[0]:
            left[0] -= 1
            neutron.execute(statement, port=port)

    sa.event.listen(Engine, "before_cursor_execute", act)
    try:
        yield
    finally:
        sa.event.remove(Engine, "before_cursor_execute", act)
    assert left == [0]


def test_groups_of_a_request_have_the_ids_of_the_api(neutron, network):
    """Neutron makes them of the rules in the order of its database; nova finds providers by them."""
    for _ in range(8):
        policy = neutron.add_policy(egress=1000, ingress=2000, packets=50)
        neutron.add_port(network, new_uuid(), qos_policy_id=policy)
    ports = NeutronDatabase(neutron.database, may_write=True).list_ports()
    assert len(ports) == 8
    for port in ports:
        groups = neutron.show_port(port.uuid)["resource_request"]["request_groups"]
        assert [group.id for group in port.groups] == [group["id"] for group in groups]


def test_api_shows_a_port_that_is_bound_as_before_with_its_new_profile(neutron, add_ports, write):
    """A client that read the port before cannot replace its profile under If-Match."""
    ((port, allocation),) = add_ports(profile={"trusted": "true"})
    before = neutron.show_port(port.uuid)
    assert write([(port, allocation)]) == [""]
    after = neutron.show_port(port.uuid)
    assert after["binding:profile"] == {"trusted": "true", "allocation": allocation}
    assert after["revision_number"] == before["revision_number"] + 1
    changed = ("binding:profile", "revision_number", "updated_at")
    assert {**after, **{key: before[key] for key in changed}} == before
    revision = f"revision_number={before['revision_number']}"
    with pytest.raises(AssertionError, match="412"):
        neutron.call("PUT", f"/ports/{port.uuid}", {"port": {"binding:profile": {}}}, {"If-Match": revision})
    assert write([(port, allocation)]) == [""]
    assert neutron.show_port(port.uuid) == after


#: by name, a change of a port between the read and the write of its profile, and the line about it
CHANGES = {
    "other providers": (
        """UPDATE ml2_port_bindings SET profile = '{"allocation": "x"}' WHERE port_id = :port""",
        "somebody else granted resources to it",
    ),
    "other host": (
        "UPDATE ml2_port_bindings SET host = 'h2' WHERE port_id = :port",
        "it is no longer bound to h1",
    ),
    "unbound": (
        "UPDATE ml2_port_bindings SET vif_type = 'unbound' WHERE port_id = :port",
        "it is no longer bound to h1",
    ),
    "inactive": (
        "UPDATE ml2_port_bindings SET status = 'INACTIVE' WHERE port_id = :port",
        "it was deleted, or is bound to no host any more",
    ),
    "unreadable": (
        "UPDATE ml2_port_bindings SET profile = '{' WHERE port_id = :port",
        "its profile cannot be read",
    ),
    "other instance": (
        "UPDATE ports SET device_id = 'x' WHERE id = :port",
        "it belongs to another instance by now",
    ),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_port_that_is_changed_before_its_profile_is_written_is_left_alone(
    neutron, add_ports, write, change, reason
):
    """The change is kept, and the other port of the transaction is written."""
    grants = add_ports(2)
    uuid = grants[0][0].uuid
    with before_each_write(neutron, uuid, change):
        written, other = write(grants)
    assert (written.partition(":")[0], other) == (reason, "")
    assert PROVIDER not in neutron.read_binding(uuid)["profile"]
    assert neutron.show_granted(grants[1][0].uuid) == grants[1][1]


def test_profile_keeps_what_others_write_into_it_meanwhile(neutron, add_ports, write):
    """The port is read again; MariaDB does not tell letters by their case, so its revision is compared."""
    ((port, allocation),) = add_ports(profile={"key": "a"})
    profile = """UPDATE ml2_port_bindings SET profile = '{"key": "A"}' WHERE port_id = :port"""
    revision = (
        "UPDATE standardattributes SET revision_number = revision_number + 1"
        " WHERE id = (SELECT standard_attr_id FROM ports WHERE id = :port)"
    )
    with (
        before_each_write(neutron, port.uuid, profile),
        before_each_write(neutron, port.uuid, revision),
    ):
        assert write([(port, allocation)]) == [""]
    assert neutron.show_port(port.uuid)["binding:profile"] == {"key": "A", "allocation": allocation}


def test_port_that_keeps_changing_is_left_alone(neutron, add_ports, write):
    """The others of its transaction do not have to wait for it."""
    (port, allocation), other = add_ports(2, {"key": "a"})
    change = """UPDATE ml2_port_bindings SET profile = REPLACE(profile, '"}', 'b"}') WHERE port_id = :port"""
    with before_each_write(neutron, port.uuid, change, 4):
        assert write([(port, allocation), other]) == [KEEPS_CHANGING, ""]
    assert neutron.show_granted(port.uuid) is None


def test_profile_that_would_be_too_long_is_not_written(neutron, add_ports, write):
    """Neutron has 4,095 characters for it."""
    (grant,) = add_ports(profile={"key": "x" * 4000})
    (reason,) = write([grant])
    assert reason.endswith("characters, and neutron allows 4,095")
    assert neutron.show_granted(grant[0].uuid) is None


def test_deleted_port_is_left_alone(neutron, add_ports, write):
    """The line says so."""
    grants = add_ports()
    neutron.forget_ports()
    assert write(grants) == ["it was deleted, or is bound to no host any more"]


@pytest.mark.parametrize("serving_neutron", ["mariadb"], indirect=True)
def test_writer_that_the_database_aborts_after_a_deadlock_repeats_its_transaction(neutron, add_ports, write):
    """Two of them lock the same two rows in another order; each profile is written once."""
    grants = add_ports(2)
    before = {port.uuid: neutron.show_port(port.uuid)["revision_number"] for port, _ in grants}
    both_lock, found, waited = threading.Barrier(2, timeout=30), [], []

    def wait_for_the_other(_connection, _cursor, text, *_):
        thread = threading.current_thread()
        if text.startswith("UPDATE ml2_port_bindings SET profile=") and thread not in waited:
            waited.append(thread)
            both_lock.wait()

    sa.event.listen(Engine, "after_cursor_execute", wait_for_the_other)
    try:
        threads = [
            threading.Thread(target=lambda order=order: found.append(write(grants[::order])))
            for order in (1, -1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sa.event.remove(Engine, "after_cursor_execute", wait_for_the_other)
    assert found == [["", ""]] * 2
    for port, allocation in grants:
        after = neutron.show_port(port.uuid)
        assert after["binding:profile"] == {"allocation": allocation}
        assert after["revision_number"] == before[port.uuid] + 1


@pytest.mark.parametrize("serving_neutron", ["mariadb"], indirect=True)
def test_row_that_stays_locked_does_not_keep_others_from_being_written(neutron, add_ports):
    """The others are written one by one after the first transaction was aborted."""
    grants = add_ports(3)
    locked = grants[1][0].uuid
    url = sa.make_url(neutron.database).update_query_dict({"init_command": "SET innodb_lock_wait_timeout=1"})
    database = NeutronDatabase(url.render_as_string(hide_password=False), may_write=True)
    engine = sa.create_engine(neutron.database)
    with engine.connect() as connection:
        lock = "SELECT * FROM ml2_port_bindings WHERE port_id = :port FOR UPDATE"
        connection.execute(sa.text(lock), {"port": locked})
        first, reason, last = database.grant_all(grants)
    engine.dispose()
    assert (first, reason.partition(":")[0], last) == ("", "the database aborted each transaction", "")
    assert neutron.show_granted(locked) is None
    assert [bool(neutron.show_granted(port.uuid)) for port, _ in grants] == [True, False, True]


def test_ports_that_were_written_before_the_database_fails_are_not_said_to_be_left(neutron, add_ports, write):
    """The second transaction, of the port that was changed, is refused."""
    (port, allocation), other = add_ports(2, {"key": "a"})
    change = """UPDATE ml2_port_bindings SET profile = '{"key": "b"}' WHERE port_id = :port"""
    began = []

    def refuse_second(_connection):
        began.append(1)
        if len(began) > 1:
            raise sa.exc.OperationalError("BEGIN", {}, Exception("no space left"))

    with before_each_write(neutron, port.uuid, change):
        database = NeutronDatabase(neutron.database, may_write=True)
        sa.event.listen(database._writable._engine, "begin", refuse_second)
        reasons = database.grant_all([(port, allocation), other])
    assert reasons == ["neutron's database: no space left", ""]
    assert neutron.show_granted(other[0].uuid) == other[1]


def test_postgresql_writes_no_profile_of_a_port_that_another_transaction_changes(tmp_path):
    """The change is not committed when the profile is written. Only the tables in question are made."""
    uuid, instance, other = new_uuid(), new_uuid(), new_uuid()
    port = Port(uuid, instance, "host")
    with databases.make_database("postgresql", tmp_path) as url:
        engine = sa.create_engine(url)
        tables = sa.MetaData()
        ports = sa.Table(
            "ports",
            tables,
            sa.Column("id", sa.String(36)),
            sa.Column("device_id", sa.String(36)),
            sa.Column("standard_attr_id", sa.BigInteger),
        )
        attributes = sa.Table(
            "standardattributes",
            tables,
            sa.Column("id", sa.BigInteger),
            sa.Column("revision_number", sa.BigInteger),
            sa.Column("updated_at", sa.DateTime),
        )
        names = ("port_id", "host", "vif_type", "profile", "status")
        bindings = sa.Table(
            "ml2_port_bindings", tables, *[sa.Column(name, sa.String(4095)) for name in names]
        )
        tables.create_all(engine)
        with engine.begin() as connection:
            connection.execute(ports.insert().values((uuid, instance, 1)))
            connection.execute(attributes.insert().values((1, 5, None)))
            connection.execute(bindings.insert().values((uuid, "host", "ovs", "", "ACTIVE")))
        database = NeutronDatabase(url, may_write=True)
        found = []
        writer = threading.Thread(target=lambda: found.extend(database.grant_all([(port, {"1": PROVIDER})])))
        with engine.begin() as connection:
            connection.execute(ports.update().values(device_id=other))
            connection.execute(attributes.update().values(revision_number=6))
            writer.start()
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while writer.is_alive() and not connection.exec_driver_sql(waiting).scalar():
                writer.join(0.01)
        writer.join()
        with engine.connect() as connection:
            profile = connection.execute(sa.select(bindings.c.profile)).scalar()
        engine.dispose()
        database._writable._engine.dispose()
        database._database._engine.dispose()
    assert [reason.partition(":")[0] for reason in found] == ["it belongs to another instance by now"]
    assert profile == ""


@pytest.mark.parametrize("serving_neutron", ["mariadb"], indirect=True)
def test_account_that_may_only_read_writes_nothing(neutron, add_ports):
    """The error is that of the database."""
    grants = add_ports()
    url = sa.make_url(neutron.database)
    name = f"reader_{new_uuid()[:8]}"
    neutron.execute(f"CREATE USER {name} IDENTIFIED BY 'secret'")
    try:
        neutron.execute(f"GRANT SELECT ON {url.database}.* TO {name}")
        reader = url.set(username=name, password="secret").render_as_string(hide_password=False)
        database = NeutronDatabase(reader, may_write=True)
        with pytest.raises(Unreadable, match=f"^neutron's database: UPDATE command denied to user '{name}'"):
            database.grant_all(grants)
    finally:
        neutron.execute(f"DROP USER {name}")
    assert neutron.show_granted(grants[0][0].uuid) is None
