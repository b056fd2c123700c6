# SPDX-License-Identifier: Apache-2.0
"""Files that say what shall be there and nothing else: pruning, parts of a cloud, names that change hands."""

import os
import uuid

import pytest
import yaml

from tests.functional.cleaning import clear
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.test_batch import Terminal

APPLY = ("resource", "provider", "apply", "-f", "-")
UNKNOWN = "aaaaaaaa-ffff-4000-8000-000000000000"
EXPORT = ("resource", "provider", "export")
OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}


@pytest.fixture(scope="module")
def endpoint(server_apart):
    """A server that no other test writes to."""
    return server_apart.url


class Cloud:
    """Two racks: each a host with a child, the host in the rack's aggregate, and a consumer on both."""

    def __init__(self, client):
        self.client = client
        self.aggregates = {}
        self.consumers = {}
        self.uuids = {}
        client.create_trait("CUSTOM_RACK")
        client.ensure_resource_class("CUSTOM_DISK")
        for rack in ("r1", "r2"):
            self._make_rack(rack)

    def _make_rack(self, rack):
        self.aggregates[rack], self.consumers[rack] = str(uuid.uuid4()), str(uuid.uuid4())
        for name, parent in ((f"{rack}-host", None), (f"{rack}-disk", f"{rack}-host")):
            self.uuids[name] = str(uuid.uuid4())
            self.client.create_provider(name, uuid=self.uuids[name], parent=self.uuids.get(parent))
        host, disk = self.uuids[f"{rack}-host"], self.uuids[f"{rack}-disk"]
        self.client.set_inventories(host, {"VCPU": {"total": 8}}, 0)
        self.client.set_provider_traits(host, ["CUSTOM_RACK"], 1)
        self.client.set_provider_aggregates(host, [self.aggregates[rack]], 2)
        self.client.set_inventories(disk, {"CUSTOM_DISK": {"total": 8}}, 0)
        allocations = {host: {"resources": {"VCPU": 1}}, disk: {"resources": {"CUSTOM_DISK": 2}}}
        self.client.set_allocations(self.consumers[rack], {"allocations": allocations, **OWNER})

    def names(self):
        return sorted(provider["name"] for provider in self.client.list_providers())


@pytest.fixture
def cloud(client):
    """The two racks, and nothing else."""
    clear(client)
    return Cloud(client)


def test_prune_deletes_what_the_file_does_not_name(openstack, client, cloud):
    """Everything that came after an export goes, and the state is that of the export, byte for byte."""
    before = openstack.run(*EXPORT).out
    client.create_trait("CUSTOM_LATER")
    client.ensure_resource_class("CUSTOM_LATER")
    root, leaf, consumer = (str(uuid.uuid4()) for _ in range(3))
    client.create_provider("later\x1b[2J", uuid=root)
    client.create_provider("later-leaf", uuid=leaf, parent=root)
    client.set_inventories(leaf, {"CUSTOM_LATER": {"total": 8}}, 0)
    client.set_provider_traits(leaf, ["CUSTOM_LATER"], 1)
    client.set_allocations(consumer, {"allocations": {leaf: {"resources": {"CUSTOM_LATER": 1}}}, **OWNER})
    shown = openstack.run(*APPLY, "--prune", "--dry-run", text=before)
    assert shown.out.splitlines()[:-1] == [
        f"- allocations of {consumer}",
        f"- resource provider later-leaf ({leaf})",
        f"- resource provider later\\x1b[2J ({root})",
        "- resource class CUSTOM_LATER",
        "- trait CUSTOM_LATER",
    ]
    assert openstack.run(*APPLY, text=before).out.startswith("Nothing to do: ")
    done = openstack.run(*APPLY, "--prune", "--yes", text=before)
    assert (done.status, done.complaints) == (0, "")
    assert done.out.splitlines() == [
        "resource classes: 1 deleted, 1 unchanged",
        "traits: 1 deleted, 1 unchanged",
        "resource providers: 2 deleted, 4 unchanged",
        "consumers: 1 deleted, 2 unchanged",
    ]
    assert openstack.run(*EXPORT).out == before


@pytest.mark.parametrize(("options", "answer"), [((), "n"), ((), "y"), (("--yes",), None)])
def test_prune_asks_on_a_terminal_before_any_change(openstack, client, cloud, options, answer):
    """What would go is shown; what the file changes besides waits for the answer, too."""
    file = openstack.home / "state.yaml"
    file.write_text(openstack.run(*EXPORT).out)
    later = str(uuid.uuid4())
    client.create_provider("later", uuid=later)
    terminal = Terminal(openstack, "resource", "provider", "apply", "-f", file, "--prune", *options)
    if answer:
        terminal.read_until("Delete 1 resource provider? [y/N] ")
        assert f"- resource provider later ({later})\r\n" in terminal.shown
        os.write(terminal.master, f"{answer}\n".encode())
    out, status = terminal.finish()
    kept = answer == "n"
    assert ("later" in cloud.names(), status) == (kept, int(kept))
    assert ("1 deleted" in out) is not kept


