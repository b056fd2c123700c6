# SPDX-License-Identifier: Apache-2.0
"""Many consumers in one request, and one by one where that is refused."""

import time

import pytest

from osc_placement.api import retry
from osc_placement.batch import execute, journal, service
from osc_placement.batch.execute import NoRecorder
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.gate import Gate
from osc_placement.batch.plan import Change, Consumer, Plan
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.select import read_states
from osc_placement.batch.writers import consumers
from osc_placement.errors import PlacementError
from osc_placement.model import Provider
from tests.unit.fake_placement import FakePlacement, error

EDIT = Recorded("allocations", ("allocations",))
FULL = error(409, "no room", code="placement.undefined_code")
HELD = ProviderState(allocations={"rp": {"VCPU": 1}})


def claim(uuid, after=HELD):
    """The first allocations of a consumer."""
    return Change(Consumer(uuid, None, "p", "u"), ProviderState(allocations={}), after)


def run(placement, *changes, gate=None, recorder=None, on_outcome=None):
    """Write the changes; how each ended."""
    report = execute.execute_plan(
        placement.client(),
        Plan(EDIT, changes),
        gate=gate or Gate(),
        recorder=recorder or NoRecorder(),
        concurrency=1,
        on_outcome=on_outcome,
    )
    return report, {outcome.change.uuid: str(outcome.result) for outcome in report.outcomes}


def requests(placement):
    """What was asked, without the question for versions."""
    return [line for line in placement.lines if line != "GET /"]


