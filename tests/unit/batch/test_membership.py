# SPDX-License-Identifier: Apache-2.0
"""Which traits a provider has after an edit."""

from hypothesis import given
from hypothesis import strategies as st

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.membership import TraitEdit
from osc_placement.model import Inventory

names = st.frozensets(st.sampled_from("ABCDEF"))
verbs = st.sampled_from(("add", "remove", "set"))


def decide(verb, edit, current):
    decision = TraitEdit(verb, edit).decide(ProviderState(traits=current))
    return decision.after.traits, decision.reason


@given(names, names)
def test_add_keeps_what_is_there(edit, current):
    """After add, a provider has what it had and what was named."""
    assert decide("add", edit, current)[0] == current | edit


@given(names, names)
def test_remove_takes_only_what_is_named(edit, current):
    """After remove, a provider has what it had without what was named."""
    assert decide("remove", edit, current)[0] == current - edit


@given(names, names)
def test_set_replaces_everything(edit, current):
    """After set, a provider has exactly what was named."""
    assert decide("set", edit, current)[0] == edit


@given(verbs, names, names)
def test_an_edit_done_twice_changes_nothing_the_second_time(verb, edit, current):
    """What an edit makes of a state, it leaves as it is."""
    after, _ = decide(verb, edit, current)
    assert decide(verb, edit, after)[0] == after


@given(verbs, names, names)
def test_a_reason_is_given_when_nothing_changes_and_only_then(verb, edit, current):
    """An unchanged provider says why, a changed one needs no words."""
    after, reason = decide(verb, edit, current)
    assert bool(reason) == (after == current)


def test_other_facets_pass_through():
    """A trait edit leaves inventories that happen to be in the state."""
    state = ProviderState(inventories={"VCPU": Inventory(4)}, traits=frozenset())
    after = TraitEdit("add", frozenset("A")).decide(state).after
    assert after.inventories == {"VCPU": Inventory(4)}


def test_the_title_is_the_command_line():
    """The title says verb and names, in alphabetical order."""
    assert TraitEdit("remove", frozenset({"B", "A"})).title == "trait remove A B"
