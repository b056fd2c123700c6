# SPDX-License-Identifier: Apache-2.0
"""The merge of a change into another state: ours comes, what others did stays."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from osc_placement.batch.facets import (
    ABSENT,
    ALL_FACETS,
    HANDLERS,
    ProviderState,
    describe_identity,
    describe_owner,
    holds,
)
from osc_placement.batch.merge import merge, rebase
from osc_placement.batch.plan import Change, Consumer
from osc_placement.model import Inventory, Provider

NAMES = st.frozensets(st.sampled_from("ABCD"))
INVENTORIES = st.dictionaries(
    st.sampled_from(["VCPU", "DISK_GB"]),
    st.builds(Inventory, st.integers(1, 3), st.integers(0, 2), allocation_ratio=st.sampled_from([1.0, 2.0])),
)
AMOUNTS = st.dictionaries(st.sampled_from(["VCPU", "DISK_GB"]), st.integers(1, 3), min_size=1)
CLAIMS = st.dictionaries(st.sampled_from(["p1", "p2"]), AMOUNTS)
OWNERS = st.builds(describe_owner, st.sampled_from("xyz"), st.sampled_from("uv"))
IDENTITIES = st.builds(describe_identity, st.sampled_from("abc"), st.sampled_from([None, "up", "down"]))
# drawing is slow on a machine that is busy, which says nothing about what is tested
EXAMPLES = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
STATES = st.builds(
    ProviderState, INVENTORIES, NAMES, NAMES, CLAIMS, OWNERS, st.frozensets(st.sampled_from("I"), max_size=1)
)
#: also with another name or parent
THINGS = st.builds(ProviderState, INVENTORIES, NAMES, NAMES, CLAIMS, OWNERS, identity=IDENTITIES)
NODE = Provider("p", "p", 1)


def make(before, after):
    return Change(NODE, before, after)


def cells_of(facet, *states):
    return HANDLERS[facet].split(*(getattr(state, facet) for state in states))


@EXAMPLES
@given(st.sampled_from([NODE, Consumer("c")]), THINGS, THINGS, st.randoms(use_true_random=False))
def test_change_that_was_made_in_part_is_made_and_undone_whole(subject, before, after, chance):
    """As after a kill at any write: what is as before is ours to set, what is as after is done."""
    change, part = Change(subject, before, after), {}
    for facet in change.facets:
        part[facet] = getattr(chance.choice((before, after)), facet)
    now = ProviderState(**{**{facet: getattr(before, facet) for facet in ALL_FACETS}, **part})
    assert merge(change, now) == (after, now)
    assert merge(change.back, now) == (before, now)


@EXAMPLES
@given(STATES, STATES, STATES)
def test_what_others_set_is_never_lost(before, after, now):
    """It stays, and is a conflict where the change sets the same; allocations are one as a whole."""
    target, expected = merge(make(before, after), now)
    for facet in HANDLERS:
        old, new, found, left = cells_of(facet, before, after, now, target)
        set_by_others = {
            key for key in {*old, *new, *found} if found.get(key) not in (old.get(key), new.get(key))
        }
        untouched = {key for key in found if old.get(key) == new.get(key)}
        assert all(left.get(key) == found.get(key) for key in set_by_others | untouched)
        conflicts = {key for key in set_by_others if old.get(key) != new.get(key)}
        if facet != "allocations":
            assert (getattr(expected, facet) != getattr(now, facet)) == bool(conflicts)


@EXAMPLES
@given(THINGS, THINGS, THINGS)
def test_merge_of_what_is_merged_changes_nothing(before, after, now):
    """What is done is not written again."""
    change = make(before, after)
    target = merge(change, now).target
    assert merge(change, target).target == target


@EXAMPLES
@given(STATES, STATES, STATES)
def test_each_facet_is_merged_by_itself(before, after, now):
    """So that their order makes no difference."""
    whole = merge(make(before, after), now)
    for facet in HANDLERS:
        images = [ProviderState(**{facet: getattr(state, facet)}) for state in (before, after, now)]
        alone = merge(make(*images[:2]), images[2])
        assert [getattr(each, facet) for each in alone] == [getattr(each, facet) for each in whole]


@EXAMPLES
@given(THINGS, THINGS, THINGS)
def test_overwriting_leaves_nothing_but_what_is_gone(before, after, now):
    """What the change sets is as it says, unless it is there no more; all else stays."""
    target = merge(make(before, after), now, overwrite=True).target
    for facet in HANDLERS:
        old, new, found, left = cells_of(facet, before, after, now, target)
        for key in {*old, *new, *found}:
            wanted = found.get(key) if old.get(key) == new.get(key) else new.get(key)
            is_gone = key in old and key not in found and facet != "allocations"
            assert left.get(key) == (None if is_gone else wanted)


@pytest.mark.parametrize("written", [("identity",), ("identity", "traits")])
def test_creation_that_is_planned_again_stays_one_whatever_others_gave_it(written):
    """An undo has to see that as theirs, and a resume to create it again if it is deleted."""
    nothing = ProviderState({}, frozenset(), frozenset(), identity=ABSENT)
    created = replace(nothing, identity=describe_identity("host"), traits=frozenset("A"))
    theirs = replace(created, traits=frozenset("B"))
    again = rebase(make(nothing, created), make(theirs, replace(theirs, traits=frozenset("AB"))), written)
    assert (again.verb, again.before.identity, again.before.traits) == ("created", ABSENT, {"B"})
    assert set(again.compared_facets) == {"identity", "inventories", "traits", "aggregates"}
    known = replace(again.after, inventories={"VCPU": Inventory(8)})
    assert merge(again.back, known).expected != known


@EXAMPLES
@given(THINGS)
def test_a_state_is_read_from_a_journal_as_it_was_written(state):
    """Nothing is lost on the way to the disk and back."""
    assert ProviderState.from_json(state.to_json()) == state


def test_change_made_again_keeps_concurrent_changes():
    """We set the ratio, he reserved: undo takes the ratio back and leaves his reservation."""
    before = ProviderState(inventories={"VCPU": Inventory(8)})
    after = ProviderState(inventories={"VCPU": Inventory(8, allocation_ratio=4.0)})
    now = ProviderState(inventories={"VCPU": Inventory(8, reserved=2, allocation_ratio=4.0)})
    target, expected = merge(make(before, after).back, now)
    assert (target.inventories, expected) == ({"VCPU": Inventory(8, reserved=2)}, now)


def test_ratio_that_is_a_whole_number_is_rounded_as_any_other():
    """As a journal may have it, and MariaDB keeps six digits."""
    wanted, found = (
        ProviderState({"VCPU": Inventory(8, allocation_ratio=it)}) for it in (1234567, 1234570.0)
    )
    assert holds(found, wanted, ("inventories",))
    assert not holds(found, ProviderState({"VCPU": Inventory(8, allocation_ratio=1234667)}), ("inventories",))
