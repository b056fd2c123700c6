# SPDX-License-Identifier: Apache-2.0
"""An apply is a run: it is listed, resumed and undone like those of batch commands."""

import uuid

import pytest
import yaml

from tests.functional.cleaning import clear
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.test_prune import OWNER, Cloud

APPLY = ("resource", "provider", "apply", "-f", "-")
EXPORT = ("resource", "provider", "export")
RUN = ("resource", "provider", "batch", "run")


@pytest.fixture(scope="module")
def endpoint(server_apart):
    """A server that no other test writes to."""
    return server_apart.url


@pytest.fixture
def cloud(client):
    """Two racks, and nothing else."""
    clear(client)
    return Cloud(client)


@pytest.fixture
def undo(openstack):
    """A function that undoes the last run."""

    def undo(*options):
        last = openstack.last_run()["id"]
        return openstack.run(*RUN, "undo", last, "--yes", *options, "-f", "json")

    return undo


def edit(exported):
    """Change everything that an apply can change: create, rename, move, replace and give."""
    document = yaml.safe_load(exported)
    document["traits"].append("CUSTOM_NEW")
    document["resource_classes"].append("CUSTOM_NEW")
    entries = {entry["name"]: entry for entry in document["providers"]}
    entries["r1-host"]["inventories"]["CUSTOM_NEW"] = {"total": 4}
    entries["r1-host"]["traits"].append("CUSTOM_NEW")
    # two that swap their names, and one that moves
    entries["r1-disk"]["name"], entries["r2-disk"]["name"] = "r2-disk", "r1-disk"
    entries["r2-disk"]["parent"] = "r1-host"
    document["providers"].append({"name": "new-root", "uuid": str(uuid.uuid4()), "parent": None})
    document["providers"].append(
        {"name": "new-leaf", "parent": "new-root", "inventories": {"VCPU": {"total": 2}}}
    )
    for claim in document["allocations"]:
        claim["resources"] = {
            {"r1-disk": "r2-disk", "r2-disk": "r1-disk"}.get(name, name): amounts
            for name, amounts in claim["resources"].items()
        }
    document["allocations"][0]["project"] = "other"
    document["allocations"].append(
        {
            "consumer": str(uuid.uuid4()),
            "project": "p",
            "user": "u",
            "type": "INSTANCE",
            "resources": {"new-leaf": {"VCPU": 1}},
        }
    )
    return yaml.safe_dump(document)


def test_undo_of_an_apply_restores_the_state_before(openstack, cloud, undo):
    """What was created is deleted; names, parents, inventories and allocations are as before."""
    before = openstack.run(*EXPORT).out
    done = openstack.run(*APPLY, text=edit(before))
    assert (done.status, done.complaints) == (0, "")
    after = openstack.run(*EXPORT).out
    undone = undo()
    assert undone.status == 0, (undone.out, undone.err)
    assert openstack.run(*EXPORT).out == before
    # an undo is a run and can be undone itself
    assert undo().status == 0
    assert openstack.run(*EXPORT).out == after


def test_undo_of_an_apply_leaves_what_was_set_beside_it(openstack, client, cloud, undo):
    """Another field, trait and aggregate, and the name of a provider that the apply did not rename."""
    before = openstack.run(*EXPORT).out
    assert openstack.run(*APPLY, text=edit(before)).status == 0
    host, aggregate = cloud.uuids["r1-host"], str(uuid.uuid4())
    generation = client.show_provider(host)["generation"]
    client.set_inventory(host, "VCPU", {"total": 8, "reserved": 1}, generation)
    client.set_provider_traits(host, ["CUSTOM_NEW", "CUSTOM_RACK", "COMPUTE_NODE"], generation + 1)
    client.set_provider_aggregates(host, [cloud.aggregates["r1"], aggregate], generation + 2)
    client.update_provider(host, "named-since")
    undone = undo()
    assert undone.status == 0, (undone.out, undone.err)
    assert client.show_provider(host)["name"] == "named-since"
    inventories = client.list_inventories(host)["inventories"]
    assert {name: entry["reserved"] for name, entry in inventories.items()} == {"VCPU": 1}
    assert set(client.list_provider_traits(host)["traits"]) == {"CUSTOM_RACK", "COMPUTE_NODE"}
    assert set(client.list_provider_aggregates(host)["aggregates"]) == {cloud.aggregates["r1"], aggregate}


