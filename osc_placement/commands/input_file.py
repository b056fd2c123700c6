# SPDX-License-Identifier: Apache-2.0
"""The text of a file that an argument names, or of standard input."""

from __future__ import annotations

import pathlib
import sys
from typing import Final

from osc_placement.errors import PlacementError

STANDARD_STREAM: Final = "-"


def name_source(name: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if name == STANDARD_STREAM else name


def read_file(name: str, source: str) -> str:
    """Return the text of a file or of standard input; ``source`` names it in errors."""
    try:
        if name != STANDARD_STREAM:
            return pathlib.Path(name).read_bytes().decode("utf-8")
        if sys.stdin is None:
            raise PlacementError("standard input cannot be read: it is closed")
        return sys.stdin.buffer.read().decode("utf-8")
    except OSError as error:
        raise PlacementError(f"{source} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlacementError(f"{source} cannot be read: byte {error.start} is not UTF-8 text") from error
