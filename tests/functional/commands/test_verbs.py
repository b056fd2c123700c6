# SPDX-License-Identifier: Apache-2.0
"""What the reference plugin lacks: changing a part of what a provider or consumer has."""

import json
import subprocess
import uuid

import pytest

from osc_placement import microversion
from tests.functional.commands.compute import compute_with
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import run_on_terminal

PROVIDER = ("resource", "provider")
TRAIT = (*PROVIDER, "trait")
AGGREGATE = (*PROVIDER, "aggregate")
ALLOCATION = (*PROVIDER, "allocation")
JSON = ("-f", "json")
OWNER = ("--project-id", "p", "--user-id", "u")


def new_uuid():
    return str(uuid.uuid4())


@pytest.fixture
def host(client):
    """A provider with VCPU and MEMORY_MB and one trait, as (name, UUID)."""
    name, provider = f"host-{uuid.uuid4().hex[:8]}", new_uuid()
    client.create_provider(name, uuid=provider)
    client.set_inventories(provider, {"VCPU": {"total": 64}, "MEMORY_MB": {"total": 4096}}, 0)
    client.set_provider_traits(provider, ["HW_CPU_X86_AVX"], 1)
    return name, provider


# traits and aggregates


def test_trait_add_and_remove_keep_other_traits(openstack, host):
    """Both show what the provider has afterwards, and what is so already is no mistake."""
    name, _ = host
    added = openstack.run(*TRAIT, "add", name, "COMPUTE_NODE", "HW_CPU_X86_AVX", *JSON)
    assert added.json == [{"name": "COMPUTE_NODE"}, {"name": "HW_CPU_X86_AVX"}]
    removed = openstack.run(*TRAIT, "remove", name, "HW_CPU_X86_AVX", "HW_CPU_X86_SSE", *JSON)
    assert removed.json == [{"name": "COMPUTE_NODE"}]
    assert openstack.run(*TRAIT, "list", name, *JSON).json == removed.json


def test_concurrent_trait_adds_lose_nothing(openstack, client, host):
    """Each process reads, finds that another was faster, and reads again: no trait is lost."""
    name, provider = host
    traits = [f"CUSTOM_{uuid.uuid4().hex[:8].upper()}" for _ in range(8)]
    for trait in traits:
        client.create_trait(trait)
    processes = [openstack.start(*TRAIT, "add", name, trait, stderr=subprocess.PIPE) for trait in traits]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    listed = openstack.run(*TRAIT, "list", provider, *JSON).json
    assert {row["name"] for row in listed} == {*traits, "HW_CPU_X86_AVX"}


@pytest.mark.parametrize("version", ["1", "1.18", "1.1"])
def test_aggregate_add_and_remove_keep_other_aggregates(openstack, client, host, version):
    """In every version that knows aggregates, with a generation or without."""
    name, provider = host
    first, second = sorted([new_uuid(), new_uuid()])
    client.set_provider_aggregates(provider, [first], client.show_provider(provider)["generation"])
    added = openstack.run(*AGGREGATE, "add", name, second, first, *JSON, version=version)
    assert added.json == [{"uuid": first}, {"uuid": second}]
    removed = openstack.run(*AGGREGATE, "remove", name, first, *JSON, version=version)
    assert removed.json == [{"uuid": second}]


@pytest.mark.parametrize(
    ("command", "status", "wrong"),
    [
        ((*TRAIT, "add"), 2, "no-trait"),
        ((*TRAIT, "add"), 1, "CUSTOM_NOBODY_MADE"),
        ((*AGGREGATE, "add"), 1, "rack1"),
    ],
)
def test_unknown_name_is_a_one_line_error_and_changes_nothing(
    openstack, client, host, command, status, wrong
):
    """The line names it; a name that no trait can have is an error of the command line."""
    name, provider = host
    before = client.show_provider(provider)
    result = openstack.run(*command, name, wrong)
    assert (result.status, result.out, result.err.count("\n")) == (status, "", 1)
    assert wrong in result.err
    assert client.show_provider(provider) == before


