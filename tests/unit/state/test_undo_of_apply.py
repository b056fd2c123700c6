# SPDX-License-Identifier: Apache-2.0
"""Changes of an apply: how they are kept in a journal, written, read and undone."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import requests

from osc_placement import codes
from osc_placement.api import retry
from osc_placement.api.consumer import Consumer
from osc_placement.batch.attempt import run_change
from osc_placement.batch.facets import ABSENT, NO_GENERATION, ProviderState, describe_identity
from osc_placement.batch.holdings import Overtaken
from osc_placement.batch.journal.record import change_from_json, change_to_json, edit_from_json, edit_to_json
from osc_placement.batch.merge import merge
from osc_placement.batch.plan import Change, CustomName, Result
from osc_placement.batch.repeat import Replace, StateEdit
from osc_placement.batch.select import read_state
from osc_placement.batch.undo import ChangedSince, UndoStep
from osc_placement.batch.writers.provider import write_change
from osc_placement.model import Inventory, Provider
from osc_placement.state.document import ConsumerEntry, Document, ProviderEntry
from osc_placement.state.plan import Current, Leftover, plan_apply, plan_run
from osc_placement.state.results import list_results
from tests.unit.fake_placement import FakePlacement, error

EMPTY = {"inventories": {}, "traits": frozenset(), "aggregates": frozenset()}
NOTHING = ProviderState(identity=ABSENT, **EMPTY)
THERE = ProviderState(identity=describe_identity("host", "root"), **EMPTY)
CREATION = Change(Provider("h", "host", NO_GENERATION, "root"), NOTHING, THERE)
MISSING = error(404, "no such thing")


def test_every_change_of_an_apply_is_read_back_from_its_journal():
    """Created and deleted providers, names of classes and traits, consumers with their types."""
    document = Document(
        resource_classes=("CUSTOM_A",),
        providers=(ProviderEntry("host", None, None, ProviderState({"VCPU": Inventory(8)})),),
        consumers=(ConsumerEntry("k", "project", "user", {"host": {"VCPU": 1}}, "VM"),),
    )
    gone = Provider("g", "gone", 3)
    held = Consumer("k", 4, "old", "user", "INSTANCE", {"g": {"VCPU": 1}})
    current = Current(
        resource_classes=frozenset({"VCPU"}),
        providers=(gone,),
        consumers={"k": held},
        leftover=Leftover(
            traits=("CUSTOM_A",),
            providers=(gone,),
            consumers=(Consumer("l", 1, "project", "user", "VM", {"g": {"VCPU": 2}}),),
            states={"g": ProviderState({"VCPU": Inventory(8)}, frozenset({"A"}), frozenset())},
        ),
    )
    plan = plan_run(plan_apply(document, current), "apply f")
    assert len(plan.changes) == len(plan.steps) == 6
    assert [change_from_json(change_to_json(step)) for step in plan.steps] == list(plan.steps)
    edit = edit_from_json(edit_to_json(plan.edit))
    assert (type(edit), edit.title, edit.facets) == (StateEdit, "apply f", plan.edit.facets)


def test_a_provider_without_a_uuid_gets_one_before_it_is_created():
    """An undo, and a resume after a lost answer, could not know it otherwise."""
    plan = plan_run(plan_apply(Document(providers=(ProviderEntry("host"),)), Current()), "apply f")
    (change,) = plan.changes
    assert len(change.uuid) == 36
    assert change.subject.generation == NO_GENERATION


def test_a_provider_that_a_run_created_is_not_created_a_second_time():
    """A resume finds it, and gives it the name and parent that it is to have."""
    found = {"uuid": "h", "name": "host", "generation": 2, "parent_provider_uuid": "root"}
    placement = (
        FakePlacement()
        .on("GET", "/resource_providers/h", found)
        .on("PUT", "/resource_providers/h", {"uuid": "h", "name": "host", "generation": 2})
    )
    client = placement.client()
    subject, state = read_state(client, CREATION.subject, ["identity"])
    assert state == ProviderState(identity=THERE.identity)
    assert list(write_change(client, Change(subject, NOTHING, THERE))) == [2]
    assert placement.asked[-1].body == {"name": "host"}


def test_what_does_not_exist_is_read_as_absent():
    """Providers and custom names."""
    placement = FakePlacement().on("GET", "/resource_providers/h", MISSING)
    placement.on("GET", "/traits/CUSTOM_A", MISSING).on("GET", "/resource_classes/CUSTOM_A", MISSING)
    client = placement.client()
    subject, state = read_state(client, Provider("h", "host", 5), ["identity", "inventories", "traits"])
    assert (subject.generation, state.identity) == (NO_GENERATION, ABSENT)
    assert (state.inventories, state.traits, state.aggregates) == ({}, frozenset(), None)
    for kind in ("trait", "resource class"):
        assert read_state(client, CustomName(kind, "CUSTOM_A"), ["identity"])[1].identity == ABSENT


FULL = ProviderState({"VCPU": Inventory(8)}, frozenset({"A"}), frozenset(), identity=THERE.identity)
DELETION = Change(Provider("h", "host", 3), FULL, NOTHING)
SHOWN = {"uuid": "h", "name": "host", "generation": 3, "parent_provider_uuid": "root"}
WROTE = (200, {"inventories": {}, "traits": [], "resource_provider_generation": 9})
CONFLICT = error(409, "generation conflict", code=codes.CONCURRENT_UPDATE)
UNCHANGED_AND_UNTOUCHED = (Result.UNCHANGED, True, ())


def run(placement, change, edit=None):
    """Make a change of an apply; return its outcome."""
    return run_change(placement.client(), change, edit or Replace("apply f", change))


def end_of(outcome):
    """How it ended, whether nothing was written, and what an undo would have to do."""
    return outcome.result, outcome.untouched, outcome.change.facets


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Do not wait between attempts."""
    monkeypatch.setattr(retry, "_FIRST_PAUSE", 0.0)


