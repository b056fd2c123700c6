# SPDX-License-Identifier: Apache-2.0
"""One function over many items by several threads."""

import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osc_placement.api.concurrency import map_in_order


@settings(max_examples=30)
@given(st.lists(st.integers()), st.integers(1, 9))
def test_values_are_in_the_order_of_the_items(items, threads):
    """Values come in the order of the items, whatever the number of threads."""
    assert map_in_order(lambda item: item * 2, items, threads=threads) == [item * 2 for item in items]


def test_items_are_handled_in_parallel():
    """As many items as there are threads are under way at once: here each waits for all others."""
    together = threading.Barrier(4, timeout=10)
    assert map_in_order(lambda item: (together.wait(), item)[1], [1, 2, 3, 4], threads=4) == [1, 2, 3, 4]


def test_callback_runs_in_the_thread_of_the_caller():
    """A callback may draw on the terminal without locks; the work is done elsewhere."""
    told = []
    work = map_in_order(
        lambda item: threading.get_ident(),
        [1, 2, 3],
        threads=2,
        on_result=lambda value: told.append(threading.get_ident()),
    )
    assert told == [threading.get_ident()] * 3
    assert threading.get_ident() not in work


def test_an_exception_stops_items_that_have_not_started():
    """The first error is raised, and later items are not touched."""
    begun = []

    def fail_first(item):
        begun.append(item)
        if item == 0:
            raise ValueError(item)
        # long enough for all to be dropped many times over before the last would begin
        time.sleep(0.01)

    with pytest.raises(ValueError, match="0"):
        map_in_order(fail_first, range(1000), threads=1)
    assert len(begun) < 1000


INTERRUPTED = """
import signal, threading, time
from osc_placement.api.concurrency import map_in_order

def interrupt(_item):
    time.sleep(0.2)  # for the other to begin to wait
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    time.sleep(30)

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    map_in_order(interrupt, [1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_during_a_wait_is_raised():
    """As one that comes in the moment before the waiting begins; here another thread gets it.

    In a process of its own: what a test runner does while garbage is collected may take it for itself.
    """
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=25)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
