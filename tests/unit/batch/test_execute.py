# SPDX-License-Identifier: Apache-2.0
"""Running a plan: every provider has an outcome, and conflicts are planned again."""

import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osc_placement.api import retry
from osc_placement.api.consumer import Consumer
from osc_placement.batch import execute
from osc_placement.batch.facets import ProviderState, describe_identity
from osc_placement.batch.gate import Gate
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, Plan, Reading, Result, make_plan, temporary_name
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.select import read_states
from osc_placement.batch.writers.provider import write_change
from osc_placement.errors import Conflict, PlacementError, Unreachable
from osc_placement.model import Provider
from tests.unit.batch.cloud import FakeCloud, NamedCloud, processors

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


def test_unchanged_inventory_fields_are_written_as_read():
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


def test_conflict_is_replanned_on_the_current_state():
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


def test_endless_conflicts_end_as_a_failure():
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
def test_other_failures_are_not_retried_and_affect_one_provider(error):
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


def test_refused_changes_do_not_count_as_failures():
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
def test_outcomes_keep_the_order_of_the_plan(names, concurrency, broken):
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


def test_callback_gets_every_outcome_once():
    """A caller can show progress: it hears of every outcome once."""
    told = []
    report = run(FakeCloud("a", "b", "c"), on_outcome=told.append)
    assert sorted(told, key=lambda outcome: outcome.change.subject.name) == list(report.outcomes)


def test_stop_finishes_started_writes_and_skips_the_rest():
    """After the signal no write begins; the report says what was done."""
    cloud = FakeCloud("a", "b", "c")
    stop = threading.Event()
    cloud.before_write = lambda uuid: stop.set() if uuid == "b" else None
    report = run(cloud, concurrency=1, stop=stop)
    assert results(report) == {"a": "applied", "b": "applied", "c": "skipped"}
    assert (report.interrupted, report.exit_status) == (True, 130)


def test_stop_after_the_last_write_is_no_interruption():
    """When everything was done, everything was done."""
    cloud = FakeCloud("a")
    stop = threading.Event()
    cloud.before_write = lambda uuid: stop.set()
    assert run(cloud, stop=stop).exit_status == 0


def test_facets_are_written_in_turn_with_the_returned_generation():
    """A change of several facets needs no read in between."""
    cloud = FakeCloud("a")
    state = ProviderState(inventories={}, traits=frozenset(), aggregates=frozenset())
    after = ProviderState(inventories={}, traits=frozenset("A"), aggregates=frozenset("B"))
    generations = list(write_change(cloud, Change(Provider("a", "a", 0), state, after)))
    assert generations == [1, 2]
    assert cloud.facets["a"]["aggregates"] == ["B"]


def test_an_empty_plan_is_an_empty_report():
    """No provider, no outcome, no request."""
    report = execute.execute_plan(FakeCloud(), make_plan(ADD, list[Reading]()))
    assert report.outcomes == ()


def test_a_canary_does_not_make_every_later_consumer_a_request_of_its_own():
    """Consumers go in bulk requests as well."""
    cloud = ManyConsumers()
    steps = tuple(
        Change(
            Consumer(uuid, None, "project", "user", "INSTANCE"),
            ProviderState(allocations={}),
            ProviderState(allocations={"p": {"VCPU": 1}}),
        )
        for uuid in "abc"
    )
    report = execute.execute_plan(
        cloud, Plan(Recorded("heal", ("allocations",)), steps), canary=1, concurrency=1
    )
    assert set(results(report).values()) == {"applied"}
    assert [call for call in cloud.calls if call[0].startswith("write")] == [
        ("write", "a"),
        ("write many", ["b", "c"]),
    ]


@pytest.mark.parametrize(("canary", "told"), [(0, []), (1, ["1 {}; going on"]), (2, ["2 {}"])])
def test_canaries_that_are_as_planned_are_told(canary, told):
    """In a line, before the others are changed, if there are others."""
    cloud = NamedCloud({"a": "one", "b": "two"})
    events = []
    plan = renaming({"a": ("one", "three"), "b": ("two", "four")})
    report = execute.execute_plan(cloud, plan, canary=canary, gate=Gate(on_event=events.append))
    assert set(results(report).values()) == {"applied"}
    assert events == [f"Canary: {text}".format("changed and read back as planned") for text in told]


class ManyConsumers(FakeCloud):
    """A cloud that takes the allocations of many consumers in one request."""

    def set_many_allocations(self, payload, _version=None):
        """As the client's."""
        self.calls.append(("write many", list(payload)))


SWAPPED = {"a": ("one", "two"), "b": ("two", "one")}


def renaming(names, **options):
    """A staged plan that gives each provider, by UUID, the second of two names in place of the first."""
    steps = tuple(
        Change(
            Provider(uuid, before, 0),
            *(ProviderState(identity=describe_identity(n)) for n in (before, after)),
        )
        for uuid, (before, after) in names.items()
    )
    edit = Recorded("rename", ("identity",))
    return Plan(edit, steps, is_staged=True, **options)


