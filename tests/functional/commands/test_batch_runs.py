# SPDX-License-Identifier: Apache-2.0
"""Batches that are selected, saved, stopped, resumed and undone: the real command against a real server."""

import json
import os
import pty
import re
import resource
import signal
import stat
import subprocess
import threading
import uuid

import pytest

from tests.functional.commands.compute import compute_with
from tests.functional.commands.proxy import DROP, proxy_to
from tests.functional.commands.pty_run import run_on_terminal

BATCH = ("resource", "provider", "batch")
ADD = (*BATCH, "trait", "add", "COMPUTE_NODE")
RATIO = (*BATCH, "ratio", "set")
RUN = (*BATCH, "run")


def changed(result):
    """The providers that the rows of a plan or report name."""
    return {row["uuid"] for row in result.json}


def snapshot(rack):
    """What all hosts have, generations aside."""
    return {
        host: (
            rack.client.list_inventories(host)["inventories"],
            rack.traits_of(host),
            set(rack.client.list_provider_aggregates(host)["aggregates"]),
        )
        for host in [*rack.hosts, rack.outsider]
    }


# verbs


def test_inventory_set_keeps_unnamed_fields(openstack, rack):
    """The fields that are not named are as they were."""
    command = (*BATCH, "inventory", "set", "VCPU:reserved=2", "DISK_GB=100", *rack.select, "--yes")
    assert openstack.run(*command).status == 0
    for host in rack.hosts:
        assert rack.inventory_of(host) == rack.inventory_of(rack.outsider) | {"reserved": 2}
        assert rack.inventory_of(host, "DISK_GB")["total"] == 100


def test_inventory_set_replace_removes_everything_not_given(openstack, rack):
    """Other classes go and other fields have their defaults."""
    command = (*BATCH, "inventory", "set", "VCPU:total=4", "--replace", *rack.select, "--yes")
    assert openstack.run(*command).status == 0
    for host in rack.hosts:
        inventories = rack.client.list_inventories(host)["inventories"]
        assert set(inventories) == {"VCPU"}
        assert (inventories["VCPU"]["total"], inventories["VCPU"]["allocation_ratio"]) == (4, 1.0)


def test_inventory_delete_removes_classes(openstack, rack):
    """The other classes stay, and a second run finds nothing to do."""
    command = (*BATCH, "inventory", "delete", "MEMORY_MB", *rack.select, "--yes")
    assert openstack.run(*command).status == 0
    assert {tuple(rack.client.list_inventories(host)["inventories"]) for host in rack.hosts} == {("VCPU",)}
    assert "Nothing to do" in openstack.run(*command).out


def test_aggregate_add_remove_and_set_change_memberships(openstack, rack):
    """Membership is changed without touching other memberships, or replaced."""
    new, other = str(uuid.uuid4()), str(uuid.uuid4())

    def members(verb, aggregate):
        result = openstack.run(*BATCH, "aggregate", verb, aggregate, *rack.select, "--yes")
        assert result.status == 0, result.err
        return {frozenset(rack.client.list_provider_aggregates(host)["aggregates"]) for host in rack.hosts}

    assert members("add", new) == {frozenset({rack.aggregate, new})}
    assert members("remove", new) == {frozenset({rack.aggregate})}
    assert members("set", other) == {frozenset({other})}


# selectors


def test_several_selectors_must_all_match(openstack, rack):
    """Each condition narrows what the others leave."""
    special = rack.hosts[1]
    rack.client.set_provider_traits(special, ["HW_CPU_X86_SSE"], 3)
    prefix = rack.aggregate[:8]

    def selected(*options):
        result = openstack.run(*RATIO, "VCPU=3", *options, "--dry-run", "-f", "json")
        assert result.status == 0, result.err
        return changed(result)

    hosts = set(rack.hosts)
    assert selected("--name", f"{prefix}-*") == hosts | {rack.outsider}
    assert selected("--name", f"{prefix}-*", *rack.select) == hosts
    assert selected(*rack.select, "--required", "HW_CPU_X86_SSE") == {special}
    assert selected(*rack.select, "--forbidden", "HW_CPU_X86_SSE") == hosts - {special}
    assert selected("--in-tree", f"{prefix}-host0") == {rack.hosts[0]}
    assert selected(*rack.select, "--resource", "MEMORY_MB=4096") == hosts
    assert hosts < selected("--all")


def test_providers_are_read_from_a_file_or_standard_input(openstack, rack):
    """By name or UUID, with comments, from Windows too; one that is not there is an error."""
    text = f"# two of them\n{rack.hosts[0]}\n\n{rack.aggregate[:8]}-host1  # by name\n"
    path = openstack.home / "hosts"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    command = (*RATIO, "VCPU=3", "--dry-run", "-f", "json", "--providers-file")
    assert changed(openstack.run(*command, path)) == set(rack.hosts[:2])
    assert changed(openstack.run(*command, "-", text=text)) == set(rack.hosts[:2])
    result = openstack.run(*command, "-", text="nobody\n")
    assert (result.status, result.out) == (1, "")
    assert result.err == "No resource provider has the name or UUID nobody; nothing was changed\n"
    # as of a file that is no list of names
    result = openstack.run(*command, "-", text=f"{'x' * 61}\n{'y' * 60}\n")
    assert f" {'x' * 57}..., {'y' * 60}; nothing was changed\n" in result.err
    name = f"{rack.aggregate[:8]}-host1"
    mistyped = openstack.run(*command, "-", text=f"{name}x\n").err
    assert f" or UUID {name}x (is it {name}" in mistyped


def test_aggregate_may_be_given_by_the_name_of_its_host_aggregate(openstack, rack):
    """The name of a host aggregate is looked up there, and is in the list of runs."""
    with compute_with({"rack1": rack.aggregate}) as (url, _asked):
        environment = {"OS_COMPUTE_ENDPOINT_OVERRIDE": url}
        command = (*RATIO, "VCPU=3", "--aggregate", "rack1", "-f", "json")
        result = openstack.run(*command, "--dry-run", environment=environment)
        openstack.run(*command, "--yes", environment=environment)
    assert changed(result) == set(rack.hosts)
    assert openstack.run(*RUN, "list", "-f", "json").json[-1]["selection"] == (
        f"in aggregate rack1 ({rack.aggregate})"
    )
    shown, _ = run_on_terminal(openstack, *RUN, "list", columns=80)
    assert re.search(r"  ratio set VCPU=3.0 +rack1$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (
            (),
            2,
            "Say which resource providers to change, with --aggregate, --name or other conditions; --all ",
        ),
        (("--name", "nobody-*"), 1, "No resource provider is named like nobody-*; give --allow-empty if"),
        (("--resource", "VCPU=x"), 2, "Amount of VCPU must be a whole number, not 'x'\n"),
        (
            ("--providers-file", "/nowhere"),
            1,
            "The file /nowhere cannot be read: No such file or directory\n",
        ),
    ],
)
def test_invalid_selection_is_a_one_line_error(openstack, options, status, message):
    """One line, and nothing is changed."""
    result = openstack.run(*ADD, *options, "--yes")
    assert (result.status, result.out) == (status, "")
    assert result.err.startswith(message)
    assert result.err.count("\n") == 1


def test_empty_selection_may_be_allowed(openstack):
    """For scripts that run before the hosts are there."""
    result = openstack.run(*ADD, "--name", "nobody-*", "--allow-empty", "--yes")
    assert (result.status, result.err) == (0, "")


# warnings


