# SPDX-License-Identifier: Apache-2.0
"""Verdicts on pairs of answers, with both sides given as functions."""

import json

import pytest

from osc_placement.server.shadow import judge as judge_module
from osc_placement.server.shadow.dispatch import Job
from osc_placement.server.shadow.exchange import Answer, Request
from osc_placement.server.shadow.report import Key, Verdict
from osc_placement.server.shadow.upstream import UpstreamError

TOKEN = "gAAAAABsecret-of-a-client"
REQUEST = Request(
    "GET", "/traits", headers={"x-auth-token": TOKEN, "openstack-api-version": "placement 1.39"}
)
JSON = {"content-type": "application/json", "openstack-api-version": "placement 1.39"}
PROVIDERS = {"resource_providers": [{"uuid": "u", "generation": 1}]}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(judge_module, "_PAUSE", 0)


def answer(data, status=200, **headers):
    return Answer(status, {**JSON, **headers}, json.dumps(data).encode())


class Side:
    """A service that gives these answers in turn, and then the last again and again."""

    def __init__(self, *answers, providers=PROVIDERS):
        self.answers = list(answers)
        self.providers = providers
        self.asked = []

    def __call__(self, request):
        self.asked.append(request)
        if request.path == "/resource_providers":
            return answer(self.providers), 0.001
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, Exception):
            raise given
        return given, 0.001


def ask(first, upstream, ours, request=REQUEST):
    """The verdict on a first answer of upstream, and the notes."""
    notes = []
    judge = judge_module.Judge(upstream, ours, notes.append)
    return judge.judge(Job(Key("GET", request.path, "1.39"), request, first, 0.01)), notes


def test_equal_answers_are_equal_in_any_order():
    """A list in another order is the same, and nobody is asked again."""
    upstream = Side(answer({}))
    verdict, _ = ask(answer({"traits": ["A", "B"]}), upstream, Side(answer({"traits": ["B", "A"]})))
    assert verdict == Verdict(seconds=0.001)
    assert [one.path for one in upstream.asked] == ["/resource_providers"] * 2


def test_write_between_two_answers_is_no_difference():
    """Upstream answered before the write and ours after it; asked again, both have it."""
    new = answer({"traits": ["A"]})
    verdict, _ = ask(answer({"traits": []}), Side(new), Side(new))
    assert verdict == Verdict(asked_again=True, seconds=0.001)


def test_write_that_is_undone_is_no_difference():
    """Ours is asked while a trait exists that upstream has neither before nor after it."""
    old, new = answer({"traits": []}), answer({"traits": ["A"]})
    verdict, _ = ask(old, Side(old), Side(new, new, old))
    assert verdict == Verdict(asked_again=True, seconds=0.001)


def test_answers_that_change_each_time_are_skipped():
    """While upstream changes between two questions, nothing can be said."""
    changing = Side(*(answer({"traits": [str(number)]}) for number in range(100)))
    verdict, _ = ask(answer({"traits": []}), changing, Side(answer({"traits": ["other"]})))
    assert verdict.skipped == "upstream's answer changed each time"


def test_lasting_difference_is_kept_without_secrets():
    """Request and both answers are in the example, and the token of the client is nowhere."""
    theirs = answer({"traits": [TOKEN]}, **{"www-authenticate": TOKEN})
    request = Request("GET", "/traits", f"name={TOKEN}", {**REQUEST.headers, "cookie": "session=abcdefgh"})
    verdict, _ = ask(theirs, Side(theirs), Side(answer({"traits": []})), request)
    assert verdict.explained is None
    assert verdict.example["query"] == "name=***"
    assert verdict.example["headers"] == {"openstack-api-version": "placement 1.39"}
    assert verdict.example["upstream"]["status"] == verdict.example["ours"]["status"] == 200
    assert verdict.example["ours"]["body"] == '{"traits": []}'
    assert TOKEN not in json.dumps(verdict.example)
    assert "abcdefgh" not in json.dumps(verdict.example)


def test_intended_difference_has_its_reason():
    """A 500 of openstack-placement that is a 400 here is a row of the list of differences."""
    theirs, ours = answer({"errors": []}, 500), answer({"errors": []}, 400)
    verdict, _ = ask(theirs, Side(theirs), Side(ours))
    assert verdict.explained == "the reference answers 500"
    assert verdict.example is not None


def test_our_side_without_its_database_is_noted_and_skipped():
    """A 503 of ours is no difference but a fault of the shadow's operator."""
    ours = Side(answer({"errors": [{"detail": "The database cannot be reached."}]}, 503))
    verdict, notes = ask(answer({"traits": []}), Side(answer({})), ours)
    assert verdict.skipped == "our side is not ready"
    assert notes == ["Our side answers 503: The database cannot be reached."]


def test_upstream_that_cannot_be_asked_again_is_skipped():
    """It went down between its answer and the next question."""
    upstream = Side(UpstreamError(502, "it is down"))
    verdict, notes = ask(answer({"traits": []}), upstream, Side(answer({"traits": ["A"]})))
    assert (verdict.skipped, notes) == ("a service could not be asked again", ["it is down"])


def test_encoded_answer_is_asked_for_without_encoding():
    """A web server that compresses is no difference, and neither is its 'vary'."""
    packed = Answer(200, {**JSON, "content-encoding": "gzip"}, b"\x1f\x8b")
    plain = answer({"traits": []}, vary="openstack-api-version, Accept-Encoding")
    ours = answer({"traits": []}, vary="openstack-api-version")
    assert ask(packed, Side(plain), Side(ours))[0] == Verdict(seconds=0.001)


@pytest.mark.parametrize(
    "providers",
    [{"resource_providers": []}, {"resource_providers": [{"uuid": "u", "generation": 2}]}],
    ids=("without providers", "with another generation"),
)
def test_another_database_is_said_once(providers):
    """Instead of a difference at each request there is one note, and nothing is compared."""
    notes = []
    ours = Side(answer({"traits": []}), providers=providers)
    judge = judge_module.Judge(Side(answer({})), ours, notes.append)
    job = Job(Key("GET", "/traits", "1.39"), REQUEST, answer({"traits": ["A"]}), 0.01)
    assert [judge.judge(job).skipped for _ in range(3)] == [judge_module.ANOTHER_DATABASE] * 3
    assert len(notes) == 1
    assert "another database" in notes[0]


def test_database_that_is_corrected_is_noticed(monkeypatch):
    """The databases are compared again, so the comparisons begin without a restart."""
    monkeypatch.setattr(judge_module, "_CHECK_AGAIN", 0)
    ours = Side(answer({"traits": []}), providers={"resource_providers": []})
    judge = judge_module.Judge(Side(answer({"traits": []})), ours, lambda note: None)
    job = Job(Key("GET", "/traits", "1.39"), REQUEST, answer({"traits": []}), 0.01)
    assert judge.judge(job).skipped == judge_module.ANOTHER_DATABASE
    ours.providers = PROVIDERS
    assert judge.judge(job) == Verdict(seconds=0.001)
