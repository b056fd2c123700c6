# SPDX-License-Identifier: Apache-2.0
"""Ports that ask for bandwidth or packet rate, in a real neutron, beside what nova-manage does with them."""

import contextlib
import functools
import subprocess

import pytest
import sqlalchemy as sa

from osc_placement.model import Inventory
from tests.functional.forking import ForkedProcess, find_server
from tests.functional.migrate import neutron as networking
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.placement import CLAIM, give, held_by, hold
from tests.functional.servers import make_environment
from tests.waiting import wait_until

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

EGRESS, INGRESS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"
RATE = "NET_PACKET_RATE_KILOPACKET_PER_SEC"
NORMAL, PHYSNET0, PHYSNET1 = (
    f"CUSTOM_{name}" for name in ("VNIC_TYPE_NORMAL", "PHYSNET_PHYSNET0", "PHYSNET_PHYSNET1")
)

NEUTRON = """
[neutron]
auth_type = admin_token
endpoint = {url}
endpoint_override = {url}
token = admin
"""
HEAL = ("placement", "heal_allocations")


@pytest.fixture(scope="module", autouse=True)
def starting_neutron(tmp_path_factory):
    """A function that returns the neutron when it serves; tests that do not need it are the first."""
    with networking.starting(tmp_path_factory.mktemp("neutron")) as wait:
        yield wait


@pytest.fixture(scope="module")
def serving_neutron(starting_neutron):
    """A neutron that all tests of this file share."""
    return starting_neutron()


@pytest.fixture
def neutron(serving_neutron):
    """The neutron, without ports."""
    yield serving_neutron
    serving_neutron.forget_ports()


@pytest.fixture
def accesses(neutron):
    """The options that name neutron's database, and those that name its API."""
    return [("--neutron-db", neutron.database), ("--neutron-endpoint", neutron.url)]


@pytest.fixture
def writing(neutron):
    """The words of a healing that writes to neutron's database."""
    return ("--neutron-db", neutron.database, "heal-allocations", "--write-neutron-db")


@pytest.fixture
def of_nova(nova_conf, neutron):
    """The nova.conf with neutron in it, as nova-manage needs it."""
    with nova_conf.open("a") as file:
        file.write(NEUTRON.format(url=neutron.url))
    return nova_conf


@pytest.fixture
def host(client, add_host):
    """The host h1 as neutron's agent reports it: the node, its agent, and a bridge."""
    node = add_host("h1")
    agent = client.create_provider("h1:Open vSwitch agent", parent=node)["uuid"]
    bridge = client.create_provider("h1:Open vSwitch agent:br0", parent=agent)["uuid"]
    for trait in (NORMAL, PHYSNET0, PHYSNET1):
        client.create_trait(trait)
    give(client, agent, {RATE: Inventory(1000)}, [NORMAL])
    give(client, bridge, {EGRESS: Inventory(10000), INGRESS: Inventory(10000)}, [NORMAL, PHYSNET0])
    return node, agent, bridge


@pytest.fixture(scope="module")
def policy(serving_neutron):
    """A QoS policy that guarantees something of every kind."""
    return serving_neutron.add_policy(egress=1000, ingress=2000, packets=50)


@pytest.fixture(scope="module")
def network(serving_neutron):
    """A network of physnet0."""
    return serving_neutron.add_network()


def found(document):
    """Return by instance why it was left alone."""
    return {row["subject"].removeprefix("instance "): row["reason"] for row in document["findings"]}


ONLY_PORTS = {"extensions": [{"alias": "qos"}]}
KNOWN = {"extensions": [{"alias": "port-resource-request"}]}
#: by name, the options that name a neutron which cannot be read, what it answers, and the line about it
UNREADABLE = {
    "refuses connections": (["--neutron-endpoint", "http://127.0.0.1:9"], None, "Connection refused"),
    "has no file": (["--neutron-db", "sqlite:////no/x"], None, "there is no file /no/x"),
    "has no address": ([], None, "there is no address of neutron"),
    "does not answer": (["--timeout", "0.3"], {}, "timed out"),
    "fails": ([], {"extensions": (503, {})}, "ended with 503"),
    "is older than Stein": ([], {"extensions": (200, ONLY_PORTS)}, "no extension port-resource-request"),
    "hides what it has": (
        [],
        {"extensions": (200, KNOWN), "ports": (200, {"ports": [{"id": "p", "device_id": "i"}]})},
        "does not show binding:profile and resource_request",
    ),
}


