# SPDX-License-Identifier: Apache-2.0
"""A change taken back: ours goes where it is still ours, and what others set since stays."""

from dataclasses import replace

import pytest

from osc_placement.api import retry
from osc_placement.batch import execute
from osc_placement.batch.attempt import keep_before, run_change
from osc_placement.batch.execute import NotDone, NotRolledBack, execute_atomically
from osc_placement.batch.facets import ABSENT, ProviderState, describe_identity, describe_owner
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.journal.record import edit_from_json, edit_to_json
from osc_placement.batch.merge import merge, settle
from osc_placement.batch.plan import (
    Change,
    Consumer,
    Plan,
    Result,
    plan_change,
    temporary_name,
)
from osc_placement.batch.repeat import Repeat
from osc_placement.batch.service import _resume_step
from osc_placement.batch.undo import NEW_STAYS, ChangedSince, UndoEdit, UndoStep, _undo_step
from osc_placement.model import Inventory, Provider
from tests.unit.batch.cloud import FakeCloud
from tests.unit.fake_placement import FakePlacement, error

NODE = Provider("p", "p", 3)
OLD, OURS, THEIRS = Inventory(8), Inventory(8, allocation_ratio=4.0), Inventory(8, allocation_ratio=9.0)


def stock(**inventories):
    return ProviderState(inventories=inventories)


def undone(change, now):
    """The state without a change, and whether nobody has since set what it set."""
    back, expected = merge(change.back, now)
    return back, expected == now


@pytest.mark.parametrize(
    ("before", "after", "now", "back", "whole"),
    [
        (stock(VCPU=OLD), stock(VCPU=OURS), stock(VCPU=THEIRS), stock(VCPU=THEIRS), False),
        (stock(VCPU=OLD), stock(VCPU=OURS), stock(), stock(), False),
        (stock(), stock(VCPU=OURS), stock(VCPU=THEIRS), stock(VCPU=THEIRS), False),
        (stock(VCPU=OLD), stock(), stock(VCPU=THEIRS), stock(VCPU=THEIRS), False),
        (
            stock(VCPU=OLD),
            stock(VCPU=OURS),
            stock(VCPU=Inventory(8, reserved=2, allocation_ratio=4.0), DISK_GB=OLD),
            stock(VCPU=Inventory(8, reserved=2), DISK_GB=OLD),
            True,
        ),
        (
            stock(VCPU=OLD),
            stock(VCPU=Inventory(12, allocation_ratio=4.0)),
            stock(VCPU=Inventory(12, allocation_ratio=9.0)),
            stock(VCPU=THEIRS),
            False,
        ),
        (
            ProviderState(allocations={"a": {"VCPU": 1}}),
            ProviderState(allocations={"a": {"VCPU": 2}}),
            ProviderState(allocations={"a": {"VCPU": 3}}),
            ProviderState(allocations={"a": {"VCPU": 3}}),
            False,
        ),
        (
            ProviderState(owner=describe_owner("p1", "u")),
            ProviderState(owner=describe_owner("p2", "u")),
            ProviderState(owner=describe_owner("p3", "u")),
            ProviderState(owner=describe_owner("p3", "u")),
            False,
        ),
    ],
)
def test_undo_leaves_values_set_by_others(before, after, now, back, whole):
    """Also where they set what we had set."""
    assert undone(Change(NODE, before, after), now) == (back, whole)


def test_undo_ignores_rounding_by_the_database():
    """MariaDB keeps six digits."""
    before, after = stock(VCPU=OLD), stock(VCPU=Inventory(8, allocation_ratio=1.23456789))
    now = stock(VCPU=Inventory(8, allocation_ratio=1.23457))
    assert undone(Change(NODE, before, after), now) == (before, True)


def test_undo_with_force_leaves_what_others_set():
    """As its help says, also for the field that the run had set; it is refused if there is no other."""
    _, refusal = _undo_step(
        Change(NODE, stock(VCPU=OLD), stock(VCPU=OURS)), NODE, stock(VCPU=THEIRS), force=True
    )
    assert str(refusal).startswith("p was changed since: ")


