# SPDX-License-Identifier: Apache-2.0
"""The module for one resource provider: present, absent, check and diff mode, and what is wrong."""

from osc_placement.batch import journal
from osc_placement.client import PlacementClient
from osc_placement.commands.batch_run import UndoRun
from tests.unit.commands.shell import run as run_command

HOST = {
    "name": "compute-1",
    "inventories": {"VCPU": {"total": 64, "allocation_ratio": 4.0}, "MEMORY_MB": "1024"},
    "traits": ["COMPUTE_NODE", "CUSTOM_GOLD"],
    "aggregates": ["aaaaaaaa-0000-4000-8000-000000000a51"],
    "create_missing": True,
}


def read(client, name):
    """The document of a provider, None if there is none."""
    return next(iter(client.list_providers(name=name)), None)


def test_a_provider_is_created_once(modules, client):
    """A second task with the same parameters changes nothing."""
    results = modules.succeed("resource_provider", **HOST)
    assert results["changed"]
    assert results["counts"]["created"] >= 1
    shown = results["resource_provider"]
    assert shown["uuid"] == read(client, "compute-1")["uuid"]
    assert shown["inventories"]["VCPU"]["allocation_ratio"] == 4.0
    assert shown["inventories"]["MEMORY_MB"]["total"] == 1024
    assert shown["traits"] == ["COMPUTE_NODE", "CUSTOM_GOLD"]
    assert shown["aggregates"] == HOST["aggregates"]

    again = modules.succeed("resource_provider", **HOST)
    assert not again["changed"]
    assert again["diff"] == {"before": "", "after": ""}
    assert again["resource_provider"] == shown


def test_only_what_is_given_is_changed(modules, client):
    """The other parts stay, and the difference shows what changes."""
    modules.succeed("resource_provider", **HOST)
    results = modules.succeed("resource_provider", name="compute-1", traits=["COMPUTE_NODE"])
    assert results["changed"]
    assert results["changes"][1:] == ["    - CUSTOM_GOLD"]
    assert "- CUSTOM_GOLD" in results["diff"]["before"]
    assert "- CUSTOM_GOLD" not in results["diff"]["after"]
    assert set(results["resource_provider"]["inventories"]) == {"VCPU", "MEMORY_MB"}


def test_check_mode_writes_nothing(modules, client):
    """It tells what would change, of a provider that there is and of one that there is not."""
    results = modules.succeed("resource_provider", check=True, **{**HOST, "traits": ["COMPUTE_NODE"]})
    assert results["changed"]
    assert "resource_provider" not in results
    assert "compute-1" in results["diff"]["after"]
    assert results["diff"]["before"] == "providers: {}\n"
    assert read(client, "compute-1") is None

    modules.succeed("resource_provider", **HOST)
    generation = read(client, "compute-1")["generation"]
    assert not modules.succeed("resource_provider", check=True, **HOST)["changed"]
    assert modules.succeed("resource_provider", check=True, name="compute-1", traits=[])["changed"]
    assert modules.succeed("resource_provider", check=True, name="compute-1", state="absent")["changed"]
    assert read(client, "compute-1")["generation"] == generation


def test_a_provider_is_renamed_and_moved(modules, client):
    """By its UUID it gets another name, and with a parent it becomes part of a tree."""
    root = client.create_provider("rack-1")
    uuid = client.create_provider("slot")["uuid"]
    results = modules.succeed("resource_provider", uuid=uuid, name="slot-1", parent="rack-1")
    assert results["changed"]
    assert "parent: rack-1" in results["diff"]["after"]
    moved = read(client, "slot-1")
    assert (moved["uuid"], moved["parent_provider_uuid"]) == (uuid, root["uuid"])
    assert not modules.succeed("resource_provider", name="slot-1", parent=root["uuid"])["changed"]
    assert modules.succeed("resource_provider", name="slot-1", parent="")["changed"]
    assert read(client, "slot-1")["parent_provider_uuid"] is None


