# SPDX-License-Identifier: Apache-2.0
"""The plan that removes what no file names any more."""

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import Reading
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider
from osc_placement.provider_config.document import Entry
from osc_placement.provider_config.prune import Evidence, plan_prune

U1, U2 = (f"6b2f5a3e-1111-4222-8333-00000000000{number}" for number in (1, 2))
HOST = Provider(U1, "compute-1", 4, None, U1)
TRAITS = frozenset(
    {"OWNER_NOVA", "HW_CPU_X86_AVX", "CUSTOM_KEPT", "CUSTOM_OLD", "CUSTOM_OTHER", "CUSTOM_PHYSNET_A"}
)
CLASSES = {"VCPU": Inventory(8), "CUSTOM_C": Inventory(4), "CUSTOM_PCI_1": Inventory(1)}
READING = Reading(HOST, ProviderState(CLASSES, TRAITS))
ENTRIES = {U1: [Entry("compute-1", frozenset({"CUSTOM_KEPT"}))]}


def plan(evidence, *, reading=READING, entries=ENTRIES):
    return plan_prune([reading], entries, evidence, "config prune", {})


def removed(evidence, **settings):
    """The traits and classes that go from the host."""
    (step,) = plan(evidence, **settings).steps
    return (
        step.before.traits - step.after.traits,
        step.before.inventories.keys() - step.after.inventories.keys(),
    )


def test_nothing_is_removed_without_evidence():
    """All is counted instead."""
    assert removed(Evidence()) == (set(), set())
    not_told, owned = plan(Evidence()).warnings
    assert "CUSTOM_C (1), CUSTOM_OLD (1), CUSTOM_OTHER (1);" in not_told
    assert owned == (
        "left to those who report it: CUSTOM_PCI_1 of PCI in placement (1), CUSTOM_PHYSNET_A of neutron (1)"
    )


def test_what_earlier_files_named_is_removed():
    """For the same provider, and not what others report or a file names now."""
    earlier = Entry(
        "x", frozenset({"CUSTOM_OLD", "CUSTOM_KEPT", "CUSTOM_PHYSNET_A"}), {"CUSTOM_C": Inventory(9)}
    )
    assert removed(Evidence({U1: [earlier]})) == ({"CUSTOM_OLD"}, {"CUSTOM_C"})
    assert removed(Evidence({U2: [earlier]})) == (set(), set())


def test_earlier_files_are_no_evidence_without_owner_nova():
    """nova applied no file to the provider, so somebody else set what it has."""
    evidence = Evidence({U1: [Entry("x", frozenset({"CUSTOM_OLD"}), {"CUSTOM_C": Inventory(9)})]})
    bare = Reading(HOST, ProviderState(CLASSES, TRAITS - {"OWNER_NOVA"}))
    assert removed(evidence, reading=bare) == (set(), set())
    assert any("without OWNER_NOVA" in text for text in plan(evidence, reading=bare).warnings)


def test_what_is_named_is_removed_unless_a_file_names_it():
    """Also what others report; nothing of the same name that is of the other kind."""
    named = frozenset({("trait", "CUSTOM_KEPT"), ("trait", "CUSTOM_PHYSNET_A"), ("trait", "CUSTOM_C")})
    assert removed(Evidence(named=named)) == ({"CUSTOM_PHYSNET_A"}, set())


def test_name_that_is_found_nowhere_or_kept_is_told():
    """With the place of the file that names it; not of names that are removed."""
    kept = {U1: [Entry("compute-1", frozenset({"CUSTOM_KEPT"}), source="a.yaml", lines={"CUSTOM_KEPT": 8})]}
    names = (
        ("trait", "CUSTOM_KEPT"),
        ("trait", "CUSTOM_OLT"),
        ("inventory", "CUSTOM_OLD"),
        ("trait", "CUSTOM_OLD"),
    )
    told = plan(Evidence(named=frozenset(names)), entries=kept).warnings
    assert [text for text in told if not text.startswith("left")] == [
        "none of 1 resource provider has inventories of CUSTOM_OLD",
        "the trait CUSTOM_KEPT stays where a file names it, such as a.yaml:8",
        "none of 1 resource provider has the trait CUSTOM_OLT",
    ]


def test_everything_custom_is_what_nobody_else_reports():
    """On providers with OWNER_NOVA alone; never a standard name."""
    assert removed(Evidence(all_custom=True)) == ({"CUSTOM_OLD", "CUSTOM_OTHER"}, {"CUSTOM_C"})
    bare = Reading(HOST, ProviderState(CLASSES, TRAITS - {"OWNER_NOVA"}))
    assert removed(Evidence(all_custom=True), reading=bare) == (set(), set())
    assert any(
        "without OWNER_NOVA" in text for text in plan(Evidence(all_custom=True), reading=bare).warnings
    )


def test_step_is_planned_again_by_what_it_removes():
    """What somebody adds meanwhile stays, and so do changed fields of others."""
    made = plan(Evidence(all_custom=True))
    (step,) = made.steps
    now = ProviderState({**CLASSES, "VCPU": Inventory(9), "CUSTOM_D": Inventory(1)}, TRAITS | {"CUSTOM_NEW"})
    after = made.edit_of(step).decide(now).after
    assert after.traits == {"OWNER_NOVA", "HW_CPU_X86_AVX", "CUSTOM_KEPT", "CUSTOM_PHYSNET_A", "CUSTOM_NEW"}
    assert after.inventories == {
        "VCPU": Inventory(9),
        "CUSTOM_PCI_1": Inventory(1),
        "CUSTOM_D": Inventory(1),
    }


def test_provider_that_cannot_be_read_is_not_changed():
    """If none can be, the plan fails with the reason."""
    broken = Reading(Provider(U2, "compute-2", 1), error=PlacementError("no answer"))
    made = plan_prune([READING, broken], ENTRIES, Evidence(all_custom=True), "config prune", {})
    assert [step.uuid for step in made.changes] == [U1]
    assert list(made.unreadable) == [U2]
    with pytest.raises(PlacementError, match="no answer"):
        plan_prune([broken], ENTRIES, Evidence(), "config prune", {})
