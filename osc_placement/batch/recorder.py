# SPDX-License-Identifier: Apache-2.0
"""The interface through which the executor records a run."""

from __future__ import annotations

from typing import Protocol

from osc_placement.batch.plan import Change, Outcome


class Recorder(Protocol):
    """A record of what a run does, such as the journal; called by any thread."""

    def plan_again(self, change: Change) -> None:
        """Record a change that replaces the one planned, before it is written."""

    def end(self, outcome: Outcome) -> None:
        """Record an outcome."""


class NoRecorder:
    """A recorder that records nothing."""

    def plan_again(self, change: Change) -> None:
        """Do nothing."""

    def end(self, outcome: Outcome) -> None:
        """Do nothing."""
