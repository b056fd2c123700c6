# SPDX-License-Identifier: Apache-2.0
"""The moves of a reshape, as the command line gives them."""

import pytest

from osc_placement.commands.reshape_moves import Instruction, NamedMove, read_instructions, read_moves
from osc_placement.state.text import UnreadableText


def test_amounts_of_memory_and_disk_may_have_units():
    """As in the commands on inventories; the other classes are counted."""
    given = Instruction("a", "b", ["MEMORY_MB=16GB", "DISK_GB=2TB", "VGPU=4"])
    assert read_instructions([given]) == [
        NamedMove("a", "b", "MEMORY_MB", 16384),
        NamedMove("a", "b", "DISK_GB", 2048),
        NamedMove("a", "b", "VGPU", 4),
    ]


def test_all_mistakes_of_a_file_are_told_at_once():
    """A line each; a right file has its moves in their order."""
    text = """\
- {from_resource_provider: a, to_resource_provider: b, moved_resources: [{VGPU: 4, SRIOV: 1}, {VCPU: 2}]}
- {from_resource_provider: b, to_resource_provider: c, moved_resources: [{VGPU: 1}]}
"""
    assert read_moves(text, "moves") == [
        NamedMove("a", "b", "VGPU", 4),
        NamedMove("a", "b", "SRIOV", 1),
        NamedMove("a", "b", "VCPU", 2),
        NamedMove("b", "c", "VGPU", 1),
    ]
    wrong = (
        text.replace("VGPU: 4", "vgpu: 4")
        .replace("to_resource_provider: c, ", "")
        .replace("VGPU: 1", "VGPU: 0")
    )
    with pytest.raises(UnreadableText) as caught:
        read_moves(wrong, "moves")
    assert [line.partition(": must")[0] for line in str(caught.value).split("\n")] == [
        "moves, line 1: [0].moved_resources[0].vgpu",
        "moves, line 2: [1]: the key 'to_resource_provider' is missing",
        "moves, line 2: [1].moved_resources[0].VGPU",
    ]
