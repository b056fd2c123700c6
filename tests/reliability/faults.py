# SPDX-License-Identifier: Apache-2.0
"""Commands that write, a fault in one of their answers, and what they then claim beside what is so.

Run as a module for the long form: ``python -m tests.reliability.faults --faults 2000 --seed 1``.
"""

import argparse
import collections
import contextlib
import io
import json
import logging
import os
import pathlib
import random
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import distribution

import yaml
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.batch import journal
from osc_placement.commands.deferred import find
from osc_placement.errors import PlacementError
from osc_placement.migrate.main import main as migrate
from tests.functional.migrate import nova_databases
from tests.functional.migrate.cloud import Cloud
from tests.functional.migrate.conftest import kept_signals
from tests.functional.migrate.placement import CLAIM, SIZES, give, hold
from tests.reliability.differential import sides
from tests.reliability.fault_proxy import Fault, FaultProxy, direct_client, every_kind
from tests.unit.commands.shell import make

UUID = "fa017000-0000-4000-8000-0000000000{}"
NAMES = {
    name: UUID.format(number)
    for name, number in (
        *((letter, f"0{letter}") for letter in "abcd"),
        ("child", "c1"),
        ("agg", "a1"),
        ("other", "a2"),
        *((f"k{number}", f"e{number}") for number in range(1, 6)),
    )
}
PROVIDERS = ("a", "b", "c", "child")
#: what a command may say of something of which it does not know whether it was done, or of what it did
DOUBT = re.compile(r"not known|may be done or not|and stays")
NOTHING = re.compile(r"nothing was changed", re.IGNORECASE)
OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
INVENTORY = {
    "VCPU": {"total": 8, "allocation_ratio": 4.0, "max_unit": 8},
    "MEMORY_MB": {"total": 4096},
}
POLICY = '"placement:reshaper:reshape": "rule:admin_or_service_api"\n'


@dataclass(frozen=True)
class Scenario:
    """A command line; {braces} name what is in `NAMES`, and {fresh} a name that nothing has yet.

    ``before`` is a command of a run whose ID is {run}: with ``broken`` no answer reaches it from its first
    write on. ``file`` names a function that makes the file {file}.
    """

    command: str
    line: str
    before: tuple = ()
    broken: bool = False
    file: str = ""


RP = "resource provider"
BATCH = f"{RP} batch"
SELECT = "--aggregate {agg} --yes -f json"
_RATIO = (f"{BATCH} ratio set", f"VCPU=2 {SELECT}")
_TRAIT = (f"{BATCH} trait add", f"HW_CPU_X86_AVX {SELECT}")
SCENARIOS = (
    Scenario(f"{RP} create", "new --uuid {d} -f json"),
    Scenario(f"{RP} set", "{c} --name renamed -f json"),
    Scenario(f"{RP} delete", "{c}"),
    Scenario(f"{RP} inventory set", "{c} --resource VCPU=4 -f json"),
    Scenario(f"{RP} inventory set", "{agg} --aggregate --amend --resource VCPU:reserved=1 -f json"),
    Scenario(f"{RP} inventory class set", "{c} VCPU --total 9 -f json"),
    Scenario(f"{RP} inventory delete", "{c} --resource-class MEMORY_MB"),
    Scenario(f"{RP} inventory delete", "{c}"),
    Scenario(f"{RP} aggregate set", "{c} --aggregate {other} --generation 3 -f json"),
    Scenario(f"{RP} aggregate add", "{c} {other} -f json"),
    Scenario("trait create", "{fresh}"),
    Scenario("trait delete", "{known}"),
    Scenario(f"{RP} trait set", "{c} --trait HW_CPU_X86_SSE -f json"),
    Scenario(f"{RP} trait add", "{c} HW_CPU_X86_SSE -f json"),
    Scenario(f"{RP} trait delete", "{c}"),
    Scenario("resource class create", "{fresh}"),
    Scenario("resource class set", "{fresh}"),
    Scenario("resource class delete", "{known}"),
    Scenario(f"{RP} allocation set", "{k3} --allocation rp={c},VCPU=1 --project-id p --user-id u -f json"),
    Scenario(f"{RP} allocation set", "{k1} --amend --allocation rp={a},VCPU=3 -f json"),
    Scenario(f"{RP} allocation unset", "{k1} --resource-class MEMORY_MB -f json"),
    Scenario(f"{RP} allocation delete", "{k1}"),
    Scenario(
        "allocation candidate claim",
        "{k4} --resource VCPU=1 --in-tree {c} --project-id p --user-id u -f json",
    ),
    Scenario(f"{RP} allocation move", "{k1} {k5} --provider {a} -f json"),
    Scenario(f"{RP} reshape", "--from {a} --to {child} --resource VCPU=8 --yes -f json"),
    Scenario(*_TRAIT),
    Scenario(*_RATIO),
    Scenario(_RATIO[0], f"{_RATIO[1]} --atomic"),
    Scenario(f"{BATCH} inventory set", f"VCPU:total=12 {SELECT}"),
    Scenario(f"{BATCH} aggregate add", f"{{other}} {SELECT}"),
    Scenario(f"{BATCH} run resume", "{run} --yes -f json", _TRAIT, broken=True),
    Scenario(f"{BATCH} run resume", "{run} --yes -f json", (_RATIO[0], f"{_RATIO[1]} --atomic"), broken=True),
    Scenario(f"{BATCH} run undo", "{run} --yes -f json", _RATIO),
    Scenario(f"{BATCH} run undo", "{run} --yes -f json", (_RATIO[0], f"{_RATIO[1]} --atomic")),
    Scenario(f"{RP} apply", "-f {file} --force --yes", file="more"),
    Scenario(f"{RP} apply", "-f {file} --prune --yes", file="less"),
)


