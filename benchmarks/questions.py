# SPDX-License-Identifier: Apache-2.0
"""Cases that put read requests to both servers, on the same cloud, and time the answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import databases
from benchmarks.case import Case, Prepare, Probe, Reading, Side, Workspace
from benchmarks.clouds import Cloud
from benchmarks.figure import Cut, Figure, Target
from benchmarks.requesting import Answer, Client
from benchmarks.servers import OURS, REFERENCE, Implementation, Server, serving

#: seconds after which an answer is not waited for any longer
LIMIT = 30.0
NO_TARGET = Target()
MEMORY = Figure("memory of a worker", "MiB")


@dataclass(frozen=True)
class Question:
    """A request, with how many things it has to be answered with: a wrong answer is no figure.

    :ivar key: what these things are called in the answer
    """

    name: str
    path: str
    count: int
    target: Target = NO_TARGET
    key: str = "allocation_requests"

    @property
    def figure(self) -> Figure:
        """Its time."""
        return Figure(self.name, "ms")


def candidates(name: str, query: str, count: int, target: Target = NO_TARGET) -> Question:
    """A question for candidates."""
    return Question(name, f"/allocation_candidates?{query}", count, target)


def ask(server: Server, question: Question) -> Reading:
    """Put it once; what takes too long is cut off, and the server that is still at it started anew."""
    try:
        with Client(server.url, timeout=LIMIT) as client:
            answer = client.get(question.path)
    except TimeoutError:
        server.restart()
        return {question.name: Cut(1000 * LIMIT)}
    check(question, answer)
    return {question.name: 1000 * answer.seconds}


def check(question: Question, answer: Answer) -> None:
    """Raise RuntimeError if it is answered wrongly."""
    if answer.status != 200:
        raise RuntimeError(f"{question.path} is answered with {answer.status}: {answer.body[:500]!r}")
    count = len(json.loads(answer.body)[question.key])
    if count != question.count:
        raise RuntimeError(f"{question.path} gives {count} instead of {question.count}")


def make_case(
    name: str,
    title: str,
    cloud: Cloud,
    questions: Sequence[Question],
    *,
    database: databases.Kind = databases.mariadb,
    memory: Target | None = None,
    **variables: str,
) -> Case:
    """A case of several questions; with a target for memory, also of that after these questions.

    :param variables: of the environment of both servers
    """

    def prepare(implementation: Implementation) -> Prepare:
        @contextlib.contextmanager
        def probing(workspace: Workspace) -> Iterator[Sequence[Probe]]:
            with serving(workspace, implementation, cloud, database=database, **variables) as server:
                probes: list[Probe] = [partial(ask, server, question) for question in questions]
                if memory is not None:
                    probes.append(lambda: {MEMORY.name: server.memory()})
                yield probes

        return probing

    targets: dict[str, Target] = {question.name: question.target for question in questions}
    figures = [question.figure for question in questions]
    if memory is not None:
        targets[MEMORY.name] = memory
        figures.append(MEMORY)
    return Case(
        name=name,
        title=title,
        figures=tuple(figures),
        reference=Side("openstack-placement", prepare(REFERENCE)),
        ours=(Side("our server", prepare(OURS), targets),),
    )
