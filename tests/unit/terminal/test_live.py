# SPDX-License-Identifier: Apache-2.0
"""osc_placement.terminal.live: what fits the height of a terminal."""

from osc_placement.terminal.live import fit_height


def test_lines_that_fit_are_shown_as_they_are():
    """As many as there is place for."""
    assert fit_height(["a", "b"], 2) == ["a", "b"]


def test_the_last_line_says_how_many_lines_are_not_shown():
    """It takes the place of one that could be shown."""
    assert fit_height(["a"] * 2000, 3) == ["a", "a", "... and 1,998 more lines"]
    assert fit_height(["a", "b"], 1) == ["... and 2 more lines"]
