# SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks.storm``: clients that claim all at once, in a process of their own.

Each client is a thread that claims again as soon as it is answered, or at a steady pace. What came of it is
printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from benchmarks.requesting import Answer, Client

#: asked for before each claim, as a scheduler does
QUERY = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:512&limit=10"
#: a refusal with this code is worth another try
CONCURRENT_UPDATE = "placement.concurrent_update"


@dataclass
class Outcome:
    """What came of a storm: the claims accepted, refused for a conflict, failed; in which times."""

    conflicts: int = 0
    failures: int = 0
    #: from the first request to the last answer
    seconds: float = 0.0
    #: milliseconds of each request
    queries: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    #: the UUIDs of those that were accepted, which are left in the cloud
    consumers: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Count what another client saw."""
        self.conflicts += other.conflicts
        self.failures += other.failures
        self.queries += other.queries
        self.writes += other.writes
        self.consumers += other.consumers

    @property
    def accepted(self) -> int:
        """How many claims were accepted."""
        return len(self.consumers)

    @property
    def rate(self) -> float:
        """Accepted claims per second."""
        return self.accepted / self.seconds


def start(
    url: str, *, clients: int, seconds: float, provider: str | None = None, interval: float = 0.0
) -> subprocess.Popen[str]:
    """Begin a storm in a process of its own; `finish` waits for its end.

    :param interval: seconds from one claim of a client to its next, which is later if it is not answered yet
    """
    command = [sys.executable, "-m", "benchmarks.storm", url]
    command += ["--clients", str(clients), "--seconds", str(seconds), "--interval", str(interval)]
    command += [] if provider is None else ["--provider", provider]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> Outcome:
    """What came of it."""
    output, _ = process.communicate()
    return Outcome(**json.loads(output))


class _Claimer:
    """One client."""

    def __init__(self, url: str, give_up: float, provider: str | None, interval: float) -> None:
        self._client = Client(url)
        self._random = random.Random()
        self._give_up = give_up
        self._provider = provider
        self._interval = interval
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """Claim until the time is up, or the provider is."""
        claim = self._claim_found if self._provider is None else self._claim_from_provider
        # clients with a pace do not all begin at once
        next_claim = time.monotonic() + self._random.uniform(0, self._interval)
        while max(next_claim, time.monotonic()) < self._give_up:
            time.sleep(max(next_claim - time.monotonic(), 0))
            if not claim():
                break
            next_claim = max(next_claim + self._interval, time.monotonic())
        return self._outcome

    def _claim_found(self) -> bool:
        """Ask for candidates and claim one of them."""
        answer = self._client.get(QUERY)
        self._outcome.queries.append(1000 * answer.seconds)
        wanted = json.loads(answer.body)["allocation_requests"]
        self._claim(self._random.choice(wanted))
        return True

    def _claim_from_provider(self) -> bool:
        """Claim one core of the one provider; False once there is none left."""
        resources = {self._provider: {"resources": {"VCPU": 1}}}
        answer = self._claim({"allocations": resources, "mappings": {"": [self._provider]}})
        return answer.status != 409 or _is_conflict(answer)

    def _claim(self, wanted: dict[str, object]) -> Answer:
        owner = {"project_id": "bench", "user_id": "bench", "consumer_type": "INSTANCE"}
        consumer = str(uuid.uuid4())
        path = f"/allocations/{consumer}"
        answer = self._client.put(path, {**wanted, **owner, "consumer_generation": None})
        self._outcome.writes.append(1000 * answer.seconds)
        if answer.status == 204:
            self._outcome.consumers.append(consumer)
        self._outcome.conflicts += answer.status == 409 and _is_conflict(answer)
        self._outcome.failures += answer.status not in (204, 409)
        return answer


def _is_conflict(answer: Answer) -> bool:
    return bool(json.loads(answer.body)["errors"][0].get("code") == CONCURRENT_UPDATE)


def main() -> None:
    """Run a storm."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storm", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--interval", type=float, default=0.0, help="seconds between claims of a client")
    parser.add_argument("--provider", metavar="UUID", help="claim from this one, until it has nothing left")
    options = parser.parse_args()
    started = time.monotonic()
    give_up = started + options.seconds
    claimers = [
        _Claimer(options.url, give_up, options.provider, options.interval) for _ in range(options.clients)
    ]
    total = Outcome()
    with ThreadPoolExecutor(options.clients) as executor:
        for outcome in executor.map(_Claimer.run, claimers):
            total.add(outcome)
    total.seconds = time.monotonic() - started
    json.dump(asdict(total), sys.stdout)


if __name__ == "__main__":
    main()
