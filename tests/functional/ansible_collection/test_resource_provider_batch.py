# SPDX-License-Identifier: Apache-2.0
"""The module for many providers: selections, edits, the run that it leaves, and what is wrong."""

import pytest

from osc_placement.batch import journal
from tests.functional.ansible_collection import collection
from tests.functional.commands.compute import compute_with

RACK = "aaaaaaaa-0000-4000-8000-000000000a52"


@pytest.fixture
def rack(client):
    """Three hosts, of which the first two are in an aggregate; UUIDs by name."""
    uuids = {}
    for number in (1, 2, 3):
        name = f"compute-{number}"
        uuid = uuids[name] = client.create_provider(name)["uuid"]
        client.set_inventories(uuid, {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}}, 0)
        if number < 3:
            client.set_provider_aggregates(uuid, [RACK], 1)
    return uuids


def ratios(client, rack):
    """The ratio of VCPU of each host."""
    return [client.show_inventory(uuid, "VCPU")["allocation_ratio"] for uuid in rack.values()]


def test_the_hosts_of_an_aggregate_are_changed_once(modules, client, rack):
    """Check mode tells the same and writes nothing; the run is in the journal."""
    task = {"select": {"aggregate": [RACK]}, "ratios": {"VCPU": 4.0}}
    checked = modules.succeed("resource_provider_batch", check=True, **task)
    assert checked["changed"]
    assert checked["counts"] == {"applied": 2, "unchanged": 0, "failed": 0, "skipped": 0}
    assert "run_id" not in checked
    assert "cpu_allocation_ratio" in checked["warnings"][0]
    assert ratios(client, rack) == [1.0, 1.0, 1.0]

    results = modules.succeed("resource_provider_batch", **task)
    assert results["summary"] == "ratio set VCPU=4.0: 2 resource providers, 2 applied"
    assert results["diff"] == checked["diff"]
    assert "allocation_ratio: 4.0" in results["diff"]["after"]
    assert "MEMORY_MB" not in results["diff"]["after"]
    assert [(row["before"], row["after"]) for row in results["providers"]] == [
        (["VCPU:allocation_ratio=1.0"], ["VCPU:allocation_ratio=4.0"])
    ] * 2
    assert ratios(client, rack) == [4.0, 4.0, 1.0]
    run = journal.Journals().read(results["run_id"])
    assert run.header.edit.title == "ratio set VCPU=4.0"
    assert run.state == "done"

    again = modules.succeed("resource_provider_batch", **task)
    assert not again["changed"]
    assert again["counts"]["unchanged"] == 2
    assert "run_id" not in again


@pytest.mark.parametrize(
    ("select", "chosen"),
    [
        ({"all": True}, {"compute-1", "compute-2", "compute-3"}),
        ({"name": "*-3"}, {"compute-3"}),
        ({"providers": ["compute-1", "compute-3"]}, {"compute-1", "compute-3"}),
        ({"in_tree": "compute-2"}, {"compute-2"}),
        ({"required": ["COMPUTE_NODE"]}, {"compute-3"}),
        ({"forbidden": ["COMPUTE_NODE"]}, {"compute-1", "compute-2"}),
        ({"resources": {"VCPU": 8}, "aggregates": [RACK]}, {"compute-1", "compute-2"}),
    ],
)
def test_a_selection_is_that_of_the_command_line(modules, client, rack, select, chosen):
    """Its conditions have the names of the options."""
    client.set_provider_traits(rack["compute-3"], ["COMPUTE_NODE"], 1)
    results = modules.succeed(
        "resource_provider_batch", select=select, inventories={"VCPU": {"reserved": 2}}, check=True
    )
    assert {row["name"] for row in results["providers"]} == chosen


