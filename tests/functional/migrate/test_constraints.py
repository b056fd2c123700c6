# SPDX-License-Identifier: Apache-2.0
"""`status` and `heal-allocations` on instances that nova's scheduler would not put where they are."""

import json
import re

import pytest

from tests.functional.migrate import nova_serving
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, give, held_by, hold
from tests.functional.servers import ROOT

pytestmark = pytest.mark.nova_on("sqlite")

PROJECT = "c" * 32
GOLD = {"extra_specs": {"trait:CUSTOM_GOLD": "required"}}
OPTIONS = """\
[scheduler]
enable_isolated_aggregate_filtering = true
limit_tenants_to_placement_aggregate = true
"""
PAGE = ROOT / "doc/source/admin/cve-2026-46448.rst"


def request(cloud, instance, zone=None, **hints):
    """Store the request of an instance as nova does; each hint has a list of values."""
    spec = {
        "nova_object.name": "RequestSpec",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.14",
        "nova_object.data": {"availability_zone": zone, "scheduler_hints": hints},
        "nova_object.changes": [],
    }
    cloud.insert("api", "request_specs", instance_uuid=instance, spec=json.dumps(spec))


@pytest.fixture
def hosts(cloud, client, add_host, nova_conf):
    """Hosts in zones; h3 is isolated for a trait that h3 has, and a project may be on h1 only."""
    with nova_conf.open("a") as file:
        file.write(OPTIONS)
    client.create_trait("CUSTOM_GOLD")
    uuids = {name: add_host(name) for name in ("h1", "h2", "h3")}
    give(client, uuids["h3"], SIZES, ["CUSTOM_GOLD"])
    for name, members in (("az1", ["h1"]), ("az2", ["h2", "h3"])):
        cloud.add_aggregate(name, members, availability_zone=name)
    cloud.add_aggregate("gold", ["h3"], **{"trait:CUSTOM_GOLD": "required"})
    cloud.add_aggregate("tenant", ["h1"], filter_tenant_id=PROJECT)
    return uuids


#: host, requested zone, columns of the instance; the state of its host, and a part of the text
CASES = {
    "in its zone": ("h1", "az1", {}, "allowed", ""),
    "out of its zone": ("h2", "az1", {}, "not allowed", "aggregate az1 (map_az_to_placement_aggregate)"),
    "isolated": ("h3", None, {}, "not allowed", "not in aggregate gold (isolate_aggregates)"),
    "admitted": ("h3", "az2", {"flavor": GOLD}, "allowed", ""),
    "flavor": ("h2", None, {"flavor": GOLD}, "not allowed", "required CUSTOM_GOLD: missing from h2"),
    "image": ("h2", None, {"image": {"trait:CUSTOM_GOLD": "required"}}, "not allowed", "CUSTOM_GOLD"),
    "project": ("h2", "az2", {"project_id": PROJECT}, "not allowed", "(require_tenant_aggregate)"),
    "class": ("h1", None, {"flavor": {"extra_specs": {"resources:VGPU": "1"}}}, "not allowed", "has VGPU"),
    "size": ("h1", None, {"flavor": {"memory_mb": 70000}}, "not allowed", "MEMORY_MB"),
    "pinned": ("h1", None, {"flavor": {"extra_specs": {"hw:cpu_policy": "dedicated"}}}, "allowed", ""),
    "odd flavor": ("h1", None, {"flavor": "{"}, "unknown", "its flavor cannot be read"),
    "no request": ("h1", False, {}, "unknown", "nova has no request of it"),
    "no request, isolated": ("h3", False, {}, "not allowed", "isolate_aggregates"),
}


@pytest.fixture
def booted(cloud, hosts):
    """Instances without allocations, by case."""
    made = {}
    for name, (host, zone, columns, _, _) in CASES.items():
        made[name] = cloud.add_instance(host, **columns)
        if zone is not False:
            request(cloud, made[name], zone)
    return made


def test_hosts_of_instances_without_allocations_are_judged(
    cloud, client, hosts, booted, migrate_json, migrate
):
    """By flavor, image, zone and isolation; where more is used than fits is no matter of the place."""
    held = cloud.add_instance("h2")
    request(cloud, held, "az1")
    hold(client, held, {hosts["h2"]: CLAIM})
    document, _ = migrate_json("status")
    found = {each["instance"]: each for each in document["constraints"]}
    assert found.keys() == set(booted.values())
    for name, (host, _, _, state, text) in CASES.items():
        own = found[booted[name]]
        assert (own["host"], own["state"]) == (host, state), own
        assert text in own["text"], own
    shown = migrate("status").stdout
    line = f"instance {booted['isolated']}: it holds nothing, and nova's scheduler would not put it on h3: "
    assert line in shown
    assert f"instance {booted['in its zone']}: it holds nothing, and its host is allowed\n" in shown
    assert re.search(r"on a host without inventory|beyond the capacity", document["sentence"])


