# SPDX-License-Identifier: Apache-2.0
"""How far a run is, told on a terminal only."""

import io

import pytest

from osc_placement.terminal import progress


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self):
        """It is one."""
        return True


def count(stream, number):
    """Count so many of 5."""
    with progress.ProgressLine("Healing", 5, stream) as shown:
        for _ in range(number):
            shown.advance(None)


def test_terminal_sees_the_count_and_then_nothing_of_it(monkeypatch):
    """Each is told, and the line is cleared in the end."""
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_COUNTS", 0)
    terminal = Terminal()
    count(terminal, 2)
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines == ["", "Healing: 1 of 5", "Healing: 2 of 5", ""]


def test_quick_counts_are_not_all_told():
    """A line is written a few times a second at most."""
    terminal = Terminal()
    count(terminal, 5)
    assert terminal.getvalue().count("of 5") == 1


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_file_sees_nothing(stream):
    """What is no terminal, or closed, gets no word."""
    count(stream, 5)
    assert stream is None or stream.getvalue() == ""