MIGRATE = "placement-migrate"
MIGRATIONS = tuple(
    Scenario(MIGRATE, f"{line} -f json")
    for line in (
        "audit --delete",
        "heal-allocations",
        "mirror-aggregates",
        "mirror-aggregates --prune-foreign",
        "carry-ratios",
    )
)


@dataclass
class Case:
    """What came of a command."""

    status: int
    text: str
    rows: list
    before: frozenset
    after: frozenset


class Bench:
    """A side behind the proxy, with a cloud that is made anew for each case."""

    def __init__(self, side, directory, nova=None):
        self.side = side
        self.directory = pathlib.Path(directory)
        self.proxy = FaultProxy(side.application)
        self.client = direct_client(side.application)
        self.nova = nova
        self._number = 0
        self._goals = {}
        self.asked = []

    def close(self):
        self.proxy.close()

    # the cloud

    def clear(self):
        """Delete all but classes and traits."""
        for provider in self.client.list_providers():
            for consumer in self.client.list_provider_allocations(provider["uuid"])["allocations"]:
                self.client.delete_allocations(consumer)
        providers = self.client.list_providers()
        for provider in sorted(providers, key=lambda each: each["parent_provider_uuid"] is None):
            self.client.delete_provider(provider["uuid"])
        for name in self.client.list_traits(name="startswith:CUSTOM_"):
            self.client.delete_trait(name)
        for found in self.client.list_resource_classes():
            if found["name"].startswith("CUSTOM_"):
                self.client.delete_resource_class(found["name"])

    def make_cloud(self, scenario):
        """Make the cloud of a case; the names for its command line."""
        self.clear()
        self._number += 1
        number = f"{self._number:06d}"
        names = {**NAMES, "fresh": f"CUSTOM_FRESH_{number}", "known": f"CUSTOM_KNOWN_{number}"}
        for letter in PROVIDERS:
            parent = names["a"] if letter == "child" else None
            self.client.create_provider(f"host-{letter}", uuid=names[letter], parent=parent)
            if letter != "child":
                self.client.set_inventories(names[letter], INVENTORY, 0)
                self.client.set_provider_traits(names[letter], ["HW_CPU_X86_MMX"], 1)
                self.client.set_provider_aggregates(names[letter], [names["agg"]], 2)
        for consumer, provider in (("k1", "a"), ("k2", "b")):
            claims = {names[provider]: {"resources": {"VCPU": 2, "MEMORY_MB": 512}}}
            payload = {"allocations": claims, "consumer_generation": None, **OWNER}
            self.client.set_allocations(names[consumer], payload)
        if scenario.command.startswith("resource class"):
            self.client.create_resource_class(names["known"])
        else:
            self.client.create_trait(names["known"])
        if scenario.file:
            names["file"] = self.directory / "state.yaml"
            names["file"].write_text(yaml.safe_dump(getattr(self, f"_write_{scenario.file}")(names)))
        return names

    def _write_more(self, names):
        """Describe a state with more than there is."""
        return {
            "traits": [names["fresh"]],
            "resource_classes": [names["fresh"]],
            "providers": [
                {"name": "host-c", "traits": ["HW_CPU_X86_SSE"], "aggregates": [names["other"]]},
                {
                    "name": "host-d",
                    "uuid": names["d"],
                    "inventories": {names["fresh"]: {"total": 5}, "VCPU": {"total": 5}},
                },
                {"name": "host-e", "uuid": names["other"], "parent": "host-d", "traits": [names["fresh"]]},
            ],
            "allocations": [
                {
                    "consumer": names["k3"],
                    "project": "p",
                    "user": "u",
                    "type": "INSTANCE",
                    "resources": {"host-d": {"VCPU": 1}},
                },
            ],
        }

    def _write_less(self, _names):
        """Describe a state with less than there is."""
        return {"providers": [{"name": "host-b"}], "allocations": [], "traits": []}

    def state(self, names):
        """All that clients can see but generations, with the names that a case makes up replaced."""
        rows = set()
        for row in self.side.state():
            drop = {"provider": 3, "consumer": 2}.get(row[0])
            kept = tuple(value for place, value in enumerate(row) if place != drop)
            fresh = {names["fresh"]: "CUSTOM_FRESH", names["known"]: "CUSTOM_KNOWN"}
            rows.add(tuple(fresh.get(value, value) for value in kept))
        # the reference keeps consumers that hold nothing, and shows them to nobody
        holding = {row[2] for row in rows if row[0] == "allocation"}
        return frozenset(row for row in rows if row[0] != "consumer" or row[1] in holding)

    # commands

    def run(self, command, line):
        """Run a command line through the proxy: its status, all its words, and its rows."""
        if command == MIGRATE:
            return self._migrate(line)
        (found,) = distribution("osc-placement").entry_points.select(
            group="openstack.placement.v1", name=command.replace(" ", "_")
        )
        client = PlacementClient(Session(auth=Token(self.proxy.url, "admin")))
        instance = make(find(*found.attr.split(".")), client)
        words, log = "", logging.StreamHandler(instance.app.stderr)
        logging.getLogger().addHandler(log)
        try:
            parsed = instance.get_parser("openstack").parse_args(shlex.split(line))
            status = instance.run(parsed)
        except PlacementError as error:
            status, words = 1, str(error)
        finally:
            client._session.session.close()
            logging.getLogger().removeHandler(log)
        out = instance.app.stdout.getvalue()
        rows = json.loads(out) if status in (0, 3) and out.startswith("[") else []
        return status, f"{out}\n{instance.app.stderr.getvalue()}\n{words}", rows

    def _migrate(self, line):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), kept_signals():
            status = migrate(["--config-file", str(self.nova.configure(self.proxy.url)), *shlex.split(line)])
        document = json.loads(out.getvalue()) if out.getvalue().startswith("{") else {}
        return status, f"{out.getvalue()}\n{err.getvalue()}", document.get("rows", [])

    def play(self, scenario, fault=None):
        """Make the cloud, run the command with the fault, and return what came of it."""
        with tempfile.TemporaryDirectory(dir=self.directory) as state:
            os.environ["XDG_STATE_HOME"] = state
            self.proxy.arm()
            names = self.nova.make_cloud(self, scenario) if self.nova else self.make_cloud(scenario)
            start = self.state(names)
            if scenario.before:
                command, line = scenario.before[0], scenario.before[1].format_map(names)
                if scenario.broken:
                    # a dry run sends what asks for the right to a transaction, and changes nothing
                    self.run(command, f"{line} --dry-run")
                    questions = sum(method != "GET" for method, *_ in self.proxy.answered)
                    self.proxy.arm(Fault("page", 502, False, True, questions, 10**6))
                self.run(command, line)
                names["run"] = sorted(journal.state_directory().glob("*.jsonl"))[-1].stem
            before = self.state(names)
            self.proxy.arm(fault)
            case = Case(
                *self.run(scenario.command, scenario.line.format_map(names)), before, self.state(names)
            )
            self.asked = list(self.proxy.answered)
            self.proxy.arm()
            problems = self.judge(scenario, case, names) if fault else []
            if fault and not problems:
                problems = self.go_on(scenario, case, names, start)
            return case, problems

    def goal(self, scenario):
        """The state after the command without a fault, and how many reads and writes it takes."""
        if scenario not in self._goals:
            case, _ = self.play(scenario)
            assert case.status == 0, (scenario, case.status, case.text)
            assert case.after != case.before, scenario
            writes = sum(method != "GET" for method, *_ in self.asked)
            reads = sum(method == "GET" and path != "/" for method, path, _ in self.asked)
            self._goals[scenario] = case.after, reads, writes
        return self._goals[scenario]

    # judging

    def judge(self, scenario, case, names):
        """Say what is claimed and is not so, or not told and so."""
        goal = self.goal(scenario)[0]
        problems = []
        if case.status == 0 and case.after != goal:
            problems.append("status 0, and the state is not as asked")
        if NOTHING.search(case.text) and case.after != case.before:
            problems.append("it says that nothing was changed")
        if case.status and not case.rows and case.after != case.before:
            told = (
                DOUBT.search(case.text)
                or re.search(r"\d (created|updated|deleted)", case.text)
                # the others were changed
                or re.search(r"for (\d+) of (?!\1 )\d+ resource providers", case.text)
            )
            problems += [] if told else ["it failed, and does not say that something may be changed"]
        for row in case.rows:
            if "result" in row:
                problems += judge_row(row, case, goal)
        kinds = ("provider", "consumer", "custom trait")
        gone = len({row[1] for row in case.before - case.after if row[0] in kinds})
        told = sum(int(number) for number in re.findall(r"(\d+) deleted", case.text))
        if told > gone:
            problems.append(f"{told} deleted, and only {gone} are gone")
        return problems

    def go_on(self, scenario, case, names, start):
        """Resume the run that is left, if one is, and undo it: both have to come out right."""
        runs = sorted(journal.state_directory().glob("*.jsonl"))
        if not runs or scenario.before or self.nova:
            return []
        run = journal.Journals().read(runs[-1].stem)
        if not run.is_planned:
            return [] if case.after == start else ["a run that was not begun changed something"]
        problems = []
        goal = self.goal(scenario)[0]
        if run.pending:
            status, text, _ = self.run(f"{BATCH} run resume", f"{runs[-1].stem} --yes -f json")
            if status or self.state(names) != goal:
                problems.append(f"resumed with status {status}: {text}")
        elif run.state == "done" and self.state(names) != goal and case.status == 0:
            # what could not be read while planning is in no journal, and the status says so
            problems.append("the journal says done")
        status, text, _ = self.run(f"{BATCH} run undo", f"{runs[-1].stem} --yes -f json")
        if "Nothing" not in text and (status or self.state(names) != start):
            problems.append(
                f"undone with status {status}: {text} {sorted(start ^ self.state(names), key=str)}"
            )
        return problems


