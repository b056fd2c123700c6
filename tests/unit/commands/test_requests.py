# SPDX-License-Identifier: Apache-2.0
"""How many requests each command makes, and that a name costs one more and a UUID none."""

import gc
import re
from importlib.metadata import distribution

import pytest

from osc_placement import errors
from osc_placement.commands.deferred import find
from tests.unit.commands.shell import make, run
from tests.unit.fake_placement import FakePlacement

UUID = "c0ffee00-0000-4000-8000-000000000001"
CONSUMER = "c0ffee00-0000-4000-8000-0000000000c1"
PROVIDER = {"uuid": UUID, "name": "host1", "generation": 3}
TARGET = "c0ffee00-0000-4000-8000-0000000000c2"
AGGREGATE = "c0ffee00-0000-4000-8000-0000000000a1"
P = f"/resource_providers/{UUID}"
A = f"/allocations/{CONSUMER}"

BULK = "GET /-/providers"
#: what has to be asked about a provider to know how full it is
EACH = ["GET /resource_providers", f"GET {P}/inventories", f"GET {P}/usages"]

CANDIDATES = {
    "allocation_requests": [
        {"allocations": {UUID: {"resources": {"VCPU": 1}}}, "mappings": {"": [UUID]}},
    ],
    "provider_summaries": {
        UUID: {"resources": {"VCPU": {"used": 0, "capacity": 8}}, "traits": [], "root_provider_uuid": UUID}
    },
}

