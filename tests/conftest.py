# SPDX-License-Identifier: Apache-2.0
"""Fixtures for every test: databases, along the axis of the kinds of database."""

import contextlib
import pathlib

import coverage
import hypothesis
import pytest

from tests import databases
from tests.functional import forking

# how long an example takes tells more of the machine's other work than of the code
hypothesis.settings.register_profile("tests", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("tests")

#: the files that take longest, the longest first; with others at the end, one core would wait for another
LONGEST = (
    "reliability/test_schedules.py",
    "functional/packaging/test_compat.py",
    "functional/commands/test_parity.py",
    "functional/migrate/test_providers.py",
    "functional/db/test_writers.py",
    "reliability/test_staleness.py",
    "functional/conformance/test_nova.py",
    "functional/commands/test_batch_runs.py",
    "functional/commands/test_apply_overfull.py",
    "functional/migrate/test_ports.py",
    "reliability/test_schedules_of_clients.py",
    "functional/migrate/test_cloud.py",
    "reliability/test_storms.py",
    "functional/migrate/test_move_baremetal.py",
    "functional/server/test_metrics.py",
    "functional/completion/test_completion.py",
    "reliability/test_crashes.py",
    "functional/migrate/test_flavors.py",
    "functional/server/test_shadow.py",
    "functional/test_user_pages.py",
    "functional/test_readme.py",
    "functional/server/test_serve.py",
    "functional/keystone/test_keystone.py",
    "functional/commands/test_main_job.py",
    "functional/server/test_reload.py",
    "reliability/test_overload.py",
    "reliability/differential/test_replayed.py",
    "functional/conformance/test_conformance.py",
    "functional/commands/test_state.py",
    "reliability/test_cluster.py",
    "reliability/test_linearizability.py",
    "functional/conformance/test_sdk.py",
    "reliability/differential/test_differential.py",
    "functional/migrate/test_nova_api.py",
    "unit/candidates/test_search.py",
    "unit/migrate/migrations/test_memory.py",
)

#: what has whole systems run beside each other, or tries thousands of random inputs: it takes half as long
#: again where it is measured, and reaches next to nothing that other tests do not
UNMEASURED = (
    "functional/benchmarks",
    "functional/conformance",
    "functional/db/test_exchange.py",
    "functional/keystone",
    "functional/migrate/test_cloud.py",
    "functional/migrate/test_move_baremetal.py",
    "functional/packaging",
    "reliability",
    "unit/candidates/test_search.py",
    "unit/migrate/migrations/test_memory.py",
    "unit/report/test_explain.py",
)
TESTS = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Pause the measurement of coverage, if there is any, for what need not be measured."""
    measured = coverage.Coverage.current()
    if measured is None or not any(item.path.is_relative_to(TESTS / name) for name in UNMEASURED):
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        # those are in force since the first start, and each start would apply them once more
        measured.set_option("run:patch", [])
        measured.start()


@pytest.fixture(scope="session", autouse=True)
def _fork_servers():
    """End those that were needed, when all that came from them is over."""
    yield
    forking.close_servers()


@pytest.fixture(scope="session", params=databases.BACKENDS)
def backend(request):
    """The kind of database; whoever uses this runs once for each."""
    return request.param


@pytest.fixture
def make_database(backend, tmp_path):
    """A function that makes one more empty database of this kind, and returns its URL."""
    with contextlib.ExitStack() as made:
        yield lambda: made.enter_context(databases.make_database(backend, tmp_path))


@pytest.fixture
def database_url(make_database):
    """The URL of an empty database of this kind."""
    return make_database()
