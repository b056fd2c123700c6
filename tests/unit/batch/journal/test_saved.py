# SPDX-License-Identifier: Apache-2.0
"""Plans in files, and files that are none."""

import json
import os
import pathlib
import stat
from dataclasses import replace

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.guards.advice import advise
from osc_placement.batch.guards.managed import guard_managed
from osc_placement.batch.inventory import InventoryEdit, RatioEdit
from osc_placement.batch.journal.saved import BadPlanFile, find_moves, load_plan, plan_saved, save_plan
from osc_placement.batch.membership import AggregateEdit, TraitEdit
from osc_placement.batch.plan import Change, Plan, Policy, Reading, make_plan
from osc_placement.batch.selection import Selection
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


def test_plan_that_cannot_be_written_is_told_with_its_directory(path, monkeypatch):
    """A relative name does not say where that was."""
    monkeypatch.chdir(path.parent)
    with pytest.raises(BadPlanFile, match=f"The plan {path.parent}/none/p.json cannot be written: No such"):
        save(pathlib.Path("none/p.json"))


def test_directory_as_plan_file_is_refused(path):
    """It is said so, and nothing is left there."""
    with pytest.raises(BadPlanFile, match="cannot be written: Is a directory"):
        save(pathlib.Path("."))
    with pytest.raises(BadPlanFile, match="cannot be written: Is a directory"):
        save(path.parent)
    assert list(path.parent.iterdir()) == [path]


X, Y, Z = (f"aaaaaaaa-000{number}-4000-8000-000000000000" for number in range(3))


def stock(**fields):
    """A state with these fields of the processors, another class, a trait and an aggregate."""
    inventories = {"VCPU": Inventory(8, **fields), "DISK_GB": Inventory(100)}
    return ProviderState(inventories, frozenset({"A"}), frozenset({X}))


RATIO = RatioEdit({"VCPU": 4.0})
LESS = InventoryEdit({"VCPU": {"reserved": 4}})
REPLACED = InventoryEdit({"VCPU": {"total": 8, "reserved": 4}}, replace_all=True)
BOTH = Selection(aggregates=(X, Y))


def save_for(path, edit, before, selection=None, usages=None):
    """Save the plan of an edit for one provider; return it as it is loaded."""
    reading = Reading(Provider("a", "a", 3), before, usages=usages or {})
    plan = replace(make_plan(edit, [reading], selection), policy=Policy("exceed"))
    plan = advise(plan, {"a": reading.usages})
    save_plan(path, plan, [reading], server="http://placement", selection="a")
    return load_plan(path)


@pytest.mark.parametrize(
    ("edit", "now", "after"),
    [
        (RATIO, stock(), stock(allocation_ratio=4.0)),
        (RATIO, stock(reserved=2), stock(reserved=2, allocation_ratio=4.0)),
        (
            RATIO,
            replace(stock(), inventories={"VCPU": Inventory(8)}, traits=frozenset("B")),
            replace(stock(), inventories={"VCPU": Inventory(8, allocation_ratio=4.0)}, traits=frozenset("B")),
        ),
        (RATIO, stock(allocation_ratio=4.0), stock(allocation_ratio=4.0)),
        (TraitEdit("add", frozenset("B")), stock(allocation_ratio=9.0), None),
        (TraitEdit("add", frozenset("B")), replace(stock(), traits=frozenset("C")), None),
        (TraitEdit("add", frozenset("BC")), replace(stock(), traits=frozenset("AC")), None),
        (TraitEdit("set", frozenset("B")), replace(stock(), traits=frozenset("B")), None),
        (AggregateEdit("add", frozenset({Y})), replace(stock(), aggregates=frozenset({Z})), None),
        (REPLACED, stock(reserved=4), None),
    ],
)
def test_saved_plan_survives_what_it_does_not_change(path, edit, now, after):
    """It is written with the generation of now; what is done already is not done again."""
    plan = save_for(path, edit, stock())
    reading = Reading(Provider("a", "a", 7), now, usages={"VCPU": 3})
    assert find_moves(plan, [reading]) == []
    (step,) = plan_saved(plan, readings=[reading]).steps
    assert (step.subject, step.before) == (reading.subject, now)
    assert step.after == (after or edit.decide(now).after)
    assert bool(step.facets) == (step.after != now)
    assert bool(step.reason) != bool(step.facets)


