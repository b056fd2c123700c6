# SPDX-License-Identifier: Apache-2.0
"""Batches that are asked for by mistake, and reports that nobody can print: the real command and server."""

import json
import subprocess

import pytest

from tests.functional.commands.pty_run import run_on_terminal
from tests.functional.commands.shell import PROGRAM

BATCH = ("resource", "provider", "batch")
RATIO = (*BATCH, "ratio", "set", "VCPU=4")
#: begins and ends what is said of a wrong command line
RATIO_SET = "openstack resource provider batch ratio set"
SEE = f"See: {RATIO_SET} --help"


@pytest.mark.parametrize(
    "option",
    [
        *("--aggregate", "--in-tree", "--required", "--forbidden", "--resource", "--name"),
        *("--providers-file", "--plan-out"),
    ],
)
def test_empty_option_value_is_refused(openstack, rack, option):
    """A variable of the shell that is not set neither widens a selection nor makes a plan a run."""
    result = openstack.run(*RATIO, *rack.select, option, "", "--yes")
    assert (result.status, result.out, rack.ratios()) == (2, "", {16.0})
    assert result.err == f"{RATIO_SET}: error: argument {option}: must not be empty\n{SEE}\n"


def test_unknown_column_is_refused_before_anything_is_written(openstack, rack):
    """Its result could not be shown."""
    result = openstack.run(*RATIO, *rack.select, "--yes", "-c", "name", "-c", "bogus")
    assert (result.status, result.out, rack.ratios()) == (2, "", {16.0})
    assert result.err.startswith("there is no column bogus; the columns are uuid, name, ")


@pytest.mark.parametrize("option", ["--in-tree", "--name", "--providers-file"])
def test_condition_that_takes_one_value_may_be_given_only_once(openstack, rack, option):
    """All conditions hold, so neither the first value nor the last one may be dropped."""
    result = openstack.run(*RATIO, *rack.select, option, "first", option, "second", "--yes")
    assert (result.status, result.out, rack.ratios()) == (2, "", {16.0})
    assert f"error: argument {option}: may be given only once\n" in result.err


@pytest.mark.parametrize("number", ["-1", "1.5", "x", ""])
@pytest.mark.parametrize("option", ["--canary", "--max-failures"])
def test_invalid_count_names_the_valid_values(openstack, option, number):
    """-1 is a number, but not one of these."""
    result = openstack.run(*RATIO, "--all", "--dry-run", f"{option}={number}")
    assert result.status == 2
    error = f"argument {option}: must be a whole number, 0 or more, not {number!r}"
    assert result.err == f"{RATIO_SET}: error: {error}\n{SEE}\n"


ONLY_CUSTOM = "only those named CUSTOM_... can be created, see: openstack resource class list"


@pytest.mark.parametrize(
    ("verb", "name", "remedy"),
    [
        (
            ("set",),
            "CUSTOM_NOBODYS",
            "; create it first with: openstack resource class create CUSTOM_NOBODYS",
        ),
        (("set",), "DISK", f" (is it DISK_GB?); {ONLY_CUSTOM}"),
        (("delete",), "NO_CLASS", f"; {ONLY_CUSTOM}"),
    ],
    ids=("custom class", "slip", "deletion"),
)
def test_unknown_resource_class_is_refused_before_planning(openstack, rack, verb, name, remedy):
    """One line, rather than a failure for each provider, or success where nothing was done."""
    what = f"{name}=5" if verb == ("set",) else name
    for how in ("--dry-run", "--yes"):
        result = openstack.run(*BATCH, "inventory", *verb, what, *rack.select, how)
        assert (result.status, result.out) == (1, "")
        assert result.err == f"The server does not know the resource class {name}{remedy}\n"


def test_existing_but_unused_resource_class_may_be_set_and_deleted(openstack, rack):
    """The server knows it, which is enough."""
    command = (*BATCH, "inventory", "set", "PGPU=2", *rack.select, "--yes")
    assert openstack.run(*command).status == 0
    assert {rack.inventory_of(host, "PGPU")["total"] for host in rack.hosts} == {2}
    command = (*BATCH, "inventory", "delete", "PGPU", *rack.select, "--yes")
    assert [openstack.run(*command).status for _ in range(2)] == [0, 0]


def test_plan_file_that_exists_is_kept(openstack, rack):
    """It may be a plan that somebody has reviewed, or no plan at all."""
    path = openstack.home / "kept.json"
    path.write_text("kept")
    result = openstack.run(*RATIO, *rack.select, "--plan-out", path)
    told = f"The file {path} exists; remove it, or give another one\n"
    assert (result.status, result.err, path.read_text()) == (2, told, "kept")


@pytest.mark.parametrize("option", ["--canary=1", "--throttle=5", "--max-failures=1"])
def test_plan_out_refuses_options_of_execution(openstack, rack, option):
    """Who wants a canary has to say so when the plan is carried out."""
    path = openstack.home / "forgets.json"
    result = openstack.run(*RATIO, *rack.select, "--plan-out", path, option)
    name = option.partition("=")[0]
    assert (result.status, path.exists()) == (2, False)
    words = "cannot be used with --plan-out, which changes nothing; give the option to:"
    assert result.err == f"{name} {words} openstack resource provider batch apply\n"


@pytest.mark.parametrize("what", [("trait", "add", "COMPUTE_NODE"), ("aggregate", "add", "rack")])
def test_allow_overcommit_is_refused_where_it_has_no_effect(openstack, what):
    """An option that would be ignored is none."""
    result = openstack.run(*BATCH, *what, "--all", "--dry-run", "--force")
    assert result.status == 2
    assert "unrecognized arguments: --force" in result.err


