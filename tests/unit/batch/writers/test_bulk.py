# SPDX-License-Identifier: Apache-2.0
"""Running a plan in portions: as one by one, in fewer requests, with every outcome as true."""

import threading
from dataclasses import replace

import pytest

from osc_placement.batch import execute
from osc_placement.batch.facets import ABSENT, NO_GENERATION, ProviderState, describe_identity
from osc_placement.batch.gate import Gate
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, Plan, Reading, make_plan
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.select import read_states
from osc_placement.batch.writers.bulk import CREATIONS, SIZE, ProvidersWriter, write_atomically
from osc_placement.errors import BadRequest, Conflict, Forbidden, PlacementError, ServerError, TimedOut
from osc_placement.model import Inventory, Provider
from tests.unit.batch.cloud import FakeCloud, processors
from tests.unit.batch.test_execute import ADD, no_pauses, results, run
from tests.unit.fake_placement import FakePlacement, error

__all__ = ["no_pauses"]

NAMES = [f"host{number:03}" for number in range(2 * SIZE + 7)]


def writes(cloud):
    """How many providers each write was about, in order."""
    return [len(what) if how == "write many" else 1 for how, what in cloud.calls if how.startswith("write")]


def test_providers_are_written_in_groups():
    """Portions of the size, in the order of the plan; every provider has its generation."""
    cloud = FakeCloud(*NAMES, takes_many=True)
    told = []
    report = run(cloud, on_outcome=told.append, concurrency=1)
    assert writes(cloud) == [SIZE, SIZE, 7]
    assert [outcome.change.uuid for outcome in report.outcomes] == NAMES
    assert {(str(outcome.result), outcome.generation, outcome.attempts) for outcome in report.outcomes} == {
        ("applied", 1, 1)
    }
    assert told == list(report.outcomes)
    assert all(facets["traits"] == ["A"] for facets in cloud.facets.values())


def test_inventories_are_sent_whole():
    """Of a ratio that changes, the other fields and the other classes go back as they were."""
    cloud = FakeCloud("a", "b", inventories=processors(1.0), takes_many=True)
    assert set(results(run(cloud, RatioEdit({"VCPU": 4.0}))).values()) == {"applied"}
    assert [facets["inventories"] for facets in cloud.facets.values()] == [processors(4.0)] * 2


def test_all_facets_of_a_provider_are_one_change():
    """An undo of traits and aggregates, say, moves the generation once."""
    cloud = FakeCloud("a", "b", takes_many=True)
    after = ProviderState(traits=frozenset("A"), aggregates=frozenset("g"))
    before = ProviderState(traits=frozenset(), aggregates=frozenset())
    steps = tuple(Change(provider, before, after) for provider in cloud.providers)
    plan = Plan(Recorded("undo", ("traits", "aggregates")), steps)
    assert set(results(execute.execute_plan(cloud, plan)).values()) == {"applied"}
    assert all(
        (facets["traits"], facets["aggregates"], facets["resource_provider_generation"]) == (["A"], ["g"], 1)
        for facets in cloud.facets.values()
    )


def test_single_change_is_a_put():
    """There is nothing to put together; unchanged providers do not count."""
    cloud = FakeCloud("a", "b", takes_many=True)
    cloud.facets["b"]["traits"] = ["A"]
    assert results(run(cloud)) == {"a": "applied", "b": "unchanged"}
    assert cloud.calls[-1] == ("write", "a")


def test_conflict_replans_one_provider_of_the_group():
    """The others of the portion are done; the last plan for the one is kept before it is written."""
    cloud = FakeCloud("a", "b", "c", takes_many=True)
    plan = make_plan(ADD, read_states(cloud, cloud.providers, ADD.facets))
    cloud.touch("b", traits=["MINE"])
    replanned = []

    class Recorder(execute.NoRecorder):
        def plan_again(self, change):
            replanned.append((change.uuid, cloud.facets["b"]["traits"]))

    report = execute.execute_plan(cloud, plan, recorder=Recorder())
    assert results(report) == {"a": "applied", "b": "applied", "c": "applied"}
    assert cloud.facets["b"]["traits"] == ["A", "MINE"]
    assert replanned == [("b", ["MINE"])]
    assert [outcome.attempts for outcome in report.outcomes] == [1, 2, 1]
    assert writes(cloud) == [3, 1]


