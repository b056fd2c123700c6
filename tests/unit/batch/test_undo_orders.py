# SPDX-License-Identifier: Apache-2.0
"""Runs that set fields of the same providers, undone in any order, beside a model of what each has set."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from osc_placement.batch import journal
from osc_placement.batch.inventory import InventoryDeletion, InventoryEdit, RatioEdit
from osc_placement.batch.membership import AggregateEdit, TraitEdit
from osc_placement.batch.plan import EXIT_DONE, EXIT_PARTIAL, make_plan
from osc_placement.batch.undo import plan_undo
from osc_placement.model import Inventory
from tests.unit.batch import journals
from tests.unit.batch.journals import Cloud, read_with, record

HOSTS = ("a", "b", "c")
INVENTORIES = {
    "VCPU": Inventory(8).to_json(),
    "MEMORY_MB": Inventory(1024).to_json(),
    "VGPU": Inventory(4).to_json(),
}
#: edits of which no two set the same field of a provider
DISJOINT = (
    RatioEdit({"VCPU": 4.0}),
    InventoryEdit({"VCPU": {"reserved": 2}}),
    InventoryEdit({"VCPU": {"total": 16}, "MEMORY_MB": {"reserved": 512}}),
    InventoryEdit({"DISK_GB": {"total": 100}}),
    InventoryDeletion(("VGPU",)),
    TraitEdit("add", frozenset("A")),
    TraitEdit("add", frozenset("BD")),
    TraitEdit("remove", frozenset("C")),
    AggregateEdit("add", frozenset("X")),
    AggregateEdit("remove", frozenset("YZ")),
)
#: edits that set some of the same fields
OVERLAPPING = (
    *(RatioEdit({"VCPU": ratio}) for ratio in (1.0, 2.0, 4.0)),
    *(InventoryEdit({"VCPU": {"reserved": reserved}}) for reserved in (0, 1)),
    InventoryEdit({"VCPU": {"reserved": 1, "allocation_ratio": 4.0}}),
    *(InventoryEdit({"DISK_GB": {"total": total}}) for total in (10, 20)),
    InventoryDeletion(("DISK_GB",)),
)
EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SUBSETS = st.sets(st.sampled_from(HOSTS), min_size=1)


def make_cloud():
    cloud = Cloud(*HOSTS, inventories=INVENTORIES, traits=["C"])
    for facets in cloud.facets.values():
        facets["aggregates"] = ["Y"]
    return cloud


def fields_of(facets):
    """Return what a provider has, by field; a trait or aggregate is a field as well."""
    fields = {("trait", name): True for name in facets["traits"]}
    fields |= {("aggregate", name): True for name in facets["aggregates"]}
    return fields | {
        (name, field): value
        for name, inventory in facets["inventories"].items()
        for field, value in inventory.items()
    }


def state_of(cloud):
    return {name: fields_of(facets) for name, facets in cloud.facets.items()}


def run_edit(cloud, edit, hosts, directory):
    """Carry an edit out on some hosts; return the ID of the run, None if there was nothing to change."""
    providers = [provider for provider in cloud.providers if provider.uuid in hosts]
    plan = make_plan(edit, read_with(cloud)(providers, edit.facets))
    return record(cloud, directory, plan).stem if plan.changes else None


def claim(cloud, hosts):
    """Allocate something from some hosts, which changes their generations and nothing that a run sets."""
    for name in hosts:
        cloud.touch(name)


@EXAMPLES
@given(st.data())
def test_undo_of_any_runs_leaves_the_state_of_the_others(data):
    """As if only the others had ever been made."""
    numbers = st.lists(st.sampled_from(range(len(DISJOINT))), min_size=1, max_size=5, unique=True)
    runs = [DISJOINT[number] for number in data.draw(numbers)]
    where = [data.draw(SUBSETS) for _ in runs]
    cloud = make_cloud()
    with tempfile.TemporaryDirectory() as directory:
        ids = []
        for edit, hosts in zip(runs, where, strict=True):
            ids.append(run_edit(cloud, edit, hosts, Path(directory)))
            claim(cloud, data.draw(SUBSETS))
        undone = data.draw(st.lists(st.sampled_from(range(len(runs))), unique=True))
        for number in undone:
            assert journals.undo(cloud, ids[number], Path(directory)) == EXIT_DONE
            claim(cloud, data.draw(SUBSETS))
        model = make_cloud()
        for number, (edit, hosts) in enumerate(zip(runs, where, strict=True)):
            if number not in undone:
                run_edit(model, edit, hosts, Path(directory))
    assert state_of(cloud) == state_of(model)


def undo_by_model(changes, now, *, force):
    """Return the fields of a provider after an undo, and whether it is refused.

    :param changes: by field, the value before a run and the value after it; None is no such field
    """
    created = {key[0] for key, (old, _) in changes.items() if old is None}
    deleted = {key[0] for key, (_, new) in changes.items() if new is None}
    back, is_refused = dict(now), False
    for name in {key[0] for key in changes}:
        mine = {key: values for key, values in changes.items() if key[0] == name}
        fields = {key: value for key, value in now.items() if key[0] == name}
        if name in created | deleted:  # one thing
            mine = {name: tuple({k: v[i] for k, v in mine.items() if v[i] is not None} for i in (0, 1))}
            fields = {name: fields}
        for key, (old, new) in mine.items():
            value = fields.get(key)
            if value != new:
                is_refused |= value != old
            elif key == name:
                back = {k: v for k, v in back.items() if k[0] != name} | old
            else:
                back[key] = old
    return (now, True) if is_refused and not force else (back, is_refused)


@EXAMPLES
@given(st.data(), st.booleans())
def test_undo_never_changes_what_a_later_run_set(data, force):
    """It refuses a provider where a field of the run was set again, or with force undoes the others."""
    cloud = make_cloud()
    with tempfile.TemporaryDirectory() as directory:
        ids, changes = [], []
        for _ in range(data.draw(st.integers(1, 4))):
            before = state_of(cloud)
            edit, hosts = data.draw(st.sampled_from(OVERLAPPING)), data.draw(SUBSETS)
            run = run_edit(cloud, edit, hosts, Path(directory))
            after = state_of(cloud)
            if run:
                ids.append(run)
                changes.append(
                    {
                        host: {
                            key: (before[host].get(key), after[host].get(key))
                            for key in before[host].keys() | after[host].keys()
                            if before[host].get(key) != after[host].get(key)
                        }
                        for host in HOSTS
                    }
                )
        for number in data.draw(st.permutations(range(len(ids)))):
            expected, refused, stuck = {}, set(), set()
            for host, fields in state_of(cloud).items():
                expected[host], is_refused = undo_by_model(changes[number][host], fields, force=force)
                refused |= {host} if is_refused else set()
                stuck |= {host} if is_refused and expected[host] == fields else set()
            plan = plan_undo(
                journal.Journals(Path(directory)).read(ids[number]), read_with(cloud), force=force
            )
            assert set(plan.refused) == (stuck if force else refused)
            status = journals.undo(cloud, ids[number], Path(directory), force=force)
            assert status == (EXIT_PARTIAL if refused else EXIT_DONE)
            assert state_of(cloud) == expected