def claim(rack, host, amount):
    payload = {
        "allocations": {host: {"resources": {"VCPU": amount}}},
        "project_id": str(uuid.uuid4()),
        "user_id": str(uuid.uuid4()),
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    consumer = str(uuid.uuid4())
    rack.client.set_allocations(consumer, payload)
    return consumer


def test_hosts_in_two_aggregates_with_different_ratios_are_reported(openstack, rack):
    """A host that is in both is named, with what each has now."""
    other = rack.client.list_provider_aggregates(rack.outsider)["aggregates"][0]
    both = rack.hosts[0]
    inventories = rack.client.list_inventories(rack.outsider)["inventories"]
    inventories["VCPU"]["allocation_ratio"] = 2.0
    rack.client.set_inventories(rack.outsider, inventories, 3)
    rack.client.set_provider_aggregates(both, [rack.aggregate, other], 3)
    command = (*RATIO, "VCPU=4", *rack.select, "--aggregate", other, "--dry-run")
    warning = openstack.run(*command).err
    name = rack.client.show_provider(both)["name"]
    assert f"{name} is in aggregates that have different ratios of VCPU now: 16.0 in " in warning
    assert f"2.0 in {other}" in warning


def test_tree_members_without_the_class_are_reported_unchanged(openstack, rack):
    """In a selected tree they stay as they are, and which they are is said."""
    host = rack.hosts[0]
    name = f"{rack.aggregate[:8]}-numa0"
    child = rack.client.create_provider(name, parent=host)["uuid"]
    try:
        rack.client.set_inventories(child, {"MEMORY_MB": {"total": 512}}, 0)
        command = (*RATIO, "VCPU=4", "--in-tree", host, "--yes", "-f", "json")
        result = openstack.run(*command)
        rows = {row["uuid"]: row["result"] for row in result.json}
        assert (result.status, rows) == (0, {host: "applied", child: "unchanged"})
        assert f"Warning: No inventory of VCPU on {name} (nested providers may have it)\n" in result.err
        assert rack.client.list_inventories(child)["resource_provider_generation"] == 1
    finally:
        rack.client.delete_provider(child)


# saved plans


def test_saved_plan_is_applied_once_as_shown(openstack, rack):
    """Nothing is written when it is saved; its file is the owner's; applied twice it finds nothing to do."""
    before = rack.generations()
    path = openstack.home / "plan.json"
    result = openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path, "--detailed-exitcode")
    assert result.status == 2
    summary, hint = result.out.splitlines()[-2:]
    assert summary == "ratio set VCPU=4.0: 4 resource providers to change"
    assert hint == f"Saved; to carry it out: openstack resource provider batch apply {path}"
    assert rack.generations() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    applied = openstack.run(*BATCH, "apply", path, "--yes", "-f", "json")
    assert (applied.status, {row["result"] for row in applied.json}) == (0, {"applied"})
    assert rack.ratios() == {4.0}
    after = rack.generations()
    again = openstack.run(*BATCH, "apply", path, "--yes")
    words = "0 resource providers to change, 4 unchanged (has the ratio already)"
    assert (again.status, again.err) == (0, "")
    assert again.out.splitlines()[-1] == f"Nothing to do: ratio set VCPU=4.0: {words}"
    assert rack.generations() == after


@pytest.mark.parametrize("change", ["trait", "aggregate"])
def test_saved_plan_detects_changes_without_generations(openstack, rack, change):
    """Where aggregates have no generation, what a colleague added since is not written over."""
    old = ("--os-placement-api-version", "1.18")
    path = openstack.home / f"{change}.json"
    value = "COMPUTE_NODE" if change == "trait" else str(uuid.uuid4())
    command = (change, "set", value, *(("--force",) if change == "trait" else ()))
    assert openstack.run(*old, *BATCH, *command, *rack.select, "--plan-out", path).status == 0
    host = rack.hosts[0]
    if change == "trait":
        openstack.run(*old, "resource", "provider", "trait", "set", host, "--trait", "HW_NUMA_ROOT")
    else:
        there = ("--aggregate", rack.aggregate, "--aggregate", str(uuid.uuid4()))
        openstack.run(*old, "resource", "provider", "aggregate", "set", host, *there)
    applied = openstack.run(*old, *BATCH, "apply", path, "--yes")
    assert (applied.status, applied.out) == (1, "")
    assert f"1 resource provider has other {change}s than when the plan was made" in applied.err


def set_ratio(rack, host, ratio):
    """Set the ratio of a host's processors, as a colleague would."""
    document = rack.client.list_inventories(host)
    inventory = {**document["inventories"]["VCPU"], "allocation_ratio": ratio}
    rack.client.set_inventory(host, "VCPU", inventory, document["resource_provider_generation"])


def test_saved_plan_survives_a_live_cloud(openstack, rack):
    """A claim, another field and a trait do not matter; what a colleague did already is unchanged."""
    path = openstack.home / "live.json"
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    one, two, three, four = rack.hosts
    consumer = claim(rack, one, 2)
    try:
        inventories = rack.client.list_inventories(two)["inventories"]
        inventories["MEMORY_MB"]["reserved"] = 512
        inventories["VCPU"]["reserved"] = 3
        rack.client.set_inventories(two, inventories, 3)
        rack.client.set_provider_traits(three, ["HW_CPU_X86_SSE"], 3)
        set_ratio(rack, four, 4.0)
        result = openstack.run(*BATCH, "apply", path, "--yes", "-f", "json")
        rows = {row["uuid"]: row["result"] for row in result.json}
        assert (result.status, rows) == (0, {**dict.fromkeys(rack.hosts, "applied"), four: "unchanged"})
        assert rack.ratios() == {4.0}
        assert rack.inventory_of(two, "MEMORY_MB")["reserved"] == 512
        assert rack.inventory_of(two)["reserved"] == 3
        assert rack.traits_of(three) == {"HW_CPU_X86_SSE"}
    finally:
        rack.client.delete_allocations(consumer)


def test_deleted_host_is_refused_and_leaves_nothing_to_resume(openstack, rack):
    """The plan, its result, the undo and a resume agree on it: it can never be read again."""
    path = openstack.home / "gone.json"
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    gone, moved, *others = rack.hosts
    name = rack.client.show_provider(gone)["name"]
    reason = f"resource provider {name} does not exist any more"
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    run = openstack.last_run()["id"]
    rack.client.delete_provider(gone)
    set_ratio(rack, moved, 9.0)
    result = openstack.run(*BATCH, "apply", path, "--yes")
    assert (result.status, result.out) == (1, "")
    assert f"{name}: it does not exist any more\n" in result.err
    words = "1 has other inventories than when the plan was made and 1 does not exist any more"
    assert f"\nNothing was changed: of 2 resource providers, {words}; --replan" in result.err
    set_ratio(rack, moved, 4.0)
    result = openstack.run(*RUN, "undo", run, "--atomic", "--yes")
    told = f"Nothing was changed, as all or nothing was asked for: {reason}\n"
    assert (result.status, result.err) == (1, told)
    result = openstack.run(*RUN, "undo", run, "--yes", "-f", "json")
    rows = {row["uuid"]: (row["result"], row["error"]) for row in result.json}
    assert (result.status, rows[gone]) == (3, ("refused", reason))
    assert [rows[host][0] for host in (moved, *others)] == ["applied"] * 3
    undo = openstack.last_run()
    assert (undo["state"], "to resume it" in result.err) == ("partly done", False)
    resumed = openstack.run(*RUN, "resume", undo["id"], "--yes", "-f", "json")
    assert [row["error"] for row in resumed.json] == [reason]
    rack.client.create_provider(name, uuid=gone)


def test_saved_plan_tells_what_moved_and_replans_it(openstack, rack):
    """One line for each host whose ratio a colleague set, and nothing of the others."""
    path = openstack.home / "moved.json"
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    moved, other = rack.hosts[:2]
    set_ratio(rack, moved, 9.0)
    rack.client.set_provider_traits(other, ["HW_CPU_X86_SSE"], 3)
    name = rack.client.show_provider(moved)["name"]
    result = openstack.run(*BATCH, "apply", path, "--yes")
    assert (result.status, result.out) == (1, "")
    moved, told = result.err.splitlines()
    assert moved == f"{name}: VCPU:allocation_ratio=16.0 became VCPU:allocation_ratio=9.0"
    assert told == (
        "Nothing was changed: 1 resource provider has other inventories than when the plan was made; "
        "--replan plans what has changed again and carries the rest out as planned"
    )
    assert rack.ratios() == {16.0, 9.0}
    assert openstack.run(*BATCH, "apply", path, "--yes", "--replan").status == 0
    assert rack.ratios() == {4.0}


