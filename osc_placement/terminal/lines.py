# SPDX-License-Identifier: Apache-2.0
"""Text that is to fit a terminal: lines cut to its width, and no more of them than are wanted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_CUT: Final = "..."


def cut(text: str, length: int) -> str:
    """Return a text without its end, if it is longer than this."""
    return text if len(text) <= length else text[: max(0, length - len(_CUT))] + _CUT


def cut_middle(text: str, length: int) -> str:
    """Return a text without its middle, if it is longer than this."""
    if len(text) <= length:
        return text
    end = length // 2
    return text[: length - end - len(_CUT)] + _CUT + text[-end:]


def count_lines(texts: Sequence[str], width: int) -> int:
    """Return how many lines these texts take on a terminal, which wraps them at its width."""
    return sum(max(1, -(-len(line) // width)) for text in texts for line in text.split("\n"))


def fit(texts: Sequence[str], most: int, width: int, more: str) -> list[str]:
    """Return texts of one line each that take at most so many lines of a terminal.

    If they do not fit as they are, each is cut to its share of the lines. If there are more texts than lines,
    the last line says how many are left out; ``more`` says of what.
    """
    if count_lines(texts, width) <= most:
        return list(texts)
    if len(texts) <= most:
        return [cut(text, width * (most // len(texts))) for text in texts]
    shown = texts[: most - 1]
    return [*(cut(text, width) for text in shown), f"... and {len(texts) - len(shown):,} {more}"]


def align(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return rows of cells as lines with columns; the last column is cut where the line ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        cut("  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip(), width)
        for row in rows
    ]
