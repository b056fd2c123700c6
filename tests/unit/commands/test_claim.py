# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.claim: what is said where nothing could be claimed."""

from types import SimpleNamespace

import pytest

from osc_placement.api import retry
from osc_placement.commands import claim
from osc_placement.commands.candidate_query import Condition
from tests.unit.commands.shell import run
from tests.unit.fake_placement import FakePlacement, error

CONSUMER = "c0ffee00-0000-4000-8000-0000000000c1"
HOSTS = [f"c0ffee00-0000-4000-8000-{number:012}" for number in range(5)]


def test_a_candidate_that_is_tried_repeatedly_counts_once(monkeypatch):
    """Five candidates that somebody else takes every time are counted as five."""
    monkeypatch.setattr(retry, "_FIRST_PAUSE", 0.0)
    requests = [
        {"allocations": {host: {"resources": {"VCPU": 1}}}, "mappings": {"": [host]}} for host in HOSTS
    ]
    summaries = {host: {"resources": {"VCPU": {"used": 0, "capacity": 8}}, "traits": []} for host in HOSTS}
    answer = {"allocation_requests": requests, "provider_summaries": summaries}
    fake = FakePlacement().on("GET", "/allocation_candidates", answer)
    fake.on("PUT", f"/allocations/{CONSUMER}", error(409, "no room", code="placement.undefined_code"))
    with pytest.raises(claim.NoCandidate, match="Others have taken the capacity of all 5 candidates"):
        run(
            claim.ClaimAllocationCandidate,
            fake.client(),
            f"{CONSUMER} --resource VCPU=1 --project-id p --user-id u",
        )
    assert fake.lines.count(f"PUT /allocations/{CONSUMER}") == len(HOSTS) * retry.MAX_ATTEMPTS


def test_the_condition_that_leaves_none_is_found_in_few_requests():
    """Of thirty conditions each is found with a logarithmic number of requests for one candidate."""
    conditions = [Condition("--resource VCPU=1", "resources", "", "VCPU:1")]
    conditions += [
        Condition(f"--required CUSTOM_{number}", "required", "", f"CUSTOM_{number}") for number in range(29)
    ]
    for cause in conditions:
        asked = []

        def answer(query, cause=cause, asked=asked):
            asked.append(dict(query))
            met = cause.value not in ",".join(value for _, value in query).split(",")
            return {"allocation_requests": [{}] if met else []}

        client = SimpleNamespace(allocation_candidates=answer)
        assert claim.find_cause(client, conditions) == cause
        assert len(asked) <= 5
        assert all(query["limit"] == "1" for query in asked)