def test_saved_plan_that_is_refused_whole_says_that_nothing_was_changed(openstack, rack):
    """Every time, on the line that ends the command; a plan that is shown has changed nothing anyway."""
    path = openstack.home / "refused.json"
    shrink = (*BATCH, "inventory", "set", "VCPU:total=1", *rack.select)
    assert openstack.run(*shrink, "--plan-out", path).status == 0
    consumers = [claim(rack, host, 8) for host in rack.hosts]
    try:
        told = "inventory set VCPU:total=1: 4 resource providers, 4 refused"
        for _ in range(2):
            result = openstack.run(*BATCH, "apply", path, "--replan", "--yes", "-f", "json")
            assert (result.status, result.err.splitlines()[-1]) == (3, f"Nothing was changed: {told}")
            assert {(row["result"], row["reason"]) for row in result.json} == {("refused", "")}
        shown = openstack.run(*BATCH, "apply", path, "--replan", "--dry-run", "-f", "json")
        assert "Nothing was changed" not in shown.err
        assert all(row["reason"].startswith("refused: VCPU would be over capacity") for row in shown.json)
    finally:
        for consumer in consumers:
            rack.client.delete_allocations(consumer)


def test_saved_plan_lists_ten_that_moved(openstack, rack):
    """The others are counted."""
    names = [f"{rack.aggregate[:8]}-more{number:02}" for number in range(12)]
    others = [rack.client.create_provider(name)["uuid"] for name in names]
    path = openstack.home / "many.json"
    try:
        for host in others:
            rack.client.set_inventories(host, {"VCPU": {"total": 8, "allocation_ratio": 16.0}}, 0)
        openstack.run(*RATIO, "VCPU=4", "--name", f"{rack.aggregate[:8]}-more*", "--plan-out", path)
        for host in others:
            set_ratio(rack, host, 9.0)
        result = openstack.run(*BATCH, "apply", path, "--yes")
        lines = result.err.splitlines()
        assert (result.status, len(lines), lines[10]) == (1, 12, "and 2 more")
        assert lines[11].startswith("Nothing was changed: 12 resource providers have other inventories than")
    finally:
        for host in others:
            rack.client.delete_provider(host)


def test_hosts_that_lost_what_a_saved_plan_changes_are_named(openstack, rack):
    """Their number alone would be found in no row of a terminal; the others are changed as planned."""
    path, lost = openstack.home / "lost.json", rack.hosts[0]
    path.unlink(missing_ok=True)
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    rack.client.delete_inventory(lost, "VCPU")
    name = rack.client.show_provider(lost)["name"]
    result = openstack.run(*BATCH, "apply", path, "--replan", "--yes", "-f", "json")
    told = f"Warning: 1 change that was planned is left out (no inventory of VCPU): {name}\n"
    assert (result.status, result.err.count(told)) == (0, 1)
    assert [row["result"] for row in result.json].count("applied") == 3
    # what is done is not left out, whatever else others have set there
    document = rack.client.list_inventories(rack.hosts[1])
    document["inventories"]["VCPU"]["reserved"] = 3
    rack.client.set_inventories(
        rack.hosts[1], document["inventories"], document["resource_provider_generation"]
    )
    again = openstack.run(*BATCH, "apply", path, "--replan", "--yes", "-f", "json")
    assert (again.status, again.err.count("left out")) == (0, again.err.count(told))


def test_hosts_that_left_the_selection_of_a_saved_plan_are_left_out_before_the_question(openstack, rack):
    """The number that is confirmed is that of the changes; where nothing is left, no run is started."""
    path, left = openstack.home / "left.json", rack.hosts[0]
    select = (*rack.select, "--required", "HW_CPU_X86_AVX")
    openstack.run(*RATIO, "VCPU=4", *select, "--plan-out", path)
    rack.client.set_provider_traits(left, ["COMPUTE_NODE"], rack.client.show_provider(left)["generation"])
    why = f"is no longer all of: in aggregate {rack.aggregate}, with HW_CPU_X86_AVX"
    told = f"1 change that was planned is left out ({why}): {rack.client.show_provider(left)['name']}"
    shown, _ = run_on_terminal(openstack, *BATCH, "apply", path, columns=200, answer="y\n")
    assert (shown.count(told), shown.count("Change 3 resource providers?")) == (1, 1)
    assert rack.ratios() == {4.0, 16.0}
    before = openstack.last_run()["id"]
    result = openstack.run(*BATCH, "apply", path, "--yes", "-f", "json")
    assert (result.status, result.err.count(told), openstack.last_run()["id"]) == (0, 1, before)


def test_saved_plan_whose_trait_was_deleted_is_refused_before_the_question(openstack, rack):
    """Each write would fail; the message has the command that creates it."""
    path, name = openstack.home / "nameless.json", "CUSTOM_PLANNED"
    rack.client.create_trait(name)
    openstack.run(*BATCH, "trait", "add", name, *rack.select, "--plan-out", path)
    rack.client.delete_trait(name)
    before = openstack.run(*RUN, "list", "-f", "json").json
    for options in (("--dry-run",), ("--yes",), ("--replan", "--yes")):
        result = openstack.run(*BATCH, "apply", path, *options, "-f", "json")
        remedy = (
            f"The server does not know the trait {name}; create it first with: openstack trait create {name}"
        )
        assert (result.status, len(result.json), result.out.count(remedy)) == (3, 4, 4)
    assert openstack.run(*RUN, "list", "-f", "json").json == before
    openstack.run(*remedy.rpartition(": openstack ")[2].split())
    assert openstack.run(*BATCH, "apply", path, "--yes").status == 0


def test_plan_that_is_planned_again_says_how_to_see_all_of_it(openstack, rack):
    """The command that does needs --replan too, as without it a plan that moved is refused."""
    names = [f"{rack.aggregate[:8]}-more{number:02}" for number in range(21)]
    others = [rack.client.create_provider(name)["uuid"] for name in names]
    path = openstack.home / "again.json"
    try:
        for host in others:
            rack.client.set_inventories(host, {"VCPU": {"total": 8, "allocation_ratio": 16.0}}, 0)
        openstack.run(*RATIO, "VCPU=4", "--name", f"{rack.aggregate[:8]}-more*", "--plan-out", path)
        shown, _ = run_on_terminal(openstack, *BATCH, "apply", path, columns=80, answer="n\n")
        assert "\n(--dry-run --full shows each change)\n" in shown
        set_ratio(rack, others[0], 9.0)
        shown, _ = run_on_terminal(openstack, *BATCH, "apply", path, columns=80, answer="y\nn\n")
        assert "\n(--replan --dry-run --full shows each change)\n" in shown
        command = (*BATCH, "apply", path, "--force")
        shown, _ = run_on_terminal(openstack, *command, columns=80, answer="y\nn\n")
        assert "\n(--replan --force --dry-run --full shows each change)\n" in shown
        rows = openstack.run(*BATCH, "apply", path, "--replan", "--dry-run", "--full", "-f", "json").json
        assert len(rows) == 21
    finally:
        for host in others:
            rack.client.delete_provider(host)


def test_write_of_a_saved_plan_compares_the_generation_that_apply_read(openstack, rack):
    """Somebody sets another field between the reading and the write: it is planned again, and his stays."""
    path, host = openstack.home / "between.json", rack.hosts[2]
    touched = iter([True])

    def interfere(method, path):
        if method == "PUT" and f"/{host}/" in path and next(touched, False):
            document = rack.client.list_inventories(host)
            inventory = {**document["inventories"]["VCPU"], "reserved": 3}
            generation = document["resource_provider_generation"]
            rack.client.set_inventory(host, "VCPU", inventory, generation)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        path.unlink(missing_ok=True)
        openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path, endpoint=endpoint)
        rack.client.set_provider_traits(host, ["HW_CPU_X86_SSE"], 3)
        result = openstack.run(*BATCH, "apply", path, "--yes", endpoint=endpoint)
    assert result.status == 0, result.err
    found = rack.inventory_of(host)
    assert (found["reserved"], found["allocation_ratio"]) == (3, 4.0)


