# SPDX-License-Identifier: Apache-2.0
"""Short runs of `client_schedules`; its program cuts 20,000 journals, and has more schedules of clients."""

import logging
import secrets
import time
from random import Random

import pytest

from tests.reliability import scale
from tests.reliability.client_schedules import explore, trials
from tests.reliability.client_schedules.cases import CASES
from tests.reliability.client_schedules.mutations import MUTATIONS
from tests.reliability.client_schedules.pairs import PAIRS, Pair
from tests.reliability.schedules import explore as turns

#: crashes of each run
CRASHES = 3
#: seconds of the test with random faults in the short form
SECONDS = 6
#: mistakes that are found within a second
QUICK = (
    "an outcome is recorded before its write",
    "the journal is not synchronized before the writes",
    "a new plan is not synchronized before its write",
    "a lost answer is taken for a success",
    "what has no outcome is not undone",
    "a transaction that is done is not found to be",
    "a transaction whose answer was lost is taken to be done",
    "a torn line is not removed",
)
#: trials that went wrong once, each by a mistake of its own
FOUND = {
    # a resume was refused: its own request landed while it read one provider after the other
    "a reshape lands while a resume reads": "reshape/late99@9/1:5+0/resume+undo/3",
    # or after that, which the resume took for a change of others
    "a reshape lands before a resume sends it": "undo-reshape/late99@9/1:8+36/resume+undo/6",
    # a deletion landed between two requests of one reading
    "a deletion lands while a resume reads": "apply-single/late99@69,followed3@71/20:29+0/resume+undo/2",
    # what others set before a provider got its new inventories was in no journal
    "others write before inventories are added": "apply/cut@34,followed@36/14:23+0/undo",
    "others write before inventories are added, one by one": "apply-single/followed@38,lost@58/16:23+0/undo",
    # a conflict made a resume take what the run had written for the state before the run
    "others write to what a resume goes on with": (
        "apply-single/followed3@15,late2@42/17:24+0/followed2@8,followed11@26/9:34+59/resume+undo"
    ),
    # a resume was refused creations that the run had sent, and failed
    "creations of hosts land after a resume has read": "new-hosts/late99@5/1:6+0/resume+undo/6",
    "creations of children land after a resume has read": "new-hosts/late99@6/2:6+0/resume+undo/12",
    "a creation without its inventories lands after a resume has read": (
        "apply-single/late99@40/8:16+0/resume+undo/20"
    ),
    # a resume took what the run itself had written for what others wrote
    "a consumer that an undo could not read": "undo-migration/cut@0,large@1/0:5+0/resume+undo",
}


@pytest.fixture(autouse=True)
def _quiet():
    """Leave out what the server logs about refused requests."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", [name for name in CASES if "apply" not in name or scale.is_full()])
def test_every_cut_journal_of_a_plain_run_is_resumed_and_undone_exactly(name):
    """At the end of each line and, of the last line, at each byte."""
    tally, random = explore.Tally(), Random(1)
    with trials.opened() as bench:
        history = bench.conduct(CASES[name])
        cuts = history.list_cuts()
        if not scale.is_full():
            cuts = cuts[:: max(1, len(cuts) // 8)]
        torn = next(filter(None, map(history.tear_everywhere, reversed(history.list_cuts()))))
        for cut in (*cuts, *(torn if scale.is_full() else torn[:: len(torn) // 4])):
            explore.try_cut(bench, history, cut, random, tally)
    assert not tally.problems, str(tally.problems[0])
    assert tally["cut journals"] > 8


def test_runs_with_faults_are_resumed_and_undone_exactly(capsys):
    """Pairs of faults at random, each time with a new seed; a failure prints what runs it again."""
    random, tally = Random(seed := secrets.randbelow(10**9)), explore.Tally()
    cases = [CASES[name] for name in random.sample(sorted(CASES), len(CASES))]
    end = time.monotonic() + SECONDS
    with trials.opened() as bench:
        trial = explore.explore_at_random(bench, cases, tally, random, CRASHES)
        for _ in scale.rounds(1):
            while next(trial, True) is None and time.monotonic() < end:
                pass
            next(trial)
    with capsys.disabled():
        print(f"\nseed {seed}: {dict(tally)}")
    assert not tally.problems, f"seed {seed}: {tally.problems[0]}"


@pytest.mark.parametrize("text", PAIRS)
def test_two_clients_beside_each_other_are_exact(text):
    """With one preemption at each request, and in the long form with two."""
    with trials.opened() as bench:
        results = turns.explore(Pair(bench, text), 2 if scale.is_full() else 1)
        wrong = next((result for result in results if result.problem), None)
    assert wrong is None, f"--replay '{text}/{wrong.text}': {wrong.problem}"


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND)
def test_trial_that_went_wrong_once_is_exact(text):
    """Each was found by these schedules."""
    with trials.opened() as bench:
        _, wrong = explore.replay(bench, text)
    assert not wrong


@pytest.mark.parametrize("name", MUTATIONS if scale.is_full() else QUICK)
def test_mistake_in_the_client_is_found(name):
    """A client that records too early, or compares less than it must, leaves a cloud that is not exact."""
    number, problem = MUTATIONS[name].search()
    assert problem is not None, f"not found by {number} runs and cut journals"


def test_trial_that_failed_fails_again_from_its_text():
    """The text of a trial is all that is needed to run it again."""
    mutation = MUTATIONS["what has no outcome is not undone"]
    _, problem = mutation.search()
    with trials.opened() as bench:
        assert explore.replay(bench, problem.text)[1] == []
        with mutation.applied():
            assert explore.replay(bench, problem.text)[1] == problem.wrong
