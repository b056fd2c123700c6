# SPDX-License-Identifier: Apache-2.0
"""`openstack resource provider batch`: the real command against a real server over HTTP."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
import uuid

import pytest
import yaml

from osc_placement.batch import execute, inventory, plan, select
from tests.functional.commands.proxy import DROP, proxy_to

BATCH = ("resource", "provider", "batch")
ADD = (*BATCH, "trait", "add")
RATIO = (*BATCH, "ratio", "set")
NOVA = "Warning: nova-compute overwrites this where nova.conf sets {}\n"


def rows_by_uuid(result):
    return {row["uuid"]: row for row in result.json}


# what the verbs do


def test_trait_add_keeps_existing_traits(openstack, rack):
    """Every host of the aggregate has the trait besides its own; the host outside has not."""
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--yes")
    assert (result.status, result.err) == (0, "")
    assert "\ntrait add COMPUTE_NODE: 4 resource providers, 4 applied\nRun " in result.out
    assert all(rack.traits_of(host) == {"HW_CPU_X86_AVX", "COMPUTE_NODE"} for host in rack.hosts)
    assert rack.traits_of(rack.outsider) == rack.traits


def test_trait_remove_keeps_the_other_traits(openstack, rack):
    """Only what is named goes."""
    openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--yes")
    result = openstack.run(*BATCH, "trait", "remove", "HW_CPU_X86_AVX", *rack.select, "--yes")
    assert (result.status, result.err) == (0, "")
    assert all(rack.traits_of(host) == {"COMPUTE_NODE"} for host in rack.hosts)


def test_trait_set_replaces_all_traits(openstack, rack):
    """What is not named goes."""
    command = (*BATCH, "trait", "set", "COMPUTE_NODE", "HW_CPU_X86_SSE", *rack.select, "--yes")
    result = openstack.run(*command, "--force")
    first = f"{rack.aggregate[:8]}-host0"
    lost = f"4 resource providers, such as {first}, lose traits that nova-compute reports: HW_CPU_X86_AVX (4)"
    assert (result.status, result.err) == (0, f"Warning: {lost}\n")
    assert all(rack.traits_of(host) == {"COMPUTE_NODE", "HW_CPU_X86_SSE"} for host in rack.hosts)


def test_ratio_set_changes_only_ratios(openstack, rack):
    """The other fields and classes of every inventory are as they were."""
    result = openstack.run(*RATIO, "VCPU=4.5", "MEMORY_MB=1.5", *rack.select, "--yes")
    assert (result.status, result.err) == (0, NOVA.format("cpu_allocation_ratio or ram_allocation_ratio"))
    for host in rack.hosts:
        assert rack.inventory_of(host) == rack.inventory_of(rack.outsider) | {"allocation_ratio": 4.5}
        memory = rack.inventory_of(rack.outsider, "MEMORY_MB")
        assert rack.inventory_of(host, "MEMORY_MB") == memory | {"allocation_ratio": 1.5}


def test_provider_without_the_class_is_unchanged_with_a_reason(openstack, rack):
    """A host that has only memory does not hinder the others."""
    odd = rack.hosts[2]
    rack.client.set_inventories(odd, {"MEMORY_MB": {"total": 1}}, 3)
    result = openstack.run(*RATIO, "VCPU=4.0", *rack.select, "--yes", "-f", "json")
    row = rows_by_uuid(result)[odd]
    assert (result.status, row["result"], row["reason"]) == (0, "unchanged", "no inventory of VCPU")
    assert [row["result"] for row in result.json].count("applied") == 3


def test_second_run_changes_nothing_and_reports_unchanged(openstack, rack):
    """Nothing is written, every provider is told as unchanged, and that is a success."""
    openstack.run(*RATIO, "VCPU=4.0", *rack.select, "--yes")
    before = rack.generations()
    result = openstack.run(*RATIO, "VCPU=4.0", *rack.select, "--yes")
    assert (result.status, result.err) == (0, "")
    assert "Nothing to do: ratio set VCPU=4.0: 0 resource providers to change, 4 unchanged" in result.out
    assert rack.generations() == before


# what is shown


def test_dry_run_shows_before_and_after_and_writes_nothing(openstack, rack):
    """A row for each provider that would change, with what differs; no generation moves."""
    before = rack.generations()
    result = openstack.run(*RATIO, "VCPU=4.0", *rack.select, "--dry-run")
    assert (result.status, result.err) == (0, NOVA.format("cpu_allocation_ratio"))
    assert result.out.count("| VCPU:allocation_ratio=16.0 | VCPU:allocation_ratio=4.0 |") == 4
    assert result.out.endswith("ratio set VCPU=4.0: 4 resource providers to change\n")
    assert rack.generations() == before


def test_dry_run_does_not_list_what_would_not_change(openstack, rack):
    """Unchanged providers are counted in the summary."""
    rack.client.set_provider_traits(rack.hosts[0], ["COMPUTE_NODE"], 3)
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--dry-run")
    assert rack.hosts[0] not in result.out
    assert "3 resource providers to change, 1 unchanged (has them already)\n" in result.out


def test_json_shows_complete_states_before_and_after(openstack, rack):
    """Machines get all traits and all fields, before and after."""
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--yes", "-f", "json")
    for row in result.json:
        assert set(row) == {"uuid", "name", "before", "after", "reason", "result", "error"}
        assert (row["before"], row["after"]) == (["HW_CPU_X86_AVX"], ["COMPUTE_NODE", "HW_CPU_X86_AVX"])
    ratios = openstack.run(*RATIO, "VCPU=2", *rack.select, "--dry-run", "-f", "json").json
    wanted = rack.inventory_of(rack.outsider) | {"allocation_ratio": 2.0}
    assert {row["uuid"]: row["after"]["VCPU"] for row in ratios} == dict.fromkeys(rack.hosts, wanted)


def test_yaml_value_and_csv_have_a_row_for_each_provider(openstack, rack):
    """Each format has a row for each provider; flat ones have what differs in one cell."""
    command = (*RATIO, "VCPU=4.0", "MEMORY_MB=2", *rack.select, "--dry-run")
    as_yaml = yaml.safe_load(openstack.run(*command, "-f", "yaml").out)
    as_csv = list(csv.DictReader(io.StringIO(openstack.run(*command, "-f", "csv").out)))
    as_value = openstack.run(*command, "-f", "value", "-c", "uuid", "-c", "after").out.splitlines()
    assert {row["uuid"] for row in as_yaml} == {row["uuid"] for row in as_csv} == set(rack.hosts)
    changed = "MEMORY_MB:allocation_ratio=2.0,VCPU:allocation_ratio=4.0"
    assert {row["after"] for row in as_csv} == {changed}
    assert set(as_value) == {f"{host} {changed}" for host in rack.hosts}


def test_rows_come_in_the_order_of_the_server(openstack, rack):
    """Whatever is done first, the rows are in the order in which the server lists the providers."""
    listed = openstack.run("resource", "provider", "list", "--member-of", rack.aggregate, "-f", "json").json
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--yes", "--concurrency", "4", "-f", "json")
    assert [row["uuid"] for row in result.json] == [provider["uuid"] for provider in listed]


def test_several_aggregates_select_members_of_any(openstack, rack):
    """The option may be repeated."""
    other = rack.client.list_provider_aggregates(rack.outsider)["aggregates"][0]
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--aggregate", other, "--yes", "-f", "json")
    assert {row["uuid"] for row in result.json} == {*rack.hosts, rack.outsider}


@pytest.mark.parametrize("command", [(*ADD, "COMPUTE_NODE"), (*RATIO, "VCPU=4.0")])
def test_help_ends_with_the_exit_statuses(openstack, command):
    """Every status that the command can end with is told."""
    text = openstack.run(*command[:5], "--help").out
    words = " ".join(text.split())
    assert "Exit status: 0 every provider is as asked" in words
    for status in (
        "1 nothing was changed",
        "2 the command line",
        "3 some providers failed",
        "130 interrupted",
    ):
        assert status in words


# what is refused


MISTAKES = {
    "not a number": ((*RATIO, "VCPU=abc"), 2, "Allocation ratio of VCPU must be a number, not 'abc'"),
    "negative": (
        (*RATIO, "VCPU=-1"),
        2,
        "Allocation ratio of VCPU must be greater than 0 and at most 3.40282e+38",
    ),
    "zero": ((*RATIO, "VCPU=0"), 2, "must be greater than 0"),
    "not finite": ((*RATIO, "VCPU=inf"), 2, "must be a number, not 'inf'"),
    "too large": ((*RATIO, "VCPU=1e39"), 2, "at most 3.40282e+38, not 1e39"),
    "no value": ((*RATIO, "VCPU"), 2, "must be of the form VCPU=4.0, not 'VCPU'"),
    "a host": ((*RATIO, "h1"), 2, "not 'h1'; resource providers are selected by options, such as --name"),
    "no number": ((*RATIO, "VCPU="), 2, "must be of the form VCPU=4.0, not 'VCPU='\n"),
    "no class": ((*RATIO, "=4"), 2, "must be of the form VCPU=4.0, not '=4'"),
    "lower case": (
        (*RATIO, "vcpu=4"),
        2,
        "not 'vcpu=4'; the names of resource classes are in capitals: VCPU=4",
    ),
    "twice": ((*RATIO, "VCPU=1", "VCPU=2"), 2, "Allocation ratio of VCPU is given twice"),
    "a class that none has": (
        (*RATIO, "PGPU=4"),
        1,
        "the resource classes they have: MEMORY_MB, VCPU; what is below them, as ",
    ),
    "a mistyped class": (
        (*RATIO, "VCPUS=4"),
        1,
        "No selected resource provider has inventory of VCPUS (is it VCPU?), so there is no ratio to set",
    ),
    "a mistyped field": (
        (*BATCH, "inventory", "set", "VCPU:reserverd=4"),
        2,
        "Unknown inventory field reserverd (is it reserved?); there are total, reserved, min_unit, ",
    ),
    "an unknown custom trait": (
        (*ADD, "CUSTOM_NOBODY_MADE_THIS"),
        1,
        "create it first with: openstack trait create CUSTOM_NOBODY_MADE_THIS",
    ),
    "an unknown standard trait": (
        (*BATCH, "trait", "add", "HW_NO"),
        1,
        "The server does not know the trait HW_NO; only traits that start with CUSTOM_ can be created",
    ),
    "a lower-case trait": ((*BATCH, "trait", "set", "hw_cpu"), 2, "unlike 'hw_cpu'"),
}


@pytest.mark.parametrize(("command", "status", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_invalid_argument_is_a_one_line_error_and_changes_nothing(openstack, rack, command, status, message):
    """The exit status, what is wrong on one line of stderr, no row, and no generation moves."""
    before = rack.generations()
    result = openstack.run(*command, *rack.select, "--yes")
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert rack.generations() == before


def test_an_aggregate_without_members_is_an_error(openstack):
    """Placement cannot tell an unknown aggregate from an empty one, so the operator is told to check."""
    nobody = str(uuid.uuid4())
    result = openstack.run(*ADD, "COMPUTE_NODE", "--aggregate", nobody, "--yes")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        f"No resource provider is in aggregate {nobody}; give --allow-empty if an empty aggregate is "
        "acceptable, or see the aggregates with: openstack resource provider capacity --by aggregate\n"
    )
    advised = result.err.strip().partition(": openstack ")[2].split()
    assert openstack.run(*advised).status == 0


def test_aggregate_name_without_a_compute_service_is_an_error(openstack):
    """A name is looked up in the compute service; where there is none, that is one line."""
    result = openstack.run(*ADD, "COMPUTE_NODE", "--aggregate", "rack1", "--yes")
    assert (result.status, result.out) == (1, "")
    assert re.fullmatch(
        "'rack1' is not a 'uuid', and the compute service, which could look it up as the name of a host "
        "aggregate, (answered|gave no answer) .*; see the aggregates with: openstack resource provider "
        "capacity --by aggregate\n",
        result.err,
    )


def test_without_a_terminal_a_change_needs_yes(openstack, rack):
    """A script that forgets --yes fails at once and every time, not only when there is something to do."""
    before = rack.generations()
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select)
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "Nothing was changed: without a terminal to confirm on, give --yes to change "
        "or --dry-run to see the plan\n"
    )
    assert rack.generations() == before


def test_invalid_value_is_no_change_with_detailed_exitcode(openstack, rack):
    """Scripts take 2 for a change, so that a wrong value ends with 1, as what cannot be done does."""
    result = openstack.run(*RATIO, "VCPU=abc", "--detailed-exitcode")
    assert (result.status, result.out) == (1, "")
    assert "must be a number, not 'abc'" in result.err


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_concurrency_below_one_is_refused(openstack, rack, number):
    """What argparse can judge ends with its exit status."""
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--yes", f"--concurrency={number}")
    assert (result.status, result.out) == (2, "")
    assert f"must be a number from 1 to 1000, not '{number}'" in result.err


@pytest.mark.parametrize(
    ("command", "version", "needed"),
    [((*ADD, "COMPUTE_NODE"), "1.5", "1.6"), ((*RATIO, "VCPU=4"), "1.2", "1.3")],
)
def test_too_low_version_error_names_the_minimum(openstack, rack, command, version, needed):
    """The error says which version is needed."""
    result = openstack.run(*command, *rack.select, "--yes", version=version)
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        f"Operation or argument is not supported with version {version}; requires at least version {needed}\n"
    )


@pytest.mark.parametrize(
    ("command", "version"), [((*ADD, "COMPUTE_NODE"), "1.6"), ((*RATIO, "VCPU=4"), "1.3")]
)
def test_batch_works_at_the_lowest_version(openstack, rack, command, version):
    """Old servers are served as well."""
    result = openstack.run(*command, *rack.select, "--yes", "-f", "json", version=version)
    assert result.status == 0
    assert [row["result"] for row in result.json] == ["applied"] * 4


def test_unreachable_server_is_a_one_line_error(openstack, rack):
    """No table of failures: nothing could be read."""
    result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--yes", endpoint="http://127.0.0.1:1")
    assert (result.status, result.out) == (1, "")
    assert "got no answer: Connection refused" in result.err
    assert result.err.count("\n") == 1


# what goes wrong on the way


def is_write_to(host):
    return lambda method, path: method == "PUT" and f"/{host}/" in path


def test_a_conflict_keeps_what_both_writers_wanted(openstack, rack):
    """Somebody adds a trait between our read and our write: both traits are there, and the row tells it."""
    host = rack.hosts[1]
    interferences = iter([["HW_CPU_X86_SSE", "HW_CPU_X86_AVX"]])

    def interfere(method, path):
        if is_write_to(host)(method, path):
            for traits in interferences:
                rack.client.set_provider_traits(host, traits, 3)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*ADD, "COMPUTE_NODE", *rack.select, "--yes", "-f", "json", endpoint=endpoint)
    assert (result.status, result.err) == (0, "")
    assert rack.traits_of(host) == {"COMPUTE_NODE", "HW_CPU_X86_SSE", "HW_CPU_X86_AVX"}
    row = rows_by_uuid(result)[host]
    assert (row["before"], row["result"]) == (["HW_CPU_X86_AVX", "HW_CPU_X86_SSE"], "applied")


def test_endless_conflicts_fail_only_that_provider(openstack, rack):
    """After a bounded number of attempts it is given up; the others are done."""
    host = rack.hosts[0]
    writes = []

    def interfere(method, path):
        if is_write_to(host)(method, path):
            writes.append(path)
            document = rack.client.list_inventories(host)
            changed = document["inventories"] | {"DISK_GB": {"total": len(writes)}}
            rack.client.set_inventories(host, changed, document["resource_provider_generation"])

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*RATIO, "VCPU=4.0", *rack.select, "--yes", "-f", "json", endpoint=endpoint)
    assert result.status == 3
    assert len(writes) == 10
    row = rows_by_uuid(result)[host]
    assert row["result"] == "failed"
    assert "(HTTP 409)" in row["error"]
    assert rack.ratios() == {16.0, 4.0}


HTML = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"

FAILURES = {
    "an error of the server": (
        (500, "application/json", json.dumps({"errors": [{"detail": "it broke", "request_id": "req-7"}]})),
        "failed: it broke; see request req-7",
    ),
    "a page of a proxy": (
        (502, "text/html", HTML),
        "failed: Bad Gateway, an HTML page (502 Bad Gateway)",
    ),
    "a lost connection": (DROP, "got no answer"),
    "an answer that is none": ((200, "application/json", "[]"), "not an answer of the placement API"),
}


@pytest.mark.parametrize(("answer", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_one_failure_is_a_row_and_exit_status_3(openstack, rack, answer, message):
    """The others are applied, stdout has all rows, stderr the summary; a second run does the rest."""
    host = rack.hosts[3]

    def interfere(method, path):
        return answer if is_write_to(host)(method, path) else None

    command = (*ADD, "COMPUTE_NODE", *rack.select, "--yes", "-f", "json")
    with proxy_to(openstack.endpoint, interfere) as endpoint:
        result = openstack.run(*command, endpoint=endpoint)
    assert result.status == 3
    summary, way_on, *nothing = result.err.splitlines()
    assert summary == "trait add COMPUTE_NODE: 4 resource providers, 3 applied, 1 failed"
    assert re.match(
        r"Run (\S+); to resume it: openstack resource provider batch run resume \1; to undo", way_on
    )
    assert not nothing
    rows = rows_by_uuid(result)
    assert message in rows[host]["error"]
    assert {rows[other]["result"] for other in rack.hosts[:3]} == {"applied"}
    assert [host for host in rack.hosts if "COMPUTE_NODE" not in rack.traits_of(host)] == [rack.hosts[3]]

    again = openstack.run(*command)
    assert again.status == 0
    assert sorted(row["result"] for row in again.json) == ["applied", "unchanged", "unchanged", "unchanged"]


def test_provider_that_cannot_be_read_is_a_failed_row(openstack, rack):
    """What is not known is not changed; the others are."""
    host = rack.hosts[0]

    def interfere(method, path):
        if path.startswith("/-/"):
            return (404, "text/html", "<h1>Not here</h1>")  # as a proxy that knows only placement's paths
        return (500, "text/plain", "") if f"/{host}/" in path else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        dry = openstack.run(*RATIO, "VCPU=4", *rack.select, "--dry-run", "-f", "json", endpoint=endpoint)
        result = openstack.run(*RATIO, "VCPU=4", *rack.select, "--yes", "-f", "json", endpoint=endpoint)
    assert (dry.status, result.status) == (3, 3)
    assert rows_by_uuid(dry)[host]["reason"].startswith("could not be read: GET ")
    row = rows_by_uuid(result)[host]
    assert (row["before"], row["result"]) == (None, "failed")
    assert [row["result"] for row in result.json].count("applied") == 3


def test_ctrl_c_finishes_started_writes_and_reports_the_rest_as_skipped(openstack, rack):
    """Status 130; what the rows call applied is applied, what they call skipped is as it was."""
    begun, go_on = threading.Event(), threading.Event()

    def interfere(method, path):
        if method == "PUT":
            begun.set()
            go_on.wait(30)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        process = openstack.start(
            *(*ADD, "COMPUTE_NODE", *rack.select, "--yes", "--concurrency", "1", "-f", "json"),
            endpoint=endpoint,
            stderr=subprocess.PIPE,
        )
        assert begun.wait(30)
        process.send_signal(signal.SIGINT)
        message = process.stderr.readline()
        go_on.set()
        out, _ = process.communicate(timeout=30)
    assert message == "Finishing what is under way; Ctrl-C again to leave at once.\n"
    assert process.returncode == 130
    results = {row["uuid"]: row["result"] for row in json.loads(out)}
    assert sorted(results.values()) == ["applied", "skipped", "skipped", "skipped"]
    for host, told in results.items():
        assert ("COMPUTE_NODE" in rack.traits_of(host)) == (told == "applied")


def test_second_ctrl_c_ends_the_command_at_once(openstack, rack):
    """A server that does not answer holds nobody up who has had enough."""
    begun, go_on = threading.Event(), threading.Event()

    def interfere(method, path):
        if method == "PUT":
            begun.set()
            go_on.wait(30)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, "COMPUTE_NODE", *rack.select, "--yes", "--concurrency", "1")
        process = openstack.start(*command, endpoint=endpoint, stderr=subprocess.PIPE)
        assert begun.wait(30)
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        go_on.set()
    assert (process.returncode, out, err) == (130, "", "")


def test_second_ctrl_c_names_the_run_on_a_terminal(openstack, rack):
    """Nothing else says what was done."""
    writes, go_on = [], threading.Event()

    def interfere(method, path):
        """Have a bar drawn after the first write, and the second last until both signals came."""
        if method == "PUT":
            writes.append(path)
            go_on.wait(1 if len(writes) == 1 else 30)

    master, theirs = pty.openpty()
    told = b""
    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, "COMPUTE_NODE", *rack.select, "--yes", "--concurrency", "1")
        process = openstack.start(*command, endpoint=endpoint, stderr=theirs)
        os.close(theirs)
        for awaited in (b"Changing", b"to leave at once"):
            while awaited not in told:
                told += os.read(master, 4096)
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        go_on.set()
    with contextlib.suppress(OSError):  # that is how a terminal ends
        while more := os.read(master, 4096):
            told += more
    os.close(master)
    assert process.returncode == 130
    see = f"To see what was done: openstack resource provider batch run show {openstack.last_run()['id']}"
    # the bar is erased before it
    assert told.decode().splitlines()[-1].endswith(see)


def test_ctrl_c_while_reading_changes_nothing(openstack, rack):
    """Status 130, and words that say so."""
    begun, go_on = threading.Event(), threading.Event()

    def interfere(method, path):
        if path == "/-/providers":
            begun.set()
            go_on.wait(30)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, "COMPUTE_NODE", *rack.select, "--yes")
        process = openstack.start(*command, endpoint=endpoint, stderr=subprocess.PIPE)
        assert begun.wait(30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        go_on.set()
    assert (process.returncode, out) == (130, "")
    assert "Interrupted; nothing was changed.\n" in err
    assert {frozenset(rack.traits_of(host)) for host in rack.hosts} == {frozenset(rack.traits)}


# without the shell


def test_batch_runs_from_python(rack):
    """Select, plan, look, execute: the same engine from Python, with a call for each outcome."""
    edit = inventory.RatioEdit({"VCPU": 4.0})
    providers = select.select_providers(rack.client, select.Selection(aggregates=(rack.aggregate,)))
    planned = plan.make_plan(edit, select.read_states(rack.client, providers, edit.facets))
    assert {change.uuid for change in planned.changes} == set(rack.hosts)
    assert rack.ratios() == {16.0}
    told = []
    report = execute.execute_plan(rack.client, planned, on_outcome=told.append)
    assert (report.exit_status, len(told)) == (0, 4)
    assert rack.ratios() == {4.0}


# on a terminal


class Terminal:
    """A command whose stdin and stderr are a terminal, and whose stdout is not."""

    def __init__(self, openstack, *command, endpoint=None):
        self.master, slave = pty.openpty()
        self.process = openstack.start(*command, endpoint=endpoint, stdin=slave, stderr=slave)
        os.close(slave)
        self.shown = ""

    def read_until(self, text):
        """Read what is shown until this text is."""
        while text not in self.shown:
            self.shown += os.read(self.master, 1000).decode()

    def answer(self, text):
        """Type a line; then read all there is. The standard output and the exit status."""
        os.write(self.master, f"{text}\n".encode())
        return self.finish()

    def finish(self):
        """Read all there is. The standard output and the exit status."""
        try:
            while chunk := os.read(self.master, 1000):
                self.shown += chunk.decode()
        except OSError:
            pass  # Linux says so when the last process has closed the terminal
        out, _ = self.process.communicate(timeout=30)
        os.close(self.master)
        return out, self.process.returncode


def test_terminal_shows_the_plan_and_asks(openstack, rack):
    """After a yes the change is made; stdout has the rows only."""
    terminal = Terminal(openstack, *RATIO, "VCPU=4.0", *rack.select, "-f", "json")
    terminal.read_until("Change 4 resource providers? [y/N] ")
    assert terminal.shown.count("VCPU:allocation_ratio from 16.0 to 4.0") == 4
    assert rack.ratios() == {16.0}
    out, status = terminal.answer("y")
    assert status == 0
    assert len(json.loads(out)) == 4
    assert rack.ratios() == {4.0}


@pytest.mark.parametrize("answer", ["n", "", "what?"])
def test_anything_but_yes_changes_nothing(openstack, rack, answer):
    """The default is no."""
    terminal = Terminal(openstack, *RATIO, "VCPU=4.0", *rack.select)
    terminal.read_until("[y/N] ")
    out, status = terminal.answer(answer)
    assert (out, status) == ("", 1)
    assert "Nothing was changed: not confirmed" in terminal.shown
    assert rack.ratios() == {16.0}


def test_empty_plan_asks_no_question(openstack, rack):
    """A question about no change would be a riddle."""
    terminal = Terminal(openstack, *RATIO, "VCPU=16", *rack.select)
    out, status = terminal.finish()
    assert status == 0
    assert "Nothing to do" in out
    assert "[y/N]" not in terminal.shown


def test_progress_bar_is_shown_on_the_terminal_of_a_long_run(openstack, rack):
    """It appears on the terminal only, and stdout stays readable by machines."""

    def interfere(method, path):
        if method == "PUT":
            time.sleep(0.4)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        command = (*ADD, "COMPUTE_NODE", *rack.select, "--yes", "--concurrency", "1", "-f", "json")
        terminal = Terminal(openstack, *command, endpoint=endpoint)
        out, status = terminal.finish()
    assert status == 0
    assert "Changing" in terminal.shown
    assert "3/4" in terminal.shown
    assert len(json.loads(out)) == 4
