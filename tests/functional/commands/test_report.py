# SPDX-License-Identifier: Apache-2.0
"""Looking at a cloud: the real commands against a real server over HTTP."""

import http.server
import json
import re
import subprocess
import threading
import uuid

import pytest

from tests.functional.commands.compute import compute_with
from tests.functional.commands.pty_run import WholeTerminal, run_on_terminal
from tests.functional.commands.shell import OpenStack

TREE = ("resource", "provider", "tree")
CAPACITY = ("resource", "provider", "capacity")
TOP = ("resource", "usage", "top")
HOSTILE = '<script>alert("x")</script>'
PROJECT, USER = "project-a", "user-a"


@pytest.fixture(scope="module")
def endpoint(server_apart):
    """A server that has nothing but this cloud: commands here look at everything there is."""
    return server_apart.url


def make(client, name, parent=None, traits=(), aggregates=(), **stocks):
    made = client.create_provider(name, parent=parent)["uuid"]
    inventories = {key: {"total": total} for key, total in stocks.items()}
    generation = client.set_inventories(made, inventories, 0)["resource_provider_generation"]
    generation = client.set_provider_traits(made, traits, generation)["resource_provider_generation"]
    client.set_provider_aggregates(made, aggregates, generation)
    return made


def claim(client, amounts, project=PROJECT, kind="INSTANCE"):
    consumer = str(uuid.uuid4())
    client.set_allocations(
        consumer,
        {
            "allocations": {provider: {"resources": resources} for provider, resources in amounts.items()},
            "project_id": project,
            "user_id": USER,
            "consumer_generation": None,
            "consumer_type": kind,
        },
    )
    return consumer


@pytest.fixture(scope="module")
def cloud(client):
    """Two hosts with shared storage, one with NUMA nodes, and one with a name that means harm."""
    rack = str(uuid.uuid4())
    made = {
        "a": make(client, "host-a", aggregates=[rack], VCPU=8, MEMORY_MB=1000),
        "b": make(client, "host-b", aggregates=[rack], VCPU=8, MEMORY_MB=100),
        "n": make(client, "host-n", DISK_GB=10),
        "s": make(client, "storage", traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[rack], DISK_GB=5),
        "evil": make(client, HOSTILE, VCPU=1),
        "rack": rack,
    }
    made["n0"] = make(client, "host-n-numa0", made["n"], VCPU=3, MEMORY_MB=1000)
    made["n1"] = make(client, "host-n-numa1", made["n"], VCPU=4, MEMORY_MB=1000)
    made["large"] = claim(client, {made["a"]: {"VCPU": 6, "MEMORY_MB": 10}}, project="project-b")
    made["small"] = claim(client, {made["n0"]: {"VCPU": 1}, made["n"]: {"DISK_GB": 1}})
    return made


# tree


def test_tree_is_found_by_the_name_of_any_of_its_providers(openstack, cloud):
    """The whole tree, with how much of each class is used, and no colours where there is no terminal."""
    result = openstack.run(*TREE, "host-n-numa1", "--brief")
    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines() == [
        "host-n",
        "│  DISK_GB █░░░░░░░░░  10 %  1 of 10",
        "├─ host-n-numa0",
        "│     MEMORY_MB ░░░░░░░░░░   0 %  0 of 1000",
        "│     VCPU      ███░░░░░░░  33 %  1 of 3",
        "└─ host-n-numa1",
        "      MEMORY_MB ░░░░░░░░░░   0 %  0 of 1000",
        "      VCPU      ░░░░░░░░░░   0 %  0 of 4",
    ]


def test_all_trees_are_shown_without_a_name(openstack, cloud):
    """Every provider, with its UUID, traits and aggregates."""
    out = openstack.run(*TREE).out
    for key in ("a", "b", "n", "n0", "n1", "s", "evil", "rack"):
        assert cloud[key] in out
    assert "traits: MISC_SHARES_VIA_AGGREGATE" in out


def test_every_format_shows_the_same_tree(openstack, cloud):
    """JSON and YAML nest; graphviz and mermaid draw an arrow to each child."""
    (root,) = openstack.run(*TREE, "host-n", "-f", "json").json
    assert [child["uuid"] for child in root["children"]] == [cloud["n0"], cloud["n1"]]
    assert root["inventories"]["DISK_GB"]["free"] == 9
    assert "- name: host-n" in openstack.run(*TREE, "host-n", "-f", "yaml").out
    assert openstack.run(*TREE, "host-n", "-f", "dot").out.count("->") == 2
    assert openstack.run(*TREE, "host-n", "--format", "mermaid").out.startswith("flowchart LR\n")


