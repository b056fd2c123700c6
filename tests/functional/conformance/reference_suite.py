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
import tempfile
import unittest

import placement.tests.functional
from gabbi import driver
from oslo_config import cfg
from placement.tests import fixtures as database_fixtures
from placement.tests.functional.fixtures import capture
from placement.tests.functional.fixtures import gabbits as fixtures
from placement.tests.unit import policy_fixture

from osc_placement.server import conf as configuration
from osc_placement.server import deploy

#: options that fixtures set, and our application therefore takes over
OPTIONS = (
    ("placement_database", "connection"),
    ("oslo_policy", "enforce_new_defaults"),
    ("cors", "allowed_origin"),
    ("cors", "allow_headers"),
    ("placement", "randomize_allocation_candidates"),
    ("placement", "max_allocation_candidates"),
    ("placement", "allocation_candidates_generation_strategy"),
)

#: policy rules that the fixture in use sets on the reference's enforcer
rules = {}
#: the application, by the connection of its database, which is a new file for each fixture
applications = {}


class FileDatabase(database_fixtures.Database):
    """The reference's database fixture, on a file that another application can open too."""

    def __init__(self, conf_fixture, set_config=False):
        directory = tempfile.mkdtemp()
        conf_fixture.config(connection=f"sqlite:///{directory}/placement.db", group="placement_database")
        super().__init__(conf_fixture, set_config)


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
    connection = fixtures.CONF.placement_database.connection
    if connection not in applications:
        applications.clear()
        applications[connection] = deploy.loadapp(make_conf(fixtures.CONF))
    return applications[connection](environ, start_response)


def make_conf(theirs):
    """Our configuration with what the fixture set in the reference's."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    for group, option in OPTIONS:
        conf.set_override(option, theirs[group][option], group)
    conf.set_override("auth_strategy", "noauth2", "api")
    policy_file = pathlib.Path(tempfile.mkdtemp()) / "policy.yaml"
    policy_file.write_text(json.dumps(rules))
    conf.set_override("policy_file", str(policy_file), "oslo_policy")
    conf([], default_config_files=[])
    return conf


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
    fixtures.fixtures.Database = FileDatabase
    record_policy(policy_fixture.PolicyFixture)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TestResult()
    suite.run(result)
    bad = result.failures + result.errors
    report = {"run": result.testsRun, "failed": {str(test): text[-1500:] for test, text in bad}}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