def test_a_trait_that_nobody_knows_is_told_with_what_was_meant(openstack, host):
    """As a batch tells it."""
    result = openstack.run(*TRAIT, "add", host[0], "HW_CPU_X86_AVX", "HW_NUMA_ROT")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "The server does not know the trait HW_NUMA_ROT (is it HW_NUMA_ROOT?); only traits that start with "
        "CUSTOM_ can be created, see: openstack trait list\n"
    )


# host aggregates by name


@pytest.fixture
def cloud(openstack, tmp_path):
    """A function that runs a command in a cloud with a placement and a compute service."""

    def run(compute, *arguments):
        auth = {"token": "admin", "endpoint": openstack.endpoint}
        cloud = {"auth_type": "admin_token", "auth": auth, "compute_endpoint_override": compute}
        file = tmp_path / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"here": cloud}}))
        chosen = {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "here"}
        return openstack.run_in_cloud(*arguments, environment=chosen)

    return run


def test_aggregate_may_be_given_by_the_name_of_its_host_aggregate(cloud, host):
    """Wherever an aggregate is taken; one request to the compute API per command, none for a UUID."""
    name, provider = host
    rack1, rack2 = new_uuid(), new_uuid()
    with compute_with({"rack 1": rack1, "rack2": rack2}) as (compute, asked):
        assert cloud(compute, *AGGREGATE, "add", name, "rack 1", "rack2").status == 0
        assert asked == [("/v2.1/os-aggregates", "compute 2.41", "admin")]
        listed = cloud(compute, *AGGREGATE, "list", name, *JSON).json
        assert {row["uuid"] for row in listed} == {rack1, rack2}
        found = cloud(compute, *PROVIDER, "list", "--member-of", f"rack 1,{rack2}", *JSON).json
        assert [row["uuid"] for row in found] == [provider]
        resource = ("--aggregate", "--resource", "VCPU=32", "--amend")
        assert cloud(compute, *PROVIDER, "inventory", "set", "rack2", *resource).status == 0
        generation = str(cloud(compute, *PROVIDER, "show", name, *JSON).json["generation"])
        chosen = ("--aggregate", "rack2", "--generation", generation)
        assert cloud(compute, *AGGREGATE, "set", name, *chosen, *JSON).json == [{"uuid": rack2}]
        seen = len(asked)
        assert cloud(compute, *AGGREGATE, "remove", name, rack2).status == 0
        assert len(asked) == seen == 4


def test_unknown_host_aggregate_is_a_one_line_error(cloud, host):
    """It says where the names are shown, and those that are similar; another number is another rack."""
    for wrong, guess in (("rack9", ""), ("rcak1", " (is it rack1?)")):
        with compute_with({"rack1": new_uuid()}) as (compute, _):
            result = cloud(compute, *AGGREGATE, "add", host[0], wrong)
        assert result.status == 1
        assert result.err == (
            f"{wrong!r} is not a 'uuid', and no host aggregate has that name{guess} "
            "(see: openstack aggregate list)\n"
        )


def test_aggregate_name_without_a_compute_service_is_a_one_line_error(cloud, host):
    """It says that the names could not be read, and why."""
    result = cloud("http://127.0.0.1:1", *AGGREGATE, "add", host[0], "rack9")
    assert result.status == 1
    assert result.err.startswith(
        "'rack9' is not a 'uuid', and the compute service, which could look it up as the name of a host "
        "aggregate, gave no answer (Unable to establish connection to http://127.0.0.1:1/os-aggregates"
    )
    assert result.err.count("\n") == 1


# parents


