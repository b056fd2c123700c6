# SPDX-License-Identifier: Apache-2.0
"""What happens in the server that somebody may want to count; `metrics` does."""

from __future__ import annotations


class Observer:
    """Told of what happens, from any thread; by itself it takes no notice."""

    def answered(self, method: str, route: str, status: str, version: str, seconds: float) -> None:
        """A request was answered."""

    def conflicted(self, code: str) -> None:
        """A write found something else than its sender knew."""

    def searched(self, found: int, *, whole: bool) -> None:
        """Allocation candidates were searched: how many were found, and whether those are all."""

    def lost_race(self) -> None:
        """A transaction was undone by others, and is tried again up to a bound."""

    def gave_up(self) -> None:
        """A transaction lost as many races as it may."""

    def looked(self) -> None:
        """The snapshot was found to be true, or made so."""

    def refreshed(self, seconds: float, *, whole: bool) -> None:
        """The snapshot was read from the database: all of it, or what had changed."""

    def pool_changed(self, pool: str, *, opened: int = 0, taken: int = 0) -> None:
        """Connections of a pool were opened or taken; closed or given back, if negative."""