def test_a_refusal_is_the_outcome_of_one_provider():
    """It is tried once, and the reason is told."""
    cloud = FakeCloud("a", "b", "c", takes_many=True)
    cloud.refusals["b"] = BadRequest(400, "no such thing")
    report = run(cloud)
    assert results(report) == {"a": "applied", "b": "failed", "c": "applied"}
    assert report.outcomes[1].error is cloud.refusals["b"]
    assert writes(cloud) == [3]


@pytest.mark.parametrize("lost", [TimedOut("POST", "url", 1), ServerError(503, "busy")], ids=repr)
def test_providers_are_read_back_after_a_lost_answer(lost):
    """What was done is found to be done."""
    cloud = FakeCloud("a", "b", takes_many=lost)
    cloud.refusals["b"] = BadRequest(400, "nobody hears this")
    report = run(cloud)
    assert results(report) == {"a": "applied", "b": "failed"}
    assert report.outcomes[0].note == "the answer was lost; it was read back"
    assert report.outcomes[1].error is lost


@pytest.mark.parametrize("answer", ["no more", BadRequest(400, "too much at once")], ids=str)
def test_refused_group_is_written_one_by_one(answer):
    """A server that has no bulk write after all, or refuses the whole: each has its own outcome."""
    cloud = FakeCloud(*NAMES, takes_many=answer)
    if isinstance(answer, Exception):
        cloud.change_many = lambda changes: (_ for _ in ()).throw(answer)
    assert set(results(run(cloud, concurrency=1)).values()) == {"applied"}
    assert writes(cloud)[-len(NAMES) :] == [1] * len(NAMES)
    # it is tried once, not for each portion
    assert len(writes(cloud)) <= len(NAMES) + 1


def test_a_throttle_makes_the_portions_small():
    """At twenty a second two may pass at once, and what is left waits its turn."""
    cloud = FakeCloud(*NAMES[:6], takes_many=True)
    run(cloud, gate=Gate(rate=20.0), concurrency=2)
    assert sum(writes(cloud)) == 6
    assert max(writes(cloud)) == 2


def test_without_allowed_failures_each_thread_writes_one_provider_at_a_time():
    """What fails after the first failure is bounded by the concurrency, not by the size of a portion."""
    cloud = FakeCloud(*NAMES, takes_many=True)
    cloud.failing = dict.fromkeys(NAMES, PlacementError("broken"))
    plan = Plan(
        ADD,
        tuple(
            make_plan(ADD, [Reading(Provider(name, name, 0), ProviderState(traits=frozenset()))]).steps[0]
            for name in NAMES
        ),
    )
    report = execute.execute_plan(cloud, plan, gate=Gate(max_failures=0), concurrency=2)
    assert 1 <= sum(outcome.result == "failed" for outcome in report.outcomes) <= 2
    assert report.halted


def test_stop_skips_groups_not_started():
    """The portion under way is finished, the rest is skipped and told so."""
    cloud = FakeCloud(*NAMES, takes_many=True)
    stop = threading.Event()
    cloud.before_write = lambda uuid: stop.set()
    report = run(cloud, stop=stop, concurrency=1)
    assert [str(outcome.result) for outcome in report.outcomes] == ["applied"] * SIZE + ["skipped"] * (
        len(NAMES) - SIZE
    )
    assert report.interrupted


def test_canaries_are_read_back_before_the_others_are_written():
    """Two of them together, then the rest in portions."""
    cloud = FakeCloud(*NAMES[:5], takes_many=True)
    report = run(cloud, TraitEdit("set", frozenset("A")), canary=2, concurrency=1)
    assert set(results(report).values()) == {"applied"}
    assert cloud.calls[5:] == [
        ("write many", NAMES[:2]),
        ("read", NAMES[0]),
        ("read", NAMES[1]),
        ("write many", NAMES[2:5]),
    ]