def test_no_parent_provider_makes_a_root_and_keeps_the_name(openstack, client, host):
    """--no-parent-provider makes it a root; the name need not be said again."""
    name, provider = host
    child = new_uuid()
    client.create_provider(f"{name}-gpu", uuid=child, parent=provider)
    left = openstack.run(*PROVIDER, "set", f"{name}-gpu", "--no-parent-provider", *JSON).json
    assert (left["name"], left["parent_provider_uuid"], left["root_provider_uuid"]) == (
        f"{name}-gpu",
        None,
        child,
    )
    back = openstack.run(*PROVIDER, "set", child, "--parent-provider", name, *JSON).json
    assert (back["name"], back["root_provider_uuid"]) == (f"{name}-gpu", provider)


@pytest.mark.parametrize(
    ("options", "version", "status", "message"),
    [
        (["--no-parent-provider"], "1.36", 1, "requires at least version 1.37"),
        (["--no-parent-provider", "--parent-provider", "x"], "1", 1, "exclude each other"),
        ([], "1", 2, "the following arguments are required: --name"),
    ],
)
def test_invalid_parent_is_refused_before_the_write(openstack, host, options, version, status, message):
    """Before anything is written."""
    result = openstack.run(*PROVIDER, "set", host[0], *options, version=version)
    assert (result.status, result.out) == (status, "")
    assert message in result.err


# allocations


def resources_of(client, consumer):
    """What a consumer has: amounts by class, by UUID of a provider."""
    allocations = client.list_allocations(consumer)["allocations"]
    return {provider: item["resources"] for provider, item in allocations.items()}


def test_allocation_set_amend_keeps_the_rest(openstack, client, host):
    """What is named is set and the rest stays: other classes, project, user and type."""
    name, provider = host
    consumer = new_uuid()
    whole = ("--allocation", f"rp={name},VCPU=2,MEMORY_MB=64", *OWNER, "--consumer-type", "INSTANCE")
    assert openstack.run(*ALLOCATION, "set", consumer, *whole).status == 0
    line = (*ALLOCATION, "set", consumer, "--amend", *JSON)
    (row,) = openstack.run(*line, "--allocation", f"rp={name},VCPU=4").json
    assert row["resources"] == {"VCPU": 4, "MEMORY_MB": 64}
    assert (row["project_id"], row["user_id"], row["consumer_type"]) == ("p", "u", "INSTANCE")
    changed = ("--allocation", f"rp={name},VCPU=4", "--project-id", "other", "--consumer-type", "MIGRATION")
    (row,) = openstack.run(*line, *changed).json
    assert (row["project_id"], row["user_id"], row["consumer_type"]) == ("other", "u", "MIGRATION")
    assert resources_of(client, consumer) == {provider: {"VCPU": 4, "MEMORY_MB": 64}}


