# SPDX-License-Identifier: Apache-2.0
"""Candidates by group, and claims: what is chosen, what is allocated, and what many at once get."""

import json
import re
import subprocess
import uuid
from types import SimpleNamespace

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional import servers
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import run_on_terminal

CANDIDATE = ("allocation", "candidate")
OWNER = ("--project-id", "p", "--user-id", "u")
JSON = ("-f", "json")


#: has no member
AGGREGATE = "aaaaaaaa-0000-4000-8000-00000000ffff"
EXPLAIN = (*CANDIDATE, "explain")


def new_uuid():
    return str(uuid.uuid4())


class Cloud:
    """Hosts of 4 VCPU each, which only requests with the trait of this cloud can meet."""

    def __init__(self, client, hosts=3):
        self.client = client
        self.name = f"cloud-{uuid.uuid4().hex[:8]}"
        self.trait = f"CUSTOM_{self.name.replace('-', '_').upper()}"
        client.create_trait(self.trait)
        self.hosts = {f"{self.name}-{number}": new_uuid() for number in range(hosts)}
        for name, provider in self.hosts.items():
            client.create_provider(name, uuid=provider)
            client.set_inventories(provider, {"VCPU": {"total": 4}}, 0)
            client.set_provider_traits(provider, [self.trait], 1)
        self.select = ("--required", self.trait)

    def use(self, number, amount):
        """Allocate VCPU of a host to somebody."""
        provider = list(self.hosts.values())[number]
        owner = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "OTHER"}
        allocations = {provider: {"resources": {"VCPU": amount}}}
        self.client.set_allocations(new_uuid(), {"allocations": allocations, **owner})

    def used(self):
        """How many VCPU of each host are allocated."""
        return [self.client.provider_usages(provider)["VCPU"] for provider in self.hosts.values()]


@pytest.fixture
def cloud(client):
    """Three empty hosts."""
    return Cloud(client)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A server with one host and nothing else, with the words for it in options."""
    with servers.running(tmp_path_factory.mktemp("alone")) as server:
        client = PlacementClient(Session(auth=Token(server.url, "admin")))
        words = {"trait": "CUSTOM_OF_THE_HOST", "aggregate": new_uuid(), "other": "empty"}
        client.create_trait(words["trait"])
        host = client.create_provider("host")["uuid"]
        client.set_inventories(host, {"VCPU": {"total": 4}}, 0)
        client.set_provider_traits(host, [words["trait"]], 1)
        client.set_provider_aggregates(host, [words["aggregate"]], 2)
        client.create_provider("empty")
        yield SimpleNamespace(url=server.url, words=words)


def claim(openstack, cloud, *options, **settings):
    """Claim one VCPU for a new consumer; its UUID and the result."""
    consumer = new_uuid()
    command = (*CANDIDATE, "claim", consumer, *OWNER, "--resource", "VCPU=1", *cloud.select)
    return consumer, openstack.run(*command, *options, *JSON, **settings)


# candidates by group


def test_candidates_show_each_group_with_its_provider(openstack, client, cloud):
    """Each group, the provider it got, what it takes from it, and how full that is."""
    host, provider = next(iter(cloud.hosts.items()))
    numa = new_uuid()
    client.create_provider(f"{host}-numa", uuid=numa, parent=provider)
    client.set_inventories(numa, {"VCPU": {"total": 2}, "VGPU": {"total": 1}}, 0)
    line = ("--resource", "VCPU=3", *cloud.select, "--group", "_GPU", "--resource", "VGPU=1")
    listed = openstack.run(*CANDIDATE, "list", *line, "--by-group", *JSON)
    assert listed.err == ""
    assert listed.json == [
        {
            "#": 1,
            "group": "",
            "resource provider": host,
            "uuid": provider,
            "allocation": "VCPU=3",
            "inventory used/capacity": "VCPU=0/4",
        },
        {
            "#": 1,
            "group": "_GPU",
            "resource provider": f"{host}-numa",
            "uuid": numa,
            "allocation": "VGPU=1",
            "inventory used/capacity": "VGPU=0/1",
        },
    ]


def test_every_query_parameter_selects_its_host(openstack, client, cloud):
    """in_tree, forbidden aggregates, traits of the root, and groups below one provider."""
    (host, provider), (other, second), _ = cloud.hosts.items()
    aggregate = new_uuid()
    client.set_provider_aggregates(second, [aggregate], 2)
    client.set_provider_traits(second, [cloud.trait, "COMPUTE_NODE"], 3)

    def found(*options):
        line = ("--resource", "VCPU=1", *cloud.select, *options, "--by-group")
        return {row["resource provider"] for row in openstack.run(*CANDIDATE, "list", *line, *JSON).json}

    assert found() == set(cloud.hosts)
    assert found("--in-tree", host) == {host}
    assert found("--not-member-of", aggregate) == set(cloud.hosts) - {other}
    assert found("--root-required", "COMPUTE_NODE") == {other}
    assert found("--root-forbidden", "COMPUTE_NODE") == set(cloud.hosts) - {other}
    numa = new_uuid()
    client.create_provider(f"{host}-numa", uuid=numa, parent=provider)
    client.set_inventories(numa, {"VGPU": {"total": 1}}, 0)
    client.set_provider_traits(numa, ["HW_NUMA_ROOT"], 1)
    groups = ("--group", "_N", "--required", "HW_NUMA_ROOT", "--group", "_G", "--resource", "VGPU=1")
    assert found("--in-tree", host, *groups, "--same-subtree", "_N,_G") == {host, f"{host}-numa"}


# claims


def test_claim_allocates_the_resources_and_shows_the_providers(openstack, client, cloud):
    """With the consumer's project, user and type."""
    consumer, result = claim(openstack, cloud, "--consumer-type", "INSTANCE")
    (row,) = result.json
    assert (row["candidate"], row["group"], row["allocation"]) == ("claimed", "", "VCPU=1")
    assert row["inventory used/capacity"] == "VCPU=1/4"
    document = client.list_allocations(consumer)
    assert document["allocations"].keys() == {cloud.hosts[row["resource provider"]]} == {row["uuid"]}
    assert (document["project_id"], document["user_id"]) == ("p", "u")
    assert document["consumer_type"] == "INSTANCE"


