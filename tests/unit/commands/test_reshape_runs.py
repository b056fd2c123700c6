# SPDX-License-Identifier: Apache-2.0
"""Reshapes as runs: the commands on journals that are torn, and on servers that refuse."""

import pytest

from osc_placement.batch import journal
from osc_placement.batch.plan import RESHAPE, Plan
from osc_placement.batch.repeat import Recorded
from osc_placement.commands.batch_run import ResumeRun, UndoRun
from osc_placement.commands.reshape import Reshape
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import Inventory
from tests.unit.batch.journals import cut_off
from tests.unit.batch.test_reshape import make_world, plan_reshape, vgpu
from tests.unit.commands.shell import run
from tests.unit.fake_placement import ENDPOINT, FakePlacement, error

A, B, C = (f"c0ffee00-0000-4000-8000-00000000000{number}" for number in range(1, 4))


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Three providers with eight, four and no VGPU, and a directory of its own for runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    fake = FakePlacement().on("POST", "/reshaper", (204, ""))
    for uuid, total in ((A, 8), (B, 4), (C, 0)):
        path = f"/resource_providers/{uuid}"
        inventories = {"VGPU": Inventory(total).to_json()} if total else {}
        fake.on("GET", path, {"uuid": uuid, "name": uuid, "generation": 3})
        fake.on("GET", f"{path}/inventories", {"inventories": inventories, "resource_provider_generation": 3})
        fake.on("GET", f"{path}/allocations", {"allocations": {}})
    return fake


def tear(before, move):
    """The journal of a reshape that died when no more than its first intent was on the disk; its ID."""
    plan = plan_reshape(make_world(before), [move])
    steps = Plan(Recorded("reshape", ("inventories", "allocations")), plan.changes)
    recorder = journal.Journals().create(ENDPOINT, steps, settings={"kind": RESHAPE})
    recorder.close()
    lines = recorder.path.read_bytes().splitlines(keepends=True)
    cut_off(recorder.path, b"".join(lines[:2]))
    return recorder.id


def test_a_reshape_with_a_truncated_journal_is_not_resumed(fake):
    """Half of its intents would be half a reshape."""
    torn = tear({A: Inventory(8), C: None}, vgpu(A, C, 4))
    with pytest.raises(PlacementError, match=f"Run {torn} died before its first write, so nothing was"):
        run(ResumeRun, fake.client(), f"{torn} --yes")
    assert "POST /reshaper" not in fake.lines


def test_a_reshape_with_a_truncated_journal_has_nothing_to_undo(fake):
    """It was never sent, so an equal state was made by somebody else."""
    torn = tear({A: Inventory(12), C: None}, vgpu(A, C, 4))
    run(UndoRun, fake.client(), f"{torn} --yes")
    assert "POST /reshaper" not in fake.lines


def test_a_consumer_is_pinned_once_however_it_is_spelled(fake):
    """The last of two places would have been taken without a word."""
    pins = f"--consumer {A.upper()}={B} --consumer {A}={C}"
    with pytest.raises(UsageError, match=f"Consumer {A} is given twice"):
        run(Reshape, fake.client(), f"--from {A} --to {B} --resource VGPU=4 {pins} --yes")
    assert fake.asked == []


def test_a_reshape_that_fails_says_so_whatever_its_first_provider_was_to_become(fake):
    """What passes through a provider leaves it as it was, which is no sign of success."""
    fake.on("POST", "/reshaper", error(409, "no room", code="placement.undefined_code"))
    moves = f"--from {B} --to {C} --resource VGPU=4 --from {A} --to {B} --resource VGPU=4"
    with pytest.raises(PlacementError, match="no room"):
        run(Reshape, fake.client(), f"{moves} --yes")


def test_dry_run_of_an_undo_without_the_right_is_refused(fake):
    """It would show what cannot be done."""
    fake.on("POST", "/reshaper", error(400, "nothing in it"), (204, ""))
    run(Reshape, fake.client(), f"--from {A} --to {C} --resource VGPU=4 --yes")
    fake.on("POST", "/reshaper", error(403, "Policy does not allow it"))
    for uuid, total in ((A, 4), (C, 4)):
        inventories = {"VGPU": Inventory(total).to_json()}
        document = {"inventories": inventories, "resource_provider_generation": 4}
        fake.on("GET", f"/resource_providers/{uuid}/inventories", document)
    (found,) = journal.Journals().read_headers(ENDPOINT)
    with pytest.raises(PlacementError, match="only the role 'service' may reshape"):
        run(UndoRun, fake.client(), f"{found.id} --dry-run")


@pytest.mark.parametrize("status", [401, 403, 502])
def test_a_reshape_that_a_page_refuses_is_not_said_to_have_changed_nothing(fake, status):
    """A proxy may have put the page in place of the answer of placement."""
    fake.on("POST", "/reshaper", (status, "<html>No</html>"))
    with pytest.raises(PlacementError, match="so look before you try it again") as caught:
        run(Reshape, fake.client(), f"--from {A} --to {C} --resource VGPU=4 --yes")
    assert "othing was changed" not in str(caught.value)
