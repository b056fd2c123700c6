# SPDX-License-Identifier: Apache-2.0
"""Running openstack-placement over HTTP for tests, under gunicorn."""

import contextlib

from benchmarks import servers as measured
from benchmarks.case import Workspace
from tests.functional import servers


@contextlib.contextmanager
def running(directory, url, *, sync=False, rules=measured.POLICY):
    """Run openstack-placement on a database, in a directory below this one; its URL.

    :param sync: make its tables first; without it the database has them
    :param rules: its policy; by default administrators may reshape
    """
    place = directory / "reference"
    place.mkdir()
    policy = place / "policy.yaml"
    policy.write_text(rules)
    settings = measured.CONFIGURATION.format(database=url, policy=policy)
    (place / "placement.conf").write_text(settings)
    binaries = servers.PROGRAM.parent
    server = measured.Server(measured.REFERENCE, Workspace(place, binaries, binaries, binaries))
    if sync:
        server.make_tables()
    with measured.started(server):
        yield server.url
