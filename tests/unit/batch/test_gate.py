# SPDX-License-Identifier: Apache-2.0
"""What every write has to pass: rates, pauses, stops and failures."""

import threading

import pytest

from osc_placement.batch.gate import Gate, Order, parse_order


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("", Order()),
        ("rate 5\n", Order(5.0)),
        ("rate none", Order(0.0)),
        ("pause\n", Order(is_paused=True)),
        ("pause\ngo\n", Order()),
        ("rate 2\npause\n", Order(2.0, is_paused=True)),
        ("RATE 2\nrate 7\nstop", Order(7.0, is_stopped=True)),
        ("rate -1\nrate x\nrate nan\nra", Order(unknown=("rate -1", "rate x", "rate nan"))),
        ("# at night\n\nPaus\nstop now\nrate 2", Order(2.0, is_stopped=True, unknown=("Paus",))),
        ("pause\nsto", Order(is_paused=True)),
    ],
)
def test_last_order_of_a_control_file_is_used(text, order):
    """A line that is not known is kept for a message, unless it may be half written."""
    assert parse_order(text) == order


def test_open_gate_passes_everything():
    """Nothing was asked for, nothing is in the way."""
    assert Gate().wait() == ""


def test_gate_stops_after_more_failures_than_allowed():
    """As many as allowed are borne, one more stops the run and is its reason."""
    gate = Gate(max_failures=1)
    gate.count_failure()
    assert gate.wait() == ""
    gate.count_failure()
    assert gate.wait() == gate.halted == "stopped after more than 1 failures"


def test_stop_by_failures_does_not_set_the_event_of_the_caller():
    """Whoever gave the event takes it for somebody's wish: a command would end as if it were interrupted."""
    asked = threading.Event()
    gate = Gate(max_failures=0)
    gate.stop_with(asked)
    gate.count_failure()
    assert (gate.stopped, gate.wait(), asked.is_set()) == (True, "stopped after more than 0 failures", False)


def test_stop_by_the_control_file_does_not_set_the_event_of_the_caller(tmp_path):
    """The control file stops one run, and not whatever comes after it."""
    control = tmp_path / "control"
    control.write_text("stop\n")
    asked = threading.Event()
    gate = Gate(control=control)
    gate.stop_with(asked)
    assert (gate.wait(), gate.stopped, asked.is_set()) == ("stopped", True, False)


def test_event_of_the_caller_stops_the_gate(tmp_path):
    """Also while writes wait for their turn."""
    asked = threading.Event()
    gate = Gate(rate=0.01)
    gate.stop_with(asked)
    assert gate.wait() == ""
    threading.Timer(0.1, asked.set).start()
    assert gate.wait() == "stopped"


def test_pause_lasts_until_the_control_file_ends_it(tmp_path):
    """What waits passes when the file says so, and each turn of events is told once."""
    control = tmp_path / "control"
    control.write_text("pause\n")
    told, pauses = [], []
    gate = Gate(control=control, on_event=told.append, on_pause=pauses.append)
    passed = threading.Event()
    thread = threading.Thread(target=lambda: (gate.wait(), passed.set()))
    thread.start()
    assert not passed.wait(0.5)
    control.write_text("pause\nrate 100\ngo\n")
    assert passed.wait(30)
    thread.join()
    assert told == [
        f"Paused by {control}; write 'go' there to go on.",
        "Going on.",
        "Rate: 100 a second.",
    ]
    assert pauses == [True, False]


@pytest.mark.parametrize("text", ["", "puase\n", "# later\n", "sto", "rate 5\n"])
def test_a_paused_run_stays_paused_until_a_line_says_otherwise(text):
    """Whatever else is written over the pause, such as a mistyped line or a rate."""
    paused = Order(is_paused=True)
    assert parse_order(text, paused).is_paused
    assert not parse_order(text).is_paused
    for line in ("go\n", "stop\n"):
        assert not parse_order(text + "\n" + line, paused).is_paused


def test_a_rate_lasts_until_the_next(tmp_path):
    """A pause and its end that are written over it leave it, so that no rate changes without a message."""
    control = tmp_path / "control"
    told = []
    gate = Gate(rate=7.0, control=control, on_event=told.append)
    for text in ("rate 1000\n", "# a pause and its end\ngo\n", "rate none\n", "rate 500\n"):
        gate._next_look = 0
        control.write_text(text)
        gate.wait()
    assert told == ["Rate: 1000 a second.", "Rate: unlimited.", "Rate: 500 a second."]
    assert parse_order("pause\n", Order(2.0)) == Order(2.0, is_paused=True)
    assert parse_order("go\n", Order(2.0, is_paused=True)) == Order(2.0)


def test_unknown_line_of_the_control_file_is_told_once(tmp_path):
    """An operator who mistypes a pause learns at once that the run goes on."""
    control = tmp_path / "control"
    control.write_text("paus\n")
    told = []
    gate = Gate(control=control, on_event=told.append)
    assert gate.wait() == ""
    words = "rate NUMBER (of changes a second), rate none, pause, go, stop"
    assert told == [f"{control} has a line that is ignored: 'paus'. A line is one of: {words}."]
    gate._next_look = 0
    control.write_text("paus\nrate 100\n")
    assert gate.wait() == ""
    assert told[1:] == ["Rate: 100 a second."]


def test_control_file_that_cannot_be_read_is_told_once(tmp_path):
    """An operator who gave a directory learns that no line will stop the run; no file at all is usual."""
    control = tmp_path / "control"
    told = []
    gate = Gate(control=control, on_event=told.append)
    assert (gate.wait(), told) == ("", [])
    control.mkdir()
    for _ in range(2):
        gate._next_look = 0
        assert gate.wait() == ""
    assert told == [f"{control} is not obeyed, as it cannot be read: Is a directory."]
    control.rmdir()
    control.write_text("stop")
    gate._next_look = 0
    assert gate.wait() == "stopped"


def test_control_file_in_the_home_directory_is_named_with_a_tilde(tmp_path, monkeypatch):
    """As the message that names it at first does."""
    monkeypatch.setenv("HOME", str(tmp_path))
    control, told = tmp_path / "run.control", []
    control.write_text("stop\n")
    Gate(control=control, on_event=told.append).wait()
    assert told == ["Stopped by ~/run.control."]


def test_stop_in_the_control_file_stops_the_gate(tmp_path):
    """The file stops the run as Ctrl-C does."""
    control = tmp_path / "control"
    control.write_text("stop")
    gate = Gate(control=control)
    assert gate.wait() == "stopped"
    assert gate.stopped


def test_a_rate_spaces_writes_out(monkeypatch):
    """Two a second: the third passes a second after the first, whatever the clock did before."""
    now = [100.0]
    monkeypatch.setattr("osc_placement.batch.gate.time.monotonic", lambda: now[0])
    gate = Gate(rate=2.0)
    monkeypatch.setattr(gate.stop, "wait", lambda pause: now.__setitem__(0, now[0] + pause))
    times = []
    for _ in range(3):
        assert gate.wait() == ""
        times.append(round(now[0] - 100.0, 3))
    assert times == [0.0, 0.5, 1.0]
