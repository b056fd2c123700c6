# SPDX-License-Identifier: Apache-2.0
"""osc_placement.syntax: texts of the command line to values."""

import pytest

from osc_placement import errors, model, syntax

PROVIDER = "c0ffee00-0000-4000-8000-000000000001"


def test_inventories_are_read_in_order_and_a_later_value_wins():
    """Classes stay in the order of their first naming; the total may be left unnamed."""
    texts = ["MEMORY_MB=2048", "VCPU:total=8", "VCPU:allocation_ratio=4", "MEMORY_MB:reserved=512", "VCPU=16"]
    inventories = syntax.parse_inventories(texts)
    assert list(inventories) == ["MEMORY_MB", "VCPU"]
    assert inventories == {
        "MEMORY_MB": {"total": 2048, "reserved": 512},
        "VCPU": {"total": 16, "allocation_ratio": 4.0},
    }
    assert isinstance(inventories["VCPU"]["allocation_ratio"], float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VCPU", 'Resource argument must have "name=value" format'),
        ("VCPU=8=9", 'Resource argument must have "name=value" format'),
        ("VCPU:total:x=8", "Resource argument can contain only one colon"),
        ("=8", "Name, field and value must be not empty"),
        (":total=8", "Name, field and value must be not empty"),
        ("VCPU:=8", "Name, field and value must be not empty"),
        ("VCPU=", "Name, field and value must be not empty"),
        ("VCPU:size=8", "Unknown inventory field size"),
        ("VCPU=abc", "total of VCPU must be a whole number, not 'abc'"),
        ("VCPU=1.5", "total of VCPU must be a whole number, not '1.5'"),
        ("VCPU=1_000", "total of VCPU must be a whole number, not '1_000'"),
        ("VCPU=16GB", "total of VCPU must be a number, not '16GB', as VCPU has no unit"),
        (
            "VCPU:reserved=4GB",
            "reserved of VCPU must be a number or a percentage such as 10%, not '4GB', as VCPU has no unit",
        ),
        (
            "CUSTOM_LICENSE=2TB",
            "total of CUSTOM_LICENSE must be a number, not '2TB', as CUSTOM_LICENSE has no unit",
        ),
        (
            "MEMORY_MB:reserved=16G",
            "reserved of MEMORY_MB must have no unit or MB, GB, TB, PB, MiB, GiB, TiB or PiB, not '16G'",
        ),
        ("DISK_GB:total=500MB", "total of DISK_GB must be a whole number of GB, unlike '500MB'"),
        ("MEMORY_MB=0.3MB", "total of MEMORY_MB must be a whole number of MB, unlike '0.3MB'"),
        ("MEMORY_MB=-1GB", "total of MEMORY_MB must be a whole number, not '-1GB'"),
        (
            "VCPU:max_unit=50%",
            "max_unit of VCPU must be a number, not '50%': only reserved is a share of the total",
        ),
        ("VCPU:reserved=101%", "reserved of VCPU must be from 0% to 100%, not '101%'"),
        ("VCPU:reserved=100.001%", "reserved of VCPU must be from 0% to 100%, not '100.001%'"),
        ("VCPU:reserved=-1%", "reserved of VCPU must be a whole number, not '-1%'"),
        ("VCPU:allocation_ratio=10%", "allocation_ratio of VCPU must be a number, not '10%'"),
        ("VCPU:allocation_ratio=abc", "allocation_ratio of VCPU must be a number, not 'abc'"),
        ("VCPU:allocation_ratio=nan", "allocation_ratio of VCPU must be a number, not 'nan'"),
        ("VCPU:allocation_ratio=inf", "allocation_ratio of VCPU must be a number, not 'inf'"),
    ],
)
def test_invalid_inventory_is_reported(text, message):
    """The texts of the reference where it had any worth matching."""
    with pytest.raises(errors.UsageError) as caught:
        syntax.parse_inventories(["DISK_GB=1", text])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("MEMORY_MB:reserved=16GB", 16384),
        ("MEMORY_MB:reserved=16GiB", 16384),
        ("MEMORY_MB=1.5TB", 1572864),
        ("MEMORY_MB=512MB", 512),
        ("NUMA_MEMORY_MB:max_unit=1PiB", 2**30),
        ("DISK_GB:total=2TB", 2048),
        ("DISK_GB:total=2 TiB", 2048),
        ("DISK_GB:step_size=2048MB", 2),
        ("CUSTOM_SSD_GB=1.5TB", 1536),
    ],
)
def test_sizes_of_memory_and_disk_may_have_units(text, amount):
    """As in nova, a GB has 1024 MB; a class that counts in either may have the unit of the other."""
    ((_, fields),) = syntax.parse_inventories([text]).items()
    assert list(fields.values()) == [amount]


