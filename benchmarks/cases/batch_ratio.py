# SPDX-License-Identifier: Apache-2.0
"""A new allocation ratio on all 500 providers of an aggregate, by one command, its start included."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from benchmarks import databases, servers
from benchmarks.case import Case, Sample, Side, Workspace
from osc_placement.client import PlacementClient

PROVIDERS = 500
WORKERS = 2
AGGREGATE = "a99e9a7e-0000-4000-8000-000000000500"
INVENTORIES = {"VCPU": {"total": 64}, "MEMORY_MB": {"total": 262144}, "DISK_GB": {"total": 4000}}


def _batch(ratio: float) -> list[str]:
    command = ["resource", "provider", "batch", "ratio", "set", f"VCPU={ratio}"]
    return [*command, "--aggregate", AGGREGATE, "--yes"]


def _inventory_set(ratio: float) -> list[str]:
    command = ["resource", "provider", "inventory", "set", AGGREGATE, "--aggregate", "--amend"]
    version = ["--os-placement-api-version", "1.29"]
    return [*version, *command, "--resource", f"VCPU:allocation_ratio={ratio}"]


@contextlib.contextmanager
def _changing(
    workspace: Workspace,
    *,
    server: servers.Server,
    binaries: pathlib.Path,
    words: Callable[[float], list[str]],
) -> Iterator[Sample]:
    """Run a server with 500 providers; a sample gives them a ratio that they did not have."""
    with servers.running(server):
        client = PlacementClient(Session(auth=Token(server.url, "admin")))
        _make_providers(client)
        ratios = itertools.count(2)

        def sample() -> float:
            ratio = float(next(ratios))
            seconds = _run_openstack(binaries, server.url, words(ratio))
            _check_ratio(client, ratio)
            return seconds

        yield sample


def _make_providers(client: PlacementClient) -> None:
    def make(number: int) -> None:
        uuid = client.create_provider(f"bench{number:03}")["uuid"]
        generation = client.set_inventories(uuid, INVENTORIES, 0)["resource_provider_generation"]
        client.set_provider_aggregates(uuid, [AGGREGATE], generation)

    client.allow_concurrency(WORKERS)
    with ThreadPoolExecutor(WORKERS) as executor:
        list(executor.map(make, range(PROVIDERS)))


def _run_openstack(binaries: pathlib.Path, endpoint: str, words: list[str]) -> float:
    """Run one command; the seconds from its start to its end."""
    cloud = ["--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", endpoint]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    started = time.monotonic()
    subprocess.run(
        [binaries / "openstack", *cloud, *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.monotonic() - started


def _check_ratio(client: PlacementClient, ratio: float) -> None:
    """Raise unless the first and the last provider have the ratio: a failed change is no sample."""
    providers = client.list_providers(member_of=[AGGREGATE])
    for provider in (providers[0], providers[-1]):
        found = client.show_inventory(provider["uuid"], "VCPU")["allocation_ratio"]
        if found != ratio:
            raise RuntimeError(f"the allocation ratio of {provider['name']} is {found}, not {ratio}")


@contextlib.contextmanager
def _ours_on_sqlite(workspace: Workspace) -> Iterator[Sample]:
    database = f"sqlite:///{workspace.directory}/placement.db"
    server = servers.ours(workspace.ours, workspace.directory, database=database, workers=WORKERS)
    with _changing(workspace, server=server, binaries=workspace.ours, words=_batch) as sample:
        yield sample


@contextlib.contextmanager
def _ours_on_mariadb(workspace: Workspace) -> Iterator[Sample]:
    with databases.mariadb() as database:
        server = servers.ours(workspace.ours, workspace.directory, database=database, workers=WORKERS)
        with _changing(workspace, server=server, binaries=workspace.ours, words=_batch) as sample:
            yield sample


@contextlib.contextmanager
def _reference_on_mariadb(workspace: Workspace) -> Iterator[Sample]:
    binaries = workspace.reference
    with databases.mariadb() as database:
        server = servers.reference(binaries, workspace.directory, database=database, workers=WORKERS)
        servers.make_reference_tables(binaries, server)
        with _changing(workspace, server=server, binaries=binaries, words=_inventory_set) as sample:
            yield sample


CASE = Case(
    name="batch-ratio",
    title=f"new ratio on {PROVIDERS} providers",
    reference=Side("reference, MariaDB", _reference_on_mariadb),
    ours=(
        Side("batch ratio set, SQLite", _ours_on_sqlite),
        Side("batch ratio set, MariaDB", _ours_on_mariadb),
    ),
    target=5.0,
    samples=5,
)
