# SPDX-License-Identifier: Apache-2.0
"""The names of osc_placement.batch by which programs import it."""

import pytest

from osc_placement.batch import journal, run, saved


@pytest.mark.parametrize(("public", "inner"), [(run, journal), (saved, journal.saved)])
def test_public_names_of_the_journal_modules_exist(public, inner):
    """The modules where it was before it had a folder."""
    assert public.__all__
    assert all(getattr(public, name) is getattr(inner, name) for name in public.__all__)
