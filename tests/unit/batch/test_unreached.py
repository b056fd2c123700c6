# SPDX-License-Identifier: Apache-2.0
"""Providers that a run was meant for and did not reach stay in its journal, for a resume."""

from dataclasses import replace

import pytest

from osc_placement.batch import execute, journal, service
from osc_placement.batch.guards.advice import advise
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL, Policy, make_plan
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.undo import plan_undo
from osc_placement.errors import ServerError
from tests.unit.batch import journals
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import Cloud, read_with, record

ADD = TraitEdit("add", frozenset({"A"}))
AWAY = ServerError(503, "away", method="GET")


def traits(cloud):
    return {name: facets["traits"] for name, facets in cloud.facets.items()}


def ratios(cloud):
    return {name: facets["inventories"]["VCPU"]["allocation_ratio"] for name, facets in cloud.facets.items()}


def plan_for(cloud, edit=ADD):
    return make_plan(edit, read_with(cloud)(cloud.providers, edit.facets))


def run_without(cloud, directory, name):
    """Make a run while one provider cannot be read; its ID."""
    cloud.failing[name] = AWAY
    plan = plan_for(cloud)
    cloud.failing.clear()
    return record(cloud, directory, plan).stem


def test_a_provider_that_could_not_be_read_stays_pending(tmp_path):
    """The list of runs says so, and a resume reads it again and plans it anew."""
    cloud = Cloud("a", "b")
    run_id = run_without(cloud, tmp_path, "b")
    run = journal.Journals(tmp_path).read(run_id)
    assert (run.state, run.applied, run.failed, len(run.intents)) == ("unfinished", 1, 1, 2)
    assert run.endings["b"].error == "away (HTTP 503)"
    assert traits(cloud) == {"a": ["A"], "b": []}
    cloud.touch("b", traits=["B"])
    assert journals.resume(cloud, run_id, tmp_path).exit_status == EXIT_DONE
    assert traits(cloud) == {"a": ["A"], "b": ["A", "B"]}
    assert journal.Journals(tmp_path).read(run_id).state == "done"
    assert journals.undo(cloud, run_id, tmp_path) == EXIT_DONE
    assert traits(cloud) == {"a": [], "b": ["B"]}


def test_a_provider_that_cannot_be_read_at_the_resume_either_stays_pending(tmp_path):
    """The exit status of the resume says so."""
    cloud = Cloud("a", "b")
    run_id = run_without(cloud, tmp_path, "b")
    cloud.failing["b"] = AWAY
    for _ in range(2):
        assert journals.resume(cloud, run_id, tmp_path).exit_status == EXIT_PARTIAL
        assert journal.Journals(tmp_path).read(run_id).state == "unfinished"
    cloud.failing.clear()
    assert journals.resume(cloud, run_id, tmp_path).exit_status == EXIT_DONE
    assert traits(cloud) == {"a": ["A"], "b": ["A"]}


@pytest.mark.parametrize("resumes", [0, 1])
@pytest.mark.parametrize("is_cut", [False, True])
def test_an_undo_leaves_what_others_did_to_a_provider_that_was_not_reached(tmp_path, is_cut, resumes):
    """Also where the process died before it could tell how anything ended, and no resume reached it."""
    cloud = Cloud("a", "b")
    run_id = run_without(cloud, tmp_path, "b")
    path = tmp_path / f"{run_id}.jsonl"
    if is_cut:
        journals.cut_off(path, path.read_bytes().partition(b'{"record":"outcome"')[0])
    for _ in range(resumes):
        cloud.failing["b"] = AWAY
        journals.resume(cloud, run_id, tmp_path)
        cloud.failing.clear()
    assert journal.Journals(tmp_path).read(run_id).state == "unfinished"
    cloud.touch("b", traits=["A"])
    assert journals.undo(cloud, run_id, tmp_path) == EXIT_DONE
    assert traits(cloud) == {"a": [], "b": ["A"]}


def plan_to_keep(cloud):
    """The plan of a ratio that leaves no less than is allocated."""
    return replace(plan_for(cloud, RatioEdit({"VCPU": 1.0})), policy=Policy("keep"))


def test_a_provider_that_was_refused_stays_pending(tmp_path):
    """It is judged again by a resume, when it may have room."""
    cloud = Cloud("a", "b", inventories=processors(4.0))
    plan = advise(
        replace(plan_for(cloud, RatioEdit({"VCPU": 1.0})), policy=Policy("keep")), {"b": {"VCPU": 20}}
    )
    assert list(plan.refused) == ["b"]
    settings = {"capacity": "keep"}
    run_id = record(cloud, tmp_path, plan, settings=settings).stem
    run = journal.Journals(tmp_path).read(run_id)
    assert (run.state, run.applied, run.failed) == ("partly done", 1, 1)
    assert "20" in run.endings["b"].error
    assert run.endings["b"].untouched
    assert journals.resume(cloud, run_id, tmp_path).exit_status == EXIT_DONE
    assert cloud.facets["b"]["inventories"] == processors(1.0)
    assert journal.Journals(tmp_path).read(run_id).state == "done"


