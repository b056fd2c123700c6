# SPDX-License-Identifier: Apache-2.0
"""The HTTP test suite that openstack-placement's wheel carries, run against our application.

Run as a module, in a process of its own, because the suite's fixtures live on globals of the reference. They
make their data with the reference's own code in a SQLite file; our application then answers every request, on
that file and with the configuration and policy that the fixture chose. Prints one JSON object: how many
requests there were, and what came of those that did not pass.
"""

import json
import pathlib
import sys
import unittest

import placement.tests.functional
from gabbi import driver
from placement.tests.functional.fixtures import capture
from placement.tests.functional.fixtures import gabbits as fixtures
from placement.tests.unit import policy_fixture

from tests.functional.conformance import reference_fixtures

#: policy rules that the fixture in use sets on the reference's enforcer
rules = {}


def record_policy(fixture):
    """Make the reference's policy fixture tell us the rules. It names itself, so it cannot be subclassed."""
    set_up = fixture.setUp

    def forget_and_set_up(self):
        rules.clear()
        set_up(self)

    fixture.setUp = forget_and_set_up
    fixture.set_rules = staticmethod(lambda changed, overwrite=True: rules.update(changed))


def answer(environ, start_response):
    """Answer with our application, which is made at the first request after a fixture was set up."""
    return reference_fixtures.get_application(fixtures.CONF, rules)(environ, start_response)


def load_tests(loader, tests, pattern):
    """unittest's protocol for making a suite."""
    directory = pathlib.Path(placement.tests.functional.__file__).parent / "gabbits"
    return driver.build_tests(
        str(directory),
        loader,
        host=None,
        test_loader_name=__name__,
        intercept=lambda: answer,
        fixture_module=fixtures,
        inner_fixtures=[capture.Logging],
    )


def main():
    """Run everything and print what came of it."""
    fixtures.fixtures.Database = reference_fixtures.FileDatabase
    record_policy(policy_fixture.PolicyFixture)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TestResult()
    suite.run(result)
    bad = result.failures + result.errors
    report = {"run": result.testsRun, "failed": {str(test): text[-1500:] for test, text in bad}}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
