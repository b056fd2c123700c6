# SPDX-License-Identifier: Apache-2.0
"""A source that is opened while something else is done."""

import threading

import pytest

from osc_placement.migrate.nova.source import Opening, Unreadable

PATIENCE = 10


class Source:
    """A source that says when it was closed, and waits for a word before it is open."""

    def __init__(self):
        self.go = threading.Event()
        self.closed = threading.Event()

    def prepare(self):
        assert self.go.wait(PATIENCE)

    def close(self):
        self.closed.set()


def test_call_waits_until_the_source_is_open():
    """It is prepared by then, and the same for everybody."""
    source = Source()
    opening = Opening(lambda: source)
    source.go.set()
    assert opening() is source
    assert opening() is source
    opening.close()
    assert source.closed.wait(PATIENCE)


def test_call_raises_the_error_of_opening():
    """And only there: who does not want it, as placement did not answer, hears of that alone."""

    def fail():
        raise Unreadable("nova's API database", "nobody is at home")

    opening = Opening(fail)
    with pytest.raises(Unreadable, match="nobody is at home"):
        opening()
    opening.close()


def test_close_does_not_wait_until_the_source_is_open():
    """A source that nobody wants any more is closed when it is open at last."""
    source = Source()
    opening = Opening(lambda: source)
    opening.close()
    assert not source.closed.is_set()
    source.go.set()
    assert source.closed.wait(PATIENCE)
