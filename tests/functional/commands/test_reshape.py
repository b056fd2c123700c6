# SPDX-License-Identifier: Apache-2.0
"""`openstack resource provider reshape`: the real command against a real server over HTTP."""

import json
import uuid

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.batch import execute
from osc_placement.batch.reshape import Move, Moves
from osc_placement.batch.service import Job
from tests.functional import servers
from tests.functional.commands.proxy import DROP, LOSE, proxy_to
from tests.functional.commands.pty_run import WholeTerminal, run_on_terminal

RESHAPE = ("resource", "provider", "reshape")
BATCH = ("resource", "provider", "batch")
RUN = (*BATCH, "run")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A server that lets administrators reshape; by default only services may."""
    directory = tmp_path_factory.mktemp("reshape")
    with servers.running(directory, "--allow-admin-reshape") as server:
        yield server.url


class Host:
    """A host with eight VGPU, five of them used by two consumers, and two children without inventory."""

    def __init__(self, client):
        self.client = client
        self.name = f"host-{uuid.uuid4().hex[:8]}"
        self.root = client.create_provider(self.name)["uuid"]
        inventories = {"VGPU": {"total": 8, "max_unit": 8}, "VCPU": {"total": 4}}
        client.set_inventories(self.root, inventories, 0)
        self.children = [
            client.create_provider(f"{self.name}-gpu{number}", parent=self.root)["uuid"]
            for number in range(2)
        ]
        self.large = self.claim({"VGPU": 3, "VCPU": 1})
        self.small = self.claim({"VGPU": 2})
        self.moves = (
            *("--from", self.name, "--to", f"{self.name}-gpu0", "--resource", "VGPU=4"),
            *("--to", f"{self.name}-gpu1", "--resource", "VGPU=4"),
        )

    def claim(self, resources):
        consumer = str(uuid.uuid4())
        payload = {
            "allocations": {self.root: {"resources": resources}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        self.client.set_allocations(consumer, payload)
        return consumer

    def totals(self):
        return [
            self.client.list_inventories(provider)["inventories"].get("VGPU", {}).get("total")
            for provider in (self.root, *self.children)
        ]

    def held(self, consumer):
        document = self.client.list_allocations(consumer)
        assert document["consumer_type"] == "INSTANCE"
        return {provider: entry["resources"] for provider, entry in document["allocations"].items()}

    def close(self):
        for consumer in (self.large, self.small):
            if self.client.list_allocations(consumer)["allocations"]:
                self.client.delete_allocations(consumer)
        for provider in (*self.children, self.root):
            self.client.delete_provider(provider)


@pytest.fixture
def host(client):
    made = Host(client)
    yield made
    made.close()


def test_reshape_moves_inventory_with_allocations_and_undo_restores_it(openstack, host):
    """The plan changes nothing; the reshape moves each consumer whole; its undo restores all of it."""
    plan = openstack.run(*RESHAPE, *host.moves, "--dry-run", "-f", "json")
    assert (plan.status, plan.err) == (0, "")
    gpu0, gpu1 = (f"{host.name}-gpu{number}" for number in range(2))
    assert [tuple(row.values()) for row in plan.json] == [
        ("inventory", "VGPU", 4, host.name, gpu0),
        ("inventory", "VGPU", 4, host.name, gpu1),
        (host.large, "VGPU", 3, host.name, gpu0),
        (host.small, "VGPU", 2, host.name, gpu1),
    ]
    assert host.totals() == [8, None, None]

    done = openstack.run(*RESHAPE, *host.moves, "--yes")
    assert (done.status, done.err) == (0, "")
    assert host.totals() == [None, 4, 4]
    assert host.held(host.large) == {host.root: {"VCPU": 1}, host.children[0]: {"VGPU": 3}}
    assert host.held(host.small) == {host.children[1]: {"VGPU": 2}}
    assert f"before:\n{host.name}\n│  VCPU" in done.out
    assert "└─ " in done.out.partition("after:")[2]

    *_, undo_id = done.out.split()
    undone = openstack.run(*RUN, "undo", undo_id, "--yes")
    assert (undone.status, undone.err) == (0, "")
    assert host.totals() == [8, None, None]
    assert host.held(host.large) == {host.root: {"VCPU": 1, "VGPU": 3}}


def reshape(openstack, host, **settings):
    """Reshape a host; the ID of the run."""
    done = openstack.run(*RESHAPE, *host.moves, "--yes", **settings)
    return done, openstack.last_run()


def test_reshape_run_can_be_listed_shown_and_undone(openstack, host):
    """Its providers and consumers have a row each; its undo is a run too, and can be undone itself."""
    _, run = reshape(openstack, host)
    gpu0, gpu1 = (f"{host.name}-gpu{number}" for number in range(2))
    what = f"reshape VGPU=4 from {host.name} to {gpu0}, VGPU=4 from {host.name} to {gpu1}"
    assert (run["state"], run["what"], run["changes"], run["applied"]) == ("done", what, 5, 5)
    assert run["selection"] == f"{host.name}, {gpu0}, {gpu1}"
    rows = {row["name"]: row for row in openstack.run(*RUN, "show", run["id"], "-f", "json").json}
    assert (rows[host.name]["before"], rows[gpu0]["after"]) == ("VGPU:total=8", "VGPU:total=4")
    assert rows[host.small]["before"] == f"{host.root}:VGPU=2"
    assert {row["result"] for row in rows.values()} == {"applied"}

    dry = openstack.run(*RUN, "undo", run["id"], "--dry-run", "-f", "json")
    assert (dry.status, len(dry.json), host.totals()) == (0, 5, [None, 4, 4])
    undone = openstack.run(*RUN, "undo", run["id"], "--yes", "-f", "json")
    assert (undone.status, {row["result"] for row in undone.json}) == (0, {"applied"})
    assert host.totals() == [8, None, None]
    assert host.held(host.small) == {host.root: {"VGPU": 2}}
    nothing = openstack.run(*RUN, "undo", run["id"], "--yes")
    assert nothing.status == 0
    assert "is as it was before" in nothing.out
    undoing = openstack.last_run()["id"]
    assert f"Run {run['id']} was undone by run {undoing}; nothing is left to undo" in nothing.err
    resumed = openstack.run(*RUN, "resume", run["id"], "--yes")
    assert resumed.status == 0
    assert (
        f"none of these changes again; to make them again: {' '.join(('openstack', *RUN))} undo {undoing}"
        in (resumed.err)
    )

    again = openstack.last_run()["id"]
    assert openstack.run(*RUN, "undo", again, "--yes").status == 0
    assert host.totals() == [None, 4, 4]
    assert host.held(host.small) == {host.children[1]: {"VGPU": 2}}


def test_reshape_through_a_provider_that_keeps_its_inventory_is_undone(openstack, host):
    """Four come to a GPU and four go, so that only allocations of it change; the undo has these too."""
    first = ("--from", host.name, "--to", f"{host.name}-gpu0", "--resource", "VGPU=4")
    assert openstack.run(*RESHAPE, *first, "--consumer", f"{host.small}={host.name}", "--yes").status == 0
    before = [host.totals(), host.held(host.small), host.held(host.large)]
    moves = (
        *("--from", f"{host.name}-gpu0", "--to", f"{host.name}-gpu1", "--resource", "VGPU=4"),
        *("--from", host.name, "--to", f"{host.name}-gpu0", "--resource", "VGPU=4"),
    )
    pin = ("--consumer", f"{host.large}={host.name}-gpu1")
    assert openstack.run(*RESHAPE, *moves, *pin, "--yes").status == 0
    assert host.totals() == [None, 4, 4]
    run = openstack.last_run()["id"]
    undone = openstack.run(*RUN, "undo", run, "--yes")
    assert (undone.status, undone.err) == (0, "")
    assert [host.totals(), host.held(host.small), host.held(host.large)] == before


def test_undo_of_a_reshape_is_refused_after_other_changes(openstack, host):
    """Nothing goes back in part, and force is no way round it."""
    _, run = reshape(openstack, host)
    generation = host.client.show_provider(host.children[0])["generation"]
    host.client.set_inventories(host.children[0], {"VGPU": {"total": 5}}, generation)
    for options, status, message in (
        ((), 1, "was changed since; this reshape can neither be undone nor gone on with"),
        (("--force",), 2, "--force cannot be used with a reshape, which is undone in one transaction"),
    ):
        result = openstack.run(*RUN, "undo", run["id"], "--yes", *options)
        assert (result.status, result.out) == (status, "")
        assert message in result.err
    assert host.totals() == [None, 5, 4]


@pytest.mark.parametrize(
    ("answer", "totals"), [(LOSE, [None, 4, 4]), (DROP, [8, None, None])], ids=("done", "not done")
)
def test_reshape_with_a_lost_answer_is_reported_unknown_and_resumed(openstack, host, answer, totals):
    """Neither answer nor reading: it is said so, and resume finds out, or does it."""
    answers = iter([answer])
    gone = []

    def interfere(method, path):
        if path == "/reshaper" and (lost := next(answers, None)):
            gone.append(True)
            return lost
        return (502, "text/html", "<html></html>") if gone else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        lost, run = reshape(openstack, host, endpoint=endpoint)
        assert (lost.status, host.totals()) == (1, totals)
        assert lost.err.startswith("it is not known whether it was done, as it cannot be read back: POST ")
        assert (run["state"], run["failed"]) == ("unfinished", 5)
        gone.clear()
        resumed = openstack.run(*RUN, "resume", run["id"], "--yes", "-f", "json", endpoint=endpoint)
        results = {row["result"] for row in resumed.json}
        assert (resumed.status, results) == (0, {"unchanged" if answer is LOSE else "applied"})
    assert openstack.last_run()["state"] == "done"
    assert host.totals() == [None, 4, 4]


def test_reshape_with_a_lost_answer_is_read_back(openstack, host):
    """It was done, and is said to be."""
    answers = iter([LOSE])

    def interfere(method, path):
        return next(answers, None) if path == "/reshaper" else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        done, run = reshape(openstack, host, endpoint=endpoint)
    assert (done.status, done.err, run["state"]) == (0, "", "done")


def test_undo_of_a_reshape_refuses_options_for_single_changes(openstack, host):
    """It is made whole."""
    _, run = reshape(openstack, host)
    result = openstack.run(*RUN, "undo", run["id"], "--yes", "--throttle", "1")
    assert result.status == 2
    assert result.err.startswith("--throttle cannot be used with changes that are made in one transaction")


def test_undo_refuses_a_reshape_of_another_server(openstack, host):
    """The journal knows which it was."""
    _, run = reshape(openstack, host)
    with proxy_to(openstack.endpoint, lambda *_: None) as endpoint:
        result = openstack.run(*RUN, "undo", run["id"], "--yes", endpoint=endpoint)
        assert (result.status, result.out) == (1, "")
        assert result.err.startswith("This was planned for the placement at ")
    assert host.totals() == [None, 4, 4]


def test_moves_are_read_from_a_file_with_pinned_consumers(openstack, host, tmp_path):
    """The keys of the file are those of the API's own words; the pinned consumer goes where it is told."""
    file = tmp_path / "moves.json"
    moves = [
        {
            "from_resource_provider": host.name,
            "to_resource_provider": child,
            "moved_resources": [{"VGPU": 4}],
        }
        for child in host.children
    ]
    file.write_text(json.dumps(moves))
    pin = ("--consumer", f"{host.small}={host.name}-gpu0")
    result = openstack.run(*RESHAPE, "--file", file, *pin, "--yes", "-f", "json")
    assert (result.status, result.err) == (0, "")
    assert host.held(host.small) == {host.children[0]: {"VGPU": 2}}
    assert host.held(host.large)[host.children[1]] == {"VGPU": 3}