class Nova:
    """The databases of a nova, of which placement has some claims too few and some too many."""

    HOSTS = ("h1", "h2", "h3")

    def __init__(self, directory):
        self._made = contextlib.ExitStack()
        self._directory = pathlib.Path(directory)
        self._databases = self._made.enter_context(nova_databases.copy_files(self._directory))
        cloud = Cloud(self._databases.urls)
        self._nodes = {}
        for host, cell in zip(self.HOSTS, ("cell1", "cell2", "cell1"), strict=True):
            self._nodes |= cloud.add_host(host, cell)
        self._instances = [cloud.add_instance("h1") for _ in range(12)]
        self._lost = nova_databases.new_uuid()
        cloud.add_aggregate("dense", ["h1", "h2"], cpu_allocation_ratio="8.0")

    def configure(self, url):
        """Write the nova.conf that leads to placement at a URL; its path."""
        return self._databases.configure(self._directory, url)

    def make_cloud(self, bench, scenario):
        """Make placement's side of it anew."""
        bench.clear()
        for name, uuid in self._nodes.items():
            bench.client.create_provider(name, uuid=uuid)
            give(bench.client, uuid, SIZES, aggregates=[NAMES["other"]] if name == "h3" else [])
        h1, h2 = self._nodes["h1"], self._nodes["h2"]
        heals = scenario.line.startswith("heal-allocations")
        for instance in self._instances[2 if heals else 1 :]:
            hold(bench.client, instance, {h1: CLAIM})
        if not heals:
            # what one migration mends is a finding to the others
            hold(bench.client, self._instances[0], {h1: CLAIM, h2: CLAIM})
        hold(bench.client, self._lost, {h2: CLAIM})
        return {**NAMES, "fresh": "CUSTOM_FRESH", "known": "CUSTOM_KNOWN"}

    def close(self):
        """Let go of the databases."""
        self._made.close()


