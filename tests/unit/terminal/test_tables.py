# SPDX-License-Identifier: Apache-2.0
"""osc_placement.terminal.tables: which columns a terminal has place for."""

import pytest

from osc_placement.terminal.tables import break_cells, choose_columns, list_records

COLUMNS = ("name", "uuid", "used")
ROWS = [("a", "0123456789", 5), ("bbbbbb", "0123456789", 12345)]


@pytest.mark.parametrize(
    ("width", "chosen"),
    [
        (31, ["name", "uuid", "used"]),
        (30, ["name", "uuid"]),
        (23, ["name", "uuid"]),
        (22, ["name", "used"]),
        (17, ["name"]),
        (1, ["name"]),
    ],
)
def test_columns_are_left_out_one_by_one_until_the_table_fits(width, chosen):
    """In the given order, and put back if they fit after all; a name that is no column is passed over."""
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


def test_records_break_behind_commas_and_blanks_only():
    """A name that is longer than a line is whole all the same."""
    rows = [("VCPU=0/248,CUSTOM_NVME_SLOT=0/8", "no host has it"), ("CUSTOM_NVME_SLOT_OF_A_HOST=0/8", "")]
    assert list_records(("held", "why"), rows, 27) == [
        "held: VCPU=0/248,",
        "      CUSTOM_NVME_SLOT=0/8",
        "why:  no host has it",
        "",
        "held: CUSTOM_NVME_SLOT_OF_A_HOST=0/8",
        "why:",
    ]


def test_a_column_that_fits_after_all_is_put_back():
    """The last one that was left out may leave place for a narrow one before it."""
    rows = [("a", "0123456789", 5, "0123456789" * 2)]
    columns = (*COLUMNS, "note")
    assert choose_columns(columns, rows, 31, ("used", "uuid", "note")) == ["name", "note"]
    assert choose_columns(columns, rows, 30, ("used", "uuid", "note")) == ["name", "uuid", "used"]


def test_a_column_whose_cells_can_be_broken_is_kept_before_others():
    """It counts with the length of a line of 20 letters, or of its longest word."""
    columns = ("name", "reason", "used")
    rows = [("compute-1", "no other host meets the conditions", 5)]
    assert choose_columns(columns, rows, 43, ("used", "reason")) == ["name", "used"]
    assert choose_columns(columns, rows, 43, ("used", "reason"), ("reason",)) == list(columns)
    assert choose_columns(columns, rows, 42, ("used", "reason"), ("reason",)) == ["name", "reason"]
    rows = [("compute-1", f"no {'x' * 24}", 5)]
    assert choose_columns(columns, rows, 46, ("used", "reason"), ("reason",)) == ["name", "reason"]


def test_cells_are_broken_between_names_or_not_at_all():
    """The widest column first; numbers and names stay whole."""
    columns, rows = ("name", "held"), [("a-long-name", "VCPU=1,MEMORY_MB=2"), ("b", 5)]
    assert break_cells(columns, rows, 36) == rows
    assert break_cells(columns, rows, 35) == [("a-long-name", "VCPU=1,\nMEMORY_MB=2"), ("b", 5)]
    assert break_cells(columns, rows, 28) is None
    # as those of the reference plugin are
    assert break_cells(columns, [("a", {"VCPU": 1, "DISK_GB": 2})], 25) == [
        ("a", "{'VCPU': 1,\n'DISK_GB': 2}")
    ]