def test_healing_notes_where_an_instance_may_not_be(cloud, client, hosts, booted, migrate, migrate_json):
    """The instance is healed where it is, and the run says which ones are not where they may be."""
    document, _ = migrate_json("heal-allocations")
    notes = {row["uuid"]: row["reason"] for row in document["rows"]}
    assert held_by(client, booted["isolated"]) == {hosts["h3"]: CLAIM}
    assert notes[booted["in its zone"]] == ""
    assert "isolate_aggregates" in notes[booted["isolated"]]
    assert "nova has no request of it" in notes[booted["no request"]]
    recorded = {row["uuid"]: row["reason"] for row in migrate_json("run", "show", document["run"])[0]}
    assert recorded == notes
    refused = {row["subject"]: row["text"] for row in document["findings"]}
    assert "has VGPU" in refused[f"instance {booted['class']}"]


def test_zones_are_unknown_without_host_aggregates(cloud, hosts, booted, migrate_json):
    """What cannot be read is not taken for absent; what is certain without it is said."""
    cloud.update("api", "ALTER TABLE aggregate_hosts RENAME TO elsewhere")
    document, _ = migrate_json("status")
    states = {each["instance"]: each["state"] for each in document["constraints"]}
    assert states[booted["out of its zone"]] == states[booted["in its zone"]] == "unknown"
    assert states[booted["flavor"]] == "not allowed"


def test_nova_api_tells_the_zone_and_hides_the_image(hosts, booted, nova_conf, migrate):
    """With nova's API an instance may be out of its zone for certain, and never for certain in order."""
    with nova_serving.serving(nova_conf.parent) as url:
        done = migrate("--source", "api", "--nova-endpoint", url, "status", "-f", "json")
    states = {each["instance"]: each["state"] for each in json.loads(done.stdout)["constraints"]}
    assert states[booted["out of its zone"]] == "not allowed"
    assert states[booted["in its zone"]] == "unknown"


@pytest.mark.parametrize("source", ["db", "api"])
def test_requests_that_skip_placement_are_found_whatever_is_held(
    cloud, client, hosts, nova_conf, migrate, source
):
    """The scheduler hint of CVE-2026-46448 counts at each move, so that a healed instance is named too."""
    made = [cloud.add_instance("h1") for _ in range(3)]
    for instance in made:
        request(cloud, instance, _nova_check_type=["rebuild"])
        hold(client, instance, {hosts["h1"]: CLAIM})
    request(cloud, cloud.add_instance("h1", uuid=(plain := new_uuid())), group=["_nova_check_type"])
    hold(client, plain, {hosts["h1"]: CLAIM})
    cloud.update("cell1", "UPDATE instances SET deleted = id WHERE uuid = :uuid", uuid=made[2])
    with nova_serving.serving(nova_conf.parent) as url:
        done = migrate("--source", source, "--nova-endpoint", url, "status", "-f", "json")
    document = json.loads(done.stdout)
    found = {row["subject"]: row["reason"] for row in document["findings"]}
    assert found == {f"instance {uuid}": "placement skipped" for uuid in made[:2]}
    assert (document["ready"], done.returncode) == (False, 3)


@pytest.mark.nova_on("mariadb")
def test_documented_statement_takes_the_hint_out_of_a_request(cloud, hosts, client, migrate_json):
    """It leaves the rest of the request as it is."""
    instance = cloud.add_instance("h1")
    request(cloud, instance, "az1", _nova_check_type=["rebuild"], group=["g"])
    hold(client, instance, {hosts["h1"]: CLAIM})
    assert migrate_json("status")[1] == 3
    statement = re.search(r"UPDATE request_specs.*?;", PAGE.read_text(), re.DOTALL)[0]
    cloud.update("api", statement.replace("UUID'", f"{instance}'"))
    with cloud.engines["api"].connect() as connection:
        spec = connection.exec_driver_sql("SELECT spec FROM request_specs").scalar_one()
    data = json.loads(spec)["nova_object.data"]
    assert data == {"availability_zone": "az1", "scheduler_hints": {"group": ["g"]}}
    assert migrate_json("status")[1] == 0
