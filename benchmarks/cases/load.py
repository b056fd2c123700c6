# SPDX-License-Identifier: Apache-2.0
"""A state file of new hosts, applied by one command: to our server in bulk, to the reference by requests.

Both sides use our plugin, as that of the reference cannot apply files.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Workspace
from benchmarks.clouds import FLAT, Provider, make_uuid, providers
from benchmarks.commands import Shell
from benchmarks.figure import Figure, Target
from benchmarks.servers import OURS, REFERENCE, Implementation, serving

NEW = Figure("new hosts", "s")
CLIENT = Figure("new hosts, processor time of the client", "s")
AGAIN = Figure("the same file again", "s")
MEMORY = Figure("memory of the client", "MiB")
APPLY = ("resource", "provider", "apply", "--file")


def make_cases(scale: Scale) -> Iterator[Case]:
    """A size at which both servers are measured, and one of ours alone."""
    yield _make_case("load-1000", scale.size(1_000), {NEW.name: Target(times=5)}, with_reference=True)
    yield _make_case("load-10000", scale.size(10_000), {NEW.name: Target(at_most=15)})


def _make_case(name: str, hosts: int, targets: dict[str, Target], *, with_reference: bool = False) -> Case:
    reference = Side("our plugin, openstack-placement", _loading(REFERENCE, hosts))
    return Case(
        name=name,
        title=f"state file of {hosts:,} new hosts",
        figures=(NEW, CLIENT, AGAIN, MEMORY),
        reference=reference if with_reference else None,
        ours=(Side("our plugin and server", _loading(OURS, hosts), targets),),
        samples=3,
        warm_up=0,
    )


def _loading(implementation: Implementation, hosts: int) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        # a host in each zone, as the reference answers 500 if two requests create the same aggregate
        zones = replace(FLAT, trees=-(-hosts // FLAT.zone), zone=1)
        with serving(workspace, implementation, zones) as server:
            shell = Shell(workspace.ours, workspace.directory, server.url)
            # every sample needs hosts that are not there, and those of the samples before stay
            numbers = itertools.count()
            yield [lambda: _load(shell, hosts, next(numbers))]

    return prepare


def _load(shell: Shell, hosts: int, number: int) -> Reading:
    path = shell.directory / "state.yaml"
    _write_state(path, hosts, f"load{number}")
    new = shell.openstack(*APPLY, str(path))
    _check(new.output, f"resource providers: {hosts} created")
    again = shell.openstack(*APPLY, str(path))
    _check(again.output, "Nothing to do: ")
    return {
        NEW.name: new.seconds,
        CLIENT.name: new.processor,
        AGAIN.name: again.seconds,
        MEMORY.name: max(new.memory, again.memory),
    }


def _check(output: str, beginning: str) -> None:
    if not output.startswith(beginning):
        raise RuntimeError(f"apply should have said {beginning!r}: {output!r}")


def _write_state(path: pathlib.Path, hosts: int, prefix: str) -> None:
    """Write a state file of hosts whose names have a prefix; JSON on lines of its own is YAML."""
    entries = (_describe(provider, prefix) for provider in providers(FLAT.with_trees(hosts)))
    lines = (f"- {json.dumps(entry)}\n" for entry in entries)
    path.write_text("providers:\n" + "".join(lines))


def _describe(provider: Provider, prefix: str) -> dict[str, Any]:
    name = f"{prefix}-{provider.name}"
    return {
        "name": name,
        "uuid": make_uuid(name),
        "parent": None,
        "aggregates": list(provider.aggregates),
        "traits": list(provider.node.traits),
        "inventories": {
            resource_class: {
                "total": total,
                "max_unit": total,
                "allocation_ratio": provider.node.ratios.get(resource_class, 1.0),
            }
            for resource_class, total in provider.node.totals.items()
        },
    }
