# SPDX-License-Identifier: Apache-2.0
"""Values from the command line: each reader is a ``type=`` of argparse."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any, Final

from osc_placement.api.concurrency import CONCURRENCY

#: the value of an option that takes off a limit
NONE: Final = "none"
#: seconds: twelve days, as a socket takes no timeout of more than 24
_LONGEST_TIMEOUT: Final = 1e6
#: seconds
_SHORTEST_INTERVAL: Final = 0.1
#: digits of the largest number that is read; Python refuses to convert some thousand
_MOST_DIGITS: Final = 19


def _make_number_reader(words: str, least: int = 0, most: float = math.inf) -> Callable[[str], int]:
    """Return a reader of whole numbers in a range, which ``words`` describe in the message."""

    def read(text: str) -> int:
        if not text.isdecimal() or len(text) > _MOST_DIGITS or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be {words}, not {text!r}")
        return int(text)

    return read


read_number: Final = _make_number_reader("a whole number")
read_count: Final = _make_number_reader("a whole number, 0 or more", most=sys.maxsize)
read_positive: Final = _make_number_reader("a number from 1 up", 1)
read_percent: Final = _make_number_reader("a percentage from 0 to 100", most=100)
read_concurrency: Final = _make_number_reader("a number from 1 to 1000", 1, 1000)


def read_rate(text: str) -> float:
    """Read a number of changes a second."""
    rate = _read_float(text)
    if not rate > 0:
        raise argparse.ArgumentTypeError(f"must be a number of changes a second, above 0, not {text!r}")
    return rate


def or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader that reads ``none`` as well, which it returns as it is."""

    def read_or_none(text: str) -> Any:
        return text if text == NONE else read(text)

    return read_or_none


def read_age(text: str) -> float:
    """Read a time in seconds, above 0, that something has lasted."""
    seconds = _read_float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds greater than 0, not {text!r}")
    return seconds


def read_seconds(text: str) -> float:
    """Read a time to wait, and shorten it to what a socket takes."""
    return min(read_age(text), _LONGEST_TIMEOUT)


def read_interval(text: str) -> float:
    """Read the time between two readings in seconds; a server is not asked more than ten times a second."""
    seconds = _read_float(text)
    if not seconds >= _SHORTEST_INTERVAL:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds, at least {_SHORTEST_INTERVAL:g}, not {text!r}"
        )
    return seconds


def _read_float(text: str) -> float:
    """Read a number that is finite; return NaN for any other text."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def add_concurrency_option(
    parser: argparse._ActionsContainer,
    *,
    default: int | None = CONCURRENCY,
    told: str = str(CONCURRENCY),
) -> None:
    """Add ``--concurrency``, whose help text tells the default."""
    parser.add_argument(
        "--concurrency",
        metavar="<number>",
        type=read_concurrency,
        default=default,
        help=f"How many requests to have under way at once (default: {told})",
    )