#: command, arguments with {p} for a provider, and the requests beside the one for the version
TABLE = [
    ("allocation candidate list", "--resource VCPU=1", ["GET /allocation_candidates"]),
    ("allocation candidate list", "--resource VCPU=1 --in-tree {p}", ["GET /allocation_candidates"]),
    (
        "allocation candidate list",
        "--resource VCPU=1 --by-group",
        ["GET /allocation_candidates", "GET /resource_providers"],
    ),
    (
        "allocation candidate claim",
        f"{CONSUMER} --resource VCPU=1 --project-id p --user-id u",
        ["GET /allocation_candidates", f"PUT {A}", "GET /resource_providers"],
    ),
    ("resource class list", "", ["GET /resource_classes"]),
    ("resource class create", "X", ["POST /resource_classes"]),
    ("resource class set", "X", ["PUT /resource_classes/X"]),
    ("resource class show", "X", ["GET /resource_classes/X"]),
    ("resource class delete", "X", ["DELETE /resource_classes/X"]),
    ("resource provider aggregate list", "{p}", [f"GET {P}/aggregates"]),
    ("resource provider aggregate set", "{p} --generation 3", [f"PUT {P}/aggregates"]),
    ("resource provider aggregate add", "{p} " + AGGREGATE, [f"GET {P}/aggregates", f"PUT {P}/aggregates"]),
    ("resource provider aggregate remove", "{p} " + AGGREGATE, [f"GET {P}/aggregates"]),
    (
        "resource provider allocation move",
        f"{CONSUMER} {TARGET} --provider {{p}}",
        [f"GET {A}", f"GET /allocations/{TARGET}", "POST /allocations"],
    ),
    ("resource provider allocation delete", CONSUMER, [f"DELETE {A}"]),
    (
        "resource provider allocation set",
        f"{CONSUMER} --allocation rp={{p}},VCPU=1 --project-id p --user-id u",
        [f"GET {A}", f"PUT {A}", f"GET {A}"],
    ),
    (
        "resource provider allocation set",
        f"{CONSUMER} --amend --allocation rp={{p}},VCPU=2 --project-id p --user-id u",
        [f"GET {A}", f"PUT {A}", f"GET {A}"],
    ),
    ("resource provider allocation show", CONSUMER, [f"GET {A}"]),
    (
        "resource provider allocation unset",
        f"{CONSUMER} --provider {{p}}",
        [f"GET {A}", f"PUT {A}", f"GET {A}"],
    ),
    ("resource provider create", "host2", ["POST /resource_providers"]),
    ("resource provider create", "host2 --parent-provider {p}", ["POST /resource_providers"]),
    ("resource provider delete", "{p}", [f"DELETE {P}"]),
    (
        "resource provider inventory class set",
        "{p} VCPU --total 8",
        [f"GET {P}", f"PUT {P}/inventories/VCPU"],
    ),
    ("resource provider inventory delete", "{p}", [f"DELETE {P}/inventories"]),
    ("resource provider inventory delete", "{p} --resource-class VCPU", [f"DELETE {P}/inventories/VCPU"]),
    ("resource provider inventory list", "{p}", [f"GET {P}/inventories", f"GET {P}/usages"]),
    (
        "resource provider inventory set",
        "{p} --resource VCPU=8",
        [f"GET {P}/inventories", f"PUT {P}/inventories"],
    ),
    (
        "resource provider inventory set",
        "{p} --resource VCPU=8 --amend",
        [f"GET {P}/inventories", f"PUT {P}/inventories"],
    ),
    ("resource provider inventory show", "{p} VCPU", [f"GET {P}/inventories/VCPU", f"GET {P}/usages"]),
    ("resource provider list", "", ["GET /resource_providers"]),
    ("resource provider list", "--in-tree {p}", ["GET /resource_providers"]),
    ("resource provider set", "{p} --name host1", [f"PUT {P}"]),
    ("resource provider set", "{p} --name host1 --parent-provider {p}", [f"PUT {P}"]),
    ("resource provider set", "{p} --parent-provider {p}", [f"GET {P}", f"PUT {P}"]),
    ("resource provider set", "{p} --no-parent-provider", [f"GET {P}", f"PUT {P}"]),
    ("resource provider show", "{p}", [f"GET {P}"]),
    ("resource provider show", "{p} --allocations", [f"GET {P}", f"GET {P}/allocations"]),
    ("resource provider trait add", "{p} B", [f"GET {P}/traits", f"PUT {P}/traits"]),
    ("resource provider trait add", "{p} A", [f"GET {P}/traits"]),
    ("resource provider trait remove", "{p} A", [f"GET {P}/traits", f"PUT {P}/traits"]),
    ("resource provider trait remove", "{p} B", [f"GET {P}/traits"]),
    ("resource provider trait delete", "{p}", [f"GET {P}/traits", f"DELETE {P}/traits"]),
    ("resource provider trait list", "{p}", [f"GET {P}/traits"]),
    ("resource provider trait set", "{p} --trait A", [f"GET {P}", f"GET {P}/traits", f"PUT {P}/traits"]),
    ("resource provider usage show", "{p}", [f"GET {P}/usages"]),
    ("resource usage show", "project", ["GET /usages"]),
    ("resource usage show", "project --by-consumer-type", ["GET /usages"]),
    ("trait list", "", ["GET /traits"]),
    ("trait show", "A", ["GET /traits/A"]),
    ("trait create", "A", ["PUT /traits/A"]),
    ("trait delete", "A", ["DELETE /traits/A"]),
]


def load(command):
    """The class behind a command, by way of the entry points."""
    (found,) = distribution("osc-placement").entry_points.select(
        group="openstack.placement.v1", name=command.replace(" ", "_")
    )
    return find(*found.attr.split("."))


@pytest.fixture
def fake():
    """A service that knows one provider and one consumer."""
    fake = FakePlacement()
    inventories = {"inventories": {"VCPU": {"total": 8}}, "resource_provider_generation": 3}
    traits = {"traits": ["A"], "resource_provider_generation": 3}
    aggregates = {"aggregates": [], "resource_provider_generation": 3}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": 1}
    allocations = {"allocations": {UUID: {"resources": {"VCPU": 1}}}, **owner}
    for method, path, answer in [
        ("GET", "/allocation_candidates", CANDIDATES),
        ("GET", "/resource_classes", {"resource_classes": []}),
        ("POST", "/resource_classes", (201,)),
        ("GET", "/resource_classes/X", {"name": "X"}),
        ("PUT", "/resource_classes/X", (201,)),
        ("GET", "/resource_providers", {"resource_providers": [PROVIDER]}),
        ("POST", "/resource_providers", PROVIDER),
        *((method, P, PROVIDER) for method in ("GET", "PUT")),
        *((method, f"{P}/aggregates", aggregates) for method in ("GET", "PUT")),
        *((method, f"{P}/inventories", inventories) for method in ("GET", "PUT")),
        *((method, f"{P}/inventories/VCPU", {"total": 8}) for method in ("GET", "PUT")),
        *((method, f"{P}/traits", traits) for method in ("GET", "PUT")),
        ("GET", f"{P}/usages", {"usages": {"VCPU": 1}}),
        ("GET", f"{P}/allocations", {"allocations": {}}),
        ("GET", A, allocations),
        ("PUT", A, (204,)),
        *(
            ("DELETE", path, (204,))
            for path in (
                P,
                f"{P}/inventories",
                f"{P}/inventories/VCPU",
                f"{P}/traits",
                A,
                "/resource_classes/X",
            )
        ),
        ("GET", f"/allocations/{TARGET}", {"allocations": {}}),
        ("POST", "/allocations", (204,)),
        ("GET", "/usages", {"usages": {}}),
        ("GET", "/traits", {"traits": []}),
        *((method, "/traits/A", (204,)) for method in ("GET", "PUT", "DELETE")),
    ]:
        fake.on(method, path, answer)
    return fake


