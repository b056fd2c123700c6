# SPDX-License-Identifier: Apache-2.0
"""The transcripts of the pages: each page from a server of its own, as README.rst is."""

import pytest

from tests.functional.test_readme import PROGRAMS, assert_steps_match
from tests.functional.test_readme import make_shell as make_shell
from tests.transcripts import PAGES, read_steps


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_page_print_what_it_shows(make_shell, page):
    """Every command of the page, run in order, ends well and prints what is shown."""
    assert_steps_match(make_shell(PROGRAMS), read_steps(page.read_text()))
