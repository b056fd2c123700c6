# SPDX-License-Identifier: Apache-2.0
"""The events of the server that can be counted, as `metrics` does."""

from __future__ import annotations


class Observer:
    """A receiver of events, from any thread; this base class ignores them."""

    def answered(self, method: str, route: str, status: str, version: str, seconds: float) -> None:
        """Note that a request was answered."""

    def conflicted(self, code: str) -> None:
        """Note that a write was refused because the data had changed."""

    def searched(self, found: int, *, whole: bool) -> None:
        """Note a search of allocation candidates: the number found, and whether those are all."""

    def lost_race(self) -> None:
        """Note that a transaction lost a race; it is repeated up to a limit."""

    def gave_up(self) -> None:
        """Note that a transaction reached the limit on races."""

    def looked(self) -> None:
        """Note that the snapshot was found to be up to date, or was refreshed."""

    def refreshed(self, seconds: float, *, whole: bool) -> None:
        """Note that the snapshot was read from the database: all of it, or the changes."""

    def compared(self, *, differs: bool) -> None:
        """Note a comparison of a part of the snapshot, and whether another program was found to write."""

    def pool_changed(self, pool: str, *, opened: int = 0, taken: int = 0) -> None:
        """Note connections of a pool that were opened or taken; if negative, closed or returned."""
