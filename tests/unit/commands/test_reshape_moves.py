# SPDX-License-Identifier: Apache-2.0
"""The moves of a reshape, as the command line gives them."""

from osc_placement.commands.reshape_moves import Instruction, NamedMove, read_instructions


def test_amounts_of_memory_and_disk_may_have_units():
    """As in the commands on inventories; the other classes are counted."""
    given = Instruction("a", "b", ["MEMORY_MB=16GB", "DISK_GB=2TB", "VGPU=4"])
    assert read_instructions([given]) == [
        NamedMove("a", "b", "MEMORY_MB", 16384),
        NamedMove("a", "b", "DISK_GB", 2048),
        NamedMove("a", "b", "VGPU", 4),
    ]
