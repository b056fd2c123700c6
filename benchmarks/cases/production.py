# SPDX-License-Identifier: Apache-2.0
"""The requests of a cloud in production: ten instances on every host, on a database that others use, too.

Each side has a database server of its own, with durable commits and one connection that is always in a
statement. The processor time of a request is that of all processes of the server and of the database server,
divided by the number of requests. It hardly depends on what else the machine does.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import yaml

from benchmarks import clouds, databases, storm
from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Unavailable, Workspace
from benchmarks.cases.flat import QUERY
from benchmarks.clouds import EVERYWHERE, PRODUCTION, Cloud, zone_uuid
from benchmarks.commands import Shell
from benchmarks.database_servers import MariaDB, busy_connection, running_mariadb
from benchmarks.figure import Cut, Figure, Target, p99
from benchmarks.processes import ProcessorMeter
from benchmarks.questions import MEMORY, Question, ask, candidates, check
from benchmarks.requesting import Client
from benchmarks.servers import OURS_ITSELF, REFERENCE, Implementation, Server, prepared, started

FAMILY = "production"
HOSTS = (1_000, 10_000)
LEAST_HOSTS = 10
#: openstack-placement takes 20 s and more for each query of a larger cloud
LARGEST_OF_REFERENCE = 10_000
SIDES = ("ours", "reference")
#: seconds for which one kind of request is sent, or other clients claim, in each round
SECONDS, STORM_SECONDS = 1.5, 10.0
#: clients that claim steadily, each after so many seconds, and as fast as they can
STEADY, INTERVAL, FAST = 8, 0.5, 16
#: connections that requests are sent over in turn: a connection may belong to one worker
CONNECTIONS = 8
#: seconds after which an answer is not waited for: more than elsewhere, because processor time is measured
PATIENCE = 300.0
#: seconds in which a server completes what it does after an answer
SETTLE = 0.005
#: requests of a nova-compute in `POLLING_SECONDS`: each minute for inventories and allocations of its
#: provider, every five minutes for its tree, traits, aggregates and sharing providers
POLLING_SECONDS, MINUTES = 300, 5
#: consumers whose allocations are deleted by one request
CHUNK = 100
OWNER = {"project_id": "bench", "user_id": "bench", "consumer_type": "INSTANCE"}
PARTS = ("server", "database")
CARRIED = Figure("computes that a core carries", "", more_is_better=True)
FAILURES = Figure(f"{FAST} clients at full speed, neither 2xx nor 409", "", is_compared=False)


@dataclass(frozen=True)
class Choice:
    """The part of the family that is to be measured.

    :ivar side: one of `SIDES`, None for both
    :ivar only: names of tasks, all if empty
    """

    hosts: tuple[int, ...] = HOSTS
    galera: bool = False
    side: str | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """A running server with its database server, and the seconds of a round of requests."""

    workspace: Workspace
    implementation: Implementation
    server: Server
    database: MariaDB
    cloud: Cloud
    seconds: float
    storm_seconds: float

    def meter(self, server: Server | None = None) -> ProcessorMeter:
        """A meter of the server, or another one, and of the database server."""
        return ProcessorMeter({"server": (server or self.server).pid, "database": self.database.pid})

    @contextlib.contextmanager
    def connected(self) -> Iterator[Iterator[Client]]:
        """Connections, again and again in turn, closed at the end.

        Each has sent a small request first, so that its worker knows what has changed until now.
        """
        question = _of_host(self.cloud, 0)["in-tree"]
        with contextlib.ExitStack() as stack:
            clients = [Client(self.server.url, timeout=PATIENCE) for _ in range(CONNECTIONS)]
            for client in clients:
                check(question, stack.enter_context(client).get(question.path))
            yield itertools.cycle(clients)


@dataclass(frozen=True)
class Task:
    """One thing that is measured; `name` is what ``--only`` takes."""

    name: str
    figures: tuple[Figure, ...]
    measure: Callable[[Site], Reading]


@dataclass(frozen=True)
class Times:
    """The figures of one kind of request."""

    title: str

    @property
    def processor(self) -> Figure:
        return Figure(f"{self.title}, processor time", "ms", parts=PARTS)

    @property
    def elapsed(self) -> Figure:
        return Figure(f"{self.title}, elapsed", "ms")

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (self.processor, self.elapsed)

    def read(self, spent: Mapping[str, float], seconds: float, count: int) -> Reading:
        """The reading of so many requests, which took so many seconds altogether."""
        per_request = {part: 1000 * spent[part] / count for part in PARTS}
        return {
            self.elapsed.name: 1000 * seconds / count,
            self.processor.name: sum(per_request.values()),
            **{self.processor.part(part): value for part, value in per_request.items()},
        }


def make_cases(scale: Scale, choice: Choice | None = None) -> Iterator[Case]:
    """A case for each size of the cloud."""
    choice = choice or Choice()
    for hosts in choice.hosts:
        yield _make_case(scale, hosts, choice)


def names() -> tuple[str, ...]:
    """The names of all tasks."""
    return tuple(task.name for task in _make_tasks(PRODUCTION))


def choose_tasks(cloud: Cloud, only: Sequence[str] = ()) -> list[Task]:
    """Return the tasks with these names, or all, for a cloud."""
    return [task for task in _make_tasks(cloud) if not only or task.name in only]


def _make_case(scale: Scale, full: int, choice: Choice) -> Case:
    hosts = scale.size(full)
    cloud = PRODUCTION.with_trees(hosts)
    tasks = choose_tasks(cloud, choice.only)

    def side(name: str, implementation: Implementation, targets: Mapping[str, Target]) -> Side:
        return Side(name, preparing(implementation, scale, cloud, tasks, galera=choice.galera), targets)

    reference = side("openstack-placement", REFERENCE, {})
    if full > LARGEST_OF_REFERENCE and choice.side is None:
        reference = Side(reference.name, _left_out)
    figures = tuple(figure for task in tasks for figure in task.figures)
    measured = {figure.name for figure in figures}
    asked = {} if choice.galera else TARGETS.get(full, {})
    targets = {name: target for name, target in asked.items() if name in measured or not choice.only}
    ours = side("placement-server serve", OURS_ITSELF, targets)
    return Case(
        name=f"{FAMILY}-{full}" + ("-galera" if choice.galera else ""),
        title=f"production, {hosts:,} hosts" + (", Galera" if choice.galera else ""),
        figures=figures,
        reference=None if choice.side == "ours" else reference,
        ours=() if choice.side == "reference" else (ours,),
        samples=3,
    )


def _left_out(workspace: Workspace) -> NoReturn:
    raise Unavailable(
        f"beyond {LARGEST_OF_REFERENCE:,} hosts a query takes it 20 s and more; --side reference measures it"
    )


def preparing(
    implementation: Implementation,
    scale: Scale,
    cloud: Cloud,
    tasks: Sequence[Task],
    *,
    galera: bool = False,
) -> Prepare:
    """Return what starts a server with a database server of its own on a cloud, for these tasks."""

    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        with (
            running_mariadb(workspace.directory / "mariadb", galera=galera) as database,
            busy_connection(database.administration),
            prepared(workspace, implementation, cloud, database=_on(database)) as server,
            started(server),
        ):
            # a tenth of a second is enough to see that it works
            seconds = SECONDS if scale.divisor == 1 else 0.1
            storm_seconds = scale.seconds(STORM_SECONDS)
            site = Site(workspace, implementation, server, database, cloud, seconds, storm_seconds)
            yield [_bind(task, site) for task in tasks]

    return prepare


def _bind(task: Task, site: Site) -> Probe:
    return lambda: task.measure(site)


def _on(database: MariaDB) -> databases.Kind:
    return lambda directory: databases.made_on(database.administration)


# requests that read


def _make_tasks(cloud: Cloud) -> list[Task]:
    few = candidates("candidates, limit=10", f"{QUERY}&limit=10", min(10, cloud.trees))
    many = candidates("candidates, limit=1000", f"{QUERY}&limit=1000", min(1000, cloud.trees))
    return [
        _reading("candidates-10", few.name, itertools.repeat([few])),
        _reading("candidates-1000", many.name, itertools.repeat([many])),
        _reading("candidates-10-claims", f"{few.name}, others claim", itertools.repeat([few]), claims=True),
        _reading(
            "candidates-1000-claims", f"{many.name}, others claim", itertools.repeat([many]), claims=True
        ),
        *(
            _reading(name, f"GET {_of_host(cloud, 0)[name].name}", _rounds(cloud, name))
            for name in _of_host(cloud, 0)
        ),
        _polling("polling", "compute that polls, each request", cloud, CARRIED),
        _polling("polling-claims", "compute that polls, others claim, each request", cloud, claims=True),
        Task("put", PUT.figures, _put),
        _steady("claim-1", f"claim by 1 client every {INTERVAL} s, each request", 1),
        _steady("claim-8", f"claim by {STEADY} clients every {INTERVAL} s, each request", STEADY),
        Task("claim-fast", (*FULL_SPEED.figures[:1], RATE, MEDIAN, SLOWEST, FAILURES), _claim_fast),
        Task("idle", (IDLE,), _idle),
        Task("memory", (MEMORY,), lambda site: {MEMORY.name: site.server.memory()}),
        Task("start", (START,), _start),
        Task("load", (LOADED, LOAD_PROCESSOR), _load),
    ]


def _of_host(cloud: Cloud, number: int) -> dict[str, Question]:
    """The requests about one host, by the name of the task that measures them."""
    host = clouds.root_uuid(number)
    provider = f"/resource_providers/{host}"
    consumers = list(clouds.consumer_uuids(cloud, number))
    aggregates = f"{EVERYWHERE},{zone_uuid(number // cloud.zone)}"
    sharing = f"/resource_providers?member_of=in:{aggregates}&required={clouds.SHARES}"
    questions = {
        "allocations": ("allocations of a provider", f"{provider}/allocations", len(consumers)),
        "inventories": ("inventories of a provider", f"{provider}/inventories", len(cloud.tree.totals)),
        "traits": ("traits of a provider", f"{provider}/traits", len(cloud.tree.traits)),
        "aggregates": ("aggregates of a provider", f"{provider}/aggregates", 2),
        "usages": ("usages of a provider", f"{provider}/usages", len(cloud.tree.totals)),
    }
    return {
        **{name: Question(title, path, count, key=name) for name, (title, path, count) in questions.items()},
        "provider": Question("a provider", provider, len(host), key="uuid"),
        "in-tree": Question(
            "providers in a tree", f"/resource_providers?in_tree={host}", 1, key="resource_providers"
        ),
        "sharing": Question("sharing providers of a provider", sharing, 0, key="resource_providers"),
        "consumer": Question(
            "allocations of a consumer", f"/allocations/{consumers[0]}", 1, key="allocations"
        ),
    }


def _rounds(cloud: Cloud, name: str) -> Iterator[list[Question]]:
    return ([_of_host(cloud, number)[name]] for number in _polled_hosts(cloud))


def _polled_hosts(cloud: Cloud) -> Iterator[int]:
    """Hosts at random; others claim from those in between."""
    choice = random.Random(0)
    return (2 * choice.randrange(cloud.trees // 2) for _ in itertools.count())


def _polling(
    name: str, title: str, cloud: Cloud, carried: Figure | None = None, *, claims: bool = False
) -> Task:
    rounds = (make_poll(cloud, number) for number in _polled_hosts(cloud))
    task = _reading(name, title, rounds, claims=claims)
    if carried is None:
        return task
    processor = Times(title).processor.name

    def measure(site: Site) -> Reading:
        reading = task.measure(site)
        milliseconds = reading[processor]
        assert isinstance(milliseconds, float)
        requests = len(make_poll(cloud, 0)) / POLLING_SECONDS
        return {**reading, carried.name: 1000 / milliseconds / requests}

    return replace(task, figures=(*task.figures, carried), measure=measure)


def make_poll(cloud: Cloud, number: int) -> list[Question]:
    """What the nova-compute of a host asks for in `POLLING_SECONDS`."""
    host = _of_host(cloud, number)
    each_minute = [host["inventories"], host["allocations"]]
    return MINUTES * each_minute + [host[name] for name in ("in-tree", "traits", "aggregates", "sharing")]


def _reading(name: str, title: str, rounds: Iterator[list[Question]], *, claims: bool = False) -> Task:
    times = Times(title)
    return Task(name, times.figures, lambda site: _read(site, times, rounds, claims=claims))


def _read(site: Site, times: Times, rounds: Iterator[list[Question]], *, claims: bool) -> Reading:
    """Send requests one after the other.

    If others claim, one does before each round of requests; only the requests are measured then.
    """
    meter = site.meter()
    consumers: list[str] = []
    count, seconds = 0, 0.0
    try:
        with (
            site.connected() as clients,
            site.connected() as others,
            contextlib.nullcontext() if claims else meter,
        ):
            end = time.monotonic() + site.seconds
            while not count or time.monotonic() < end:
                if claims:
                    consumers.append(_claim(next(others), site.cloud))
                    time.sleep(SETTLE)
                with meter if claims else contextlib.nullcontext():
                    for question in next(rounds):
                        answer = next(clients).get(question.path)
                        check(question, answer)
                        seconds += answer.seconds
                        count += 1
                    time.sleep(SETTLE if claims else 0)
    except TimeoutError:
        site.server.restart()
        # what it has computed for this request went with its processes
        return {times.elapsed.name: Cut(1000 * PATIENCE)}
    finally:
        _release(site.server.url, consumers)
    return times.read(meter.spent, seconds, count)


# claims


def _claim(client: Client, cloud: Cloud) -> str:
    """Claim from a host at random that is not polled; the UUID of the consumer."""
    consumer = str(uuid.uuid4())
    host = clouds.root_uuid(2 * random.randrange(cloud.trees // 2) + 1)
    resources = {"VCPU": 1, "MEMORY_MB": 512}
    document = {"allocations": {host: {"resources": resources}}, "consumer_generation": None, **OWNER}
    answer = client.put(f"/allocations/{consumer}", document)
    if answer.status != 204:
        raise RuntimeError(f"a claim is answered with {answer.status}: {answer.body[:500]!r}")
    return consumer


def _release(url: str, consumers: Sequence[str]) -> None:
    """Delete the allocations of consumers that have claimed once, so that the cloud is as before."""
    document = {"allocations": {}, "consumer_generation": 1, **OWNER}
    with Client(url) as client:
        for begin in range(0, len(consumers), CHUNK):
            answer = client.post("/allocations", dict.fromkeys(consumers[begin : begin + CHUNK], document))
            if answer.status != 204:
                raise RuntimeError(f"a release is answered with {answer.status}: {answer.body[:500]!r}")


PUT = Times("PUT of a claim, one after the other")


def _put(site: Site) -> Reading:
    consumers: list[str] = []
    seconds = 0.0
    with site.connected() as clients, site.meter() as meter:
        end = time.monotonic() + site.seconds
        while not consumers or time.monotonic() < end:
            started_at = time.perf_counter()
            consumers.append(_claim(next(clients), site.cloud))
            seconds += time.perf_counter() - started_at
    _release(site.server.url, consumers)
    return PUT.read(meter.spent, seconds, len(consumers))


FULL_SPEED = Times(f"claim by {FAST} clients at full speed, each request")
RATE = Figure(f"{FAST} clients at full speed, claims accepted", "per s", more_is_better=True)
MEDIAN = Figure(f"{FAST} clients at full speed, candidates meanwhile, p50", "ms")
SLOWEST = Figure(f"{FAST} clients at full speed, candidates meanwhile, p99", "ms", summary=p99)


def _steady(name: str, title: str, clients: int) -> Task:
    times = Times(title)

    def measure(site: Site) -> Reading:
        outcome, reading = _storm(site, times, clients, INTERVAL)
        if outcome.failures:
            raise RuntimeError(f"{outcome.failures} claims failed")
        return reading

    return Task(name, times.figures, measure)


def _claim_fast(site: Site) -> Reading:
    outcome, reading = _storm(site, FULL_SPEED, FAST, 0.0)
    return {
        **reading,
        RATE.name: outcome.rate,
        MEDIAN.name: outcome.queries,
        SLOWEST.name: outcome.queries,
        FAILURES.name: outcome.failures,
    }


def _storm(site: Site, times: Times, clients: int, interval: float) -> tuple[storm.Outcome, Reading]:
    meter = site.meter()
    with meter:
        process = storm.start(site.server.url, clients=clients, seconds=site.storm_seconds, interval=interval)
        outcome = storm.finish(process)
    _release(site.server.url, outcome.consumers)
    milliseconds = (*outcome.queries, *outcome.writes)
    return outcome, times.read(meter.spent, sum(milliseconds) / 1000, len(milliseconds))


# the server itself, and a fresh cloud

IDLE = Figure("processor time without a request, in each second", "ms", parts=PARTS)
START = Figure("new server to its first candidates", "ms")
LOADED = Figure("state file applied to an empty server, elapsed", "s")
LOAD_PROCESSOR = Figure(
    "state file applied to an empty server, processor time", "s", parts=(*PARTS, "client")
)


def _idle(site: Site) -> Reading:
    """Wait for longer than periodic work of a server and of the database server takes to come again."""
    seconds = 2 * site.seconds
    with site.meter() as meter:
        time.sleep(seconds)
    per_second = {part: 1000 * meter.spent[part] / seconds for part in PARTS}
    return {
        IDLE.name: sum(per_second.values()),
        **{IDLE.part(part): value for part, value in per_second.items()},
    }


def _start(site: Site) -> Reading:
    """Start another server on the same database."""
    server = Server(site.implementation, site.workspace, site.server.database)
    question = candidates(START.name, f"{QUERY}&limit=10", min(10, site.cloud.trees))
    with started(server) as seconds:
        answered = ask(server, question)[START.name]
        assert isinstance(answered, float)
        return {START.name: type(answered)(1000 * seconds + answered)}


def _load(site: Site) -> Reading:
    """Apply a state file of all hosts to a server with a new database."""
    directory = site.workspace.directory / "load"
    directory.mkdir(exist_ok=True)
    file = directory / "state.yaml"
    if not file.exists():
        file.write_text(_make_state(site.cloud))
    workspace = replace(site.workspace, directory=directory)
    with prepared(workspace, site.implementation, None, database=_on(site.database)) as server:
        server.make_tables()
        with started(server):
            shell = Shell(workspace.ours, directory, server.url)
            # openstack-placement answers 500 if two requests create the same aggregate
            zones = (zone_uuid(number) for number in range(-(-site.cloud.trees // site.cloud.zone)))
            of_provider = ("resource", "provider")
            shell.openstack(*of_provider, "create", "first")
            shell.openstack(*of_provider, "aggregate", "add", "first", EVERYWHERE, *zones)
            shell.openstack(*of_provider, "delete", "first")
            with site.meter(server) as meter:
                run = shell.openstack("resource", "provider", "apply", "--file", str(file), "--yes")
            ask(server, Question("all", "/resource_providers", site.cloud.trees, key="resource_providers"))
    parts = {**meter.spent, "client": run.processor}
    return {
        LOADED.name: run.seconds,
        LOAD_PROCESSOR.name: sum(parts.values()),
        **{LOAD_PROCESSOR.part(part): seconds for part, seconds in parts.items()},
    }


def _make_state(cloud: Cloud) -> str:
    entries = [
        {
            "name": provider.name,
            "uuid": provider.uuid,
            "parent": None,
            "aggregates": list(provider.aggregates),
            "traits": list(provider.node.traits),
            "inventories": {
                name: {"total": total, "allocation_ratio": provider.node.ratios.get(name, 1.0)}
                for name, total in provider.node.totals.items()
            },
        }
        for provider in clouds.providers(cloud)
    ]
    return yaml.dump({"version": 1, "providers": entries}, Dumper=_Dumper, sort_keys=False)


class _Dumper(yaml.CSafeDumper):
    """Without anchors, as an export writes."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _of_processor(title: str) -> str:
    return Times(title).processor.name


#: what issue 21 asks for, by full number of hosts
TARGETS: dict[int, dict[str, Target]] = {
    1_000: {RATE.name: Target(at_least=600), SLOWEST.name: Target(at_most=30)},
    10_000: {
        _of_processor("candidates, limit=10"): Target(times=500),
        _of_processor("candidates, limit=1000"): Target(times=250),
        _of_processor(f"claim by {STEADY} clients every {INTERVAL} s, each request"): Target(times=300),
        **{
            _of_processor(f"GET {name} of a provider"): Target(times=10)
            for name in ("allocations", "inventories", "traits", "aggregates")
        },
        RATE.name: Target(at_least=500),
        SLOWEST.name: Target(at_most=30),
        LOADED.name: Target(at_most=15),
    },
}
