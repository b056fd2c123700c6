# SPDX-License-Identifier: Apache-2.0
"""A difference made again on another state: ours comes, what others did stays."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from osc_placement.batch.journal.record import state_from_json, state_to_json
from osc_placement.batch.plan import ProviderState
from osc_placement.batch.repeat import Repeat
from osc_placement.model import Inventory

NAMES = st.frozensets(st.sampled_from("ABCD"))
INVENTORIES = st.dictionaries(
    st.sampled_from(["VCPU", "DISK_GB"]),
    st.builds(Inventory, st.integers(1, 3), st.integers(0, 2), allocation_ratio=st.sampled_from([1.0, 2.0])),
)
AMOUNTS = st.dictionaries(st.sampled_from(["VCPU", "DISK_GB"]), st.integers(1, 3), min_size=1)
CLAIMS = st.dictionaries(st.sampled_from(["p1", "p2"]), AMOUNTS)
# drawing is slow on a machine that is busy, which says nothing about what is tested
EXAMPLES = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
STATES = st.builds(ProviderState, INVENTORIES, NAMES, NAMES, CLAIMS)


@EXAMPLES
@given(STATES, STATES)
def test_repeated_change_on_the_same_state_gives_the_same_result(before, after):
    """Without a stranger the repetition is the change itself."""
    assert Repeat("", before, after).decide(before).after == after


@EXAMPLES
@given(STATES, STATES)
def test_inverse_difference_restores_the_state(before, after):
    """Undo is the same difference the other way round."""
    there = Repeat("", before, after).decide(before).after
    assert Repeat("", after, before).decide(there).after == before


@EXAMPLES
@given(STATES, STATES)
def test_no_difference_changes_nothing(before, now):
    """What a run did not change, its repetition does not."""
    assert Repeat("", before, before).decide(now).after == now


@EXAMPLES
@given(STATES)
def test_a_state_is_read_from_a_journal_as_it_was_written(state):
    """Nothing is lost on the way to the disk and back."""
    assert state_from_json(state_to_json(state)) == state


def test_repeated_change_keeps_concurrent_changes():
    """We set the ratio, he reserved: undo takes the ratio back and leaves his reservation."""
    before = ProviderState(inventories={"VCPU": Inventory(8)})
    after = ProviderState(inventories={"VCPU": Inventory(8, allocation_ratio=4.0)})
    now = ProviderState(inventories={"VCPU": Inventory(8, reserved=2, allocation_ratio=4.0)})
    undone = Repeat("", after, before).decide(now).after
    assert undone.inventories == {"VCPU": Inventory(8, reserved=2, allocation_ratio=1.0)}
