# SPDX-License-Identifier: Apache-2.0
"""Runs on disk: whatever a dead process left is read, gone on with and undone."""

import contextlib
import datetime
import errno
import fcntl
import json
import pathlib
import resource
import stat
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from osc_placement.batch import attempt, execute, journal, service
from osc_placement.batch.execute import execute_atomically
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.gate import Gate
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.journal import file
from osc_placement.batch.journal.checksum import chain_line, read_sum
from osc_placement.batch.journal.record import parse
from osc_placement.batch.journal.run import UndonePart
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import EXIT_PARTIAL, Change, Consumer, Plan, Result, make_plan
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.select import read_states
from osc_placement.batch.undo import NOT_DONE, UndoEdit, plan_undo
from osc_placement.errors import Forbidden, PlacementError, ServerError, from_answer
from osc_placement.model import Inventory, Provider
from osc_placement.report.summary import sum_up
from tests.unit.batch.cloud import FakeCloud, processors
from tests.unit.batch.journals import cut_off, forge, without_sums

SERVER = "http://somebody:secret@placement.test/placement/"
ADD = TraitEdit("add", frozenset({"A"}))


def reader(cloud):
    return lambda subjects, facets: read_states(cloud, subjects, facets, concurrency=1)


def plan_for(cloud, edit=ADD):
    return make_plan(edit, read_states(cloud, cloud.providers, edit.facets, concurrency=1))


def run_recorded(cloud, directory, plan, **options):
    """Make a run as a command does; its id."""
    recorder = journal.Journals(directory).create(SERVER, plan, **options)
    report = execute.execute_plan(cloud, plan, recorder=recorder, concurrency=1)
    recorder.end_sitting(report)
    recorder.close()
    check_summary(recorder.id, directory)
    return recorder.id


def check_summary(run_id, directory):
    """The state and the counts of a list are those of the whole journal."""
    read, whole = (
        journal.Journals(directory).read_summary(run_id),
        journal.Journals(directory).read(run_id).summary,
    )
    assert read.header.id == whole.header.id
    assert replace(read, header=None) == replace(whole, header=None)


def resume(cloud, directory, run_id):
    run, recorder = journal.Journals(directory).reopen(run_id)
    plan = service.plan_resume(run, reader(cloud))
    recorder.begin(plan)
    report = execute.execute_plan(cloud, plan, recorder=recorder, concurrency=1)
    recorder.end_sitting(report)
    recorder.close()
    check_summary(run_id, directory)
    return report


def undo(cloud, directory, run_id, **options):
    plan = plan_undo(journal.Journals(directory).read(run_id), reader(cloud), **options)
    return execute.execute_plan(cloud, plan, concurrency=1)


def traits(cloud):
    return {name: facets["traits"] for name, facets in cloud.facets.items()}


def test_journal_is_private_and_holds_no_secret(tmp_path):
    """Nobody else may read it, and what may be secret in the address is not in it."""
    directory = tmp_path / "state" / "runs"
    run_id = run_recorded(FakeCloud("a"), directory, plan_for(FakeCloud("a")))
    path = directory / f"{run_id}.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert "secret" not in path.read_text()
    assert journal.Journals(directory).read(run_id).header.server == "http://placement.test/placement"


def test_journal_has_intent_state_and_outcome_of_each_change(tmp_path):
    """Intent, before-image and outcome of every provider that was to change, and of no other."""
    cloud = FakeCloud("a", "b", "c", traits=["B"])
    cloud.touch("b", traits=["A", "B"])
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud), selection="in aggregate X")
    run = journal.Journals(tmp_path).read(run_id)
    assert (run.state, run.status, run.applied, run.pending) == ("done", 0, 2, ())
    assert list(run.intents) == ["a", "c"]
    assert run.intents["a"].before.traits == {"B"}
    assert run.intents["a"].after.traits == {"A", "B"}
    assert run.endings["a"].generation == 1
    assert run.header.selection == "in aggregate X"
    assert run.header.edit == ADD


def test_all_intents_are_on_the_disk_before_the_first_write(tmp_path):
    """Whoever dies at the first write has left the whole plan."""
    cloud = FakeCloud("a", "b")
    seen = []
    cloud.before_write = lambda _uuid: seen.append(next(tmp_path.glob("*.jsonl")).read_text())
    run_recorded(cloud, tmp_path, plan_for(cloud))
    records = [json.loads(line)["record"] for line in seen[0].splitlines()]
    assert records == ["run", "intent", "intent", "planned"]


@pytest.mark.parametrize("edit", [ADD, RatioEdit({"VCPU": 4.0})], ids=lambda edit: edit.title)
@pytest.mark.parametrize("takes_many", [False, True], ids=("one by one", "together"))
def test_run_killed_at_any_byte_can_be_resumed_and_undone(tmp_path, edit, takes_many):
    """The journal is cut; every write up to there, and one more, or all of the portion, was made."""
    whole = FakeCloud("a", "b", inventories=processors(1.0), traits=["B"], takes_many=takes_many)
    plan = plan_for(whole, edit)
    before = json.dumps({name: [f["traits"], f["inventories"]] for name, f in whole.facets.items()})
    run_id = run_recorded(whole, tmp_path, plan)
    after = json.dumps({name: [f["traits"], f["inventories"]] for name, f in whole.facets.items()})
    content = (tmp_path / f"{run_id}.jsonl").read_bytes()
    planned = content.index(b'{"record":"planned"')
    first = content.index(b"\n", planned) + 1
    for cut in range(first, len(content), 7):
        directory = tmp_path / f"cut{cut}"
        directory.mkdir()
        (directory / f"{run_id}.jsonl").write_bytes(content[:cut])
        cloud = FakeCloud("a", "b", inventories=processors(1.0), traits=["B"], takes_many=takes_many)
        written = 2 if takes_many else content[:cut].count(b'"outcome"') + 1
        for change in plan.changes[:written]:
            attempt.run_change(cloud, change, edit)
        assert resume(cloud, directory, run_id).exit_status == 0
        now = json.dumps({name: [f["traits"], f["inventories"]] for name, f in cloud.facets.items()})
        assert now == after
        assert journal.Journals(directory).read(run_id).state == "done"
        assert undo(cloud, directory, run_id).exit_status == 0
        now = json.dumps({name: [f["traits"], f["inventories"]] for name, f in cloud.facets.items()})
        assert now == before


