# SPDX-License-Identifier: Apache-2.0
"""`openstack resource provider export|apply`: the real command against a real server over HTTP."""

import pathlib
import re
import signal
import subprocess
import threading
import uuid

import pytest
import yaml

from osc_placement import microversion
from tests.functional.cleaning import clear
from tests.functional.commands.proxy import proxy_to

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "cloud.yaml"
APPLY = ("resource", "provider", "apply", "-f")
EXPORT = ("resource", "provider", "export")


@pytest.fixture
def empty(client):
    """The client of a server that has nothing of its own, before and after."""
    clear(client)
    yield client
    clear(client)


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and returns its name."""

    def write(text):
        file = tmp_path / "cloud.yaml"
        file.write_text(text)
        return file

    return write


SMALL = """\
traits: [CUSTOM_FAST]
resource_classes: [CUSTOM_LICENCE]
providers:
- name: numa0
  uuid: eeeeeeee-0000-4000-8000-000000000001
  parent: host
  inventories: {VCPU: {total: 8, allocation_ratio: 2.0}, CUSTOM_LICENCE: {total: 3}}
- name: host
  uuid: cccccccc-0000-4000-8000-000000000001
  traits: [COMPUTE_NODE, CUSTOM_FAST]
  aggregates: [aaaaaaaa-0000-4000-8000-000000000001]
  inventories: {DISK_GB: {total: 100}}
allocations:
- consumer: bbbbbbbb-0000-4000-8000-000000000001
  project: web
  user: alice
  type: INSTANCE
  resources: {host: {DISK_GB: 20}, numa0: {VCPU: 4}}