def test_tree_on_a_terminal_has_colours_and_fits_60_columns(openstack, cloud):
    """At 60 columns no line is longer; NO_COLOR takes the colours away and nothing else."""
    coloured, status = run_on_terminal(openstack, *TREE, "host-n", environment={"NO_COLOR": ""})
    plain, _ = run_on_terminal(openstack, *TREE, "host-n")
    assert status == 0
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert max(map(len, plain.splitlines())) <= 60


def test_terminal_gets_as_many_whole_trees_as_it_has_lines(openstack, cloud):
    """The last line says how many are left out, and how to see them; a tree that is named is shown whole."""
    lines = WholeTerminal(openstack, *TREE, "--brief", columns=80, rows=12).finish()[0].splitlines()
    full = openstack.run(*TREE, "--brief").out.splitlines()
    assert len(lines) <= 11
    assert lines[-1] == "... and 2 more trees (name one to see it, or see all with | less)"
    assert lines[:-1] == full[: len(lines) - 1]
    named = openstack.run(*TREE, "host-n", "--brief").out
    assert WholeTerminal(openstack, *TREE, "host-n", "--brief", columns=80, rows=5).finish()[0] == named


def test_tree_is_drawn_in_ascii_without_unicode(openstack, cloud):
    """An encoding that lacks the blocks is no reason to fail."""
    result = openstack.run_process(*TREE, "host-n", "--brief", environment={"PYTHONIOENCODING": "ascii"})
    assert result.status == 0
    assert "|- host-n-numa0" in result.out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((*TREE, "nobody"), 1, "No resource provider named 'nobody' was found"),
        (
            (*TREE, "--html", "/no/such/directory/page.html"),
            1,
            "cannot be written: No such file or directory",
        ),
        ((*CAPACITY, "--fit", "VCPU"), 2, "must be of the form VCPU=4,MEMORY_MB=8192, not 'VCPU'"),
        ((*CAPACITY, "--fit", "VCPU=1,"), 2, "not ''"),
        ((*CAPACITY, "--fit", "VCPU=0"), 2, "Amount of VCPU must be at least 1"),
        ((*CAPACITY, "--fit", "VCPU=x"), 2, "Amount of VCPU must be a whole number"),
        ((*CAPACITY, "--fit", "VCPU=1,VCPU=2"), 2, "VCPU is given twice"),
        ((*CAPACITY, "--fit", ""), 2, "must be of the form"),
        ((*CAPACITY, "--fit", "VCPUS=1"), 1, "the resource class VCPUS (is it VCPU?); see: "),
        ((*TOP, "--resource-class", "VCPUS"), 1, "the resource class VCPUS (is it VCPU?); see: "),
        ((*CAPACITY, "--fit", "PGPU=1"), 1, "No resource provider has PGPU; there is "),
        ((*CAPACITY, "--fit", "VCPU=1", "--by", "class"), 2, "--by cannot be used with --fit"),
        ((*TOP, "--limit", "-1"), 2, "--limit must be at least 0"),
        ((*TREE, str(uuid.UUID(int=1))), 1, "No resource provider named "),
        ((*CAPACITY, "nobody"), 1, "No resource provider named 'nobody' was found"),
        ((*CAPACITY, str(uuid.UUID(int=1))), 1, "HTTP 404"),
        ((*CAPACITY, "--name", "x*"), 1, "No resource provider is named like x*; give --allow-empty if"),
        ((*CAPACITY, "host-a", "--name", "host-b"), 1, "No resource provider meets all conditions; "),
        ((*CAPACITY, "--aggregate", "nowhere"), 1, "'nowhere' is not a 'uuid'"),
        (
            (*CAPACITY, "--required", "COMPUTE_NODES"),
            1,
            "the trait COMPUTE_NODES (is it COMPUTE_NODE?); see: ",
        ),
        ((*CAPACITY, "--resource", "VCPUS=1"), 1, "the resource class VCPUS (is it VCPU?); see: "),
        ((*CAPACITY, "--providers-file", "/no/such"), 1, "The file /no/such cannot be read"),
        ((*TOP, "--in-tree", "nobody"), 1, "No resource provider named 'nobody' was found"),
        ((*CAPACITY, "--total", "--by", "class"), 2, "--total cannot be used with --by class"),
        ((*TOP, "--resource-class", "PGPU"), 1, "No resource provider has PGPU"),
    ],
)
def test_invalid_input_is_a_one_line_error(openstack, cloud, arguments, status, message):
    """What is wrong is said; the exit status is 2 if no cloud could make the command line right."""
    result = openstack.run(*arguments)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_provider_can_be_named_in_versions_without_trees(openstack, cloud):
    """Those before 1.14, which do not tell what the root is."""
    line = (*CAPACITY, "host-n-numa1", "-f", "value", "-c", "provider", "-c", "capacity")
    result = openstack.run(*line, version="1.13")
    assert (result.status, result.out) == (0, "host-n-numa1 1000\nhost-n-numa1 4\n")


