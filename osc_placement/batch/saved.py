# SPDX-License-Identifier: Apache-2.0
"""Public alias, kept for programs; the code is in `osc_placement.batch.journal.saved`."""

from osc_placement.batch.journal.saved import BadPlanFile, Move, SavedPlan, find_moves, load_plan, save_plan

__all__ = ["BadPlanFile", "Move", "SavedPlan", "find_moves", "load_plan", "save_plan"]
