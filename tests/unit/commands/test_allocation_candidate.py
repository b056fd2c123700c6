# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.allocation_candidate: groups of a request, and rows of an answer."""

import pytest

from osc_placement import errors, microversion
from osc_placement.commands import allocation_candidate, batch, claim, explain
from tests.unit.commands.shell import run
from tests.unit.fake_placement import FakePlacement

SUMMARIES = {
    "a": {
        "resources": {"VCPU": {"used": 1, "capacity": 8}, "DISK_GB": {"used": 0, "capacity": 9}},
        "traits": ["T", "U"],
    },
    "b": {"resources": {"DISK_GB": {"used": 5, "capacity": 10}}, "traits": []},
}
WANTED = {"a": {"resources": {"VCPU": 1, "DISK_GB": 2}}, "b": {"resources": {"DISK_GB": 3}}}
LISTED = [{"resource_provider": {"uuid": uuid}, **item} for uuid, item in WANTED.items()]
X, Y, Z = (f"c0ffee00-0000-4000-8000-{number:012}" for number in (1, 2, 3))


@pytest.fixture
def fake():
    """A service without candidates."""
    answer = {"allocation_requests": [], "provider_summaries": {}}
    return FakePlacement().on("GET", "/allocation_candidates", answer)


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("--resource VCPU=1 --resource DISK_GB=2", [("resources", "VCPU:1,DISK_GB:2")]),
        ("--resource VCPU=1 --limit 5", [("resources", "VCPU:1"), ("limit", "5")]),
        (
            f"--resource CPU=1 --required A --required B,C --forbidden D --member-of {X},{Y} --member-of {Z}",
            [
                ("resources", "CPU:1"),
                ("required", "in:B,C"),
                ("required", "A,!D"),
                ("member_of", f"in:{X},{Y}"),
                ("member_of", f"in:{Z}"),
            ],
        ),
        (
            "--resource VCPU=1 --group 1 --resource DISK_GB=2 --required A --group NET --resource VCPU=3",
            [
                ("resources", "VCPU:1"),
                ("resources1", "DISK_GB:2"),
                ("required1", "A"),
                ("resourcesNET", "VCPU:3"),
                ("group_policy", "none"),
            ],
        ),
        (
            f"--resource VCPU=1 --in-tree {X} --not-member-of {Y} --root-required A,B --root-forbidden C",
            [
                ("resources", "VCPU:1"),
                ("member_of", f"!in:{Y}"),
                ("in_tree", X),
                ("root_required", "A,B,!C"),
            ],
        ),
        (
            f"--group _A --resource VCPU=1 --in-tree {X} --group _B --required T --same-subtree _A,_B",
            [
                ("resources_A", "VCPU:1"),
                ("in_tree_A", X),
                ("required_B", "T"),
                ("same_subtree", "_A,_B"),
                ("group_policy", "none"),
            ],
        ),
        (
            "--group 1 --resource VCPU=1 --group-policy isolate",
            [("resources1", "VCPU:1"), ("group_policy", "isolate")],
        ),
    ],
)
def test_options_belong_to_the_group_before_them(fake, line, query):
    """What comes before any --group is the unnamed group; the policy is sent only with groups."""
    output, status = run(allocation_candidate.ListAllocationCandidate, fake.client(), f"{line} -f value")
    assert (output, status) == ("", 0)
    assert fake.asked[-1].query == query