def test_a_provider_is_deleted_once(modules, client):
    """What is not there is as it is to be, and an undo brings it back."""
    modules.succeed("resource_provider", **HOST)
    results = modules.succeed("resource_provider", name="compute-1", state="absent")
    assert results["changed"]
    assert "VCPU" in results["diff"]["before"]
    assert results["diff"]["after"] == ""
    run = journal.Journals().read(results["run_id"])
    assert (run.header.edit.title, run.state) == ("delete resource provider compute-1", "done")
    assert read(client, "compute-1") is None
    assert not modules.succeed("resource_provider", name="compute-1", state="absent")["changed"]

    run_command(UndoRun, client, f"{results['run_id']} --yes")
    assert not modules.succeed("resource_provider", **HOST)["changed"]


def test_a_provider_that_somebody_else_deletes_meanwhile_is_gone(modules, client, monkeypatch):
    """Nothing is left to delete, and there is nothing to show."""
    uuid = modules.succeed("resource_provider", **HOST)["resource_provider"]["uuid"]
    read = PlacementClient.read_providers

    def delete_first(self, *arguments, **options):
        if client.list_providers(uuid=uuid):
            client.delete_provider(uuid)
        return read(self, *arguments, **options)

    monkeypatch.setattr(PlacementClient, "read_providers", delete_first)
    assert not modules.succeed("resource_provider", name="compute-1", state="absent")["changed"]


def test_what_is_in_use_stays(modules, client):
    """Neither a parent nor a provider with allocations is deleted, nor does it get less than is allocated."""
    host = modules.succeed("resource_provider", **HOST)["resource_provider"]
    modules.succeed("resource_provider", name="slot-1", parent="compute-1")
    told = modules.fail("resource_provider", name="compute-1", state="absent", check=True)["msg"]
    assert "1 resource providers below it (slot-1)" in told

    modules.succeed("resource_provider", name="slot-1", state="absent")
    consumer = "cccccccc-0000-4000-8000-000000000a51"
    client.set_allocations(
        consumer,
        {
            "allocations": {host["uuid"]: {"resources": {"VCPU": 100}}},
            "project_id": "web",
            "user_id": "alice",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        },
    )
    told = modules.fail("resource_provider", name="compute-1", state="absent")["msg"]
    assert "compute-1 is in use: 100 VCPU allocated" in told

    small = {"VCPU": {"total": 8}, "MEMORY_MB": 1024}
    told = modules.fail("resource_provider", name="compute-1", inventories=small, check=True)["msg"]
    assert "VCPU would be over capacity by 92" in told
    assert "allow_overcommitted: true" in told
    assert modules.succeed(
        "resource_provider", name="compute-1", inventories=small, allow_overcommitted=True
    )["changed"]


def test_amounts_have_units_and_shares(modules, client):
    """They are those of the command line."""
    inventories = {"MEMORY_MB": {"total": "16GB", "reserved": "10%"}, "CUSTOM_SSD_GB": "1.5TB"}
    task = {"name": "compute-1", "inventories": inventories, "create_missing": True}
    assert modules.succeed("resource_provider", **task)["changed"]
    uuid = read(client, "compute-1")["uuid"]
    found = client.list_inventories(uuid)["inventories"]
    numbers = {name: (fields["total"], fields["reserved"]) for name, fields in found.items()}
    assert numbers == {"MEMORY_MB": (16384, 1639), "CUSTOM_SSD_GB": (1536, 0)}
    assert not modules.succeed("resource_provider", **task)["changed"]


