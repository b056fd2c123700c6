# SPDX-License-Identifier: Apache-2.0
"""The allocations of many consumers in one request, ``POST /allocations``.

PERF: a server commits once for a request, so 2,000 first allocations take a tenth of the time. A request that
is refused changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from osc_placement.api.consumer import Consumer, describe_consumers
from osc_placement.batch.facets import describe_owner
from osc_placement.batch.plan import Change, set_owner
from osc_placement.errors import ANSWER_LOST
from osc_placement.model import UNKNOWN_TYPE

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch.writers import Results

LOG = logging.getLogger(__name__)

#: consumers of one request
SIZE: Final = 50


def are_consumers(steps: Sequence[Change]) -> bool:
    """Return whether steps are about consumers alone."""
    return bool(steps) and all(isinstance(step.subject, Consumer) for step in steps)


def group_steps(steps: Sequence[Change], untried: Collection[str], size: int) -> list[Sequence[Change]]:
    """Return steps in groups, each for one request; first those of which nothing is written.

    Consumers of the same providers are neighbours, or concurrent requests would hinder each other.
    """
    others = [step for step in steps if step.uuid in untried or not step.facets]
    changes = (step for step in steps if step.uuid not in untried and step.facets)
    ordered = sorted(changes, key=lambda change: sorted(change.after.allocations or ()))
    # a request has one version, and consumers without a type need an older one
    kinds: tuple[list[Change], list[Change]] = ([], [])
    for change in ordered:
        kinds[consumer_after(change, None).is_untyped].append(change)
    groups = [kind[first : first + size] for kind in kinds for first in range(0, len(kind), size)]
    return [group for group in (others, *groups) if group]


class ConsumersWriter:
    """Writes the changes of many consumers in one request.

    :ivar size: the number of consumers in a request: no more than one and the failures that are allowed
    """

    def __init__(self, client: PlacementClient, max_failures: int | None) -> None:
        self._client = client
        self.size = SIZE if max_failures is None else min(SIZE, max_failures + 1)

    def write(self, changes: Sequence[Change]) -> Results | None:
        """Write changes of different consumers, all or none; raise nothing that is about them.

        Return None if nothing was written and these have to be written one by one, each with its own outcome.
        """
        consumers = [consumer_after(change, change.subject.generation) for change in changes]
        try:
            if any(is_stale(self._client, change) for change in changes):
                return None
        except Exception as error:  # whatever it is, nothing was written, and each is read by itself
            LOG.debug("%s consumers are written one by one: %s", len(changes), error)
            return None
        try:
            self._client.set_many_allocations(*describe_consumers(consumers, self._client.version))
        except ANSWER_LOST as error:
            return {change.uuid: error for change in changes}
        except Exception as error:  # whatever it is, each has an outcome of its own
            LOG.debug("%s consumers are written one by one: %s", len(changes), error)
            return None
        return {change.uuid: None for change in changes}


def is_stale(client: PlacementClient, change: Change) -> bool:
    """Read the consumer of a change, unless it is new, and return whether it is not as planned on.

    Compared are its generation, its allocations, and its project and user. The generation alone does not
    protect them: placement deletes a consumer that is emptied, and one that then claims anew has generation 1
    again, as any that has claimed once. Nova does so when it resizes or unshelves an instance.

    What is emptied and claimed anew between this reading and the write is overwritten: before a request for
    many consumers, of which there are at most SIZE, each of them is read. A consumer that got the same
    amounts anew, with the same generation and owner, cannot be told from one that kept them.
    """
    if not isinstance(change.subject, Consumer) or change.subject.generation is None:
        return False
    now, before = client.read_consumer(change.uuid), change.before
    owner = describe_owner(now.project_id or "", now.user_id or "")
    is_as_planned = (
        now.generation == change.subject.generation
        and now.allocations == before.allocations
        and before.owner in (None, owner)
    )
    return not is_as_planned


def consumer_after(change: Change, generation: int | None) -> Consumer:
    """Return the consumer that a change makes of the one with this generation."""
    consumer = change.subject
    assert isinstance(consumer, Consumer)
    if change.after.consumer_type is None:
        consumer_type = consumer.consumer_type or "INSTANCE"
    else:
        consumer_type = next(iter(change.after.consumer_type), UNKNOWN_TYPE)
    return set_owner(
        replace(
            consumer,
            generation=generation,
            consumer_type=consumer_type,
            allocations=change.after.allocations or {},
        ),
        change.after.owner,
    )
