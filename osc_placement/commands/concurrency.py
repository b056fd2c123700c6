# SPDX-License-Identifier: Apache-2.0
"""Numbers as options: how many requests a command may have under way at once, and others."""

from __future__ import annotations

import argparse
from typing import Final

from osc_placement.api.concurrency import CONCURRENCY

_LARGEST: Final = 1000


def add_concurrency_option(parser: argparse._ActionsContainer) -> None:
    """Add ``--concurrency``."""
    parser.add_argument(
        "--concurrency",
        metavar="<number>",
        type=_read_concurrency,
        default=CONCURRENCY,
        help=f"How many requests to have under way at once (default: {CONCURRENCY})",
    )


def read_number(text: str) -> int:
    """Read a whole number that is not negative, as ``type=`` of an option."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)


def _read_concurrency(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {_LARGEST}, not {text!r}")
    return int(text)