def test_unreadable_neutron_is_unknown(cloud, client, host, add_host, migrate_json):
    """Nothing is written for instances of hosts with bandwidth; others are healed."""
    add_host("h2")
    unknown, plain = cloud.add_instance("h1"), cloud.add_instance("h2")
    for name, (options, answers, text) in UNREADABLE.items():
        with contextlib.ExitStack() as served:
            way = list(options)
            if answers is not None:
                way += ["--neutron-endpoint", served.enter_context(networking.answering(answers))]
            document, status = migrate_json(*way, "heal-allocations")
            assert ([row["uuid"] for row in document["rows"]], status) == ([plain], 4), name
            assert found(document) == {unknown: "unknown"}, name
            assert text in document["findings"][0]["text"]
            assert (held_by(client, unknown), held_by(client, plain).popitem()[1]) == ({}, CLAIM), name
            client.delete_allocations(plain)
    assert [migrate_json(command)[1] for command in ("status", "audit")] == [4, 4]


def test_ports_are_skipped_on_request_and_the_output_says_so(cloud, client, host, migrate, migrate_json):
    """Without neutron a cloud with bandwidth can then be judged, but for its ports."""
    instance = cloud.add_instance("h1")
    skip, said = "--skip-port-allocations", "Ports were not judged"
    document, status = migrate_json("audit", skip)
    assert (found(document), document["skipped"].startswith(said), status) == (
        {instance: "no allocations"},
        True,
        3,
    )
    done = migrate("heal-allocations", skip)
    assert (done.returncode, done.stdout.count(said)) == (0, 1)
    assert held_by(client, instance) == {host[0]: CLAIM}
    document, status = migrate_json("status", skip)
    assert (document["ready"], document["skipped"].startswith(said), status) == (True, True, 0)
    assert document["sentence"].startswith("It is safe to leave the caching scheduler")
    assert said in document["sentence"]
    done = migrate("audit", skip)
    assert (done.returncode, done.stdout.count(said)) == (0, 1)


def test_healing_of_ports_equals_nova_manage(
    cloud, client, host, neutron, policy, network, of_nova, migrate_json, accesses, writing
):
    """Instances with and without other allocations get those of their ports, as nova-manage makes them."""
    node, agent, bridge = host
    fresh, partly, plain = (cloud.add_instance("h1") for _ in range(3))
    two = neutron.add_policy(egress=300)
    ports = [
        neutron.add_port(network, fresh, qos_policy_id=policy),
        neutron.add_port(network, fresh, qos_policy_id=two),
        neutron.add_port(network, partly, qos_policy_id=policy),
    ]
    neutron.add_port(network, plain)
    asked = {agent: {RATE: 50}, bridge: {EGRESS: 1000, INGRESS: 2000}}
    expected = {
        fresh: {node: CLAIM, agent: {RATE: 50}, bridge: {EGRESS: 1300, INGRESS: 2000}},
        partly: {node: CLAIM, **asked},
        plain: {node: CLAIM},
    }

    def start_again():
        for uuid in filter(functools.partial(held_by, client), expected):
            client.delete_allocations(uuid)
        hold(client, partly, {node: CLAIM})

    for access in accesses:
        is_api = access[0] == "--neutron-endpoint"
        start_again()
        planned, _ = migrate_json(*access, "heal-allocations", "--dry-run")
        document, status = migrate_json(*access, "heal-allocations")
        assert {row["uuid"]: row["result"] for row in document["rows"]} == dict.fromkeys(expected, "applied")
        assert {uuid: held_by(client, uuid) for uuid in expected} == expected
        written = sorted(ports) if is_api else []
        assert (sorted(document["ports"]), status) == (written, 0 if is_api else 3)
        assert (sorted(planned["ports"]), planned["findings"]) == (written, document["findings"])
    ours = [neutron.show_granted(port) for port in ports]
    of_api = [neutron.read_binding(port) for port in ports]
    for port in ports:
        neutron.bind(port, "h1")
    before = [neutron.show_port(port) for port in ports]
    start_again()
    planned, status = migrate_json(*writing, "--dry-run")
    assert (sorted(planned["ports"]), planned["findings"], status) == (sorted(ports), [], 0)
    document, status = migrate_json(*writing)
    assert (sorted(document["ports"]), document["findings"], status) == (sorted(ports), [], 0)
    assert {uuid: held_by(client, uuid) for uuid in expected} == expected
    assert [neutron.read_binding(port) for port in ports] == of_api
    # nova finds the provider of a group by its id when it detaches a port
    for port in map(neutron.show_port, ports):
        groups = {group["id"] for group in port["resource_request"]["request_groups"]}
        assert port["binding:profile"]["allocation"].keys() == groups
    for port, former in zip(ports, before, strict=True):
        after = neutron.show_port(port)
        assert after["revision_number"] == former["revision_number"] + 1
        assert after["updated_at"] >= former["updated_at"]
        changed = ("binding:profile", "revision_number", "updated_at")
        assert {**after, **{key: former[key] for key in changed}} == former
    for access in accesses:
        assert migrate_json(*access, "status")[0]["ready"]
    for port in ports:
        neutron.bind(port, "h1")
    start_again()
    done = nova.manage(of_nova, *HEAL)
    assert done.returncode == 0, done.stdout
    assert {uuid: held_by(client, uuid) for uuid in expected} == expected
    assert [neutron.show_granted(port) for port in ports] == ours