def test_a_wrong_value_is_told_with_its_place(modules, client):
    """The message names the parameter, the value and what to do, and nothing is written."""
    for wrong, expected in (
        ({"inventories": {"VCPUS": 8}}, "does not know the resource class VCPUS (is it VCPU?)"),
        ({"inventories": {"CUSTOM_NVM": 8}}, "create_missing: true creates it"),
        ({"inventories": {"VCPU": {"total": -1}}}, "inventories.VCPU.total: must be from 1 to"),
        ({"inventories": {"VCPU": {"total": "many"}}}, "must be a whole number, not 'many'"),
        ({"inventories": {"VCPU": {"total": "16GB"}}}, "must be a number, not '16GB', as VCPU has no unit"),
        ({"inventories": {"VCPU": {"reserved": "10%"}}}, "inventories.VCPU: the key 'total' is missing"),
        (
            {"inventories": {"VCPU": {"totl": 8}}},
            "inventories.VCPU.totl: unknown key; the keys here are total",
        ),
        ({"inventories": {"VCPU": {"total": 8, "allocation_ratio": -1}}}, "must be from 0 to"),
        ({"traits": ["COMPUTE_NOD"]}, "does not know the trait COMPUTE_NOD (is it COMPUTE_NODE?)"),
        ({"traits": ["CUSTOM_GOLD"]}, "does not know the trait CUSTOM_GOLD; nothing was changed"),
        ({"traits": ["gold"]}, "must have only upper-case letters"),
        ({"parent": "nosuch"}, "parent: no resource provider has the name or UUID 'nosuch'"),
        ({"uuid": "1"}, "uuid: '1' is not a UUID"),
        ({"aggregates": ["rack-1"]}, "'rack-1' is not the UUID of an aggregate"),
    ):
        told = modules.fail("resource_provider", name="compute-1", **wrong)["msg"]
        assert expected in told
    assert read(client, "compute-1") is None
    told = modules.fail("resource_provider", uuid="dddddddd-0000-4000-8000-000000000a51")["msg"]
    assert "To create it, give its name" in told


def test_a_wrong_cloud_is_told(modules):
    """Whether there is none of this name, it is down, or its user may not write."""
    told = modules.fail("resource_provider", cloud="prdo", name="compute-1")["msg"]
    assert "The cloud 'prdo' cannot be used" in told
    assert "admin, demo, down" in told
    told = modules.fail("resource_provider", cloud="down", name="compute-1")["msg"]
    assert "check that the placement service runs" in told
    told = modules.fail("resource_provider", cloud="demo", name="compute-1")["msg"]
    assert "(HTTP 403); use a cloud whose user has the role for this" in told
    told = modules.fail("resource_provider", cloud={"auth": {"password": "secret"}}, name="compute-1")["msg"]
    assert "The cloud that is given cannot be used" in told
    assert "secret" not in told
    told = modules.fail("resource_provider", client_cert="/nosuch", name="compute-1")["msg"]
    assert "/nosuch" in told
    told = modules.fail("resource_provider", cloud={"auth": {}}, region_name="one", name="compute-1")["msg"]
    assert "region_name is given beside it" in told


def test_a_cloud_may_be_given_whole(modules, server_url):
    """As a dictionary, or by parameters, without a clouds.yaml."""
    auth = {"auth_type": "admin_token", "auth": {"endpoint": server_url, "token": "admin"}}
    assert modules.succeed("resource_provider", cloud=auth, name="compute-1", check=True)["changed"]
    assert modules.succeed("resource_provider", cloud=None, **auth, name="compute-1", check=True)["changed"]


def test_loss_of_traits_that_nova_compute_reports_is_warned_of(modules, client):
    """The task says what all traits are, so they go all the same."""
    modules.succeed("resource_provider", name="compute-1", traits=["COMPUTE_NODE", "HW_CPU_X86_AVX"])
    results = modules.succeed("resource_provider", name="compute-1", traits=["HW_CPU_X86_AVX"])
    (provider,) = client.list_providers(name="compute-1")
    assert client.list_provider_traits(provider["uuid"])["traits"] == ["HW_CPU_X86_AVX"]
    assert results["warnings"] == ["compute-1 loses traits that nova-compute reports: COMPUTE_NODE (1)"]
