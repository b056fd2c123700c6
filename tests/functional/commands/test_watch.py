# SPDX-License-Identifier: Apache-2.0
"""``--watch``: what a terminal shows while the cloud changes, the server fails and the operator acts."""

import pathlib
import re
import signal
import threading
import time

import pytest

from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import WholeTerminal, run_on_terminal

TREE = ("resource", "provider", "tree")
CAPACITY = ("resource", "provider", "capacity")
TOP = ("resource", "usage", "top")
RUN = ("resource", "provider", "batch", "run")
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
FAST = ("--watch", "0.1")
#: longer than a test waits
SLOW = ("--watch", "1000")


@pytest.fixture
def select(rack):
    """The option that selects the four hosts of the rack."""
    return "--aggregate", rack.aggregate


def screens(shown):
    """The lines of each screen that was drawn."""
    drawn = re.sub(r"\x1b\[[\d?]*[A-GI-Za-z]", "", shown).split(HOME)
    return [text.splitlines() for text in drawn if text.startswith("Every ")]


def state_of(process):
    """The letter for the state of a process; T if it is stopped."""
    return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def end(terminal):
    """Do what Ctrl-C does; return all that was shown, and the exit status."""
    terminal.process.send_signal(signal.SIGINT)
    return terminal.finish()


@pytest.mark.parametrize("command", [TREE, CAPACITY, TOP], ids=["tree", "capacity", "top"])
def test_watch_shows_command_time_and_interval_and_ends_at_ctrl_c(openstack, rack, command):
    """The exit status is 0, and the screen that was there before is back, with its cursor and wrapping."""
    terminal = WholeTerminal(openstack, *command, *SLOW, columns=100)
    terminal.read_until(HOME)
    terminal.read_until("Every ")
    terminal.read_until(HOME, terminal.read_until(HOME))
    shown, status = end(terminal)
    assert status == 0
    assert shown.startswith(ENTER)
    assert shown.endswith(LEAVE)
    (header, error, empty, *_), *_ = screens(shown)
    name = " ".join(("openstack", *command))
    assert re.fullmatch(rf"Every 1000 s: {name} +\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", header)
    assert len(header) == 100
    assert (error, empty) == ("", "")


def test_watch_of_a_run_shows_its_header_and_its_changes_once_a_screen(openstack, rack, select):
    """A run that has ended, or one that is under way in another terminal."""
    ratio = ("resource", "provider", "batch", "ratio", "set", "VCPU=7", *select, "--yes", "-f", "json")
    assert openstack.run(*ratio).status == 0
    run = openstack.run(*RUN, "list", "--last", "1", "-f", "json").json[0]["id"]
    terminal = WholeTerminal(openstack, *RUN, "show", run, *FAST, columns=100)
    shown = terminal.read_until("ratio set VCPU=7.0")
    terminal.read_until(HOME, terminal.read_until("ratio set VCPU=7.0", shown + 1))
    text, status = end(terminal)
    assert status == 0
    for screen in screens(text)[:2]:
        facts = [line for line in screen if line.startswith(("run:", "state:", "changes:"))]
        assert facts == [f"run:       {run}", "state:     done", "changes:   4 of 4 applied"]


def test_watch_shows_a_change_in_place(openstack, rack, select):
    """What is reserved meanwhile is in the next screen, and nothing but the screen is written."""
    terminal = WholeTerminal(openstack, *CAPACITY, *select, *FAST, "--by", "class", columns=100)
    before = terminal.read_until("448")
    client = rack.client
    generation = client.show_provider(rack.hosts[0])["generation"]
    client.set_inventories(rack.hosts[0], {"VCPU": {"total": 4}}, generation)
    terminal.read_until("340", before)
    shown, status = end(terminal)
    assert status == 0
    assert shown.count(ENTER) == shown.count(LEAVE) == 1
    # nothing scrolls, and nothing is cleared before it is written again
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("rows", [8, 9, 12])
def test_watch_fits_the_height_of_the_terminal(openstack, rack, select, rows):
    """The last line says how many rows are not shown; totals are."""
    terminal = WholeTerminal(openstack, *CAPACITY, *select, *SLOW, columns=100, rows=rows)
    terminal.read_until("more")
    terminal.read_until(HOME, terminal.read_until("Every "))
    shown, _ = end(terminal)
    (screen,) = screens(shown)
    assert len(screen) == rows
    number = int(re.fullmatch(r"\.\.\. and (\d+) more (rows|lines)", screen[-1])[1])
    if rows == 12:
        hosts = [line for line in screen if "-host" in line]
        assert len(hosts) + number == 8
        assert [line.split()[1] for line in screen if "(all)" in line] == ["(all)", "(all)"]


