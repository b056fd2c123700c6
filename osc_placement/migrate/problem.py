# SPDX-License-Identifier: Apache-2.0
"""Problems: what a migration leaves unchanged, and why. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Reason(enum.StrEnum):
    """A kind of problem; JSON output has its value as ``reason``."""

    UNKNOWN = "unknown"
    UNMAPPED_HOST = "unmapped host"
    NO_COMPUTE_NODE = "no compute node"
    NO_PROVIDER = "no resource provider"
    NO_INVENTORY = "no inventory"
    NO_CLAIM = "no readable flavor"
    OVER_CAPACITY = "over capacity"
    AMBIGUOUS = "ambiguous"
    BUSY = "in a task"
    WRONG_AMOUNT = "wrong amount"
    WRONG_HOST = "wrong host"
    DOUBLED = "held twice"
    MISSING = "no allocations"
    UNRECORDED = "no consumer record"
    UNCLAIMED = "placement skipped"
    CONFLICT = "conflict"
    BAD_RATIO = "unreadable ratio"
    TOO_MANY = "too many removals"
    IN_USE = "in use"
    DEVICE = "accelerator"
    PORT = "port with a resource request"
    LATER = "left for a later run"
    LOST = "missing in its cell"
    STUCK = "stuck"
    STATUS = "state of the service"
    DUPLICATE = "duplicate provider"
    NO_NODE = "no such node in Ironic"
    NO_CLASS = "no resource class"
    FOREIGN = "held by another consumer"
    FLAVOR = "flavor asks for sizes"
    DISABLED = "disabled cell"
    UNKNOWN_NAME = "unknown name"
    REFUSED = "refused request"
    IGNORED = "ignored extra spec"
    NO_HOST = "fits on no host"
    FULL = "fits on no host now"
    WASTE = "unused rest of a host"

    @property
    def is_hint(self) -> bool:
        """Return whether it asks for nothing to be done, so that it changes no exit status."""
        return self is Reason.WASTE


@dataclass(frozen=True, slots=True)
class Problem:
    """A host, instance, node or service that a migration leaves unchanged, with the reason.

    :ivar subject: what is left unchanged, as in ``host h1``
    """

    reason: Reason
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"