@pytest.mark.parametrize(
    ("answer", "ratios", "status"),
    [("y\ny\n", {4.0}, 0), ("y\nn\n", {16.0, 9.0}, 1), ("n\n", {16.0, 9.0}, 1)],
    ids=("yes to both", "yes and no", "no"),
)
def test_terminal_asks_before_replanning_a_saved_plan(openstack, rack, answer, ratios, status):
    """What moved is shown first, then the plan as it is now; only two yes change anything."""
    path = openstack.home / "asked.json"
    path.unlink(missing_ok=True)
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    moved = rack.hosts[1]
    set_ratio(rack, moved, 9.0)
    shown, ended = run_on_terminal(openstack, *BATCH, "apply", path, columns=200, answer=answer)
    name = rack.client.show_provider(moved)["name"]
    assert f"{name}: VCPU:allocation_ratio=16.0 became VCPU:allocation_ratio=9.0" in shown
    assert (
        "1 resource provider has other inventories than when the plan was made. Plan it again, and show "
        "the new plan? [y/N]" in shown
    )
    assert ("Change 4 resource providers? [y/N]" in shown) == answer.startswith("y")
    assert ("Nothing was changed: not confirmed" in shown) == (status == 1)
    advice = f"; to plan again later: openstack resource provider batch apply {path} --replan"
    assert shown.rstrip().endswith(f"Nothing was changed: not confirmed{advice}") == (answer == "n\n")
    assert (ended, rack.ratios()) == (status, ratios)


def test_terminal_asks_nothing_about_a_saved_plan_with_yes(openstack, rack):
    """A plan that moved is refused, as it is without a terminal."""
    path = openstack.home / "refused.json"
    path.unlink(missing_ok=True)
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    set_ratio(rack, rack.hosts[1], 9.0)
    command = (*BATCH, "apply", path, "--yes")
    shown, ended = run_on_terminal(openstack, *command, columns=200, answer="y\n")
    assert "[y/N]" not in shown
    assert (
        "Nothing was changed: 1 resource provider has other inventories than when the plan was made; --replan"
        in shown
    )
    assert (ended, rack.ratios()) == (1, {16.0, 9.0})


def test_control_characters_in_names_are_escaped_in_every_output(openstack, rack):
    """What moved, what is agreed to and what journals tell have it spelled out; machines get it whole."""
    name = f"{rack.aggregate[:8]}\x1b[2J"
    rack.client.update_provider(rack.hosts[0], name)
    path = openstack.home / "repainting.json"
    openstack.run(*RATIO, "VCPU=4", "--name", name, "--plan-out", path)
    set_ratio(rack, rack.hosts[0], 9.0)
    shown, _ = run_on_terminal(openstack, *BATCH, "apply", path, columns=200, answer="y\ny\n")
    moved, agreed, _ = shown.split("[y/N]")
    *_, run = openstack.run(*RUN, "list", "-f", "json").json
    assert run["selection"] == f"named like {name}"
    listed, _ = run_on_terminal(openstack, *RUN, "list", "--full", columns=200)
    told, _ = run_on_terminal(openstack, *RUN, "show", run["id"], columns=200)
    whole, _ = run_on_terminal(openstack, *RUN, "show", run["id"], "--full", columns=200)
    for text in (moved, agreed, listed, told, whole):
        assert f"{rack.aggregate[:8]}\\x1b[2J" in text
        assert name not in text
    assert [row["name"] for row in openstack.run(*RUN, "show", run["id"], "-f", "json").json] == [name]


def test_terminal_asks_once_about_an_up_to_date_saved_plan(openstack, rack):
    """It is shown as it was saved."""
    path = openstack.home / "holds.json"
    path.unlink(missing_ok=True)
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    shown, status = run_on_terminal(openstack, *BATCH, "apply", path, columns=200, answer="y\n")
    assert shown.count("[y/N]") == 1
    assert shown.count("VCPU:allocation_ratio from 16.0 to 4.0") == 4
    assert (status, rack.ratios()) == (0, {4.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "it is not JSON; plans are made by --plan-out"),
        ("[]", "it is no plan that --plan-out wrote"),
        ('{"format": "osc-placement-plan", "version": 9}', "its version is 9, not 1"),
        (
            '{"format": "osc-placement-plan", "version": 1}',
            (
                "it was edited since --plan-out wrote it; plan again, with --providers-file if only some of "
                "its resource providers are meant"
            ),
        ),
    ],
)
def test_invalid_plan_file_is_a_one_line_error(openstack, text, message):
    """What is wrong with it, and no traceback."""
    path = openstack.home / "bad.json"
    path.write_text(text)
    result = openstack.run(*BATCH, "apply", path, "--yes")
    assert (result.status, result.out) == (1, "")
    assert result.err == f"The plan {path} cannot be used: {message}\n"


def test_saved_plan_of_another_server_is_refused(openstack, rack):
    """The address is told, and nothing is changed."""
    path = openstack.home / "other.json"
    path.unlink(missing_ok=True)
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--plan-out", path)
    with proxy_to(openstack.endpoint, lambda *_: None) as endpoint:
        result = openstack.run(*BATCH, "apply", path, "--yes", endpoint=endpoint)
    assert result.status == 1
    assert result.err.startswith(f"This was planned for the placement at {openstack.endpoint}, not for")


# how it is carried out


def test_failing_canary_stops_the_run(openstack, rack):
    """One is tried, the others are as they were, and the reason is told."""

    def interfere(method, path):
        return (500, "text/plain", "") if method == "PUT" else None

    before = snapshot(rack)
    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, *rack.select, "--yes", "--canary", "1", "-f", "json")
        result = openstack.run(*command, endpoint=endpoint)
    results = sorted(row["result"] for row in result.json)
    assert (result.status, results) == (3, ["failed", "skipped", "skipped", "skipped"])
    assert "stopped because 1 of 1 canaries failed" in result.err
    assert snapshot(rack) == before
    assert openstack.run(*ADD, *rack.select, "--yes", "--canary", "2").status == 0


def test_more_failures_than_allowed_stop_the_run(openstack, rack):
    """After more failures than allowed nothing is begun."""

    def interfere(method, path):
        return (500, "text/plain", "") if method == "PUT" else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, *rack.select, "--yes", "--max-failures", "1", "--concurrency", "1", "-f", "json")
        result = openstack.run(*command, endpoint=endpoint)
    results = sorted(row["result"] for row in result.json)
    assert (result.status, results) == (3, ["failed", "failed", "skipped", "skipped"])
    assert "stopped after more than 1 failures" in result.err


def test_control_file_pauses_and_stops_a_run(openstack, rack):
    """What it says holds while the run goes; what is left can be resumed."""
    process, control = openstack.start_run(*ADD, *rack.select, "--yes", "--throttle", "0.0017")
    control.write_text("pause\n")
    path = f"~/{control.relative_to(openstack.home)}"
    assert process.stderr.readline() == f"Paused by {path}; write 'go' there to go on.\n"
    assert sum("COMPUTE_NODE" in rack.traits_of(host) for host in rack.hosts) <= 1
    control.write_text("pause\nstop\n")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"batch run resume {control.stem}" in err
    assert openstack.run(*RUN, "resume", control.stem, "--throttle", "none", "--yes").status == 0
    assert all("COMPUTE_NODE" in rack.traits_of(host) for host in rack.hosts)


# runs


