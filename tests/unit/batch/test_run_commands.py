# SPDX-License-Identifier: Apache-2.0
"""What the commands on runs say of a run, in lists and one by one."""

import pytest

from osc_placement.batch import journal
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.plan import make_plan
from osc_placement.batch.run_commands import describe_run, read_list
from osc_placement.batch.undo import plan_undo
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import SERVER, Cloud, read_with, record


class Runs:
    """Runs on a cloud in memory, with journals where commands look for them."""

    def __init__(self, *names):
        self.cloud = Cloud(*names, inventories=processors(1.0))

    def set_ratio(self, ratio):
        """Return the ID of a run that sets the ratio everywhere."""
        edit = RatioEdit({"VCPU": ratio})
        plan = make_plan(edit, read_with(self.cloud)(self.cloud.providers, edit.facets))
        return record(self.cloud, journal.state_directory(), plan).stem

    def undo(self, run_id):
        """Return the ID of an undo of a run."""
        plan = plan_undo(journal.read(run_id), read_with(self.cloud))
        return record(self.cloud, journal.state_directory(), plan, undoes=run_id).stem

    def touch(self, ratio, *names):
        """Set the ratio of some providers, as somebody else does."""
        for name in names:
            self.cloud.touch(name, inventories=processors(ratio))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Runs on three providers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Runs("a", "b", "c")


def state_of(run_id):
    """Return the state that the facts of a run say, without its label."""
    (line,) = [line for line in describe_run(journal.read(run_id)) if line.startswith("state:")]
    return line.removeprefix("state:").strip()


def list_states():
    """Return the states and the undos of the list of runs, the oldest first."""
    return [(row[1], row[-1]) for row in read_list(journal.identify_server(SERVER), None, pytest.fail).rows]


def test_run_of_which_a_part_was_undone_is_partly_undone(runs):
    """Its undo is partly done, and not refused, as it has changed something."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    undo = runs.undo(run)
    assert list_states() == [("partly undone", ""), ("partly done", "")]
    assert state_of(run) == f"partly undone: 2 of 3, by run {undo}"
    assert state_of(undo) == "partly done"
    redo = runs.undo(undo)
    assert list_states() == [("done", ""), ("undone", redo), ("done", "")]
    assert state_of(run) == "done"


def test_run_names_the_undo_that_counts_and_no_earlier_one(runs):
    """One that was refused, or undid a part, is of no interest once another has undone the rest."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "a", "b", "c")
    refused = runs.undo(run)
    assert state_of(run) == f"done; undo refused: run {refused}"
    runs.touch(4.0, "a", "b")
    part = runs.undo(run)
    assert state_of(run) == f"partly undone: 2 of 3, by run {part}"
    runs.touch(4.0, "c")
    whole = runs.undo(run)
    assert state_of(run) == f"undone by run {whole}"
    assert [state for state, _ in list_states()] == ["undone", "refused", "partly done", "done"]
