# SPDX-License-Identifier: Apache-2.0
"""Query string parameters that choose providers: what is understood, and what is refused with which words."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osc_placement import microversion
from osc_placement.candidates import query
from osc_placement.candidates.query import BadQuery, Membership, Traits

UUIDS = [str(uuid.UUID(int=number)) for number in range(1, 5)]
ONE, TWO, THREE, _ = UUIDS
CAPITALS, UNDASHED = "ABCDEF01-0000-4000-8000-000000000001", TWO.replace("-", "")
NEWEST = microversion.MAX

names = st.text(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"), min_size=1, max_size=12)
versions = st.sampled_from(microversion.ALL)
#: text that is likely to be almost right
scraps = st.lists(
    st.sampled_from(
        ["in:", "!", ",", ":", " ", "VCPU", "CUSTOM_X", "1", "0", "-1", "x", "²", ONE, TWO.upper()]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)


@given(st.dictionaries(names, st.integers(min_value=1), min_size=1))
def test_formatted_resources_are_parsed_back(resources):
    """What is written as the API writes amounts is read as them."""
    text = ",".join(f"{name}:{amount}" for name, amount in resources.items())
    assert query.parse_resources(text) == resources


def test_the_last_amount_of_a_repeated_class_is_used():
    """Repeating a class is no error."""
    assert query.parse_resources("VCPU:1,DISK_GB:2,VCPU:3") == {"VCPU": 3, "DISK_GB": 2}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Got: empty string."),
        (" ", "Got: empty string."),
        ("VCPU", "?resources=VCPU:2,MEMORY_MB:1024. Got: VCPU."),
        ("VCPU:1,", "?resources=VCPU:2,MEMORY_MB:1024. Got: ."),
        ("VCPU:1:2", "?resources=VCPU:2,MEMORY_MB:1024. Got: VCPU:1:2."),
        ("VCPU:x", "Requested resource VCPU expected positive integer amount. Got: x."),
        ("VCPU:1.5", "Requested resource VCPU expected positive integer amount. Got: 1.5."),
        ("VCPU:", "Requested resource VCPU expected positive integer amount. Got: ."),
        ("VCPU:" + "9" * 5000, "Requested resource VCPU expected positive integer amount."),
        ("VCPU:0", "Requested resource VCPU requires amount >= 1. Got: 0."),
        ("VCPU:-3", "Requested resource VCPU requires amount >= 1. Got: -3."),
    ],
)
def test_bad_resources_are_refused(text, problem):
    """The sentence says what was expected and what was got."""
    with pytest.raises(BadQuery) as caught:
        query.parse_resources(text)
    assert problem in str(caught.value)


@given(scraps)
def test_any_resources_are_understood_or_refused(text):
    """Nothing but a dictionary of positive amounts comes out, and nothing but BadQuery is raised."""
    try:
        resources = query.parse_resources(text)
    except BadQuery:
        return
    assert resources
    assert all(amount >= 1 for amount in resources.values())


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], Membership()),
        ([ONE], Membership((frozenset({ONE}),))),
        ([f"in:{ONE},{TWO}"], Membership((frozenset({ONE, TWO}),))),
        ([f"in:{ONE}"], Membership((frozenset({ONE}),))),
        ([ONE, f"in:{TWO},{THREE}"], Membership((frozenset({ONE}), frozenset({TWO, THREE})))),
        ([f"!{ONE}"], Membership((), (frozenset({ONE}),))),
        ([f"!in:{ONE},{TWO}", f"!{THREE}"], Membership((), (frozenset({ONE, TWO}), frozenset({THREE})))),
        ([ONE, f"!{ONE}"], Membership((frozenset({ONE}),), (frozenset({ONE}),))),
        # as it is written: another spelling is another aggregate
        ([CAPITALS, f"!{UNDASHED}"], Membership((frozenset({CAPITALS}),), (frozenset({UNDASHED}),))),
    ],
)
def test_membership_is_read(values, wanted):
    """Every value has to hold, each any of its aggregates, and no forbidden one may."""
    assert query.parse_membership(values, NEWEST) == wanted


@pytest.mark.parametrize(
    ("values", "version", "problem"),
    [
        ([ONE, TWO], (1, 23), "Multiple member_of_X parameters are not supported"),
        ([f"!{ONE}"], (1, 31), "Forbidden member_of_X parameters are not supported in the specified"),
        ([f"{ONE},{TWO}"], (1, 39), "must be prefixed with the 'in:' or '!in:' keyword using"),
        ([f"!{ONE},{TWO}"], (1, 39), "must be prefixed with the 'in:' or '!in:' keyword"),
        (["spam"], (1, 39), "Expected 'member_of' parameter to contain valid UUID(s). Got: spam"),
        ([f"in:{ONE},"], (1, 39), "to contain valid UUID(s). Got: "),
        ([f"in:!{ONE}"], (1, 39), f"to contain valid UUID(s). Got: !{ONE}"),
        ([f"!!{ONE}"], (1, 39), f"to contain valid UUID(s). Got: !{ONE}"),
        ([""], (1, 3), "to contain valid UUID(s). Got: "),
    ],
)
def test_bad_membership_is_refused(values, version, problem):
    """The sentence names the parameter with the suffix of its group."""
    with pytest.raises(BadQuery) as caught:
        query.parse_membership(values, microversion.Version(*version), suffix="_X")
    assert problem in str(caught.value)


@given(st.lists(scraps, max_size=3), versions)
def test_any_membership_is_understood_or_refused(values, version):
    """Only canonical UUIDs come out, as many sets as values were not negated, and only BadQuery is raised."""
    try:
        membership = query.parse_membership(values, version)
    except BadQuery:
        return
    assert len(membership.required) == sum(not value.startswith("!") for value in values)
    assert all(str(uuid.UUID(item)) == item for item in membership.unwanted.union(*membership.required))


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        ([], (1, 39), Traits()),
        (["A,B"], (1, 18), Traits((frozenset({"A"}), frozenset({"B"})))),
        (["A, B "], (1, 18), Traits((frozenset({"A"}), frozenset({"B"})))),
        (["A,!B"], (1, 22), Traits((frozenset({"A"}),), (frozenset({"B"}),))),
        (["!!!B"], (1, 22), Traits((), (frozenset({"B"}),))),
        (["A", "B"], (1, 38), Traits((frozenset({"B"}),))),
        (["A", "B"], (1, 39), Traits((frozenset({"A"}), frozenset({"B"})))),
        (["in:A,B", "!C"], (1, 39), Traits((frozenset({"A", "B"}),), (frozenset({"C"}),))),
        (["in:A,B", "in:B"], (1, 39), Traits((frozenset({"A", "B"}), frozenset({"B"})))),
    ],
)
def test_traits_are_read(values, version, wanted):
    """Every name has to be there, of in: any; since 1.39 in every value, before in the last."""
    assert query.parse_traits(values, microversion.Version(*version)) == wanted


@pytest.mark.parametrize(
    ("value", "version", "problem"),
    [
        ("", (1, 18), "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: "),
        ("A,", (1, 22), "of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: A,"),
        ("!", (1, 22), "Got an empty trait in: !"),
        ("A,!B", (1, 21), "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: A,!B"),
        (
            "in:A",
            (1, 38),
            "'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. Got: in:A",
        ),
        ("in:A,", (1, 39), "of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: in:A,"),
        ("in:", (1, 39), "Got an empty trait in: in:"),
        ("in:A,!B", (1, 39), "does not support forbidden traits. Got: in:A,!B"),
    ],
)
def test_bad_traits_are_refused(value, version, problem):
    """The sentence shows the form that the version knows."""
    with pytest.raises(BadQuery) as caught:
        query.parse_traits([value], microversion.Version(*version))
    assert str(caught.value).startswith("Invalid query string parameters: ")
    assert problem in str(caught.value)


@given(st.lists(scraps, max_size=3), versions)
def test_any_traits_are_understood_or_refused(values, version):
    """No empty name comes out, nor what the version does not know, and only BadQuery is raised."""
    try:
        traits = query.parse_traits(values, version)
    except BadQuery:
        return
    assert all(traits.names)
    assert all(traits.required)
    assert version >= microversion.FORBIDDEN_TRAITS or not traits.forbidden
    assert version >= microversion.ANY_TRAITS or all(len(group) == 1 for group in traits.required)
    assert traits.names == traits.unwanted.union(*traits.required)
