# SPDX-License-Identifier: Apache-2.0
"""One change of a run: written, planned again after a conflict, and read back where the answer was lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from osc_placement.api.retry import is_conflict, is_permanent, retry
from osc_placement.batch.facets import Facet, ProviderState, holds
from osc_placement.batch.holdings import Overtaken, is_overtaken
from osc_placement.batch.merge import rebase, settle
from osc_placement.batch.plan import Change, Edit, Outcome, Result, Subject, plan_change
from osc_placement.batch.repeat import Replace
from osc_placement.batch.reselect import NotSelected
from osc_placement.batch.select import read_state
from osc_placement.batch.writers.consumers import is_stale
from osc_placement.batch.writers.provider import DoneByOthers, write_change
from osc_placement.errors import ANSWER_LOST, Conflict, HttpError

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient

LOG = logging.getLogger(__name__)


def leave(step: Change, reason: str) -> Outcome:
    """Return the outcome of a change that the run does not make; its provider has left the selection, say."""
    return Outcome(replace(step, after=step.before), Result.UNCHANGED, note=reason, untouched=True)


def run_change(
    client: PlacementClient,
    change: Change,
    edit: Edit,
    stop: threading.Event | None = None,
    on_replan: Callable[[Change], None] | None = None,
    refusal: Exception | None = None,
    written: Collection[Facet] = (),
    *,
    goes_on: bool = False,
) -> Outcome:
    """Make one change, planning it again with ``edit`` when somebody else was faster; raises nothing.

    ``on_replan`` is called with the new change before it is written; ``refusal`` is what a first attempt was
    answered with, if it was made already. Facets of which the run has ``written`` a part before keep the
    before-image of the change.

    When the creation of a provider is refused as a duplicate, the provider is read by its UUID. If it has the
    name and the parent that the change gives it, the change is planned again, as after a conflict; otherwise
    it fails with the refusal. In a run that ``goes_on`` a request of the killed run created the provider
    after the resume had read, and an undo deletes it; in a first run somebody else created it, and it stays.

    A consumer with a generation is read before the first attempt too, see `is_stale`, and planned again if it
    has changed, as after a conflict.
    """
    progress = _Progress(change, refusal, written)
    stop = stop or threading.Event()

    def run(number: int) -> Outcome:
        if number > 1 or (progress.refusal is None and not stop.is_set() and progress.is_stale(client)):
            progress.is_writing = False
            subject, now = read_state(client, progress.change.subject, edit.facets)
            now = settle(progress.change, now)
            duplicate, progress.duplicate = progress.duplicate, None
            if duplicate and now.identity != progress.change.after.identity:
                raise duplicate
            if is_overtaken_for(edit, progress.change, subject, now):
                raise Overtaken(subject.name)
            again = plan_change(edit, subject, now)
            if not duplicate or (goes_on and again.facets):
                again = keep_before(progress.change, again, progress.written)
            progress.change = again
            if on_replan:
                on_replan(progress.change)
        if not progress.change.facets:
            return progress.end(Result.UNCHANGED if progress.generation is None else Result.APPLIED)
        if stop.is_set() and progress.refusal is None:
            return progress.end(Result.SKIPPED, note="stopped")
        progress.number = number
        progress.is_writing = True
        progress.write(client)
        return progress.end(Result.APPLIED)

    try:
        return retry(run, after=lambda error: is_conflict(error) or error is progress.duplicate, stop=stop)
    except (NotSelected, DoneByOthers) as error:
        return leave(progress.change, str(error))
    except ANSWER_LOST as error:
        return _find_out(client, progress, error)
    except Exception as error:  # whatever it is, it is about this provider only
        LOG.debug("%s was not changed", change.uuid, exc_info=True)
        return progress.end(Result.FAILED, error)


class _Progress:
    """The progress of one change over all its attempts; used by one thread."""

    def __init__(
        self, change: Change, refusal: Exception | None = None, written: Collection[Facet] = ()
    ) -> None:
        self.change = change
        self.refusal = refusal
        self.number = 0
        self.generation: int | None = None
        self.is_writing = False
        #: what it has written for certain, be it for a plan that somebody overtook since
        self.written: set[Facet] = set(written)
        #: what the last write was refused with, if it was to create a provider and no conflict
        self.duplicate: Conflict | None = None

    def is_stale(self, client: PlacementClient) -> bool:
        """Return whether the consumer of the change has changed; the reading counts as an attempt."""
        self.number = 1
        return is_stale(client, self.change)

    def write(self, client: PlacementClient) -> None:
        refusal, self.refusal = self.refusal, None
        try:
            if refusal is not None:
                raise refusal
            for number, generation in enumerate(write_change(client, self.change), start=1):
                self.generation = generation
                self.written.update(self.change.facets[:number])
        except Conflict as error:
            if self.change.is_creation and not self.written and not is_conflict(error):
                self.duplicate = error
            raise

    def end(self, result: Result, error: Exception | None = None, note: str = "") -> Outcome:
        # the answer was to a write, and not to a read between two writes
        was_answered_with_error = (
            isinstance(error, HttpError) and error.method != "GET" and not isinstance(error, ANSWER_LOST)
        )
        unwritten = not self.written and (was_answered_with_error or not self.is_writing)
        untouched = unwritten and result in (Result.FAILED, Result.SKIPPED)
        rejected = untouched and is_permanent(error)
        return Outcome(self.change, result, self.number, self.generation, error, note, untouched, rejected)


def _find_out(client: PlacementClient, progress: _Progress, error: Exception) -> Outcome:
    """Read the provider whose answer was lost: what is there is there."""
    change = progress.change
    if progress.is_writing:
        try:
            subject, now = read_state(client, change.subject, change.facets)
        except Exception:
            LOG.debug("%s cannot be read either", change.uuid, exc_info=True)
            return progress.end(Result.FAILED, error, "it is not known whether it was done")
        # a name has no generation, and a rename does not raise that of a provider
        is_told = change.facets == ("identity",) or subject.generation != change.subject.generation
        if is_told and holds(now, change.after, change.facets):
            progress.generation = subject.generation
            return progress.end(Result.APPLIED, note="the answer was lost; it was read back")
    return progress.end(Result.FAILED, error)


def keep_before(change: Change, again: Change, written: Collection[Facet] = ()) -> Change:
    """Return the later plan, with the before-images of the facets that the run has written already.

    A difference in a facet that is known to be ``written`` comes from somebody else, any other from the run.
    """
    images = [each.known for each in (change.after, *change.halves)]
    found = again.before.known.items() if len(change.facets) > 1 else ()
    found_written = {facet for facet, value in found if any(value == image.get(facet) for image in images)}
    return rebase(change, again, {*written, *found_written.intersection(change.facets)})


def is_overtaken_for(edit: Edit, change: Change, subject: Subject, now: ProviderState) -> bool:
    """Return whether a change must not be planned again with its edit, as others changed the allocations.

    A consumer that a file describes gets what it says, whatever it holds. One that the file does not name
    loses only what it held when that was planned: it may hold from providers since that were not selected.
    """
    is_described = isinstance(edit, Replace) and edit.change.after != ProviderState(allocations={})
    return not is_described and is_overtaken(change, subject, now)