def about(uuid, state):
    """What a provider or a consumer has."""
    if any(row[0] == "provider" and row[1] == uuid for row in state):
        return {row for row in state if row[1] == uuid and row[0] not in ("allocation", "consumer")}
    return {row for row in state if uuid in row[1:3]}


def judge_row(row, case, goal):
    """Say what a row of a report claims that is not so."""
    uuid, result = row["uuid"], row["result"]
    before, after, wanted = (about(uuid, state) for state in (case.before, case.after, goal))
    words = " ".join(str(row.get(name, "")) for name in ("reason", "error", "note"))
    if result in ("applied", "unchanged") and after != wanted:
        return [f"{uuid} is {result}, and is not as asked"]
    if (
        result in ("failed", "refused", "skipped")
        and after != before
        and not (DOUBT.search(words) or DOUBT.search(case.text))
    ):
        return [f"{uuid} is {result}, and something was changed: {words}"]
    return []


def draw(rng, kinds, reads, writes):
    """Draw a fault for a command that makes so many requests."""
    kind, status, after = rng.choice(kinds)
    of_writes = writes and rng.random() < 0.75
    first = rng.randrange(writes if of_writes else max(1, reads))
    return Fault(kind, status, after, bool(of_writes), first, rng.choice((1, 1, 1, 1, 2, 1000)))