def test_a_deletion_writes_nothing_else():
    """What the provider had goes with it."""
    placement = FakePlacement().on("GET", "/resource_providers/h", SHOWN)
    placement.on("DELETE", "/resource_providers/h", (204, ""))
    assert list(write_change(placement.client(), DELETION)) == [None]
    assert [line for line in placement.lines if not line.startswith("GET")] == [
        "DELETE /resource_providers/h"
    ]


@pytest.mark.parametrize("shown", [MISSING, SHOWN], ids=("before", "between"))
def test_a_provider_that_somebody_else_deleted_is_not_claimed(shown):
    """An undo would create it again."""
    placement = FakePlacement().on("GET", "/resource_providers/h", shown)
    placement.on("DELETE", "/resource_providers/h", MISSING)
    outcome = run(placement, DELETION)
    assert end_of(outcome) == UNCHANGED_AND_UNTOUCHED
    assert outcome.note == "host was deleted by somebody else meanwhile"
    report = SimpleNamespace(
        plan=SimpleNamespace(steps=[DELETION], untried={}), outcomes=[outcome], halted=""
    )
    assert [result.done for result in list_results(report).results] == ["unchanged"]


def changed_since(generation=4):
    """A server whose provider has lost its trait and got an inventory since it was planned to be deleted."""
    placement = FakePlacement().on("GET", "/resource_providers/h", SHOWN | {"generation": generation})
    placement.on("DELETE", "/resource_providers/h", (204, ""))
    inventories = {"VCPU": Inventory(8).to_json(), "DISK_GB": Inventory(1).to_json()}
    answer = {"resource_provider_generation": generation}
    placement.on("GET", "/resource_providers/h/inventories", {"inventories": inventories, **answer})
    placement.on("GET", "/resource_providers/h/traits", {"traits": [], **answer})
    return placement.on("GET", "/resource_providers/h/aggregates", {"aggregates": [], **answer})


def test_a_deletion_records_what_others_changed_since_it_was_planned():
    """An undo creates the provider as it was when it was deleted."""
    outcome = run(changed_since(), DELETION)
    assert (outcome.result, outcome.attempts) == (Result.APPLIED, 2)
    before = outcome.change.before
    assert before.inventories == {"VCPU": Inventory(8), "DISK_GB": Inventory(1)}
    assert (before.traits, before.identity) == (frozenset(), THERE.identity)


