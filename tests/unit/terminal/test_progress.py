# SPDX-License-Identifier: Apache-2.0
"""What a long command shows, and how Ctrl-C stops it."""

import io
import os
import re
import signal
import time
from types import SimpleNamespace

import pytest

from osc_placement.terminal import progress
from osc_placement.terminal.progress import ProgressBar


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    """Take any work for long."""
    monkeypatch.setattr(progress, "_QUIET_SECONDS", -1.0)


def advance(stream, items):
    with ProgressBar("Changing", items, stream) as bar:
        for _ in range(items):
            bar.advance()
    return stream.getvalue()


@pytest.mark.usefixtures("at_once")
def test_a_terminal_gets_a_bar(monkeypatch):
    """The bar has the title and how far it is."""
    monkeypatch.setenv("TERM", "xterm")
    shown = advance(Terminal(), 3)
    assert "Changing" in shown
    assert "3/3" in shown


@pytest.mark.usefixtures("at_once")
def test_title_of_a_bar_is_no_markup(monkeypatch):
    """It may name a host; what looks like the end of a style would be an error in the middle of a run."""
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ProgressBar("providers of host [/x]", 2, stream) as bar:
        bar.advance()
    assert "providers of host [/x]" in stream.getvalue()


@pytest.mark.usefixtures("at_once")
def test_dumb_terminal_gets_no_bar(monkeypatch):
    """Which it could not erase: an empty line would stay."""
    monkeypatch.setenv("TERM", "dumb")
    assert advance(Terminal(), 3) == ""


def test_short_work_is_not_worth_a_bar():
    """What is done within half a second is done silently."""
    assert advance(Terminal(), 3) == ""


@pytest.mark.usefixtures("at_once")
def test_progress_is_not_shown_on_a_pipe():
    """What scripts read from stderr are errors."""
    assert advance(io.StringIO(), 3) == ""


def test_say_prints_above_the_bar(at_once):
    """It begins at the left edge and is not taken for markup; the bar is drawn again below it."""
    stream = Terminal()
    with ProgressBar("Changing", 4, stream) as bar:
        bar.advance()
        bar.say("Paused by /tmp/[x]; write 'go' there to go on.")
        bar.advance()
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\r", stream.getvalue()))
    assert "Paused by /tmp/[x]; write 'go' there to go on." in lines


def test_what_is_said_is_broken_between_words_on_a_terminal(monkeypatch):
    """Messages about a control file name its path, which is long."""
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    with ProgressBar("Changing", 4, stream) as bar:
        bar.say("Paused by ~/state/run.control; write 'go' there to go on.")
    assert stream.getvalue() == "Paused by ~/state/run.control; write\n'go' there to go on.\n"


def test_notice_is_printed_once_above_the_bar(at_once):
    """With the first item."""
    stream = Terminal()
    with ProgressBar("Changing", 4, stream, notice=["Control file: x"]) as bar:
        assert stream.getvalue() == ""
        bar.advance()
        bar.advance()
    assert stream.getvalue().startswith("Control file: x\n")
    assert stream.getvalue().count("Control file: x") == 1


@pytest.mark.parametrize("make_stream", [Terminal, io.StringIO])
def test_notice_is_not_printed_without_a_bar(make_stream):
    """Work that is over within half a second has none, and a pipe has none at all."""
    stream = make_stream()
    with ProgressBar("Changing", 4, stream, notice=["Control file: x"]) as bar:
        bar.advance()
    assert stream.getvalue() == ""


def test_bar_says_paused_in_place_of_the_rate(at_once, monkeypatch):
    """Also when what was under way ends. The rate is that of the last seconds, and none before a pause."""
    monkeypatch.setenv("TERM", "xterm")
    clock = iter([0.0, 1.0, 1.0, 2.0, 102.0, 102.25, 103.0, 112.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    bar = ProgressBar("Changing", 4, None)
    bar.pause(False)
    rates = []
    bar._bar = SimpleNamespace(task_ids=[0], update=lambda _id, rate, **_fields: rates.append(rate))
    bar._is_terminal = True
    bar.pause(True)
    bar.advance()
    bar.pause(False)
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.5)
    for _ in range(3):
        bar.advance()
    assert rates == ["paused", "paused", "", "", "2/s", "0.11/s"]


def test_say_prints_a_line_without_a_bar():
    """And without a standard error nobody hears it."""
    stream = io.StringIO()
    ProgressBar("Changing", 4, stream).say("Going on.")
    ProgressBar("Changing", 4, None).say("Going on.")
    assert stream.getvalue() == "Going on.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_sets_the_event_and_says_what_happens(number):
    """The work goes on to a good end, and the operator knows; a job that is cancelled ends as well."""
    stream = io.StringIO()
    bar = ProgressBar("Changing", 4, stream)
    with bar.stop_on_interrupt() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(10)
    assert stream.getvalue() == "Finishing what is under way; Ctrl-C again to leave at once.\n"


def test_interrupt_without_standard_error_prints_nothing(capsys):
    """What is printed to no stream would go to standard output, among the rows."""
    with pytest.raises(KeyboardInterrupt), progress.nothing_changed_on_interrupt(None):
        raise KeyboardInterrupt
    assert capsys.readouterr().out == ""


def test_second_ctrl_c_erases_the_bar_before_it_says_farewell(at_once, monkeypatch):
    """What is drawn after it would be the last line, and the run is not named there."""
    monkeypatch.setattr(progress.os, "_exit", lambda status: None)
    terminal = Terminal()
    with ProgressBar("Changing", 4, terminal) as bar:
        bar.advance()
        with bar.stop_on_interrupt("See the run."):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            drawn = terminal.getvalue()
            time.sleep(0.3)
            assert terminal.getvalue() == drawn
    assert drawn.splitlines()[-1].endswith("See the run.")


def test_handlers_of_signals_are_restored():
    """The signal is ours for as long as the work takes."""
    before = signal.getsignal(signal.SIGTERM)
    with ProgressBar("Changing", 4, io.StringIO()).stop_on_interrupt():
        pass
    assert signal.getsignal(signal.SIGTERM) == before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_without_a_terminal_a_line_is_printed_every_minute(monkeypatch):
    """For logs: how many of how many, how fast and how long; not more often than once a while."""
    clock = iter([0.0, 30.0, 100.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    with progress.ProgressBar("Changing", 4, stream) as bar:
        bar.advance()
        bar.advance()
    assert stream.getvalue() == "Changing: 2 of 4, 0.0 a second, 100 s left\n"


def test_without_a_terminal_a_quiet_bar_prints_what_is_said_only(monkeypatch):
    """No line a minute, for scripts that read standard error."""
    clock = iter([0.0, 30.0, 100.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    with progress.ProgressBar("Changing", 4, stream, is_quiet=True) as bar:
        bar.advance()
        bar.advance()
        bar.say("stopped")
    assert stream.getvalue() == "stopped\n"
