# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.reliability.schedules``: schedules of operations of the server on a real database.

All schedules with a bounded number of preemptions of each pair of operations, or of those named; then some at
random. Exit status 1 if one has an outcome that no serial order has; the schedule is printed, and --replay
runs it again with its statements.
"""

import argparse
import itertools
import logging
import random
import secrets
import sys
import time

from tests import databases
from tests.reliability.schedules import explore
from tests.reliability.schedules.cases import OPERATIONS, Case, find_first_problem, make_place
from tests.reliability.schedules.controller import FAULTS
from tests.reliability.schedules.mutations import MUTATIONS

#: a statement is printed up to so many characters
_WIDTH = 160


def main():
    """Run schedules, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=databases.BACKENDS, default="sqlite")
    parser.add_argument(
        "--operations",
        type=_read_operations,
        metavar="NAME+NAME",
        help=f"one to four of {', '.join(OPERATIONS)} (default: each pair)",
    )
    parser.add_argument(
        "--preemptions", type=int, default=2, metavar="N", help="at most so many in a schedule (default: 2)"
    )
    parser.add_argument(
        "--faults", type=int, default=0, metavar="N", help="at most so many in a schedule (default: 0)"
    )
    parser.add_argument(
        "--own-server",
        action="store_true",
        help="start a server of the database, and restart it where a schedule says so",
    )
    parser.add_argument(
        "--random",
        type=int,
        metavar="N",
        help="so many schedules at random instead, of three or four operations at random if none are named",
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="of --random")
    parser.add_argument(
        "--replay", type=_read_schedule, metavar="STEPS", help="run this schedule of --operations only"
    )
    parser.add_argument(
        "--mutations", action="store_true", help="run those of each mistake until it is found"
    )
    options = parser.parse_args()
    if options.replay is not None and not options.operations:
        parser.error("--replay needs --operations")
    # what the server logs about refused requests is no news here
    logging.disable()
    started_at = time.monotonic()
    if options.mutations:
        return _run_mutations(options)
    with make_place(options.backend, 4, own_server=options.own_server) as place:
        if options.replay is not None:
            return _replay(Case(place, options.operations), options.replay)
        number, is_right = _run(place, options)
    print(f"{options.backend}: {number:,} schedules in {time.monotonic() - started_at:,.0f} s")
    return 0 if is_right else 1


def _read_operations(text):
    names = text.split("+")
    if unknown := [name for name in names if name not in OPERATIONS]:
        raise argparse.ArgumentTypeError(f"there is no operation {unknown[0]!r}")
    if not 1 <= len(names) <= 4:
        raise argparse.ArgumentTypeError("one to four operations are needed")
    return names


def _read_schedule(text):
    try:
        return explore.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _run(place, options):
    """Return the number of schedules, and whether all were right; each that is not is printed."""
    number, is_right = 0, True
    if options.random is not None:
        print(f"seed {options.seed}")
    for names, results in _choose(place, options):
        count, wrong = find_first_problem(results)
        number += count
        if wrong is not None:
            is_right = False
            print(f"--operations {'+'.join(names)} --replay {wrong.text}: {wrong.problem}")
    return number, is_right


def _choose(place, options):
    """Yield operations with the results of their schedules."""
    if options.random is None:
        pairs = itertools.combinations_with_replacement(OPERATIONS, 2)
        for names in [options.operations] if options.operations else pairs:
            yield names, explore.explore(Case(place, names), options.preemptions, options.faults)
        return
    generator = random.Random(options.seed)
    if options.operations:
        case = Case(place, options.operations)
        yield options.operations, explore.explore_at_random(case, generator, options.random, options.faults)
        return
    for begin in range(0, options.random, explore.AT_ONCE):
        names = generator.choices(list(OPERATIONS), k=generator.choice((3, 4)))
        number = min(explore.AT_ONCE, options.random - begin)
        case = Case(place, names)
        yield names, explore.explore_at_random(case, generator, number, options.faults)


def _replay(case, steps):
    result = explore.run(case, explore.follow(steps))
    for step, statement in result.trace:
        print(f"{step!s:2} {' '.join(statement.split())[:_WIDTH]}")
        if step.fault:
            print(f"   fault: {FAULTS[step.fault]}")
    if result.choices[: len(steps)] != steps:
        print(f"the schedule was {result.text}: the code sends other statements than it did")
    print(result.problem or "the outcome is that of a serial order")
    return 1 if result.problem else 0


def _run_mutations(options):
    status = 0
    for name, mutation in MUTATIONS.items():
        if options.backend in mutation.backends:
            number, wrong = mutation.search(options.backend, options.preemptions)
            status |= wrong is None
            print(f"{name}: {'not found' if wrong is None else 'found'} by {number} of {mutation.operations}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