def test_an_undo_does_not_delete_what_others_changed_since_it_was_planned():
    """The deletion has no generation, so that the server would not refuse it."""
    placement = changed_since()
    outcome = run(placement, DELETION, UndoStep("undo", DELETION, force=False))
    assert isinstance(outcome.error, ChangedSince)
    assert not [line for line in placement.lines if line.startswith("DELETE")]


NAMES = [("trait", "/traits/CUSTOM_A"), ("resource class", "/resource_classes/CUSTOM_A")]
EXISTS = {"trait": (204, ""), "resource class": {"name": "CUSTOM_A"}}
NO_NAME, NAME = ProviderState(identity=ABSENT), ProviderState(identity=describe_identity("CUSTOM_A"))


@pytest.mark.parametrize(("kind", "path"), NAMES)
def test_a_name_that_somebody_else_created_is_not_claimed(kind, path):
    """An undo would delete it."""
    placement = FakePlacement().on("GET", path, EXISTS[kind]).on("PUT", path, (204, ""))
    outcome = run(placement, Change(CustomName(kind, "CUSTOM_A"), NO_NAME, NAME))
    assert end_of(outcome) == UNCHANGED_AND_UNTOUCHED
    assert f"PUT {path}" not in placement.lines


@pytest.mark.parametrize(("kind", "path"), NAMES)
def test_a_name_that_somebody_else_creates_between_the_requests_is_not_claimed(kind, path):
    """Placement answers 204 if it is there, and 201 only to who has created it."""
    placement = FakePlacement().on("GET", path, MISSING).on("PUT", path, (204, ""))
    outcome = run(placement, Change(CustomName(kind, "CUSTOM_A"), NO_NAME, NAME))
    assert end_of(outcome) == UNCHANGED_AND_UNTOUCHED
    placement = FakePlacement().on("GET", path, MISSING).on("PUT", path, (201, ""))
    outcome = run(placement, Change(CustomName(kind, "CUSTOM_A"), NO_NAME, NAME))
    assert (outcome.result, outcome.change.facets) == (Result.APPLIED, ("identity",))


@pytest.mark.parametrize(("kind", "path"), NAMES)
def test_a_name_that_somebody_else_deleted_is_not_claimed(kind, path):
    """An undo would create it again."""
    placement = FakePlacement().on("DELETE", path, MISSING)
    outcome = run(placement, Change(CustomName(kind, "CUSTOM_A"), NAME, NO_NAME))
    assert end_of(outcome) == UNCHANGED_AND_UNTOUCHED


@pytest.mark.parametrize(("kind", "path"), NAMES)
def test_a_name_whose_answer_was_lost_is_found_created(kind, path):
    """It has no generation that could tell."""
    lost = requests.exceptions.ConnectionError("gone")
    placement = FakePlacement().on("GET", path, MISSING, EXISTS[kind]).on("PUT", path, lost)
    outcome = run(placement, Change(CustomName(kind, "CUSTOM_A"), NO_NAME, NAME))
    assert (outcome.result, outcome.note) == (Result.APPLIED, "the answer was lost; it was read back")


def renamed(**after):
    """A change that renames a provider of generation 3."""
    after = replace(THERE, identity=describe_identity("new", "root"), **after)
    return Change(Provider("h", "host", 3, "root"), THERE, after)


def test_a_rename_whose_answer_was_lost_is_found_done():
    """It does not raise the generation."""
    placement = FakePlacement().on("GET", "/resource_providers/h", SHOWN | {"name": "new"})
    placement.on("PUT", "/resource_providers/h", requests.exceptions.ConnectionError("gone"))
    assert run(placement, renamed()).result is Result.APPLIED


def test_what_is_written_after_a_rename_conflicts_with_what_others_wrote():
    """The rename answers the generation that somebody else's write left."""
    placement = FakePlacement().on("PUT", "/resource_providers/h", SHOWN | {"generation": 7})
    placement.on("PUT", "/resource_providers/h/traits", WROTE)
    list(write_change(placement.client(), renamed(traits=frozenset({"A"}))))
    assert placement.asked[-1].body["resource_provider_generation"] == 3