def test_the_old_name_of_an_option_still_works_and_is_told(fake, caplog):
    """--aggregate-uuid gathers alternatives into one condition."""
    line = f"--resource VCPU=1 --aggregate-uuid {X} --aggregate-uuid {Y}"
    run(allocation_candidate.ListAllocationCandidate, fake.client(), line)
    assert ("member_of", f"in:{X},{Y}") in fake.asked[-1].query
    assert caplog.messages == ["The --aggregate-uuid option is deprecated, please use --member-of instead."]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("--resource VCPU=1", "1.10"),
        ("--resource VCPU=1 --limit 1", "1.16"),
        ("--resource VCPU=1 --required A", "1.17"),
        (f"--resource VCPU=1 --member-of {X}", "1.21"),
        ("--resource VCPU=1 --aggregate-uuid x", "1.21"),
        ("--resource VCPU=1 --forbidden A", "1.22"),
        ("--group 1 --resource VCPU=1", "1.25"),
        ("--group 1 --resource VCPU=1 --group 2 --resource VCPU=1 --required A,B", "1.39"),
        ("--group NET --resource VCPU=1", "1.33"),
        (f"--resource VCPU=1 --in-tree {X}", "1.31"),
        (f"--resource VCPU=1 --not-member-of {X}", "1.32"),
        ("--resource VCPU=1 --by-group", "1.34"),
        ("--resource VCPU=1 --root-required A", "1.35"),
        ("--resource VCPU=1 --root-forbidden A", "1.35"),
        ("--group 1 --resource VCPU=1 --group 2 --required A --same-subtree 1,2", "1.36"),
    ],
)
def test_every_option_names_the_version_it_needs(fake, line, version):
    """In any group; and with that version it works."""
    needed = microversion.parse(version)
    before = f"1.{needed.minor - 1}"
    with pytest.raises(errors.VersionTooLow) as caught:
        run(allocation_candidate.ListAllocationCandidate, fake.client(api_version=before), line)
    assert caught.value.required == needed
    assert fake.asked == []
    assert run(allocation_candidate.ListAllocationCandidate, fake.client(api_version=version), line)[1] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "At least one --resource must be specified."),
        ("--limit 5", "At least one --resource must be specified."),
        ("--required A", "--resources should be provided in group (unnamed)"),
        ("--resource VCPU=1 --group 1 --required A", "--resources should be provided in group 1"),
        ("--resource VCPU", "Arguments to --resource must be of form <resource_class>=<value>, not 'VCPU'"),
        ("--resource VCPU=1 --same-subtree 1", "--same-subtree names group '1', which no --group begins"),
        (f"--resource VCPU=1 --in-tree {X} --in-tree {Y}", "--in-tree is given twice in group (unnamed)"),
        ("--resource VCPU=1 --limit few", "--limit must be a whole number, not 'few'"),
    ],
)
def test_a_mistake_asks_nothing(fake, line, message):
    """What cannot be read is told before the first request."""
    with pytest.raises(errors.PlacementError) as caught:
        run(allocation_candidate.ListAllocationCandidate, fake.client(), line)
    assert str(caught.value) == message
    assert fake.asked == []


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (batch.AddTrait, "CUSTOM_A --forbidden A,B --dry-run"),
        (claim.ClaimAllocationCandidate, f"{X} --project-id p --user-id u --resource VCPU=1 --forbidden A,B"),
        (explain.ExplainAllocationCandidate, "--resource VCPU=1 --forbidden A,B"),
        (explain.ExplainAllocationCandidate, "--group 1 --resource VCPU=1 --forbidden A,B"),
        (allocation_candidate.ListAllocationCandidate, "--resource VCPU=1 --root-forbidden A,B"),
    ],
)
def test_a_list_of_forbidden_traits_is_refused(fake, capsys, command, line):
    """The server would forbid the first and require the others."""
    with pytest.raises(SystemExit) as ended:
        run(command, fake.client(), line)
    assert (ended.value.code, fake.asked) == (2, [])
    words = "forbidden: takes one trait, not 'A,B': give it once for each trait\n"
    assert words in capsys.readouterr().err


def test_a_list_of_forbidden_traits_is_sent_as_ever(fake):
    """Scripts may know what the server makes of it."""
    run(allocation_candidate.ListAllocationCandidate, fake.client(), "--resource VCPU=1 --forbidden A,B")
    assert ("required", "!A,B") in fake.asked[-1].query


@pytest.mark.parametrize("allocations", [WANTED, LISTED])
def test_a_row_for_each_provider_of_each_candidate(allocations):
    """Both forms of the API's answer give the same rows; the number tells which belong together."""
    document = {"allocation_requests": [{"allocations": allocations}] * 2, "provider_summaries": SUMMARIES}
    rows = list(allocation_candidate.candidate_rows(document, microversion.CANDIDATES_TRAITS))
    assert rows == [
        [1, "VCPU=1,DISK_GB=2", "a", "VCPU=1/8,DISK_GB=0/9", "T,U"],
        [1, "DISK_GB=3", "b", "DISK_GB=5/10", ""],
        [2, "VCPU=1,DISK_GB=2", "a", "VCPU=1/8,DISK_GB=0/9", "T,U"],
        [2, "DISK_GB=3", "b", "DISK_GB=5/10", ""],
    ]
    without_traits = allocation_candidate.candidate_rows(document, microversion.CANDIDATES_LIMIT)
    assert list(without_traits) == [row[:4] for row in rows]