def lose_answer(_uuid):
    """As a proxy that has lost patience."""
    raise ServerError(504, "gateway timeout", method="PUT")


def refuse(_uuid):
    """As a policy."""
    raise Forbidden(403, "not yours", method="PUT")


def test_undo_leaves_changes_made_by_others_instead_of_the_run(tmp_path):
    """Skipped or refused by the run, and done by somebody else since: it is his."""
    cloud = FakeCloud("a", "b", "c")
    cloud.before_write = lambda uuid: refuse(uuid) if uuid == "a" else None
    gate = Gate(max_failures=0)
    recorder = journal.Journals(tmp_path).create(SERVER, plan_for(cloud))
    plan = plan_for(cloud)
    report = execute.execute_plan(cloud, plan, recorder=recorder, concurrency=1, gate=gate)
    recorder.end_sitting(report)
    recorder.close()
    assert [str(outcome.result) for outcome in report.outcomes] == ["failed", "skipped", "skipped"]
    assert report.is_untouched
    cloud.before_write = lambda _uuid: None
    assert execute.execute_plan(cloud, plan_for(cloud)).counts == {Result.APPLIED: 3}
    undone = undo(cloud, tmp_path, recorder.id)
    assert {outcome.change.reason for outcome in undone.outcomes} == {NOT_DONE}
    assert traits(cloud) == {"a": ["A"], "b": ["A"], "c": ["A"]}


def test_undo_reverts_a_write_that_arrived_late(tmp_path):
    """The answer was lost, and the write was carried out when nobody looked any more."""
    cloud = FakeCloud("a")
    cloud.before_write = lose_answer
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    assert not journal.Journals(tmp_path).read(run_id).endings["a"].untouched
    cloud.touch("a", traits=["A"])
    cloud.before_write = lambda _uuid: None
    assert undo(cloud, tmp_path, run_id).counts == {Result.APPLIED: 1}
    assert traits(cloud) == {"a": []}


@pytest.mark.parametrize("first", [lose_answer, None], ids=["lost", "killed"])
def test_refusal_in_a_resume_keeps_the_earlier_write_unsettled(tmp_path, first):
    """What the first sitting sent may have been done since, though the second was told no."""
    cloud = FakeCloud("a")
    cloud.before_write = first or refuse
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    path = tmp_path / f"{run_id}.jsonl"
    if first is None:
        cut_off(path, path.read_bytes().partition(b'{"record":"outcome"')[0])
    cloud.before_write = refuse
    assert resume(cloud, tmp_path, run_id).outcomes[0].untouched
    assert not journal.Journals(tmp_path).read(run_id).endings["a"].untouched


def test_change_refused_by_a_resume_may_have_been_written_before(tmp_path):
    """The resume sends nothing for it, so it knows no more of it than was known before."""
    cloud = FakeCloud("a", inventories=processors(4.0))
    step = plan_for(cloud, RatioEdit({"VCPU": 1.0})).changes[0]
    edit = UndoEdit("undo of x", step.facets, force=False)
    plan = Plan(edit, (step,))
    run_id = run_recorded(cloud, tmp_path, plan, undoes="x")
    path = tmp_path / f"{run_id}.jsonl"
    cut_off(path, path.read_bytes().partition(b'{"record":"outcome"')[0])
    theirs = {"VCPU": cloud.facets["a"]["inventories"]["VCPU"] | {"reserved": 1, "allocation_ratio": 2.0}}
    cloud.touch("a", inventories=theirs)
    assert resume(cloud, tmp_path, run_id).counts == {Result.FAILED: 1}
    run = journal.Journals(tmp_path).read(run_id)
    assert not run.endings["a"].untouched
    assert list(plan_undo(run, reader(cloud)).refused) == ["a"]


def test_unstarted_change_found_done_at_resume_is_not_undone(tmp_path):
    """Stopped before it, done by a colleague, resumed: there is nothing of ours to undo."""
    cloud = FakeCloud("a")
    cloud.before_write = refuse
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    cloud.touch("a", traits=["A"])
    assert resume(cloud, tmp_path, run_id).counts == {Result.UNCHANGED: 1}
    undone = undo(cloud, tmp_path, run_id)
    assert [outcome.change.reason for outcome in undone.outcomes] == [NOT_DONE]
    assert traits(cloud) == {"a": ["A"]}


@pytest.mark.parametrize(("goes_on", "facets"), [(False, True), (True, True), (False, False), (True, False)])
def test_resume_without_changes_keeps_the_intent(goes_on, facets):
    """Who sent it has died, and may have been heard since."""
    before, after = ProviderState(traits=frozenset()), ProviderState(traits=frozenset("A"))
    again = Change(Provider("a", "a", 1), before if facets else after, after)
    assert Plan(ADD, (), goes_on=goes_on).replaces_intent(again) == (facets or not goes_on)


def test_partly_written_change_is_undone(tmp_path):
    """Half of a change is not nothing."""
    cloud = FakeCloud("a")
    before = ProviderState(traits=frozenset(), aggregates=frozenset())
    after = ProviderState(traits=frozenset("A"), aggregates=frozenset("B"))
    change = Change(cloud.providers[0], before, after)
    cloud.before_write = lambda uuid: refuse(uuid) if cloud.facets["a"]["traits"] else None
    run_id = run_recorded(cloud, tmp_path, Plan(Recorded("x", change.facets), (change,)))
    assert (traits(cloud), journal.Journals(tmp_path).read(run_id).failed) == ({"a": ["A"]}, 1)
    cloud.before_write = lambda _uuid: None
    undo(cloud, tmp_path, run_id, force=True)
    assert traits(cloud) == {"a": []}


