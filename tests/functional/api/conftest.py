# SPDX-License-Identifier: Apache-2.0
"""Our server in this process, on each kind of database."""

import pytest
from oslo_config import cfg

from osc_placement.server import conf as server_conf
from osc_placement.server import deploy
from tests import databases


def make_application(url):
    """Our server on this database, which it brings up to date, for callers who name themselves."""
    conf = cfg.ConfigOpts()
    server_conf.register_opts(conf)
    conf.set_default("connection", url, "placement_database")
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("sync_on_startup", True, "placement_database")
    conf.set_override("auth_strategy", "noauth2", "api")
    return deploy.loadapp(conf)


@pytest.fixture(scope="module")
def application(backend, tmp_path_factory):
    """The server; its database lives as long as the tests of one file on one kind of database."""
    with databases.make_database(backend, tmp_path_factory.mktemp("placement")) as url:
        yield make_application(url)