@pytest.mark.parametrize(("command", "arguments", "requests"), TABLE)
def test_a_command_makes_the_requests_it_needs(fake, command, arguments, requests):
    """One for the version, and those of the table."""
    _, status = run(load(command), fake.client(), arguments.format(p=UUID))
    assert status == 0
    assert [line for line in fake.lines if line != "GET /"] == requests
    assert fake.lines.count("GET /") == 1


#: commands about the whole cloud: the requests where there is a bulk read, and those elsewhere
WHOLE = [
    ("resource provider tree", "", [BULK], [*EACH, f"GET {P}/traits", f"GET {P}/aggregates"]),
    ("resource provider capacity", "", [BULK], EACH),
    (
        "resource provider capacity",
        "--fit VCPU=1",
        [BULK, "GET /resource_providers"],
        [*EACH, "GET /resource_providers"],
    ),
    (
        "resource provider headroom",
        "--each-host",
        [BULK, "GET /-/allocations"],
        [*EACH, f"GET {P}/traits", f"GET {P}/aggregates", f"GET {P}/allocations", f"GET {A}"],
    ),
    ("resource usage top", "", [BULK, "GET /-/allocations"], [*EACH, f"GET {P}/allocations", f"GET {A}"]),
    (
        "resource provider export",
        "",
        [BULK, "GET /-/allocations", "GET /resource_classes", "GET /traits"],
        [
            *EACH,
            f"GET {P}/traits",
            f"GET {P}/aggregates",
            f"GET {P}/allocations",
            f"GET {A}",
            "GET /resource_classes",
            "GET /traits",
        ],
    ),
]


#: there is one host, which may not fail
STATUS = {"resource provider headroom": 3}


@pytest.fixture
def whole(fake):
    """The service, in which a consumer has something and nobody lends."""
    fake.on("GET", f"{P}/allocations", {"allocations": {CONSUMER: {"resources": {"VCPU": 1}}}})
    providers = {"resource_providers": [PROVIDER | {"root_provider_uuid": UUID}]}
    return fake.on("GET", "/resource_providers", providers, {"resource_providers": []})


@pytest.mark.parametrize(("command", "arguments", "_bulk", "requests"), WHOLE)
def test_report_without_bulk_read_reads_each_provider_once(whole, command, arguments, _bulk, requests):
    """Where there is no bulk read, which is asked once; no part is read that is not shown."""
    _, status = run(load(command), whole.client(), arguments)
    assert status == STATUS.get(command, 0)
    assert sorted(line for line in whole.lines if line not in ("GET /", BULK)) == sorted(requests)
    assert whole.lines.count(BULK) == 1