@pytest.mark.parametrize(("how", "number"), [("most-free", 2), ("least-free", 1)])
def test_strategies_choose_the_fullest_or_the_emptiest_host(openstack, cloud, how, number):
    """By what would be left of it."""
    for host, amount in ((0, 2), (1, 3), (2, 1)):
        cloud.use(host, amount)
    before = cloud.used()
    _, result = claim(openstack, cloud, "--choose", how, "--alternates", "5")
    titles = [row["candidate"] for row in result.json]
    assert titles == ["claimed", "alternate 1", "alternate 2"]
    order = [list(cloud.hosts).index(row["resource provider"]) for row in result.json]
    assert order == ([2, 0, 1] if how == "most-free" else [1, 0, 2])
    assert [after - used for after, used in zip(cloud.used(), before, strict=True)] == [
        int(host == number) for host in range(3)
    ]


def test_random_strategy_chooses_more_than_one_host(openstack, cloud):
    """Over some claims more than one host is, which with `first` is not so."""
    for _ in range(10):
        assert claim(openstack, cloud, "--choose", "random")[1].status == 0
    assert sum(map(bool, cloud.used())) > 1


def test_a_dry_run_claims_nothing(openstack, client, cloud):
    """It shows the same rows."""
    consumer, result = claim(openstack, cloud, "--dry-run", "--alternates", "1")
    assert [row["candidate"] for row in result.json] == ["would be claimed", "alternate 1"]
    assert {row["inventory used/capacity"] for row in result.json} == {"VCPU=0/4"}
    assert client.list_allocations(consumer)["allocations"] == {}
    assert cloud.used() == [0, 0, 0]


