# SPDX-License-Identifier: Apache-2.0
"""Public alias, kept for programs; the code is in `execute` and `transaction`."""

from osc_placement.batch.execute import ChangedMeanwhile, NotDone, NotRolledBack, execute_atomically
from osc_placement.batch.transaction import check_atomic

__all__ = ["ChangedMeanwhile", "NotDone", "NotRolledBack", "check_atomic", "execute_atomically"]