def test_port_that_is_held_gets_its_binding_profile(
    cloud, client, host, neutron, policy, network, migrate, migrate_json
):
    """A run that was killed after placement and before neutron is completed by the next one."""
    node, agent, bridge = host
    instance = cloud.add_instance("h1")
    port = neutron.add_port(network, instance, qos_policy_id=policy)
    whole = {node: CLAIM, agent: {RATE: 50}, bridge: {EGRESS: 1000, INGRESS: 2000}}
    hold(client, instance, whole)
    access = ("--neutron-endpoint", neutron.url)
    document, status = migrate_json(*access, "status")
    assert (found(document), status) == ({instance: "port with a resource request"}, 3)
    planned = migrate(*access, "heal-allocations", "--dry-run")
    (line,) = [line for line in planned.stdout.splitlines() if port in line]
    assert line.startswith(f"Will be written: port {port}: its binding profile will name h1:Open vSwitch")
    assert (planned.returncode, "Left alone" in planned.stdout) == (0, False)
    assert neutron.show_granted(port) is None
    document, status = migrate_json(*access, "heal-allocations")
    assert (document["rows"], document["ports"], status) == ([], [port], 0)
    assert sorted(neutron.show_granted(port).values()) == sorted((agent, bridge))
    assert held_by(client, instance) == whole
    assert migrate_json(*access, "status")[1] == 0


def test_granted_port_without_allocations_is_healed(
    cloud, client, host, neutron, network, of_nova, migrate_json, accesses
):
    """The binding profile names the provider, whichever else could serve; nova-manage finds nothing to do."""
    node, agent, _bridge = host
    other = client.create_provider("h1:Open vSwitch agent:br1", parent=agent)["uuid"]
    give(client, other, {EGRESS: Inventory(10000)}, [NORMAL, PHYSNET0])
    instance = cloud.add_instance("h1")
    hold(client, instance, {node: CLAIM})
    port = neutron.add_port(network, instance, qos_policy_id=neutron.add_policy(egress=1000))
    (group,) = neutron.show_port(port)["resource_request"]["request_groups"]
    neutron.bind(port, "h1", {"allocation": {group["id"]: other}})
    assert nova.manage(of_nova, *HEAL).returncode == 4
    for access in accesses:
        document, status = migrate_json(*access, "heal-allocations")
        assert ([row["result"] for row in document["rows"]], status) == (["applied"], 0)
        assert held_by(client, instance) == {node: CLAIM, other: {EGRESS: 1000}}
        client.delete_allocations(instance)
        hold(client, instance, {node: CLAIM})


