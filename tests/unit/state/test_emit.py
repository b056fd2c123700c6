# SPDX-License-Identifier: Apache-2.0
"""Entries as text: what is written here is what libyaml writes, byte for byte, or is left to it."""

import contextlib

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from osc_placement.state.document import iterate_plain
from osc_placement.state.emit import WIDTH, Unusual, format_entry
from tests.unit.state.documents import documents

#: of every length, as lines break by it
names = st.from_regex(r"[A-Z]{1,3}[A-Z0-9_.-]{0,99}", fullmatch=True) | st.sampled_from(
    ["no", "Yes", "NULL", "y", "off", "-a", "a b", "a:", "é", "", "2026-11-21", "x" * 130]
)
numbers = st.integers() | st.floats() | st.none() | st.booleans()
amounts = st.dictionaries(names, numbers, max_size=8)
entries = st.fixed_dictionaries(
    {"name": names | numbers, "traits": st.lists(names, max_size=40)},
    optional={"inventories": st.dictionaries(names, amounts, max_size=4), "resources": st.just({})},
)


def dump(entry):
    """The text as libyaml makes it."""
    return yaml.dump(
        [entry],
        Dumper=yaml.CSafeDumper,
        sort_keys=False,
        default_flow_style=None,
        width=WIDTH,
        allow_unicode=True,
    )


@given(entries)
@example({"name": "a", "traits": [], "inventories": {"A": {"X": -0.0, "Y": 0.0}}})
def test_entries_are_written_as_libyaml_writes_them(entry):
    """Files of earlier releases, and of platforms with libyaml, do not differ from those of today."""
    with contextlib.suppress(Unusual):
        assert format_entry(entry) == dump(entry)


@given(documents())
def test_documents_are_written_as_libyaml_does(document):
    """The same with what an export has in it."""
    _, sections = iterate_plain(document)
    for values in sections.values():
        for entry in values:
            with contextlib.suppress(Unusual):
                assert format_entry(entry) == dump(entry)


@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("length", [1, 17, 36, 37, 38, 54, 100])
def test_a_long_list_is_wrapped_where_libyaml_wraps_it(count, length):
    """It is checked at the edge, before and after it."""
    traits = ["T" * length] * count
    entry = {
        "traits": traits,
        "inventories": {"VCPU": {f"{'K' * length}{n}"[-100:]: n for n in range(count)}},
    }
    assert format_entry(entry) == dump(entry)


def test_ordinary_entries_are_not_left_to_libyaml():
    """UUIDs, names of hosts, classes and traits, amounts and ratios are written by this module."""
    entry = {
        "name": "compute-1.example.org",
        "uuid": "12345678-0000-4000-8000-0000000000e5",
        "parent": None,
        "aggregates": [],
        "traits": ["CUSTOM_A"],
        "inventories": {"VCPU": {"total": 8, "allocation_ratio": 1e22}, "PGPU": {"total": 1}},
    }
    assert format_entry(entry) == dump(entry)


@pytest.mark.parametrize("word", ["null", "True", "n", "1e3", "a b", "é", "- a", "", True, float("inf")])
def test_words_that_may_need_quotes_are_left_to_libyaml(word):
    """A word that YAML reads as something else, or that is not plain letters."""
    with pytest.raises(Unusual):
        format_entry({"name": word})