def named_cloud(names):
    """A cloud in which providers have the first of two names."""
    return NamedCloud({uuid: before for uuid, (before, _) in names.items()})


@pytest.mark.parametrize("canary", [0, 1, 2])
def test_swapped_names_are_given_however_many_canaries_there_are(canary):
    """The name of a canary may be that of a provider that is changed after it."""
    names = SWAPPED | {"c": ("three", "four")}
    cloud = named_cloud(names)
    report = execute.execute_plan(cloud, renaming(names), canary=canary, concurrency=1)
    assert results(report) == {"one": "applied", "two": "applied", "three": "applied"}
    assert cloud.names == {"a": "two", "b": "one", "c": "four"}


def test_before_the_canary_only_names_that_it_takes_are_set_aside():
    """What it needs is little, should it fail."""
    names = SWAPPED | {"c": ("three", "four"), "d": ("four", "three")}
    cloud, seen = named_cloud(names), []
    gate = Gate(on_event=lambda _text: seen.extend(cloud.calls))
    execute.execute_plan(cloud, renaming(names), gate=gate, canary=1, concurrency=1)
    assert [uuid for call, uuid in seen if call == "rename"] == ["b", "a"]
    assert cloud.names == {uuid: after for uuid, (_, after) in names.items()}


@pytest.mark.parametrize("reason", ["unreadable", "refused"])
def test_a_provider_that_cannot_be_planned_keeps_its_name(reason):
    """Nothing is written to it, so that the one that wants its name gets a refusal of the server."""
    cloud = named_cloud(SWAPPED)
    plan = renaming(SWAPPED, **{reason: {"a": PlacementError("changed since")}})
    report = execute.execute_plan(cloud, plan, concurrency=1)
    assert results(report) == {"one": "failed", "two": "failed"}
    assert cloud.names == {"a": "one", "b": "two"}
    assert ("rename", "a") not in cloud.calls
    assert report.outcomes[0].untouched


def refuse(_uuid):
    raise PlacementError("no")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_provider_that_is_not_changed_gets_its_name_back(is_stopped):
    """Others failed, or somebody stopped the run, before its own change was begun."""
    names = SWAPPED | {"c": ("three", "four")}
    cloud = named_cloud(names)
    stop = threading.Event()

    def interfere(_uuid):
        renames = [uuid for call, uuid in cloud.calls if call == "rename"]
        if is_stopped:
            stop.set()
        elif renames == ["a", "b", "a"]:
            raise PlacementError("no")

    cloud.before_write = interfere
    notes = Notes()
    report = execute.execute_plan(
        cloud, renaming(names), gate=Gate(max_failures=0), concurrency=1, stop=stop, recorder=notes
    )
    first = "skipped" if is_stopped else "failed"
    assert results(report) == {"one": first, "two": "skipped", "three": "skipped"}
    assert cloud.names == {"a": "one", "b": "two", "c": "three"}
    # until the name was given back, the journal did not say that nothing was written
    assert [outcome.untouched for outcome in notes.outcomes["a" if is_stopped else "b"]] == [False, True]
    assert [outcome.untouched for outcome in notes.outcomes["c"]] == [True]


def test_a_name_that_was_taken_meanwhile_is_not_given_back():
    """The provider is reported as touched, with its temporary name and what to do."""
    names = SWAPPED | {"c": ("three", "four")}
    cloud = named_cloud(names)
    cloud.before_write = lambda uuid: (
        refuse(uuid) if uuid == "b" and cloud.calls.count(("rename", "b")) == 2 else None
    )
    notes = Notes()
    report = execute.execute_plan(
        cloud, renaming(names), gate=Gate(max_failures=0), concurrency=1, recorder=notes
    )
    assert results(report) == {"one": "applied", "two": "failed", "three": "skipped"}
    assert cloud.names == {"a": "two", "b": temporary_name("b"), "c": "three"}
    outcome = report.outcomes[1]
    assert str(outcome.error) == (
        "no; it is still named renaming-b, as it could not be given back its name two: two is taken "
        "(HTTP 409); resume or undo the run"
    )
    assert (outcome.untouched, notes.outcomes["b"][-1]) == (False, outcome)


def test_a_name_that_somebody_else_gave_since_stays():
    """Only what still has the temporary name is renamed."""
    cloud = named_cloud(SWAPPED)

    def interfere(uuid):
        if cloud.calls.count(("rename", "a")) == 2:
            cloud.names["b"] = "theirs"
            refuse(uuid)

    cloud.before_write = interfere
    report = execute.execute_plan(cloud, renaming(SWAPPED), gate=Gate(max_failures=0), concurrency=1)
    assert results(report) == {"one": "failed", "two": "skipped"}
    assert cloud.names == {"a": "one", "b": "theirs"}


class Notes(execute.NoRecorder):
    """Keeps the outcomes that are recorded, by UUID."""

    def __init__(self):
        self.outcomes = {}

    def end(self, outcome):
        self.outcomes.setdefault(outcome.change.uuid, []).append(outcome)