#: the answer to an empty reshape, which is sent to learn whether the caller may reshape
MAY_RESHAPE = error(400, "no inventories")


def test_rolling_back_leaves_what_others_set_and_says_so():
    """The part behind it fails; the ratio that a stranger set on the first provider stays, and is told."""
    generation = {"resource_provider_generation": 5}
    inventories = {"inventories": {"VCPU": THEIRS.to_json()}, **generation}
    fake = FakePlacement().on("GET", "/resource_providers/a/inventories", inventories)
    fake.on("POST", "/reshaper", MAY_RESHAPE, (413, ""), (204, ""), error(400, "broken"), (204, ""))
    changes = tuple(Change(Provider(name, name, 3), stock(VCPU=OLD), stock(VCPU=OURS)) for name in ("a", "b"))
    report = execute_atomically(fake.client(), Plan(RatioEdit({"VCPU": 4.0}), changes))
    assert fake.lines.count("POST /reshaper") == 4
    assert [type(outcome.error) for outcome in report.outcomes] == [NotRolledBack, NotDone]
    assert report.halted == (
        "1 resource provider changed and not put back: somebody else changed it since; that change stays"
    )


@pytest.mark.parametrize(("answer", "untouched"), [(error(403, "no"), True), (error(504, "late"), False)])
def test_a_refusal_of_the_whole_leaves_nothing_to_undo(answer, untouched):
    """After a gateway lost patience the request may still be carried out."""
    generation = {"resource_provider_generation": 3}
    now = {"inventories": {"VCPU": OLD.to_json()}, **generation}
    fake = FakePlacement().on("GET", "/resource_providers/p/inventories", now)
    fake.on("POST", "/reshaper", MAY_RESHAPE, answer)
    plan = Plan(RatioEdit({"VCPU": 4.0}), (Change(NODE, stock(VCPU=OLD), stock(VCPU=OURS)),))
    report = execute_atomically(fake.client(), plan)
    assert (report.outcomes[0].result, report.is_untouched) == (Result.FAILED, untouched)


@pytest.mark.parametrize(
    ("now", "back"),
    [
        # it was moved on: to have it back where it was before would be to claim for it twice
        ({"c": {"VCPU": 2}}, {"c": {"VCPU": 2}}),
        ({"b": {"VCPU": 4}}, {"b": {"VCPU": 4}}),
        ({}, {}),
        ({"b": {"VCPU": 2}}, {"a": {"VCPU": 2}}),
        ({"b": {"VCPU": 2, "DISK_GB": 1}}, {"a": {"VCPU": 2}, "b": {"DISK_GB": 1}}),
        ({"b": {"VCPU": 2}, "c": {"DISK_GB": 1}}, {"b": {"VCPU": 2}, "c": {"DISK_GB": 1}}),
    ],
)
def test_consumer_that_was_moved_on_stays_there(now, back):
    """What a run moved is moved back only from where the run had moved it."""
    moved = [ProviderState(allocations={name: {"VCPU": 2}}) for name in ("a", "b")]
    taken = merge(Change(Consumer("i"), *moved).back, ProviderState(allocations=now)).target
    assert taken == ProviderState(allocations=back)


@pytest.mark.parametrize("now", [{}, {"c": {"VCPU": 2}}])
def test_orphans_of_a_consumer_that_was_moved_on_stay_away(now):
    """What an audit took away is given back beside nothing else than what it left."""
    held = {name: {"VCPU": 2} for name in ("a", "b")}
    change = Change(
        Consumer("i"), ProviderState(allocations=held), ProviderState(allocations={"b": held["b"]})
    )
    assert undone(change, ProviderState(allocations=now)) == (ProviderState(allocations=now), False)
    assert undone(change, change.after) == (change.before, True)


def test_consumers_of_a_provider_go_back_each_by_itself():
    """One that is no longer there is not given its claim again; the other is."""
    before, after = ({name: {held: 1} for name in ("gone", "there")} for held in ("VCPU", "CUSTOM_X"))
    change = Change(NODE, ProviderState(allocations=before), ProviderState(allocations=after))
    back, whole = undone(change, ProviderState(allocations={"there": {"CUSTOM_X": 1}}))
    assert (back.allocations, whole) == ({"there": {"VCPU": 1}}, False)


