# SPDX-License-Identifier: Apache-2.0
"""How full something is, in numbers, words and blocks. Pure."""

from __future__ import annotations

from osc_placement.terminal.screen import Marks, Style

#: per cent from which on something is rather full, and very full
MIDDLE = 70
HIGH = 90


def percent_of(used: int, capacity: int) -> float | None:
    """How much of the capacity is used; None if there is none that anything could be part of."""
    if capacity <= 0:
        return None
    return round(100 * used / capacity, 1)


def level_of(used: int, capacity: int) -> Style:
    """How worrying it is."""
    percent = percent_of(used, capacity)
    if percent is None:
        return "high" if used else "low"
    return "high" if percent >= HIGH else "middle" if percent >= MIDDLE else "low"


def draw_bar(used: int, capacity: int, cells: int, marks: Marks) -> str:
    """A bar of so many cells; only what is empty looks empty, and only what is full looks full."""
    if used <= 0:
        filled = 0
    elif used >= capacity:
        filled = cells
    else:
        filled = min(max(1, round(cells * used / capacity)), cells - 1)
    return marks.full * filled + marks.empty * (cells - filled)


def format_percent(used: int, capacity: int) -> str:
    """``62 %``, in six characters at most for anything that makes sense."""
    percent = percent_of(used, capacity)
    if percent is None:
        return "-"
    if 0 < percent < 1:
        return "<1 %"
    # 100 % is what is full
    return "99 %" if 99 < percent < 100 else f"{percent:.0f} %"
