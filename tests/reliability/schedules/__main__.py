# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.reliability.schedules``: schedules of operations of the server on a real database.

All schedules with a bounded number of preemptions of each pair of operations, or of those named, or some at
random. Exit status 1 if one has an outcome that no serial order has; the schedule is printed, and --replay
runs it again with its statements. SIGINT and SIGTERM end the program with what it has counted.
"""

import argparse
import logging
import secrets
import signal
import sys
import time

from tests import databases
from tests.reliability import galera
from tests.reliability.schedules import explore, workers
from tests.reliability.schedules.cases import OPERATIONS, Case, make_place
from tests.reliability.schedules.controller import FAULTS, LETTERS
from tests.reliability.schedules.mutations import MUTATIONS

#: a statement is printed up to so many characters
_WIDTH = 160
#: seconds between two lines about the progress
_PAUSE = 60


def main():
    """Run schedules, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=(*databases.BACKENDS, galera.BACKEND), default="sqlite")
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
        "--letters",
        type=_read_letters,
        default=LETTERS,
        help=f"only faults with these letters (default: {LETTERS})",
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
        "--jobs", type=int, default=1, metavar="N", help="so many processes, each with a database of its own"
    )
    parser.add_argument(
        "--replay", type=_read_schedule, metavar="STEPS", help="run this schedule of --operations only"
    )
    parser.add_argument(
        "--mutations", action="store_true", help="run those of each mistake until it is found"
    )
    options = parser.parse_args()
    if options.replay is not None and not options.operations:
        parser.error("--replay needs --operations")
    if options.own_server and options.backend not in databases.SERVERS:
        parser.error(f"--own-server is for {' and '.join(databases.SERVERS)}")
    # what the server logs about refused requests is no news here
    logging.disable()
    if options.mutations:
        return _run_mutations(options)
    if options.replay is not None:
        with make_place(options.backend, len(options.operations), own_server=options.own_server) as place:
            return _replay(Case(place, options.operations), options.replay)
    return _run(options)


def _read_operations(text):
    names = text.split("+")
    if unknown := [name for name in names if name not in OPERATIONS]:
        raise argparse.ArgumentTypeError(f"there is no operation {unknown[0]!r}")
    if not 1 <= len(names) <= 4:
        raise argparse.ArgumentTypeError("one to four operations are needed")
    return names


def _read_letters(text):
    if unknown := [letter for letter in text if letter not in FAULTS]:
        raise argparse.ArgumentTypeError(f"there is no fault {unknown[0]!r}")
    return text


def _read_schedule(text):
    try:
        return explore.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _run(options):
    """Run schedules in processes of their own, and return the exit status."""
    if options.random is None:
        choices = workers.Systematic(options.operations, options.preemptions, options.faults, options.letters)
    else:
        print(f"seed {options.seed}", flush=True)
        choices = workers.AtRandom(
            options.operations, options.random, options.seed, options.faults, options.letters
        )
    team = workers.Team(choices, options.backend, options.jobs, own_server=options.own_server)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: team.stop())
    started_at = told_at = time.monotonic()

    def tell():
        seconds = time.monotonic() - started_at
        numbers = f"{team.schedules:,} schedules, {team.choices:,} of {len(choices):,} choices of operations"
        print(f"{options.backend}: {numbers} in {seconds:,.0f} s, {team.wrong} wrong", flush=True)

    for problem in team.run():
        if problem is not None:
            print(problem, flush=True)
        if time.monotonic() > told_at + _PAUSE:
            told_at = time.monotonic()
            tell()
    tell()
    return 1 if team.wrong or team.has_failed else 0


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