def test_too_old_version_error_names_the_minimum(openstack, cloud):
    """Trees came with 1.14."""
    result = openstack.run(*TREE, version="1.13")
    assert result.status == 1
    assert "requires at least version 1.14" in result.err


def test_a_closed_pipe_ends_the_command_quietly(openstack, cloud):
    """As with `| head`: no traceback."""
    with openstack.start(*TREE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


# capacity


def report(openstack, *arguments, environment=()):
    """The rows of a report."""
    return openstack.run(*arguments, "-f", "json", environment=environment)


def rows(result, *columns):
    assert (result.status, result.err) == (0, "")
    return [tuple(row[column] for column in columns) for row in result.json]


def test_capacity_sums_by_provider_root_aggregate_and_class(openstack, cloud):
    """Each sums up the same inventories."""
    by_provider = rows(report(openstack, *CAPACITY), "provider", "resource_class", "capacity", "used", "free")
    assert ("host-a", "VCPU", 8, 6, 2) in by_provider
    by_root = rows(report(openstack, *CAPACITY, "--by", "root"), "root", "resource_class", "capacity", "used")
    assert ("host-n", "VCPU", 7, 1) in by_root
    by_aggregate = rows(
        report(openstack, *CAPACITY, "--by", "aggregate"), "aggregate", "resource_class", "capacity"
    )
    assert (cloud["rack"], "VCPU", 16) in by_aggregate
    assert ("-", "VCPU", 8) in by_aggregate
    by_class = rows(report(openstack, *CAPACITY, "--by", "class"), "resource_class", "used", "percent")
    assert ("VCPU", 7, 29.2) in by_class


def test_aggregates_have_the_names_of_their_host_aggregates(endpoint, tmp_path, cloud, fork_server):
    """Where the compute API can be asked, by one request; where it cannot, the UUID stands for the name."""
    with compute_with({"fast": cloud["rack"]}) as (compute, asked):
        openstack = OpenStack(endpoint, tmp_path, fork_server)
        openstack.options = lambda _endpoint: []
        environment = clouds_of(tmp_path, endpoint, compute)
        by_aggregate = (openstack, *CAPACITY, "--by", "aggregate")
        named = rows(report(*by_aggregate, environment=environment), "aggregate", "uuid", "resource_class")
        assert [path for path, _, _ in asked] == ["/v2.1/os-aggregates"]
    assert ("fast", cloud["rack"], "VCPU") in named
    assert ("-", "-", "VCPU") in named
    unnamed = rows(report(*by_aggregate, environment=environment), "aggregate", "uuid", "resource_class")
    assert unnamed == [(uuid, uuid, resource_class) for _, uuid, resource_class in named]


SELECTIONS = {
    ("host-a",): {"host-a"},
    ("host-n",): {"host-n", "host-n-numa0", "host-n-numa1"},
    ("host-n-numa1", "{n0}", "host-a"): {"host-a", "host-n-numa0", "host-n-numa1"},
    ("--name", "host-?"): {"host-a", "host-b", "host-n"},
    ("--name", "host-n-*", "--resource", "VCPU=3"): {"host-n-numa1"},
    ("--aggregate", "{rack}"): {"host-a", "host-b", "storage"},
    ("--aggregate", "{rack}", "--required", "MISC_SHARES_VIA_AGGREGATE"): {"storage"},
    ("--in-tree", "host-n-numa0", "--name", "host-n"): {"host-n"},
    ("host-n", "--name", "*numa*"): {"host-n-numa0", "host-n-numa1"},
    ("--all", "--forbidden", "MISC_SHARES_VIA_AGGREGATE", "--name", "s*"): set(),
}


@pytest.mark.parametrize("selection", SELECTIONS, ids=" ".join)
def test_capacity_of_selected_providers(openstack, cloud, selection):
    """A name or UUID stands for a provider and those below it; all conditions hold, as for a batch."""
    arguments = [word.format(**cloud) for word in selection]
    shown = report(openstack, *CAPACITY, *arguments, "--allow-empty")
    assert {provider for (provider,) in rows(shown, "provider")} == SELECTIONS[selection]


def test_capacity_of_a_nested_aggregate_has_what_is_below_its_members(openstack, cloud, client):
    """As the sums by aggregate have it; by tree, a part of a tree has the name of its root."""
    generation = client.show_provider(cloud["n"])["generation"]
    other = str(uuid.uuid4())
    client.set_provider_aggregates(cloud["n"], [other], generation)
    by_root = report(openstack, *CAPACITY, "--by", "root", "--aggregate", other)
    assert rows(by_root, "root", "resource_class", "capacity") == [
        ("host-n", "VCPU", 7),
        ("host-n", "DISK_GB", 10),
        ("host-n", "MEMORY_MB", 2000),
    ]
    of_part = report(openstack, *CAPACITY, "--by", "aggregate", "host-n-numa0")
    assert rows(of_part, "aggregate", "capacity") == [(other, 3), (other, 1000)]
    client.set_provider_aggregates(cloud["n"], [], generation + 1)


def test_fit_on_selected_hosts_counts_what_is_shared_with_them(openstack, cloud):
    """The sharing provider is not selected, and the total is that of the selected hosts."""
    fit = (*CAPACITY, "--fit", "VCPU=2,DISK_GB=2")
    assert rows(report(openstack, *fit, "host-b"), "host", "fits") == [("host-b", 2), ("(all)", 2)]
    nested = report(openstack, *fit, "host-n-numa1", "host-b")
    assert rows(nested, "host", "fits") == [("host-b", 2), ("host-n", 3), ("(all)", 5)]


def test_largest_consumers_of_selected_providers(openstack, cloud):
    """Only what they have of these providers counts, as a share of the capacity of these."""
    shown = report(openstack, *TOP, "host-n-numa0")
    assert rows(shown, "consumer", "resources", "percent") == [(cloud["small"], "VCPU=1", 33.33)]
    shown = report(openstack, *TOP, "--aggregate", cloud["rack"], "--by", "project")
    assert rows(shown, "project", "resources", "percent") == [("project-b", "MEMORY_MB=10,VCPU=6", 37.5)]


# totals and columns


@pytest.mark.parametrize("by", ["provider", "root"])
def test_totals_of_the_classes_end_a_table(openstack, cloud, by):
    """Whatever the order is; in other formats only if they are asked for."""
    options = (*CAPACITY, "--by", by, "--sort-column", "used", "--sort-descending")
    columns = (by, "resource_class", "used", "capacity")
    plain = rows(report(openstack, *options), *columns)
    *others, cpu, disk, memory = rows(report(openstack, *options, "--total"), *columns)
    assert others == plain
    assert (disk, memory) == (("(all)", "DISK_GB", 1, 15), ("(all)", "MEMORY_MB", 10, 3100))
    assert cpu == ("(all)", "VCPU", 7, 24)
    table = openstack.run(*options).out.splitlines()
    assert [line.split()[1] for line in table[-5:-1]].count("(all)") == 3
    assert openstack.run(*options, "-f", "csv").out.count("(all)") == 0


@pytest.mark.parametrize("arguments", [("--by", "class"), ("--by", "aggregate"), ("--by", "root", "host-n")])
def test_table_has_no_totals_of_sums_that_overlap_or_of_one_thing(openstack, cloud, arguments):
    """Nor of the classes, which are totals."""
    assert "(all)" not in openstack.run(*CAPACITY, *arguments).out


def test_total_of_a_fit_stays_last_when_rows_are_sorted(openstack, cloud):
    """In each format, as it always was among the rows."""
    shown = report(openstack, *CAPACITY, "--fit", "VCPU=1", "--sort-column", "fits", "--sort-descending")
    assert rows(shown, "host")[-1] == ("(all)",)


REPORTS = [
    *((*CAPACITY, "--by", by) for by in ("provider", "root", "aggregate", "class")),
    TOP,
    (*TOP, "--by", "project"),
]


@pytest.mark.parametrize("arguments", REPORTS, ids=" ".join)
def test_rows_fit_a_terminal_of_80_columns_and_are_one_line_each(openstack, cloud, arguments):
    """UUIDs can be copied; a line says which columns are left out that have anything."""
    shown, status = run_on_terminal(openstack, *arguments, columns=80)
    assert status == 0
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    found = report(openstack, *arguments).json
    number, totals = len(found), shown.count("(all)")
    assert sum(line.startswith("| ") for line in lines) == 1 + number + totals
    full = openstack.run(*arguments).out.splitlines()
    heads, all_heads = ({*text.strip("| ").split(" | ")} for text in (lines[1], full[1]))
    left_out = {head.strip() for head in all_heads} - {head.strip() for head in heads}
    # what is empty, or repeats the name, says nothing
    left_out = {
        head
        for head in left_out
        if any(row[head] not in ("", None, next(iter(row.values()))) for row in found)
    }
    if left_out:
        (told,) = re.findall(r"Columns not shown: (.*) \(--full shows (?:it|them)\)$", shown.strip())
        assert set(told.split(", ")) == left_out


def test_projects_are_named_on_the_narrowest_terminal(openstack, cloud):
    """A row that does not say what it is about is of no use."""
    shown, _ = run_on_terminal(openstack, *TOP, "--by", "project", columns=30)
    assert "Columns not shown: resources (--full shows it)" in " ".join(shown.split())
    assert shown.startswith("project: ")


def test_table_has_no_more_lines_than_the_terminal(openstack, cloud):
    """The first rows in the order asked for stay on the screen; --full and a pipe have all rows."""
    command = (*CAPACITY, "--sort-column", "percent", "--sort-descending")
    number = len(report(openstack, *command).json)
    terminal = WholeTerminal(openstack, *command, columns=120, rows=10)
    shown, status = terminal.finish()
    lines = shown.splitlines()
    assert (status, len(lines) <= 9) == (0, True)
    first = openstack.run(*command).out.splitlines()[3].split("|")[1].strip()
    assert first in lines[3]
    # beside the heading and the totals
    rest = number - sum(line.startswith("| ") for line in lines) + 1 + shown.count("(all)")
    assert f"... and {rest} more rows (--full shows them)" in shown
    shown, _ = WholeTerminal(openstack, *command, "--full", columns=120, rows=10).finish()
    assert sum(line.startswith("| ") for line in shown.splitlines()) == number + 1 + shown.count("(all)")


def test_long_shows_all_columns_on_any_terminal(openstack, cloud):
    """As does the choice of columns."""
    narrow, _ = run_on_terminal(openstack, *TOP, columns=80)
    assert "user" not in narrow.splitlines()[1]
    for options in (("--full",), ("-c", "user", "-c", "consumer", "-c", "project", "-c", "resources")):
        shown, status = run_on_terminal(openstack, *TOP, *options, columns=80)
        assert (status, "Columns not shown" in shown) == (0, False)
        for row in openstack.run(*TOP, "-f", "json").json:
            parts = (row["consumer"], row["user"], *row["resources"].split(","))
            assert all(part in shown for part in parts)


def test_top_tells_a_terminal_of_the_others(openstack, cloud):
    """A pipe has the rows only."""
    total = len(openstack.run(*TOP, "--limit", "0", "-f", "json").json)
    shown, _ = run_on_terminal(openstack, *TOP, "--limit", "1", columns=80)
    assert f"... and {total - 1} more consumer{'s' if total > 2 else ''} (--limit 0 shows them)" in shown
    assert "more consumer" not in openstack.run(*TOP, "--limit", "1").out
    shown, _ = run_on_terminal(openstack, *TOP, "--limit", "0", columns=80)
    assert "more consumer" not in shown


@pytest.mark.parametrize("form", ["csv", "value", "yaml", "table"])
def test_every_formatter_shows_capacity(openstack, cloud, form):
    """Rows in each form, and nothing on standard error."""
    result = openstack.run(*CAPACITY, "-f", form)
    assert (result.status, result.err) == (0, "")
    assert "host-n-numa1" in result.out


def test_fit_equals_the_number_of_claims_the_server_grants(openstack, cloud, client):
    """So many claims succeed one after the other, and for the next there is no candidate."""
    fits = dict(rows(report(openstack, *CAPACITY, "--fit", "VCPU=2,DISK_GB=2"), "host", "fits"))
    assert fits == {"host-a": 1, "host-b": 2, "host-n": 3, HOSTILE: 0, "(all)": 5}
    claimed = []
    try:
        while True:
            document = client.allocation_candidates([("resources", "VCPU:2,DISK_GB:2")])
            if not document["allocation_requests"]:
                break
            wanted = document["allocation_requests"][0]["allocations"]
            claimed.append(claim(client, {key: item["resources"] for key, item in wanted.items()}))
        assert len(claimed) == fits["(all)"]
    finally:
        for consumer in claimed:
            client.delete_allocations(consumer)


def test_fit_shows_why_a_host_has_no_room(openstack, cloud):
    """What is short, and by how much."""
    found = dict(rows(report(openstack, *CAPACITY, "--fit", "VCPU=1,MEMORY_MB=500"), "host", "limited_by"))
    assert found["host-b"] == "MEMORY_MB: 500 asked, 100 free, 400 short"
    assert found[HOSTILE] == "no MEMORY_MB"


# flavors


class Compute(http.server.BaseHTTPRequestHandler):
    """As much of the compute API as a flavor needs, and of the catalog that leads to it."""

    def do_GET(self):
        self.answer({"flavors": [self.server.flavor]})

    def answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def compute():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Compute) as server:
        server.flavor = {
            "id": "1",
            "name": "m1.medium",
            "vcpus": 4,
            "ram": 500,
            "disk": 2,
            "OS-FLV-EXT-DATA:ephemeral": 0,
            "swap": "",
            "extra_specs": {"resources:VCPU": "2"},
        }
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def clouds_of(directory, placement, compute):
    """The environment of a cloud with these endpoints."""
    file = directory / "clouds.yaml"
    cloud = {
        "auth_type": "admin_token",
        "auth": {"endpoint": placement, "token": "admin"},
        "placement_endpoint_override": placement,
        "compute_endpoint_override": compute,
    }
    file.write_text(json.dumps({"clouds": {"test": cloud}}))
    return {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "test"}


