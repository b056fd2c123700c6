# SPDX-License-Identifier: Apache-2.0
"""osc_placement.terminal.tables: which columns a terminal has place for."""

import pytest

from osc_placement.terminal.tables import choose_columns, list_records

COLUMNS = ("name", "uuid", "used")
ROWS = [("a", "0123456789", 5), ("bbbbbb", "0123456789", 12345)]


@pytest.mark.parametrize(
    ("width", "chosen"),
    [
        (31, ["name", "uuid", "used"]),
        (30, ["name", "uuid"]),
        (23, ["name", "uuid"]),
        (22, ["name"]),
        (1, ["name"]),
    ],
)
def test_columns_are_left_out_one_by_one_until_the_table_fits(width, chosen):
    """In the given order; a name that is no column is passed over."""
    assert choose_columns(COLUMNS, ROWS, width, ("other", "used", "uuid")) == chosen


def test_the_longest_line_of_a_cell_counts():
    """A cell of several lines is as wide as one of them."""
    assert choose_columns(("name", "held"), [("a", "VCPU=1\nMEMORY_MB=2")], 22, ("held",)) == ["name", "held"]
    assert choose_columns(("name", "held"), [("a", "VCPU=1\nMEMORY_MB=2")], 21, ("held",)) == ["name"]


def test_a_column_that_is_empty_is_left_out_first():
    """It tells nothing; an empty cell among others does."""
    rows = [("a", "0123456789", ""), ("b", "", "")]
    assert choose_columns(COLUMNS, rows, 26, ("uuid", "used")) == ["name", "uuid"]
    assert choose_columns(COLUMNS, rows, 16, ("uuid", "used")) == ["name"]


def test_heads_count_where_there_are_no_rows():
    """An empty table has its heads only."""
    assert choose_columns(COLUMNS, [], 22, ("used",)) == list(COLUMNS)
    assert choose_columns(COLUMNS, [], 21, ("used",)) == ["name", "uuid"]


def test_records_have_a_line_for_each_cell_that_fits():
    """A longer cell goes on below; there is an empty line between rows."""
    rows = [("a", "VCPU=1\nMEMORY_MB=2", 5), ("b", "CUSTOM_A,CUSTOM_B,CUSTOM_C", "")]
    assert list_records(("name", "held", "used"), rows, 24) == [
        "name: a",
        "held: VCPU=1",
        "      MEMORY_MB=2",
        "used: 5",
        "",
        "name: b",
        "held: CUSTOM_A,CUSTOM_B,",
        "      CUSTOM_C",
        "used:",
    ]