def test_a_run_that_a_resume_can_finish_is_unfinished_whatever_else_was_refused(tmp_path):
    """Only where all that is left was refused is there nothing to resume."""
    cloud = Cloud("a", "b", "c", inventories=processors(4.0))
    cloud.failing["c"] = AWAY
    plan = advise(
        replace(plan_for(cloud, RatioEdit({"VCPU": 1.0})), policy=Policy("keep")),
        {"a": {"VCPU": 20}, "b": {"VCPU": 20}},
    )
    recorder = journal.Journals(tmp_path).create(journals.SERVER, plan)
    report = recorder.end_sitting(execute.execute_plan(cloud, plan, recorder=recorder))
    recorder.close()
    assert (report.exit_status, report.is_refused) == (EXIT_PARTIAL, False)
    assert journal.Journals(tmp_path).read(recorder.id).state == "unfinished"
    cloud.failing.clear()
    refused = replace(plan, steps=plan.steps[:2], unreadable={})
    recorder = journal.Journals(tmp_path).create(journals.SERVER, refused)
    report = recorder.end_sitting(execute.execute_plan(cloud, refused, recorder=recorder))
    recorder.close()
    assert report.is_refused
    assert journal.Journals(tmp_path).read(recorder.id).state == "refused"


def begin_undo(cloud, directory, **options):
    """Undo a run that gave three providers a trait, as commands do; its ID, and that of the undo."""
    run_id = record(cloud, directory, plan_for(cloud)).stem
    options.pop("prepare", lambda: None)()
    plan = plan_undo(journal.Journals(directory).read(run_id), read_with(cloud), **options)
    return run_id, record(cloud, directory, plan, undoes=run_id).stem


def test_a_provider_that_could_not_be_read_for_an_undo_is_undone_by_its_resume(tmp_path):
    """It was left as the run had made it, and the list of runs says so until then."""
    cloud = Cloud("a", "b", "c")
    _, undo_id = begin_undo(cloud, tmp_path, prepare=lambda: cloud.failing.update(b=AWAY))
    cloud.failing.clear()
    assert traits(cloud) == {"a": [], "b": ["A"], "c": []}
    undo = journal.Journals(tmp_path).read(undo_id)
    assert (undo.state, undo.applied, undo.failed) == ("unfinished", 2, 1)
    assert journals.resume(cloud, undo_id, tmp_path).exit_status == EXIT_DONE
    assert traits(cloud) == {"a": [], "b": [], "c": []}
    assert journal.Journals(tmp_path).read(undo_id).state == "done"


def test_a_provider_that_an_undo_refuses_stays_pending_until_it_can_be_undone(tmp_path):
    """What others set stays; when they have taken it back, a resume undoes the rest."""
    cloud = Cloud("a", "b", inventories=processors(1.0))
    run_id = record(cloud, tmp_path, plan_for(cloud, RatioEdit({"VCPU": 4.0}))).stem
    cloud.touch("b", inventories=processors(9.0))
    plan = plan_undo(journal.Journals(tmp_path).read(run_id), read_with(cloud))
    undo_id = record(cloud, tmp_path, plan, undoes=run_id).stem
    assert journal.Journals(tmp_path).read(undo_id).state == "partly done"
    report = journals.resume(cloud, undo_id, tmp_path)
    assert (report.exit_status, report.is_refused) == (EXIT_PARTIAL, True)
    assert journal.Journals(tmp_path).read(undo_id).state == "partly done"
    assert ratios(cloud) == {"a": 1.0, "b": 9.0}
    cloud.touch("b", inventories=processors(4.0))
    assert journals.resume(cloud, undo_id, tmp_path).exit_status == EXIT_DONE
    assert ratios(cloud) == {"a": 1.0, "b": 1.0}
    assert journal.Journals(tmp_path).read(undo_id).state == "done"


def test_an_undo_of_an_undo_that_did_not_reach_a_provider_leaves_it(tmp_path):
    """It was never taken back, so there is nothing to give again."""
    cloud = Cloud("a", "b")
    _, undo_id = begin_undo(cloud, tmp_path, prepare=lambda: cloud.failing.update(b=AWAY))
    cloud.failing.clear()
    cloud.touch("b", traits=[])
    assert journals.undo(cloud, undo_id, tmp_path) == EXIT_DONE
    assert traits(cloud) == {"a": ["A"], "b": []}


def test_an_undo_of_a_migration_goes_on_with_what_could_not_be_read(tmp_path):
    """It is pending in the journal, and a resume goes on with it."""
    made = journals.make("migration", tmp_path)
    cloud = made.cloud
    cloud.failing["c0"] = AWAY
    job = service.Runs(tmp_path).undo(cloud, made.id, read_with(cloud))
    undoing = service.Runs(tmp_path).start(cloud, job)
    assert service.carry_out(cloud, job, undoing).exit_status == EXIT_PARTIAL
    assert journal.Journals(tmp_path).read(undoing.id).state == "unfinished"
    cloud.failing.clear()
    assert journals.resume(cloud, undoing.id, tmp_path).exit_status == EXIT_DONE
    assert cloud.contents == made.before
    assert journal.Journals(tmp_path).read(undoing.id).state == "done"


def test_what_an_edit_of_which_only_the_words_are_known_did_not_reach_is_told(tmp_path):
    """Nothing here can plan it, so that the resume says which command does."""
    cloud = Cloud("a", "b")
    cloud.failing["b"] = AWAY
    plan = make_plan(Recorded("some migration", ("traits",)), read_with(cloud)(cloud.providers, ("traits",)))
    cloud.failing.clear()
    recorder = journal.Journals(tmp_path).create(journals.SERVER, plan)
    recorder.end_sitting(execute.execute_plan(cloud, plan, recorder=recorder))
    recorder.close()
    report = journals.resume(cloud, recorder.id, tmp_path)
    assert report.exit_status == EXIT_PARTIAL
    assert "give the command again: some migration" in str(report.outcomes[0].error)
