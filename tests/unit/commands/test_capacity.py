# SPDX-License-Identifier: Apache-2.0
"""What `resource provider capacity` asks of a large cloud without a bulk read."""

import csv
import io
import uuid

import pytest

from osc_placement.commands.capacity import ALL, ShowCapacity, read_want
from osc_placement.report.capacity import NO_AGGREGATE
from osc_placement.report.capacity_page import Rows
from osc_placement.terminal.tables import choose_columns
from tests.unit.api.test_piecewise import NUMBER, capacities, count, fake
from tests.unit.commands.shell import run

__all__ = ["capacities", "fake"]

EXACT = "-f csv -c provider -c capacity -c reserved"
FEW = "-f csv -c provider -c capacity -c used"


def read(output):
    """The rows, by the heads of their columns."""
    return list(csv.DictReader(io.StringIO(output)))


def test_without_the_column_reserved_few_requests_are_sent(capacities):
    """The rows are the same, and only the provider that is full was asked for its inventories."""
    output, _ = run(ShowCapacity, capacities.client(), FEW)
    assert [row["capacity"] for row in read(output)] == ["8"] * NUMBER
    assert count(capacities, "inventories") == 1


@pytest.mark.parametrize(
    "options", ["-f csv", EXACT, f"{FEW} --sort-column Reserved", f"{FEW} --html page.html"]
)
def test_the_column_reserved_reads_every_provider(capacities, options, tmp_path, monkeypatch):
    """It is shown by default, if chosen, as a sort order and on a page."""
    monkeypatch.chdir(tmp_path)
    output, _ = run(ShowCapacity, capacities.client(), options)
    assert {row.get("reserved", "2") for row in read(output)} == {"2"}
    assert count(capacities, "inventories") == NUMBER


def test_names_of_domains_stay_on_one_line_at_80_columns():
    """The sum of the memory of 10,000 hosts is a number of ten digits; how full they are is the question."""
    columns = ("provider", "resource_class", "capacity", "used", "free", "reserved", "percent")
    memory = ("MEMORY_MB", 2621440000, 128931840, 2492508160, 0, 4.9)
    rows = Rows("Capacity", columns, [("compute-00000.dc1.example.org", *memory), (ALL, *memory)])
    chosen = choose_columns(columns, rows.values, 80, ShowCapacity.droppable)
    assert chosen == ["provider", "resource_class", "capacity", "percent"]
    assert choose_columns(columns, rows.values, 120, ShowCapacity.droppable) == list(columns)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["dc1-row04-rack-a1", "rack-b2"], ["capacity", "used", "free", "percent"]),
        ([None, None], ["capacity", "percent"]),
        (["rack-a1", None], ["capacity", "percent"]),
    ],
    ids=["named", "unnamed", "mixed"],
)
def test_at_80_columns_an_aggregate_is_named_before_its_uuid_is_shown(names, chosen):
    """Capacity and percentage are shown; a UUID only where there is no name, and no column twice."""
    columns = ("aggregate", "uuid", "resource_class", "capacity", "used", "free", "reserved", "percent")
    amounts = ("VCPU", 12697600, 131072, 12566528, 409600, 1.0)
    uuids = [str(uuid.UUID(int=number)) for number in range(len(names))]
    values = [(name or each, each, *amounts) for name, each in zip(names, uuids, strict=True)]
    rows = Rows("Capacity", columns, [*values, (NO_AGGREGATE, NO_AGGREGATE, *amounts)]).compact()
    shown = choose_columns(rows.columns, rows.values, 80, ShowCapacity.droppable)
    assert shown == ["aggregate", "resource_class", *chosen]


def test_amounts_that_are_to_fit_may_have_units():
    """As the inventories that are set."""
    assert read_want(["VCPU=4,MEMORY_MB=1.5GB"]).totals == {"VCPU": 4, "MEMORY_MB": 1536}