def test_reshape_that_does_not_fit_changes_nothing(openstack, host):
    """Neither GPU takes the three of the large consumer whole; the source would be left with too much."""
    moves = (
        *("--from", host.name, "--to", f"{host.name}-gpu0", "--resource", "VGPU=2"),
        *("--to", f"{host.name}-gpu1", "--resource", "VGPU=2"),
        *("--consumer", f"{host.small}={host.name}"),
    )
    result = openstack.run(*RESHAPE, *moves, "--yes")
    assert (result.status, result.out) == (1, "")
    assert "1 of VGPU would be allocated" in result.err
    assert f"the 3 of consumer {host.large} fit nowhere (1 short" in result.err
    assert host.totals() == [8, None, None]


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("DISK=2", "The server does not know the resource class DISK (is it DISK_GB?); see: openstack "),
        ("DISK_GB=2", " has none of DISK_GB, 2 cannot be moved from it\n"),
    ],
)
def test_reshape_of_a_class_that_is_not_there_says_whether_there_is_such_a_class(
    openstack, host, resource, message
):
    """A mistyped class is told with those that are similar."""
    target = f"{host.name}-gpu0"
    result = openstack.run(*RESHAPE, "--from", host.name, "--to", target, "--resource", resource, "--yes")
    assert (result.status, result.out) == (1, "")
    assert message in result.err


