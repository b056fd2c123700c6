# SPDX-License-Identifier: Apache-2.0
"""Entries of a state file as YAML, byte for byte what libyaml writes, as far as they are ordinary. Pure.

PERF: PyYAML makes an object of each key and value before libyaml sees it, which is four fifths of the time of
an export. Nearly all that is in a state file is a number, a UUID or a word of letters and digits, which need
no quotes; whatever else there is, is left to PyYAML, the whole entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

#: the column after which a list goes on in the next line
WIDTH: Final = 120
_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
#: what YAML 1.1 takes for something else than text
_OTHER_WORDS: Final = r"(?!(?i:y|n|yes|no|on|off|true|false|null)\Z)"
_NEEDS_NO_QUOTES: Final = re.compile(rf"{_OTHER_WORDS}[A-Za-z][A-Za-z0-9_.-]{{0,99}}|{_UUID}")


class Unusual(Exception):
    """There is something in the entry that is not known here how to write."""


def format_entry(entry: Mapping[str, Any]) -> str:
    """An entry of a list in block style, what is innermost in flow style; raise Unusual where it cannot."""
    lines = [_format_pair(_scalar(key), value) for key, value in entry.items()]
    return "- " + "\n  ".join(lines) + "\n"


def _format_pair(key: str, value: object) -> str:
    if isinstance(value, list):
        return f"{key}: " + _flow("[]", [_scalar(item) for item in value], len(key) + 4, 4)
    if not isinstance(value, dict):
        return f"{key}: {_scalar(value)}"
    if not value:
        return f"{key}: {{}}"
    return "\n    ".join([f"{key}:", *(_format_amounts(_scalar(name), value[name]) for name in value)])


def _format_amounts(key: str, amounts: object) -> str:
    if not isinstance(amounts, dict):
        raise Unusual
    pairs = [f"{_scalar(name)}: {_scalar(amount)}" for name, amount in amounts.items()]
    return f"{key}: " + _flow("{}", pairs, len(key) + 6, 6)


def _flow(brackets: str, items: Iterable[str], column: int, indent: int) -> str:
    """Items between brackets, the first of which is in this column; goes on below what is too wide."""
    line = ", ".join(items)
    if column + len(line) >= WIDTH:
        line = _wrap(items, column + 1, indent)
    return f"{brackets[0]}{line}{brackets[1]}"


def _wrap(items: Iterable[str], column: int, indent: int) -> str:
    text = ""
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
    return text


def _scalar(value: object) -> str:
    if isinstance(value, str):
        if _NEEDS_NO_QUOTES.fullmatch(value):
            return value
    elif value is None:
        return "null"
    elif type(value) is int:
        return str(value)
    elif type(value) is float:
        return _float(value)
    raise Unusual


@lru_cache
def _float(value: float) -> str:
    """As PyYAML writes it: an exponent needs a point before it."""
    mantissa, exponent, power = repr(value).partition("e")
    if not mantissa.strip("-0123456789."):
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"
    raise Unusual