def test_truncated_journal_is_read_up_to_its_last_whole_line(tmp_path):
    """What its whole lines say holds, and the torn last one is as good as not written."""
    cloud = FakeCloud("a", "b", "c")
    content = (tmp_path / f"{run_recorded(cloud, tmp_path, plan_for(cloud))}.jsonl").read_bytes()
    path = tmp_path / "torn.jsonl"
    header = content.index(b"\n") + 1
    for cut in range(header, len(content) + 1):
        path.write_bytes(content[:cut])
        run = journal.Journals(tmp_path).read("torn")
        lines = content[:cut].split(b"\n")[:-1]
        kinds = [json.loads(line)["record"] for line in lines]
        assert len(run.intents) == kinds.count("intent")
        assert run.applied == kinds.count("outcome")
        assert run.is_planned == ("planned" in kinds)
        assert (run.status == 0) == ("end" in kinds)
    for cut in range(header):
        path.write_bytes(content[:cut])
        with pytest.raises(journal.JournalError, match="its run died before it began; nothing was changed"):
            journal.Journals(tmp_path).read("torn")


def test_run_killed_while_writing_its_plan_changed_nothing(tmp_path):
    """It cannot be resumed, and says which command to give again; there is nothing to undo."""
    cloud = FakeCloud("a", "b")
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    path = tmp_path / f"{run_id}.jsonl"
    content = path.read_bytes()
    cut_off(path, content[: content.index(b'{"record":"planned"') + 5])
    run = journal.Journals(tmp_path).read(run_id)
    assert run.state == "not begun"
    with pytest.raises(Exception, match="nothing was changed; give its command again: trait add A"):
        service.plan_resume(run, reader(cloud))
    assert plan_undo(run, reader(cloud)).steps == ()


def test_resume_replans_after_a_concurrent_change(tmp_path):
    """His trait stays, ours comes, and undo takes ours only."""
    cloud = FakeCloud("a", "b")
    plan = plan_for(cloud)
    recorder = journal.Journals(tmp_path).create(SERVER, plan)
    recorder.close()
    cloud.touch("a", traits=["SOMEBODYS"])
    resume(cloud, tmp_path, recorder.id)
    assert traits(cloud) == {"a": ["A", "SOMEBODYS"], "b": ["A"]}
    undo(cloud, tmp_path, recorder.id)
    assert traits(cloud) == {"a": ["SOMEBODYS"], "b": []}


def test_undo_keeps_what_others_gave_beside_what_the_run_gave(tmp_path):
    """Another trait is none of its business."""
    cloud = FakeCloud("a", "b")
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    cloud.touch("a", traits=["A", "SOMEBODYS"])
    assert undo(cloud, tmp_path, run_id).exit_status == 0
    assert traits(cloud) == {"a": ["SOMEBODYS"], "b": []}


def run_ratios(cloud, directory, ratio):
    """Give all providers this ratio; return the ID of the run."""
    return run_recorded(cloud, directory, plan_for(cloud, RatioEdit({"VCPU": ratio})))


def test_undo_refuses_what_was_set_again_since_and_says_so_once(tmp_path):
    """The others are undone; the warning counts those that are refused, and their rows name them."""
    names = [f"host{number:02}" for number in range(14)]
    cloud = FakeCloud(*names, inventories=processors(1.0))
    run_id = run_ratios(cloud, tmp_path, 4.0)
    for name in names[1:]:
        cloud.touch(name, inventories=processors(9.0))
    plan = plan_undo(journal.Journals(tmp_path).read(run_id), reader(cloud))
    (warning,) = plan.warnings
    assert warning == (
        "13 of 14 changes will not be undone, because what the run set was changed since; "
        "no part of them is still as the run left it"
    )
    assert {str(error) for error in plan.refused.values()} == {
        f"{name} was changed since: VCPU:allocation_ratio=4.0 became VCPU:allocation_ratio=9.0"
        for name in names[1:]
    }
    cloud.endpoint = SERVER
    with pytest.raises(PlacementError) as caught:
        service.Runs(tmp_path).undo(cloud, run_id, reader(cloud), atomic=True)
    assert f": changed since: {', '.join(names[1:11])} and 3 more; 13 of 14 " in str(caught.value)
    report = undo(cloud, tmp_path, run_id)
    assert [outcome.result for outcome in report.outcomes] == [Result.APPLIED] + 13 * [Result.FAILED]
    assert cloud.facets[names[0]]["inventories"] == processors(1.0)
    assert cloud.facets[names[1]]["inventories"] == processors(9.0)
    assert undo(cloud, tmp_path, run_id, force=True).exit_status == EXIT_PARTIAL
    assert cloud.facets[names[1]]["inventories"] == processors(9.0)


def test_undo_ignores_generation_changes_by_allocations(tmp_path):
    """An instance that was started meanwhile hinders nobody."""
    cloud = FakeCloud("a")
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    cloud.touch("a")
    assert undo(cloud, tmp_path, run_id).exit_status == 0
    assert traits(cloud) == {"a": []}


def test_replanned_change_is_journalled_before_its_write(tmp_path):
    """Undo goes back to what was there when we wrote, not to what we planned on."""
    cloud = FakeCloud("a")
    strangers = iter([["SOMEBODYS"]])

    def interfere(uuid):
        for names in strangers:
            cloud.touch(uuid, traits=names)

    cloud.before_write = interfere
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    assert journal.Journals(tmp_path).read(run_id).intents["a"].before.traits == {"SOMEBODYS"}
    undo(cloud, tmp_path, run_id)
    assert traits(cloud) == {"a": ["SOMEBODYS"]}


def test_allocations_of_consumers_are_run_resumed_and_undone_the_same_way(tmp_path):
    """A plan may be about consumers: they are written by their generation, and a new one may begin."""
    cloud = FakeCloud()
    consumer = Consumer("c1", None, "project", "user", "INSTANCE")
    held = {"p1": {"VCPU": 2}}
    change = Change(consumer, ProviderState(allocations={}), ProviderState(allocations=held))
    edit = Recorded("heal", ("allocations",))
    plan = Plan(edit, (change,))
    run_id = run_recorded(cloud, tmp_path, plan)
    assert cloud.claims["c1"]["allocations"] == {"p1": {"resources": {"VCPU": 2}}}
    assert journal.Journals(tmp_path).read(run_id).intents["c1"] == change
    cloud.claims["c1"]["allocations"]["p2"] = {"resources": {"DISK_GB": 5}}
    assert "p2:DISK_GB=5" in str(undo(cloud, tmp_path, run_id).outcomes[0].error)
    assert undo(cloud, tmp_path, run_id, force=True).exit_status == EXIT_PARTIAL
    assert cloud.claims["c1"]["allocations"] == {"p2": {"resources": {"DISK_GB": 5}}}


