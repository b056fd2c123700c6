# SPDX-License-Identifier: Apache-2.0
"""Public alias, kept for programs; the code is in `osc_placement.batch.journal`."""

from osc_placement.batch.journal import Ending, Header, JournalDamaged, JournalError, Run

__all__ = ["Ending", "Header", "JournalDamaged", "JournalError", "Run"]
