# SPDX-License-Identifier: Apache-2.0
"""Running nova's functional tests with our server and with openstack-placement, and comparing the outcomes.

Each side is a process of `nova_suite`, and both run the same module at the same time, so two processes run.
"""

import contextlib
import json
import os
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata

from benchmarks import environments

SUITE = "tests.functional.conformance.nova_suite"
PACKAGE = "nova.tests.functional"
OURS, REFERENCE = "ours", "reference"
#: how often a test with different outcomes is run again by itself, with both servers
REPEATS = 3
#: lines of the error of a failed test that are printed
ERROR_LINES = 4


class NoSuchModule(Exception):
    """Nova has no such module of functional tests; the text says what to do."""


class NotLoadable(Exception):
    """Nova's tests cannot be imported; the text says why."""


class Ended(Exception):
    """The process of one side ended in the middle of a module; the text says how."""


@dataclass(frozen=True)
class Outcomes:
    """What came of the tests of a module on one side.

    :ivar tests: of each test, by its ID, ``passed``, ``failed`` or ``skipped``, and the reason
    :ivar requests: how many requests the placement service answered
    """

    tests: dict
    requests: int

    def get(self, test):
        """Return the outcome of a test without the reason."""
        return self.tests.get(test, ("not run", ""))[0]

    def describe(self):
        """Return the numbers as text."""
        counts = Counter(outcome for outcome, _ in self.tests.values())
        numbers = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))
        return f"{numbers}, {self.requests} requests"