def test_undo_of_a_prune_creates_again_what_it_deleted(openstack, client, cloud, undo):
    """Providers come back with UUID, name, parent and contents, consumers with their owners."""
    part = openstack.run(*EXPORT, "--name", "r1-*").out
    before = openstack.run(*EXPORT).out
    done = openstack.run(*APPLY, "--prune", "--yes", text=part)
    assert done.status == 0
    assert "resource providers: 2 deleted, 2 unchanged" in done.out
    undone = undo()
    assert undone.status == 0, (undone.out, undone.err)
    assert openstack.run(*EXPORT).out == before


def test_undo_takes_away_a_class_that_the_apply_gave_to_a_consumer(openstack, client, cloud, undo):
    """The consumer keeps what it had before; the inventory goes when nothing is allocated from it."""
    provider, consumer = str(uuid.uuid4()), str(uuid.uuid4())
    client.create_provider("host", uuid=provider)
    client.set_inventories(provider, {"VCPU": {"total": 4}}, 0)
    client.set_allocations(consumer, {"allocations": {provider: {"resources": {"VCPU": 1}}}, **OWNER})
    before = openstack.run(*EXPORT).out
    document = yaml.safe_load(before)
    (entry,) = (entry for entry in document["providers"] if entry["name"] == "host")
    entry["inventories"]["MEMORY_MB"] = {"total": 100}
    (claim,) = (claim for claim in document["allocations"] if claim["consumer"] == consumer)
    claim["resources"]["host"]["MEMORY_MB"] = 10
    assert openstack.run(*APPLY, text=yaml.safe_dump(document)).status == 0
    undone = undo()
    assert undone.status == 0, (undone.out, undone.err)
    assert openstack.run(*EXPORT).out == before


def test_undo_keeps_a_created_provider_that_is_in_use(openstack, client, cloud, undo):
    """It fails for that provider, with the server's reason, and can be undone when it is free; others are."""
    document = yaml.safe_load(openstack.run(*EXPORT).out)
    used, free = str(uuid.uuid4()), str(uuid.uuid4())
    for name, provider in (("used", used), ("free", free)):
        entry = {"name": name, "uuid": provider, "inventories": {"VCPU": {"total": 2}}}
        document["providers"].append(entry)
    assert openstack.run(*APPLY, text=yaml.safe_dump(document)).status == 0
    consumer = str(uuid.uuid4())
    client.set_allocations(consumer, {"allocations": {used: {"resources": {"VCPU": 1}}}, **OWNER})
    undone = undo()
    assert undone.status == 3
    results = {row["name"]: row["result"] for row in undone.json}
    assert (results["used"], results["free"]) == ("refused", "applied")
    assert "used" in cloud.names()
    assert "free" not in cloud.names()
    left = undone.err.strip().rpartition("; run ")[2]
    applied, told = left.split(" ", 1)
    again = f"openstack {' '.join(RUN)} undo {applied}"
    assert told == f"still has 1 change to undo, when nothing refuses it any more: {again}"
    client.delete_allocations(consumer)
    assert openstack.run(*again.split()[1:], "--yes").status == 0
    assert "used" not in cloud.names()


def test_undo_refuses_a_created_provider_that_others_changed(openstack, client, cloud, undo):
    """Also with --force it stays, as what others gave it would go with it; the status says so."""
    document = yaml.safe_load(openstack.run(*EXPORT).out)
    created = str(uuid.uuid4())
    document["providers"].append({"name": "created", "uuid": created})
    assert openstack.run(*APPLY, text=yaml.safe_dump(document)).status == 0
    client.set_provider_traits(created, ["CUSTOM_RACK"], 0)
    assert undo().status == 3
    assert undo("--force").status == 3
    assert client.list_provider_traits(created)["traits"] == ["CUSTOM_RACK"]


def test_undo_of_a_prune_refuses_a_name_that_is_taken(openstack, client, cloud, undo):
    """The name belongs to somebody else by now; what does not depend on it comes back."""
    part = openstack.run(*EXPORT, "--name", "r1-*").out
    assert openstack.run(*APPLY, "--prune", "--yes", text=part).status == 0
    client.create_provider("r2-host")
    undone = undo()
    assert undone.status == 3
    results = {row["name"]: (row["result"], row["error"]) for row in undone.json}
    assert results["r2-host"][0] == "refused"
    assert "r2-host" in results["r2-host"][1]


