# SPDX-License-Identifier: Apache-2.0
"""Ordinary entries of a state file as YAML, byte for byte as libyaml writes them. Pure.

PERF: PyYAML makes an object of each key and value before libyaml sees it, which is four fifths of the time of
an export. Nearly all values in a state file are numbers, UUIDs or words of letters and digits, which need no
quotes. An entry with any other value is written by PyYAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

#: the column after which a list continues in the next line
WIDTH: Final = 120
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
#: words that YAML 1.1 reads as something other than text
_OTHER_WORDS: Final = r"(?!(?i:y|n|yes|no|on|off|true|false|null)\Z)"
_NEEDS_NO_QUOTES: Final = re.compile(rf"{_OTHER_WORDS}[A-Za-z][A-Za-z0-9_.-]{{0,99}}|{_UUID}")


class Unusual(Exception):
    """The entry has a value that this module cannot write."""


def format_entry(entry: Mapping[str, Any]) -> str:
    """Return an entry of a list in block style, inner values in flow style; raise Unusual if it cannot."""
    lines = [_format_pair(_scalar(key), value) for key, value in entry.items()]
    return "- " + "\n  ".join(lines) + "\n"


def _format_pair(key: str, value: object) -> str:
    if isinstance(value, list):
        return f"{key}: " + _flow("[]", [_scalar(item) for item in value], len(key) + 4, 4)
    if not isinstance(value, dict):
        return f"{key}: {_scalar(value)}"
    if not value:
        return f"{key}: {{}}"
    lines = [f"{key}:"]
    for name, amounts in value.items():
        if not isinstance(amounts, dict):
            raise Unusual
        pairs = [f"{_scalar(field)}: {_scalar(amount)}" for field, amount in amounts.items()]
        inner = _scalar(name)
        lines.append(f"{inner}: " + _flow("{}", pairs, len(inner) + 6, 6))
    return "\n    ".join(lines)


def _flow(brackets: str, items: Iterable[str], column: int, indent: int) -> str:
    """Return the items in brackets; the first is in ``column``, and lines that are too wide are wrapped."""
    text = ", ".join(items)
    if column + len(text) >= WIDTH:
        text = ""
        column += 1
        for item in items:
            if text:
                text += ","
                column += 1
            if column > WIDTH:
                text += "\n" + " " * indent
                column = indent
            elif text:
                text += " "
                column += 1
            text += item
            column += len(item)
    return f"{brackets[0]}{text}{brackets[1]}"


def _scalar(value: object) -> str:
    if isinstance(value, str):
        if _NEEDS_NO_QUOTES.fullmatch(value):
            return value
    elif value is None:
        return "null"
    elif type(value) is int:
        return str(value)
    elif type(value) is float:
        return _float(repr(value))
    raise Unusual


@lru_cache
def _float(text: str) -> str:
    """Return a number as PyYAML writes it, with a point before an exponent.

    :param text: as Python writes it, which tells 0.0 from -0.0
    """
    mantissa, exponent, power = text.partition("e")
    if not mantissa.strip("-0123456789."):
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"
    raise Unusual