def test_prune_leaves_sections_missing_from_the_file(openstack, cloud):
    """A file of providers says nothing of consumers: a provider that is in use is refused, and told."""
    text = yaml.safe_dump({"providers": [{"name": "r1-host"}, {"name": "r1-disk"}, {"name": "r2-host"}]})
    result = openstack.run(*APPLY, "--prune", "--yes", text=text)
    assert result.status == 3
    assert result.complaints == (
        "Refused: resource provider r2-disk: in use: 2 CUSTOM_DISK allocated; the file does not name it, and "
        "--prune deletes what it does not name: name there what is to stay\n"
    )
    assert result.out == "resource providers: 1 refused, 3 unchanged\n"
    assert cloud.names() == ["r1-disk", "r1-host", "r2-disk", "r2-host"]
    assert cloud.client.list_allocations(cloud.consumers["r2"])["allocations"]


@pytest.mark.parametrize("select", ["--name", "--aggregate", "--aggregate in capitals"])
def test_prune_of_a_selection_leaves_other_providers(openstack, cloud, select):
    """Trees by the name of the root or by aggregate: the file is about these, and so is what is deleted."""
    aggregate = cloud.aggregates["r1"]
    options = {
        "--name": ("--name", "r1-*"),
        "--aggregate": ("--aggregate", aggregate),
        "--aggregate in capitals": ("--aggregate", aggregate.upper()),
    }[select]
    part = openstack.run(*EXPORT, *options)
    exported = yaml.safe_load(part.out)
    assert [entry["name"] for entry in exported["providers"]] == ["r1-host", "r1-disk"]
    assert [entry["consumer"] for entry in exported["allocations"]] == [cloud.consumers["r1"]]
    assert (exported["traits"], exported["resource_classes"]) == (["CUSTOM_RACK"], ["CUSTOM_DISK"])
    cloud.client.create_provider("r1-more", parent=cloud.uuids["r1-host"])
    done = openstack.run(*APPLY, "--prune", "--yes", *options, text=part.out)
    assert (done.status, done.complaints) == (0, "")
    assert "resource providers: 1 deleted, 2 unchanged" in done.out
    assert cloud.names() == ["r1-disk", "r1-host", "r2-disk", "r2-host"]
    nothing = openstack.run(*APPLY, "--prune", "--yes", *options, text=openstack.run(*EXPORT).out)
    assert nothing.out.startswith("Nothing to do: ")


@pytest.mark.parametrize("select", ["--name", "--aggregate"])
def test_provider_moved_into_the_selection_is_moved_back_not_deleted(openstack, cloud, select):
    """The file names it, so it is nothing to be deleted, and neither is what its consumers hold."""
    before = openstack.run(*EXPORT).out
    host = cloud.uuids["r2-host"]
    if select == "--name":
        cloud.client.update_provider(host, name="r1-new", parent=None)
    else:
        generation = cloud.client.show_provider(host)["generation"]
        cloud.client.set_provider_aggregates(host, list(cloud.aggregates.values()), generation)
    options = (select, "r1-*" if select == "--name" else cloud.aggregates["r1"])
    done = openstack.run(*APPLY, "--prune", "--yes", *options, text=before)
    assert (done.status, done.complaints) == (0, "")
    assert done.out.splitlines()[2:] == [
        "resource providers: 1 updated, 3 unchanged",
        "consumers: 2 unchanged",
    ]
    assert openstack.run(*EXPORT).out == before


def test_provider_moved_out_of_the_selection_is_restored_in_one_run(openstack, cloud):
    """Its tree is as the file has it after one run, and not after a second."""
    before = openstack.run(*EXPORT).out
    host = cloud.uuids["r1-host"]
    cloud.client.set_provider_aggregates(host, [], cloud.client.show_provider(host)["generation"])
    cloud.client.create_provider("r1-more", parent=host)
    options = ("--prune", "--yes", "--aggregate", cloud.aggregates["r1"])
    assert openstack.run(*APPLY, *options, text=before).status == 0
    assert openstack.run(*EXPORT).out == before


def test_provider_with_the_name_but_another_uuid_is_replaced(openstack, cloud):
    """As without a selection: the file has this name with another UUID, outside of the part."""
    text = openstack.run(*EXPORT).out
    old, new = cloud.uuids["r2-host"], str(uuid.uuid4())
    cloud.client.delete_allocations(cloud.consumers["r2"])
    for gone in (cloud.uuids["r2-disk"], old):
        cloud.client.delete_provider(gone)
    cloud.client.create_provider("r2-host", uuid=new)
    cloud.client.set_provider_aggregates(new, [cloud.aggregates["r1"]], 0)
    done = openstack.run(*APPLY, "--prune", "--yes", "--aggregate", cloud.aggregates["r1"], text=text)
    assert (done.status, done.complaints) == (0, "")
    assert cloud.client.show_provider(old)["name"] == "r2-host"
    assert cloud.names() == ["r1-disk", "r1-host", "r2-disk", "r2-host"]


