# SPDX-License-Identifier: Apache-2.0
"""Text of others as a terminal may show it: control and formatting characters are spelled out. Pure."""

from __future__ import annotations


def is_printable(text: str) -> bool:
    """Return whether a terminal shows the lines of a text as they are."""
    return all(map(str.isprintable, text.split("\n")))


def printable_lines(text: str) -> str:
    """Spell out what would move a terminal's cursor in each line of a text; its line ends stay."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Text that a terminal shows as it is: what would move its cursor or colour it is spelled out."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