def test_traits_are_added_removed_and_set(modules, client, rack):
    """An unknown one is created only if that is asked for; the loss of one of nova-compute's is warned of."""
    warnings = []

    def change(**parameters):
        results = modules.succeed("resource_provider_batch", select={"name": "compute-1"}, **parameters)
        warnings.extend(results["warnings"])
        return results["changed"], set(client.list_provider_traits(rack["compute-1"])["traits"])

    told = modules.fail("resource_provider_batch", select={"all": True}, traits=["CUSTOM_GOLD"])["msg"]
    assert "does not know the trait CUSTOM_GOLD" in told
    gold = {"traits": ["CUSTOM_GOLD"], "create_missing": True}
    assert change(**gold) == (True, {"CUSTOM_GOLD"})
    assert change(traits=["COMPUTE_NODE"]) == (True, {"CUSTOM_GOLD", "COMPUTE_NODE"})
    assert warnings == []
    assert change(traits=["CUSTOM_GOLD"], state="exact") == (True, {"CUSTOM_GOLD"})
    assert warnings == ["compute-1 loses traits that nova-compute reports: COMPUTE_NODE (1)"]
    assert change(traits=["CUSTOM_GOLD"], state="absent") == (True, set())
    assert change(traits=["CUSTOM_GOLD"], state="absent") == (False, set())
    assert change(traits=[], state="exact") == (False, set())


def test_inventories_and_aggregates_are_changed(modules, client, rack):
    """A class is removed whole, and an aggregate is joined and left."""
    one = {"select": {"providers": ["compute-1"]}}
    modules.succeed("resource_provider_batch", **one, inventories={"MEMORY_MB": {}}, state="absent")
    modules.succeed("resource_provider_batch", **one, inventories={"CUSTOM_SLOT": 4}, create_missing=True)
    found = client.list_inventories(rack["compute-1"])["inventories"]
    assert {name: fields["total"] for name, fields in found.items()} == {"VCPU": 8, "CUSTOM_SLOT": 4}
    modules.succeed("resource_provider_batch", **one, aggregates=[RACK], state="absent")
    assert client.list_provider_aggregates(rack["compute-1"])["aggregates"] == []


def test_amounts_have_units_and_shares_of_each_total(modules, client, rack):
    """What is reserved is a share of what each provider has."""
    uuid = rack["compute-2"]
    client.set_inventories(uuid, {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 4096}}, 2)
    inventories = {"MEMORY_MB": {"reserved": "1GB"}, "VCPU": {"reserved": "10%"}}
    select = {"providers": ["compute-1", "compute-2"]}
    modules.succeed("resource_provider_batch", select=select, inventories=inventories)
    found = [client.list_inventories(rack[name])["inventories"] for name in select["providers"]]
    assert [each["VCPU"]["reserved"] for each in found] == [1, 2]
    assert [each["MEMORY_MB"]["reserved"] for each in found] == [1024, 1024]


def test_aggregates_have_names(collections, clouds, client, rack, server_url):
    """Those of the compute service."""
    with compute_with({"rack-1": RACK}) as (url, _asked):
        collection.write_clouds(clouds, admin=("admin", server_url, {"compute_endpoint_override": url}))
        modules = collection.Modules()
        results = modules.succeed(
            "resource_provider_batch", select={"aggregate": ["rack-1"]}, ratios={"VCPU": 2}, check=True
        )
        assert results["counts"]["applied"] == 2
        told = modules.fail("resource_provider_batch", select={"aggregate": ["rack-9"]}, ratios={"VCPU": 2})[
            "msg"
        ]
        assert "no host aggregate has this name; nothing was changed. The host aggregates are rack-1" in told


def test_a_refused_provider_fails_the_task_and_not_the_others(modules, client, rack):
    """The results say which, and the message how to go on and how to undo."""
    allocations = {rack["compute-1"]: {"resources": {"VCPU": 8}}}
    owner = {"project_id": "web", "user_id": "alice", "consumer_type": "INSTANCE"}
    client.set_allocations(
        "cccccccc-0000-4000-8000-000000000a52",
        {"allocations": allocations, "consumer_generation": None, **owner},
    )
    task = {"select": {"all": True}, "inventories": {"VCPU": {"reserved": 2}}}
    checked = modules.fail("resource_provider_batch", check=True, **task)
    assert checked["changed"]
    assert "1 would be refused" in checked["msg"]

    results = modules.fail("resource_provider_batch", **task)
    assert results["counts"] == {"applied": 2, "unchanged": 0, "failed": 1, "skipped": 0}
    (failure,) = results["failures"]
    assert failure["name"] == "compute-1"
    assert failure["error"].endswith("allow_overcommitted: true changes it all the same")
    assert f"batch run undo {results['run_id']}" in results["msg"]
    assert client.show_inventory(rack["compute-2"], "VCPU")["reserved"] == 2

    assert modules.succeed("resource_provider_batch", allow_overcommitted=True, **task)["changed"]