def test_port_that_cannot_be_healed_is_left_alone(
    cloud, client, host, neutron, network, of_nova, migrate_json, accesses
):
    """Each has its reason; nova-manage ends at the first, and does not say which port it is."""
    node, agent, bridge = host
    other = client.create_provider("h1:Open vSwitch agent:br1", parent=agent)["uuid"]
    give(client, other, {EGRESS: Inventory(10000)}, [NORMAL, PHYSNET1])
    twin = client.create_provider("h1:Open vSwitch agent:br2", parent=agent)["uuid"]
    give(client, twin, {EGRESS: Inventory(10000)}, [NORMAL, PHYSNET1])
    small = neutron.add_policy(egress=1000)

    def add(on, policy=small, **fields):
        instance = cloud.add_instance("h1")
        port = {"profile": None, **fields}
        neutron.add_port(on, instance, qos_policy_id=policy, **port)
        return instance

    physnet1 = neutron.add_network("physnet1")
    expected = {
        add(physnet1): "ambiguous",
        add(neutron.add_network(None)): "no inventory",
        add(network, neutron.add_policy(egress=20000)): "over capacity",
        add(network, host=None): "port with a resource request",
        add(network, host="h2"): "port with a resource request",
        add(network, profile={"allocation": {"g": nova.new_uuid()}}): "port with a resource request",
    }
    partly = add(network)
    hold(client, partly, {node: CLAIM, bridge: {EGRESS: 400}})
    expected[partly] = "wrong amount"
    for access in accesses:
        document, status = migrate_json(*access, "heal-allocations")
        assert (found(document), document["rows"], status) == (expected, [], 3)
        assert not any(held_by(client, instance) for instance in expected if instance != partly)
        sentence = migrate_json(*access, "status")[0]["sentence"]
        assert sentence.startswith("It is not safe yet to leave the caching scheduler")
    for instance in list(expected)[:3]:
        assert nova.manage(of_nova, *HEAL, "--instance", instance).returncode == 3


def test_request_with_one_group_of_an_older_neutron_is_healed(
    cloud, client, host, neutron, network, migrate_json
):
    """It has no extension for several groups, and the binding profile names one provider."""
    node, _agent, bridge = host
    instance = cloud.add_instance("h1")
    port = neutron.add_port(network, instance, qos_policy_id=neutron.add_policy(egress=400))
    with networking.older(neutron) as url:
        access = ("--neutron-endpoint", url)
        document, status = migrate_json(*access, "heal-allocations")
        assert ([row["uuid"] for row in document["rows"]], document["ports"], status) == (
            [instance],
            [port],
            0,
        )
        assert held_by(client, instance) == {node: CLAIM, bridge: {EGRESS: 400}}
        assert migrate_json(*access, "status")[1] == 0
    assert neutron.show_granted(port) == bridge


