# SPDX-License-Identifier: Apache-2.0
"""Providers that leave the selection while a run goes are left alone, and their rows say why."""

import json

import pytest

from osc_placement.batch import execute, journal, reselect
from osc_placement.batch.execute import execute_atomically
from osc_placement.batch.gate import Gate
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.journal.record import selection_from_json, selection_to_json
from osc_placement.batch.journal.saved import load_plan, plan_saved, save_plan
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL, Result, make_plan
from osc_placement.batch.selection import Selection
from osc_placement.errors import NotFound, ServerError
from tests.unit.batch import journals
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import Cloud, read_with

AGGREGATE = "aaaaaaaa-0000-4000-8000-000000000001"
ROOT = "bbbbbbbb-0000-4000-8000-000000000001"
EDIT = RatioEdit({"VCPU": 4.0})


def leave_silently(cloud, uuid, **facets):
    """Change facets as requests before 1.19 change aggregates: the generation stays."""
    cloud.facets[uuid].update(facets)


def move(cloud, uuid):
    cloud.parents[uuid] = "elsewhere"


def rename(cloud, uuid):
    cloud.names[uuid] = "other"


#: a condition, how a provider stops meeting it, and whether the generation tells
WAYS = {
    "aggregate": (
        Selection(aggregates=(AGGREGATE,)),
        lambda cloud, uuid: cloud.touch(uuid, aggregates=[]),
        True,
    ),
    "aggregate before 1.19": (
        Selection(aggregates=(AGGREGATE,)),
        lambda cloud, uuid: leave_silently(cloud, uuid, aggregates=[]),
        False,
    ),
    "trait": (Selection(required=("T",)), lambda cloud, uuid: cloud.touch(uuid, traits=[]), True),
    "forbidden": (
        Selection(forbidden=("X",)),
        lambda cloud, uuid: cloud.touch(uuid, traits=["T", "X"]),
        True,
    ),
    "tree": (Selection(in_tree=ROOT), move, False),
    "name": (Selection(name="?"), rename, False),
    "list": (Selection(providers=("a", "b", "c")), rename, False),
    "room": (
        Selection(resources={"VCPU": 8}),
        lambda cloud, uuid: cloud.touch(
            uuid, inventories={**processors(1.0), "VCPU": {**processors(1.0)["VCPU"], "total": 4}}
        ),
        True,
    ),
}
MODES = {
    "one by one": execute.execute_plan,
    "portions": execute.execute_plan,
    "atomic": execute_atomically,
}


def make_cloud(way, mode="one by one"):
    cloud = Cloud("a", "b", "c", inventories=processors(1.0), traits=["T"], takes_many=mode == "portions")
    for facets in cloud.facets.values():
        facets["aggregates"] = [AGGREGATE]
    if way == "tree":
        cloud.parents = dict.fromkeys("abc", ROOT)
    return cloud


def plan_for(cloud, selection, edit=EDIT):
    return make_plan(edit, read_with(cloud)(cloud.providers, edit.facets), selection)


def changed(cloud):
    """The providers that have the new ratio."""
    return {
        name
        for name, facets in cloud.facets.items()
        if facets["inventories"]["VCPU"]["allocation_ratio"] == 4.0
    }


def check_row(report):
    row = report.outcomes[1]
    assert (row.change.uuid, row.result, row.untouched) == ("b", Result.UNCHANGED, True)
    assert row.note.startswith("is no longer ")
    assert not row.change.facets
    assert report.exit_status == EXIT_DONE


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_a_provider_that_left_since_the_plan_is_left_alone(way, mode, tmp_path):
    """As while somebody was asked, or a saved plan was confirmed; its run is done."""
    selection, leave, _ = WAYS[way]
    cloud = make_cloud(way, mode)
    plan = plan_for(cloud, selection)
    leave(cloud, "b")
    reports = []

    def carry_out(*given, **named):
        reports.append(MODES[mode](*given, **named))
        return reports[0]

    path = journals.record(cloud, tmp_path, plan, carry_out)
    check_row(*reports)
    assert changed(cloud) == {"a", "c"}
    run = journal.Journals(tmp_path).read(path.stem)
    assert (run.state, run.applied) == ("done", 2)
    assert run.endings["b"].note.startswith("is no longer ")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [way for way, (_, _, told) in WAYS.items() if told])
def test_conflict_reveals_a_provider_that_left_the_selection(way, mode):
    """The write is refused for its generation, and the provider is judged with that of the new reading."""
    selection, leave, _ = WAYS[way]
    cloud = make_cloud(way, mode)
    plan = plan_for(cloud, selection)
    leaving = iter(["b"])

    def leave_once(_uuid):
        for uuid in leaving:
            leave(cloud, uuid)

    cloud.before_write = leave_once
    check_row(MODES[mode](cloud, plan, concurrency=1))
    assert changed(cloud) == {"a", "c"}


@pytest.mark.parametrize("way", WAYS)
def test_a_provider_that_leaves_while_others_are_written_is_left_alone(way, monkeypatch):
    """Where the list of those selected is out of date by then."""
    monkeypatch.setattr(reselect, "MAX_AGE", 0.0)
    monkeypatch.setattr(reselect, "_TIMES", 0)
    selection, leave, _ = WAYS[way]
    cloud = make_cloud(way)
    cloud.before_write = lambda uuid: leave(cloud, "b") if uuid == "a" else None
    check_row(execute.execute_plan(cloud, plan_for(cloud, selection), concurrency=1))
    assert changed(cloud) == {"a", "c"}


