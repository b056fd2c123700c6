# SPDX-License-Identifier: Apache-2.0
"""Files with providers whose consumers hold more than the capacity, are applied whole."""

import uuid

import pytest
import yaml

from osc_placement.batch.execute import execute_plan
from osc_placement.batch.guards import guard
from osc_placement.batch.plan import Policy
from osc_placement.state import read
from osc_placement.state.document import parse_document
from osc_placement.state.plan import plan_apply, plan_run
from osc_placement.state.text import format_document
from tests.functional.cleaning import clear
from tests.functional.commands.proxy import proxy_to

APPLY = ("resource", "provider", "apply", "-f", "-")
EXPORT = ("resource", "provider", "export")
RUN = ("resource", "provider", "batch", "run")
BAD_GATEWAY = (502, "text/html", "<h1>Bad Gateway</h1>")
HOST = "cccccccc-0000-4000-8000-000000000001"
DEVICE = "eeeeeeee-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def endpoint(server_apart):
    """A server that no other test writes to."""
    return server_apart.url


@pytest.fixture
def empty(client):
    """The client of a server that has nothing of its own."""
    clear(client)
    return client


def describe():
    """A used one-time-use device, and a host whose ratio and units were lowered after three claims."""
    claims = [
        {
            "consumer": str(uuid.UUID(int=number)),
            "project": "p",
            "user": "u",
            "type": "INSTANCE",
            "resources": {HOST: {"VCPU": 4, "MEMORY_MB": 100}},
        }
        for number in range(1, 4)
    ]
    claims[1]["resources"][DEVICE] = {"CUSTOM_GPU": 1}
    document = {
        "version": 1,
        "resource_classes": ["CUSTOM_GPU"],
        "traits": [],
        "providers": [
            {
                "name": "host",
                "uuid": HOST,
                "traits": ["HW_CPU_X86_AVX2"],
                "inventories": {
                    "VCPU": {"total": 8, "reserved": 2, "max_unit": 2, "allocation_ratio": 0.5},
                    "MEMORY_MB": {"total": 1000, "reserved": 800},
                },
            },
            {
                "name": "device",
                "uuid": DEVICE,
                "parent": "host",
                "traits": ["HW_PCI_ONE_TIME_USE"],
                "inventories": {"CUSTOM_GPU": {"total": 1, "reserved": 1}},
            },
        ],
        "allocations": claims,
    }
    return yaml.safe_dump(document)


def test_an_export_with_overfull_providers_is_applied_completely(openstack, empty):
    """Inventories and claims are as in the file, and the undo leaves nothing."""
    text = describe()
    planned = openstack.run(*APPLY, "--dry-run", text=text)
    assert (planned.status, "!" in planned.out) == (0, False)
    done = openstack.run(*APPLY, "--yes", text=text)
    assert done.status == 0, done.err
    assert done.out.splitlines()[-2:] == ["resource providers: 2 created", "consumers: 3 created"]
    assert done.complaints == (
        "Warning: host: MEMORY_MB would be over capacity by 100: 300 allocated, the capacity would be 200; "
        "VCPU would be over capacity by 9: 12 allocated, the capacity would be 3\n"
    )
    assert openstack.run(*APPLY, text=text).out.startswith("Nothing to do: ")
    assert empty.provider_usages(HOST) == {"VCPU": 12, "MEMORY_MB": 300}
    last = openstack.run(*RUN, "list", "-f", "json").json[-1]
    assert last["state"] == "done"
    undone = openstack.run(*RUN, "undo", last["id"], "--yes")
    assert undone.status == 0, undone.err
    assert empty.list_providers() == []


def test_an_export_with_overfull_providers_is_applied_to_openstack_placement(reference_client):
    """It has the same rules of capacity."""
    document = parse_document(yaml.safe_load(describe()))
    document, current = read.read_current(reference_client, document)
    plan = plan_run(plan_apply(document, current), "apply")
    run = guard(reference_client, plan, Policy("keep"), current.readings)
    assert not run.refused
    report = execute_plan(reference_client, run)
    assert not report.is_failed, [str(each.error) for each in report.outcomes]
    after = yaml.safe_load("".join(format_document(read.read_document(reference_client))))
    inventories = [each["inventories"] for each in after["providers"]]
    assert inventories[0]["VCPU"]["allocation_ratio"] == 0.5
    assert inventories[1]["CUSTOM_GPU"]["reserved"] == 1
    assert len(after["allocations"]) == 3