def begin_undo(directory, edit, atomic):
    """The journal of an undo, of ratios from 4 to 1, that was killed before its first write."""
    ours, old = (
        ProviderState({name: Inventory.from_json(each) for name, each in processors(ratio).items()})
        for ratio in (4.0, 1.0)
    )
    step = Change(Provider("a", "a", 0), ours, old)
    plan = Plan(edit, (step,))
    recorder = journal.Journals(directory).create(SERVER, plan, undoes="r", settings={"atomic": atomic})
    recorder.close()
    return recorder.id


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(
    "edit",
    [
        UndoEdit("undo of r", ("inventories",), force=False),
        # as it was written by releases that did not know better
        Recorded("undo of r", ("inventories",)),
    ],
)
def test_resumed_undo_refuses_later_changes(tmp_path, edit, atomic):
    """What somebody set while it was dead is refused, with what can be done, and is not taken for done."""
    run_id = begin_undo(tmp_path, edit, atomic)
    cloud = FakeCloud("a", inventories=processors(9.0))
    run, recorder = journal.Journals(tmp_path).reopen(run_id)
    plan = service.plan_resume(run, reader(cloud))
    recorder.begin(plan)
    run_plan = execute_atomically if atomic else execute.execute_plan
    report = recorder.end_sitting(run_plan(cloud, plan, recorder=recorder))
    recorder.close()
    assert report.exit_status == 3
    assert str(report.outcomes[0].error) == (
        "a was changed since: VCPU:allocation_ratio=4.0 became VCPU:allocation_ratio=9.0"
    )
    (warning,) = plan.warnings
    assert warning == (
        "1 of 1 changes will not be undone, because what the run set was changed since; no part "
        "of it is still as the run left it"
    )
    assert cloud.facets["a"]["inventories"] == processors(9.0)
    assert journal.Journals(tmp_path).read(run_id).pending


def test_resumed_undo_leaves_what_was_set_beside_it(tmp_path):
    """Somebody reserved something while it was dead; the ratio is undone all the same."""
    run_id = begin_undo(tmp_path, UndoEdit("undo of r", ("inventories",), force=False), atomic=False)
    cloud = FakeCloud("a", inventories=processors(4.0))
    cloud.facets["a"]["inventories"]["VCPU"]["reserved"] = 2
    report = resume(cloud, tmp_path, run_id)
    assert [outcome.result for outcome in report.outcomes] == [Result.APPLIED]
    wanted = processors(1.0)
    wanted["VCPU"]["reserved"] = 2
    assert cloud.facets["a"]["inventories"] == wanted


def test_running_run_cannot_be_resumed_by_another_process(tmp_path):
    """Two processes with one journal would tell each other's lies."""
    recorder = journal.Journals(tmp_path).create(SERVER, plan_for(FakeCloud("a")))
    assert journal.Journals(tmp_path).read(recorder.id).state == "running"
    with pytest.raises(journal.JournalError, match="under way in another process"):
        journal.Journals(tmp_path).reopen(recorder.id)
    recorder.close()
    assert journal.Journals(tmp_path).read(recorder.id).state == "unfinished"


def test_running_run_cannot_be_deleted(tmp_path):
    """Its journal is all there is to resume or undo it."""
    recorder = journal.Journals(tmp_path).create(SERVER, plan_for(FakeCloud("a")))
    with pytest.raises(journal.JournalError, match="under way in another process"):
        journal.Journals(tmp_path).delete(recorder.id)
    assert journal.Journals(tmp_path).read(recorder.id).is_running
    recorder.close()
    journal.Journals(tmp_path).delete(recorder.id)
    assert list(tmp_path.iterdir()) == []


def test_damaged_run_can_be_deleted(tmp_path):
    """Its lines need not be read for that."""
    run = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run}.jsonl"
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    journal.Journals(tmp_path).delete(run)
    assert list(tmp_path.iterdir()) == []


def test_run_that_is_deleted_while_it_is_opened_is_not_resumed(tmp_path, monkeypatch):
    """What is written to a deleted journal would be lost."""
    run = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    flock = file.fcntl.flock

    def delete_first(descriptor, operation):
        (tmp_path / f"{run}.jsonl").unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(file.fcntl, "flock", delete_first)
    with pytest.raises(journal.JournalError, match="was deleted by another process"):
        journal.Journals(tmp_path).reopen(run)


def test_runs_are_read_of_one_server(tmp_path):
    """The last of them is found from its first line; other servers' do not count."""
    cloud, server = FakeCloud("a"), journal.identify_server(SERVER)
    first, last = (run_recorded(cloud, tmp_path, plan_for(cloud)) for _ in range(2))
    other = journal.Journals(tmp_path).create("http://other", plan_for(cloud))
    other.close()
    assert [run.header.id for run in journal.Journals(tmp_path).read_all()] == [first, last, other.id]
    assert [run.header.id for run in journal.Journals(tmp_path).read_all(server)] == [first, last]
    assert journal.Journals(tmp_path).find_last(journal.identify_server(SERVER)).id == last
    with pytest.raises(journal.JournalError, match="There is no run for the placement at http://nowhere"):
        journal.Journals(tmp_path).find_last("http://nowhere")


def test_last_run_is_not_guessed_past_a_damaged_journal(tmp_path):
    """It may be the one that is meant."""
    cloud = FakeCloud("a")
    run_recorded(cloud, tmp_path, plan_for(cloud))
    damaged = run_recorded(cloud, tmp_path, plan_for(cloud))
    (tmp_path / f"{damaged}.jsonl").write_bytes(b"nonsense\n")
    with pytest.raises(journal.JournalDamaged, match=damaged):
        journal.Journals(tmp_path).find_last(journal.identify_server(SERVER))


