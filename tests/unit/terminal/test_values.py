# SPDX-License-Identifier: Apache-2.0
"""osc_placement.terminal.values: readers of options."""

import argparse

import pytest

from osc_placement.terminal import values


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "", "1" * 5000])
@pytest.mark.parametrize("read", [values.read_number, values.read_count, values.read_concurrency])
def test_a_bad_number_is_named_with_the_numbers_that_are_valid(read, text):
    """Whatever is wrong with it, its length included."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"^must be a (whole )?number"):
        read(text)