def test_fit_uses_the_extra_specs_of_a_flavor(endpoint, tmp_path, cloud, compute, fork_server):
    """Two VCPU by its extra spec instead of four."""
    openstack = OpenStack(endpoint, tmp_path, fork_server)
    openstack.options = lambda _endpoint: []
    url = f"http://127.0.0.1:{compute.server_port}"
    environment = clouds_of(tmp_path, endpoint, url)
    result = openstack.run(*CAPACITY, "--flavor", "m1.medium", "-f", "json", environment=environment)
    assert dict(rows(result, "host", "fits"))["host-n"] == 3
    for name, guess in (("m9", ""), ("m1.medum", " (is it m1.medium?)")):
        unknown = openstack.run(*CAPACITY, "--flavor", name, environment=environment)
        assert unknown.status == 1
        assert f"Flavor '{name}' cannot be read: there is none of that name or ID{guess};" in unknown.err


def test_a_cloud_without_nova_has_no_flavors(openstack, cloud):
    """It takes one line to say so, as it does for contradicting options."""
    result = openstack.run(*CAPACITY, "--flavor", "m1.medium")
    assert (result.status, result.err.count("\n")) == (1, 1)
    assert "the compute service answered Not Found (is there one in this cloud?); give" in result.err
    result = openstack.run(*CAPACITY, "--flavor", "m1.medium", "--fit", "VCPU=1")
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "--fit cannot be used with --flavor, which has its own amounts" in result.err


