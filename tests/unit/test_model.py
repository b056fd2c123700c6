# SPDX-License-Identifier: Apache-2.0
"""osc_placement.model: which texts are UUIDs."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osc_placement.model import canonical_uuid, is_uuid

PROVIDER = "c0ffee00-0000-4000-8000-000000000001"
HEX = PROVIDER.replace("-", "")


@pytest.mark.parametrize(
    "text", [PROVIDER, PROVIDER.upper(), HEX, f"{{{PROVIDER}}}", f"urn:uuid:{PROVIDER}", "-".join(HEX)]
)
def test_every_spelling_of_a_uuid_is_normalized(text):
    """The API takes each of them for a UUID, and all of them are compared in one spelling."""
    assert is_uuid(text)
    assert canonical_uuid(text) == PROVIDER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host1",
        PROVIDER[:-1],
        PROVIDER + "0",
        "compute-" + PROVIDER,
        "é" * 32,
        # what int() would read as a number of 32 digits
        " " + HEX[1:],
        HEX[:-1] + "\n",
        "+" + HEX[1:],
        "0x" + HEX[2:],
        HEX[:8] + "_" + HEX[9:],
        HEX[:-1] + "\N{FULLWIDTH DIGIT ONE}",
        PROVIDER + "\n",
    ],
)
def test_other_text_is_not_normalized(text):
    """It is left as it is."""
    assert not is_uuid(text)
    assert canonical_uuid(text) == text


@given(st.uuids())
def test_any_uuid_is_normalized_as_python_does(value):
    """The spelling that UUIDs are compared in is Python's."""
    assert is_uuid(value.hex.upper())
    assert canonical_uuid(value.hex.upper()) == str(value)


@given(st.text("0123456789abcdefABCDEF-{}_ x\N{FULLWIDTH DIGIT ONE}urnid:", max_size=45))
def test_a_text_is_a_uuid_only_if_python_reads_it_as_that_one(text):
    """Where the API takes a text for a UUID, Python reads the same UUID from it."""
    if is_uuid(text):
        assert canonical_uuid(text) == str(uuid.UUID(text))
