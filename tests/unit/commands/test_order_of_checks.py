# SPDX-License-Identifier: Apache-2.0
"""Errors of a command line are told before anything is asked, and a missing confirmation after all others."""

import pytest

from osc_placement.errors import PlacementError
from tests.unit.commands.shell import run
from tests.unit.commands.test_requests import load
from tests.unit.fake_placement import FakePlacement

BATCH = "resource provider batch"
UNCONFIRMED = "without a terminal to confirm on, give --yes"


@pytest.mark.parametrize(
    ("command", "line", "message"),
    [
        (f"{BATCH} trait add", "CUSTOM_A", "Say which resource providers to change"),
        (f"{BATCH} trait add", "custom_a --all", "The name of a trait has only"),
        (f"{BATCH} trait add", "CUSTOM_A --resource VCPU", "must be of form"),
        (
            f"{BATCH} trait add",
            "CUSTOM_A --aggregate rack --plan-out f --canary 1",
            "--canary cannot be used",
        ),
        (f"{BATCH} trait add", "CUSTOM_A --all --plan-out f --yes", "--yes cannot be used with --plan-out"),
        (f"{BATCH} trait add", "CUSTOM_A --resource VCPU=1 --resource VCPU=2", "VCPU is given twice"),
        ("allocation candidate explain", "--resource VCPU=1 --resource VCPU=2", "VCPU is given twice"),
        (f"{BATCH} trait add", "CUSTOM_A --aggregate rack", UNCONFIRMED),
        (f"{BATCH} trait add", "CUSTOM_A --aggregate rack --atomic --canary 1", "--canary cannot be used"),
        (f"{BATCH} aggregate add", "rack", "Say which resource providers to change"),
        (f"{BATCH} aggregate add", "rack --all", UNCONFIRMED),
        (f"{BATCH} ratio set", "VCPU=0 --aggregate rack", "must be greater than 0"),
        (
            "allocation candidate claim",
            "c1 --project-id p --user-id u --resource VCPU=1 --in-tree host",
            "A consumer must be given by its UUID, not 'c1'",
        ),
        ("resource provider allocation move", "c1 c2", "A consumer must be given by its UUID, not 'c1'"),
    ],
)
def test_error_of_the_command_line_needs_no_request(command, line, message):
    """Neither placement nor the compute service, which a test has not got, is asked for a name."""
    fake = FakePlacement()
    with pytest.raises(PlacementError, match=message):
        run(load(command), fake.client(), line)
    assert fake.asked == []


def test_rows_of_a_batch_are_sorted_by_name():
    """The server may list providers in any order."""
    hosts = [
        {"uuid": f"c0ffee00-0000-4000-8000-00000000000{number}", "name": name, "generation": 1}
        for number, name in enumerate(("c", "a", "b"), 1)
    ]
    fake = FakePlacement().on("GET", "/traits", {"traits": ["CUSTOM_A"]})
    fake.on("GET", "/-/providers", {"providers": [{**host, "traits": []} for host in hosts]})
    shown, status = run(
        load(f"{BATCH} trait add"), fake.client(), "CUSTOM_A --all --dry-run -f value -c name"
    )
    assert (shown.splitlines(), status) == (["a", "b", "c"], 0)