def test_amending_keeps_a_consumer_untyped(openstack, client, host):
    """It has none afterwards either."""
    name, provider = host
    consumer = new_uuid()
    payload = {"allocations": {provider: {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u"}
    client.set_allocations(consumer, {**payload, "consumer_generation": None}, microversion.REPARENTING)
    line = ("--amend", "--allocation", f"rp={name},MEMORY_MB=1")
    (row,) = openstack.run(*ALLOCATION, "set", consumer, *line, *JSON).json
    assert (row["resources"], row["consumer_type"]) == ({"VCPU": 1, "MEMORY_MB": 1}, "unknown")


def test_amending_a_new_consumer_needs_an_owner(openstack, host):
    """One line says what to give, and then it is an allocation like any other."""
    line = (*ALLOCATION, "set", new_uuid(), "--amend", "--allocation", f"rp={host[0]},VCPU=1")
    refused = openstack.run(*line)
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.endswith("has no allocations yet; give --project-id and --user-id\n")
    assert openstack.run(*line, *OWNER).status == 0


def test_amending_keeps_a_concurrent_change(openstack, client, host):
    """The consumer is read again, and what the other has done is kept."""
    name, provider = host
    consumer = new_uuid()
    payload = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
    first = {"allocations": {provider: {"resources": {"VCPU": 1}}}, "consumer_generation": None}
    client.set_allocations(consumer, {**payload, **first})
    others = {"allocations": {provider: {"resources": {"VCPU": 1, "MEMORY_MB": 7}}}, "consumer_generation": 1}
    pending = [{**payload, **others}]

    def interfere(method, path):
        if method == "PUT" and path.startswith("/allocations/") and pending:
            client.set_allocations(consumer, pending.pop())

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        line = ("--amend", "--allocation", f"rp={name},VCPU=3")
        result = openstack.run(*ALLOCATION, "set", consumer, *line, endpoint=endpoint)
    assert (result.status, result.err, pending) == (0, "", [])
    assert resources_of(client, consumer) == {provider: {"VCPU": 3, "MEMORY_MB": 7}}


def test_unset_keeps_a_concurrent_change(openstack, client, host):
    """Only the class that was named is gone."""
    _, provider = host
    consumer = new_uuid()
    payload = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
    first = {"allocations": {provider: {"resources": {"VCPU": 1, "MEMORY_MB": 7}}}}
    client.set_allocations(consumer, {**payload, **first, "consumer_generation": None})
    others = {"allocations": {provider: {"resources": {"VCPU": 2, "MEMORY_MB": 7}}}, "consumer_generation": 1}
    pending = [{**payload, **others}]

    def interfere(method, path):
        if method == "PUT" and path.startswith("/allocations/") and pending:
            client.set_allocations(consumer, pending.pop())

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        line = ("--resource-class", "MEMORY_MB")
        result = openstack.run(*ALLOCATION, "unset", consumer, *line, endpoint=endpoint)
    assert (result.status, result.err) == (0, "")
    assert resources_of(client, consumer) == {provider: {"VCPU": 2}}


def test_usage_is_shown_by_consumer_type(openstack, host):
    """For one type, for each, and for all together."""
    name, project = host[0], f"project-{uuid.uuid4().hex[:8]}"
    for kind, amount in (("INSTANCE", 2), ("INSTANCE", 3), ("MIGRATION", 5)):
        owner = ("--project-id", project, "--user-id", "u", "--consumer-type", kind)
        line = ("--allocation", f"rp={name},VCPU={amount}", *owner)
        assert openstack.run(*ALLOCATION, "set", new_uuid(), *line).status == 0

    def shown(*options):
        rows = openstack.run("resource", "usage", "show", project, *options, *JSON).json
        return [tuple(row.values()) for row in rows]

    assert shown("--by-consumer-type") == [("INSTANCE", 2, "VCPU", 5), ("MIGRATION", 1, "VCPU", 5)]
    assert shown("--consumer-type", "MIGRATION") == [("MIGRATION", 1, "VCPU", 5)]
    assert shown("--consumer-type", "all") == [("all", 3, "VCPU", 10)]


# several consumers at once


@pytest.fixture
def instance(openstack, host):
    """A consumer with 2 VCPU and 64 MEMORY_MB of the host."""
    consumer = new_uuid()
    line = ("--allocation", f"rp={host[0]},VCPU=2,MEMORY_MB=64", *OWNER, "--consumer-type", "INSTANCE")
    assert openstack.run(*ALLOCATION, "set", consumer, *line).status == 0
    return consumer


def test_allocation_move_works_as_in_a_live_migration_and_back(openstack, client, host, instance):
    """In one transaction, as nova does it; and the way back."""
    destination, migration = new_uuid(), new_uuid()
    client.create_provider(f"{host[0]}-to", uuid=destination)
    client.set_inventories(destination, {"VCPU": {"total": 2}}, 0)
    line = ("--consumer-type", "MIGRATION", "--allocation", f"rp={host[0]}-to,VCPU=2")
    moved = openstack.run(*ALLOCATION, "move", instance, migration, *line, *JSON)
    assert [(row["consumer"], row["resource_provider"]) for row in moved.json] == [
        (instance, destination),
        (migration, host[1]),
    ]
    assert resources_of(client, instance) == {destination: {"VCPU": 2}}
    assert resources_of(client, migration) == {host[1]: {"VCPU": 2, "MEMORY_MB": 64}}
    types = [client.list_allocations(consumer)["consumer_type"] for consumer in (instance, migration)]
    assert types == ["INSTANCE", "MIGRATION"]
    assert openstack.run(*ALLOCATION, "unset", instance, "--provider", destination).status == 0
    assert openstack.run(*ALLOCATION, "move", migration, instance).status == 0
    assert resources_of(client, instance) == {host[1]: {"VCPU": 2, "MEMORY_MB": 64}}
    assert resources_of(client, migration) == {}


def test_moving_one_class_adds_it_to_the_target_consumer(openstack, client, host, instance):
    """One class only; the other consumer keeps what it has."""
    other = new_uuid()
    line = ("--allocation", f"rp={host[0]},VCPU=1", "--project-id", "q", "--user-id", "v")
    assert openstack.run(*ALLOCATION, "set", other, *line).status == 0
    assert openstack.run(*ALLOCATION, "move", instance, other, "--resource-class", "VCPU").status == 0
    assert resources_of(client, instance) == {host[1]: {"MEMORY_MB": 64}}
    assert resources_of(client, other) == {host[1]: {"VCPU": 3}}
    assert client.list_allocations(other)["project_id"] == "q"


def test_moving_between_untyped_and_typed_consumers_is_refused(openstack, client, host):
    """A consumer without type cannot be written together with one that is given a type."""
    consumer, target = new_uuid(), new_uuid()
    line = ("--allocation", f"rp={host[0]},VCPU=1", *OWNER)
    assert openstack.run(*ALLOCATION, "set", consumer, *line).status == 0
    result = openstack.run(*ALLOCATION, "move", consumer, target, "--consumer-type", "MIGRATION")
    assert (result.status, result.err.count("\n")) == (1, 1)
    assert result.err.startswith(f"Consumer {consumer} has no type, and ")
    assert openstack.run(*ALLOCATION, "move", consumer, target).status == 0
    assert resources_of(client, target) == {host[1]: {"VCPU": 1}}


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--resource-class", "VGPU"], 1, "has no allocations that match the options"),
        (["--allocation", "rp={host},VCPU=65"], 1, "VCPU"),
        (["--allocation", "VCPU=65"], 2, "Incorrect allocation string format"),
        (["--provider", "nobody"], 1, "No resource provider named 'nobody' was found"),
    ],
)
def test_impossible_move_changes_nothing(openstack, client, host, instance, options, status, message):
    """One line; no consumer has lost anything."""
    target = new_uuid()
    options = [option.format(host=host[0]) for option in options]
    result = openstack.run(*ALLOCATION, "move", instance, target, *options)
    assert (result.status, result.out, result.err.count("\n")) == (status, "", 1)
    assert message in result.err
    assert resources_of(client, instance) == {host[1]: {"VCPU": 2, "MEMORY_MB": 64}}
    assert resources_of(client, target) == {}


# servers of other times


@pytest.mark.parametrize(
    ("highest", "command", "needed"),
    [
        ("1.0", ("trait", "list"), "1.6"),
        ("1.0", ("resource", "class", "list"), "1.2"),
        ("1.9", ("allocation", "candidate", "list", "--resource", "VCPU=1"), "1.10"),
        ("1.36", (*PROVIDER, "set", "x", "--no-parent-provider"), "1.37"),
        ("1.17", (*PROVIDER, "list", "--required", "HW_CPU_X86_AVX"), "1.18"),
    ],
)
def test_too_old_server_is_a_one_line_error_naming_the_version(openstack, highest, command, needed):
    """What the server speaks, and what the command needs; nothing but the root document is asked for."""
    versions = {"versions": [{"id": "v1.0", "min_version": "1.0", "max_version": highest}]}
    asked = []

    def interfere(method, path):
        asked.append((method, path))
        return (200, "application/json", json.dumps(versions)) if path in ("", "/") else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*command, endpoint=endpoint)
        listed = openstack.run(*PROVIDER, "list", endpoint=endpoint)
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        f"Operation or argument is not supported with version {highest}, "
        f"the highest that this server speaks; requires at least version {needed}\n"
    )
    assert (listed.status, listed.err) == (0, "")
    assert asked == [("GET", "/"), ("GET", "/"), ("GET", "/resource_providers")]


