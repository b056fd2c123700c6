# SPDX-License-Identifier: Apache-2.0
"""The choice of schedules: each fault at each request, then pairs of them at random, and the crashes of each.

A trial is written as ``CASE/FAULTS/CUT/VERBS``, with further ``FAULTS/CUT`` for a resume that had faults and
crashed as well, and the same text runs the same trial again.
"""

import itertools
from collections import Counter
from dataclasses import dataclass, replace

from tests.reliability.client_schedules.cases import CASES
from tests.reliability.client_schedules.trials import FORCE, RESUME, UNDO, parse_cut
from tests.reliability.client_schedules.wire import (
    KINDS,
    LARGE,
    LATE,
    OF_OTHERS,
    Fault,
    parse_faults,
)

#: how many requests overtake a late one; the last is more than there are
LATENESS = (0, 2, 99)
#: what is done with a cut journal
RECOVERIES = ((RESUME, UNDO), (UNDO,), (FORCE,))
_VERBS = {"+".join(verbs): verbs for verbs in (*RECOVERIES, (RESUME,), (RESUME, FORCE))}


@dataclass(frozen=True)
class Problem:
    """A trial with a wrong outcome.

    :ivar text: runs it again
    """

    text: str
    wrong: list

    def __str__(self):
        return f"--replay {self.text}: {self.wrong[0]}"


class Tally(Counter):
    """How many runs, cut journals, resumes and undos there were, and which went wrong."""

    def __init__(self):
        super().__init__()
        self.problems = []


def list_faults(case, requests, random=None):
    """Yield each fault at each of so many requests.

    :param random: chooses what others do at each; without it there is a fault for each deed
    """
    for place in range(requests):
        for kind in KINDS:
            if kind == LARGE and "atomic" not in case.name and "reshaper" not in case.name:
                continue
            variants = _variants(case, kind)
            for variant in [random.choice(variants)] if random and kind in OF_OTHERS else variants:
                yield Fault(place, kind, variant)


def _variants(case, kind):
    return range(len(case.deeds)) if kind in OF_OTHERS else LATENESS if kind == LATE else (0,)


def draw_faults(case, requests, random):
    """Return two faults at random, which may be at the same request."""
    found = []
    for _ in range(2):
        kind = random.choice(KINDS)
        found.append(Fault(random.randrange(requests), kind, random.choice(_variants(case, kind))))
    return tuple(found)


def try_crashes(bench, history, random, tally, most, *, depth=0):
    """Recover the run from its crashes since its last fault, up to so many, chosen at random.

    Each is tried as it is, and with a torn line. Some of the resumes have faults and crash as well.

    :param depth: how many times a resume may crash again
    """
    tally["runs"] += 1
    if history.problems:
        tally.problems.append(Problem(str(history), history.problems))
    cuts = history.list_cuts(since=history.world.last_fault)
    cuts += [torn for cut in cuts if (torn := history.tear(cut, random))]
    for cut in random.sample(cuts, min(most, len(cuts))):
        try_cut(bench, history, cut, random, tally)
        if depth and random.random() < 0.2:
            requests = max(1, history.requests)
            faults = draw_faults(history.case, requests, random)
            again = bench.conduct(history.case, faults, (history, cut))
            try_crashes(bench, again, random, tally, 2, depth=depth - 1)


def try_cut(bench, history, cut, random, tally):
    """Recover the run from one crash, in every way."""
    tally["cut journals"] += 1
    moment = history.world.moments[cut.moment]
    late = random.randrange(8) if moment.waiting else 0
    for verbs in RECOVERIES:
        if verbs == (FORCE,) and (moment.ledger.is_alone or not _is_forcible(history.case)):
            continue
        _, wrong = bench.recover(history, cut, verbs, late)
        tally.update({"undo" if verb == FORCE else verb: 1 for verb in verbs})
        if wrong:
            text = f"{history}/{cut}/{'+'.join(verbs)}{f'/{late}' if late else ''}".replace(" ", "_")
            tally.problems.append(Problem(text, wrong))


def _is_forcible(case):
    """Whether an undo that is forced restores all that others have not set: not where steps depend on each
    other, or are one claim."""
    return not any(word in case.name for word in ("apply", "new-hosts", "reshape", "migration"))


def explore(bench, case, tally, random, most):
    """Try each fault at each request of a case, with up to so many crashes of each run."""
    plain = bench.conduct(case)
    try_crashes(bench, plain, random, tally, most)
    for fault in list_faults(case, plain.requests, random):
        crashes = min(most, 2) if case.is_full else most
        try_crashes(bench, bench.conduct(case, (fault,)), random, tally, crashes)


def explore_at_random(bench, cases, tally, random, most):
    """Try pairs of faults of cases at random without end; yield after each.

    Cases that are long come less often, as they take ten times as long.
    """
    requests = {}
    for case in itertools.chain.from_iterable(itertools.repeat(tuple(cases))):
        if case.is_full and len(cases) > 1 and random.random() < 0.9:
            continue
        if case.name not in requests:
            requests[case.name] = bench.conduct(case).requests
        faults = draw_faults(case, requests[case.name], random)
        try_crashes(bench, bench.conduct(case, faults), random, tally, most, depth=1)
        yield


def replay(bench, text):
    """Run the trial that is written so; return the lines of its requests, and what is wrong.

    A crash that is not possible is wrong, as it is after a change of the client.
    """
    name, *parts = text.replace("_", " ").split("/")
    late = int(parts.pop()) if len(parts) % 2 == 0 and parts[-1].isdigit() else 0
    verbs = _VERBS[parts.pop()] if parts[-1] in _VERBS else ()
    case, history, origin = CASES[name], None, None
    lines = []
    while parts:
        history = bench.conduct(case, parse_faults(parts.pop(0)), origin)
        lines += [f"--- {history}", *history.world.log]
        origin = (history, parse_cut(parts.pop(0))) if parts else None
        if origin and replace(origin[1], torn=0) not in history.list_cuts():
            return lines, [f"{history} cannot crash at {origin[1]}: the client does something else now"]
    if not verbs:
        return lines, history.problems
    world, wrong = bench.recover(*origin, verbs, late)
    return [*lines, *world.log], wrong
