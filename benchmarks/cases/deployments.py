# SPDX-License-Identifier: Apache-2.0
"""Both servers under uWSGI, with the options that deployment tools give it; else as in `production`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchmarks import environments, uwsgi
from benchmarks.case import Case, Prepare, Probe, Scale, Side, Unavailable, Workspace
from benchmarks.cases import production
from benchmarks.clouds import PRODUCTION
from benchmarks.figure import Target
from benchmarks.servers import OURS, REFERENCE, Implementation

#: by the name of a tool, its options; genestack's are those of openstack-helm
OPTIONS = {
    "kolla": uwsgi.KOLLA,
    "openstack-ansible": uwsgi.ANSIBLE,
    "genestack": uwsgi.HELM,
}
#: by the number of hosts, what is measured: claims of the reference take too long on 10,000
TASKS = {
    1_000: ("candidates-10", "candidates-1000", "put", "claim-fast"),
    10_000: ("candidates-10", "candidates-1000"),
}


def make_cases(scale: Scale) -> Iterator[Case]:
    """A case for each tool and number of hosts."""
    return (_make_case(scale, tool, full) for tool in OPTIONS for full in TASKS)


def _make_case(scale: Scale, tool: str, full: int) -> Case:
    hosts = scale.size(full)
    cloud = PRODUCTION.with_trees(hosts)
    tasks = production.choose_tasks(cloud, TASKS[full])
    figures = tuple(figure for task in tasks for figure in task.figures)
    measured = {figure.name for figure in figures}

    def side(name: str, implementation: Implementation, targets: Mapping[str, Target]) -> Side:
        server = replace(implementation, uwsgi=OPTIONS[tool])
        return Side(name, _having_uwsgi(production.preparing(server, scale, cloud, tasks)), targets)

    return Case(
        name=f"uwsgi-{tool}-{full}",
        title=f"uWSGI as {tool} runs it, {hosts:,} hosts",
        figures=figures,
        reference=side("openstack-placement", REFERENCE, {}),
        ours=(side("our server", OURS, {name: TARGETS[name] for name in TARGETS if name in measured}),),
        samples=3,
    )


def _having_uwsgi(prepare: Prepare) -> Prepare:
    @contextlib.contextmanager
    def prepare_(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        try:
            environments.make_uwsgi()
        except environments.NotInstallable as error:
            raise Unavailable(f"{environments.UWSGI} cannot be built: {error}") from error
        with prepare(workspace) as probes:
            yield probes

    return prepare_


#: what issue 22 asks for
TARGETS = {
    **{figure.name: Target(times=100) for figure in production.Times("candidates, limit=10").figures},
    production.RATE.name: Target(times=15),
}
