# SPDX-License-Identifier: Apache-2.0
"""A storm of operations and faults on the control plane, after each of which the books are compared.

A round is some operations at a time and faults among them. When nova has come to rest, the books (`books`),
which know nothing of our tools, say what is left over. Our tools have to name each, the commands that they
print are run as they are, and then nothing may be left:

    python -m tests.reliability.cloud.storm --rounds 25 --operations 40 --faults 2

It needs what ``tools/cloud up --computes 4`` brought up. Exit status 1 means that something is wrong.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field

from tests.reliability.cloud import books, faults, plane
from tests.reliability.cloud.operations import BURST, Refused, Users, prepare_shell, run_shell

#: operations that are under way at a time
AT_ONCE = 6
#: seconds in which nova changes nothing any more
QUIET = 30
#: seconds until all that nova can end by itself has ended
REST = 90
#: instances that are kept alive
MOST = 60
CROWD = 25
#: by status, the operations that a server can have
OPERATIONS = {
    "ACTIVE": (
        *("resize", "resize_and_revert", "migrate", "migrate_live", "migrate_live"),
        *("shelve", "rebuild", "stop", "delete"),
    ),
    "SHUTOFF": ("start", "migrate", "delete"),
    "SHELVED_OFFLOADED": ("unshelve", "unshelve", "delete"),
    "VERIFY_RESIZE": ("delete",),
    "ERROR": ("delete",),
}
#: what placement may answer while its database is there: nova asks for what is not, and two change one thing
EXPECTED = frozenset((404, 409))
ACCESS = re.compile(r'"(\w+) (/\S*)" status: (\d+)')
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
#: what no command of nova does
STATEMENT = r"UPDATE migrations SET status = '(?:error|finished)' WHERE uuid = '[0-9a-f-]{36}'"
#: a command in a sentence
COMMAND = re.compile(
    rf"openstack (?:[a-z]+ )+(?:--[a-z]+ (?:[a-z]+ )?)?{UUID}(?: {UUID})?"
    r"|placement-migrate (?:providers|decommission [a-z0-9]+)"
    rf"|placement-migrate heal-allocations(?: --force)?(?: --instance {UUID})?"
    rf"|{STATEMENT}"
)
#: advice that is no command: to restart the nova-compute of a host
RESTART = re.compile(r"was evacuated from (\w+), .* removes this when it is restarted")
#: commands that only show
SHOWS = (
    "openstack server event list",
    "openstack server show",
    "openstack resource provider allocation show",
)
#: what ends with 0 where the books agree
CLEAN = tuple(
    f"placement-migrate {line}" for line in ("status", "providers", "heal-allocations --force --dry-run")
)
AUDIT = "placement-migrate audit --max-removals 1000 -f json"


@dataclass
class Round:
    """What a round was, and what came of it."""

    faults: tuple
    done: collections.Counter = field(default_factory=collections.Counter)
    refused: collections.Counter = field(default_factory=collections.Counter)
    statuses: collections.Counter = field(default_factory=collections.Counter)
    #: by consumer, lines of what differs before anything is advised
    left: dict = field(default_factory=dict)
    commands: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    #: consumers that nova-manage's audit names
    named_by_nova: set = field(default_factory=set)
    stuck: dict = field(default_factory=dict)


class Storm:
    """The storm; everything at random follows from the seed, but for the order in which threads run.

    :ivar decommissions: the share of the lost hosts that are decommissioned before they start again
    """

    def __init__(self, seed):
        self.decommissions = 0.5
        self.random = random.Random(seed)
        self.users = Users(plane.connect(), self.random)
        self.hosts = sorted(
            name.removeprefix("nova-") for name in plane.find_processes() if name.startswith("nova-compute")
        )
        self.dead = set()
        self.log = plane.LOGS / "placement.log"
        self.offset = self.log.stat().st_size
        #: an aggregate that changes, and one for ratios that does not
        self.moving, self.fixed = (self._make_aggregate(name) for name in ("moving", "fixed"))
        quota = {"quota_set": {"instances": 500, "force": True}}
        self.users.call("PUT", f"/os-quota-sets/{self.users.project}", quota)

    def _make_aggregate(self, name):
        name = f"{name}-{self.random.randrange(10**6)}"
        found = self.users.call("POST", "/os-aggregates", {"aggregate": {"name": name}})["aggregate"]
        for host in self.hosts[:2]:
            self.users.call("POST", f"/os-aggregates/{found['id']}/action", {"add_host": {"host": host}})
        return found

    # -- operations

    def run_round(self, names, jobs):
        """Run a round of operations, as `choose` returns them, with faults by name; what came of it."""
        found = Round(tuple(names))
        choice = random.Random(self.random.random())
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE + 1) as pool:
            fault = pool.submit(_break, names, choice)
            for kind, outcome in pool.map(self._do, jobs):
                (found.refused if outcome else found.done)[kind] += 1
                if outcome and "sees" in outcome:
                    found.problems.append(outcome)
            fault.result()
        self._rest()
        found.statuses = self._read_statuses()
        self._judge_statuses(found)
        self._check(found)
        self._tidy(found)
        return found

    def choose(self, number):
        """So many operations, each with what it is on; a server has one at most."""
        servers = list(self.users.list_servers().items())
        self.random.shuffle(servers)
        jobs = []
        if self.random.random() < 0.5:
            jobs.append(("host", self.random.choice(self.hosts)))
        jobs.append(("change_aggregate", self.random.choice(self.hosts)))
        jobs.append(("set_ratios", self.random.choice(("2.0", "4.0", "8.0"))))
        alive = len(servers)
        while len(jobs) < number:
            if not servers or alive < CROWD or (alive < MOST and self.random.random() < 0.2):
                jobs.append(self.random.choice((("boot", 1), ("boot", BURST), ("boot_beyond_quota", None))))
                alive += jobs[-1][1] or BURST
                continue
            server, record = servers.pop()
            kinds = OPERATIONS.get(record["status"])
            if kinds:
                jobs.append((self.random.choice(kinds), server))
        self.random.shuffle(jobs)
        return jobs

    def _do(self, job):
        """Carry one operation out; its kind, and why it was refused, or nothing."""
        kind, subject = job
        try:
            if kind == "host":
                self._lose_host(subject)
            elif kind == "boot_beyond_quota":
                self.users.boot_beyond_quota()
            elif kind == "change_aggregate":
                self.users.change_aggregate(self.moving["id"], subject)
            elif kind == "set_ratios":
                return kind, self._set_ratios(subject)
            else:
                getattr(self.users, kind)(subject)
        except (Refused, plane.NotPossible) as error:
            return kind, str(error)
        except Exception as error:
            # a connection to a service that is down
            return kind, f"{type(error).__name__}: {error}"
        return kind, ""

    def _lose_host(self, host):
        self.dead.add(host)
        self.users.evacuate(host)

    def _set_ratios(self, ratio):
        # a host that is decommissioned meanwhile has left
        aggregate = self.fixed["uuid"]
        members = {name for name, uuid in books.query("placement", books.MEMBERS) if uuid == aggregate}
        done = self.users.set_ratios(aggregate, ratio)
        if done.returncode:
            return (done.stderr or done.stdout).strip()[-200:]
        ratios = books.read_ratios()
        wrong = [host for host in members & ratios.keys() if ratios[host] != float(ratio)]
        return f"a batch of ratios {ratio} ends with 0, and sees {ratios}" if wrong else ""

    # -- after them

    def _rest(self, quiet=QUIET):
        """Wait until nova has ended what it can, or has changed nothing for so many seconds."""
        end, quiet_since, before = time.monotonic() + REST, time.monotonic(), None
        while time.monotonic() < end:
            now = books.read()
            if not now.unsettled:
                return
            seen = (now.states, now.unsettled)
            if seen != before:
                quiet_since, before = time.monotonic(), seen
            if time.monotonic() - quiet_since > quiet:
                return
            time.sleep(2)

    def _read_statuses(self):
        with self.log.open(errors="replace") as log:
            log.seek(self.offset)
            text = log.read()
            self.offset = log.tell()
        counts = collections.Counter()
        for method, path, status in ACCESS.findall(text):
            kind = re.sub(UUID, "*", path.partition("?")[0])
            counts[f"{method} {kind} {status}"] += 1
        return counts

    def _judge_statuses(self, found):
        is_outage = any("database" in name for name in found.faults)
        for line, number in found.statuses.items():
            status = int(line.rpartition(" ")[2])
            if status < 400 or status in EXPECTED or (status == 503 and is_outage):
                continue
            found.problems.append(f"{number} unexpected answers: {line}")

    def _check(self, found):
        """Compare the books, with a host that is still dead too; have our tools advise, and follow them."""
        books.age()
        self._compare(found)
        for host in sorted(self.dead):
            if self.random.random() < self.decommissions:
                self._decommission(found, host)
            try:
                self.users.restart(host)
            except (Refused, plane.NotPossible) as error:
                found.problems.append(f"{host} does not start again: {error}")
            self.dead.discard(host)
            self._rest(QUIET / 3)
        left = self._follow_all_advice(found)
        if left.unsettled.keys() & left.compare().keys():
            # a task began meanwhile, such as a rebuild whose message came late
            self._rest()
            books.age()
            left = self._follow_all_advice(found)
        for lines in left.compare().values():
            found.problems.append(f"left after all advice: {lines}")
        for command in () if left.unsettled or left.compare() else CLEAN:
            self._run(found, command, (0,))
        found.problems += [f"placement's database: {line}" for line in books.find_torn()]
        give_up = time.monotonic() + 30
        while (wrong := books.compare_aggregates()) and time.monotonic() < give_up:
            time.sleep(2)
        found.problems += [f"aggregates: {line}" for line in wrong]

    def _compare(self, found):
        """Compare what our audit names with the books."""
        report = self._audit(found)
        now = books.read()
        different = now.compare()
        found.left.update(different)
        text = json.dumps(report)
        for consumer, lines in different.items():
            if consumer not in text:
                found.problems.append(f"not named by the audit: {lines} {now.unsettled.get(consumer, '')}")
        for row in report.get("rows", ()):
            consumer = _find_uuid(json.dumps(row))
            if consumer and consumer not in different:
                found.problems.append(f"named by the audit without need: {row}")
        nova = run_shell("nova-manage placement audit --verbose")
        named = set(re.findall(rf"consumer UUID ({UUID})|for ({UUID})", nova.stdout))
        found.named_by_nova |= {one or other for one, other in named}
        missed = {uuid for uuid in found.named_by_nova if uuid not in text and uuid in different}
        found.problems += [f"nova-manage names it, ours does not: {uuid}" for uuid in missed]

    def _audit(self, found):
        done = run_shell(AUDIT)
        try:
            report = json.loads(done.stdout)
        except ValueError:
            found.problems.append(f"audit: {done.returncode} {done.stderr.strip()[-300:]}")
            return {}
        if done.returncode not in (0, 3):
            found.problems.append(f"audit ends with {done.returncode}: {report['findings'][:2]}")
        return report

    def _follow_all_advice(self, found):
        """Run the commands that are printed as long as there are some; the books then."""
        for _ in range(5):
            if not self._follow_advice(found):
                break
        return books.read()

    def _follow_advice(self, found):
        """Run the commands that the audit prints; whether there were some."""
        report = self._audit(found)
        commands, hosts = [], set()
        if report.get("rows"):
            commands.append(AUDIT.replace("audit", "audit --delete"))
        for finding in report.get("findings", ()):
            texts = COMMAND.findall(finding["text"])
            commands += [text for text in texts if text not in commands]
            hosts |= set(RESTART.findall(finding["text"]))
            if not texts:
                found.commands.append(f"no command: {finding['subject']}: {finding['text']}")
        for host in sorted(hosts):
            plane.stop(f"nova-{host}")
            self.users.restart(host)
            found.commands.append(f"restart of nova-compute of {host}")
        for command in commands:
            if command.startswith("UPDATE"):
                books.execute("nova_cell1", command)
                found.commands.append(command)
            else:
                self._run(found, command)
        self._rest_of_deletions(commands)
        return [*hosts, *(each for each in commands if not each.startswith(SHOWS))]

    def _rest_of_deletions(self, commands):
        give_up = time.monotonic() + 30
        deleted = {command.split()[-1] for command in commands if "server delete" in command}
        while deleted & self.users.list_servers().keys() and time.monotonic() < give_up:
            time.sleep(1)

    def _run(self, found, command, expected=None):
        """Run a command; whether it ended as it should."""
        done = run_shell(command)
        expected = expected or ((0, 3) if "placement-migrate" in command else (0,))
        found.commands.append(f"{command}: {done.returncode}")
        print(f"   {command}: {done.returncode}", flush=True)
        if done.returncode not in expected:
            text = (done.stderr or done.stdout).strip()[-300:]
            found.problems.append(f"advice does not work: {command}: {done.returncode} {text}")
            return False
        return True

    def _decommission(self, found, host):
        """Follow the steps of a decommissioning until the host is gone."""
        before = None
        for _ in range(12):
            done = run_shell(f"placement-migrate decommission {host} -f json")
            try:
                report = json.loads(done.stdout)
            except ValueError:
                if "Neither nova nor placement has" not in done.stderr:
                    found.problems.append(f"decommission: {done.returncode} {done.stderr.strip()[-300:]}")
                return
            commands = [hold["command"] for hold in report["holds"] if hold["command"]]
            if not commands or commands == before:
                break
            before = commands
            lines = [f"{each} --yes" if each.endswith("--free") else each for each in dict.fromkeys(commands)]
            if not all(self._run(found, line) for line in lines):
                break
            self._rest(QUIET / 3)
        holds = [f"{hold['step']}: {hold['subject']} {hold['text']}" for hold in report["holds"]]
        found.commands.append(f"decommission of {host} ends with {holds}")
        if not holds:
            self._run(found, f"placement-migrate decommission {host} --delete --yes")

    def _tidy(self, found):
        """Delete what nova left in a task, as its users do, and what is too much."""
        found.stuck = books.read().unsettled
        for server in found.stuck:
            with contextlib.suppress(Exception):
                self.users.act(server, **{"os-resetState": {"state": "error"}})
                self.users.delete(server)
        servers = sorted(self.users.list_servers())
        for server in servers[MOST:]:
            with contextlib.suppress(Refused):
                self.users.delete(server)


def _break(names, choice):
    for name in names:
        time.sleep(choice.uniform(0, 5))
        faults.FAULTS[name][0](choice)


def _find_uuid(text):
    found = re.search(UUID, text)
    return found and found.group()


def main(arguments=None):
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.cloud.storm", description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--operations", type=int, default=40, help="of a round (default: 40)")
    parser.add_argument("--faults", type=int, default=2, help="of a round, one after the other (default: 2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=faults.FAULTS, help="only this one")
    parser.add_argument("--json", metavar="FILE", help="what came of each round")
    options = parser.parse_args(arguments)
    storm = Storm(options.seed)
    names = [name for name, (_, often) in faults.FAULTS.items() for _ in range(often)]
    results = []
    with _following():
        for number in range(1, options.rounds + 1):
            began = time.monotonic()
            chosen = [options.fault or storm.random.choice(names) for _ in range(options.faults)]
            found = storm.run_round(chosen, storm.choose(options.operations))
            results.append(found)
            print(
                f"{number}: {', '.join(chosen)}: {found.done.total()} done, {found.refused.total()} refused, "
                f"{len(found.left)} left over, {len(found.commands)} commands, {len(found.stuck)} stuck, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
            for problem in found.problems:
                print(f"   wrong: {problem}", flush=True)
            if options.json:
                with open(options.json, "w") as file:
                    json.dump([vars(each) for each in results], file, default=sorted, indent=1)
    print("\n".join(summarize(results)))
    return 1 if any(each.problems for each in results) else 0


@contextlib.contextmanager
def _following():
    """Have ``mirror-aggregates --follow`` run."""
    line = f"{prepare_shell()}; exec placement-migrate mirror-aggregates --follow --interval 5 --prune"
    with (plane.LOGS / "mirror-aggregates.log").open("w") as log:
        process = subprocess.Popen(["bash", "-c", line], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def summarize(results):
    """A line for each fault, and one for all."""
    for name in (*faults.FAULTS, ""):
        chosen = [each for each in results if not name or name in each.faults]
        if chosen:
            done, refused = (
                sum(len(tuple(getattr(each, field).elements())) for each in chosen)
                for field in ("done", "refused")
            )
            yield (
                f"{name or 'all'}: {len(chosen)} rounds, {done + refused} operations, {refused} refused, "
                f"{sum(len(each.left) for each in chosen)} left over, "
                f"{sum(len(each.problems) for each in chosen)} wrong"
            )


if __name__ == "__main__":
    sys.exit(main())
