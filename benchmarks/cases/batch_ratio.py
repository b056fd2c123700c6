# SPDX-License-Identifier: Apache-2.0
"""A new allocation ratio for all providers of an aggregate, by one command.

Beyond what a command costs that makes one request, measured with the same client and server.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence

from benchmarks import clouds
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Unavailable, Workspace
from benchmarks.clouds import EVERYWHERE, FLAT, Cloud
from benchmarks.commands import Run, Shell
from benchmarks.figure import Figure, Target
from benchmarks.requesting import Client
from benchmarks.servers import OURS, REFERENCE, Implementation, Server, serving

BEYOND = Figure("beyond a one-request command", "s")
MEMORY = Figure("memory of the client", "MiB")
BATCH = ("resource", "provider", "batch", "ratio", "set")

#: runs the command that gives all providers this ratio
Change = Callable[[Shell, float], Run]


def make_cases(scale: Scale) -> Iterator[Case]:
    """Two sizes of the aggregate; in the smaller one our plugin with the reference's server, too."""
    hosts = scale.size(500)
    prepare = _changing(REFERENCE, hosts, _batch)
    with_reference = Side("our plugin, openstack-placement", prepare, {BEYOND.name: Target(times=2)})
    yield _make_case("batch-ratio-500", hosts, seconds=(1.5, 0.5), more=(with_reference,))
    yield _make_case("batch-ratio-10000", scale.size(10_000), seconds=(30, 8), samples=1)


def _make_case(
    name: str, hosts: int, *, seconds: tuple[float, float], more: tuple[Side, ...] = (), samples: int = 5
) -> Case:
    targets = [{BEYOND.name: Target(at_most=most), MEMORY.name: Target(at_most=200)} for most in seconds]
    return Case(
        name=name,
        title=f"new ratio on {hosts:,} providers",
        figures=(BEYOND, MEMORY),
        reference=Side("osc-placement, openstack-placement", _changing(REFERENCE, hosts, _inventory_set)),
        ours=(
            Side("our plugin and server", _changing(OURS, hosts, _batch), targets[0]),
            Side("the same, --atomic", _changing(OURS, hosts, _atomic), targets[1]),
            *more,
        ),
        samples=samples,
        warm_up=0 if samples == 1 else 1,
    )


def _batch(shell: Shell, ratio: float) -> Run:
    return shell.openstack(*BATCH, f"VCPU={ratio}", "--aggregate", EVERYWHERE, "--yes")


def _atomic(shell: Shell, ratio: float) -> Run:
    return shell.openstack(*BATCH, f"VCPU={ratio}", "--aggregate", EVERYWHERE, "--yes", "--atomic")


def _inventory_set(shell: Shell, ratio: float) -> Run:
    amend = ("resource", "provider", "inventory", "set", EVERYWHERE, "--aggregate", "--amend")
    version = ("--os-placement-api-version", "1.29")
    return shell.openstack(*version, *amend, "--resource", f"VCPU:allocation_ratio={ratio}")


def _changing(implementation: Implementation, hosts: int, change: Change) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        cloud = FLAT.with_trees(hosts)
        with serving(workspace, implementation, cloud) as server:
            binaries = workspace.reference if change is _inventory_set else workspace.ours
            shell = Shell(binaries, workspace.directory, server.url)
            if change is _atomic and not shell.has_option("--atomic", *BATCH):
                raise Unavailable(f"{' '.join(BATCH)} has no --atomic yet")
            one_request = shell.cost_of_one_request()
            # every sample needs a ratio that the providers do not have
            ratios = itertools.count(5.0)
            yield [lambda: _change(server, shell, change, next(ratios), cloud, one_request)]

    return prepare


def _change(
    server: Server, shell: Shell, change: Change, ratio: float, cloud: Cloud, one_request: float
) -> Reading:
    run = change(shell, ratio)
    for number in (0, cloud.trees - 1):
        _check_ratio(server, clouds.root_uuid(number), ratio)
    return {BEYOND.name: run.seconds - one_request, MEMORY.name: run.memory}


def _check_ratio(server: Server, uuid: str, ratio: float) -> None:
    answer = Client(server.url).get(f"/resource_providers/{uuid}/inventories/VCPU")
    if f'"allocation_ratio": {ratio}'.encode() not in answer.body:
        raise RuntimeError(f"the allocation ratio of {uuid} should be {ratio}: {answer.body!r}")