def test_an_apply_that_failed_is_resumed(openstack, cloud):
    """What was skipped because it depends on what failed is made by a resume; an undo undoes all of it."""
    before = openstack.run(*EXPORT).out
    failing = [True]

    def interfere(method, path):
        is_creation = method == "POST" and path.endswith("/resource_providers")
        return (502, "text/html", "<html>Bad Gateway</html>") if is_creation and failing else None

    with proxy_to(openstack.endpoint, interfere) as proxied:
        failed = openstack.run(*APPLY, text=edit(before), endpoint=proxied)
        assert failed.status == 3
        assert "skipped" in failed.out
        run = openstack.last_run()
        assert (run["state"], run["what"]) == ("unfinished", "apply standard input")
        failing.clear()
        resumed = openstack.run(*RUN, "resume", run["id"], "--yes", "-f", "json", endpoint=proxied)
        assert resumed.status == 0, (resumed.out, resumed.err)
        assert {"new-root", "new-leaf"} <= set(cloud.names())
        undone = openstack.run(*RUN, "undo", run["id"], "--yes", "-f", "json", endpoint=proxied)
        assert undone.status == 0, (undone.out, undone.err)
    assert openstack.run(*EXPORT).out == before


def swap_names(exported):
    """Let the two disks swap their names."""
    return exported.replace("r1-disk", "r3-disk").replace("r2-disk", "r1-disk").replace("r3-disk", "r2-disk")


@pytest.mark.parametrize("canary", [1, 2])
def test_swapped_names_are_undone_after_canaries(openstack, client, cloud, undo, canary):
    """The canary takes a name that a later provider still has."""
    document = yaml.safe_load(openstack.run(*EXPORT).out)
    swapped = {"providers": yaml.safe_load(swap_names(yaml.safe_dump(document["providers"])))}
    swapped = {key: value for key, value in document.items() if key != "allocations"} | swapped
    assert openstack.run(*APPLY, text=yaml.safe_dump(swapped)).status == 0
    assert client.show_provider(cloud.uuids["r1-disk"])["name"] == "r2-disk"
    undone = undo("--canary", str(canary))
    assert undone.status == 0, (undone.out, undone.err)
    for name in ("r1-disk", "r2-disk"):
        assert client.show_provider(cloud.uuids[name])["name"] == name


BAD_GATEWAY = (502, "text/html", "<html>Bad Gateway</html>")


def test_an_apply_that_fails_before_its_renames_gives_the_names_back(openstack, client, cloud):
    """Providers were set aside for a swap of names, and then a trait could not be created."""
    before = openstack.run(*EXPORT).out
    document = yaml.safe_load(swap_names(before))
    document["traits"].append("CUSTOM_NEW")

    def interfere(method, path):
        return BAD_GATEWAY if (method, path) == ("PUT", "/traits/CUSTOM_NEW") else None

    with proxy_to(openstack.endpoint, interfere) as proxied:
        failed = openstack.run(*APPLY, text=yaml.safe_dump(document), endpoint=proxied)
    assert failed.status == 3
    assert "resource providers: 2 skipped" in failed.out
    assert openstack.run(*EXPORT).out == before


@pytest.mark.parametrize("way", ["undo", "resume"])
def test_a_deleted_provider_whose_name_is_taken_is_undone_and_resumed(openstack, client, cloud, way):
    """A new provider takes the name of one that is to be deleted, and the run fails between the two."""
    before = openstack.run(*EXPORT).out
    document = yaml.safe_load(openstack.run(*EXPORT, "--name", "r1-*").out)
    new, consumer = str(uuid.uuid4()), str(uuid.uuid4())
    document["providers"].append({"name": "r2-host", "uuid": new, "inventories": {"VCPU": {"total": 2}}})
    claim = {"consumer": consumer, "project": "p", "user": "u", "type": "INSTANCE"}
    document["allocations"].append(claim | {"resources": {"r2-host": {"VCPU": 1}}})
    failing = [True]

    def interfere(method, path):
        is_claim = path in (f"/allocations/{consumer}", "/allocations") and method != "GET"
        return BAD_GATEWAY if is_claim and failing else None

    with proxy_to(openstack.endpoint, interfere) as proxied:
        failed = openstack.run(*APPLY, "--prune", "--yes", text=yaml.safe_dump(document), endpoint=proxied)
        failing.clear()
        last = openstack.last_run()["id"]
        done = openstack.run(*RUN, way, last, "--yes", "-f", "json", endpoint=proxied)
    old = cloud.uuids["r2-host"]
    assert failed.status == 3
    assert f"it is still named renaming-{old}, as it could not be given back its name r2-host" in failed.err
    assert done.status == 0, (done.out, done.err)
    if way == "undo":
        assert openstack.run(*EXPORT).out == before
    else:
        assert client.show_provider(new)["name"] == "r2-host"
        assert cloud.names() == ["r1-disk", "r1-host", "r2-host"]


