# SPDX-License-Identifier: Apache-2.0
"""How far a run is, on one line of a terminal; nothing where nobody looks."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, TextIO

#: seconds between two words
_INTERVAL: Final = 0.1
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """Counts what is done of a total; the line is gone when it is over."""

    def __init__(self, title: str, total: int, stream: TextIO | None) -> None:
        self._title = title
        self._total = total
        self._stream = stream if stream is not None and stream.isatty() else None
        self._done = 0
        self._told = 0.0

    def __enter__(self) -> Progress:
        return self

    def advance(self, _outcome: object) -> None:
        """One more is done."""
        self._done += 1
        now = time.monotonic()
        if self._stream is not None and now - self._told >= _INTERVAL:
            self._told = now
            self._write(f"{_CLEAR}{self._title}: {self._done} of {self._total}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._told:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        if self._stream is not None:
            print(text, end="", file=self._stream, flush=True)