@pytest.mark.parametrize("facet", ["identity", "allocations", "owner"])
def test_facets_that_a_bulk_request_cannot_have_are_not_sent_in_one(facet):
    """It would leave them out, and answer that the change was made."""
    cloud = FakeCloud("a", "b", takes_many=True)
    steps = [
        Change(provider, ProviderState(**{facet: ABSENT}), ProviderState(**{facet: frozenset("x")}))
        for provider in cloud.providers
    ]
    writer = ProvidersWriter(cloud, steps, None)
    assert writer.size == 1
    with pytest.raises(ValueError, match=facet):
        writer.write(steps)
    assert cloud.calls == []


def creation(uuid, parent=None, **facets):
    """A change that creates a provider."""
    nothing = ProviderState(inventories={}, traits=frozenset(), aggregates=frozenset(), identity=ABSENT)
    after = replace(nothing, identity=describe_identity(f"host-{uuid}", parent), **facets)
    return Change(Provider(uuid, f"host-{uuid}", NO_GENERATION, parent), nothing, after)


def test_creations_are_sent_with_all_that_differs():
    """Those and a change of a provider that exists are in one request; what stays empty is left out."""
    results = [{"uuid": uuid, "resource_provider_generation": 1} for uuid in "abc"]
    fake = FakePlacement().on("POST", "/-/providers", {"results": results})
    fake.on("GET", "/-/providers", {"providers": []})
    nothing, some = ProviderState(traits=frozenset()), ProviderState(traits=frozenset({"T"}))
    changes = [
        creation("a", traits=frozenset({"T"}), inventories={"VCPU": Inventory(8)}),
        creation("b", parent="a"),
        Change(Provider("c", "c", 0), nothing, some),
    ]
    writer = ProvidersWriter(fake.client(), changes, None)
    assert writer.size == CREATIONS
    assert writer.write(changes) == {"a": 1, "b": 1, "c": 1}
    inventories = {"VCPU": Inventory(8).to_json()}
    assert fake.asked[-1].body["changes"] == [
        {
            "uuid": "a",
            "resource_provider_generation": None,
            "name": "host-a",
            "inventories": inventories,
            "traits": ["T"],
        },
        {"uuid": "b", "resource_provider_generation": None, "name": "host-b", "parent_provider_uuid": "a"},
        {"uuid": "c", "resource_provider_generation": 0, "traits": ["T"]},
    ]


@pytest.mark.parametrize("is_there", [False, True])
def test_creations_that_a_proxy_refused_are_written_one_by_one_if_none_is_there(is_there):
    """A provider that is there tells that the proxy passed the request on."""
    fake = FakePlacement().on("GET", "/-/providers", {"providers": []})
    fake.on("POST", "/-/providers", (403, "<html>Forbidden</html>", {"content-type": "text/html"}))
    if is_there:
        fake.on("GET", "/resource_providers/b", {"uuid": "b", "name": "host-b", "generation": 0})
    changes = [creation("a"), creation("b")]
    results = ProvidersWriter(fake.client(), changes, None).write(changes)
    assert (results is None) is not is_there


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (["a"], "host-a was refused: in use (HTTP 409)"),
        (["c", "a", "b"], "host-a was refused, as well as 2 more: in use (HTTP 409)"),
    ],
)
def test_refused_transaction_names_the_providers(refused, message):
    """The first of the request, with the number of the others; no attempt is made again."""
    documents = [
        {"uuid": uuid, "status": 409, "title": "Conflict", "detail": "There was a conflict.\n\n in use  "}
        for uuid in refused
    ]
    fake = FakePlacement().on("POST", "/-/providers", (409, {"errors": documents, "refused": len(refused)}))
    nothing, some = ProviderState(traits=frozenset()), ProviderState(traits=frozenset({"T"}))
    changes = [Change(Provider(uuid, f"host-{uuid}", 1), nothing, some) for uuid in "abcd"]
    with pytest.raises(Conflict) as caught:
        write_atomically(fake.client(), changes)
    assert str(caught.value) == message
    assert not caught.value.concurrent_update


def test_transaction_that_is_refused_as_a_whole_keeps_its_message():
    """No provider is to blame for a right that is missing."""
    fake = FakePlacement().on("POST", "/-/providers", error(403, "not you"))
    change = Change(
        Provider("a", "a", 1), ProviderState(traits=frozenset({"T"})), ProviderState(traits=frozenset())
    )
    with pytest.raises(Forbidden, match=r"^not you \(HTTP 403\)$"):
        write_atomically(fake.client(), [change])