@pytest.mark.parametrize("command", [CAPACITY, ("allocation", "candidate", "explain")])
def test_without_the_compute_api_a_flavor_is_refused_in_one_line(openstack, cloud, command):
    """It says that the compute API did not answer, and what to do instead."""
    result = openstack.run(*command, "--flavor", "m1.medium")
    assert (result.status, result.err.count("\n")) == (1, 1)
    assert "the compute service answered Not Found (is there one in this cloud?); give" in result.err
    assert result.err.endswith("; give the amounts in place of the flavor\n")


# usage top


def test_consumers_are_sorted_by_their_largest_share(openstack, cloud):
    """By their largest share of any class, or of the one that is asked for."""
    found = rows(report(openstack, *TOP), "consumer", "project", "resources", "of_class", "percent")
    assert found == [
        (cloud["large"], "project-b", "MEMORY_MB=10,VCPU=6", "VCPU", 25.0),
        (cloud["small"], "project-a", "DISK_GB=1,VCPU=1", "DISK_GB", 6.67),
    ]
    only = rows(report(openstack, *TOP, "--resource-class", "DISK_GB"), "consumer")
    assert only == [(cloud["small"],)]
    first = rows(report(openstack, *TOP, "--by", "project", "--limit", "1"), "project", "consumers")
    assert first == [("project-b", 1)]