def test_a_wrong_value_is_told(modules, client, rack):
    """The message says what was asked, what is so and what to do."""
    everything = {"select": {"all": True}}
    for wrong, expected in (
        ({**everything, "ratios": {"VCPUS": 4}}, "the resource classes they have: MEMORY_MB, VCPU"),
        ({**everything, "ratios": {"VCPU": "much"}}, "'much'"),
        ({**everything, "ratios": {"VCPU": 4}, "state": "absent"}, "they can only be set"),
        ({**everything, "inventories": {"VCPU": {"reserved": "2x"}}}, "2x"),
        ({**everything, "inventories": {"VCPUS": 8}}, "is it VCPU?"),
        ({**everything, "traits": []}, "traits: it is empty"),
        ({**everything, "traits": ["CUSTOM_A"], "ratios": {"VCPU": 4}}, "mutually exclusive"),
        ({**everything, "ratios": {"VCPU": 4}, "concurrency": 0}, "concurrency: must be 1 or more"),
        ({**everything, "ratios": {"VCPU": 4}, "throttle": -1}, "throttle: must be greater than 0"),
        ({"select": {}, "ratios": {"VCPU": 4}}, "select: it has no condition"),
        *(
            ({"select": {"name": "*", condition: nothing}, "ratios": {"VCPU": 4}}, f"select.{condition}: it")
            for condition, nothing in (
                ("aggregates", []),
                ("required", []),
                ("resources", {}),
                ("in_tree", ""),
            )
        ),
        (
            {"select": {"name": "nosuch-*"}, "ratios": {"VCPU": 4}},
            "correct the selection, or give allow_empty",
        ),
        ({"select": {"providers": ["nosuch"]}, "ratios": {"VCPU": 4}}, "has the name or UUID nosuch"),
        ({"select": {"in_tree": "nosuch"}, "ratios": {"VCPU": 4}}, "in_tree: no resource provider has"),
    ):
        assert expected in modules.fail("resource_provider_batch", **wrong)["msg"]
    assert ratios(client, rack) == [1.0, 1.0, 1.0]
    nobody = {"select": {"name": "nosuch-*"}, "ratios": {"VCPU": 4}, "allow_empty": True}
    assert not modules.succeed("resource_provider_batch", **nobody)["changed"]


def test_who_may_not_write_is_told(modules, client, rack):
    """Nothing is changed."""
    told = modules.fail("resource_provider_batch", cloud="demo", select={"all": True}, ratios={"VCPU": 4})[
        "msg"
    ]
    assert "use a cloud whose user has the role for this" in told
    assert ratios(client, rack) == [1.0, 1.0, 1.0]


def test_info_reads_what_is_selected(modules, client, rack):
    """By name, by UUID or by conditions; nothing found is an empty list."""

    def read(**parameters):
        return modules.succeed("resource_provider_info", **parameters)["resource_providers"]

    (one,) = read(name="compute-1")
    assert one["uuid"] == rack["compute-1"]
    assert one["inventories"]["VCPU"]["total"] == 8
    assert one["usages"] == {"VCPU": 0, "MEMORY_MB": 0}
    assert one["aggregates"] == [RACK]
    assert read(name=rack["compute-1"]) == [one]
    assert read(name="nosuch") == []
    assert [found["name"] for found in read(select={"aggregates": [RACK]})] == ["compute-1", "compute-2"]
    assert len(read()) == 3