def test_run_can_be_listed_shown_and_undone(openstack, rack):
    """What was there before comes back, and the undo is a run that can be undone itself."""
    before = snapshot(rack)
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    run = openstack.last_run()
    assert (run["state"], run["what"], run["changes"], run["applied"]) == ("done", "ratio set VCPU=4.0", 4, 4)
    assert run["selection"] == f"in aggregate {rack.aggregate}"
    rows = openstack.run(*RUN, "show", run["id"], "-f", "json").json
    assert {row["uuid"] for row in rows} == set(rack.hosts)
    assert {(row["before"], row["after"], row["result"]) for row in rows} == {
        ("VCPU:allocation_ratio=16.0", "VCPU:allocation_ratio=4.0", "applied")
    }
    dry = openstack.run(*RUN, "undo", run["id"], "--dry-run", "-f", "json")
    assert (dry.status, len(dry.json), rack.ratios()) == (0, 4, {4.0})
    assert openstack.run(*RUN, "undo", run["id"], "--yes").status == 0
    assert snapshot(rack) == before
    assert openstack.run(*RUN, "undo", openstack.last_run()["id"], "--yes").status == 0
    assert rack.ratios() == {4.0}


def test_undo_leaves_a_later_run_that_set_other_fields_and_an_allocation(openstack, rack):
    """The older of two runs is undone, and then the later one."""
    before = snapshot(rack)
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    ratios = openstack.last_run()["id"]
    openstack.run(*BATCH, "inventory", "set", "VCPU:reserved=3", *rack.select, "--yes")
    reserved = openstack.last_run()["id"]
    openstack.run(*ADD, *rack.select, "--yes")
    consumer = claim(rack, rack.hosts[1], 1)
    try:
        result = openstack.run(*RUN, "undo", ratios, "--yes", "-f", "json")
        assert (result.status, result.err) == (0, "")
        assert {row["result"] for row in result.json} == {"applied"}
        found = [rack.inventory_of(host) for host in rack.hosts]
        assert {(each["reserved"], each["allocation_ratio"]) for each in found} == {(3, 16.0)}
        assert openstack.run(*RUN, "undo", reserved, "--yes").status == 0
    finally:
        rack.client.delete_allocations(consumer)
    inventories = {host: state[0] for host, state in snapshot(rack).items()}
    assert inventories == {host: state[0] for host, state in before.items()}
    assert all("COMPUTE_NODE" in rack.traits_of(host) for host in rack.hosts)


@pytest.mark.parametrize("options", [(), ("--atomic",)], ids=("one by one", "atomic"))
def test_undo_refuses_what_was_set_again_since_and_says_so_once(openstack, rack, options):
    """The row says what is different; with force what was set since stays."""
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    run = openstack.last_run()["id"]
    stranger, other = rack.hosts[0], rack.hosts[1]
    document = rack.client.list_inventories(stranger)
    document["inventories"]["VCPU"]["allocation_ratio"] = 9.0
    rack.client.set_inventories(stranger, document["inventories"], document["resource_provider_generation"])
    name = rack.client.show_provider(stranger)["name"]
    told = "1 of 4 changes will not be undone, because what the run set was changed since; no part"
    result = openstack.run(*RUN, "undo", run, "--yes", "-f", "json", *options)
    assert (result.err.count(told), result.err.count("--force")) == (1, 0)
    assert result.err.count(name) == (1 if options else 0)
    if options:
        assert (result.status, result.out, rack.ratios()) == (1, "", {4.0, 9.0})
        return
    rows = {row["uuid"]: row for row in result.json}
    assert (result.status, rows[stranger]["result"], rows[other]["result"]) == (3, "refused", "applied")
    assert rows[stranger]["error"] == (
        f"{name} was changed since: VCPU:allocation_ratio=4.0 became VCPU:allocation_ratio=9.0"
    )
    assert rows[stranger]["reason"] == ""
    forced = openstack.run(*RUN, "undo", run, "--yes", "--force")
    assert forced.status == 3
    assert rack.ratios() == {16.0, 9.0}
    again = openstack.run(*RUN, "undo", run, "--yes", "--force")
    assert (again.status, again.err.count("no part of it is still as the run left it")) == (3, 1)
    *_, summary, left = again.err.splitlines()
    assert summary.startswith(f"Nothing was changed: undo of {run} (ratio set VCPU=4.0): ")
    command = f"openstack resource provider batch run undo {run}"
    assert left == f"Run {run} still has 1 change to undo, when what was set since is undone: {command}"
    shown, _ = run_on_terminal(openstack, *RUN, "undo", run, "--yes", columns=80)
    assert shown.splitlines()[-1] == command
    atomic = openstack.run(*RUN, "undo", run, "--yes", "--atomic")
    assert (atomic.status, atomic.err.count(told)) == (1, 1)


def test_forced_undo_tells_what_it_leaves(openstack, rack):
    """The hosts and the later run are named before, and the run of the undo is not shown as done."""
    openstack.run(
        *BATCH, "inventory", "set", "VCPU:reserved=2", "VCPU:allocation_ratio=4", *rack.select, "--yes"
    )
    run = openstack.last_run()["id"]
    name = rack.client.show_provider(rack.hosts[0])["name"]
    openstack.run(*RATIO, "VCPU=9", "--in-tree", rack.hosts[0], "--yes")
    later = openstack.last_run()["id"]
    result = openstack.run(*RUN, "undo", run, "--yes", "--force", "-f", "json")
    told = f"1 of 4 changes will be undone in part: what was set since by run {later} (1) stays, on {name}"
    assert f"Warning: {told}\n" in result.err
    assert ": 4 resource providers, 3 applied, 1 in part\n" in result.err
    assert sorted(row["result"] for row in result.json) == ["applied"] * 3 + ["in part"]
    undo = openstack.last_run()
    assert (result.status, undo["state"], undo["applied"]) == (3, "partly done", 4)
    command = "openstack resource provider batch run undo"
    order = "undo the later run first, then this one again, beginning with"
    left = f"run {run} still has 1 change to undo; {order}: {command} {later}"
    assert result.err.endswith(f"to undo it: {command} {undo['id']}; {left}\n")
    redo = openstack.run(*RUN, "undo", "--last", "--dry-run", "-f", "json")
    told = f"This run is itself an undo: undoing it makes the changes of run {run} again"
    rest = f"to undo what is left of that run: {command} {run}"
    assert redo.err.splitlines()[1] == f"{told}; {rest}"
    (row,) = openstack.run(*RUN, "show", undo["id"], "--failed-only", "-f", "json").json
    assert (row["uuid"], row["result"]) == (rack.hosts[0], "in part")
    assert row["error"] == "changed since; what was set since stays: VCPU:allocation_ratio=9.0"
    again = openstack.run(*RUN, "undo", undo["id"], "--force", "--dry-run", "-f", "json")
    assert again.err.startswith(
        "Warning: --force makes no difference: all that is left of the run is undone without it"
    )


def test_resume_repeats_failed_changes(openstack, rack):
    """The run is unfinished until nothing is left; a second resume has nothing to do."""
    host = rack.hosts[3]

    def interfere(method, path):
        return DROP if method == "PUT" and f"/{host}/" in path else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        failing = openstack.run(*ADD, *rack.select, "--yes", endpoint=endpoint)
        run = re.search(r"batch run resume (\S+);", failing.err)[1]
        assert openstack.last_run()["state"] == "unfinished"
        listed = openstack.run(*RUN, "show", run, "-f", "json").json
        assert [row["result"] for row in listed].count("failed") == 1
    # the same server, which the journal knows by the address of the proxy
    result = openstack.run(*RUN, "resume", run, "--yes")
    assert result.status == 1
    assert "This was planned for the placement at " in result.err


def test_lost_answer_is_reported_as_applied_after_reading_back(openstack, rack):
    """The server wrote it, the proxy says 502: the row says applied, and how that is known."""
    host = rack.hosts[1]
    lost = iter([True])

    def interfere(method, path):
        if method == "PUT" and f"/{host}/" in path and next(lost, False):
            rack.client.set_provider_traits(host, ["HW_CPU_X86_AVX", "COMPUTE_NODE"], 3)
            return 502, "text/html", "<html></html>"
        return None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*ADD, *rack.select, "--yes", "-f", "json", endpoint=endpoint)
    row = {row["uuid"]: row for row in result.json}[host]
    assert (result.status, row["result"]) == (0, "applied")
    assert row["reason"] == "the answer was lost; it was read back"