# explain


EXPLAIN = ("allocation", "candidate", "explain")
QUERIES = (
    ("--resource", "VCPU=2"),
    ("--resource", "VCPU=2", "--resource", "DISK_GB=2"),
    ("--resource", "VCPU=4", "--resource", "MEMORY_MB=500"),
    ("--resource", "DISK_GB=3"),
    ("--resource", "VCPU=1", "--resource", "DISK_GB=1", "--required", "MISC_SHARES_VIA_AGGREGATE"),
    ("--resource", "VCPU=1", "--forbidden", "MISC_SHARES_VIA_AGGREGATE"),
    ("--resource", "VCPU=1", "--resource", "DISK_GB=1", "--member-of", "{rack}"),
    ("--resource", "VCPU=1", "--not-member-of", "{rack}"),
    ("--resource", "VCPU=1", "--in-tree", "host-n-numa0"),
    ("--resource", "VCPU=9999"),
    ("--group", "1", "--resource", "VCPU=4"),
    ("--group", "1", "--resource", "VCPU=1", "--member-of", "{rack}"),
)


@pytest.mark.parametrize("query", QUERIES, ids=" ".join)
def test_explain_leaves_the_candidates_of_the_server(openstack, cloud, query):
    """For a request of one group nothing is left for the server to rule out."""
    shown = report(openstack, *EXPLAIN, *(word.format(**cloud) for word in query))
    *steps, (_, last, removed, _) = rows(shown, "group", "constraint", "removed", "left")
    assert steps[0] == ("", "all trees", 0, 5)
    assert (last, removed) == ("whole request, answer of the server", 0)