def test_claim_without_free_capacity_fails_with_status_1(openstack, cloud):
    """Status 1 and one line."""
    for host in range(3):
        cloud.use(host, 4)
    _, result = claim(openstack, cloud)
    assert (result.status, result.out) == (1, "")
    told, _, remedy = result.err.partition("; ")
    assert told == (
        f"No candidate: there is capacity for this request, but --required {cloud.trait} leaves none of it"
    )
    assert remedy.startswith("to see what each condition rules out: openstack allocation candidate explain")
    assert openstack.run(*EXPLAIN, "--resource", "VCPU=1", *cloud.select).status == 0


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("--resource", "VCPU=1", "--resource", "MEMORY_MB=1"), "--resource MEMORY_MB=1"),
        (("--resource", "VCPU=5"), "--resource VCPU=5"),
        (("--required", "HW_NUMA_ROOT", "--required", "HW_CPU_X86_AVX"), "--required HW_NUMA_ROOT"),
        (("--required", "HW_NUMA_ROOT,HW_CPU_X86_AVX"), "--required HW_NUMA_ROOT,HW_CPU_X86_AVX"),
        (("--forbidden", "{trait}"), "--forbidden {trait}"),
        (("--member-of", AGGREGATE), f"--member-of {AGGREGATE}"),
        (("--not-member-of", "{aggregate}"), "--not-member-of {aggregate}"),
        (("--required", "{trait}", "--in-tree", "{other}"), "--in-tree {other}"),
        (("--root-required", "HW_NUMA_ROOT"), "--root-required HW_NUMA_ROOT"),
        (("--root-forbidden", "{trait}"), "--root-forbidden {trait}"),
        (
            ("--group", "_A", "--resource", "VCPU=1", "--group", "_B", "--resource", "VCPU=1"),
            "--group-policy isolate",
        ),
        (
            (
                *("--group", "_A", "--resource", "VCPU=1", "--group", "_B", "--required", "HW_NUMA_ROOT"),
                *("--same-subtree", "_A,_B"),
            ),
            "--same-subtree _A,_B",
        ),
    ],
    ids=str,
)
def test_claim_without_a_candidate_names_the_condition_that_leaves_none(
    openstack, client, alone, options, cause, dry_run
):
    """As the operator gave it; for all kinds of conditions."""
    given = [option.format_map(alone.words) for option in options]
    if "--group" in given:
        given = [*given, "--group-policy", "isolate"]
    elif "--resource" not in given:
        given = ["--resource", "VCPU=1", *given]
    consumer = new_uuid()
    result = openstack.run(*CANDIDATE, "claim", consumer, *OWNER, *given, *dry_run, endpoint=alone.url)
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    words = "no resource provider has the capacity for this request; " if "resource " in cause else ""
    told = f"{words}{cause.format_map(alone.words)} leaves none"
    assert told in result.err


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_claim_for_a_consumer_with_allocations_is_refused(openstack, client, cloud, options):
    """A second claim for it is refused and changes nothing; a dry run says so too."""
    consumer, _ = claim(openstack, cloud)
    before = client.list_allocations(consumer)
    line = ("--resource", "VCPU=2", *cloud.select)
    again = openstack.run(*CANDIDATE, "claim", consumer, *OWNER, *line, *options)
    assert (again.status, again.out) == (1, "")
    assert again.err == (
        f"Consumer {consumer} has allocations already, and a claim does not replace them; "
        f"see: openstack resource provider allocation show {consumer}\n"
    )
    assert client.list_allocations(consumer) == before


def test_claim_tries_the_next_candidate_after_a_conflict(openstack, cloud):
    """The next one is claimed, and is what is shown."""
    first = cloud.use

    taken = []

    def interfere(method, _path):
        if method == "PUT" and not taken:
            taken.append(0)
            for host in range(2):
                first(host, 4)

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        _, result = claim(openstack, cloud, endpoint=endpoint)
    assert result.status == 0, result.err
    assert [row["resource provider"] for row in result.json] == [list(cloud.hosts)[2]]
    assert cloud.used() == [4, 4, 1]


@pytest.mark.parametrize("how", ["first", "most-free"])
def test_concurrent_claims_fill_the_hosts_exactly(openstack, cloud, how):
    """Twelve of fourteen get what they want; the others are told that there is no room."""
    command = ("--resource", "VCPU=1", *cloud.select, "--choose", how)
    processes = [
        openstack.start(*CANDIDATE, "claim", new_uuid(), *OWNER, *command, *JSON, stderr=subprocess.PIPE)
        for _ in range(14)
    ]
    results = [(*process.communicate(timeout=100), process.returncode) for process in processes]
    assert sorted(status for _, _, status in results) == [0] * 12 + [1] * 2, results
    assert cloud.used() == [4, 4, 4]
    assert {err for _, err, status in results if status == 0} == {""}
    assert all(len(json.loads(out)) == 1 for out, _, status in results if status == 0)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--choose", "best"], 2, "invalid choice: 'best'"),
        (["--resource", "VCPU=2"], 2, "Amount of VCPU is given twice"),
        (["--alternates", "-1"], 2, "must be a whole number"),
        (["--consumer-type", "INSTANCE", "--os-placement-api-version", "1.37"], 1, "at least version 1.38"),
        (["--required", "NO_SUCH"], 1, "The server does not know the trait NO_SUCH; see"),
        (["--root-forbidden", "HW_NUMA_ROT"], 1, "the trait HW_NUMA_ROT (is it HW_NUMA_ROOT?)"),
        (["--resource", "VCPV=1"], 1, "the resource class VCPV (is it VCPU?)"),
        (["--in-tree", "nobody"], 1, "No resource provider named 'nobody' was found"),
    ],
)
def test_invalid_argument_claims_nothing(openstack, cloud, options, status, message):
    """One line, or the usage."""
    _, result = claim(openstack, cloud, *options)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert cloud.used() == [0, 0, 0]


