# SPDX-License-Identifier: Apache-2.0
"""Fixtures of openstack-placement's tests with which our application can answer in place of its own.

Import this in a process of its own, because those fixtures live on globals of the reference.
"""

import json
import pathlib
import shutil
import tempfile

from oslo_config import cfg
from placement.tests import fixtures as database_fixtures

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

#: our application for each `FileDatabase` that is in use, by its directory
_applications = {}


class FileDatabase(database_fixtures.Database):
    """The reference's database fixture, on a file that another application can open too."""

    def __init__(self, conf_fixture, set_config=False):
        self._directory = pathlib.Path(tempfile.mkdtemp())
        url = f"sqlite:///{self._directory}/placement.db"
        conf_fixture.config(connection=url, group="placement_database")
        super().__init__(conf_fixture, set_config)

    def cleanUp(self, *arguments, **keywords):  # noqa: N802  # the name that the library calls
        """Delete the database, and forget our application, which may still be reading it in a thread."""
        _applications.pop(self._directory, None)
        try:
            return super().cleanUp(*arguments, **keywords)
        finally:
            shutil.rmtree(self._directory)


def get_application(theirs, rules=()):
    """Return our application for a configuration of the reference on a `FileDatabase`.

    :param rules: a mapping of rules of the policy, by name, which replace the defaults
    """
    directory = pathlib.Path(theirs.placement_database.connection.removeprefix("sqlite:///")).parent
    if directory not in _applications:
        policy_file = directory / "policy.yaml"
        policy_file.write_text(json.dumps(dict(rules)))
        _applications[directory] = deploy.loadapp(_make_conf(theirs, policy_file))
    return _applications[directory]


def _make_conf(theirs, policy_file):
    """Return our configuration with what the fixture set in the reference's."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    for group, option in OPTIONS:
        conf.set_override(option, theirs[group][option], group)
    conf.set_override("auth_strategy", "noauth2", "api")
    # nobody needs these databases after a power failure
    conf.set_override("sqlite_synchronous", False, "placement_database")
    conf.set_override("policy_file", str(policy_file), "oslo_policy")
    conf([], default_config_files=[])
    return conf