"""
HOST = "cccccccc-0000-4000-8000-000000000001"
NUMA = "eeeeeeee-0000-4000-8000-000000000001"
CONSUMER = "bbbbbbbb-0000-4000-8000-000000000001"


def test_example_is_applied_and_a_second_apply_changes_nothing(openstack, empty):
    """200 hosts with all that belongs to them; then every part is found as the file says."""
    result = openstack.run(*APPLY, EXAMPLE)
    assert (result.status, result.complaints) == (0, "")
    assert result.out.splitlines() == [
        "resource classes: 1 created",
        "traits: 2 created",
        "resource providers: 401 created",
        "consumers: 32 created",
    ]
    before = {provider["uuid"]: provider["generation"] for provider in empty.list_providers()}
    again = openstack.run(*APPLY, EXAMPLE)
    assert (again.status, again.complaints) == (0, "")
    assert again.out == (
        f"Nothing to do: the server matches {EXAMPLE} "
        "(1 resource class, 2 traits, 401 resource providers, 32 consumers)\n"
    )
    assert {provider["uuid"]: provider["generation"] for provider in empty.list_providers()} == before


def test_export_applied_to_an_empty_server_exports_identically(openstack, empty, tmp_path):
    """Nothing is lost or changed on the way through a file."""
    assert openstack.run(*APPLY, EXAMPLE).status == 0
    first = openstack.run(*EXPORT)
    assert (first.status, first.complaints) == (0, "")
    file = tmp_path / "export.yaml"
    file.write_text(first.out)

    clear(empty)
    assert openstack.run(*APPLY, file).status == 0
    second = openstack.run(*EXPORT)
    assert second.out == first.out


def test_export_of_a_host_whose_ratio_is_0_is_applied_with_its_allocations(openstack, empty, write, tmp_path):
    """Servers take such a ratio, below which nothing can be claimed any more; batches refuse to set it."""
    assert openstack.run(*APPLY, write(SMALL)).status == 0
    generation = empty.show_provider(NUMA)["generation"]
    empty.set_inventory(NUMA, "VCPU", {"total": 8, "allocation_ratio": 0.0}, generation)
    first = openstack.run(*EXPORT)
    file = tmp_path / "export.yaml"
    file.write_text(first.out)
    clear(empty)
    result = openstack.run(*APPLY, file)
    told = "Warning: numa0: VCPU would be over capacity by 4: 4 allocated, the capacity would be 0\n"
    assert (result.status, result.complaints) == (0, told)
    assert openstack.run(*EXPORT).out == first.out


def test_apply_writes_every_part_of_a_file(openstack, empty, write):
    """Tree, inventories, traits, aggregates, owner and type of allocations: seen through the API."""
    assert openstack.run(*APPLY, write(SMALL)).status == 0
    assert empty.show_provider(NUMA)["parent_provider_uuid"] == HOST
    assert empty.list_inventories(NUMA)["inventories"]["VCPU"] == {
        "total": 8,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 2147483647,
        "step_size": 1,
        "allocation_ratio": 2.0,
    }
    assert empty.list_inventories(NUMA)["inventories"]["CUSTOM_LICENCE"]["total"] == 3
    assert sorted(empty.list_provider_traits(HOST)["traits"]) == ["COMPUTE_NODE", "CUSTOM_FAST"]
    assert empty.list_provider_aggregates(HOST)["aggregates"] == ["aaaaaaaa-0000-4000-8000-000000000001"]
    allocations = empty.list_allocations(CONSUMER)
    assert {key: allocations[key] for key in ("project_id", "user_id", "consumer_type")} == {
        "project_id": "web",
        "user_id": "alice",
        "consumer_type": "INSTANCE",
    }
    resources = {provider: entry["resources"] for provider, entry in allocations["allocations"].items()}
    assert resources == {HOST: {"DISK_GB": 20}, NUMA: {"VCPU": 4}}


def test_export_is_complete_and_in_a_fixed_order(openstack, empty, write):
    """Parents before children, names in alphabetical order, every field: an export can be compared."""
    openstack.run(*APPLY, write(SMALL))
    exported = yaml.safe_load(openstack.run(*EXPORT).out)
    assert list(exported) == ["version", "resource_classes", "traits", "providers", "allocations"]
    assert [provider["name"] for provider in exported["providers"]] == ["host", "numa0"]
    assert exported["providers"][1] == {
        "name": "numa0",
        "uuid": NUMA,
        "parent": "host",
        "aggregates": [],
        "traits": [],
        "inventories": empty.list_inventories(NUMA)["inventories"],
    }
    assert exported["allocations"] == yaml.safe_load(SMALL)["allocations"]


def test_dry_run_shows_changes_and_writes_nothing(openstack, empty, write):
    """A line for everything that would come, and the server stays empty."""
    result = openstack.run(*APPLY, write(SMALL), "--dry-run")
    assert (result.status, result.complaints) == (0, "")
    assert result.out.splitlines() == [
        "+ resource class CUSTOM_LICENCE",
        "+ trait CUSTOM_FAST",
        f"+ resource provider host ({HOST})",
        "    + DISK_GB:total=100",
        "    + COMPUTE_NODE",
        "    + CUSTOM_FAST",
        "    + aaaaaaaa-0000-4000-8000-000000000001",
        f"+ resource provider numa0 ({NUMA})",
        "    + parent host",
        "    + CUSTOM_LICENCE:total=3",
        "    + VCPU:total=8 allocation_ratio=2.0",
        f"+ allocations of {CONSUMER} (project web)",
        "    + host: DISK_GB=20",
        "    + numa0: VCPU=4",
        "unchanged: nothing",
    ]
    assert empty.list_providers() == []
    assert empty.list_traits(name="startswith:CUSTOM_") == []


def test_apply_names_its_run_in_pipes_too(openstack, empty, write):
    """A log has what undoes the apply; one that has nothing to do has no run."""
    result = openstack.run(*APPLY, write(SMALL))
    (run,) = openstack.run("resource", "provider", "batch", "run", "list", "--last", "1", "-f", "json").json
    undo = f"openstack resource provider batch run undo {run['id']}"
    assert result.err == f"Run {run['id']}; to undo it: {undo}\n"
    assert openstack.run(*APPLY, write(SMALL)).err == ""


def test_apply_writes_only_differences(openstack, empty, write):
    """A ratio and an amount in an edited file: one provider and one consumer are written."""
    openstack.run(*APPLY, write(SMALL))
    before = empty.show_provider(HOST)["generation"]
    edited = write(
        SMALL.replace("allocation_ratio: 2.0", "allocation_ratio: 4.0").replace("VCPU: 4}", "VCPU: 5}")
    )
    shown = openstack.run(*APPLY, edited, "--dry-run").out.splitlines()
    assert shown[:3] == [
        f"~ resource provider numa0 ({NUMA})",
        "    - VCPU:allocation_ratio=2.0",
        "    + VCPU:allocation_ratio=4.0",
    ]
    assert shown[-1] == "unchanged: 1 resource class, 1 trait, 1 resource provider"
    result = openstack.run(*APPLY, edited)
    assert (result.status, result.complaints) == (0, "")
    assert result.out.splitlines() == [
        "resource classes: 1 unchanged",
        "traits: 1 unchanged",
        "resource providers: 1 updated, 1 unchanged",
        "consumers: 1 updated",
    ]
    assert empty.list_inventories(NUMA)["inventories"]["VCPU"]["allocation_ratio"] == 4.0
    assert empty.list_allocations(CONSUMER)["allocations"][NUMA]["resources"] == {"VCPU": 5}
    # the new allocation counts on the host too, but nothing else does
    assert empty.show_provider(HOST)["generation"] == before + 1


def test_apply_leaves_what_the_file_does_not_name(openstack, empty, write):
    """Other providers, and the parts of a provider without a key, are left alone."""
    openstack.run(*APPLY, write(SMALL))
    other = empty.create_provider("other")["uuid"]
    file = write("providers:\n- name: host\n  traits: [COMPUTE_NODE]\n")
    result = openstack.run(*APPLY, file, "--yes")
    assert (result.status, result.out) == (0, "resource providers: 1 updated\n")
    assert empty.list_provider_traits(HOST)["traits"] == ["COMPUTE_NODE"]
    assert empty.list_inventories(HOST)["inventories"]["DISK_GB"]["total"] == 100
    assert empty.show_provider(NUMA)["parent_provider_uuid"] == HOST
    assert empty.show_provider(other)["name"] == "other"


def test_apply_renames_and_moves_a_provider_by_uuid(openstack, empty, write):
    """A UUID says which provider is meant."""
    openstack.run(*APPLY, write(SMALL))
    text = f"providers:\n- {{name: numa-zero, uuid: {NUMA}, parent: null}}\n"
    assert openstack.run(*APPLY, write(text)).out == "resource providers: 1 updated\n"
    provider = empty.show_provider(NUMA)
    assert (provider["name"], provider["parent_provider_uuid"]) == ("numa-zero", None)


def test_a_provider_without_uuid_gets_one(openstack, empty, write):
    """A file written by hand needs names only, and finds its providers again by them."""
    file = write(
        "providers:\n- {name: a}\n- {name: b, parent: a, inventories: {VCPU: {total: 1}}}\n"
        f"allocations:\n- {{consumer: {CONSUMER}, project: p, user: u, resources: {{b: {{VCPU: 1}}}}}}\n"
    )
    assert openstack.run(*APPLY, file).out == "resource providers: 2 created\nconsumers: 1 created\n"
    assert openstack.run(*APPLY, file).out.startswith("Nothing to do: ")
    assert empty.list_allocations(CONSUMER)["consumer_type"] == "unknown"


def test_a_file_may_come_from_standard_input(openstack, empty):
    """As `-`, for pipes."""
    result = openstack.run_process(*APPLY, "-", text="providers: [{name: a}]\n")
    assert (result.status, result.out, result.complaints) == (0, "resource providers: 1 created\n", "")
    assert [provider["name"] for provider in empty.list_providers()] == ["a"]


def test_an_export_goes_to_a_file(openstack, empty, write, tmp_path):
    """The file is replaced as a whole, nothing is left beside it, and stderr says what was written."""
    openstack.run(*APPLY, write(SMALL))
    target = tmp_path / "export" / "out.yaml"
    target.parent.mkdir()
    target.write_text("old")
    result = openstack.run(*EXPORT, "--output", target)
    number = len(empty.list_providers())
    assert (result.status, result.out) == (0, "")
    assert result.err == f"Wrote {number} resource provider{'s' * (number > 1)} to {target}\n"
    assert target.read_text() == openstack.run(*EXPORT).out
    assert [file.name for file in target.parent.iterdir()] == ["out.yaml"]


def test_export_to_a_missing_directory_is_a_one_line_error(openstack, empty):
    """A directory that is not there is told, with the file's name."""
    result = openstack.run(*EXPORT, "-o", "/nowhere/out.yaml")
    assert (result.status, result.out) == (1, "")
    assert result.err == "/nowhere/out.yaml cannot be written: No such file or directory\n"