def test_run_is_found_by_an_id_without_its_middle(tmp_path):
    """As a narrow list shows the ID of an undone run, if only one run fits."""
    cloud = FakeCloud("a")
    first, second = (run_recorded(cloud, tmp_path, plan_for(cloud)) for _ in range(2))
    for run in (first, second):
        assert journal.Journals(tmp_path).complete_id(f"{run[:4]}...{run[-6:]}") == run
    with pytest.raises(journal.JournalError, match="begins the IDs of 2 runs"):
        journal.Journals(tmp_path).complete_id(f"{first[:4]}...")


def test_run_is_undone_until_its_undo_is_undone(tmp_path):
    """An undo that is unfinished undoes nothing as a whole."""

    def make(undoes, *, ends=True):
        cloud = FakeCloud("a")
        if ends:
            return run_recorded(cloud, tmp_path, plan_for(cloud), undoes=undoes)
        recorder = journal.Journals(tmp_path).create(SERVER, plan_for(cloud), undoes=undoes)
        recorder.close()
        return recorder.id

    def undone():
        found = journal.find_undone(journal.Journals(tmp_path).read_all())
        assert all(each.is_whole for each in found.values())
        return {run: each.by for run, each in found.items()}

    first = make(None)
    make(first, ends=False)
    assert undone() == {}
    undo_of_first = make(first)
    assert undone() == {first: undo_of_first}
    redo = make(undo_of_first)
    assert undone() == {undo_of_first: redo}


def test_what_undos_undid_is_counted_as_far_as_it_is_undone(tmp_path):
    """Several undos may undo parts of a run, and the undo of an undo takes back what that did."""
    header = journal.Header("1", SERVER, TraitEdit("add", frozenset("A")))

    def make(run, undoes, state, applied):
        return journal.Summary(replace(header, id=run, undoes=undoes), state, 50, applied, 50 - applied)

    runs = [make("1", None, "done", 50), make("2", "1", "partly done", 40)]
    assert journal.find_undone(runs) == {"1": journal.Undone("2", False, (UndonePart("2", 40),))}
    runs.append(make("3", "1", "unfinished", 3))
    both = journal.Undone("3", False, (UndonePart("2", 40), UndonePart("3", 3)))
    assert journal.find_undone(runs) == {"1": both}
    assert (both.number, both.runs) == (43, "by run 2 (40) and run 3 (3)")
    refused = make("4", "1", "refused", 0)
    assert journal.find_undone([*runs, refused]) == {"1": both}
    part = make("4", "2", "partly done", 15)
    undone = journal.find_undone([*runs, part])
    assert undone == {
        "1": journal.Undone("3", False, (UndonePart("2", 25), UndonePart("3", 3))),
        "2": journal.Undone("4", False, (UndonePart("4", 15),)),
    }
    assert {each.state for each in undone.values()} == {"partly undone"}
    whole = make("5", "1", "done", 7)
    undone = journal.find_undone([*runs, refused, whole])["1"]
    assert undone == journal.Undone("5", True, (UndonePart("2", 40), UndonePart("3", 3), UndonePart("5", 7)))
    partly = replace(make("4", "1", "partly done", 7), partial=5)
    assert journal.find_undone([*runs, partly])["1"] == journal.Undone(
        "4", False, (UndonePart("2", 40), UndonePart("3", 3), UndonePart("4", 2, 5))
    )
    only_parts = replace(partly, partial=7)
    told = journal.find_undone([*runs, only_parts])["1"]
    assert (told.number, told.partial) == (43, 7)
    assert told.runs == "by run 2 (40) and run 3 (3) and run 4 (7 in part)"
    part_of_whole = make("6", "5", "partly done", 2)
    assert journal.find_undone([*runs, whole, part_of_whole])["1"].is_whole is False


def test_undos_of_a_run_are_read_with_theirs_and_no_other_run(tmp_path, monkeypatch):
    """Of runs that started later only the first line is read, of earlier ones nothing."""

    def make(undoes=None):
        cloud = FakeCloud("a")
        return run_recorded(cloud, tmp_path, plan_for(cloud), undoes=undoes)

    earlier, run = make(), make()
    others = [make(), make(earlier)]
    undos = [make(run)]
    undos += [make(undos[0]), make(run)]
    lines = {}
    parse = file.parse

    def count(path, content):
        lines[path.stem] = max(content.count(b"\n"), lines.get(path.stem, 0))
        return parse(path, content)

    monkeypatch.setattr(file, "parse", count)
    assert [undo.header.id for undo in journal.Journals(tmp_path).read_undos(run)] == undos
    assert lines.keys() == {*others, *undos}
    assert {lines[other] for other in others} == {1}


def test_a_run_that_is_deleted_while_runs_are_listed_is_no_error(tmp_path):
    """Another process deletes it between the list of files and the reading."""
    cloud, server = FakeCloud("a"), journal.identify_server(SERVER)
    for read in (
        lambda directory: journal.Journals(directory).read_all(),
        lambda directory: journal.Journals(directory).read_all(server),
        lambda directory: journal.Journals(directory).read_headers(server),
    ):
        runs = [run_recorded(cloud, tmp_path, plan_for(cloud)) for _ in range(3)]
        listed = read(tmp_path)
        next(listed)
        journal.Journals(tmp_path).delete(runs[1])
        left = [each.header if isinstance(each, journal.Run) else each for each in listed]
        assert len(left) == 1
        assert left[0].id in (runs[0], runs[2])
        for run in (runs[0], runs[2]):
            journal.Journals(tmp_path).delete(run)


def test_end_of_the_last_attempt_is_read(tmp_path):
    """Its time is in the journal."""
    cloud = FakeCloud("a")
    run = journal.Journals(tmp_path).read(run_recorded(cloud, tmp_path, plan_for(cloud)))
    assert run.header.started <= run.ended


