# SPDX-License-Identifier: Apache-2.0
"""What a server has acknowledged, and whether the database has it: nothing lost, nothing half done."""

import random
import threading
import time

from tests.reliability import truth
from tests.reliability.clients import PATIENCE, Claim, run_together

THERE, GONE, UNKNOWN = "there", "gone", "unknown"


class Ledger:
    """What clients were told about the claims of their consumers."""

    def __init__(self):
        self.claims = {}
        self.states = {}
        self.answers = []

    def note(self, answer, claim, state):
        """Remember the answer to a claim, or to its deletion, after which it ought to be in a state."""
        self.answers.append(answer)
        self.claims[claim.consumer] = claim
        if answer.status in (204, 404):
            self.states[claim.consumer] = state
        elif answer.status != 409:
            # no answer, or one that does not say whether it was done
            self.states[claim.consumer] = UNKNOWN

    @property
    def acknowledged(self):
        """How many writes were."""
        return sum(answer.status == 204 for answer in self.answers)

    def merge(self, other):
        """Take over what another one knows."""
        self.claims |= other.claims
        self.states |= other.states
        self.answers += other.answers

    def find_lost(self, database, where_else=None):
        """Claims that the database does not have as it was acknowledged, in words.

        :param where_else: a provider that allocations of another may have been moved to, by that other
        """
        held = truth.held(database)
        problems = []
        for consumer, claim in self.claims.items():
            amounts = sorted(claim.amounts.values())
            found = held.get(consumer, {})
            moved = [(where_else or {}).get(of, of) for of in claim.amounts]
            places = ({*claim.amounts}, {*moved})
            whole = sorted(found.values()) == amounts and {of for of, _ in found} in places
            state = self.states.get(consumer, GONE)
            if (found and not whole) or (found and state == GONE) or (not found and state == THERE):
                problems.append(f"{consumer} is {state}, asked for {claim.amounts}, has {found}")
        return problems


def work(client, choose, begun, stop):
    """Claim, and now and then give back, until told to stop; the ledger of it.

    :param choose: makes the amounts of the next claim
    :param begun: set as soon as a claim was granted
    """
    ledger = Ledger()
    while not stop.is_set():
        claim = Claim.of(choose(), project="those who work")
        answer = claim.put(client)
        ledger.note(answer, claim, THERE)
        if answer.status == 204:
            begun.set()
        if answer.status == 204 and random.random() < 0.3:
            answer = client.send("DELETE", f"/allocations/{claim.consumer}")
            ledger.note(answer, claim, GONE)
        if answer.status in (0, 503):
            time.sleep(0.05)
    return ledger


def work_until(url, choose, disturb, *, clients=12, others=()):
    """Have clients work while something is done to the server; their common ledger.

    :param disturb: what is done, by the caller; the work ends after it
    :param others: more scripts, which get a client and the event that tells them to stop
    """
    begun, stop = threading.Event(), threading.Event()
    scripts = [lambda client: work(client, choose, begun, stop)] * clients
    scripts += [lambda client, other=other: other(client, stop) for other in others]

    def disturb_then_stop(client):
        try:
            assert begun.wait(PATIENCE), "no claim was granted"
            disturb()
        finally:
            stop.set()

    ledger = Ledger()
    for each in run_together(url, [*scripts, disturb_then_stop])[:clients]:
        ledger.merge(each)
    return ledger