THERE = ProviderState(identity=describe_identity("old", "above"))
STEP = Change(
    NODE,
    ProviderState({"VCPU": OURS, "DISK_GB": OURS}, frozenset({"CUSTOM_A"})),
    ProviderState({"VCPU": OLD, "DISK_GB": OLD}, frozenset()),
)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "state",
    [STEP.before, STEP.after, replace(STEP.before, inventories=STEP.after.inventories)],
    ids=["as planned", "back already", "back in part"],
)
def test_undo_is_planned_from_any_partly_restored_state(state, force):
    """However far it was gone already; a claim changes the generation and nothing else."""
    assert UndoStep("undo", STEP, force).decide(state).after == STEP.after


@pytest.mark.parametrize("force", [False, True])
def test_undo_takes_what_a_run_left_half_written_for_its_own(force):
    """The run failed or died between two writes; what it has written is undone, the rest is as before."""
    made = Change(NODE, STEP.after, STEP.before)
    half = replace(made.before, inventories=made.after.inventories)
    step, refusal = _undo_step(made, NODE, half, force=force)
    assert (refusal, step.before, step.after, step.facets) == (None, half, made.before, ("inventories",))
    nothing = ProviderState({}, frozenset(), identity=ABSENT)
    created = Change(NODE, nothing, replace(made.after, identity=describe_identity("p")))
    step, refusal = _undo_step(created, NODE, replace(created.after, traits=frozenset()), force=force)
    assert (refusal, step.after) == (None, nothing)


def test_undo_of_a_half_written_change_is_refused_for_changes_of_others():
    """Only these are told, and not what the run did not come to."""
    made = Change(NODE, STEP.after, STEP.before)
    now = replace(made.before, inventories={"VCPU": THEIRS, "DISK_GB": OURS})
    _, refusal = _undo_step(made, NODE, now, force=False)
    assert str(refusal).startswith(
        "p was changed since: VCPU:allocation_ratio=4.0 became VCPU:allocation_ratio=9.0"
    )


def test_undo_of_a_deletion_says_that_the_provider_was_created_again():
    """Those inventories that are not as before are no reason by themselves, and not all that is there."""
    before = replace(stock(VCPU=OURS, DISK_GB=OURS), traits=frozenset(), identity=describe_identity("p"))
    deleted = Change(NODE, before, ProviderState({}, frozenset(), identity=ABSENT))
    now = replace(before, inventories={"VCPU": THEIRS, "DISK_GB": OURS})
    _, refusal = _undo_step(deleted, NODE, now, force=False)
    assert str(refusal) == "p was changed since: created again"
    # the undo that has just created it meets what others set then
    with pytest.raises(ChangedSince, match="added VCPU:total=8"):
        UndoStep("undo of r", Change(NODE, deleted.after, before), force=False).decide(now)


RESERVED = Inventory(8, reserved=2, allocation_ratio=4.0)


@pytest.mark.parametrize(
    ("change", "now", "back"),
    [
        (Change(NODE, stock(VCPU=OLD), stock(VCPU=OURS)), stock(VCPU=RESERVED), stock(VCPU=Inventory(8, 2))),
        (
            Change(NODE, stock(VCPU=OLD), stock(VCPU=OLD, DISK_GB=OURS)),
            stock(VCPU=THEIRS, DISK_GB=OURS, MEMORY_MB=OLD),
            stock(VCPU=THEIRS, MEMORY_MB=OLD),
        ),
        (
            Change(NODE, ProviderState(traits=frozenset("AB")), ProviderState(traits=frozenset("BC"))),
            ProviderState(traits=frozenset("CD")),
            ProviderState(traits=frozenset("AD")),
        ),
        (
            Change(NODE, ProviderState(aggregates=frozenset()), ProviderState(aggregates=frozenset("A"))),
            ProviderState(aggregates=frozenset("AB")),
            ProviderState(aggregates=frozenset("B")),
        ),
        (
            Change(NODE, THERE, replace(THERE, identity=describe_identity("new", "above"))),
            replace(THERE, identity=describe_identity("new", "elsewhere")),
            replace(THERE, identity=describe_identity("old", "elsewhere")),
        ),
        (
            Change(NODE, THERE, replace(THERE, identity=describe_identity("old", "elsewhere"))),
            replace(THERE, identity=describe_identity("theirs", "elsewhere")),
            replace(THERE, identity=describe_identity("theirs", "above")),
        ),
    ],
    ids=["another field", "another class", "another trait", "another aggregate", "the parent", "the name"],
)
def test_undo_compares_only_what_the_run_set(change, now, back):
    """What somebody else set beside it stays, and no force is needed."""
    step, refusal = _undo_step(change, NODE, now, force=False)
    assert (refusal, step.before, step.after) == (None, now, back)
    assert UndoStep("undo", Change(NODE, change.after, change.before), force=False).decide(now).after == back


