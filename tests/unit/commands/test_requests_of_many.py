# SPDX-License-Identifier: Apache-2.0
"""How many requests the commands make that change many things, or explain: by provider, and in all."""

import pathlib
import re
from importlib.metadata import distribution

import pytest

from osc_placement.commands.reshape import Reshape
from osc_placement.errors import VersionTooLow
from tests.unit.commands.shell import run
from tests.unit.commands.test_requests import AGGREGATE, CANDIDATES, CONSUMER, WHOLE, load
from tests.unit.commands.test_requests import TABLE as ONE
from tests.unit.fake_placement import FakePlacement

FIRST = "c0ffee00-0000-4000-8000-000000000001"
SECOND = "c0ffee00-0000-4000-8000-000000000002"
UUIDS = (FIRST, SECOND)
P = f"/resource_providers/{FIRST}"
BATCH = "resource provider batch"
BULK = "GET /-/providers"
LIST = "GET /resource_providers"
FILE = f"""\
providers:
- {{name: host1, uuid: {FIRST}, inventories: {{VCPU: {{total: 8}}}}, traits: [B]}}
allocations:
- {{consumer: {CONSUMER}, project: p, user: u, resources: {{host1: {{VCPU: 1}}}}}}
"""
CONFIG = """\
meta: {schema_version: "1.0"}
providers:
- {identification: {name: host1}, traits: {additional: [CUSTOM_A]}}
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Two hosts with something allocated on the first, and a directory of its own with files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "state.yaml").write_text(FILE)
    (tmp_path / "config.yaml").write_text(CONFIG)
    fake = FakePlacement()
    hosts = [
        {"uuid": uuid, "name": f"host{number}", "generation": 3, "root_provider_uuid": uuid}
        for number, uuid in enumerate(UUIDS, 1)
    ]
    fake.on("GET", "/resource_providers", {"resource_providers": hosts})
    generation = {"resource_provider_generation": 3}
    for uuid in UUIDS:
        path = f"/resource_providers/{uuid}"
        for method in ("GET", "PUT"):
            fake.on(method, path, hosts[UUIDS.index(uuid)])
            fake.on(method, f"{path}/inventories/VCPU", {"total": 8, **generation})
            fake.on(method, f"{path}/inventories", {"inventories": {"VCPU": {"total": 8}}, **generation})
            fake.on(method, f"{path}/traits", {"traits": ["A"], **generation})
            fake.on(method, f"{path}/aggregates", {"aggregates": [], **generation})
        fake.on("GET", f"{path}/usages", {"usages": {"VCPU": int(uuid == FIRST)}})
        fake.on("GET", f"{path}/allocations", {"allocations": {}})
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": 1, "consumer_type": "INSTANCE"}
    allocations = {"allocations": {FIRST: {"resources": {"VCPU": 1}}}, **owner}
    fake.on("GET", f"{P}/allocations", {"allocations": {CONSUMER: {"resources": {"VCPU": 1}}}})
    fake.on("GET", f"/allocations/{CONSUMER}", allocations)
    for answer in [
        ("PUT", f"/allocations/{CONSUMER}", (204,)),
        ("POST", "/allocations", (204,)),
        ("GET", "/allocation_candidates", CANDIDATES),
        ("GET", "/resource_classes", {"resource_classes": [{"name": "VCPU"}]}),
        ("GET", "/traits", {"traits": ["A", "B"]}),
        ("GET", "/traits/B", (204,)),
        ("GET", "/resource_classes/VCPU", {"name": "VCPU"}),
        ("POST", "/reshaper", (204,)),
    ]:
        fake.on(*answer)
    return fake


def each(*parts, method="GET"):
    """A request for each part of each provider."""
    return [f"{method} /resource_providers/{uuid}/{part}" for uuid in UUIDS for part in parts]


#: command, arguments, and the requests beside the one for the version and the vain one for a bulk read
TABLE = [
    (f"{BATCH} trait add", "B --all", ["GET /traits", LIST, *each("traits"), *each("traits", method="PUT")]),
    (f"{BATCH} trait add", "A --all", ["GET /traits", LIST, *each("traits")]),
    (f"{BATCH} trait set", "B --all", ["GET /traits", LIST, *each("traits"), *each("traits", method="PUT")]),
    (
        f"{BATCH} trait remove",
        "A --all",
        ["GET /traits", LIST, *each("traits"), *each("traits", method="PUT")],
    ),
    (f"{BATCH} trait remove", "A --all --dry-run", ["GET /traits", LIST, *each("traits")]),
    (
        f"{BATCH} aggregate add",
        f"{AGGREGATE} --all",
        [LIST, *each("aggregates"), *each("aggregates", method="PUT")],
    ),
    (
        f"{BATCH} aggregate set",
        f"{AGGREGATE} --all",
        [LIST, *each("aggregates"), *each("aggregates", method="PUT")],
    ),
    (f"{BATCH} aggregate remove", f"{AGGREGATE} --all", [LIST, *each("aggregates")]),
    (
        f"{BATCH} inventory set",
        "VCPU:total=9 --all",
        [LIST, *each("inventories"), *each("inventories/VCPU", method="PUT")],
    ),
    (
        f"{BATCH} ratio set",
        "VCPU=4 --all",
        [LIST, *each("inventories"), *each("inventories/VCPU", method="PUT")],
    ),
    # of the first host something is allocated
    (
        f"{BATCH} inventory delete",
        "VCPU --all",
        [LIST, *each("inventories", "usages"), f"PUT /resource_providers/{SECOND}/inventories"],
    ),
    (f"{BATCH} run list", "", []),
    (f"{BATCH} run list", "--all-clouds", []),
    (f"{BATCH} run delete", "--older-than 1 --yes", []),
    (
        "allocation candidate explain",
        "--resource VCPU=1",
        [
            "GET /resource_classes",
            LIST,
            *each("inventories", "usages", "traits", "aggregates"),
            "GET /allocation_candidates",
        ],
    ),
    (
        "resource provider apply",
        "-f state.yaml --yes",
        [
            LIST,
            "GET /resource_classes",
            "GET /traits",
            *(f"GET {P}/{part}" for part in ("inventories", "traits")),
            f"GET /allocations/{CONSUMER}",
            f"PUT {P}/traits",
        ],
    ),
    ("resource provider config generate", "", [LIST, *each("inventories", "traits")]),
    ("resource provider config lint", "config.yaml", []),
    (
        "resource provider config lint",
        "config.yaml --check-placement",
        [LIST, "GET /traits", "GET /resource_classes"],
    ),
    (
        "resource provider config drift",
        "config.yaml",
        [LIST, *(f"GET {P}/{part}" for part in ("inventories", "traits"))],
    ),
    (
        "resource provider config prune",
        "config.yaml --all-custom",
        [LIST, *(f"GET {P}/{part}" for part in ("inventories", "traits"))],
    ),
    (
        "resource provider reshape",
        f"--from {FIRST} --to {SECOND} --resource VCPU=8",
        [
            *(f"GET /resource_providers/{uuid}" for uuid in UUIDS),
            *each("inventories", "allocations"),
            f"GET /allocations/{CONSUMER}",
            *["POST /reshaper"] * 2,  # the first has no inventories and asks for the right
        ],
    ),
]
#: what asks before it writes
ASKING = re.compile(f"{BATCH} (trait|aggregate|inventory|ratio)|.* (reshape|prune)")


def perform(fake, command, arguments):
    """Run a command that is to be done; the requests it made, but for the one for the version."""
    asks = ASKING.match(command) and "--dry-run" not in arguments
    _, status = run(load(command), fake.client(), arguments + (" --yes" if asks else ""))
    return status, sorted(line for line in fake.lines if line != "GET /")


@pytest.mark.parametrize(("command", "arguments", "requests"), TABLE)
def test_command_without_bulk_routes_reads_and_writes_each_provider_once(fake, command, arguments, requests):
    """Only what it is about, and only those that change; whether there is a bulk read, at most once."""
    status, lines = perform(fake, command, arguments)
    assert [line for line in lines if line != BULK] == sorted(requests)
    assert lines.count(BULK) <= 1
    # a provider is refused, something differs, a trait is not known
    assert status in (0, 3 if command.endswith(("inventory delete", "config drift", "config lint")) else 0)


#: the commands for which one request reads, and one writes, however many providers there are
AT_ONCE = [row for row in TABLE if row[0].startswith(BATCH) and "run" not in row[0]]


@pytest.mark.parametrize(("command", "arguments", "requests"), AT_ONCE)
def test_batch_is_one_bulk_read_and_one_bulk_write(fake, command, arguments, requests):
    """Where the server can do that; nothing is written where nothing is to be done."""
    parts = {"inventories": {"VCPU": {"total": 8}}, "usages": {"VCPU": 0}, "traits": ["A"], "aggregates": []}
    hosts = [{"uuid": uuid, "name": uuid, "generation": 3, **parts} for uuid in UUIDS]
    fake.on("GET", "/-/providers", {"providers": hosts})
    fake.on("POST", "/-/providers", {"results": [{"resource_provider_generation": 4} for _ in UUIDS]})
    status, lines = perform(fake, command, arguments)
    writes = any(line.startswith("PUT ") for line in requests)
    assert status == 0
    assert [line for line in lines if line != "GET /traits"] == [BULK] + ["POST /-/providers"] * writes


def test_a_run_is_undone_by_a_read_and_a_write_of_each(fake):
    """Nobody else is asked for, as the journal knows whom it is about; to look at it costs no request."""
    perform(fake, f"{BATCH} trait add", "B --all")
    (journal,) = pathlib.Path("osc-placement/runs").glob("*.jsonl")
    for uuid in UUIDS:
        now = {"traits": ["A", "B"], "resource_provider_generation": 3}
        fake.on("GET", f"/resource_providers/{uuid}/traits", now)
    fake.asked.clear()
    run(load(f"{BATCH} run show"), fake.client(), journal.stem)
    assert fake.asked == []
    _, status = run(load(f"{BATCH} run undo"), fake.client(), f"{journal.stem} --yes")
    assert status == 0
    lines = sorted(line for line in fake.lines if line not in ("GET /", BULK))
    assert lines == sorted([*each("traits"), *each("traits", method="PUT")])


def test_a_saved_plan_is_compared_with_what_it_changes_and_written_once(fake):
    """Nothing else of a provider is read, and no usages for traits; the trait may have been deleted since."""
    run(load(f"{BATCH} trait add"), fake.client(), "B --all --plan-out plan.json")
    fake.asked.clear()
    _, status = run(load(f"{BATCH} apply"), fake.client(), "plan.json --yes")
    assert status == 0
    lines = sorted(line for line in fake.lines if line not in ("GET /", BULK))
    assert lines == sorted(["GET /traits", *each("traits"), *each("traits", method="PUT")])


def test_a_reshape_leaves_alone_what_has_moved_during_the_question(fake, monkeypatch):
    """A consumer that was emptied and claimed elsewhere has its generation again, the provider its own."""

    def move(*_):
        fake.on("GET", f"/resource_providers/{FIRST}/allocations", {"allocations": {}})

    monkeypatch.setattr(Reshape, "is_attended", lambda _self: True)
    monkeypatch.setattr(Reshape, "confirm", move)
    line = f"--from {FIRST} --to {SECOND} --resource VCPU=8"
    assert run(load("resource provider reshape"), fake.client(), line)[1] == 0
    assert fake.lines[-1] == "POST /reshaper"
    assert fake.asked[-1].body["allocations"] == {}


@pytest.mark.parametrize("api_version", ["1.38", "1.39"])
def test_any_of_two_traits_selects_where_the_version_has_it(fake, api_version):
    """Below, nothing is sent that the server would read as something else."""
    line = "B --required A,B --dry-run"
    client = fake.client(api_version=api_version)
    if api_version == "1.39":
        assert run(load(f"{BATCH} trait add"), client, line)[1] == 0
        return
    with pytest.raises(VersionTooLow, match=r"requires at least version 1\.39"):
        run(load(f"{BATCH} trait add"), client, line)
    assert fake.asked == []


def test_every_command_of_the_package_is_in_a_table():
    """A new command tells what it costs."""
    points = distribution("osc-placement").entry_points.select(group="openstack.placement.v1")
    commands = {point.name.replace("_", " ") for point in points}
    elsewhere = {
        f"{BATCH} apply",
        f"{BATCH} device release",
        "resource provider device list",
        *(f"{BATCH} run {verb}" for verb in ("resume", "show", "undo")),
    }
    listed = {command for command, *_ in (*TABLE, *ONE, *WHOLE)}
    assert commands - elsewhere == listed


@pytest.fixture
def devices(fake):
    """Both providers are burned devices."""
    inventory = {"total": 1, "reserved": 1}
    generation = {"resource_provider_generation": 3}
    for uuid in UUIDS:
        path = f"/resource_providers/{uuid}"
        fake.on("GET", f"{path}/inventories", {"inventories": {"VCPU": inventory}, **generation})
        fake.on("GET", f"{path}/traits", {"traits": ["HW_PCI_ONE_TIME_USE"], **generation})
        fake.on("GET", f"{path}/usages", {"usages": {"VCPU": 0}})
    return fake


def test_release_reads_usages_after_inventories(devices):
    """Those of each device that is to be released, as a claim may come between the readings."""
    _, status = run(load(f"{BATCH} device release"), devices.client(), "--all --yes")
    assert status == 0
    lines = [line for line in devices.lines if line not in ("GET /", BULK)]
    assert sorted(lines) == sorted(
        [LIST, *each("inventories", "traits", "usages"), *each("inventories/VCPU", method="PUT")]
    )
    for uuid in UUIDS:
        path = f"/resource_providers/{uuid}"
        steps = [f"GET {path}/inventories", f"GET {path}/usages", f"PUT {path}/inventories/VCPU"]
        assert sorted(steps, key=lines.index) == steps


def test_list_of_devices_reads_their_trees_alone(devices):
    """Which hosts have devices, one request tells."""
    _, status = run(load("resource provider device list"), devices.client(), "")
    assert status == 0
    lines = {line for line in devices.lines if line not in ("GET /", BULK)}
    assert lines == {LIST, *each("inventories", "usages")}
    required = [value for request in devices.asked for name, value in request.query if name == "required"]
    assert required == ["HW_PCI_ONE_TIME_USE"]


def test_explaining_one_host_reads_its_tree_and_sharing_trees(fake):
    """A tree that is named twice is read once."""
    hosts = [
        {
            "uuid": uuid,
            "name": uuid,
            "generation": 3,
            "root_provider_uuid": FIRST,
            "parent_provider_uuid": parent,
        }
        for uuid, parent in ((FIRST, None), (SECOND, FIRST))
    ]
    fake.on("GET", "/resource_providers", {"resource_providers": hosts})
    _, status = run(load("allocation candidate explain"), fake.client(), f"--resource VCPU=1 --host {FIRST}")
    assert status == 0
    lines = sorted(line for line in fake.lines if line not in ("GET /", BULK))
    parts = each("inventories", "usages", "traits", "aggregates")
    assert lines == sorted(["GET /resource_classes", LIST, LIST, *parts, "GET /allocation_candidates"])