def edit_ratio(document):
    document["steps"][0]["after"]["inventories"]["VCPU"]["allocation_ratio"] = 5.0


def edit_steps(document):
    document["steps"].append(document["steps"][0])


def edit_server(document):
    document["server"] = "http://elsewhere"


@pytest.mark.parametrize("edit", [edit_ratio, edit_steps, edit_server])
def test_edited_plan_is_refused(openstack, rack, edit):
    """It is refused whole; laid out otherwise, it is the same plan."""
    path = openstack.home / "edited.json"
    path.unlink(missing_ok=True)
    openstack.run(*RATIO, *rack.select, "--plan-out", path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document, indent=4, sort_keys=True))
    assert openstack.run(*BATCH, "apply", path, "--dry-run").status == 0
    edit(document)
    path.write_text(json.dumps(document))
    result = openstack.run(*BATCH, "apply", path, "--yes")
    assert (result.status, result.out, rack.ratios()) == (1, "", {16.0})
    told = (
        "it was edited since --plan-out wrote it; plan again, with --providers-file if only some of its "
        "resource providers are meant"
    )
    assert result.err == f"The plan {path} cannot be used: {told}\n"


def test_plan_fits_a_terminal_of_60_columns(openstack, rack):
    """At 60 columns no line of the table is longer."""
    shown, status = run_on_terminal(openstack, *RATIO, *rack.select, columns=60, answer="n\n")
    table = [line for line in shown.splitlines() if line.startswith(("+", "|"))]
    assert (status, len(table)) == (1, 8)
    assert max(map(len, table)) <= 60
    assert "reason" not in table[1]


def test_chosen_columns_break_no_name_on_a_terminal(openstack, rack):
    """Where they do not fit, each cell has a line; they come in the order of the table."""
    plan = openstack.run(*RATIO, *rack.select, "--dry-run", "-f", "json").json
    options = ("-c", "name", "-c", "uuid", "-c", "before", "-c", "after")
    shown, status = run_on_terminal(openstack, *RATIO, *rack.select, "--dry-run", *options, columns=80)
    lines = [line for line in shown.splitlines() if line.startswith(("uuid: ", "name: "))]
    told = [line for row in plan for line in (f"uuid:   {row['uuid']}", f"name:   {row['name']}")]
    assert (status, lines) == (0, told)


def test_full_stdout_leaves_the_result_on_stderr(openstack, rack):
    """Standard output is a full disk: what was done is on standard error, and the status is not 1."""
    with open("/dev/full", "w") as full:
        process = openstack.start(*RATIO, *rack.select, "--yes", stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, rack.ratios()) == (3, {4.0})
    _warning, summary, how, reason, *more = err.splitlines()
    assert summary == "ratio set VCPU=4.0: 4 resource providers, 4 applied"
    assert "; to undo it: openstack resource provider batch run undo " in how
    assert (reason, more) == ("The rows cannot be written: No space left on device", [])


def test_closed_stdout_does_not_make_a_batch_fail(openstack, rack):
    """As in `openstack ... >&-`."""
    command = ["sh", "-c", 'exec "$@" >&-', "sh", PROGRAM, *openstack.options(None), *RATIO, *rack.select]
    settings = {"env": openstack.environment, "cwd": openstack.home}
    result = subprocess.run([*command, "--yes"], capture_output=True, text=True, check=False, **settings)
    assert (result.returncode, rack.ratios()) == (0, {4.0})
    assert "NoneType" not in result.stderr


def test_names_that_the_encoding_of_stdout_lacks_are_escaped(openstack, rack):
    """A terminal that is not UTF-8 does not make a batch fail after its changes."""
    rack.client.update_provider(rack.hosts[0], "host-\u540d")
    environment = {"PYTHONIOENCODING": "latin-1:strict"}
    command = (*RATIO, *rack.select, "--yes", "-f", "value", "-c", "name", "-c", "result")
    result = openstack.run_process(*command, environment=environment)
    assert (result.status, rack.ratios()) == (0, {4.0})
    assert "host-\\u540d applied" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--required", "HW_NUMA_ROT"),
            "The server does not know the trait HW_NUMA_ROT (is it HW_NUMA_ROOT?)",
        ),
        (
            ("--forbidden", "NO_SUCH"),
            "The server does not know the trait NO_SUCH; see: openstack trait list",
        ),
        (("--resource", "VCPV=1"), "The server does not know the resource class VCPV (is it VCPU?)"),
    ],
)
def test_unknown_name_in_a_selection_is_told_with_similar_names(openstack, rack, options, message):
    """One line, and nothing is changed."""
    result = openstack.run(*RATIO, *options, "--yes")
    assert (result.status, result.out, result.err.count("\n"), rack.ratios()) == (1, "", 1, {16.0})
    assert result.err.startswith(message)


@pytest.mark.parametrize(
    ("verb", "remedy"),
    [("add", "create it first with: openstack trait create"), ("remove", "see: openstack")],
)
def test_a_trait_that_is_not_known_need_not_be_created_to_be_removed(openstack, rack, verb, remedy):
    """It is an error to remove it nevertheless, as the name is mistyped."""
    result = openstack.run("resource", "provider", "batch", "trait", verb, "CUSTOM_NO", *rack.select, "--yes")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"The server does not know the trait CUSTOM_NO; {remedy}")