@pytest.mark.parametrize(
    ("change", "now", "words"),
    [
        (
            Change(NODE, stock(), stock(VCPU=OURS)),
            stock(VCPU=RESERVED),
            "VCPU:reserved=0 became VCPU:reserved=2",
        ),
        (Change(NODE, stock(VCPU=OLD), stock(VCPU=OURS)), stock(), "removed VCPU:total=8"),
        (
            Change(Consumer("p"), *(ProviderState(allocations={name: {"VCPU": 2}}) for name in ("a", "b"))),
            ProviderState(allocations={"b": {"VCPU": 2, "DISK_GB": 1}}),
            "added b:DISK_GB=1",
        ),
        (
            Change(NODE, THERE, replace(THERE, identity=describe_identity("new", "above"))),
            ProviderState(identity=ABSENT),
            "removed name=new, parent=above",
        ),
        (
            Change(NODE, THERE, replace(THERE, identity=describe_identity("new"))),
            replace(THERE, identity=describe_identity("theirs")),
            "name=new became name=theirs",
        ),
    ],
    ids=["field of a created class", "removed class", "claim", "deleted provider", "name and parent"],
)
def test_undo_refuses_what_cannot_be_divided(change, now, words):
    """A class that the run created, a claim and a provider are undone as they were left, or not at all."""
    _, refusal = _undo_step(change, NODE, now, force=False)
    assert str(refusal) == f"{change.subject.name} was changed since: {words}"


def test_undo_with_force_keeps_a_created_class_of_which_others_set_a_field():
    """To delete the class would delete what they set."""
    change = Change(NODE, stock(), stock(VCPU=OURS, DISK_GB=OURS))
    step, _ = _undo_step(change, NODE, stock(VCPU=RESERVED, DISK_GB=OURS), force=True)
    assert step.after == stock(VCPU=RESERVED)
    assert step.reason.startswith(f"{NEW_STAYS}: VCPU:")


def test_undo_with_force_leaves_a_deleted_provider_alone():
    """There is nothing to give a trait back to, so it is refused as well."""
    there = replace(THERE, traits=frozenset("A"))
    change = Change(NODE, there, replace(there, traits=frozenset()))
    now = ProviderState(traits=frozenset(), identity=ABSENT)
    _, refusal = _undo_step(change, NODE, now, force=False)
    assert str(refusal) == "p was changed since: removed name=old, parent=above"
    _, refusal = _undo_step(change, NODE, now, force=True)
    assert str(refusal) == "p was changed since: removed name=old, parent=above"


def test_undo_refuses_concurrent_changes_without_force():
    """Without force it is refused, as it would have been if it had been seen before."""
    now = replace(STEP.before, inventories={"VCPU": THEIRS, "DISK_GB": OURS})
    with pytest.raises(ChangedSince, match=r"VCPU:allocation_ratio=4.0 became VCPU:allocation_ratio=9.0"):
        UndoStep("undo", STEP, force=False).decide(now)
    back = UndoStep("undo", STEP, force=True).decide(now).after
    assert back == ProviderState({"VCPU": THEIRS, "DISK_GB": OLD}, frozenset())


