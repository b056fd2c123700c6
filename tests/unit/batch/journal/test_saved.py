# SPDX-License-Identifier: Apache-2.0
"""Plans in files, and files that are none."""

import json
import os
import pathlib
import stat
from dataclasses import replace

import pytest

from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.journal.saved import BadPlanFile, find_moves, load_plan, save_plan
from osc_placement.batch.plan import Change, Plan, ProviderState, Reading
from osc_placement.model import Inventory, Provider

STEP = Change(
    Provider("a", "a", 3),
    ProviderState(inventories={"VCPU": Inventory(8)}),
    ProviderState(inventories={"VCPU": Inventory(8, allocation_ratio=4.0)}),
)


def save(path):
    """Save a plan."""
    save_plan(path, Plan(RatioEdit({"VCPU": 4.0}), (STEP,)), [], server="http://placement", selection="a")


@pytest.fixture
def path(tmp_path):
    """A plan in a file."""
    path = tmp_path / "plan.json"
    save(path)
    return path


def test_a_plan_is_read_as_it_was_written(path):
    """Whose checksum is right."""
    assert load_plan(path).steps == (STEP,)


def test_plan_file_is_private_even_if_it_replaces_a_public_one(path):
    """Also where everybody could read what is replaced."""
    path.chmod(0o644)
    save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_symbolic_link_to_a_plan_is_followed(path):
    """What it leads to is written."""
    link = path.with_name("link.json")
    link.symlink_to(path)
    path.write_text("")
    save(link)
    assert link.is_symlink()
    assert load_plan(path).steps == (STEP,)


def test_plan_can_be_written_to_a_named_pipe(path):
    """It is written into, and is not made a file of."""
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    save(pipe)
    assert os.read(reader, 65536) == path.read_bytes()
    os.close(reader)
    assert pipe.is_fifo()


def test_plan_can_be_written_to_an_unnamed_pipe(path):
    """As /dev/stdout often is."""
    reader, writer = os.pipe()
    save(pathlib.Path(f"/dev/fd/{writer}"))
    assert os.read(reader, 65536) == path.read_bytes()
    os.close(reader)
    os.close(writer)


def test_directory_as_plan_file_is_refused(path):
    """It is said so, and nothing is left there."""
    with pytest.raises(BadPlanFile, match="cannot be used: Is a directory"):
        save(pathlib.Path("."))
    with pytest.raises(BadPlanFile, match="cannot be used: Is a directory"):
        save(path.parent)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("generation", "state", "moved"),
    [
        (3, STEP.before, False),
        (4, STEP.before, True),
        (3, replace(STEP.before, inventories={"VCPU": Inventory(9)}), True),
    ],
)
def test_changes_since_the_plan_are_found_with_and_without_generation(path, generation, state, moved):
    """Requests of old versions change aggregates, and leave the generation as it is."""
    now = Reading(replace(STEP.subject, generation=generation), state)
    assert bool(find_moves(load_plan(path), [now])) is moved


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("checksum"), "was written by an earlier version of osc-placement; pl"),
        (lambda document: document.update(selection="b"), "was edited since --plan-out wrote it; plan again"),
    ],
)
def test_refused_plan_file_is_reported_with_the_reason(path, change, message):
    """A checksum that never was is no damage."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(BadPlanFile, match=message):
        load_plan(path)