def test_many_consumers_are_one_request():
    """Each has its outcome, in the order of the plan."""
    placement = FakePlacement().on("POST", "/allocations", (204, ""))
    _, results = run(placement, claim("b"), claim("a"))
    assert list(results.items()) == [("b", "applied"), ("a", "applied")]
    assert requests(placement) == ["POST /allocations"]
    body = placement.asked[-1].body
    assert body["a"] == {
        "allocations": {"rp": {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }


def test_refused_request_is_made_one_by_one():
    """The consumer that does not fit fails alone, with the server's reason."""
    placement = FakePlacement().on("POST", "/allocations", FULL)
    placement.on("PUT", "/allocations/a", (204, "")).on("PUT", "/allocations/b", FULL)
    report, results = run(placement, claim("a"), claim("b"))
    assert results == {"a": "applied", "b": "failed"}
    assert "no room" in str(report.outcomes[1].error)
    assert report.exit_status == 3


def test_lost_answer_is_read_back_and_keeps_what_was_there():
    """The request may have been done: then it is said so, and its journal can undo it."""
    placement = FakePlacement().on("POST", "/allocations", error(502, "Bad Gateway"))
    shown = {"allocations": {"rp": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u"}
    for uuid in "ab":
        placement.on(
            "GET", f"/allocations/{uuid}", {**shown, "consumer_generation": 1, "consumer_type": "INSTANCE"}
        )
    report, results = run(placement, claim("a"), claim("b"))
    assert results == {"a": "applied", "b": "applied"}
    assert all(outcome.change.before.allocations == {} for outcome in report.outcomes)
    assert not [asked for asked in placement.asked if asked.method == "PUT"]


def test_groups_are_bounded(monkeypatch):
    """No request has more consumers than SIZE; a consumer that is left alone gets one of its own."""
    monkeypatch.setattr(consumers, "SIZE", 2)
    placement = FakePlacement().on("POST", "/allocations", (204, "")).on("PUT", "/allocations/c", (204, ""))
    _, results = run(placement, claim("a"), claim("b"), claim("c"))
    assert set(results.values()) == {"applied"}
    assert requests(placement) == ["POST /allocations", "PUT /allocations/c"]


def test_unchanged_consumer_is_not_written():
    """What is as wanted has its outcome and no request."""
    placement = FakePlacement()
    step = Change(Consumer("a"), HELD, HELD)
    assert run(placement, step)[1] == {"a": "unchanged"}
    assert requests(placement) == []


def test_closed_gate_skips_the_rest():
    """Behind a closed gate nothing is written, and the report says that it was interrupted."""
    gate = Gate()
    gate.stop.set()
    placement = FakePlacement()
    report, results = run(placement, claim("a"), claim("b"), gate=gate)
    assert set(results.values()) == {"skipped"}
    assert (report.interrupted, report.exit_status, requests(placement)) == (True, 130, [])


def test_run_stops_within_a_group_when_too_much_failed():
    """One failure is allowed: the third of the second group is not tried, nor is any behind it."""
    gate = Gate(max_failures=1)
    placement = FakePlacement().on("POST", "/allocations", FULL)
    for uuid, answer in {"a": (204, ""), "b": FULL, "c": FULL, "d": (204, ""), "e": (204, "")}.items():
        placement.on("PUT", f"/allocations/{uuid}", answer)
    report, results = run(placement, *(claim(uuid) for uuid in "abcde"), gate=gate)
    assert list(results.values()) == ["applied", "failed", "failed", "skipped", "skipped"]
    assert (report.exit_status, report.halted) == (3, "stopped after more than 1 failures")
    assert "PUT /allocations/d" not in requests(placement)


def test_refused_changes_do_not_count_as_failures():
    """Nobody tried it, and the others are changed."""
    placement = FakePlacement().on("PUT", "/allocations/b", (204, ""))
    plan = Plan(EDIT, (claim("a"), claim("b")), refused={"a": PlacementError("full")})
    gate, recorder = Gate(max_failures=0), NoRecorder()
    report = execute.execute_plan(placement.client(), plan, gate=gate, recorder=recorder, concurrency=1)
    assert [str(outcome.result) for outcome in report.outcomes] == ["failed", "applied"]


class Recorder(NoRecorder):
    """Calls something at each outcome, in the thread that made it."""

    def __init__(self, on_end):
        self._on_end = on_end

    def end(self, outcome):
        self._on_end(outcome)


def test_stop_leaves_the_rest_of_a_refused_group():
    """Ctrl-C while a refused group is made one by one: the one under way is the last."""
    gate = Gate()
    placement = FakePlacement().on("POST", "/allocations", FULL)
    placement.on("PUT", "/allocations/a", (204, "")).on("PUT", "/allocations/b", (204, ""))
    recorder = Recorder(lambda _outcome: gate.stop.set())
    report, results = run(placement, claim("a"), claim("b"), gate=gate, recorder=recorder)
    assert results == {"a": "applied", "b": "skipped"}
    assert report.interrupted


def test_rate_holds_between_the_consumers_of_a_group():
    """What may pass passes at once: nobody waits until all of a group may."""
    gate = Gate(rate=5)
    placement = FakePlacement()
    placement.on("PUT", "/allocations/a", (204, "")).on("PUT", "/allocations/b", (204, ""))
    told = []
    begin = time.monotonic()
    run(
        placement,
        *(claim("a"), claim("b")),
        gate=gate,
        on_outcome=lambda _outcome: told.append(time.monotonic() - begin),
    )
    assert told[0] < 0.15 < told[1]


def test_every_outcome_is_kept_before_the_next_is_begun():
    """Who dies amid a refused group has lost no word about those before."""
    placement = FakePlacement().on("POST", "/allocations", FULL)
    placement.on("PUT", "/allocations/a", (204, "")).on("PUT", "/allocations/b", (204, ""))
    kept = []
    run(
        placement,
        *(claim("a"), claim("b")),
        recorder=Recorder(lambda outcome: kept.append((outcome.change.uuid, requests(placement)[-1]))),
    )
    assert kept == [("a", "PUT /allocations/a"), ("b", "PUT /allocations/b")]


def test_resumed_run_is_done_when_what_was_left_is_found_done(tmp_path):
    """The process died after the request: nothing is written, and the journal is complete."""
    change = claim("a")
    journal.Journals(tmp_path).create("http://placement", Plan(EDIT, (change,))).close()
    (path,) = tmp_path.glob("*.jsonl")
    recorded, recorder = journal.Journals(tmp_path).reopen(path.stem)
    held = {"allocations": {"rp": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u"}
    placement = FakePlacement().on("GET", "/allocations/a", {**held, "consumer_generation": 1})
    client = placement.client()
    plan = service.plan_resume(recorded, lambda subjects, facets: read_states(client, subjects, facets))
    recorder.begin(plan)
    report = execute.execute_plan(client, plan, gate=Gate(), recorder=recorder)
    recorder.end_sitting(report)
    recorder.close()
    assert [str(outcome.result) for outcome in report.outcomes] == ["unchanged"]
    assert journal.Journals(tmp_path).read(path.stem).state == "done"


class Notes(NoRecorder):
    """Remembers what was planned again."""

    def __init__(self):
        self.again = []

    def plan_again(self, change):
        self.again.append(change)


@pytest.mark.parametrize("goes_on", [False, True])
def test_late_write_of_a_killed_run_keeps_its_intent(monkeypatch, goes_on):
    """It lands between the reading of the resume and its write: nothing is left to do, but to undo."""
    monkeypatch.setattr(retry, "_FIRST_PAUSE", 0.0)
    change = claim("a")
    held = {"allocations": {"rp": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u"}
    conflict = error(409, "", code="placement.concurrent_update")
    placement = FakePlacement().on("PUT", "/allocations/a", conflict)
    placement.on("GET", "/allocations/a", {**held, "consumer_generation": 1})
    plan = Plan(EDIT, (change,), goes_on=goes_on)
    notes = Notes()
    report = execute.execute_plan(placement.client(), plan, gate=Gate(), recorder=notes)
    assert [str(outcome.result) for outcome in report.outcomes] == ["unchanged"]
    assert len(notes.again) == (not goes_on)


@pytest.mark.parametrize(("subject", "expected"), [(Consumer("c"), True), (Provider("p", "p", 0), False)])
def test_only_consumers_are_written_together(subject, expected):
    """Providers have no request for many of them."""
    assert consumers.are_consumers((Change(subject, HELD, HELD),)) is expected


def test_writer_of_consumers_does_not_take_an_empty_plan():
    """A run that is done needs no later version of the server to be gone on with."""
    assert not consumers.are_consumers(())