def test_explain_shows_groups_that_only_the_server_rules_out(openstack, cloud):
    """Either group has its provider, but isolated they need two."""
    groups = ("--group", "1", "--resource", "VCPU=1", "--group", "2", "--resource", "VCPU=1")
    shown = report(openstack, *EXPLAIN, *groups, "--group-policy", "isolate")
    assert rows(shown, "removed", "left")[-1] == (3, 1)


@pytest.mark.parametrize("host", [(), ("--host", "packed")])
def test_explain_does_not_know_what_the_server_does_not(openstack, client, cloud, host):
    """Amounts that cannot be packed into the devices take the server more steps than it may do."""
    packed = make(client, "packed")
    devices = [make(client, f"packed-{number}", packed, PGPU=100) for number in range(12)]
    try:
        # all but one are multiples of three, so that a device of a hundred has one unit left over
        groups = [
            word
            for number, amount in enumerate([*[27, 33, 39] * 12, 4])
            for word in ("--group", f"_{number}", "--resource", f"PGPU={amount}")
        ]
        result = openstack.run(*EXPLAIN, *groups, "--group-policy", "none", *host, "-f", "json")
    finally:
        for uuid_ in (*devices, packed):
            client.delete_provider(uuid_)
    assert result.status == 0
    assert "whether there is a candidate is not known" in result.err
    last = result.json[-1]
    if host:
        assert last["met"] == "unknown"
    else:
        assert (last["removed"], last["left"]) == ("", "")


@pytest.mark.parametrize(("amount", "is_vain"), [("1", False), ("99999", True)])
def test_explain_says_on_a_terminal_how_to_go_on_where_no_candidate_is_left(
    openstack, cloud, amount, is_vain
):
    """The constraint alone has no amounts. Without groups there is no column for them."""
    shown, status = run_on_terminal(openstack, *EXPLAIN, "--resource", f"VCPU={amount}", columns=80)
    assert (status, "No candidate is left; --host HOST shows by how much" in shown) == (0, is_vain)
    assert shown.splitlines()[1].split()[1] == "constraint"


def test_explain_of_one_host_shows_what_it_lacks(openstack, cloud):
    """What it lacks and by how much, and what the server says."""
    shown = report(openstack, *EXPLAIN, "--resource", "VCPU=4", "--host", "host-n-numa0")
    assert rows(shown, "constraint", "met", "detail")[-3:] == [
        ("VCPU=4: free", "yes", "4 free on host-n-numa1"),
        ("not from sharing providers alone", "yes", ""),
        ("whole request, answer of the server", "yes", ""),
    ]
    shown = report(openstack, *EXPLAIN, "--resource", "VCPU=5", "--host", cloud["n"].upper())
    assert rows(shown, "constraint", "met", "detail")[-3:] == [
        ("VCPU=5: free", "no", "VCPU: 5 asked, 4 free, 1 short on host-n-numa1, the closest of 2"),
        ("not from sharing providers alone", "yes", ""),
        ("whole request, answer of the server", "no", ""),
    ]


@pytest.mark.parametrize("option", ["--member-of", "--not-member-of"])
@pytest.mark.parametrize("host", [(), ("--host", "host-n")])
def test_explain_warns_of_an_aggregate_without_members(openstack, cloud, option, host):
    """Placement cannot tell a mistyped UUID from an empty aggregate, so the explanation is given too.

    On a terminal it is broken between words, and the command has a line of its own.
    """
    empty = str(uuid.UUID(int=9))
    line = (*EXPLAIN, "--resource", "VCPU=1", option, f"{empty},{cloud['rack']}", *host)
    result = openstack.run(*line)
    assert (result.status, result.err.count("\n")) == (0, 1)
    assert result.err == (
        f"No resource provider is in aggregate {empty}; see the aggregates with: openstack "
        "resource provider capacity --by aggregate\n"
    )
    assert "aggregate" in result.out
    shown, _ = run_on_terminal(openstack, *line, columns=80)
    assert shown.replace("\r", "").startswith(
        f"No resource provider is in aggregate {empty}; see\n"
        "the aggregates with:\nopenstack resource provider capacity --by aggregate\n"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "At least one --resource must be specified"),
        (("--resource", "VCPU=1", "--host", "nobody"), 1, "No resource provider named 'nobody'"),
        (("--resource", "VCPU=1", "--host", str(uuid.UUID(int=1))), 1, "HTTP 404"),
        (("--resource", "VCPU"), 2, "must be of form"),
        (("--resource", "VCPU=1", "--required", "HW_NUMA_ROT"), 1, "HW_NUMA_ROT (is it HW_NUMA_ROOT?)"),
        (("--resource", "VCPU=1", "--forbidden", "NO_SUCH"), 1, "not know the trait NO_SUCH; see"),
        (("--resource", "VCPU=1", "--root-required", "NO_SUCH"), 1, "not know the trait NO_SUCH; see"),
        (("--resource", "VCPU=1", "--required", "NO_SUCH", "--host", "host-n"), 1, "the trait NO_SUCH; see"),
        (("--resource", "VCPU=1", "--resource", "MEMORY=1"), 1, "not know the resource class MEMORY"),
    ],
)
def test_explain_refuses_invalid_queries(openstack, cloud, arguments, status, message):
    """One clear line."""
    result = openstack.run(*EXPLAIN, *arguments)
    assert (result.status, result.err.count("\n")) == (status, 1)
    assert message in result.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ((*EXPLAIN, "--resource", "VCPU=1", "--host", ""), "argument --host: must not be empty"),
        ((*EXPLAIN, "--resource", "VCPU=1", "--limit", "1"), "unrecognized arguments: --limit 1"),
        ((*CAPACITY, "--flavor", ""), "argument --flavor: must not be empty"),
        (("resource", "provider", "export", "--name", ""), "argument --name: must not be empty"),
        (("resource", "provider", "export", "--aggregate", ""), "argument --aggregate: must not be empty"),
    ],
)
def test_options_without_effect_are_refused(openstack, line, message):
    """What would be passed over is an error of the command line."""
    result = openstack.run(*line)
    assert (result.status, result.out) == (2, "")
    assert f"{message}\n" in result.err


