# SPDX-License-Identifier: Apache-2.0
"""Public alias, kept for programs; the code is in `osc_placement.batch.execute`."""

from osc_placement.batch.execute import (
    ChangedMeanwhile,
    NotDone,
    NotRolledBack,
    check_atomic,
    execute_atomically,
)

__all__ = ["ChangedMeanwhile", "NotDone", "NotRolledBack", "check_atomic", "execute_atomically"]