def test_an_apply_whose_only_change_is_unknown_does_not_say_that_it_was_not_made(openstack, cloud):
    """The request may be carried out yet; to run the command again is right either way."""
    document = yaml.safe_load(openstack.run(*EXPORT).out)
    document["traits"].append("CUSTOM_NEW")

    def interfere(method, path):
        return BAD_GATEWAY if (method, path) == ("PUT", "/traits/CUSTOM_NEW") else None

    with proxy_to(openstack.endpoint, interfere) as proxied:
        failed = openstack.run(*APPLY, "--yes", text=yaml.safe_dump(document), endpoint=proxied)
    assert (failed.status, failed.out.splitlines()[1]) == (3, "traits: 1 unknown, 1 unchanged")
    assert failed.err.splitlines()[-1] == (
        "It is not known whether all changes were made; run the same command again to make what is missing."
    )


def exchange_classes(document, cloud):
    """Take the class away that a consumer holds, and give the provider and the consumer another one."""
    (entry,) = (entry for entry in document["providers"] if entry["name"] == "r1-host")
    entry["inventories"] = {"PCPU": {"total": 4}}
    (claim,) = (claim for claim in document["allocations"] if claim["consumer"] == cloud.consumers["r1"])
    claim["resources"]["r1-host"] = {"PCPU": 2}


def move_off_a_class(document, cloud):
    """Delete a class, and give its consumers something else on other providers."""
    document["resource_classes"] = []
    for entry in document["providers"]:
        if entry["name"].endswith("-disk"):
            entry["inventories"] = {}
    for claim in document["allocations"]:
        claim["resources"] = {"r2-host": {"VCPU": 1}}


CHANGES = [exchange_classes, move_off_a_class]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_class_goes_when_its_consumers_have_left(openstack, cloud, undo, change):
    """What they need comes first, then they are moved; the undo does the same in the other direction."""
    before = openstack.run(*EXPORT).out
    document = yaml.safe_load(before)
    change(document, cloud)
    text = yaml.safe_dump(document)
    done = openstack.run(*APPLY, "--prune", "--yes", text=text)
    assert (done.status, done.complaints) == (0, "")
    assert openstack.run(*APPLY, text=text).out.startswith("Nothing to do: ")
    undone = undo()
    assert undone.status == 0, (undone.out, undone.err)
    assert openstack.run(*EXPORT).out == before


@pytest.mark.parametrize("way", ["undo", "resume"])
def test_an_apply_that_fails_when_the_new_class_is_there_is_undone_and_resumed(openstack, cloud, way):
    """The provider has both classes in between, and the journal knows what it had."""
    before = openstack.run(*EXPORT).out
    document = yaml.safe_load(before)
    exchange_classes(document, cloud)
    failing = [True]

    def interfere(method, path):
        is_claim = path.startswith("/allocations") and method != "GET"
        return BAD_GATEWAY if is_claim and failing else None

    with proxy_to(openstack.endpoint, interfere) as proxied:
        failed = openstack.run(*APPLY, "--yes", text=yaml.safe_dump(document), endpoint=proxied)
        assert failed.status == 3
        host = cloud.uuids["r1-host"]
        assert set(cloud.client.list_inventories(host)["inventories"]) == {"PCPU", "VCPU"}
        failing.clear()
        last = openstack.run(*RUN, "list", "-f", "json", endpoint=proxied).json[-1]["id"]
        done = openstack.run(*RUN, way, last, "--yes", "-f", "json", endpoint=proxied)
        assert done.status == 0, (done.out, done.err)
        if way == "resume":
            assert set(cloud.client.list_inventories(host)["inventories"]) == {"PCPU"}
            undone = openstack.run(*RUN, "undo", last, "--yes", "-f", "json", endpoint=proxied)
            assert undone.status == 0, (undone.out, undone.err)
    assert openstack.run(*EXPORT).out == before


def test_an_apply_that_cannot_give_the_new_class_moves_no_consumer(openstack, cloud):
    """The provider fails with the reason, and what depends on it is skipped."""
    before = openstack.run(*EXPORT).out
    document = yaml.safe_load(before)
    exchange_classes(document, cloud)

    def interfere(method, path):
        is_inventory = method == "PUT" and path.endswith("/inventories")
        return BAD_GATEWAY if is_inventory else None

    with proxy_to(openstack.endpoint, interfere) as proxied:
        failed = openstack.run(*APPLY, "--yes", text=yaml.safe_dump(document), endpoint=proxied)
    assert failed.status == 3
    assert failed.out.splitlines()[2:] == [
        "resource providers: 1 unknown, 3 unchanged",
        "consumers: 1 skipped, 1 unchanged",
    ]
    assert failed.err.startswith("resource provider r1-host: PUT ")
    assert openstack.run(*EXPORT).out == before