def test_reshape_asks_on_a_terminal(openstack, host):
    """What would move is shown before the question, and not again. No leaves everything as it is."""
    shown, status = run_on_terminal(openstack, *RESHAPE, *host.moves, answer="n\n")
    assert status == 1
    plan = shown.partition("after:")[2].partition("Placement at ")[0]
    assert f"-{host.name}:VGPU=3" in plan
    assert f"+{host.name}-gpu0:VGPU=3" in plan
    assert "5 changes to make" in " ".join(plan.split())
    assert "Nothing was changed: not confirmed" in shown
    question = (
        f"Placement at {openstack.endpoint}: Move the inventory and the allocations of 2 consumers? [y/N]"
    )
    assert question in " ".join(shown.split())
    assert host.totals() == [8, None, None]
    shown, status = run_on_terminal(openstack, *RESHAPE, *host.moves, answer="y\n")
    assert (status, shown.count(f"+{host.name}-gpu0:VGPU=3")) == (0, 1)
    assert host.totals() == [None, 4, 4]


def test_run_of_a_reshape_has_names_on_a_terminal(openstack, host):
    """So have the plan and the result of its undo; consumers are not counted as resource providers."""
    _, run = reshape(openstack, host)
    shown, _ = run_on_terminal(openstack, *RUN, "show", run["id"], columns=80)
    undone, status = run_on_terminal(openstack, *RUN, "undo", run["id"], answer="y\n", columns=80)
    for output, sign in ((shown, "+"), (undone, "-")):
        assert f"{sign}{host.name}-gpu0:VGPU=3" in output
        assert host.children[0] not in output
    assert status == 0
    assert "Make 5 changes, removing 2 inventories? [y/N]" in " ".join(undone.split())
    assert "5 changes, 5 applied" in " ".join(undone.split())