def test_ctrl_c_prints_the_resume_command_which_finishes_the_run(openstack, rack):
    """Status 130, what is under way is finished, and the rest is done by the command that it names."""
    begun, go_on = threading.Event(), threading.Event()

    def interfere(method, path):
        if method == "PUT":
            begun.set()
            go_on.wait(30)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, *rack.select, "--yes", "--concurrency", "1", "-f", "json")
        process = openstack.start(*command, endpoint=endpoint, stderr=subprocess.PIPE)
        assert begun.wait(30)
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        go_on.set()
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        results = sorted(row["result"] for row in json.loads(out))
        assert results == ["applied", "skipped", "skipped", "skipped"]
        words = re.search(r"to resume it: openstack (resource provider batch run resume [^;]+);", err)[1]
        result = openstack.run(*words.split(), "--yes", "-f", "json", endpoint=endpoint)
    assert (result.status, len(result.json)) == (0, 3)
    assert all("COMPUTE_NODE" in rack.traits_of(host) for host in rack.hosts)


def test_full_disk_stops_a_run_which_can_be_resumed(openstack, rack):
    """The journal cannot grow while the first is written: that is told, the rest waits for a resume."""
    known = set(openstack.runs.glob("*.jsonl"))
    started, limits = threading.Event(), [20]

    def interfere(method, path):
        if method == "PUT" and limits and started.wait(30):
            (written,) = set(openstack.runs.glob("*.jsonl")) - known
            limit = written.stat().st_size + limits[0]
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, *rack.select, "--yes", "--concurrency", "1", "-f", "json")
        process = openstack.start(*command, endpoint=endpoint, stderr=subprocess.PIPE)
        started.set()
        out, err = process.communicate(timeout=30)
        results = sorted(row["result"] for row in json.loads(out))
        assert (process.returncode, results) == (3, ["applied", "skipped", "skipped", "skipped"])
        assert "stopped: The journal " in err
        assert err.count("cannot be read or written: File too large") == 1
        assert openstack.last_run()["state"] == "unfinished"
        limits.clear()
        words = re.search(r"to resume it: openstack (resource provider batch run resume [^;]+);", err)[1]
        assert openstack.run(*words.split(), "--yes", endpoint=endpoint).status == 0
    assert openstack.last_run()["state"] == "done"
    assert all("COMPUTE_NODE" in rack.traits_of(host) for host in rack.hosts)


def test_runs_of_other_clouds_are_listed_if_asked_for(openstack, rack):
    """They are those of the address in use by default; with all, no cloud is asked."""
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    run = openstack.last_run()["id"]
    with proxy_to(openstack.endpoint, lambda *_: None) as endpoint:
        there = openstack.run(*RUN, "list", "-f", "json", endpoint=endpoint)
        openstack.run(*RATIO, "VCPU=5", *rack.select, "--yes", endpoint=endpoint)
        listed = openstack.run(*RUN, "list", "-f", "json", endpoint=endpoint).json
    assert (there.status, there.json) == (0, [])
    assert [row["what"] for row in listed] == ["ratio set VCPU=5.0"]
    assert openstack.run(*RUN, "list", "--last", "1", "-f", "value", "-c", "id").out == f"{run}\n"
    nowhere = openstack.run(
        *RUN, "list", "--all-clouds", "--last", "2", "-f", "json", endpoint="http://no.test"
    )
    assert [row["id"] for row in nowhere.json] == [run, listed[0]["id"]]
    no_cloud = openstack.run_in_cloud(*RUN, "list", "--all-clouds", "-f", "value", "-c", "id", environment={})
    assert run in no_cloud.out.split()


def test_list_of_runs_fits_the_terminal_with_whole_ids(openstack, rack):
    """What is long loses its end, and no class its name."""
    openstack.run(*RATIO, "VCPU=4", "MEMORY_MB=1.25", *rack.select, "--yes")
    fields = ("VCPU:total=8", "VCPU:reserved=2", "MEMORY_MB:total=4096", "MEMORY_MB:reserved=512")
    openstack.run(*BATCH, "inventory", "set", *fields, *rack.select, "--yes")
    run = openstack.last_run()
    for options in ((), ("--all-clouds",)):
        shown, status = run_on_terminal(openstack, *RUN, "list", *options, columns=80)
        lines = shown.splitlines()
        assert (status, max(map(len, lines)) <= 80) == (0, True)
        assert lines[0].startswith("id ")
        (line,) = [line for line in lines if line.startswith(f"{run['id']}  ")]
        assert re.search(r"  set VCPU:total=8 \.\.\.(  |$)", line)
        assert ("cloud" in lines[0].split()) == bool(options)


def test_long_list_of_runs_has_a_line_for_each_fact(openstack, rack):
    """Its table has ten columns, which fit no terminal."""
    for ratio in (4, 5):
        openstack.run(*RATIO, f"VCPU={ratio}", *rack.select, "--yes")
    openstack.run(*RUN, "undo", "--last", "--yes")
    *_, undone, undo = openstack.run(*RUN, "list", "-f", "json").json
    for options in (("--full",), ("--full", "--all-clouds")):
        shown, status = run_on_terminal(openstack, *RUN, "list", *options, "--last", "3", columns=80)
        lines = shown.splitlines()
        assert (status, max(map(len, lines)) <= 80) == (0, True)
        facts = [dict(line.split(":", 1) for line in part.splitlines()) for part in shown.split("\n\n")]
        told = [{name: value.strip() for name, value in run.items()} for run in facts]
        assert [(run["run"], run["command"]) for run in told[1:]] == [
            (run["id"], run["what"]) for run in (undone, undo)
        ]
        assert told[1]["state"] == f"undone by run {undo['id']}"
        assert (told[1]["cloud"], told[1]["started"]) == (undone["server"], undone["started"])
        assert told[1]["changes"] == "4 of 4 applied"


@pytest.mark.parametrize(
    ("options", "columns", "what"),
    [
        ((), 80, "undo of {run}"),
        ((), 120, "undo of {run} (ratio set VCPU=4.0)"),
        (("--all-clouds",), 80, "undo of {run}"),
    ],
)
def test_list_of_runs_shows_on_a_terminal_what_an_undo_undoes(openstack, rack, options, columns, what):
    """The whole ID of the other run, and what that did if there is space for it; other formats have both."""
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    run = openstack.last_run()["id"]
    openstack.run(*RUN, "undo", run, "--yes")
    undo = openstack.last_run()
    shown, _ = run_on_terminal(openstack, *RUN, "list", "--last", "2", *options, columns=columns)
    lines = shown.splitlines()
    (line,) = (line for line in lines if line.startswith(f"{undo['id']}  "))
    assert what.format(run=run) in line
    assert max(map(len, lines)) <= columns
    assert undo["what"] == f"undo of {run} (ratio set VCPU=4.0)"


def test_resume_of_a_run_that_is_done_says_so_without_a_control_file(openstack, rack):
    """Nothing will read that file."""
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    shown, status = run_on_terminal(openstack, *RUN, "resume", "--last", columns=80)
    assert status == 0
    assert "Nothing to do: ratio set VCPU=4.0" in shown
    assert "control file" not in shown