@pytest.mark.parametrize("way", ["undo", "resume"])
def test_an_apply_that_failed_amid_its_writes_is_undone_and_resumed(openstack, empty, way):
    """Whichever write fails with those that follow it; in between the providers have other inventories."""
    text, rooms, status = describe(), 0, 3
    allowed = 0
    while status:
        allowed += 1
        tokens = [True] * allowed

        def interfere(method, path, tokens=tokens):
            if method == "GET" or (tokens and tokens.pop()):
                return None
            return BAD_GATEWAY

        with proxy_to(openstack.endpoint, interfere) as proxied:
            status = openstack.run(*APPLY, "--yes", text=text, endpoint=proxied).status
            found = yaml.safe_load(openstack.run(*EXPORT).out)["providers"]
            rooms += any(each["inventories"].get("CUSTOM_GPU", {}).get("reserved") == 0 for each in found)
            tokens.extend([True] * 1000)
            last = openstack.run(*RUN, "list", "-f", "json", endpoint=proxied).json[-1]["id"]
            if way == "resume":
                done = openstack.run(*RUN, "resume", last, "--yes", endpoint=proxied)
                assert done.status == 0, (allowed, done.out, done.err)
                assert openstack.run(*APPLY, text=text).out.startswith("Nothing to do: ")
            undone = openstack.run(*RUN, "undo", last, "--yes", "-f", "json", endpoint=proxied)
            assert undone.status == 0, (allowed, undone.out, undone.err)
        assert empty.list_providers() == []
    assert rooms > 1


def test_repeated_apply_in_place_of_a_resume_refuses_what_does_not_fit(openstack, empty):
    """Overfull providers that exist get no other inventories for their claims; a resume gives them."""
    text = describe()
    tokens = [True] * 2

    def interfere(method, path):
        return None if method == "GET" or (tokens and tokens.pop()) else BAD_GATEWAY

    with proxy_to(openstack.endpoint, interfere) as proxied:
        assert openstack.run(*APPLY, "--yes", text=text, endpoint=proxied).status == 3
        assert [each["name"] for each in empty.list_providers()] == ["host"]
        tokens.extend([True] * 1000)
        repeated = openstack.run(*APPLY, "--dry-run", text=text, endpoint=proxied)
        assert repeated.status == 3
        assert repeated.out.count("host gives 1 to 2 VCPU in steps of 1, not 4") == 3
        assert openstack.run(*RUN, "resume", "--last", "--yes", endpoint=proxied).status == 0
    assert openstack.run(*APPLY, text=text).out.startswith("Nothing to do: ")


def test_undo_of_a_prune_creates_overfull_providers_again(openstack, empty):
    """They get their consumers, too."""
    assert openstack.run(*APPLY, "--yes", text=describe()).status == 0
    before = openstack.run(*EXPORT).out
    nothing = "providers: []\nallocations: []\n"
    assert openstack.run(*APPLY, "--prune", "--yes", text=nothing).status == 0
    assert empty.list_providers() == []
    undone = openstack.run(*RUN, "undo", "--last", "--yes")
    assert undone.status == 0, (undone.out, undone.err)
    assert openstack.run(*EXPORT).out == before


def test_an_overfull_provider_that_somebody_else_creates_meanwhile_is_as_the_file_says(empty):
    """Its inventories were to admit consumers first; an undo knows that the run did not create it."""
    document, current = read.read_current(empty, parse_document(yaml.safe_load(describe())))
    run = plan_run(plan_apply(document, current), "apply")
    empty.create_provider("host", uuid=HOST)
    report = execute_plan(empty, guard(empty, run, Policy("keep"), current.readings))
    assert not report.is_failed, [str(each.error) for each in report.outcomes]
    inventories = empty.list_inventories(HOST)["inventories"]
    assert (inventories["VCPU"]["reserved"], inventories["VCPU"]["allocation_ratio"]) == (2, 0.5)
    assert inventories["MEMORY_MB"]["reserved"] == 800
    (change,) = [each.change for each in report.outcomes if each.change.uuid == HOST]
    assert (change.is_new, change.before.inventories) == (False, {})