@pytest.mark.parametrize(
    ("share", "total", "amount"),
    [
        ("10%", 64, 7),
        ("10%", 60, 6),
        ("0.1%", 3000, 3),
        ("12.5%", 8, 1),
        ("33.333333333333333333%", 3, 1),
        ("0%", 64, 0),
        ("100%", 64, 64),
        ("100.000%", model.MAX_AMOUNT, model.MAX_AMOUNT),
    ],
)
def test_share_of_the_total_is_rounded_up(share, total, amount):
    """Exactly: no binary fraction makes one more of it."""
    value = syntax.parse_inventories([f"VCPU:reserved={share}"])["VCPU"]["reserved"]
    assert isinstance(value, model.Percent)
    assert (str(value), value.of(total)) == (share, amount)


def test_amounts_are_read_in_order():
    """As a request for resources."""
    assert list(syntax.parse_amounts(["VCPU=4", "DISK_GB=10", "VCPU=2"]).items()) == [
        ("VCPU", 2),
        ("DISK_GB", 10),
    ]


@pytest.mark.parametrize("text", ["VCPU", "VCPU=", "=1", "VCPU=1=2", "VCPU=many"])
def test_invalid_amount_is_reported(text):
    """The argument, or its value, is in the message."""
    with pytest.raises(errors.UsageError, match=text.rpartition("=")[2] or text):
        syntax.parse_amounts([text])


def test_allocations_are_read_and_gathered_by_provider():
    """The same provider may be named twice; the same amount, too."""
    pairs = syntax.parse_allocations(
        ["rp=a,VCPU=1,DISK_GB=5", "MEMORY_MB=2,rp=b", "rp=a,MEMORY_MB=3", "rp=a,VCPU=1"]
    )
    assert syntax.merge_allocations(pairs) == {
        "a": {"VCPU": 1, "DISK_GB": 5, "MEMORY_MB": 3},
        "b": {"MEMORY_MB": 2},
    }


def test_two_amounts_for_one_thing_are_a_conflict():
    """Nothing is chosen for the operator."""
    with pytest.raises(errors.PlacementError) as caught:
        syntax.merge_allocations(syntax.parse_allocations(["rp=a,VCPU=1", "rp=a,VCPU=2"]))
    assert str(caught.value) == "Conflict detected for resource provider a resource class VCPU"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Incorrect allocation string format"),
        ("rp=a", "Incorrect allocation string format"),
        ("rp=a,VCPU", "Incorrect allocation string format"),
        ("rp=a,VCPU=1=2", "Incorrect allocation string format"),
        ("VCPU=1,DISK_GB=2", "Resource provider parameter is required for allocation string"),
        ("rp=a,VCPU=x", "Amount of VCPU must be a whole number, not 'x'"),
        ("rp=a,VCPU=1,VCPU=2", "Allocation 'rp=a,VCPU=1,VCPU=2' names something twice"),
    ],
)
def test_invalid_allocation_is_reported(text, message):
    """The texts of the reference where it had any worth matching."""
    with pytest.raises(errors.UsageError) as caught:
        syntax.parse_allocations([text])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("required", "forbidden", "values"),
    [
        ([], [], []),
        (["A"], [], ["A"]),
        (["A", "B"], ["C"], ["A,B,!C"]),
        ([], ["C", "D"], ["!C,!D"]),
        (["A,B", "C", "D,E"], ["F"], ["in:A,B", "in:D,E", "C,!F"]),
        (["A,B"], [], ["in:A,B"]),
    ],
)
def test_traits_are_written_as_the_api_wants_them(required, forbidden, values):
    """Each any-of in a value of its own, all the others in one."""
    assert syntax.format_traits(required, forbidden) == values


@pytest.mark.parametrize(
    ("member_of", "aggregates", "values"),
    [
        ([], [], []),
        (["a,b", "c"], [], ["in:a,b", "in:c"]),
        ([], ["a", "b"], ["in:a,b"]),
    ],
)
def test_aggregates_are_written_as_the_api_wants_them(member_of, aggregates, values):
    """--member-of is a condition each time, --aggregate-uuid an alternative each time."""
    assert syntax.format_member_of(member_of, aggregates) == values