# tables on a narrow terminal


@pytest.fixture
def consumer(openstack, host):
    """The UUID of a consumer with allocations from the provider."""
    consumer = new_uuid()
    owner = ("--project-id", uuid.uuid4().hex, "--user-id", uuid.uuid4().hex)
    openstack.run(*ALLOCATION, "set", consumer, "--allocation", f"rp={host[0]},VCPU=2,MEMORY_MB=512", *owner)
    return consumer


WIDE = {
    "inventory-list": ((*PROVIDER, "inventory", "list", "{host}"), ["step_size"], "used"),
    "list": ((*PROVIDER, "list", "--name", "{host}"), ["root_provider_uuid", "parent_provider_uuid"], "uuid"),
    "allocation-show": ((*ALLOCATION, "show", "{consumer}"), ["user_id"], "resources"),
    "names": ((*ALLOCATION, "show", "{consumer}", "--names"), ["resource_provider"], "provider_name"),
    "field-that-is-set": (
        (*PROVIDER, "inventory", "set", "{host}", "--amend", "--resource", "VCPU:step_size=1"),
        ["max_unit"],
        "step_size",
    ),
}


@pytest.mark.parametrize(("command", "left_out", "kept"), WIDE.values(), ids=WIDE)
def test_tables_leave_out_columns_that_do_not_fit_80(openstack, host, consumer, command, left_out, kept):
    """A line names them, and ``--full`` shows them; a pipe gets all columns, as it always did."""
    command = [part.format(host=host[0], consumer=consumer) for part in command]
    shown, status = run_on_terminal(openstack, *command, columns=80)
    lines = shown.splitlines()
    header = next(line for line in lines if line.startswith("| "))
    assert (status, max(map(len, lines)) <= 80, f" {kept} " in header) == (0, True, True)
    for name in left_out:
        assert f" {name} " not in header
        assert name in shown[shown.index("Columns not shown: ") :]
    shown, _ = run_on_terminal(openstack, *command, "--full", columns=80)
    assert "Columns not shown" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert all(name in shown for name in (*left_out, kept))
    table = openstack.run(*command).out
    assert all(f" {name} " in table.splitlines()[1] for name in (*left_out, kept))


