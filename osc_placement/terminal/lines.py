# SPDX-License-Identifier: Apache-2.0
"""Text that is to fit a terminal: lines cut to its width, and no more of them than are wanted. Pure."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

#: in place of what is left out of a text
CUT: Final = "..."
#: letters of a heading that has no more than the ID of a run that is undone
_LEAST_HEADING: Final = len("undo of 20261126T164036-3c6886 ...)")
#: a name, word or number with the comma or the blanks behind it; a comma within a number is a part of it
_LIST_PART: Final = re.compile(r"(?:[^,\s]|,(?=\d))*(?:,(?!\d)\s*|\s+)|(?:[^,\s]|,(?=\d))+")
_LABEL: Final = re.compile(r"[a-z]+: +")
#: a command that an operator can paste, which ends a text
_COMMAND: Final = re.compile(r"[:;] ((?:openstack|placement-[a-z]+) (?:[^:;()]|:(?! ))*)$")


def capitalize(text: str) -> str:
    """Return a text as the beginning of a sentence; its other letters stay, unlike with `str.capitalize`."""
    return text[:1].upper() + text[1:]


def pluralize(noun: str) -> str:
    """Return the plural of a regular English noun."""
    if re.search("[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith('s') else 's'}"


def count_things(number: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {noun if number == 1 else pluralize(noun)}"


def count_providers(number: int) -> str:
    """Return a number of resource providers in words."""
    return count_things(number, "resource provider")


def count_each(numbers: Mapping[Any, int]) -> str:
    """Return in words the numbers of things, by their nouns, that are not 0."""
    return ", ".join(count_things(number, noun) for noun, number in numbers.items() if number)


def list_names(names: Sequence[str], most: int) -> str:
    """Return the first of some names, separated by commas, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def cut(text: str, length: int) -> str:
    """Return a text without its end, if it is longer than this."""
    return text if len(text) <= length else text[: max(0, length - len(CUT))] + CUT


def cut_middle(text: str, length: int) -> str:
    """Return a text without its middle, if it is longer than this."""
    if len(text) <= length:
        return text
    end = length // 2
    return text[: length - end - len(CUT)] + CUT + text[-end:]


def wrap(text: str, width: int, *, whole_words: bool = False) -> list[str]:
    """Return a text in lines that end between words, or within a word that is longer than a line.

    With ``whole_words``, such a word is a line of its own.

    A command that ends the text is a line of its own, and whole: a terminal breaks it where its line ends,
    and copies it as one.
    """
    if len(text) <= width:
        return [text]
    command = _COMMAND.search(text)
    start = command.start(1) if command else len(text)
    lines = textwrap.wrap(
        text[:start].rstrip(),
        width,
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=not whole_words,
        break_on_hyphens=False,
    )
    return [*lines, *([text[start:]] if command else [])] or [""]


def wrap_lists(text: str, width: int) -> list[str]:
    """Return the lines of a text, each broken behind commas and blanks only; names stay whole."""
    lines = []
    for line in text.split("\n"):
        start, *others = _LIST_PART.findall(line) or [""]
        for part in others:
            if len(start) + len(part.rstrip()) > width:
                lines.append(start.rstrip())
                start = part
            else:
                start += part
        lines.append(start.rstrip())
    return lines


def wrap_each(text: str, width: int, *, whole_words: bool = False) -> list[str]:
    """Return the lines of a text, each broken as by `wrap`."""
    return [part for line in text.split("\n") for part in wrap(line, width, whole_words=whole_words)]


def wrap_fact(fact: str, width: int) -> list[str]:
    """Return a fact in lines that end between words; those below the first begin below the text of its label.

    Words are whole, such as IDs and paths: a terminal breaks one that is longer than a line, and copies it as
    one. So is a command that ends the fact, as with `wrap`.
    """
    if len(fact) > width and _COMMAND.search(fact):
        return wrap(fact, width, whole_words=True)
    label = _LABEL.match(fact)
    return textwrap.wrap(
        fact,
        width,
        subsequent_indent=" " * (label.end() if label else 0),
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def fit_commands(lines: Sequence[str], width: int) -> list[str]:
    """Return lines with a label and a command; if one does not fit, each command is below its label."""
    if all(len(line) <= width for line in lines):
        return list(lines)
    parts = (line.partition(": ") for line in lines)
    return [part for label, _, command in parts for part in (f"{label}:", command.lstrip())]


def describe_hidden(columns: Sequence[str]) -> str:
    """Return the line below a table that names the columns left out, and the option that shows them."""
    return f"Columns not shown: {', '.join(columns)} (--full shows {'it' if len(columns) == 1 else 'them'})"


def count_lines(texts: Sequence[str], width: int) -> int:
    """Return how many lines these texts take on a terminal, if they are broken between words."""
    return sum(max(1, math.ceil(len(line) / width)) for text in texts for line in wrap_each(text, width))


def fit(texts: Sequence[str], most: int, width: int, more: str) -> list[str]:
    """Return the lines of texts on a terminal, at most so many, broken between words.

    If the texts do not fit as they are, each is cut to its share of the lines. If there are more texts than
    lines, the last line says how many are left out; ``more`` says of what.
    """
    if len(texts) > most:
        shown = texts[: most - 1]
        return [*(cut(text, width) for text in shown), f"... and {len(texts) - len(shown):,} {more}"]
    wrapped = [wrap(text, width) for text in texts]
    if sum(map(len, wrapped)) > most:
        share = most // len(texts)
        wrapped = [
            lines if len(lines) <= share else [*lines[: share - 1], cut(" ".join(lines[share - 1 :]), width)]
            for lines in wrapped
        ]
    return [line for lines in wrapped for line in lines]


def fit_heading(text: str, most: int, width: int, end: str = "") -> str:
    """Return a heading with its end; words of the heading are left out if both take more than so many lines.

    These are its last ones, as the first name the run; a parenthesis among the others is closed. The end
    stays whole: if it is long, the lines are more, and the heading takes half a line, or has the ID of a run.
    """
    length = min(len(text), most * width)
    least = min(length, max(width // 2, _LEAST_HEADING))
    while length > least and len(wrap(_cut_words(text, length) + end, width)) > most:
        length -= 1
    return _cut_words(text, length) + end


def _cut_words(text: str, length: int) -> str:
    """Return a text without its last words, if it is longer than this; a parenthesis is closed."""
    # a blank comes before the dots, and a parenthesis behind them
    start = text[: max(0, length - len(CUT) - 2)]
    if len(text) <= length or " " not in start:
        return cut(text, length)
    start = start if text[len(start)] == " " else start.rpartition(" ")[0]
    if len(start) < length // 2:
        # the word that does not fit is most of the text, such as a path
        return cut_middle(text, length)
    return f"{start} {CUT}{')' if start.count('(') > start.count(')') else ''}"


def align(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return rows of cells as lines with columns; the last column is cut where the line ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        cut("  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip(), width)
        for row in rows
    ]