class Side:
    """A process that runs tests with one of the two servers; a new one is started if it ends."""

    def __init__(self, python, name, directory):
        self._command = [python, "-m", SUITE, name]
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        self._environment["TMPDIR"] = directory
        self._process = None

    def run(self, name):
        """Run a module or a test; the outcomes.

        :raises Ended: the process ended before all tests were run
        """
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                cwd=environments.ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{name}\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise Ended(f"the process ended with status {self.close()}")
        return Outcomes(**json.loads(line))

    def close(self):
        """End the process, if there is one; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        # what is left of a test may keep it from ending by itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        process.kill()
        process.stdout.close()
        return process.wait()


class Pair:
    """Both sides, whose tests write to a directory."""

    def __init__(self, python, directory):
        self._sides = {name: Side(python, name, directory) for name in (OURS, REFERENCE)}
        self._threads = ThreadPoolExecutor(max_workers=len(self._sides))

    def run(self, name):
        """Run a module or a test with both; the outcomes by side."""
        running = {side: self._threads.submit(self._run, side, name) for side in self._sides}
        return {side: future.result() for side, future in running.items()}

    def _run(self, side, name):
        try:
            return self._sides[side].run(name)
        except Ended as error:
            return Outcomes({name: ("failed", str(error))}, 0)

    def close(self):
        """End both processes."""
        for side in self._sides.values():
            side.close()
        self._threads.shutdown()


def run(names, *, only_list=False):
    """Run modules, by default all that use placement, and print what came of them; the exit status.

    :raises NoSuchModule: there is no module of this name
    :raises NotLoadable: nova's tests cannot be imported
    :raises environments.NotInstallable: nova cannot be installed
    """
    python = environments.make_nova_tests() / "python"
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    modules = choose(find_modules(packages), names or [PACKAGE], partial(find_users, python))
    if only_list:
        print(*map(shorten, modules), sep="\n")
        return 0
    print(
        f"{describe_version(packages, 'nova')}, {describe_version(packages, 'openstack-placement')}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as directory, contextlib.closing(Pair(python, directory)) as pair:
        return report(pair, modules)


def find_modules(packages):
    """Return the names of the modules with functional tests of the nova in a directory of packages."""
    root = packages / PACKAGE.replace(".", "/")
    paths = (path.relative_to(packages).with_suffix("") for path in root.rglob("test_*.py"))
    return sorted(".".join(path.parts) for path in paths)


def describe_version(packages, name):
    """Return the name of a distribution in a directory of packages with its version."""
    (found,) = metadata.distributions(name=name, path=[str(packages)])
    return f"{name} {found.version}"


def find_users(python, modules):
    """Return those of the modules that use placement.

    :raises NotLoadable: one of them cannot be imported
    """
    command = [python, "-m", SUITE, "--users", *modules]
    done = subprocess.run(command, cwd=environments.ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotLoadable(f"nova's tests cannot be loaded: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.split()


def choose(modules, names, find_users):
    """Return the modules with these names, and of packages with these names those that use placement.

    :param find_users: returns those of some modules that use placement; it is called once, if at all
    :raises NoSuchModule: there is none with one of these names
    """
    chosen, of_packages = set(), set()
    for name in names:
        full = name if name == PACKAGE else f"{PACKAGE}.{shorten(name)}"
        found = {module for module in modules if module == full or module.startswith(f"{full}.")}
        if not found:
            raise NoSuchModule(
                f"nova has no functional tests {name!r}: 'tools/conformance nova --list' prints the modules"
            )
        (chosen if full in found else of_packages).update(found)
    if of_packages:
        chosen.update(find_users(sorted(of_packages)))
    return sorted(chosen)


def shorten(name):
    """Return the name of a module without that of the package of all functional tests."""
    return name.removeprefix(f"{PACKAGE}.")


def report(pair, modules):
    """Run modules with both servers, and print a line for each and then the differences; the exit status."""
    differences, unsteady, failed_with_both = [], [], []
    for module in modules:
        outcomes = pair.run(module)
        ours, reference = outcomes[OURS], outcomes[REFERENCE]
        found = compare(ours, reference)
        different = []
        for test in found:
            text = describe(test, ours, reference)
            (different if is_repeatable(pair, test) else unsteady).append(text)
        if bool(ours.requests) != bool(reference.requests):
            different.append(f"{module}: only one of the two servers was asked anything")
        differences += different
        failed_with_both += (
            describe(test, ours, reference)
            for test in ours.tests
            if ours.get(test) == reference.get(test) == "failed"
        )
        print(
            f"{shorten(module)}: {len(ours.tests | reference.tests)} tests; "
            f"ours {ours.describe()}; reference {reference.describe()}; {len(different)} differ",
            flush=True,
        )
    for title, texts in (
        (f"differed once, and not when they were run again {REPEATS} times", unsteady),
        ("failed with both servers", failed_with_both),
        ("differ", differences),
    ):
        if texts:
            print(f"\n{title}:\n", *texts, sep="\n")
    print(f"\n{len(modules)} modules, {len(differences)} differences")
    return 1 if differences else 0


def compare(ours, reference):
    """Return the IDs of the tests whose outcomes are different."""
    return [test for test in ours.tests | reference.tests if ours.get(test) != reference.get(test)]


def is_repeatable(pair, test):
    """Return whether the outcomes of a test are different again in one of some more runs.

    They are if it cannot be run by itself, as what unittest calls ``setUpClass (...)``.
    """
    # one of several scenarios cannot be run by its name
    name = test.partition("(")[0]
    for _ in range(REPEATS):
        outcomes = pair.run(name)
        ours, reference = outcomes[OURS], outcomes[REFERENCE]
        if test not in ours.tests | reference.tests or test in compare(ours, reference):
            return True
    return False


def describe(test, ours, reference):
    """Return the outcomes of a test on both sides as text, with the reasons."""
    lines = [test]
    for side, outcomes in ((OURS, ours), (REFERENCE, reference)):
        outcome, reason = outcomes.tests.get(test, ("not run", ""))
        lines += [f"    {side}: {outcome}", *(f"        {line}" for line in find_error(reason))]
    return "\n".join(lines)


def find_error(text):
    """Return the first lines of the error that a traceback ends with, or of another text."""
    lines = text.strip().splitlines()
    # lines of a traceback are indented
    last = max((place for place, line in enumerate(lines) if line.startswith('  File "')), default=None)
    if last is not None:
        ends = (place for place in range(last, len(lines)) if not lines[place].startswith(" "))
        lines = lines[next(ends, len(lines)) :]
    return lines[:ERROR_LINES]