WITH_TRAIT = replace(CREATION, after=replace(THERE, traits=frozenset({"A"})))
REPORTED = replace(THERE, inventories={"VCPU": Inventory(16)})


def test_a_creation_that_is_planned_again_leaves_what_others_reported():
    """The file describes traits alone, and an undo sees that the inventories are of somebody else."""
    inventories = {"inventories": {"VCPU": Inventory(16).to_json()}, "resource_provider_generation": 1}
    placement = (
        FakePlacement()
        .on("POST", "/resource_providers", SHOWN | {"generation": 0})
        .on("GET", "/resource_providers/h", SHOWN | {"generation": 1})
        .on("PUT", "/resource_providers/h", SHOWN | {"generation": 1})
        .on("GET", "/resource_providers/h/inventories", inventories)
        .on("GET", "/resource_providers/h/traits", {"traits": [], "resource_provider_generation": 1})
        .on("PUT", "/resource_providers/h/inventories", WROTE)
        .on("PUT", "/resource_providers/h/traits", CONFLICT, WROTE)
    )
    outcome = run(placement, WITH_TRAIT)
    assert outcome.result is Result.APPLIED
    assert "PUT /resource_providers/h/inventories" not in placement.lines
    change = outcome.change
    assert (change.before, change.after) == (WITH_TRAIT.before, WITH_TRAIT.after)
    now = replace(REPORTED, traits=frozenset({"A"}))
    assert merge(change.back, now).expected != now


def test_a_creation_that_is_resumed_leaves_what_others_reported():
    """Only what the file describes is written."""
    decision = Replace("apply f", WITH_TRAIT).decide(REPORTED)
    assert decision.after == replace(REPORTED, traits=frozenset({"A"}))


@pytest.mark.parametrize("facet", ["traits", "aggregates"])
def test_undo_keeps_a_created_provider_to_which_others_gave_something(facet):
    """A deletion would take it away."""
    now = ProviderState(**{**EMPTY, facet: frozenset({"A"})}, identity=THERE.identity)
    back, expected = merge(CREATION.back, now)
    assert (back.identity, getattr(back, facet), expected) == (THERE.identity, {"A"}, THERE)
    assert merge(CREATION.back, THERE) == (NOTHING, THERE)


def test_what_others_changed_meanwhile_becomes_what_the_file_says():
    """As another apply of the file would make it."""
    wanted = Change(Provider("h", "host", 1), THERE, ProviderState({"VCPU": Inventory(8)}))
    found = ProviderState({"DISK_GB": Inventory(1)}, frozenset({"A"}))
    decision = Replace("apply f", wanted).decide(found)
    assert decision.after == ProviderState({"VCPU": Inventory(8)}, frozenset({"A"}))


HELD = Consumer("k", 1, "project", "user", "INSTANCE")
TAKEN_AWAY = Change(HELD, ProviderState(allocations={"g": {"VCPU": 1}}), ProviderState(allocations={}))


@pytest.mark.parametrize("moved_to", ["elsewhere", "g"])
def test_a_consumer_that_was_moved_since_its_allocations_were_to_be_deleted_keeps_them(moved_to):
    """It may hold from providers that were not selected, and nobody confirmed that these go."""
    owner = {"project_id": "project", "user_id": "user", "consumer_type": "INSTANCE"}
    planned_on = {"allocations": {"g": {"resources": {"VCPU": 1}}}, "consumer_generation": 1}
    allocations = {moved_to: {"resources": {"VCPU": 2}, "generation": 3}}
    holding = {"allocations": allocations, "consumer_generation": 2}
    placement = FakePlacement().on("GET", "/allocations/k", planned_on | owner, holding | owner)
    placement.on("PUT", "/allocations/k", CONFLICT, (204, ""))
    outcome = run(placement, TAKEN_AWAY)
    assert isinstance(outcome.error, Overtaken)
    assert end_of(outcome)[:2] == (Result.FAILED, True)
    assert placement.lines.count("PUT /allocations/k") == 1
