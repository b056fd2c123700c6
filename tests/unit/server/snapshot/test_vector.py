# SPDX-License-Identifier: Apache-2.0
"""The changes between two vectors."""

import pytest

from osc_placement.server.snapshot.vector import Vector, find_changes


def vector(identity=1, **slots):
    """A vector of slots with the ids 1, 2, ..., each a count and a token."""
    by_id = {int(name[1:]): value for name, value in slots.items()}
    return Vector((identity, len(by_id)), by_id)


def test_what_the_lines_describe_is_added_up():
    """Only lines after the known count, of slots that are known and new ones."""
    old, new = vector(s1=(2, 7)), vector(s1=(4, 8), s2=(1, 9))
    found = find_changes(old, new, {1: "2 - 5\n3 - 6\n4 - 6,7c", 2: "1 n -"})
    assert (found.used, found.contents, found.names, found.everything) == ({6, 7}, {7}, True, False)


@pytest.mark.parametrize("lines", ["4 - 6", "3 - 6", "3 - 6\nnonsense\n4 - 1", "", "3 - 1\n3 - 1"])
def test_missing_lines_are_noticed(lines):
    """Whether there were too many or somebody edited them."""
    assert find_changes(vector(s1=(2, 7)), vector(s1=(4, 8)), {1: lines}).everything


@pytest.mark.parametrize(
    "new",
    [vector(), vector(s1=(1, 7)), vector(s1=(2, 8)), vector(identity=2, s1=(2, 7))],
    ids=["gone", "lower", "other token", "other database"],
)
def test_another_history_is_noticed(new):
    """After a restore from a backup, or in a new database."""
    assert find_changes(vector(s1=(2, 7)), new, {}).everything
