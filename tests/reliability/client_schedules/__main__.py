# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.reliability.client_schedules``: runs with faults, cut journals, and two clients at once.

First each fault at each request of each case, then pairs of faults at random until there are so many cut
journals, then all schedules of each pair of clients with a bounded number of preemptions. The first is done
for the long cases, those of a state file, only if they are named. Exit status 1 if anything went wrong; what
is printed with it runs the same trial again and shows its requests.
"""

import argparse
import logging
import random
import secrets
import sys
import time

from tests.reliability.client_schedules import explore, trials
from tests.reliability.client_schedules.cases import CASES
from tests.reliability.client_schedules.mutations import MUTATIONS
from tests.reliability.client_schedules.pairs import PAIRS, Pair
from tests.reliability.schedules import explore as turns

#: a request is printed up to so many characters
_WIDTH = 160
#: pairs of faults after which the number of cut journals is printed
_OFTEN = 100


def main():
    """Run schedules, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", choices=CASES, action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument(
        "--cut-journals", type=int, default=20_000, metavar="N", help="so many at least (default: 20000)"
    )
    parser.add_argument(
        "--crashes", type=int, default=6, metavar="N", help="at most so many of each run (default: 6)"
    )
    parser.add_argument(
        "--preemptions", type=int, default=2, metavar="N", help="of two clients, at most (default: 2)"
    )
    parser.add_argument("--mutations", action="store_true", help="try each mistake until it is found")
    parser.add_argument("--replay", metavar="TEXT", help="run this trial only, and show its requests")
    options = parser.parse_args()
    # what the server logs about refused requests is no news here
    logging.disable()
    if options.mutations:
        return _run_mutations()
    with trials.opened() as bench:
        if options.replay:
            return _replay(bench, options.replay)
        print(f"seed {options.seed}", flush=True)
        wrong = _cut_journals(bench, options)
        if not options.case:
            wrong += _run_pairs(bench, options.preemptions)
    return 1 if wrong else 0


def _cut_journals(bench, options):
    """Return the number of trials that went wrong."""
    generator, tally, started_at = random.Random(options.seed), explore.Tally(), time.monotonic()
    cases = [CASES[name] for name in options.case or CASES]
    told = 0

    def tell(what):
        nonlocal told
        for problem in tally.problems[told:]:
            print(problem, flush=True)
        told = len(tally.problems)
        numbers = ", ".join(f"{number:,} {name}" for name, number in tally.items())
        print(f"{what}: {numbers} in {time.monotonic() - started_at:,.0f} s, {told} wrong", flush=True)

    for case in cases:
        if case.is_full and not options.case:
            continue
        explore.explore(bench, case, tally, generator, options.crashes)
        tell(case.name)
    at_random = explore.explore_at_random(bench, cases, tally, generator, options.crashes)
    for number, _ in enumerate(at_random, 1):
        if number % _OFTEN == 0:
            tell("pairs of faults")
        if tally["cut journals"] >= options.cut_journals:
            break
    tell("in all")
    return told


def _run_pairs(bench, preemptions):
    """Return the number of schedules of two clients that went wrong."""
    wrong = 0
    for text in PAIRS:
        number, started_at = 0, time.monotonic()
        for result in turns.explore(Pair(bench, text), preemptions):
            number += 1
            if result.problem:
                wrong += 1
                print(f"--replay '{text}/{result.text}': {result.problem}", flush=True)
        print(f"{text}: {number:,} schedules in {time.monotonic() - started_at:,.0f} s", flush=True)
    return wrong


def _replay(bench, text):
    first, _, schedule = text.rpartition("/")
    if "+" in first and first in PAIRS:
        result = turns.run(Pair(bench, first), turns.follow(turns.parse(schedule)))
        lines, wrong = [f"{step.number}  {request}" for step, request in result.trace], [result.problem]
    else:
        lines, wrong = explore.replay(bench, text)
    print(*(line[:_WIDTH] for line in lines), sep="\n")
    wrong = [each for each in wrong if each]
    print(*(wrong or ["every resume and every undo is exact"]), sep="\n")
    return 1 if wrong else 0


def _run_mutations():
    status = 0
    for name, mutation in MUTATIONS.items():
        number, problem = mutation.search()
        status |= problem is None
        found = "not found" if problem is None else "found"
        print(f"{name}: {found} by {number} of {mutation.case}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