@pytest.mark.parametrize(("command", "arguments", "requests", "_each"), WHOLE)
def test_report_uses_the_bulk_read(whole, command, arguments, requests, _each):
    """However many providers and consumers there are."""
    record = {"inventories": {"VCPU": {"total": 8}}, "usages": {"VCPU": 1}, "traits": [], "aggregates": []}
    whole.on("GET", "/-/providers", {"providers": [PROVIDER | record | {"root_provider_uuid": UUID}]})
    consumer = {"uuid": CONSUMER, "allocations": {UUID: {"resources": {"VCPU": 1}}}, "consumer_generation": 1}
    consumer |= {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
    whole.on("GET", "/-/allocations", {"consumers": [consumer]})
    whole.on("GET", "/resource_providers", {"resource_providers": []})
    _, status = run(load(command), whole.client(), arguments)
    assert status == STATUS.get(command, 0)
    assert [line for line in whole.lines if line != "GET /"] == requests


@pytest.mark.parametrize(("command", "arguments", "requests"), [row for row in TABLE if "{p}" in row[1]])
def test_a_name_costs_one_request_more(fake, command, arguments, requests):
    """Wherever a provider is named by its UUID, its name will do."""
    _, status = run(load(command), fake.client(), arguments.format(p="host1"))
    assert status == 0
    lookups = [request for request in fake.asked if request.query == [("name", "host1")]]
    assert len(lookups) == arguments.count("{p}")
    others = [line for line in fake.lines if line != "GET /"]
    assert len(others) == len(requests) + len(lookups)
    assert set(others) == {*requests, "GET /resource_providers"}


@pytest.mark.parametrize(("command", "arguments", "requests"), [row for row in TABLE if "{p}" in row[1]])
def test_another_spelling_of_a_uuid_is_the_same_uuid(fake, command, arguments, requests):
    """It leads to the same requests, and is found where it is compared with what the server answers."""
    _, status = run(load(command), fake.client(), arguments.format(p=UUID.upper()))
    assert status == 0
    assert [line for line in fake.lines if line != "GET /"] == requests


def test_an_aggregate_in_another_spelling_is_removed(fake):
    """What the server calls it is what is compared."""
    fake.on("GET", f"{P}/aggregates", {"aggregates": [AGGREGATE], "resource_provider_generation": 3})
    run(load("resource provider aggregate remove"), fake.client(), f"{UUID} {AGGREGATE.upper()}")
    assert fake.asked[-1].body == {"aggregates": [], "resource_provider_generation": 3}


def test_moving_a_consumer_to_another_spelling_of_itself_is_refused(fake):
    """Nothing is moved from a consumer to itself."""
    with pytest.raises(errors.UsageError, match="The two consumers are the same"):
        run(load("resource provider allocation move"), fake.client(), f"{CONSUMER} {CONSUMER.upper()}")


@pytest.mark.parametrize(("command", "arguments", "requests"), [row for row in TABLE if "{p}" in row[1]])
def test_an_unknown_name_writes_nothing(fake, command, arguments, requests):
    """One clear line, before anything that changes something."""
    fake.on("GET", "/resource_providers", {"resource_providers": []})
    with pytest.raises(errors.NameNotFound, match="No resource provider named 'nobody' was found"):
        run(load(command), fake.client(), arguments.format(p="nobody"))
    assert all(line.startswith("GET ") for line in fake.lines)


def test_every_command_of_the_package_that_names_a_provider_is_in_the_table():
    """A new command under these names belongs here, or to another part's own tests."""
    ours = re.compile(r"(aggregate|allocation\w*|claim|inventory|resource_\w+|trait|usage)\.")
    points = distribution("osc-placement").entry_points.select(group="openstack.placement.v1")
    commands = {point.name.replace("_", " ") for point in points if ours.match(point.attr)}
    assert commands == {command for command, _, _ in TABLE}


def test_headroom_of_no_host_is_no_success(fake):
    """A script that asks whether hosts may fail must not go on if there are none."""
    fake.on("GET", "/resource_providers", {"resource_providers": []})
    with pytest.raises(errors.PlacementError, match="There is no host to judge"):
        run(load("resource provider headroom"), fake.client(), "--each-host")


@pytest.mark.parametrize("is_interactive", [True, False])
def test_headroom_keeps_nothing_from_collection_in_an_interactive_shell(whole, is_interactive):
    """There the process goes on; elsewhere it ends, and is not to search the cloud before."""
    command = make(load("resource provider headroom"), whole.client())
    command.app.interactive_mode = is_interactive
    before = gc.get_freeze_count()
    try:
        command.run(command.get_parser("headroom").parse_args(["--each-host"]))
        assert (gc.get_freeze_count() > before) != is_interactive
    finally:
        gc.unfreeze()