def test_undo_reports_only_changes_of_others():
    """Not what the undo itself has written already."""
    now = ProviderState({"VCPU": OLD, "DISK_GB": THEIRS, "CUSTOM_X": OURS}, frozenset({"CUSTOM_B"}))
    words = "p was changed since: DISK_GB:allocation_ratio=4.0 became DISK_GB:allocation_ratio=9.0$"
    with pytest.raises(ChangedSince, match=f"^{words}"):
        UndoStep("undo", STEP, force=False).decide(now)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (STEP.before, ""),
        (STEP.after, "is as it was before"),
        (
            ProviderState({"VCPU": THEIRS, "DISK_GB": OURS}, frozenset()),
            f"{NEW_STAYS}: VCPU:allocation_ratio=9.0",
        ),
    ],
)
def test_undo_reason_does_not_claim_a_full_restore(now, reason):
    """What stays is not said to be as it was."""
    assert UndoStep("undo", STEP, force=True).decide(now).reason == reason


def test_undo_planned_again_names_what_stayed_before_as_well():
    """Somebody sets a second field between the plan and the write."""
    step = replace(STEP, reason=f"{NEW_STAYS}: CUSTOM_X:reserved=1", is_partial=True)
    now = ProviderState({"VCPU": THEIRS, "DISK_GB": OURS}, frozenset())
    decision = UndoStep("undo", step, force=True).decide(now)
    assert decision.reason == f"{NEW_STAYS}: CUSTOM_X:reserved=1, VCPU:allocation_ratio=9.0"
    without = ProviderState({"DISK_GB": OURS}, frozenset())
    assert UndoStep("undo", STEP, force=True).decide(without).reason.endswith(": no inventory of VCPU")


def test_half_written_undo_is_not_taken_for_a_change_of_others():
    """Of a class that is reserved as a whole, the first of two writes leaves room."""
    before = ProviderState({"CUSTOM_X": Inventory(1, reserved=1)}, allocations={"c": {"CUSTOM_X": 1}})
    after = ProviderState({"VCPU": Inventory(8)}, allocations={"c": {"VCPU": 2}})
    half = replace(before, inventories={"CUSTOM_X": Inventory(1)})
    step = Change(NODE, after, before, halves=(half,))
    again = plan_change(UndoStep("undo", step, force=False), NODE, settle(step, half))
    assert keep_before(step, again) == step
    assert settle(step.back, half) == step.back.before
    # somebody else may have freed what the other state reserves
    assert settle(replace(step, halves=()), half) == half


@pytest.mark.parametrize("force", [False, True])
def test_undo_keeps_a_change_made_before_its_write(force):
    """He writes between what undo reads and what it writes: the generation tells, and his ratio stays."""
    step = Change(NODE, stock(VCPU=OURS, DISK_GB=OURS), stock(VCPU=OLD, DISK_GB=OLD))
    theirs = {"VCPU": THEIRS.to_json(), "DISK_GB": OURS.to_json()}
    now = {"inventories": theirs, "resource_provider_generation": 5}
    fake = FakePlacement().on("GET", "/resource_providers/p/inventories", now)
    fake.on("PUT", "/resource_providers/p/inventories", error(409, "", code="placement.concurrent_update"))
    fake.on(
        "PUT",
        "/resource_providers/p/inventories/DISK_GB",
        OLD.to_json() | {"resource_provider_generation": 6},
    )
    outcome = run_change(fake.client(), step, UndoStep("undo", step, force))
    assert fake.lines.count("PUT /resource_providers/p/inventories") == 1
    assert fake.lines.count("PUT /resource_providers/p/inventories/DISK_GB") == force
    assert outcome.result is (Result.APPLIED if force else Result.FAILED)
    assert isinstance(outcome.error, ChangedSince) != force


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_atomic_run_that_goes_on_keeps_the_intent_that_undo_needs(monkeypatch, goes_on):
    """The request of a sitting that died lands after the resume has read."""
    monkeypatch.setattr(retry, "_FIRST_PAUSE", 0.0)
    now = {"inventories": {"VCPU": OURS.to_json()}, "resource_provider_generation": 4}
    fake = FakePlacement().on("GET", "/resource_providers/p/inventories", now)
    fake.on("POST", "/reshaper", MAY_RESHAPE, error(409, "", code="placement.concurrent_update"))
    plan = Plan(RatioEdit({"VCPU": 4.0}), (Change(NODE, stock(VCPU=OLD), stock(VCPU=OURS)),), goes_on=goes_on)
    again = []

    class Notes(execute.NoRecorder):
        def plan_again(self, change):
            again.append(change)

    report = execute_atomically(fake.client(), plan, recorder=Notes())
    assert [outcome.result for outcome in report.outcomes] == [Result.UNCHANGED]
    assert len(again) == (not goes_on)


