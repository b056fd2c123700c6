# SPDX-License-Identifier: Apache-2.0
"""Nova's functional tests, as nova's wheel carries them, run with our application or openstack-placement's.

Run as a module with the Python of `environments.make_nova_tests`, in a process of its own: nova patches the
standard library, and its tests live on globals. With ``--users`` and names of modules, print those that use
placement, a line each. With ``ours`` or ``reference``, read names of modules or tests from the standard
input, a line each, and print a line of JSON for each: the outcomes of its tests, and how many requests there
were.
"""

import importlib
import inspect
import json
import logging
import os
import sys
import traceback
import unittest
import warnings

PACKAGE = "nova.tests.functional"
#: the fixture with which nova's tests get a placement service
FIXTURE = "PlacementFixture"
#: seconds after which a test has failed; nova's own configuration has the same
LONGEST = 500
#: the end of a traceback that is kept
KEPT = 4000


class Results(unittest.TestResult):
    """The outcome of each test by its id: ``passed``, ``skipped`` or ``failed``, with the reason."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def addSuccess(self, test):  # noqa: N802  # unittest's name, as those below
        """Record it, unless something of the test has failed before."""
        self.outcomes.setdefault(test.id(), ("passed", ""))

    def addSkip(self, test, reason):  # noqa: N802
        """Record it."""
        self.outcomes[test.id()] = "skipped", reason

    def addExpectedFailure(self, test, err):  # noqa: N802
        """Record it as passed."""
        self.outcomes[test.id()] = "passed", "as expected, it failed"

    def addUnexpectedSuccess(self, test):  # noqa: N802
        """Record it as failed."""
        self.outcomes[test.id()] = "failed", "it passed, which nova does not expect"

    def addFailure(self, test, err):  # noqa: N802
        """Record it, with the end of the traceback."""
        self.outcomes[test.id()] = "failed", "".join(traceback.format_exception(*err))[-KEPT:]

    addError = addFailure  # noqa: N815

    def addSubTest(self, test, subtest, err):  # noqa: N802
        """Record the failure of a part of a test as that of the test."""
        if err is not None:
            self.addFailure(test, err)


class Deploy:
    """What nova's fixture needs of the reference's module `deploy`; it counts the requests."""

    requests = 0

    def __init__(self, load):
        self._load = load

    def loadapp(self, conf):
        """Return the application for a configuration of the reference."""
        application = self._load(conf)

        def answer(environ, start_response):
            Deploy.requests += 1
            return application(environ, start_response)

        return answer


def use_application(side):
    """Have nova's fixture answer with our application or the reference's, on the database that it makes."""
    from placement.tests import fixtures as database_fixtures
    from placement.tests.functional.fixtures import placement as placement_fixtures

    from tests.functional.conformance import reference_fixtures

    load = placement_fixtures.deploy.loadapp
    if side == "ours":
        database_fixtures.Database = reference_fixtures.FileDatabase
        load = reference_fixtures.get_application
    placement_fixtures.deploy = Deploy(load)


def run(name):
    """Run a module or a test; return the outcomes of its tests by ID, and the number of requests."""
    results = Results()
    before = Deploy.requests
    unittest.defaultTestLoader.loadTestsFromName(name).run(results)
    return {"tests": results.outcomes, "requests": Deploy.requests - before}


def uses_placement(name):
    """Return whether a class of tests in a module, or one that it inherits from, names the fixture."""
    module = importlib.import_module(name)
    classes = [thing for thing in vars(module).values() if isinstance(thing, type)]
    bases = {base for each in classes if issubclass(each, unittest.TestCase) for base in each.__mro__}
    ours = (base for base in bases if base.__module__.startswith(PACKAGE))
    return any(FIXTURE in inspect.getsource(base) for base in ours)


def main(arguments):
    """Do what the module's docstring says."""
    output = os.fdopen(os.dup(1), "w")
    # tests and nova print and log too
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    os.environ.setdefault("OS_TEST_TIMEOUT", str(LONGEST))
    # it patches the standard library, so it comes before what uses that
    importlib.import_module(PACKAGE)
    command, *modules = arguments
    if command == "--users":
        print(*filter(uses_placement, modules), sep="\n", file=output, flush=True)
        return
    use_application(command)
    for line in sys.stdin:
        print(json.dumps(run(line.strip())), file=output, flush=True)


if __name__ == "__main__":
    logging.captureWarnings(True)
    main(sys.argv[1:])