def test_prune_of_a_selection_keeps_consumers_the_file_has_elsewhere(openstack, cloud):
    """The whole file says what it holds, though that is elsewhere, and so not for a part to write."""
    before = openstack.run(*EXPORT).out
    here = {cloud.uuids["r1-host"]: {"resources": {"VCPU": 1}}}
    found = cloud.client.list_allocations(cloud.consumers["r2"])
    owner = OWNER | {"consumer_generation": found["consumer_generation"]}
    cloud.client.set_allocations(cloud.consumers["r2"], {"allocations": here, **owner})
    done = openstack.run(*APPLY, "--prune", "--yes", "--name", "r1-*", text=before)
    assert (done.status, done.out[:14]) == (0, "Nothing to do:")
    assert cloud.client.list_allocations(cloud.consumers["r2"])["allocations"].keys() == here.keys()


@pytest.mark.parametrize(
    "options", [("--name", "r3-*"), ("--aggregate", UNKNOWN), ("--name", "r3-*", "--prune", "--yes")]
)
def test_selection_that_matches_nothing_is_an_error(openstack, cloud, options):
    """An export of nothing would be pruned to nothing elsewhere; an apply of nothing would seem done."""
    whole = openstack.run(*EXPORT).out
    applied = openstack.run(*APPLY, *options, text=whole)
    assert (applied.status, applied.out) == (1, "")
    assert applied.err.startswith("No tree of the file ")
    if "--prune" not in options:
        exported = openstack.run(*EXPORT, *options)
        assert (exported.status, exported.out) == (1, "")
        assert exported.err.startswith("No tree on the server has ")
        assert exported.err.count("\n") == 1


def test_consumer_inside_and_outside_the_selection_is_left_alone(openstack, cloud):
    """What it has elsewhere cannot be said in a file about one part, so it is neither written nor deleted."""
    both = {cloud.uuids[name]: {"resources": {"VCPU": 1}} for name in ("r1-host", "r2-host")}
    consumer = str(uuid.uuid4())
    cloud.client.set_allocations(consumer, {"allocations": both, **OWNER})
    part = openstack.run(*EXPORT, "--name", "r1-*").out
    assert consumer not in part
    assert openstack.run(*APPLY, "--prune", "--yes", "--name", "r1-*", text=part).out.startswith(
        "Nothing to do: "
    )
    assert cloud.client.list_allocations(consumer)["allocations"].keys() == both.keys()


def test_providers_can_swap_names(openstack, cloud):
    """Two providers swap their names, and a new one takes the name of one that is pruned."""
    first, second = cloud.uuids["r1-host"], cloud.uuids["r2-host"]
    text = openstack.run(*EXPORT).out
    swapped = text.replace("r1-host", "tmp").replace("r2-host", "r1-host").replace("tmp", "r2-host")
    done = openstack.run(*APPLY, text=swapped)
    assert (done.status, done.complaints) == (0, "")
    assert "resource providers: 2 updated, 2 unchanged" in done.out
    assert cloud.client.show_provider(first)["name"] == "r2-host"
    assert cloud.client.show_provider(second)["name"] == "r1-host"
    assert openstack.run(*APPLY, text=swapped).out.startswith("Nothing to do: ")
    other = str(uuid.uuid4())
    cloud.client.create_provider("old", uuid=str(uuid.uuid4()))
    named = yaml.safe_load(swapped)
    named["providers"].append({"name": "old", "uuid": other})
    replaced = openstack.run(*APPLY, "--prune", "--yes", text=yaml.safe_dump(named))
    assert (replaced.status, replaced.complaints) == (0, "")
    assert "resource providers: 1 created, 1 deleted, 4 unchanged" in replaced.out
    assert cloud.client.show_provider(other)["name"] == "old"


def test_export_reads_consumers_of_used_providers_only(openstack, cloud):
    """A provider that is not in use costs no request for its consumers, and each consumer costs one.

    Where the server tells of all consumers at once, that is the only request about them; before 1.38 it does
    not.
    """
    cloud.client.create_provider("idle")
    asked = []
    with proxy_to(openstack.endpoint, lambda *request: asked.append(request)) as endpoint:
        assert openstack.run(*EXPORT, endpoint=endpoint).status == 0
        at_once = [path for _, path in asked if "allocations" in path]
        asked.clear()
        assert openstack.run("--os-placement-api-version", "1.37", *EXPORT, endpoint=endpoint).status == 0
    assert at_once == ["/-/allocations"]
    paths = [path for _, path in asked]
    assert sum(path.endswith("/allocations") for path in paths) == 4
    assert sum(path.startswith("/allocations/") for path in paths) == 2
    assert paths.count("/traits") == paths.count("/resource_classes") == 1
