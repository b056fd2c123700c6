# SPDX-License-Identifier: Apache-2.0
"""Names and messages of others made safe for a terminal: control and formatting characters escaped. Pure."""

from __future__ import annotations


def is_printable(text: str) -> bool:
    """Return whether a terminal shows the lines of a text as they are."""
    return all(map(str.isprintable, text.split("\n")))


def printable_lines(text: str) -> str:
    """Escape what would move a terminal's cursor in each line of a text, and keep its line ends."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Escape what would move a terminal's cursor or change its colours, line ends included."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