@pytest.mark.parametrize("way", WAYS)
def test_a_resume_judges_the_selection_of_its_run(way, tmp_path):
    """Who left while the run was dead is left alone; also who could not be read when it was planned."""
    selection, leave, _ = WAYS[way]
    cloud = make_cloud(way)
    recorder = journal.Journals(tmp_path).create(journals.SERVER, plan_for(cloud, selection))
    recorder.close()
    leave(cloud, "b")
    check_row(journals.resume(cloud, recorder.id, tmp_path))
    assert changed(cloud) == {"a", "c"}
    assert journal.Journals(tmp_path).read(recorder.id).state == "done"


@pytest.mark.parametrize("way", WAYS)
def test_a_saved_plan_judges_its_selection(way, tmp_path):
    """It has the conditions, and not only the words for them."""
    selection, leave, _ = WAYS[way]
    cloud = make_cloud(way)
    path = tmp_path / "plan"
    save_plan(path, plan_for(cloud, selection), [], server="s", selection=str(selection))
    leave(cloud, "b")
    check_row(execute.execute_plan(cloud, plan_saved(load_plan(path)), concurrency=1))
    assert changed(cloud) == {"a", "c"}


@pytest.mark.parametrize("is_cut", [False, True])
def test_provider_deselected_by_the_run_itself_is_done(tmp_path, is_cut):
    """The trait that selects is removed: a resume finds that done, and an undo gives it back."""
    cloud = make_cloud("trait")
    plan = plan_for(cloud, Selection(required=("T",)), TraitEdit("remove", frozenset({"T"})))
    path = journals.record(cloud, tmp_path, plan)
    if is_cut:
        journals.cut_off(path, path.read_bytes().partition(b'{"record":"outcome"')[0])
    journals.resume(cloud, path.stem, tmp_path)
    assert journal.Journals(tmp_path).read(path.stem).state == "done"
    assert {tuple(facets["traits"]) for facets in cloud.facets.values()} == {()}
    assert journals.undo(cloud, path.stem, tmp_path) == EXIT_DONE
    assert {tuple(facets["traits"]) for facets in cloud.facets.values()} == {("T",)}


def test_an_undo_leaves_what_others_did_to_a_provider_that_left(tmp_path):
    """The run wrote nothing of it."""
    cloud = make_cloud("name")
    plan = plan_for(cloud, Selection(name="[abc]"))
    rename(cloud, "b")
    path = journals.record(cloud, tmp_path, plan)
    cloud.touch("b", inventories=processors(4.0))
    assert journals.undo(cloud, path.stem, tmp_path) == EXIT_DONE
    assert changed(cloud) == {"b"}


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(providers=(AGGREGATE, ROOT))])
def test_selection_without_conditions_is_not_read_again(selection):
    """All there are, and UUIDs."""
    cloud = make_cloud("all")
    assert execute.execute_plan(cloud, plan_for(cloud, selection)).counts == {Result.APPLIED: 3}
    assert [call for call in cloud.calls if call[0] == "list"] == []


@pytest.mark.parametrize("mode", MODES)
def test_unreadable_selection_prevents_writes(mode, tmp_path):
    """The rows say why, and a resume goes on."""
    cloud = make_cloud("name", mode)
    plan = plan_for(cloud, Selection(name="*"))
    cloud.unlistable = ServerError(503, "away", method="GET")
    reports = []

    def carry_out(*given, **named):
        reports.append(MODES[mode](*given, **named))
        return reports[0]

    path = journals.record(cloud, tmp_path, plan, carry_out, settings={"atomic": mode == "atomic"})
    (report,) = reports
    assert (report.exit_status, changed(cloud)) == (EXIT_PARTIAL, set())
    assert "away" in str(report.outcomes[0].error)
    cloud.unlistable = None
    assert journals.resume(cloud, path.stem, tmp_path).exit_status == EXIT_DONE
    assert changed(cloud) == {"a", "b", "c"}


@pytest.mark.parametrize("takes_many", [False, True])
def test_a_run_that_cannot_read_what_is_selected_stops_at_its_failures(takes_many):
    """Each provider that was not written for it counts, as a refused write does."""
    names = [f"rp{number}" for number in range(9)]
    cloud = Cloud(*names, inventories=processors(1.0), takes_many=takes_many)
    plan = plan_for(cloud, Selection(name="*"))
    cloud.unlistable = ServerError(503, "away", method="GET")
    report = execute.execute_plan(cloud, plan, gate=Gate(max_failures=3), concurrency=1)
    assert report.halted == "stopped after more than 3 failures"
    assert report.counts == {Result.FAILED: 4, Result.SKIPPED: 5}
    assert not report.interrupted


def test_deleted_provider_fails_instead_of_leaving_the_selection():
    """Its write says so, as without a selection."""
    cloud = make_cloud("name")
    plan = plan_for(cloud, Selection(name="*"))
    cloud.failing["b"] = NotFound(404, "no such provider", method="PUT")
    facets = cloud.facets.pop("b")
    report = execute.execute_plan(cloud, plan, concurrency=1)
    assert [outcome.result for outcome in report.outcomes] == [Result.APPLIED, Result.FAILED, Result.APPLIED]
    assert facets["inventories"] == processors(1.0)


@pytest.mark.parametrize("selection", [selection for selection, _, _ in WAYS.values()])
def test_selection_survives_json(selection):
    """As JSON in a journal or a saved plan."""
    document = json.loads(json.dumps(selection_to_json(selection)))
    assert selection_from_json(document) == selection