# pages


PAGES = {
    "tree": TREE,
    "tree of one": (*TREE, "host-n", "--brief"),
    "tree with a format": (*TREE, "-f", "json"),
    **{f"by {by}": (*CAPACITY, "--by", by) for by in ("provider", "root", "aggregate", "class")},
    "csv": (*CAPACITY, "-f", "csv", "--sort-column", "used"),
    "columns": (*CAPACITY, "-f", "value", "-c", "provider", "-c", "used"),
    "json": (*CAPACITY, "--by", "aggregate", "-f", "json"),
    "fit": (*CAPACITY, "--fit", "VCPU=1"),
    "fit nothing": (*CAPACITY, "--fit", "VCPU=1000", "-f", "yaml"),
}


@pytest.mark.parametrize("arguments", PAGES.values(), ids=PAGES)
def test_page_is_written_whole_and_escapes_names(openstack, cloud, tmp_path, arguments):
    """A file with its rows and its origin; a hostile name is text in it; a pipe gets nothing more."""
    file = tmp_path / "page.html"
    result = openstack.run(*arguments, "--html", file)
    assert (result.status, result.err) == (0, "")
    page = file.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    assert HOSTILE not in page
    assert f"<dd>{openstack.endpoint}</dd>" in page
    assert "<code>openstack resource provider " in page


def test_a_page_of_aggregates_has_their_names(endpoint, tmp_path, cloud, fork_server):
    """Where the compute API can be asked; the page says of which cloud it is, and has no secrets."""
    with compute_with({"fast": cloud["rack"]}) as (compute, _):
        openstack = OpenStack(endpoint, tmp_path, fork_server)
        openstack.options = lambda _endpoint: ["--os-token", "admin"]
        environment = clouds_of(tmp_path, endpoint, compute)
        arguments = (*CAPACITY, "--by", "aggregate", "--html", "page of aggregates.html")
        assert openstack.run(*arguments, environment=environment).status == 0
    page = (tmp_path / "page of aggregates.html").read_text()
    assert '"fast"' in page
    assert f"<dd>test ({endpoint})</dd>" in page
    command = "openstack resource provider capacity --by aggregate --html &#x27;page of aggregates.html&#x27;"
    assert f"<code>{command}</code>" in page


@pytest.mark.parametrize("arguments", [TREE, CAPACITY], ids=["tree", "capacity"])
def test_a_terminal_is_told_what_was_written(openstack, cloud, tmp_path, arguments):
    """One line, with the name of the file as it was given, what is in it, and its size."""
    shown, status = run_on_terminal(openstack, *arguments, "--html", "page.html", columns=120)
    assert status == 0
    (line,) = re.findall(r"(?m)^Wrote .*$", shown)
    pattern = r"Wrote page\.html: 7 resource providers in 5 trees, 3 resource classes, \d+ kB"
    assert re.fullmatch(pattern, line)


def test_a_page_needs_a_name(openstack, cloud):
    """An empty one, as of a variable that is not set, is an error of the command line."""
    result = openstack.run(*TREE, "--html", "")
    assert (result.status, result.out) == (2, "")
    assert "argument --html: must not be empty" in result.err
