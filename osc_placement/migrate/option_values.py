# SPDX-License-Identifier: Apache-2.0
"""Values of options, read from the command line; ValueError says what is wrong with one. Pure."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Final, TypeVar

Value = TypeVar("Value")
#: seconds: twelve days, of the 24 that a socket can be told
_LONGEST: Final = 1e6


def reader(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Let argparse tell what is wrong with a value in the words of what reads it."""

    def read_argument(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read_argument


def read_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"must be a number from 1 up, not {text!r}")
    return int(text)


def read_seconds(text: str) -> float:
    try:
        return min(read_rate(text), _LONGEST)
    except ValueError:
        raise ValueError(f"must be seconds, more than 0, not {text!r}") from None


def read_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"must be writes a second, more than 0, not {text!r}")
    return rate
