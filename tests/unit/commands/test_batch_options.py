# SPDX-License-Identifier: Apache-2.0
"""The options of batch commands: the providers that a file names."""

import pytest

from osc_placement.commands.batch_options import read_names


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("gpu#1", ["gpu#1"]),
        ("gpu#1 # the first", ["gpu#1"]),
        ("gpu\t#1", ["gpu"]),
        ("# gpu", []),
        ("  # gpu", []),
        ("#", []),
        ("gpu 1", ["gpu 1"]),
        ("gpu#", ["gpu#"]),
        ("gpu # a # b", ["gpu"]),
    ],
)
def test_a_comment_in_a_list_of_providers_begins_behind_white_space(line, names):
    """A `#` within a name is part of it: another provider may have the rest of it as its name."""
    assert list(read_names([line, "\n"])) == names
