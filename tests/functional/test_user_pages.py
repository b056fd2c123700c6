# SPDX-License-Identifier: Apache-2.0
"""The transcripts of the pages: each page from a server of its own, as README.rst is."""

import pytest

from tests.functional.commands.conftest import fork_server as fork_server
from tests.functional.test_readme import ROOT, assert_steps_match, read_steps
from tests.functional.test_readme import make_shell as make_shell

SOURCE = ROOT / "doc" / "source"
#: those that need nothing but a server; tests/unit/test_documentation.py knows of the others
PAGES = [
    page
    for page in [*sorted((SOURCE / "user").glob("*.rst")), SOURCE / "admin" / "size.rst"]
    if ".. code-block:: console" in page.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_print_what_is_written(make_shell, fork_server, page):
    """Every command of the page, run in order, ends well and prints what is shown."""
    assert_steps_match(make_shell(fork_server), read_steps(page.read_text()))