@pytest.mark.parametrize(
    ("status", "code", "names", "state"),
    [
        (403, "placement.undefined_code", "ab", "refused"),
        (409, "placement.inventory.inuse", "ab", "refused"),
        (403, "placement.undefined_code", "a", "unfinished"),
        (409, "placement.concurrent_update", "ab", "unfinished"),
        (401, "placement.undefined_code", "ab", "unfinished"),
        (503, "placement.undefined_code", "ab", "unfinished"),
    ],
)
def test_run_is_refused_if_nothing_was_written_and_a_repetition_cannot_help(
    tmp_path, monkeypatch, status, code, names, state
):
    """The report and the journal agree, so that a resume is offered where the list says unfinished."""
    monkeypatch.setattr(threading.Event, "wait", lambda *_: False)
    cloud = FakeCloud("a", "b")
    error = {"status": status, "title": "No", "detail": "No.", "code": code}
    refusal = from_answer("PUT", "/x", status, "", json.dumps({"errors": [error]}))

    def fail(uuid):
        if uuid in names:
            raise refusal

    cloud.before_write = fail
    plan = plan_for(cloud)
    recorder = journal.Journals(tmp_path).create(SERVER, plan)
    report = recorder.end_sitting(execute.execute_plan(cloud, plan, recorder=recorder, concurrency=1))
    recorder.close()
    assert journal.Journals(tmp_path).read(recorder.id).state == state
    assert report.is_refused == (state == "refused")


@pytest.fixture
def parsed(monkeypatch):
    """The numbers of lines of journals that were parsed."""
    numbers = []

    def count(path, content):
        numbers.append(content.count(b"\n"))
        return parse(path, content)

    monkeypatch.setattr(file, "parse", count)
    return numbers


def test_summary_of_an_ended_run_is_read_without_its_changes(tmp_path, parsed):
    """Of a run that succeeded, of one that failed, and again after its resume, which counts both attempts."""
    cloud = FakeCloud("a", "b", "c")
    done = run_recorded(cloud, tmp_path, plan_for(cloud, TraitEdit("add", frozenset({"B"}))))
    cloud.before_write = lambda uuid: lose_answer(uuid) if uuid == "b" else None
    failed = run_recorded(cloud, tmp_path, plan_for(cloud))

    def read():
        parsed.clear()
        summaries = list(journal.Journals(tmp_path).read_summaries())
        assert set(parsed) == {1}
        return [(each.header.id, each.state, each.changes, each.applied, each.failed) for each in summaries]

    assert read() == [(done, "done", 3, 3, 0), (failed, "unfinished", 3, 2, 1)]
    cloud.before_write = lambda _uuid: None
    resume(cloud, tmp_path, failed)
    assert read() == [(done, "done", 3, 3, 0), (failed, "done", 3, 3, 0)]


def remove_the_mark(path):
    path.with_suffix(".mark").unlink()


def append_a_line(path):
    with path.open("ab") as lines:
        lines.write(chain_line({"record": "planned", "changes": 0}, read_sum(path.read_bytes().rstrip()))[0])


@pytest.mark.parametrize("spoil", [remove_the_mark, append_a_line], ids=["copied", "resumed and killed"])
def test_summary_of_any_other_journal_is_read_from_all_of_it(tmp_path, parsed, spoil):
    """What the last line or the mark does not vouch for is not believed."""
    cloud = FakeCloud("a", "b")
    run = run_recorded(cloud, tmp_path, plan_for(cloud))
    path = tmp_path / f"{run}.jsonl"
    spoil(path)
    parsed.clear()
    summary = journal.Journals(tmp_path).read_summary(run)
    assert (summary.state, summary.changes, summary.applied) == ("done", 2, 2)
    assert max(parsed) == path.read_bytes().count(b"\n")


@pytest.mark.parametrize("old", ['"applied":2', '"status":0'])
def test_changed_last_line_is_damage_for_a_list_too(tmp_path, old):
    """Its own sum does not fit, whatever the mark says."""
    cloud = FakeCloud("a", "b")
    path = tmp_path / f"{run_recorded(cloud, tmp_path, plan_for(cloud))}.jsonl"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, f"{old}1"))
    assert [type(each) for each in journal.Journals(tmp_path).read_summaries()] == [journal.JournalDamaged]


def test_run_under_way_is_listed_as_running(tmp_path):
    """A resume that has written nothing yet has locked the journal."""
    cloud = FakeCloud("a")
    run = run_recorded(cloud, tmp_path, plan_for(cloud))
    _, recorder = journal.Journals(tmp_path).reopen(run)
    assert journal.Journals(tmp_path).read_summary(run).state == "running"
    recorder.close()
    assert journal.Journals(tmp_path).read_summary(run).state == "done"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (b"garbage\n", "Expecting value"),
        (b'{"no": "record"}\n', "it has no 'record'"),
        (b'{"record":"outcome"}\n', "it has no 'uuid'"),
    ],
)
def test_damage_is_reported_with_its_line(tmp_path, damage, words):
    """Anything but a torn last line is not guessed at."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    forge(path, lambda content: content.replace(b"\n", b"\n" + damage, 1))
    with pytest.raises(journal.JournalError, match=f"damaged at line 2: {words}"):
        journal.Journals(tmp_path).read(run_id)
    assert [type(run) for run in journal.Journals(tmp_path).read_all()] == [journal.JournalDamaged]


def test_run_is_found_by_the_beginning_of_its_id(tmp_path):
    """Whatever is read, resumed, undone or deleted can be named by a unique prefix."""
    cloud = FakeCloud("a")
    first, second = (run_recorded(cloud, tmp_path, plan_for(cloud)) for _ in range(2))
    assert journal.Journals(tmp_path).read(second[:-1]).header.id == second
    assert journal.Journals(tmp_path).read_header(first[:-1]).id == first
    client = SimpleNamespace(endpoint=SERVER, allow_concurrency=lambda _number: None)
    job = service.Runs(tmp_path).undo(client, first[:-1], reader(cloud))
    assert (job.undoes, job.selection) == (first, f"changed by run {first}")
    run, recorder = journal.Journals(tmp_path).reopen(second[:-1])
    recorder.close()
    assert run.header.id == recorder.id == second
    journal.Journals(tmp_path).delete(first[:-1])
    assert journal.Journals(tmp_path).list_ids() == [second]


def test_beginning_of_several_ids_names_the_last_of_them(tmp_path):
    cloud = FakeCloud("a")
    runs = [run_recorded(cloud, tmp_path, plan_for(cloud)) for _ in range(7)]
    with pytest.raises(journal.JournalError) as caught:
        journal.Journals(tmp_path).delete("2")
    assert str(caught.value) == (
        f"'2' begins the IDs of 7 runs: {', '.join(runs[-5:])}, and 2 earlier; give more of the ID"
    )
    assert journal.Journals(tmp_path).list_ids() == runs


@pytest.mark.parametrize("run_id", ["", "none", "../x", "."])
def test_unknown_run_is_a_one_line_error(tmp_path, run_id):
    """Nothing outside the directory is looked at."""
    with pytest.raises(journal.JournalError, match="There is no run"):
        journal.Journals(tmp_path).read(run_id)


def test_a_journal_of_a_later_version_is_refused(tmp_path):
    """What is not understood is not undone."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    forge(path, lambda content: content.replace(b'"version":1', b'"version":2'))
    with pytest.raises(journal.JournalError, match="version 2 is newer"):
        journal.Journals(tmp_path).read(run_id)