def test_last_run_of_the_cloud_is_undone_and_resumed(openstack, rack):
    """Which it is, is said; the undone run is listed as such, and shown with the run that did it."""
    openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes")
    run = openstack.last_run()["id"]
    with proxy_to(openstack.endpoint, lambda *_: None) as endpoint:
        openstack.run(*ADD, *rack.select, "--yes", endpoint=endpoint)
    undone = openstack.run(*RUN, "undo", "--last", "--yes", "-f", "json")
    assert (undone.status, undone.err) == (0, f"Last run: {run}, ratio set VCPU=4.0\n")
    assert rack.ratios() == {16.0}
    *_, first, undo = openstack.run(*RUN, "list", "-f", "json").json
    assert (first["id"], first["state"], first["undone_by"]) == (run, "undone", undo["id"])
    assert (undo["state"], undo["undone_by"]) == ("done", "")
    assert first["started"] < undo["started"] or first["id"] < undo["id"]
    shown = openstack.run(*RUN, "show", run).out
    assert f"state:     undone by run {undo['id']}\n" in shown
    last = openstack.run(*RUN, "show", "--last")
    assert (last.status, last.err) == (0, "")
    assert last.out == openstack.run(*RUN, "show", undo["id"]).out
    rows = openstack.run(*RUN, "show", "--last", "-f", "json")
    assert rows.err == f"Last run: {undo['id']}, {undo['what']}\n"
    assert "undo" not in last.out.partition("state:")[2]
    redo = openstack.run(*RUN, "undo", "--last", "--dry-run", "-f", "json")
    assert redo.err.endswith(f"This run is itself an undo: undoing it makes the changes of run {run} again\n")
    resumed = openstack.run(*RUN, "resume", "--last", "--yes")
    assert resumed.status == 0
    assert resumed.err.startswith(f"Last run: {undo['id']}, undo of {run} ")


@pytest.mark.parametrize("verb", [("show",), ("resume", "--yes"), ("undo", "--yes")])
@pytest.mark.parametrize("given", [(), ("--last", "20260101T000000-abcdef")])
def test_a_run_is_given_by_its_id_or_as_the_last(openstack, verb, given):
    """Not in both ways, and not in none."""
    result = openstack.run(*RUN, *verb, *given)
    told = "argument <run>: not allowed with" if given else "one of the arguments <run> --last is required"
    assert (result.status, told in result.err) == (2, True)


def test_runs_are_deleted_by_id_or_age(openstack, rack):
    """The others are kept; one that does not exist is told."""
    runs = []
    for ratio in (4, 5):
        openstack.run(*RATIO, f"VCPU={ratio}", *rack.select, "--yes")
        runs.append(openstack.last_run()["id"])
    result = openstack.run(*RUN, "delete", runs[0])
    told = "Nothing was deleted: without a terminal to confirm on, give --yes\n"
    assert (result.status, result.out, result.err) == (1, "", told)
    result = openstack.run(*RUN, "delete", runs[0], "nothing", "--yes")
    assert (result.status, result.out) == (3, "")
    assert result.err.startswith("There is no run 'nothing' in ")
    assert "; to list the runs: openstack resource provider batch run list\n" in result.err
    assert result.err.endswith(f"Deleted run {runs[0]}; 4 changes can no longer be undone\n")
    assert openstack.run(*RUN, "delete", runs[0], "--yes").status == 1
    for days in ("1", "9" * 19):
        assert openstack.run(*RUN, "delete", "--older-than", days, "--yes").out == "0 runs deleted\n"
    assert openstack.last_run()["id"] == runs[1]
    shown, status = run_on_terminal(openstack, *RUN, "delete", runs[1], columns=120, answer="n\n")
    question = f"Delete run {runs[1]}, of which 4 changes can still be undone? [y/N]"
    assert (question in shown, "not confirmed" in shown, status) == (True, True, 1)
    assert openstack.last_run()["id"] == runs[1]
    result = openstack.run(*RUN, "delete", runs[1][:-1], "--yes")
    told = f"Deleted run {runs[1]}; 4 changes can no longer be undone\n"
    assert (result.status, result.out, result.err) == (0, "", told)
    assert not {row["id"] for row in openstack.run(*RUN, "list", "-f", "json").json}.intersection(runs)
    assert "one of the arguments <run> --last --older-than is required" in openstack.run(*RUN, "delete").err


def test_list_without_runs_for_this_cloud_mentions_those_of_others(openstack, rack):
    """The hint is on stderr, so that scripts read what they always read."""
    openstack.run(*RATIO, "VCPU=3", *rack.select, "--yes")
    number = len(openstack.run(*RUN, "list", "--all-clouds", "-f", "json").json)
    with proxy_to(openstack.endpoint, lambda _method, _path: None) as elsewhere:
        result = openstack.run(*RUN, "list", "-f", "json", endpoint=elsewhere)
    assert (result.status, result.json) == (0, [])
    runs = f"{number} run{'' if number == 1 else 's'}"
    assert result.err == f"There are no runs for {elsewhere}. --all-clouds lists {runs} of other clouds.\n"


@pytest.mark.parametrize("options", [(), ("--all-clouds",)])
def test_list_without_any_run_says_so_on_a_terminal(openstack, tmp_path, options):
    """Elsewhere it prints nothing but the rows, of which there are none."""
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    shown, status = run_on_terminal(openstack, *RUN, "list", *options, environment=environment)
    assert (shown.strip(), status) == ("There are no runs.", 0)
    result = openstack.run(*RUN, "list", *options, "-f", "json", environment=environment)
    assert (result.json, result.err) == ([], "")


def test_run_shows_what_it_is_about_and_its_failures_alone(openstack, rack):
    """A table begins with the facts; other formats have rows only."""
    host = rack.hosts[3]

    def interfere(method, path):
        return (500, "text/plain", "") if method == "PUT" and f"/{host}/" in path else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        openstack.run(*ADD, *rack.select, "--yes", endpoint=endpoint)
    run = openstack.last_run()
    lines = openstack.run(*RUN, "show", run["id"], "--failed-only").out.splitlines()
    facts = dict(line.split(":", 1) for line in lines if re.match(r"\w+: ", line))
    assert {name: value.strip() for name, value in facts.items()} == {
        "run": run["id"],
        "command": "trait add COMPUTE_NODE",
        "selection": f"in aggregate {rack.aggregate}",
        "cloud": endpoint,
        "started": run["started"],
        "ended": facts["ended"].strip(),
        "state": "unfinished",
        "changes": "3 of 4 applied, 1 failed",
    }
    assert len([line for line in lines if line.startswith("| ")]) == 2
    assert "| +COMPUTE_NODE |" in lines[-2]
    rows = openstack.run(*RUN, "show", run["id"], "--failed-only", "-f", "json").json
    assert [(row["uuid"], row["before"], row["after"]) for row in rows] == [(host, "", "COMPUTE_NODE")]


def test_run_without_failures_says_so_where_they_alone_are_wanted(openstack, rack):
    """The last line on a terminal; elsewhere it is on stderr, beside rows of which there are none."""
    openstack.run(*ADD, *rack.select, "--yes")
    command = (*RUN, "show", openstack.last_run()["id"], "--failed-only")
    told = "No change failed, was refused, or was done in part."
    shown, status = run_on_terminal(openstack, *command, columns=80)
    assert (shown.splitlines()[-1], status) == (told, 0)
    result = openstack.run(*command, "-f", "json")
    assert (result.status, result.json, result.err) == (0, [], f"{told}\n")


def test_run_shows_whole_ids_and_commands_on_a_narrow_terminal(openstack, rack):
    """They are wrapped; a pipe gets a line for each fact, even if standard error is a terminal."""
    fields = ("VCPU:total=8", "VCPU:allocation_ratio=4", "MEMORY_MB:total=4096", "MEMORY_MB:reserved=512")
    openstack.run(*BATCH, "inventory", "set", *fields, *rack.select, "--yes")
    run = openstack.last_run()
    undos = []
    for ratio in (9.0, 4.0):
        set_ratio(rack, rack.hosts[0], ratio)
        openstack.run(*RUN, "undo", run["id"], "--yes")
        undos.append(openstack.last_run()["id"])
    told = f"state:     undone by run {undos[0]} (3) and run {undos[1]} (1)"
    shown, _ = run_on_terminal(openstack, *RUN, "show", run["id"], columns=60)
    assert max(map(len, shown.splitlines())) <= 60
    facts = " ".join(shown.partition("+--")[0].split())
    assert f"command: {run['what']} selection: " in facts
    assert " ".join(told.split()) in facts
    master, theirs = pty.openpty()
    process = openstack.start(*RUN, "show", run["id"], stdout=subprocess.PIPE, stderr=theirs)
    lines = process.communicate(timeout=60)[0].splitlines()
    assert told in lines
    assert f"command:   {run['what']}" in lines
    os.close(master)
    os.close(theirs)


