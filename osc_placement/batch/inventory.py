# SPDX-License-Identifier: Apache-2.0
"""Edits of inventories: allocation ratios.

Pure. A provider that lacks a resource class is left as it is; a class that no provider has is a mistake.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from osc_placement.batch.plan import Decision, EditRefused, Facet, ProviderState

#: MariaDB keeps six digits of a ratio, so a ratio that was set may be read back this much off
_RATIO_PRECISION: Final = 5e-6


@dataclass(frozen=True, slots=True)
class RatioEdit:
    """Set the allocation ratio of some resource classes; all else in the inventories stays."""

    ratios: Mapping[str, float]

    @property
    def title(self) -> str:
        """The edit in the words of the command line."""
        return "ratio set " + " ".join(f"{name}={ratio}" for name, ratio in self.ratios.items())

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Ratios are decided on inventories alone."""
        return ("inventories",)

    def check(self, states: Sequence[ProviderState]) -> None:
        """Raise EditRefused if no provider has inventory of one of the classes."""
        present = {name for state in states for name in state.inventories or ()}
        missing = [name for name in self.ratios if name not in present]
        if missing:
            known = ", ".join(sorted(present)) or "none"
            raise EditRefused(
                f"No selected resource provider has inventory of {', '.join(missing)}, so there is no ratio "
                f"to set; the resource classes they have: {known}"
            )

    def decide(self, state: ProviderState) -> Decision:
        """Say which inventories the provider shall have."""
        current = state.inventories or {}
        after = dict(current)
        for name, ratio in self.ratios.items():
            if name in after and not is_same_ratio(after[name].allocation_ratio, ratio):
                after[name] = replace(after[name], allocation_ratio=ratio)
        return Decision(replace(state, inventories=after), self._reason(current, changed=after != current))

    def _reason(self, current: Mapping[str, object], *, changed: bool) -> str:
        missing = [name for name in self.ratios if name not in current]
        notes = [] if changed or len(missing) == len(self.ratios) else ["has the ratio already"]
        return "; ".join(notes + [f"no inventory of {name}" for name in missing])


def is_same_ratio(one: float, other: float) -> bool:
    """Whether two ratios are equal as far as every database keeps them."""
    return math.isclose(one, other, rel_tol=_RATIO_PRECISION)