def test_invalid_settings_are_damage(tmp_path):
    """They decide how a run is undone, so nothing is guessed."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    forge(path, lambda content: content.replace(b'"settings":{}', b'"settings":"x"'))
    runs = journal.Journals(tmp_path)
    for read in (runs.read, runs.read_header):
        with pytest.raises(journal.JournalError, match="damaged at line 1"):
            read(run_id)


def test_journal_that_may_not_be_written_is_told_with_what_names_another_place(tmp_path, monkeypatch):
    """The directory of the journals is nothing that the command line names."""

    def refuse(*_arguments, **_settings):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.raises(journal.JournalError, match="Permission denied; XDG_STATE_HOME names another place"):
        journal.Journals(tmp_path / "runs").create(SERVER, plan_for(FakeCloud("a")))


def test_a_disk_that_cannot_be_written_stops_before_the_first_write(tmp_path):
    """One sentence, and the cloud is as it was."""
    (tmp_path / "file").write_text("")
    with pytest.raises(journal.JournalError, match=r"^Nothing was changed: .* cannot be read or written"):
        journal.Journals(tmp_path / "file").create(SERVER, plan_for(FakeCloud("a")))


def test_unverified_canary_is_journalled_as_failed(tmp_path):
    """The run is unfinished until a resume has seen it; undo takes it back as well."""
    cloud = FakeCloud("a", "b")
    plan = plan_for(cloud)
    recorder = journal.Journals(tmp_path).create(SERVER, plan)

    def lose(outcome):
        cloud.failing[outcome.change.uuid] = OSError("gone")

    report = execute.execute_plan(cloud, plan, recorder=recorder, concurrency=1, canary=1, on_outcome=lose)
    recorder.end_sitting(report)
    recorder.close()
    assert [outcome.result for outcome in report.outcomes] == [Result.FAILED, Result.SKIPPED]
    assert report.outcomes[0].note == "it was changed, but could not be read back"
    run = journal.Journals(tmp_path).read(recorder.id)
    assert (run.applied, run.failed, run.state) == (0, 1, "unfinished")
    assert (run.endings["a"].error, run.endings["a"].note) == ("gone", report.outcomes[0].note)
    cloud.failing.clear()
    assert resume(cloud, tmp_path, recorder.id).exit_status == 0
    assert journal.Journals(tmp_path).read(recorder.id).state == "done"
    assert undo(cloud, tmp_path, recorder.id).exit_status == 0
    assert traits(cloud) == {"a": [], "b": []}


@contextlib.contextmanager
def disk_full_after(path, more):
    """Let a file grow by so many bytes and no further: the write that does not fit is cut short."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("more", [0, 1, 40])
def test_partly_written_record_is_removed_before_the_next(tmp_path, more):
    """The disk is full for a moment: what came before and after is read, and the run goes on."""
    cloud = FakeCloud("a", "b")
    plan = plan_for(cloud)
    recorder = journal.Journals(tmp_path).create(SERVER, plan)
    first, second = (attempt.run_change(cloud, change, ADD) for change in plan.changes)
    with disk_full_after(recorder.path, more), pytest.raises(journal.JournalError, match="File too large"):
        recorder.end(first)
    recorder.end(second)
    recorder.close()
    assert list(journal.Journals(tmp_path).read(recorder.id).endings) == ["b"]
    assert resume(cloud, tmp_path, recorder.id).counts == {Result.UNCHANGED: 1}
    assert journal.Journals(tmp_path).read(recorder.id).state == "done"


def test_report_is_shown_when_its_record_cannot_be_written(tmp_path):
    """What was done is done; the report says that the journal lacks it."""
    cloud = FakeCloud("a")
    plan = plan_for(cloud)
    recorder = journal.Journals(tmp_path).create(SERVER, plan)
    report = execute.execute_plan(cloud, plan, recorder=recorder, concurrency=1)
    with disk_full_after(recorder.path, 10):
        told = recorder.end_sitting(report)
    recorder.close()
    assert (report.exit_status, told.exit_status, told.outcomes) == (0, 3, report.outcomes)
    assert sum_up(told).line.endswith("cannot be read or written: File too large")
    assert journal.Journals(tmp_path).read(recorder.id).applied == 1


def test_a_plan_that_does_not_fit_on_the_disk_leaves_no_run(tmp_path):
    """Nothing was begun, so there is nothing to list."""
    (tmp_path / "empty").touch()
    with disk_full_after(tmp_path / "empty", 300), pytest.raises(journal.JournalError):
        journal.Journals(tmp_path).create(SERVER, plan_for(FakeCloud("a", "b")))
    assert list(journal.Journals(tmp_path).read_all()) == []


