# SPDX-License-Identifier: Apache-2.0
"""Text for terminals and for other streams."""

import io
import re
from types import SimpleNamespace

import pytest

from osc_placement.terminal.confirmation import ConfirmedCommand, confirm
from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import say, tell, wrap_for


class Terminal(io.StringIO):
    """A terminal in memory."""

    def isatty(self):
        """A terminal is one."""
        return True


def test_a_text_is_broken_between_words_on_a_terminal_only(monkeypatch):
    """A file or pipe gets one line, which programs read."""
    monkeypatch.setenv("COLUMNS", "20")
    text = "Plan these 2 again, and show the new plan?"
    assert wrap_for(Terminal(), text) == ["Plan these 2 again,", "and show the new", "plan?"]
    assert wrap_for(io.StringIO(), text) == [text]


def test_a_message_is_printed_in_one_write(monkeypatch):
    """What the reader of a pipe prints on the same terminal does not come between its lines."""
    monkeypatch.setenv("COLUMNS", "20")
    terminal, writes = Terminal(), []
    monkeypatch.setattr(terminal, "write", writes.append)
    tell(terminal, "Plan these 2 again, and show the new plan?")
    say(terminal, ["a name\x1b", "another"])
    assert writes == ["Plan these 2 again,\nand show the new\nplan?\n", "a name\\x1b\nanother\n"]
    tell(None, "nobody reads this")


@pytest.mark.parametrize(
    ("line", "coloured"),
    [
        ("| host | +CUSTOM_GOLD | applied |", "| host | {32}+CUSTOM_GOLD{0} | {32}applied{0} |"),
        ("    + VCPU:total=8", "{32}    + VCPU:total=8{0}"),
        ("- trait CUSTOM_GOLD", "{31}- trait CUSTOM_GOLD{0}"),
        ("~ resource provider host", "{33}~ resource provider host{0}"),
        ("       50  -CUSTOM_GOLD", "       50  {31}-CUSTOM_GOLD{0}"),
        ("        2  VCPU:reserved from 0 to 2", "        2  {33}VCPU:reserved from 0 to 2{0}"),
        ("        1  resource provider created", "        1  {32}resource provider created{0}"),
        ("       50  unchanged: has it already", "       50  unchanged: has it already"),
        ("change: VCPU:reserved from 0 to 2", "change: {33}VCPU:reserved from 0 to 2{0}"),
        ("result: refused", "result: {1;31}refused{0}"),
        ("Refused: host: in use; give -f json", "{1;31}Refused{0}: host: in use; give -f json"),
        ("Warning: -1 is less than 0", "{33}Warning{0}: -1 is less than 0"),
        (
            "trait add A: 5 resource providers, 2 applied, 1 in part, 2 failed",
            "trait add A: 5 resource providers, {32}2 applied{0}, {33}1 in part{0}, {1;31}2 failed{0}",
        ),
        ("+------+-------------+", "+------+-------------+"),
        ("| a\x1b[0m | +b\x1b[2J |", r"| a\x1b[0m | {32}+b\x1b[2J{0} |"),
    ],
)
def test_plans_and_results_have_colours_where_the_terminal_has_them(monkeypatch, line, coloured):
    """Nowhere else; and what others wrote has none of its own."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, pipe = Terminal(), io.StringIO()
    say(terminal, [line])
    assert terminal.getvalue() == re.sub(r"\{([\d;]+)\}", "\x1b[\\1m", coloured) + "\n"
    say(pipe, [line])
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
        plain = Terminal()
        say(plain, [line])
        assert plain.getvalue() == pipe.getvalue() == printable(line) + "\n"


@pytest.mark.parametrize(
    ("cloud", "region", "told"),
    [
        ("prod", "R1", "Cloud prod, region R1: "),
        ("prod", "", "Cloud prod: "),
        (None, "R1", "Placement at http://placement.test: "),
    ],
)
def test_question_names_the_cloud_that_is_changed(cloud, region, told):
    """By the name that the operator gave, or else by the address, without a password."""
    app = SimpleNamespace(
        stdin=io.StringIO("yes\n"),
        stderr=io.StringIO(),
        options=SimpleNamespace(cloud=cloud),
        client_manager=SimpleNamespace(
            region_name=region, placement=SimpleNamespace(endpoint="http://joe:s3cret@placement.test")
        ),
    )
    ConfirmedCommand.confirm(SimpleNamespace(app=app), "Go?")
    assert app.stderr.getvalue() == f"{told}Go? [y/N] "


def test_question_leaves_space_for_the_answer_in_its_last_line(monkeypatch):
    """A question of the width of the terminal would have it at the beginning of the next."""
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    confirm("Change 12,0?", io.StringIO("yes\n"), terminal)
    assert terminal.getvalue() == "Change 12,0?\n[y/N] "
    monkeypatch.setenv("COLUMNS", "2")
    confirm("Go?", io.StringIO("yes\n"), Terminal())