def test_claim_fits_a_terminal_and_names_the_columns_left_out(openstack, cloud):
    """What is claimed, used and there has a line for each class; the UUID, half of the line, is left out."""
    command = (*CANDIDATE, "claim", new_uuid(), *OWNER, "--resource", "VCPU=1", *cloud.select, "--dry-run")
    shown, status = run_on_terminal(openstack, *command, columns=80)
    lines = shown.splitlines()
    assert (status, max(map(len, lines)) <= 80) == (0, True)
    _, heads, _, row, *_ = [line.split("|")[1:-1] for line in lines]
    cells = {head.strip(): cell.strip() for head, cell in zip(heads, row, strict=True)}
    assert cells["resource provider"] in cloud.hosts
    assert cells["allocation"] == "VCPU=1"
    assert re.fullmatch(r"VCPU=\d+/\d+", cells["inventory used/capacity"])
    assert "group" not in cells
    assert "uuid" not in cells
    assert lines[-1].startswith("Columns not shown: ")
    long, _ = run_on_terminal(openstack, *command, "--full", columns=160)
    assert "inventory used/capacity" in long
    long, _ = run_on_terminal(openstack, *command, "--full", columns=80)
    lines = long.splitlines()
    assert max(map(len, lines)) <= 80
    table = openstack.run(*command, "--full").out.splitlines()
    assert table[0].startswith("+-")
    assert [line.partition(":")[0] for line in lines] == [
        name.strip() for name in table[1].strip("|").split("|")
    ]


def test_alternates_fit_a_terminal_with_a_line_for_each_class(openstack, client, cloud):
    """Which candidate a row is about is never left out of them; a pipe has all classes in one line."""
    for provider in cloud.hosts.values():
        inventories = {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 262144}}
        client.set_inventories(provider, inventories, client.show_provider(provider)["generation"])
    words = ("--resource", "VCPU=4", "--resource", "MEMORY_MB=8192", "--alternates", "1", "--dry-run")
    command = (*CANDIDATE, "claim", new_uuid(), *OWNER, *words, *cloud.select)
    shown, _ = run_on_terminal(openstack, *command, columns=80)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()]
    titles, *_, allocations, usages = zip(*filter(None, cells), strict=True)
    assert titles == ("candidate", "would be", "claimed", "alternate 1", "")
    assert [*map(set, zip(allocations[1::2], allocations[2::2], strict=True))] == [
        {"VCPU=4", "MEMORY_MB=8192"}
    ] * 2
    assert sorted(usages[1:3]) == ["MEMORY_MB=0/262144", "VCPU=0/4"]
    assert re.search("(VCPU=4,MEMORY_MB=8192|MEMORY_MB=8192,VCPU=4) ", openstack.run(*command).out)


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ((), "inventory used/capacity, traits"),
        (("--names",), "inventory used/capacity, traits"),
        (("--by-group",), "uuid"),
    ],
    ids=["plain", "names", "by-group"],
)
def test_list_of_candidates_fits_a_terminal(openstack, cloud, options, left_out):
    """With the name of the provider, or its whole UUID; --full shows the other columns."""
    command = (*CANDIDATE, "list", "--resource", "VCPU=1", *cloud.select, *options)
    shown, status = run_on_terminal(openstack, *command, columns=80)
    lines = shown.splitlines()
    assert (status, max(map(len, lines)) <= 80) == (0, True)
    named = {each for host in cloud.hosts.items() for each in host}
    assert named & {cell.strip() for line in lines for cell in line.split("|")}
    them = "them" if "," in left_out else "it"
    assert " ".join(lines[-2:]).endswith(f"Columns not shown: {left_out} (--full shows {them})")
    long, _ = run_on_terminal(openstack, *command, "--full", columns=200)
    assert "inventory used/capacity" in long