@pytest.mark.parametrize(
    ("edit", "now", "what"),
    [
        (RATIO, stock(allocation_ratio=9.0), "VCPU:allocation_ratio=1.0 became VCPU:allocation_ratio=9.0"),
        (RATIO, replace(stock(), inventories={}), "VCPU:total=8 became nothing"),
        (
            TraitEdit("set", frozenset("B")),
            replace(stock(), traits=frozenset("AC")),
            "nothing became C",
        ),
        (
            REPLACED,
            replace(stock(), inventories={**stock().inventories, "VGPU": Inventory(1)}),
            "nothing became VGPU:total=1",
        ),
        (REPLACED, stock(allocation_ratio=2.0), "VCPU:allocation_ratio=1.0 became VCPU:allocation_ratio=2.0"),
        (
            InventoryEdit({"VGPU": {"total": 4}}),
            replace(stock(), inventories={**stock().inventories, "VGPU": Inventory(1)}),
            "nothing became VGPU:total=1",
        ),
    ],
)
def test_saved_plan_tells_what_moved_of_what_it_changes(path, edit, now, what):
    """Also a trait or a class that "set" and "--replace" would remove, though it was not there."""
    plan = save_for(path, edit, stock())
    (move,) = find_moves(plan, [Reading(Provider("a", "a", 3), now, usages={})])
    assert move.what == what
    (step,) = plan_saved(plan, [move]).steps
    assert (step.before, step.after) == (now, edit.decide(now).after)


@pytest.mark.parametrize(
    ("then", "now", "what"),
    [
        (0, 4, ""),
        (0, 5, "VCPU would be over capacity by 1: 5 allocated, the capacity would be 4"),
        (5, 5, ""),
        (6, 5, ""),
        (5, 6, "VCPU would be over capacity by 2: 6 allocated, the capacity would be 4"),
    ],
)
def test_saved_plan_moves_if_more_would_be_missing_than_its_warning_said(path, then, now, what):
    """An allocation that fits, and one that is given up, does not matter; warnings say what is so now."""
    plan = save_for(path, LESS, stock(), usages={"VCPU": then})
    reading = Reading(Provider("a", "a", 5), stock(), usages={"VCPU": now})
    moves = find_moves(plan, [reading])
    assert [move.what for move in moves] == ([what] if what else [])
    if not moves:
        warnings = plan_saved(plan, moves, [reading]).warnings
        assert warnings == (
            ("a: VCPU would be over capacity by 1: 5 allocated, the capacity would be 4",) if now > 4 else ()
        )


@pytest.mark.parametrize(("edit", "number"), [(RATIO, 1), (LESS, 0)])
def test_saved_ratio_moves_if_a_provider_joins_another_selected_aggregate(path, edit, number):
    """There might be a warning that the ratios of the aggregates differ."""
    plan = save_for(path, edit, stock(), BOTH)
    assert plan.facets == ("inventories", "aggregates")
    moves = find_moves(
        plan, [Reading(STEP.subject, replace(stock(), aggregates=frozenset({X, Y})), usages={})]
    )
    assert [move.what for move in moves] == number * [f"it joined the aggregate {Y}"]
    other = Reading(STEP.subject, replace(stock(), aggregates=frozenset({X, Z})), usages={})
    assert find_moves(plan, [other]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("checksum"), "was edited since --plan-out wrote it; plan again"),
        (lambda document: document.update(selection="b"), "was edited since --plan-out wrote it; plan again"),
    ],
)
def test_refused_plan_file_is_reported_with_the_reason(path, change, message):
    """Whatever was changed, and also where the checksum is gone."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(BadPlanFile, match=message):
        load_plan(path)


def test_state_file_as_plan_file_is_refused_with_the_command_for_it(tmp_path):
    """Both are files that something applies."""
    cloud = tmp_path / "cloud.yaml"
    cloud.write_text("resource_providers: []\n")
    with pytest.raises(BadPlanFile, match=f"to apply a state file: openstack .* apply -f {cloud}"):
        load_plan(cloud)


def test_warning_of_managed_traits_is_that_of_the_plan_that_is_made_now(tmp_path):
    """The file may be older than the traits."""
    provider = Provider("a", "a", 1)
    change = Change(
        provider, ProviderState(traits=frozenset({"HW_0"})), ProviderState(traits=frozenset({"CUSTOM_A"}))
    )
    edit = TraitEdit("set", frozenset({"CUSTOM_A"}))
    plan = guard_managed(Plan(edit, (change,), policy=Policy(keeps_managed=True)))
    save_plan(tmp_path / "plan", plan, [], server="http://placement", selection="a")
    saved = load_plan(tmp_path / "plan")
    assert saved.keeps_managed
    for now, number in ((change.before, 1), (ProviderState(traits=frozenset()), 0)):
        again = plan_saved(saved, readings=[Reading(provider, now)])
        assert len(guard_managed(replace(again, policy=plan.policy)).warnings) == number