MISTAKES = {
    "an unknown key": ("providers:\n- name: a\n  trait: []\n", "line 4: providers[0].trait: unknown key"),
    "not YAML": ("version: 1\nproviders: }\n", "line 3: not YAML: "),
    "an unknown trait": (
        "providers: [{name: a, traits: [HW_NO]}]\n",
        "Resource provider 'a' needs the trait HW_NO, which this server does not know\n",
    ),
    "an unknown class": (
        "providers: [{name: a, inventories: {NO_GB: {total: 1}}}]\n",
        "Resource provider 'a' needs the resource class NO_GB, which this server does not know\n",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_invalid_entry_is_a_one_line_error_and_nothing_is_written(openstack, empty, write, text, message):
    """The good part of a file with a mistake in it is not applied either."""
    result = openstack.run(*APPLY, write("traits: [CUSTOM_GOOD]\n" + text))
    assert (result.status, result.out) == (1, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert empty.list_traits(name="startswith:CUSTOM_") == []
    assert empty.list_providers() == []


def test_a_name_that_another_provider_has_is_refused(openstack, empty, write):
    """Nothing is written, and both UUIDs are told."""
    taken = empty.create_provider("host")["uuid"]
    result = openstack.run(*APPLY, write(SMALL))
    assert (result.status, result.out) == (1, "")
    assert result.err == f"The server has a resource provider 'host' with the UUID {taken}, not {HOST}\n"
    assert [provider["uuid"] for provider in empty.list_providers()] == [taken]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none.yaml", "No such file or directory"),
        (".", "Is a directory"),
        ("binary", "byte 0 is not UTF-8 text"),
    ],
)
def test_unreadable_file_is_a_one_line_error(openstack, tmp_path, name, problem):
    """The name and the reason, without a request."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    result = openstack.run(*APPLY, tmp_path / name, endpoint="http://127.0.0.1:1", version="1.39")
    assert (result.status, result.out) == (1, "")
    assert result.err == f"{tmp_path / name} cannot be read: {problem}\n"


def test_failed_apply_is_finished_by_the_same_command(openstack, empty, write):
    """An allocation that does not fit is refused alone; when it fits, the same file goes to its end."""
    other = str(uuid.uuid4())
    empty.create_provider("host", uuid=HOST)
    empty.set_inventories(HOST, {"DISK_GB": {"total": 100}}, 0)
    payload = {
        "allocations": {HOST: {"resources": {"DISK_GB": 90}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
    }
    empty.set_allocations(other, payload, microversion.REPARENTING)

    result = openstack.run(*APPLY, write(SMALL))
    assert result.status == 3
    assert result.out.splitlines()[2:] == ["resource providers: 1 created, 1 updated", "consumers: 1 refused"]
    assert result.complaints == f"Refused: consumer {CONSUMER}: host has 10 DISK_GB free, not 20\n"

    empty.delete_allocations(other)
    result = openstack.run(*APPLY, write(SMALL))
    assert (result.status, result.complaints) == (0, "")
    assert result.out.splitlines()[2:] == ["resource providers: 2 unchanged", "consumers: 1 created"]


def test_children_of_a_failed_parent_are_skipped(openstack, empty, write):
    """What depends on a failure is skipped and counted."""

    def interfere(method, path):
        return (502, "text/html", "<html>Bad Gateway</html>") if method == "POST" else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*APPLY, write(SMALL), endpoint=endpoint)
    assert result.status == 3
    assert result.out.splitlines()[2:] == ["resource providers: 1 skipped, 1 unknown", "consumers: 1 skipped"]
    assert result.err.startswith("resource provider host: POST ")
    assert empty.list_providers() == []


def test_apply_retries_after_a_conflict(openstack, empty, write):
    """Somebody touches a provider between its creation and its traits; the file is applied all the same."""
    touched = iter([{"DISK_GB": {"total": 1}}])

    def interfere(method, path):
        if method == "PUT" and path.endswith(f"{HOST}/traits"):
            for inventories in touched:
                empty.set_inventories(HOST, inventories, empty.show_provider(HOST)["generation"])

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*APPLY, write(SMALL), endpoint=endpoint)
    assert (result.status, result.complaints) == (0, "")
    assert openstack.run(*APPLY, write(SMALL)).out.startswith("Nothing to do: ")


def test_a_version_without_consumer_types_is_refused_before_the_first_write(openstack, empty, write):
    """The last part of a file does not fail after the first was written."""
    result = openstack.run(*APPLY, write(SMALL), version="1.37")
    assert (result.status, result.out) == (1, "")
    assert result.complaints == (
        "Operation or argument is not supported with version 1.37; requires at least version 1.38\n"
    )
    assert empty.list_providers() == []


@pytest.mark.parametrize("version", ["1.14", "1.19", "1.20", "1.28", "1.37"])
def test_apply_and_export_work_in_versions_without_consumer_types(openstack, empty, write, version):
    """A file that needs nothing newer is applied and exported at the version in use."""
    file = write(SMALL.replace("  type: INSTANCE\n", ""))
    result = openstack.run(*APPLY, file, version=version)
    assert (result.status, result.complaints) == (0, "")
    assert openstack.run(*APPLY, file, version=version).out.startswith("Nothing to do: ")
    exported = openstack.run(*EXPORT, version=version)
    assert yaml.safe_load(exported.out)["allocations"] == yaml.safe_load(file.read_text())["allocations"]


def test_ctrl_c_skips_providers_not_started(openstack, empty, write):
    """Status 130; a provider that was begun is whole, and the same command goes on."""
    begun, go_on = threading.Event(), threading.Event()

    def interfere(method, path):
        if method == "POST":
            begun.set()
            go_on.wait(30)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        process = openstack.start(*APPLY, write(SMALL), endpoint=endpoint, stderr=subprocess.PIPE)
        assert begun.wait(30)
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        go_on.set()
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out.splitlines()[2:] == ["resource providers: 1 created, 1 skipped", "consumers: 1 skipped"]
    named, told = err.splitlines()
    assert re.fullmatch(
        r"Run (\S+); to resume it: openstack .* resume \1; to undo it: openstack .* undo \1", named
    )
    assert told == "Some changes were not made; run the same command again to make them."
    assert len(empty.list_provider_traits(HOST)["traits"]) == 2
    result = openstack.run(*APPLY, write(SMALL))
    assert (result.status, result.complaints) == (0, "")
    assert openstack.run(*APPLY, write(SMALL)).out.startswith("Nothing to do: ")


def test_help_lists_the_exit_statuses(openstack):
    """Every status that apply can end with is told."""
    words = " ".join(openstack.run("resource", "provider", "apply", "--help").out.split())
    assert "Exit status: 0 the server matches the file" in words
    for status in (
        "1 nothing was changed",
        "2 the command line",
        "3 something was refused or failed",
        "130 interrupted",
    ):
        assert status in words
