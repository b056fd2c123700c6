# SPDX-License-Identifier: Apache-2.0
"""The module for a whole state: a file or a document, in check mode too, and what pruning may delete."""

import importlib
import uuid

import pytest

from osc_placement.batch import journal
from osc_placement.batch.journal.file import Journal

STATE = {
    "traits": ["CUSTOM_GOLD"],
    "providers": [
        {"name": "rack-1", "traits": ["CUSTOM_GOLD"], "inventories": {"VCPU": {"total": 8}}},
        {"name": "slot-1", "parent": "rack-1"},
    ],
}
FILE = """
traits: [CUSTOM_GOLD]
providers:
- {name: rack-1, traits: [CUSTOM_GOLD], inventories: {VCPU: {total: 8}}}
- {name: slot-1, parent: rack-1}
"""


def names(client):
    """The names of all providers."""
    return sorted(found["name"] for found in client.list_providers())


def test_a_state_is_made_once(modules, client, tmp_path):
    """From the playbook and from a file; what is as in it is not written again."""
    results = modules.succeed("state_file", check=True, document=STATE)
    assert results["changed"]
    assert "+ trait CUSTOM_GOLD" in results["changes"]
    assert names(client) == []

    results = modules.succeed("state_file", document=STATE, journal_directory=str(tmp_path / "runs"))
    assert results["counts"] == {"created": 3, "unchanged": 0}
    assert results["failures"] == []
    assert journal.Journals(tmp_path / "runs").read(results["run_id"]).state == "done"
    assert "rack-1:" in results["diff"]["after"]
    assert names(client) == ["rack-1", "slot-1"]

    (tmp_path / "state.yaml").write_text(FILE)
    again = modules.succeed("state_file", src=str(tmp_path / "state.yaml"))
    assert not again["changed"]
    assert again["counts"] == {"unchanged": 3}


def test_pruning_deletes_no_more_than_is_allowed(modules, client):
    """What would be deleted is told; in check mode as a warning."""
    modules.succeed("state_file", document=STATE)
    less = {**STATE, "providers": STATE["providers"][:1]}
    told = modules.fail("state_file", document=less, prune=True, max_deletions=0)["msg"]
    assert "prune deletes 1, and max_deletions is 0: resource provider slot-1" in told
    checked = modules.succeed("state_file", document=less, prune=True, max_deletions=0, check=True)
    assert checked["changed"]
    assert "slot-1" in checked["diff"]["before"]
    assert len(checked["warnings"]) == 1
    assert "max_deletions" in modules.fail("state_file", document=less, prune=True)["msg"]
    assert names(client) == ["rack-1", "slot-1"]

    results = modules.succeed("state_file", document=less, prune=True, max_deletions=1)
    assert results["counts"] == {"deleted": 1, "unchanged": 2}
    assert names(client) == ["rack-1"]


def test_some_trees_are_changed_alone(modules, client):
    """A pattern that matches no tree is an error."""
    both = {"providers": [{"name": "rack-1"}, {"name": "other"}]}
    modules.succeed("state_file", document=both, names=["rack-*"])
    assert names(client) == ["rack-1"]
    told = modules.fail("state_file", document=both, names=["rakc-*"])["msg"]
    assert "No tree of the state has a root named like rakc-*" in told


@pytest.mark.parametrize("condition", ["names", "aggregates"])
def test_an_empty_condition_does_not_select_the_whole_cloud(modules, client, condition):
    """Such as a variable that nobody filled; pruning would delete everything else."""
    client.create_provider("other")
    pruned = {"document": STATE, "prune": True, "max_deletions": 9, condition: []}
    assert f"{condition}: it is empty" in modules.fail("state_file", **pruned)["msg"]
    assert names(client) == ["other"]


def test_a_wrong_state_is_told_with_its_place(modules, client, tmp_path):
    """A file that is missing, no YAML, or has a mistake changes nothing."""
    told = modules.fail("state_file", src=str(tmp_path / "nosuch.yaml"))["msg"]
    assert "cannot be read on the host where the module runs" in told
    (tmp_path / "state.yaml").write_text("providers:\n- {name: a}\n- {name: a}\n")
    told = modules.fail("state_file", src=str(tmp_path / "state.yaml"))["msg"]
    assert "state.yaml, line 3: providers[1].name: 'a' is already that of providers[0]" in told
    several = {"providers": [{"name": "a", "uuid": "x"}, {"name": "b", "parent": "c"}]}
    told = modules.fail("state_file", document=several)["msg"]
    assert "providers[0].uuid: must be a UUID, not 'x'; providers[1].parent: no provider in" in told
    unknown = {"providers": [{"name": "a", "traits": ["COMPUTE_NOD"]}]}
    assert "is it COMPUTE_NODE?" in modules.fail("state_file", document=unknown)["msg"]
    assert names(client) == []


