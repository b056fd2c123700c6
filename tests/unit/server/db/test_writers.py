# SPDX-License-Identifier: Apache-2.0
"""The lines in which a slot describes transactions, and the slots of a process."""

import multiprocessing
import types
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osc_placement.server.db import writers
from osc_placement.server.db.writers import Changes, Slots

IDS = st.integers(1, 2**31 - 1)


@st.composite
def changes(draw):
    """Changes as `record` gathers them."""
    used = draw(st.sets(IDS, max_size=20))
    some = st.sets(st.sampled_from(sorted(used))) if used else st.just(set())
    return Changes(used, draw(some), draw(st.booleans()))


@given(changes(), st.integers(1, 2**60))
def test_a_line_gives_the_same_changes(made, count):
    """Whatever they are."""
    assert Changes.from_text(made.to_text(count)) == (count, made)


def test_lines_are_short():
    """A provider takes its id and a letter."""
    made = Changes({12, 15}, {15})
    assert made.to_text(3) == "3 - 12,15c"
    made.add(Changes({12, 9}, {9}, names=True))
    assert made.to_text(4) == "4 n 9c,12,15c"
    assert Changes(names=True).to_text(5) == "5 n -"
    assert Changes(everything=True, used={1}).to_text(6) == "6 * -"
    assert Changes(used=set(range(writers.MANY + 1))).to_text(7) == "7 * -"


@pytest.mark.parametrize(
    "line", ["", "1", "1 -", "1 - 3 4", "1 0 - 1", "x - 1", "1 ? 1", "1 - c", "1 - 1x,2", "1 - 1,,2"]
)
def test_other_lines_are_refused(line):
    """As they are after somebody edited a row."""
    with pytest.raises(ValueError, match=r"."):
        Changes.from_text(line)


def test_a_slot_keeps_the_last_lines_that_fit():
    """At most so many lines, and so many characters."""
    conn = mock.Mock()
    conn.execute.return_value.rowcount = 1
    lines = tuple(str(number) for number in range(writers.LINES + 3))
    assert writers.Slot(1, 5, 7, lines).store(conn, Changes(names=True)).recent == (*lines[4:], "8 n -")
    long = Changes(used=set(range(10**9, 10**9 + 150)))
    stored = writers.Slot(1, 5, 7, ("x" * 3000,)).store(conn, long)
    assert stored.recent == (long.to_text(8),)
    assert conn.execute.call_args.args[1]["lines"] == long.to_text(8)


def test_each_process_has_slots_of_its_own():
    """A fork inherits none, and the slot of an inherited connection belongs to the parent."""
    slots, info = Slots(), {}
    mine = slots.take(info)
    slots.keep(info, writers.Slot(mine.pid, 5, 1))
    assert slots.take(info).id == 5
    slots.keep(info, writers.Slot(mine.pid, 5, 2))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def take():
        taken = slots.take(info)
        queue.put((taken.pid, taken.id))

    child = context.Process(target=take)
    child.start()
    pid, id_ = queue.get(timeout=30)
    child.join()
    assert pid == child.pid != mine.pid
    assert id_ is None
    assert slots.take(info).id == 5


def test_slot_of_a_closed_connection_rests_before_another_takes_it(monkeypatch):
    """The node of another connection may not have its last change yet."""
    slots, info = Slots(), {}
    slots.keep(info, writers.Slot(slots.take(info).pid, 7, 3))
    slots.release(None, types.SimpleNamespace(info=info))
    assert slots.take({}).id is None
    monkeypatch.setattr(writers, "REST", 0.0)
    assert slots.take({}).id == 7