@pytest.mark.parametrize("columns", [60, 80])
def test_the_plan_has_whole_names_on_a_terminal(openstack, host, columns):
    """UUIDs can be copied."""
    shown, status = run_on_terminal(openstack, *RESHAPE, *host.moves, "--dry-run", columns=columns)
    assert status == 0
    plan = shown.partition("after:")[2]
    assert max(map(len, plan.splitlines())) <= columns
    assert all(consumer in plan for consumer in (host.large, host.small))
    # in the tree, in the row of the provider and in that of the consumer
    assert all(plan.count(f"{host.name}-gpu{number}") == 3 for number in range(2))


def test_reshape_replans_after_a_concurrent_claim(client, host):
    """A claim between reading and writing makes the server refuse; the second plan has it."""
    moves = [Move(host.root, child, "VGPU", 4) for child in host.children]
    job = Job.for_reshape(client, Moves(moves))
    late = host.claim({"VGPU": 1})
    try:
        execute.execute_reshape(client, job.reshape, job.plan)
        assert late in job.reshape.plan.consumers
        assert host.totals() == [None, 4, 4]
        assert sum(host.held(late).popitem()[1].values()) == 1
    finally:
        client.delete_allocations(late)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--from", "a"), 2, "--from a needs --to"),
        (("--from", "a", "--to", "b"), 2, "--from a needs --resource"),
        (
            ("--from", "a", "--to", "b", "--resource", "VGPU=4GB"),
            2,
            "Amount of VGPU must be a number, not '4GB', as VGPU has no unit",
        ),
        (("--from", "a", "--to", "b", "--resource", "VGPU"), 2, "must be of the form VGPU=4"),
        (("--from", "a", "--to", "b", "--resource", "VGPU=0"), 2, "must be at least 1"),
        (("--from", "no", "--to", "no", "--resource", "VGPU=1"), 1, "No resource provider named 'no'"),
        (("--file", "/no/such/file"), 1, "cannot be read: No such file or directory"),
        (("--file", "/dev/null"), 1, "must be a list"),
        ((), 2, "Give either moves"),
        (
            ("--from", "a", "--to", "b", "--resource", "VGPU=1", "--consumer", "x"),
            2,
            "of the form UUID=PROVIDER",
        ),
    ],
)
def test_invalid_input_is_a_one_line_error(openstack, arguments, status, message):
    """What is wrong is said; the exit status is 2 if no cloud could make the command line right."""
    result = openstack.run(*RESHAPE, *arguments, "--yes")
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "there are no moves in it"),
        ("[{}]", "line 1: [0]: the keys 'from_resource_provider' and 'to_resource_provider' and 'moved_"),
        (
            "- from_resource_provider: a\n  to_resource_provider: b\n  moved_resources: [{VGPU: 0}]",
            "line 3: [0].moved_resources[0].VGPU: must be from 1 to",
        ),
        ("- from_resource_provider: [", "not YAML"),
    ],
)
def test_invalid_file_is_refused_with_its_line(openstack, tmp_path, text, message):
    """The line and the path of the mistake."""
    file = tmp_path / "moves.yaml"
    file.write_text(text)
    result = openstack.run(*RESHAPE, "--file", file, "--yes")
    assert result.status == 1
    assert message in result.err


def test_too_old_version_error_names_the_minimum(openstack):
    """The reshaper came with 1.30."""
    moves = ("--from", "a", "--to", "b", "--resource", "VGPU=1", "--yes")
    result = openstack.run(*RESHAPE, *moves, version="1.29")
    assert result.status == 1
    assert "requires at least version 1.30" in result.err


def test_reshape_without_the_service_role_explains_what_to_do(openstack, server_url):
    """Where the policy is as it comes, an administrator may not reshape."""
    client = PlacementClient(Session(auth=Token(server_url, "admin")))
    host = Host(client)
    try:
        for option in ("--yes", "--dry-run"):
            result = openstack.run(*RESHAPE, *host.moves, option, endpoint=server_url)
            assert (result.status, result.out) == (1, "")
            assert "Nothing was changed" in result.err
            assert "only the role 'service' may reshape" in result.err
            assert result.err.count("\n") == 1
        terminal = WholeTerminal(openstack, *RESHAPE, *host.moves, columns=500, endpoint=server_url)
        terminal.write("y\n")
        shown, status = terminal.finish()
        assert status == 1
        assert "only the role 'service' may reshape" in shown
        # what cannot be done is not asked
        assert "[y/N]" not in shown
    finally:
        host.close()
