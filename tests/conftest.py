# SPDX-License-Identifier: Apache-2.0
"""Fixtures for every test: databases, along the axis of the kinds of database."""

import contextlib

import hypothesis
import pytest

from tests import databases

# how long an example takes tells more of the machine's other work than of the code
hypothesis.settings.register_profile("tests", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("tests")


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
