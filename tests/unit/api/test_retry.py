# SPDX-License-Identifier: Apache-2.0
"""osc_placement.api.retry: when another attempt is made, and how long it is waited for."""

import threading

import pytest

from osc_placement import codes
from osc_placement.api import retry
from osc_placement.errors import Conflict, ServerError

OVERTAKEN = Conflict(409, "somebody was faster", document={"code": codes.CONCURRENT_UPDATE})
FULL = Conflict(409, "no capacity", document={"code": "placement.undefined_code"})


class Pauses(threading.Event):
    """A stop event that notes for how long it is waited on, and does not wait."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        self.seconds.append(timeout)
        return False


def fail(*errors):
    """Make an attempt that raises these, one after the other, and then returns its number."""
    left = list(errors)

    def attempt(number):
        if left:
            raise left.pop(0)
        return number

    return attempt


def test_attempt_is_told_its_number_and_its_value_is_returned():
    pauses = Pauses()
    assert retry.retry(fail(OVERTAKEN, OVERTAKEN), stop=pauses) == 3
    assert len(pauses.seconds) == 2


def test_last_conflict_is_raised_without_a_pause():
    pauses = Pauses()
    with pytest.raises(Conflict):
        retry.retry(fail(*[OVERTAKEN] * 20), stop=pauses)
    assert len(pauses.seconds) == retry.MAX_ATTEMPTS - 1


@pytest.mark.parametrize("error", [FULL, ServerError(503, "down")])
def test_other_errors_are_raised_at_once(error):
    pauses = Pauses()
    with pytest.raises(type(error)):
        retry.retry(fail(error), stop=pauses)
    assert pauses.seconds == []


def test_caller_decides_which_errors_are_retried():
    assert retry.retry(fail(FULL), after=lambda error: error is FULL, stop=Pauses()) == 2


def test_pauses_double_up_to_a_second():
    pauses = Pauses()
    retry.retry(fail(*[OVERTAKEN] * 9), stop=pauses)
    longest = [min(1.0, 0.02 * 2**number) for number in range(1, 10)]
    assert all(most / 2 <= paused <= most for paused, most in zip(pauses.seconds, longest, strict=True))


def refuse(documents, sent, **facts):
    """Make a function that notes the generations it sends, and is refused the first time."""

    def send():
        sent.append([document["consumer_generation"] for document in documents])
        if len(sent) == 1:
            raise Conflict(409, "refused", document=facts)

    return send


def test_new_consumer_that_a_refused_write_left_behind_has_generation_0():
    documents, sent = [{"consumer_generation": None}, {"consumer_generation": 3}], []
    retry.send_new_consumers(refuse(documents, sent, code=codes.CONCURRENT_UPDATE), documents)
    assert sent == [[None, 3], [0, 3]]


@pytest.mark.parametrize(
    ("generation", "code"), [(3, codes.CONCURRENT_UPDATE), (None, "placement.undefined_code")]
)
def test_other_conflicts_are_for_the_caller(generation, code):
    documents, sent = [{"consumer_generation": generation}], []
    with pytest.raises(Conflict):
        retry.send_new_consumers(refuse(documents, sent, code=code), documents)
    assert len(sent) == 1
