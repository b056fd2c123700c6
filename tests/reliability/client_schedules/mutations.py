# SPDX-License-Identifier: Apache-2.0
"""Mistakes that are put into the client, each with the case whose schedules must find it.

A mutation replaces a function of the client while runs, resumes and undos are carried out.
"""

import contextlib
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest import mock

from osc_placement.batch import attempt, execute, service, undo
from osc_placement.batch.journal.file import Journal
from osc_placement.batch.journal.run import Run
from osc_placement.batch.merge import Merged
from osc_placement.batch.plan import Change, Outcome, Result, plan_change
from osc_placement.batch.reshape import RecordedReshape
from osc_placement.batch.transaction import ProvidersTransaction
from osc_placement.model import Provider
from tests.reliability.client_schedules import explore, trials
from tests.reliability.client_schedules.cases import CASES

#: of the order in which schedules are tried, so that a mistake is found after the same number each time
_SEED = 24


@dataclass(frozen=True)
class Mutation:
    """A mistake.

    :ivar case: the name of the case whose schedules find it
    :ivar patches: what replaces parts of the client, as (object, attribute, replacement)
    """

    case: str
    patches: Callable

    @contextlib.contextmanager
    def applied(self):
        """Put the mistake into the client."""
        with contextlib.ExitStack() as stack:
            for owner, name, replacement in self.patches():
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield

    def search(self, most=400):
        """Return how many runs and cut journals were tried until one was wrong, and what was.

        Nothing was if ``most`` runs do not find it.
        """
        generator, tally = random.Random(_SEED), explore.Tally()
        case = CASES[self.case]
        with trials.opened() as bench:
            plain = bench.conduct(case)
            bench.judge(case)
            faults = [(fault,) for fault in explore.list_faults(case, plain.requests)]
            order = [(), *generator.sample(faults, len(faults))]
            with self.applied():
                for each in order[:most]:
                    explore.try_crashes(bench, bench.conduct(case, each), generator, tally, 8)
                    if tally.problems:
                        break
        return tally["runs"] + tally["cut journals"], next(iter(tally.problems), None)


def _outcome_before_write():
    run_change = execute._Run._run_change

    def record_and_run(self, step, refusal=None):
        self._recorder.end(Outcome(step, Result.APPLIED, 1))
        return run_change(self, step, refusal)

    return [(execute._Run, "_run_change", record_and_run)]


def _bulk_outcome_before_write():
    change = execute._Run._change_together

    def record_and_change(self, writer, steps):
        for step in steps:
            self._recorder.end(Outcome(step, Result.APPLIED, 1))
        yield from change(self, writer, steps)

    return [(execute._Run, "_change_together", record_and_change)]


def _new_plan_not_synchronized():
    def plan_again(self, change):
        with mock.patch.object(Journal, "_sync", return_value=None):
            original(self, change)

    original = Journal.plan_again
    return [(Journal, "plan_again", plan_again)]


def _lost_answer_is_failure():
    def give_up(_client, each, error):
        return replace(each.end(Result.FAILED, error), untouched=True)

    return [(attempt, "_find_out", give_up)]


def _lost_answer_is_success():
    return [(attempt, "_find_out", lambda _client, each, _error: each.end(Result.APPLIED))]


def _undo_does_not_compare():
    def undo_step(change, subject, found, *, force):
        before = {facet: getattr(change.before, facet) for facet in change.facets}
        return Change(subject, found, replace(found, **before)), None

    return [(undo, "_undo_step", undo_step)]


def _undo_takes_all():
    """Everything that a facet had is given back, also where others have set something beside it."""

    def take_all(back, now):
        return Merged(replace(now, **{facet: getattr(back.after, facet) for facet in back.facets}), now)

    return [(undo, "merge", take_all)]


def _applied_is_repeated():
    return [(Run, "pending", property(lambda run: tuple(run.intents.values())))]


def _generation_not_compared():
    write = attempt.write_change

    def write_blindly(client, change):
        if isinstance(change.subject, Provider):
            generation = client.show_provider(change.uuid)["generation"]
            change = replace(change, subject=replace(change.subject, generation=generation))
        yield from write(client, change)

    return [(attempt, "write_change", write_blindly)]


def _first_image_is_kept():
    """What somebody else set before the write is not what an undo gives back."""

    def keep(change, again, _written=()):
        return replace(again, before=change.before)

    return [(attempt, "keep_before", keep)]


def _images_are_not_kept():
    """What the run has written already is taken for the state before it."""
    return [(attempt, "keep_before", lambda _change, again, _written=(): again)]


def _resume_plans_anew():
    def step(change, edit, subject, state):
        return plan_change(edit, subject, state)

    return [(service, "_resume_step", step)]


def _unknown_is_not_undone():
    def may_be_written(run, change):
        ending = run.endings.get(change.uuid)
        return ending is not None and not ending.untouched

    return [(Run, "may_be_written", may_be_written)]


MUTATIONS = {
    "an outcome is recorded before its write": Mutation("ratio-single", _outcome_before_write),
    "outcomes are recorded before the write of them all": Mutation("ratio", _bulk_outcome_before_write),
    "the journal is not synchronized before the writes": Mutation(
        "ratio", lambda: [(Journal, "_sync", lambda _journal: None)]
    ),
    "a new plan is not synchronized before its write": Mutation("ratio-single", _new_plan_not_synchronized),
    "a new plan is not recorded": Mutation(
        "trait-set", lambda: [(Journal, "plan_again", lambda _journal, _change: None)]
    ),
    "a lost answer is taken for a failure": Mutation("trait-set", _lost_answer_is_failure),
    "a lost answer is taken for a success": Mutation("trait-set", _lost_answer_is_success),
    "an undo does not compare with what is there": Mutation("ratio-single", _undo_does_not_compare),
    "an undo gives back more than the run has set": Mutation("trait", _undo_takes_all),
    "a resume repeats what was applied": Mutation("ratio-single", _applied_is_repeated),
    "the generation is not compared": Mutation("ratio-single", _generation_not_compared),
    "the first image is kept after a conflict": Mutation("class", _first_image_is_kept),
    "images are not kept after a conflict": Mutation("apply-single", _images_are_not_kept),
    "a resume plans anew": Mutation("trait-set", _resume_plans_anew),
    "what has no outcome is not undone": Mutation("aggregate", _unknown_is_not_undone),
    "a transaction that is done is not found to be": Mutation(
        "reshape", lambda: [(RecordedReshape, "is_done", lambda _request, _world: False)]
    ),
    "a transaction whose answer was lost is taken to be done": Mutation(
        "ratio-atomic", lambda: [(ProvidersTransaction, "is_done", lambda _transaction: True)]
    ),
    "a torn line is not removed": Mutation(
        "ratio-single", lambda: [(os, "ftruncate", lambda _descriptor, _size: None)]
    ),
}