def test_port_with_a_device_profile_is_left_alone(cloud, client, host, neutron, network, migrate_json):
    """Only Cyborg knows what it takes."""
    instance = cloud.add_instance("h1")
    port = neutron.add_port(network, instance)
    engine = sa.create_engine(neutron.database, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        values = {"port": port, "profile": "smartnic"}
        connection.execute(sa.text("INSERT INTO portdeviceprofiles VALUES (:port, :profile)"), values)
    document, status = migrate_json("--neutron-db", neutron.database, "heal-allocations")
    assert (found(document), document["rows"], status) == ({instance: "accelerator"}, [], 3)


def test_healing_of_a_port_can_be_undone(
    cloud, client, host, neutron, policy, network, migrate, migrate_json
):
    """The instance holds again what it held before."""
    node, agent, bridge = host
    instance = cloud.add_instance("h1")
    hold(client, instance, {node: CLAIM})
    neutron.add_port(network, instance, qos_policy_id=policy)
    document, _ = migrate_json("--neutron-endpoint", neutron.url, "heal-allocations")
    assert held_by(client, instance).keys() == {node, agent, bridge}
    assert migrate("run", "undo", "--yes", document["run"]).returncode == 0
    assert held_by(client, instance) == {node: CLAIM}


def test_killed_healing_is_completed_by_the_next_run(
    cloud, client, host, neutron, policy, network, nova_conf, migrate_json, tmp_path
):
    """Some allocations are made by then, and no binding profile; in the end both are, once."""
    node, agent, bridge = host
    ports = {}
    for _ in range(4):
        instance = cloud.add_instance("h1")
        ports[instance] = neutron.add_port(network, instance, qos_policy_id=policy)
    access = ("--neutron-endpoint", neutron.url)
    process = ForkedProcess(
        find_server("placement-migrate"),
        ["--config-file", nova_conf, *access, "heal-allocations", "--throttle", "2"],
        env=make_environment(XDG_STATE_HOME=str(tmp_path / "state")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any(held_by(client, instance) for instance in ports))
    process.kill()
    process.communicate()
    done = [instance for instance in ports if held_by(client, instance)]
    assert 0 < len(done) < len(ports)
    assert not any(map(neutron.show_granted, ports.values()))
    document, status = migrate_json(*access, "heal-allocations")
    assert (len(document["rows"]), sorted(document["ports"])) == (
        len(ports) - len(done),
        sorted(ports.values()),
    )
    assert status == 0
    whole = {node: CLAIM, agent: {RATE: 50}, bridge: {EGRESS: 1000, INGRESS: 2000}}
    assert [held_by(client, instance) for instance in ports] == [whole] * len(ports)
    assert all(map(neutron.show_granted, ports.values()))


@pytest.fixture
def held_port(cloud, client, host, neutron, policy, network):
    """A function that makes an instance that holds what its port asks for; the instance and the port."""
    node, agent, bridge = host

    def make(profile=None):
        instance = cloud.add_instance("h1")
        port = neutron.add_port(network, instance, qos_policy_id=policy, profile=profile)
        hold(client, instance, {node: CLAIM, agent: {RATE: 50}, bridge: {EGRESS: 1000, INGRESS: 2000}})
        return instance, port

    return make


def test_dry_run_says_that_neutrons_database_will_be_written(neutron, held_port, migrate, writing):
    """The line of the run says it, too; the rest of the profile is kept."""
    _, port = held_port({"trusted": "true"})
    before = neutron.read_binding(port)
    planned = migrate(*writing, "--dry-run")
    (line,) = [line for line in planned.stdout.splitlines() if port in line]
    assert line.startswith(f"Will be written: port {port}: its binding profile will name h1:Open vSwitch")
    assert line.endswith("(written to neutron's database)")
    assert (planned.returncode, neutron.read_binding(port)) == (0, before)
    done = migrate(*writing)
    assert "binding profiles of ports: 1 written to neutron's database" in done.stdout.splitlines()
    assert neutron.show_port(port)["binding:profile"].keys() == {"trusted", "allocation"}
    again = migrate(*writing)
    assert (done.returncode, again.returncode, "written" in again.stdout) == (0, 0, False)


def test_online_data_migrations_write_to_neutrons_database(neutron, held_port, migrate_json):
    """Nothing is left to do afterwards."""
    instance, port = held_port()
    access = ("--neutron-db", neutron.database, "online_data_migrations")
    document, status = migrate_json(*access)
    assert (found(document), status) == ({instance: "port with a resource request"}, 2)
    document, status = migrate_json(*access, "--write-neutron-db")
    assert (document["findings"], status) == ([], 0)
    assert neutron.show_granted(port)


def test_refused_write_to_neutrons_database_is_one_line_for_each_port(
    neutron, held_port, migrate_json, writing
):
    """As of an account that may only read; what is allocated stays, and the next run writes the profile."""
    ports = dict(held_port() for _ in range(2))
    engine = sa.create_engine(neutron.database, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE UPDATE ON standardattributes"
            " BEGIN SELECT RAISE(ABORT, 'UPDATE command denied'); END"
        )
    try:
        document, status = migrate_json(*writing, "--concurrency", "1")
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TRIGGER refuse")
    assert (document["rows"], document["ports"], status) == ([], [], 3)
    assert found(document) == dict.fromkeys(ports, "port with a resource request")
    for each in document["findings"]:
        assert each["text"].endswith("failed: neutron's database: UPDATE command denied")
    assert not any(map(neutron.show_granted, ports.values()))
    document, status = migrate_json(*writing)
    assert (sorted(document["ports"]), document["findings"], status) == (sorted(ports.values()), [], 0)


def test_killed_writer_of_profiles_is_completed_by_the_next_run(
    neutron, held_port, nova_conf, migrate_json, writing, tmp_path
):
    """Each profile is written once, in a transaction with the revision of its port."""
    ports = [held_port()[1] for _ in range(4)]
    before = {port: neutron.show_port(port)["revision_number"] for port in ports}
    process = ForkedProcess(
        find_server("placement-migrate"),
        ["--config-file", nova_conf, *writing, "--throttle", "2"],
        env=make_environment(XDG_STATE_HOME=str(tmp_path / "state")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any(neutron.read_binding(port)["profile"] for port in ports))
    process.kill()
    process.communicate()
    left = sorted(port for port in ports if not neutron.show_granted(port))
    assert 0 < len(left) < len(ports)
    document, status = migrate_json(*writing)
    assert (sorted(document["ports"]), document["findings"], status) == (left, [], 0)
    after = {port: neutron.show_port(port) for port in ports}
    assert {port: shown["revision_number"] - 1 for port, shown in after.items()} == before
    assert all("allocation" in shown["binding:profile"] for shown in after.values())


def test_undo_leaves_written_profiles_and_the_next_healing_agrees_with_them(
    cloud, client, host, neutron, policy, network, migrate, migrate_json, writing
):
    """What the instance holds is taken back; it gets the same again, and no profile is written twice."""
    node, agent, bridge = host
    instance = cloud.add_instance("h1")
    port = neutron.add_port(network, instance, qos_policy_id=policy)
    document, status = migrate_json(*writing)
    assert (document["ports"], status) == ([port], 0)
    written = neutron.read_binding(port)
    assert migrate("run", "resume", "--yes", document["run"]).returncode == 0
    assert migrate("run", "undo", "--yes", document["run"]).returncode == 0
    assert (held_by(client, instance), neutron.read_binding(port)) == ({}, written)
    document, status = migrate_json(*writing)
    assert (document["ports"], document["findings"], status) == ([], [], 0)
    assert held_by(client, instance) == {
        node: CLAIM,
        agent: {RATE: 50},
        bridge: {EGRESS: 1000, INGRESS: 2000},
    }
    assert neutron.read_binding(port) == written


def leak(cloud, client, neutron, policy, network, host, *, has_port):
    """Return an instance that holds 700 kbit/s more than its ports ask for."""
    node, agent, bridge = host
    instance = cloud.add_instance("h1")
    right = {node: CLAIM}
    if has_port:
        port = neutron.add_port(network, instance, qos_policy_id=policy)
        groups = neutron.show_port(port)["resource_request"]["request_groups"]
        granted = {group["id"]: agent if RATE in group["resources"] else bridge for group in groups}
        neutron.bind(port, "h1", {"allocation": granted})
        right |= {agent: {RATE: 50}, bridge: {EGRESS: 1000, INGRESS: 2000}}
    else:
        neutron.add_port(network, instance)
    bandwidth = right.get(bridge, {})
    hold(client, instance, right | {bridge: {**bandwidth, EGRESS: bandwidth.get(EGRESS, 0) + 700}})
    return instance


def test_leaked_bandwidth_is_named_and_kept(
    cloud, client, host, neutron, policy, network, of_nova, migrate_json, accesses
):
    """The line says what to compare; nova-manage does not look for it."""
    instances = [leak(cloud, client, neutron, policy, network, host, has_port=each) for each in (False, True)]
    before = [held_by(client, instance) for instance in instances]
    assert nova.manage(of_nova, "placement", "audit").returncode == 0
    for access in accesses:
        document, status = migrate_json(*access, "audit", "--delete")
        assert (found(document), document["rows"], status) == (
            dict.fromkeys(instances, "wrong amount"),
            [],
            3,
        )
        for each in document["findings"]:
            assert "EGR_KILOBIT_PER_SEC=700 of h1:Open vSwitch agent:br0" in each["text"]
        assert [held_by(client, instance) for instance in instances] == before


def test_bandwidth_that_may_be_that_of_a_port_is_not_named(
    cloud, client, host, add_host, neutron, policy, network, migrate_json
):
    """The ports are unknown, or may be others in a moment."""
    add_host("h2")
    instance = leak(cloud, client, neutron, policy, network, host, has_port=False)
    before, way = held_by(client, instance), ("--neutron-endpoint", neutron.url)

    def check(*access):
        document, _ = migrate_json(*access, "audit", "--delete")
        assert (document["rows"], held_by(client, instance)) == ([], before)
        return set(found(document).values())

    assert check(*way) == {"wrong amount"}
    assert "wrong amount" not in check("--neutron-endpoint", "http://127.0.0.1:9")
    cloud.update("cell1", "UPDATE instances SET task_state = 'migrating'")
    assert "wrong amount" not in check(*way)
    cloud.update("cell1", "UPDATE instances SET task_state = NULL")
    cloud.add_migration(instance, "h1", "h2")
    assert "wrong amount" not in check(*way)