def test_the_state_directory_is_where_the_xdg_specification_says(monkeypatch, tmp_path):
    """A relative path is ignored, as the specification wants."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert journal.state_directory() == tmp_path / "osc-placement" / "runs"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert journal.state_directory() == tmp_path / ".local" / "state" / "osc-placement" / "runs"


def test_lock_ends_with_its_process(tmp_path):
    """The lock is the kernel's: a process that was killed holds nothing up."""
    recorder = journal.Journals(tmp_path).create(SERVER, plan_for(FakeCloud("a")))
    with recorder.path.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    recorder.close()
    with recorder.path.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_late_write_of_a_killed_run_is_undone(tmp_path):
    """The server carries out a request after its client was killed, even after a resume has looked."""
    cloud = FakeCloud("a", "b", traits=["B"])
    recorder = journal.Journals(tmp_path).create(SERVER, plan_for(cloud))
    recorder.close()
    late = iter(["a"])

    def carry_out(uuid):
        for name in late:
            cloud.touch(name, traits=["A", "B"])

    cloud.before_write = carry_out
    report = resume(cloud, tmp_path, recorder.id)
    assert {outcome.change.uuid: outcome.result.value for outcome in report.outcomes} == {
        "a": "unchanged",
        "b": "applied",
    }
    assert journal.Journals(tmp_path).read(recorder.id).state == "done"
    undo(cloud, tmp_path, recorder.id)
    assert traits(cloud) == {"a": ["B"], "b": ["B"]}


def test_runs_are_ordered_despite_a_clock_set_back(tmp_path, monkeypatch):
    """What is listed last began last, whatever the clock said; the header has what it said."""
    cloud, moments = FakeCloud("a"), ["2026-03-01T12:00:00", "2026-03-01T11:00:00", "2025-01-01T00:00:00"]
    ids = []
    for moment in moments:
        clock = datetime.datetime.fromisoformat(f"{moment}+00:00")
        monkeypatch.setattr(file, "datetime", SimpleNamespace(UTC=None, datetime=FixedClock(clock)))
        ids.append(run_recorded(cloud, tmp_path, plan_for(cloud)))
    monkeypatch.undo()
    ids.append(run_recorded(cloud, tmp_path, plan_for(cloud)))
    runs = list(journal.Journals(tmp_path).read_all())
    assert [run.header.id for run in runs] == ids
    assert [run.header.started for run in runs[:-1]] == [f"{moment}Z" for moment in moments]


class FixedClock:
    """A clock that stands."""

    def __init__(self, moment):
        self._moment = moment

    def now(self, _zone):
        """As `datetime.datetime.now`."""
        return self._moment


@pytest.mark.parametrize(
    "last", ["20260101T000000-00000f", "20260101T000000-ffffff", "20260101T000000-fffffff"]
)
def test_next_run_id_is_higher(tmp_path, last):
    """Also where its number is the highest of six digits; other files are no runs."""
    clock = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    (tmp_path / f"{last}.jsonl").touch()
    (tmp_path / "zebra.jsonl").touch()
    names = [last]
    for _ in range(3):
        names.append(file._make_id(clock, tmp_path))
        (tmp_path / f"{names[-1]}.jsonl").touch()
    assert names == sorted(set(names))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"traits":["A"]', b'"traits":"A"'),
        (b'"traits":["A"]', b'"traits":[1]'),
        (b'"after":{"traits":["A"]}', b'"after":{}'),
        (b'"generation":0', b'"generation":"0"'),
        (b'"uuid":"a"', b'"uuid":["a"]'),
        (b'"changes":1', b'"changes":2'),
        (b'"changes":1', b'"changes":true'),
        (b'"result":"applied"', b'"result":"done"'),
        (b'"status":0', b'"status":null'),
        (b'"names":["A"]', b'"names":"A"'),
        (b'"verb":"add"', b'"verb":"ad"'),
        (b'"server":', b'"servers":'),
    ],
)
def test_invalid_records_are_damage_whatever_the_checksums_say(tmp_path, old, new):
    """Types are checked when a journal is read, and what belongs together."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    assert old in path.read_bytes()
    forge(path, lambda content: content.replace(old, new))
    with pytest.raises(journal.JournalDamaged, match=r"is damaged at line \d: .*: restore the file from a"):
        journal.Journals(tmp_path).read(run_id)


def test_finished_journal_without_its_end_is_refused(tmp_path):
    """No process died there: what it had put on the disk is missing, and undo would not know of it."""
    cloud = FakeCloud("a", "b")
    run_id = run_recorded(cloud, tmp_path, plan_for(cloud))
    path = tmp_path / f"{run_id}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:number]))
        with pytest.raises(journal.JournalDamaged, match=f"behind line {number}: it had {len(lines)} lines"):
            journal.Journals(tmp_path).read(run_id)
    path.with_suffix(".mark").unlink()
    assert journal.Journals(tmp_path).read(run_id).status is None


@pytest.mark.parametrize("read", ["read", "read_header", "reopen"])
@pytest.mark.parametrize("first", [0, 1, -1])
def test_finished_journal_without_lines_is_refused(tmp_path, read, first):
    """Its run did begin: to say that nothing was changed would be wrong."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    line, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(line[:first])
    number = 1 + rest.count(b"\n")
    words = rf"at line 1: it is not whole, and there were {number} lines; .*remove {run_id}\.mark"
    with pytest.raises(journal.JournalDamaged, match=words):
        getattr(journal.Journals(tmp_path), read)(run_id)


@pytest.mark.parametrize("read", ["read", "read_header", "reopen"])
def test_journal_without_its_checksums_is_refused(tmp_path, read):
    """Nothing would tell what was changed in it."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    path.write_bytes(without_sums(path.read_bytes()))
    with pytest.raises(journal.JournalDamaged, match="at line 1: its checksum does not fit"):
        getattr(journal.Journals(tmp_path), read)(run_id)


@pytest.mark.parametrize("spoil", [lambda content: content[:-9], lambda content: b"x" + content + b"half"])
def test_damaged_journal_is_not_truncated_by_a_resume(tmp_path, spoil):
    """What is left of it may tell what was done."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    content = spoil(path.read_bytes())
    path.write_bytes(content)
    with pytest.raises(journal.JournalDamaged):
        journal.Journals(tmp_path).reopen(run_id)
    assert path.read_bytes() == content


def test_reformatted_journal_is_refused(tmp_path):
    """Its sums are there, and fit no line."""
    run_id = run_recorded(FakeCloud("a"), tmp_path, plan_for(FakeCloud("a")))
    path = tmp_path / f"{run_id}.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(journal.JournalDamaged, match="at line 1: its checksum does not fit"):
        journal.Journals(tmp_path).read(run_id)