def test_failures_of_an_aggregate_with_one_reason_are_one_line_on_a_terminal(openstack, client, host):
    """A pipe gets a line for each provider, as that of the reference plugin does."""
    rack = new_uuid()
    for provider in (host[1], client.create_provider(new_uuid())["uuid"]):
        openstack.run(*AGGREGATE, "add", provider, rack)
    client.set_inventories(provider, {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 1}}, 1)
    command = (
        *PROVIDER,
        "inventory",
        "set",
        "--amend",
        "--aggregate",
        rack,
        "--resource",
        "VCPUU:reserved=1",
    )
    shown, status = run_on_terminal(openstack, *command, columns=300)
    assert status == 1
    assert shown.count("Failed to set inventory for ") == 2
    assert "Failed to set inventory for 2 resource providers, such as " in shown
    assert openstack.run(*command).err.count("Failed to set inventory for resource provider ") == 2


def test_terminal_is_told_how_to_learn_why_there_are_no_candidates(openstack, host):
    """A pipe gets what it always got."""
    command = ("allocation", "candidate", "list", "--resource", "CUSTOM_NOTHING=1")
    openstack.run("resource", "class", "set", "CUSTOM_NOTHING")
    shown, status = run_on_terminal(openstack, *command, columns=200)
    assert (status, shown.split()[:2]) == (0, ["No", "candidates."])
    piped = openstack.run(*command)
    assert (piped.status, piped.out, piped.err) == (0, "\n", "")
