# SPDX-License-Identifier: Apache-2.0
"""Migrations from nova where ports have guaranteed bandwidth, beside those of nova-manage.

All sides speak to our placement server and to a real neutron of two processes, on databases with the same
content. Nova-manage writes the binding profile of every port with bandwidth through neutron's API. We do the
same; or read the ports from neutron's database and write no profiles; or write them to that database.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import clouds, environments, neutron, nova
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import NETWORKED
from benchmarks.commands import run
from benchmarks.figure import Figure, Target
from benchmarks.neutron import Neutron
from benchmarks.processes import ProcessorMeter
from benchmarks.requesting import Client
from benchmarks.servers import OURS, Server, serving

#: the name of a figure, and the words of each side; the audit of nova-manage does not know ports
STEPS = (
    ("heal", ("heal-allocations",), ("heal_allocations",)),
    ("heal again", ("heal-allocations",), ("heal_allocations",)),
    ("audit", ("audit",), ("audit",)),
    ("audit without ports", ("audit", "--skip-port-allocations"), ("audit",)),
)
NEUTRON = """
[neutron]
auth_type = admin_token
endpoint = {url}
endpoint_override = {url}
token = admin
"""
PARTS = ("command", "placement", "neutron")
ELAPSED = [Figure(name, "s") for name, *_ in STEPS]
PROCESSOR = [Figure(f"{name}, processor time", "s", parts=PARTS) for name, *_ in STEPS]
TARGETS = {name: Target(times=15) for name, *_ in STEPS}

#: the whole command but the words of a step, from the workspace, nova.conf and neutron
Program = Callable[[Workspace, Path, Neutron], Sequence[str]]
#: nova-manage ends with 4 where it found nothing to heal, ours with 3 where binding profiles are not written
NOTHING_TO_HEAL, NOT_ALL_WRITTEN = 4, 3


def make_cases(scale: Scale) -> Iterator[Case]:
    """One case, whose figures are taken one after the other on the same databases."""
    size = nova.Size(hosts=scale.size(1000), instances=scale.size(10_000), aggregates=scale.size(50))
    guaranteed = scale.size(2000)
    yield Case(
        name="migrations-ports",
        title=f"migrations, {size.hosts:,} hosts, {size.instances:,} instances, {guaranteed:,} QoS ports",
        figures=tuple(figure for pair in zip(ELAPSED, PROCESSOR, strict=True) for figure in pair),
        reference=Side("nova-manage", _migrating(size, guaranteed, _theirs, 2, NOTHING_TO_HEAL)),
        ours=(
            Side("neutron's API", _migrating(size, guaranteed, _ours, 1), TARGETS),
            Side(
                "neutron's database",
                _migrating(size, guaranteed, _ours_by_database, 1, NOT_ALL_WRITTEN, is_written=False),
                TARGETS,
            ),
            Side(
                "neutron's database, profiles too",
                _migrating(size, guaranteed, _ours_by_database, 1, options=("--write-neutron-db",)),
                TARGETS,
            ),
        ),
        samples=1,
        warm_up=0,
        budget=1800,
    )


def _ours(workspace: Workspace, conf: Path, _neutron: Neutron) -> Sequence[str]:
    return (str(workspace.ours / "placement-migrate"), "--config-file", str(conf))


def _ours_by_database(workspace: Workspace, conf: Path, neutron: Neutron) -> Sequence[str]:
    return (*_ours(workspace, conf, neutron), "--neutron-db", neutron.database)


def _theirs(_workspace: Workspace, conf: Path, _neutron: Neutron) -> Sequence[str]:
    binaries = environments.compile_all(environments.make_nova())
    return (str(binaries / "nova-manage"), "--config-file", str(conf), "placement")


def _migrating(
    size: nova.Size,
    guaranteed: int,
    program: Program,
    words: int,
    *statuses: int,
    options: Sequence[str] = (),
    is_written: bool = True,
) -> Prepare:
    """Return the preparation of a side.

    :param words: the place of its words in a step
    :param statuses: besides 0, those with which a step may end
    :param options: further options of the steps that heal
    :param is_written: whether the binding profiles of ports are written
    """

    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        cloud = NETWORKED.with_trees(size.hosts)
        with (
            serving(workspace, OURS, cloud) as server,
            nova.filled(workspace.directory, server.url, size) as conf,
            neutron.serving(workspace.directory, size, guaranteed) as network,
        ):
            with conf.open("a") as file:
                file.write(NEUTRON.format(url=network.url))
            command = program(workspace, conf, network)
            steps = {
                step[0]: (*command, *step[words], *(options if step[0].startswith("heal") else ()))  # type: ignore[misc]
                for step in STEPS
            }

            def migrate() -> Reading:
                reading: dict[str, float] = {}
                for figure, (name, step) in zip(PROCESSOR, steps.items(), strict=True):
                    meter = ProcessorMeter({"placement": server.pid, "neutron": network.pid})
                    with meter:
                        done = run(step, workspace.directory, (0, *statuses))
                    spent = {"command": done.processor, **meter.spent}
                    reading |= {name: done.seconds, figure.name: sum(spent.values())}
                    reading |= {figure.part(part): seconds for part, seconds in spent.items()}
                _check(server, network, size, guaranteed, is_written=is_written)
                return reading

            yield [migrate]

    return prepare


def _check(server: Server, network: Neutron, size: nova.Size, guaranteed: int, *, is_written: bool) -> None:
    """All sides have to leave the same behind, and ports bound.

    :param is_written: whether binding profiles name their providers
    """
    client = Client(server.url)
    for number in (0, guaranteed - 1, guaranteed, size.instances - 1):
        host = nova.host_name(number % size.hosts)
        bridge = clouds.bridge_uuid(host) if number < guaranteed else None
        expected = {clouds.root_uuid(number % size.hosts), *([bridge] if bridge else [])}
        answer = json.loads(client.get(f"/allocations/{nova.instance_uuid(number)}").body)
        port = network.show_port(number)
        allocation = port["binding:profile"].get("allocation", {})
        granted = set(allocation.values())
        if allocation and allocation.keys() != {
            each["id"] for each in port["resource_request"]["request_groups"]
        }:
            raise RuntimeError(f"the allocation of the port of instance {number} has other groups: {port}")
        if set(answer["allocations"]) != expected:
            raise RuntimeError(f"instance {number} does not hold what it should: {answer}")
        if granted != ({bridge} if bridge and is_written else set()) or port["binding:vif_type"] != "ovs":
            raise RuntimeError(f"the binding of the port of instance {number} is not as it should be: {port}")
