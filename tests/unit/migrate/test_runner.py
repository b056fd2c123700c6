# SPDX-License-Identifier: Apache-2.0
"""Runs that migrations make, and those of others in the same directory."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from osc_placement.batch import journal, select
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL, Policy, make_plan
from osc_placement.migrate import runner
from osc_placement.migrate.commands import Command, list_runs
from osc_placement.migrate.migrations.base import Assessment
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import Cloud


def test_resume_makes_an_atomic_batch_run_in_one_transaction(tmp_path):
    """The journal says how a run was started, whichever command line resumes it."""
    cloud = Cloud("a", "b", inventories=processors(1.0))
    edit = RatioEdit({"VCPU": 4.0})
    plan = make_plan(edit, select.read_states(cloud, cloud.providers, edit.facets))
    journal.Journals(tmp_path).create(cloud.endpoint, plan, settings={"atomic": True}).close()
    (path,) = tmp_path.glob("*.jsonl")
    sent = []
    reshape = cloud.reshape
    cloud.reshape = lambda payload, version=None: sent.append(payload) or reshape(payload, version)
    run = runner.resume(cloud, path.stem, runner.Execution(directory=tmp_path))
    assert run.report.exit_status == EXIT_DONE
    assert [sorted(payload["inventories"]) for payload in sent] == [["a", "b"]]


@pytest.mark.parametrize("capacity", ["keep", "ignore"])
def test_resumed_run_leaves_no_less_than_is_allocated_by_then(tmp_path, capacity):
    """It is judged with what was allocated while it was stopped, unless it was begun to allow less."""
    cloud = Cloud("a", "b", inventories=processors(4.0))
    edit = RatioEdit({"VCPU": 1.0})
    readings = select.read_states(cloud, cloud.providers, edit.facets)
    plan = replace(make_plan(edit, readings), policy=Policy(capacity))
    stopped = runner.Execution(directory=tmp_path)
    stopped.stop.set()
    run = runner.carry_out(cloud, Assessment(plan), stopped)
    assert cloud.facets["a"]["inventories"] == processors(4.0)
    assert journal.Journals(tmp_path).read(run.id).header.policy == Policy(capacity)
    usages = {"a": {"VCPU": 20}, "b": {"VCPU": 1}}
    cloud.provider_usages = usages.__getitem__
    resumed = runner.resume(cloud, run.id, runner.Execution(directory=tmp_path))
    ratios = {name: cloud.facets[name]["inventories"] for name in usages}
    assert ratios == {"a": processors(4.0 if capacity == "keep" else 1.0), "b": processors(1.0)}
    assert resumed.report.exit_status == (EXIT_PARTIAL if capacity == "keep" else EXIT_DONE)


@pytest.mark.parametrize("ratio", [1.0, 9.0])
def test_undo_that_writes_nothing_is_no_run(tmp_path, ratio):
    """Otherwise the list has a run of no changes, by which the other one was undone."""
    cloud = Cloud("a", inventories=processors(1.0))
    edit = RatioEdit({"VCPU": 4.0})
    plan = make_plan(edit, select.read_states(cloud, cloud.providers, edit.facets))
    execution = runner.Execution(directory=tmp_path)
    run = runner.carry_out(cloud, Assessment(plan), execution)
    cloud.touch("a", inventories=processors(ratio))
    undo = runner.undo(cloud, run.id, execution)
    assert (undo.id, undo.undoes, journal.Journals(tmp_path).list_ids()) == (None, run.id, [run.id])
    assert undo.report.exit_status == (EXIT_DONE if ratio == 1.0 else EXIT_PARTIAL)


def test_undo_that_writes_nothing_says_what_is_left(tmp_path, monkeypatch, capsys):
    """The last line has the command, as that of an undo that leaves something and does the rest."""
    cloud = Cloud("a", inventories=processors(1.0))
    edit = RatioEdit({"VCPU": 4.0})
    plan = make_plan(edit, select.read_states(cloud, cloud.providers, edit.facets))
    execution = runner.Execution(directory=tmp_path)
    run = runner.carry_out(cloud, Assessment(plan), execution)
    cloud.touch("a", inventories=processors(9.0))
    settings = SimpleNamespace(placement_options=["--placement-endpoint", "http://p"])
    command = Command(settings, execution, SimpleNamespace(format="table", long=False))
    command.show_result(runner.undo(cloud, run.id, execution))
    undo = f"placement-migrate --placement-endpoint http://p run undo {run.id}"
    told = f"Run {run.id} still has 1 change to undo, when what was set since is undone: {undo}"
    assert capsys.readouterr().out.splitlines()[-1] == told


def test_list_of_runs_names_damaged_journals_and_returns_3(tmp_path, monkeypatch, capsys):
    """The others are listed, and the damaged one is not taken for nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "osc-placement" / "runs").mkdir(parents=True)
    (tmp_path / "osc-placement" / "runs" / "20260101T000000-000000.jsonl").write_text("garbage\n")
    options = SimpleNamespace(format="json", long=False, all_clouds=True, last=None)
    command = Command(None, runner.Execution(), options)
    assert list_runs(command) == 3
    out, err = capsys.readouterr()
    assert json.loads(out) == {"runs": []}
    assert err.count("\n") == 1
    assert "20260101T000000-000000.jsonl is damaged at line 1" in err