#: the inventory of VCPU is ours already, but the traits are not; somebody has changed another class since
OVERTAKEN = {"VCPU": OURS, "DISK_GB": THEIRS}


def test_undo_keeps_a_change_made_between_two_facets(monkeypatch):
    """His class is not ours to take back, and that we have written the other is not forgotten."""
    monkeypatch.setattr(retry, "_FIRST_PAUSE", 0.0)
    cloud = FakeCloud("p", inventories={name: OLD.to_json() for name in OVERTAKEN})
    before = ProviderState({"VCPU": OLD, "DISK_GB": OLD}, frozenset())
    after = ProviderState({"VCPU": OURS, "DISK_GB": OLD}, frozenset({"CUSTOM_A"}))
    change = Change(cloud.providers[0], before, after)

    def overtake(uuid):
        if [call for call, _ in cloud.calls].count("write") == 2:
            cloud.touch(uuid, inventories={name: entry.to_json() for name, entry in OVERTAKEN.items()})

    cloud.before_write = overtake
    outcome = run_change(cloud, change, Repeat("", change))
    assert (outcome.result, outcome.attempts) == (Result.APPLIED, 2)
    left = ProviderState(OVERTAKEN, frozenset({"CUSTOM_A"}))
    assert outcome.change.after == left
    step, refusal = _undo_step(outcome.change, NODE, left, force=False)
    assert (step.after, refusal) == (ProviderState({"VCPU": OLD, "DISK_GB": THEIRS}, frozenset()), None)


def test_undo_keeps_a_change_made_between_kill_and_resume():
    """The same where nobody remembers that it was written: what is as planned is ours."""
    before = ProviderState({"VCPU": OLD, "DISK_GB": OLD}, frozenset())
    after = ProviderState({"VCPU": OURS, "DISK_GB": OLD}, frozenset({"CUSTOM_A"}))
    change = Change(NODE, before, after)
    again = _resume_step(change, Repeat("", change), NODE, ProviderState(OVERTAKEN, frozenset()))
    assert again.after == ProviderState(OVERTAKEN, frozenset({"CUSTOM_A"}))
    assert again.before == ProviderState({"VCPU": OLD, "DISK_GB": THEIRS}, frozenset())


def test_resumed_undo_follows_its_journal():
    """Whoever resumes it goes the same way back."""
    edit = edit_from_json(edit_to_json(UndoEdit("undo of r", ("inventories",), force=True)))
    assert edit.edit_of(STEP) == UndoStep("undo of r", STEP, force=True)
    assert (edit.title, edit.facets) == ("undo of r", ("inventories",))


@pytest.mark.parametrize(
    "after",
    [
        ProviderState(identity=describe_identity("new"), traits=frozenset({"CUSTOM_A"})),
        ProviderState(identity=ABSENT, traits=frozenset()),
    ],
    ids=["change", "deletion"],
)
def test_undo_gives_a_name_back_that_a_run_set_aside(after):
    """The run died before it wrote anything else of a provider that gave its name to another one."""
    before = ProviderState(identity=describe_identity("old", "above"), traits=frozenset({"CUSTOM_B"}))
    found = replace(before, identity=describe_identity(temporary_name("p"), "above"))
    change = Change(NODE, before, after)
    step, refusal = _undo_step(change, NODE, settle(change.back, found), force=False)
    assert refusal is None
    assert (step.facets, step.after) == (("identity",), before)
    theirs = replace(found, traits=frozenset({"CUSTOM_C"}))
    step, refusal = _undo_step(change, NODE, settle(change.back, theirs), force=False)
    assert refusal is None
    assert (step.after.identity, step.after.traits) == (before.identity, {"CUSTOM_B", "CUSTOM_C"})
