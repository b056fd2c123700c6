# SPDX-License-Identifier: Apache-2.0
"""Running a plan: every provider has an outcome, and conflicts are planned again."""

import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osc_placement.api import retry
from osc_placement.batch import execute
from osc_placement.batch.gate import Gate
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, ProviderState, Reading, Result, make_plan
from osc_placement.batch.select import read_states
from osc_placement.errors import Conflict, PlacementError, Unreachable
from osc_placement.model import Provider
from tests.unit.batch.cloud import FakeCloud, processors

ADD = TraitEdit("add", frozenset("A"))


@pytest.fixture(autouse=True, scope="module")
def no_pauses():
    """Do not wait between attempts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry, "_FIRST_PAUSE", 0.0)
        yield


def run(cloud, edit=ADD, **options):
    plan = make_plan(edit, read_states(cloud, cloud.providers, edit.facets))
    return execute.execute_plan(cloud, plan, **options)


def results(report):
    return {outcome.change.subject.name: str(outcome.result) for outcome in report.outcomes}


def test_every_provider_is_written_once_and_read_once():
    """The cheapest run there is: one GET and one PUT for each provider."""
    cloud = FakeCloud("a", "b", traits=["B"])
    report = run(cloud, concurrency=1)
    assert results(report) == {"a": "applied", "b": "applied"}
    assert cloud.calls == [("read", "a"), ("read", "b"), ("write", "a"), ("write", "b")]
    assert cloud.facets["a"]["traits"] == ["A", "B"]


def test_all_fields_of_an_inventory_go_back_as_they_were():
    """Only the ratio differs in what is written."""
    cloud = FakeCloud("a", inventories=processors(1.0))
    assert results(run(cloud, RatioEdit({"VCPU": 4.0}))) == {"a": "applied"}
    assert cloud.facets["a"]["inventories"] == processors(4.0)


def test_an_unchanged_provider_costs_no_write():
    """What is as asked is left alone, and still has its outcome."""
    cloud = FakeCloud("a", traits=["A"])
    report = run(cloud)
    assert results(report) == {"a": "unchanged"}
    assert ("write", "a") not in cloud.calls
    assert report.outcomes[0].attempts == 0


def test_a_conflict_is_planned_again_on_what_is_there_now():
    """Somebody else's trait survives, and the outcome tells what was really changed."""
    cloud = FakeCloud("a")
    interferences = iter([["SOMEBODYS"]])

    def interfere(uuid):
        for traits in interferences:
            cloud.touch(uuid, traits=traits)

    cloud.before_write = interfere
    report = run(cloud)
    outcome = report.outcomes[0]
    assert (outcome.result, outcome.attempts) == (Result.APPLIED, 2)
    assert cloud.facets["a"]["traits"] == ["A", "SOMEBODYS"]
    assert outcome.change.before.traits == {"SOMEBODYS"}
    assert outcome.generation == 2


def test_a_conflict_that_did_what_was_wanted_ends_unchanged():
    """If the other writer set the trait, nothing is left to write."""
    cloud = FakeCloud("a")
    cloud.before_write = lambda uuid: cloud.touch(uuid, traits=["A"])
    report = run(cloud)
    assert results(report) == {"a": "unchanged"}
    assert report.exit_status == 0


def test_conflicts_for_ever_are_given_up():
    """After a bounded number of attempts the conflict is that provider's failure."""
    cloud = FakeCloud("a", "b")
    cloud.before_write = lambda uuid: cloud.touch(uuid) if uuid == "a" else None
    report = run(cloud)
    assert results(report) == {"a": "failed", "b": "applied"}
    assert report.outcomes[0].attempts == retry.MAX_ATTEMPTS
    assert isinstance(report.outcomes[0].error, Conflict)


