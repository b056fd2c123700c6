# SPDX-License-Identifier: Apache-2.0
"""Running openstack-placement over HTTP for tests, under gunicorn."""

import contextlib
from unittest import mock

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
    # each worker writes the standard traits when it starts, which SQLite lets one of them do
    workers = 1 if url.startswith("sqlite") else measured.WORKERS
    with mock.patch.object(measured, "WORKERS", workers):
        server = measured.Server(measured.REFERENCE, Workspace(place, binaries, binaries, binaries), url)
    if sync:
        server.make_tables()
    with measured.started(server):
        yield server.url
