# SPDX-License-Identifier: Apache-2.0
"""The latency that ``placement-server shadow`` adds to the answers of the placement in service.

The same requests are sent at the same rate to a server and, after that, to a shadow before it, which compares
each of them on the same database. At 200 requests a second, the server is ours: openstack-placement would
take both processors of the machine, which it shares with the shadow, and the figure would be its queue.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import FLAT, root_uuid
from benchmarks.figure import Figure, Target, p99
from benchmarks.processes import find_free_port
from benchmarks.requesting import Client
from benchmarks.servers import OURS, PATIENCE, REFERENCE, Implementation, serving

DIRECT = Figure("answer of the server, p99", "ms")
THROUGH = Figure("the same through a shadow, p99", "ms")
ADDED = Figure("latency added at p99", "ms")
ADDED_MEDIAN = Figure("latency added at the median", "ms")
FAILURES = Figure("requests that failed", "")
HOSTS = 100
SECONDS = 20.0
CLIENTS = 16


def make_cases(scale: Scale) -> Iterator[Case]:
    """A rate that openstack-placement manages beside the shadow, and the rate that is asked for."""
    yield _make_case("shadow-reference", "openstack-placement", REFERENCE, 20, scale)
    yield _make_case("shadow", "our server", OURS, 200, scale)


def _make_case(name: str, upstream: str, implementation: Implementation, rate: int, scale: Scale) -> Case:
    targets = {ADDED.name: Target(at_most=10), FAILURES.name: Target(at_most=0)}
    prepare = _shadowing(implementation, rate, scale.seconds(SECONDS))
    return Case(
        name=name,
        title=f"shadow of {upstream}, {rate} requests a second",
        figures=(DIRECT, THROUGH, ADDED, ADDED_MEDIAN, FAILURES),
        ours=(Side("our shadow", prepare, targets),),
        samples=3,
    )


def _shadowing(implementation: Implementation, rate: int, seconds: float) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with (
            serving(workspace, implementation, FLAT.with_trees(HOSTS)) as server,
            _shadow(workspace, server.url) as url,
        ):
            yield [lambda: _measure(server.url, url, rate, seconds)]

    return prepare


@contextlib.contextmanager
def _shadow(workspace: Workspace, upstream: str) -> Iterator[str]:
    """A shadow that forwards, and compares soon after; its URL."""
    port = find_free_port()
    command = [
        str(workspace.ours / "placement-server"),
        *("shadow", "--upstream", upstream, "--port", str(port)),
        *("--config-file", str(workspace.directory / "placement.conf")),
        *("--report", str(workspace.directory / "shadow.json")),
    ]
    with (workspace.directory / "shadow.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _await_answer(url)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_answer(url: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        with contextlib.suppress(OSError), Client(url) as client:
            if client.get("/").status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError("the shadow does not answer")


def _measure(direct: str, through: str, rate: int, seconds: float) -> Reading:
    before, lost = _ask_at_rate(direct, rate, seconds)
    after, failed = _ask_at_rate(through, rate, seconds)
    middle = len(before) // 2
    return {
        DIRECT.name: p99(before),
        THROUGH.name: p99(after),
        ADDED.name: p99(after) - p99(before),
        ADDED_MEDIAN.name: sorted(after)[middle] - sorted(before)[middle],
        FAILURES.name: float(lost + failed),
    }


def _ask_at_rate(url: str, rate: int, seconds: float) -> tuple[list[float], int]:
    """Send requests at so many a second; return the milliseconds of each answer, and how many failed."""
    count = int(seconds * rate)
    numbers = itertools.count()
    times: list[float] = []
    failed: list[int] = []
    begin = time.perf_counter() + 0.1

    def ask() -> None:
        with Client(url) as client:
            # `next` of a counter is one operation, so each number is taken once
            while (number := next(numbers)) < count:
                time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
                path = f"/resource_providers/{root_uuid(number % HOSTS)}/inventories"
                try:
                    answer = client.get(path)
                except OSError:
                    failed.append(number)
                    continue
                if answer.status != 200:
                    failed.append(answer.status)
                times.append(answer.seconds * 1000)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, len(failed)