@pytest.mark.parametrize(
    "error",
    [
        Conflict(409, "Inventory for 'VCPU' in use", document={"code": "placement.inventory.inuse"}),
        Unreachable("PUT", "http://placement", "Connection reset by peer"),
        RuntimeError("whatever"),
    ],
)
def test_any_other_failure_is_tried_once_and_stays_with_its_provider(error):
    """One provider's failure neither stops the others nor is tried again."""
    cloud = FakeCloud("a", "b", "c")

    def fail(uuid):
        if uuid == "b":
            raise error

    cloud.before_write = fail
    report = run(cloud)
    assert results(report) == {"a": "applied", "b": "failed", "c": "applied"}
    assert report.outcomes[1].error is error
    assert report.outcomes[1].attempts == 1
    assert report.exit_status == 3


def test_what_the_plan_refuses_is_no_failure_to_stop_at():
    """Nobody tried it, and the others are changed."""
    cloud = FakeCloud("a", "b", "c")
    plan = make_plan(ADD, [Reading(each, ProviderState(traits=frozenset())) for each in cloud.providers])
    plan = replace(plan, refused={name: PlacementError("full") for name in "ab"})
    report = execute.execute_plan(cloud, plan, gate=Gate(max_failures=0), concurrency=1)
    assert results(report) == {"a": "failed", "b": "failed", "c": "applied"}
    assert not report.halted


def test_a_provider_that_could_not_be_read_fails_without_a_write():
    """What is not known is not changed."""
    cloud = FakeCloud("a", "b")
    cloud.failing["a"] = PlacementError("broken")
    assert results(run(cloud)) == {"a": "failed", "b": "applied"}
    assert ("write", "a") not in cloud.calls


@settings(max_examples=20)
@given(st.permutations("abcdefgh"), st.integers(1, 12), st.frozensets(st.sampled_from("abcdefgh")))
def test_order_in_is_order_out_and_nothing_is_lost(names, concurrency, broken):
    """Each provider has one outcome, in its place, true to what happened on the server."""
    cloud = FakeCloud(*names)

    def fail(uuid):
        if uuid in broken:
            raise PlacementError("no")

    cloud.before_write = fail
    report = run(cloud, concurrency=concurrency)
    assert list(results(report)) == list(names)
    for name, result in results(report).items():
        assert result == ("failed" if name in broken else "applied")
        assert cloud.facets[name]["traits"] == ([] if name in broken else ["A"])


def test_outcomes_are_told_as_they_come():
    """A caller can show progress: it hears of every outcome once."""
    told = []
    report = run(FakeCloud("a", "b", "c"), on_outcome=told.append)
    assert sorted(told, key=lambda outcome: outcome.change.subject.name) == list(report.outcomes)


def test_stop_finishes_what_is_under_way_and_skips_the_rest():
    """After the signal no write begins; the report says what was done."""
    cloud = FakeCloud("a", "b", "c")
    stop = threading.Event()
    cloud.before_write = lambda uuid: stop.set() if uuid == "b" else None
    report = run(cloud, concurrency=1, stop=stop)
    assert results(report) == {"a": "applied", "b": "applied", "c": "skipped"}
    assert (report.interrupted, report.exit_status) == (True, 130)


def test_a_stop_that_comes_too_late_is_no_interruption():
    """When everything was done, everything was done."""
    cloud = FakeCloud("a")
    stop = threading.Event()
    cloud.before_write = lambda uuid: stop.set()
    assert run(cloud, stop=stop).exit_status == 0


def test_facets_are_written_one_after_the_other_with_the_last_generation():
    """A change of several facets needs no read in between."""
    cloud = FakeCloud("a")
    state = ProviderState(inventories={}, traits=frozenset(), aggregates=frozenset())
    after = ProviderState(inventories={}, traits=frozenset("A"), aggregates=frozenset("B"))
    generations = list(execute.write_change(cloud, Change(Provider("a", "a", 0), state, after)))
    assert generations == [1, 2]
    assert cloud.facets["a"]["aggregates"] == ["B"]


def test_an_empty_plan_is_an_empty_report():
    """No provider, no outcome, no request."""
    report = execute.execute_plan(FakeCloud(), make_plan(ADD, list[Reading]()))
    assert report.outcomes == ()