@pytest.mark.parametrize("module", ["state_file", "resource_provider"])
def test_what_is_allocated_meanwhile_is_not_overcommitted(modules, client, monkeypatch, module):
    """The capacity is judged again after a conflict, with what was allocated since the first judgement."""
    modules.succeed("state_file", document=STATE)
    (rack,) = client.list_providers(name="rack-1")
    states = importlib.import_module(
        "ansible_collections.osc_placement.placement.plugins.module_utils.states"
    )
    compare = states.compare

    def judge_and_lose_the_race(*arguments, **settings):
        plans = compare(*arguments, **settings)
        claim = {"project_id": "web", "user_id": "alice", "consumer_type": "INSTANCE"}
        allocations = {rack["uuid"]: {"resources": {"VCPU": 6}}}
        client.set_allocations(
            str(uuid.uuid4()), {"allocations": allocations, "consumer_generation": None, **claim}
        )
        return plans

    monkeypatch.setattr(states, "compare", judge_and_lose_the_race)
    less = {"name": "rack-1", "inventories": {"VCPU": {"total": 4}}}
    failed = modules.fail(module, **(less if module != "state_file" else {"document": {"providers": [less]}}))
    assert "VCPU would be over capacity by 2" in failed["msg"]
    assert "allow_overcommitted: true" in failed["msg"]
    assert client.list_inventories(rack["uuid"])["inventories"]["VCPU"]["total"] == 8


def test_a_run_that_cannot_write_its_journal_says_why_it_stopped(modules, monkeypatch):
    """It is no failure of single things."""

    def fail(*_arguments):
        raise journal.JournalError("no space left on device")

    monkeypatch.setattr(Journal, "end", fail)
    failed = modules.fail("state_file", document=STATE)
    assert failed["msg"].startswith("state: stopped: no space left on device; 2 were not tried. What was")
    assert failed["counts"]["skipped"] == 2


def test_nothing_is_changed_if_the_server_would_refuse_a_part(modules, client):
    """Allocations that do not fit, and inventories that would be less than the state allocates."""
    modules.succeed("state_file", document=STATE)
    claim = {"consumer": str(uuid.uuid4()), "project": "web", "user": "alice", "type": "INSTANCE"}
    consumer = claim | {"resources": {"rack-1": {"VCPU": 9}}}
    wanted = {**STATE, "allocations": [consumer], "traits": [*STATE.get("traits", ()), "CUSTOM_LATER"]}
    for check in (True, False):
        failed = modules.fail("state_file", document=wanted, check=check)
        assert failed["msg"].startswith(f"Nothing was changed: consumer {claim['consumer']}: rack-1 has ")
    assert client.list_traits(name="in:CUSTOM_LATER") == []
    modules.succeed(
        "state_file", document=wanted | {"allocations": [consumer | {"resources": {"rack-1": {"VCPU": 6}}}]}
    )
    less = {"providers": [{"name": "rack-1", "inventories": {"VCPU": {"total": 4}}}], "allocations": []}
    assert "VCPU would be over capacity by 2" in modules.fail("state_file", document=less)["msg"]
    without = {"providers": [{"name": "rack-1", "inventories": {}}]}
    told = modules.fail("state_file", document=without)["msg"]
    assert "in use: 6 VCPU allocated; the state names its inventories without VCPU, and so removes" in told


def test_what_a_state_removes_of_what_it_names_is_warned_of(modules):
    """A playbook cannot be asked, and may name less than it should."""
    modules.succeed("state_file", document=STATE)
    for check in (True, False):
        document = {"providers": [{"name": "rack-1", "traits": [], "inventories": {}}]}
        results = modules.succeed("state_file", document=document, check=check)
        (warning,) = results["warnings"]
        assert warning == "The state is without 1 inventory, 1 trait of what it names, which removes them"
