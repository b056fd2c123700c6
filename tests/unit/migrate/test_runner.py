# SPDX-License-Identifier: Apache-2.0
"""Runs that migrations make, and those of others in the same directory."""

import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from osc_placement.batch import journal, select
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL, Policy, make_plan
from osc_placement.migrate import runner
from osc_placement.migrate.main import main
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.runs import ResumeRun, UndoRun
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import Cloud
from tests.unit.commands.shell import make


@pytest.fixture(autouse=True)
def journals(tmp_path, monkeypatch):
    """The journals of a test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return journal.Journals()


def run(kind, cloud, run_id):
    """Run a command on a run of a cloud; what it prints, its exit status, and whether a signal would wait."""
    cloud.writes, cloud.negotiates = 0, False
    command = make(kind, cloud)
    command.app.untold = threading.Event()
    command.app.settings = SimpleNamespace(placement_options=["--placement-endpoint", "http://p"])
    status = command.run(command.get_parser("placement-migrate").parse_args([run_id, "--yes"]))
    return command.app.stdout.getvalue() + command.app.stderr.getvalue(), status, command.app.untold.is_set()


def test_resume_makes_an_atomic_batch_run_in_one_transaction(journals):
    """The journal says how a run was started, whichever command line resumes it."""
    cloud = Cloud("a", "b", inventories=processors(1.0))
    edit = RatioEdit({"VCPU": 4.0})
    plan = make_plan(edit, select.read_states(cloud, cloud.providers, edit.facets))
    journals.create(cloud.endpoint, plan, settings={"atomic": True}).close()
    sent = []
    reshape = cloud.reshape
    cloud.reshape = lambda payload, version=None: sent.append(payload) or reshape(payload, version)
    assert run(ResumeRun, cloud, *journals.list_ids())[1:] == (EXIT_DONE, True)
    assert [sorted(payload["inventories"]) for payload in sent] == [["a", "b"]]


@pytest.mark.parametrize("capacity", ["keep", "ignore"])
def test_resumed_run_leaves_no_less_than_is_allocated_by_then(journals, capacity):
    """It is judged with what was allocated while it was stopped, unless it was begun to allow less."""
    cloud = Cloud("a", "b", inventories=processors(4.0))
    edit = RatioEdit({"VCPU": 1.0})
    readings = select.read_states(cloud, cloud.providers, edit.facets)
    plan = replace(make_plan(edit, readings), policy=Policy(capacity))
    stopped = runner.Execution()
    stopped.stop.set()
    begun = runner.carry_out(cloud, Assessment(plan), stopped)
    assert cloud.facets["a"]["inventories"] == processors(4.0)
    assert journals.read(begun.id).header.policy == Policy(capacity)
    usages = {"a": {"VCPU": 20}, "b": {"VCPU": 1}}
    cloud.provider_usages = usages.__getitem__
    _, status, _ = run(ResumeRun, cloud, begun.id)
    ratios = {name: cloud.facets[name]["inventories"] for name in usages}
    assert ratios == {"a": processors(4.0 if capacity == "keep" else 1.0), "b": processors(1.0)}
    assert status == (EXIT_PARTIAL if capacity == "keep" else EXIT_DONE)


@pytest.mark.parametrize("ratio", [1.0, 9.0])
def test_undo_that_writes_nothing_is_no_run_and_says_what_is_left(journals, ratio):
    """Otherwise the list has a run of no changes. The last line has the command that undoes the rest."""
    cloud = Cloud("a", inventories=processors(1.0))
    edit = RatioEdit({"VCPU": 4.0})
    plan = make_plan(edit, select.read_states(cloud, cloud.providers, edit.facets))
    begun = runner.carry_out(cloud, Assessment(plan), runner.Execution())
    cloud.touch("a", inventories=processors(ratio))
    told, status, _ = run(UndoRun, cloud, begun.id)
    assert (status, journals.list_ids()) == (EXIT_DONE if ratio == 1.0 else EXIT_PARTIAL, [begun.id])
    undo = f"placement-migrate --placement-endpoint http://p run undo {begun.id}"
    left = f"Run {begun.id} still has 1 change to undo, when what was set since is undone: {undo}"
    assert (told.splitlines()[-1] == left) == (ratio != 1.0)


def test_list_of_runs_names_damaged_journals_and_returns_3(tmp_path, capsys):
    """The others are listed, and the damaged one is not taken for nothing."""
    (tmp_path / "osc-placement" / "runs").mkdir(parents=True)
    (tmp_path / "osc-placement" / "runs" / "20260101T000000-000000.jsonl").write_text("garbage\n")
    assert main(["run", "list", "--all-clouds", "-f", "json"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert err.count("\n") == 1
    assert "20260101T000000-000000.jsonl is damaged at line 1" in err