def hunt(bench, rng, number, scenarios=SCENARIOS, tally=None):
    """Play so many faults at commands in random order; a line for each problem."""
    found, kinds = [], every_kind()
    scenarios = rng.sample(scenarios, len(scenarios))
    for place in range(number):
        scenario = scenarios[place % len(scenarios)]
        _, reads, writes = bench.goal(scenario)
        fault = draw(rng, kinds, reads, writes)
        case, problems = bench.play(scenario, fault)
        if tally is not None:
            tally[case.status] += 1
        what = f"{type(bench.side).__name__}: {scenario.command} {scenario.line}: {fault}"
        found += [f"{what}: {problem}\n{case.text}" for problem in problems]
        if tally is not None:
            print(*(found[-len(problems) :] if problems else ()), sep="\n", end="", flush=True)
    return found


@contextlib.contextmanager
def opened(kind, directory, *, with_nova=False):
    """A bench with a side of a kind, on SQLite, that lets administrators reshape."""
    directory = pathlib.Path(directory)
    policy = directory / "policy.yaml"
    policy.write_text(POLICY)
    os.environ["OS_OSLO_POLICY__POLICY_FILE"] = str(policy)
    side = kind(f"sqlite:///{directory}/placement.db")
    nova = Nova(directory) if with_nova else None
    bench = Bench(side, directory, nova)
    try:
        yield bench
    finally:
        if nova:
            nova.close()
        bench.close()
        side.close()


def main():
    """Play as many faults as were asked for, the same number at each side, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", default="", help="only commands whose line has this in it")
    parser.add_argument("--side", choices=("", "ours", "reference"), default="", help="of both, only this")
    parser.add_argument("--migrations", action="store_true", help="those of placement-migrate")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    scenarios = MIGRATIONS if options.migrations else SCENARIOS
    chosen = tuple(each for each in scenarios if options.only in f"{each.command} {each.line}")
    bad = 0
    kinds = [kind for kind in (sides.Ours, sides.Reference) if options.side in ("", kind.__name__.lower())]
    number = options.faults // len(kinds)
    for kind in kinds:
        rng, tally = random.Random(options.seed), collections.Counter()
        with (
            tempfile.TemporaryDirectory() as directory,
            opened(kind, directory, with_nova=options.migrations) as bench,
        ):
            found = hunt(bench, rng, number, chosen, tally)
        bad += len(found)
        print(f"{kind.__name__}: {number} faults, statuses {dict(tally)}, {len(found)} problems")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
