# SPDX-License-Identifier: Apache-2.0
"""The name by which programs import these; the package itself uses `osc_placement.batch.journal`."""

from osc_placement.batch.journal import Ending, Header, JournalDamaged, JournalError, Run

__all__ = ["Ending", "Header", "JournalDamaged", "JournalError", "Run"]
