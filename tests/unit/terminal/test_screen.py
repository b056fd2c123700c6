# SPDX-License-Identifier: Apache-2.0
"""Text for terminals and for other streams."""

import io

from osc_placement.terminal.screen import wrap_for


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
