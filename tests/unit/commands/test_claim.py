# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.claim: what is said where nothing could be claimed."""

import pytest

from osc_placement.api import retry
from osc_placement.commands import claim
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