def test_changes_of_sets_are_signed_in_tables(openstack, rack):
    """What comes has a plus and what goes a minus; other formats have no signs."""
    command = (*BATCH, "trait", "set", "COMPUTE_NODE", *rack.select, "--force", "--dry-run")
    table = openstack.run(*command).out
    assert table.count("| -HW_CPU_X86_AVX | +COMPUTE_NODE |") == 4
    flat = openstack.run(*command, "-f", "value", "-c", "before", "-c", "after").out
    assert flat == "HW_CPU_X86_AVX COMPUTE_NODE\n" * 4
    shown, _ = run_on_terminal(openstack, *command[:-1], columns=80, answer="n\n")
    assert (shown.count("-HW_CPU_X86_AVX"), shown.count("+COMPUTE_NODE")) == (4, 4)


def test_many_changes_are_counted_on_a_terminal_and_all_shown_if_asked_for(openstack, rack):
    """Whatever is printed fits the terminal; a pipe gets all rows."""
    prefix = f"{rack.aggregate[:8]}-many"
    made = [rack.client.create_provider(f"{prefix}{number}")["uuid"] for number in range(30)]
    for host in made:
        rack.client.set_inventories(host, {"VCPU": {"total": 8}}, 0)
    command = (*RATIO, "VCPU=4", "--name", f"{prefix}*")
    line = "       30  VCPU:allocation_ratio from 1.0 to 4.0\n"
    try:
        dry, _ = run_on_terminal(openstack, *command, "--dry-run", "--sort-column", "name", columns=80)
        assert (line in dry, prefix in dry, "(--full shows each change)" in dry) == (True, False, True)
        whole, _ = run_on_terminal(openstack, *command, "--dry-run", "--full", columns=80)
        assert (whole.count(f"| {prefix}"), max(map(len, whole.splitlines()[1:])) <= 80) == (30, True)
        assert openstack.run(*command, "--dry-run").out.count(f" {prefix}") == 30
        shown, status = run_on_terminal(openstack, *command, columns=80, answer="y\n")
        assert (status, shown.count(line), prefix in shown) == (0, 1, False)
        assert "30 resource providers, 30 applied\nRun " in shown
        run = openstack.last_run()["id"]
        assert f"show:   openstack resource provider batch run show {run}\n" in shown
        told, _ = run_on_terminal(openstack, *RUN, "show", run, columns=80)
        assert (line in told, prefix + "1" in told) == (True, False)
        again, _ = run_on_terminal(openstack, *command, "--yes", columns=80)
        assert "       30  unchanged: has the ratio already\nNothing to do: ratio set VCPU=4.0: 0 " in again
        assert prefix not in again
        # an undo that is refused everywhere has no run, so that --full shows what it would have shown
        openstack.run(*RATIO, "VCPU=5", "--name", f"{prefix}*", "--yes")
        refused, status = run_on_terminal(openstack, *RUN, "undo", run, "--yes", columns=80)
        assert (status, refused.count(prefix), "(--full shows each change)" in refused) == (3, 1, True)
        refused, _ = run_on_terminal(openstack, *RUN, "undo", run, "--yes", "--full", columns=80)
        assert refused.count(f"| {prefix}") == 30
    finally:
        for host in made:
            rack.client.delete_provider(host)


@pytest.mark.parametrize("verb", ["show", "resume", "undo"])
def test_unknown_run_is_a_one_line_error(openstack, verb):
    """What was asked for, and where runs are kept."""
    extra = () if verb == "show" else ("--yes",)
    result = openstack.run(*RUN, verb, "nothing", *extra)
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("There is no run 'nothing' in ")
    command = "openstack resource provider batch run list"
    assert result.err.endswith(f"; to list the runs: {command}\n")
    assert (result.err.count("\n"), "placement-migrate" in result.err) == (1, False)
    shown, status = run_on_terminal(openstack, *RUN, verb, "nothing", columns=80)
    assert (status, shown.splitlines()[-1]) == (1, command)


def test_warnings_are_shown_before_the_rows_that_are_to_be_confirmed(openstack, rack):
    """As with --dry-run."""
    arguments = (*RATIO, "VCPU=4", *rack.select)
    shown, status = run_on_terminal(openstack, *arguments, columns=80, answer="n\n")
    name = rack.client.show_provider(rack.hosts[0])["name"]
    assert status == 1
    assert shown.index("Warning: ") < shown.index(name) < shown.index("[y/N]")


def test_plan_on_a_terminal_has_colours(openstack, rack):
    """Those of warnings and changes in a table and in lines; NO_COLOR takes them away and nothing else."""
    command = (*RATIO, "VCPU=8", "MEMORY_MB=1.75", *rack.select, "--dry-run")
    for options in ((), ("--full",)):
        coloured, _ = run_on_terminal(openstack, *command, *options, environment={"NO_COLOR": ""})
        plain, _ = run_on_terminal(openstack, *command, *options)
        assert re.sub(r"\x1b\[[\d;]+m", "", coloured) == plain
        assert "\x1b[33mWarning\x1b[0m: " in coloured
        assert re.search(r"\x1b\[33mVCPU:allocation_ratio from [\d.]+ to 8.0\x1b\[0m", coloured)


def test_control_file_is_told_in_lines_of_80_columns(openstack, rack):
    """The file has the ID of the run in its name; ~ is the home directory."""
    arguments = (*RATIO, "VCPU=4", *rack.select, "--throttle", "1", "--yes")
    shown, status = run_on_terminal(openstack, *arguments, columns=80)
    run = openstack.last_run()["id"]
    command = f"echo pause > ~/.local/state/osc-placement/runs/{run}.control"
    assert (status, len(command) <= 80) == (0, True)
    assert f"Run {run}; to control it (pause, go, stop, rate 5, rate none):\n{command}\n" in shown


def test_resume_keeps_the_pace_of_the_run_unless_another_is_given(openstack, rack, writable):
    """It is given for the sake of others, who are still there."""
    pace = ("--throttle", "2.5", "--concurrency", "2", "--max-failures", "3")
    result = openstack.run(*RATIO, "VCPU=4", *rack.select, *pace, "--yes")
    run = openstack.last_run()["id"]
    command = f"to resume it: openstack resource provider batch run resume {run}"
    assert f"{command}; " in f"{result.err.strip()}; "
    resumed = openstack.run(*RUN, "resume", run, "--yes")
    told = f"Resuming with {' '.join(pace)}, as the run was started\n"
    assert (resumed.err.startswith(told), resumed.status) == (True, 3)
    assert f"{command}; " in f"{resumed.err.strip()}; "
    faster = ("--throttle", "50", "--concurrency", "8")
    resumed = openstack.run(*RUN, "resume", run, *faster, "--yes")
    assert resumed.err.startswith("Resuming with --throttle 50 --concurrency 8 --max-failures 3\n")
    assert f"{command} --throttle 50 --concurrency 8; " in f"{resumed.err.strip()}; "
    unlimited = ("--throttle", "none", "--max-failures", "none")
    resumed = openstack.run(*RUN, "resume", run, *unlimited, "--yes")
    assert resumed.err.startswith("Resuming with --throttle none --concurrency 2 --max-failures none\n")
    assert f"{command} --throttle none --max-failures none; " in f"{resumed.err.strip()}; "
    writable.set()
    shown, status = run_on_terminal(openstack, *RUN, "resume", run, columns=100, answer="y\n")
    assert (status, 0 <= shown.index(told.strip()) < shown.index("[y/N]")) == (0, True)
