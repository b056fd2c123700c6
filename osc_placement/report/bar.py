# SPDX-License-Identifier: Apache-2.0
"""The usage of an inventory as a percentage, a level and a bar. Pure."""

from __future__ import annotations

from typing import Final

from osc_placement.terminal.screen import Marks, Style

#: the percentages from which the level is middle and high
MIDDLE = 70
HIGH = 90
#: the class whose unit is a MiB
MEMORY: Final = "MEMORY_MB"


def percent_of(used: int, capacity: int) -> float | None:
    """Return the percentage of the capacity that is used; None if the capacity is 0 or less."""
    if capacity <= 0:
        return None
    return round(100 * used / capacity, 1)


def level_of(used: int, capacity: int) -> Style:
    """Return the level for a usage, which the screen shows as a colour."""
    percent = percent_of(used, capacity)
    if percent is None:
        return "high" if used else "low"
    return "high" if percent >= HIGH else "middle" if percent >= MIDDLE else "low"


def draw_bar(used: int, capacity: int, cells: int, marks: Marks) -> str:
    """Return a bar of ``cells`` characters; it is empty or full only if the usage is 0 or at the capacity."""
    if used <= 0:
        filled = 0
    elif used >= capacity:
        filled = cells
    else:
        filled = min(max(1, round(cells * used / capacity)), cells - 1)
    return marks.full * filled + marks.empty * (cells - filled)


def format_amount(resource_class: str, amount: float) -> str:
    """Return an amount for a page: memory in GiB."""
    if resource_class == MEMORY:
        return f"{amount / 1024:,.1f}".removesuffix(".0") + " GiB"
    return f"{amount:,}"


def format_percent(used: int, capacity: int) -> str:
    """Return the percentage such as ``62 %``: six characters at most for less than 10000 %."""
    percent = percent_of(used, capacity)
    if percent is None:
        return "-"
    if 0 < percent < 1:
        return "<1 %"
    # 100 % is shown only if all of the capacity is used
    return "99 %" if 99 < percent < 100 else f"{percent:.0f} %"