def test_watch_is_drawn_again_when_the_terminal_is_resized(openstack, rack, select):
    """Long before the next reading."""
    terminal = WholeTerminal(openstack, *TREE, *SLOW, columns=100, rows=40)
    first = terminal.read_until(HOME, terminal.read_until("Every "))
    terminal.resize(90, 6)
    terminal.read_until("more lines", first)
    terminal.read_until(HOME, first + 10)
    shown, _ = end(terminal)
    *_, last = screens(shown)
    assert (len(last), len(last[0])) == (6, 90)


def test_watch_survives_an_error_of_the_server(openstack, rack, select):
    """It is shown above the rows that were read before, and gone when the server answers again."""
    broken = threading.Event()

    def interfere(_method, _path):
        return (503, "text/plain", "out of order") if broken.is_set() else None

    with proxy_to(openstack.endpoint, interfere) as endpoint:
        terminal = WholeTerminal(openstack, *CAPACITY, *select, *FAST, columns=100, endpoint=endpoint)
        shown = terminal.read_until("(all)")
        broken.set()
        failed = terminal.read_until("out of order", shown)
        terminal.read_until(HOME, failed)
        broken.clear()
        # two screens later, as one may be under way
        for _ in range(3):
            failed = terminal.read_until("Every ", failed)
        terminal.read_until("(all)", failed)
        position = len(terminal.shown)
        terminal.read_until(HOME, terminal.read_until("Every ", position))
        shown, status = end(terminal)
    assert status == 0
    wrong = next(screen for screen in screens(shown) if "out of order" in screen[1])
    assert re.match(r"\d\d:\d\d:\d\d: ", wrong[1])
    assert any("(all)" in line for line in wrong)
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    "arguments", [(*TREE, "nobody"), (*CAPACITY, "nobody"), (*TOP, "--resource-class", "PGPU")]
)
def test_error_of_the_first_reading_ends_the_command(openstack, rack, arguments):
    """A mistyped name is an error as without --watch, and no screen is opened."""
    shown, status = run_on_terminal(openstack, *arguments, *FAST)
    assert status == 1
    assert " ".join(shown.split()).startswith("No resource provider")
    assert "\x1b" not in shown


def test_watch_leaves_the_terminal_at_sigterm(openstack, rack):
    """With the exit status of the signal."""
    terminal = WholeTerminal(openstack, *TREE, *SLOW)
    terminal.read_until(HOME, terminal.read_until("Every "))
    terminal.process.send_signal(signal.SIGTERM)
    shown, status = terminal.finish()
    assert status == 128 + signal.SIGTERM
    assert shown.endswith(LEAVE)


def test_watch_leaves_the_terminal_while_it_is_stopped(openstack, rack):
    """Ctrl-Z gives the screen back; when the command goes on, it draws the screen again."""
    terminal = WholeTerminal(openstack, *TREE, *SLOW)
    drawn = terminal.read_until(HOME, terminal.read_until("Every "))
    terminal.process.send_signal(signal.SIGTSTP)
    left = terminal.read_until(LEAVE, drawn)
    while state_of(terminal.process) != "T":
        time.sleep(0.01)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.read_until("Every ", terminal.read_until(ENTER, left))
    _, status = end(terminal)
    assert status == 0


@pytest.mark.parametrize("command", [TREE, CAPACITY, TOP], ids=["tree", "capacity", "top"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--watch needs a terminal as standard output"),
        (("-f", "json"), "--watch cannot be used with -f json"),
    ],
)
def test_watch_refuses_a_pipe_and_other_formats(openstack, rack, command, options, message):
    """One line, and nothing is read."""
    result = openstack.run(*command, *FAST, *options)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        (("--html", "page.html"), {}, "--watch cannot be used with --html"),
        (("-f", "csv"), {}, "--watch cannot be used with -f csv"),
        ((), {"TERM": "dumb"}, "--watch needs a terminal whose lines can be replaced, and TERM=dumb"),
    ],
)
def test_watch_on_a_terminal_refuses_what_it_cannot_show(openstack, rack, options, environment, message):
    """One line."""
    shown, status = run_on_terminal(
        openstack, *CAPACITY, *FAST, *options, columns=200, environment=environment
    )
    assert (status, shown.count("\n")) == (2, 1)
    assert message in shown


@pytest.mark.parametrize("seconds", ["0", "0.01", "-1", "soon", "nan", "inf"])
def test_watch_refuses_an_interval_that_is_none(openstack, seconds):
    """An error of the command line."""
    result = openstack.run(*TREE, "--watch", seconds)
    assert (result.status, result.out) == (2, "")
    assert f"argument --watch: must be a number of seconds, at least 0.1, not '{seconds}'\n" in result.err
