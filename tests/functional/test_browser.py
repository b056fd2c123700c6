# SPDX-License-Identifier: Apache-2.0
"""Pages in a browser: Chromium without a window, light and dark, with names that mean harm."""

import contextlib
import re
import shutil
import subprocess
import tempfile

import pytest

from osc_placement.report.capacity_page import Rows, capacity_page
from osc_placement.report.tree_page import tree_page
from tests import databases
from tests.unit.report.clouds import cloud, node, stock

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1000,700",
)
#: what --blink-settings calls the scheme that a person prefers
DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"
EVIL = "<img src=x onerror=\"document.title='taken over'\">"
CLOUD = cloud(
    node("host", aggregates=["rack"], VCPU=stock(8, 7)),
    node("gpu", "host", traits=["HW_GPU"], PGPU=2),
    node(EVIL, VCPU=stock(4, 1)),
)


@pytest.fixture(scope="module")
def chromium():
    """A function that runs Chromium; without it the tests are skipped, or fail where they must not be."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        databases.skip_or_fail("Chromium is not installed")

    def run(page, *flags):
        with contextlib.ExitStack() as stack:
            profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            command = [program, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
            return done.stdout

    return run


def write(directory, text):
    page = directory / "page.html"
    page.write_text(text)
    return page


def test_the_tree_folds_and_names_are_text(chromium, tmp_path):
    """Our script runs and shows its tools; branches are there to fold; no name became an element."""
    dom = chromium(write(tmp_path, tree_page(CLOUD)), "--dump-dom")
    assert re.search(r'<div class="tools">', dom)
    assert dom.count("<details") == 3
    assert "<img" not in dom
    assert "<title>Resource providers</title>" in dom


def test_only_our_script_runs(chromium, tmp_path):
    """The policy of the page names it by what it says."""
    page = write(tmp_path, tree_page(CLOUD).replace("<script>", "<script>throw 1;"))
    assert '<div class="tools" hidden="">' in chromium(page, "--dump-dom"), "a changed script must not run"


@pytest.mark.parametrize("name", ["tree", "capacity"])
def test_it_is_painted_in_light_and_in_dark(chromium, tmp_path, name):
    """Two pictures that are not the same, neither of them empty."""
    rows = Rows("What fits", ("host", "fits", "limited_by"), [(EVIL, 3, "VCPU")])
    page = write(tmp_path, tree_page(CLOUD) if name == "tree" else capacity_page(CLOUD, rows))
    pictures = []
    for scheme in (LIGHT, DARK):
        picture = tmp_path / "picture.png"
        chromium(page, scheme, f"--screenshot={picture}")
        pictures.append(picture.read_bytes())
    assert pictures[0] != pictures[1]
    assert min(map(len, pictures)) > 10_000


def test_it_prints(chromium, tmp_path):
    """On paper everything is open; that is a document with pages."""
    chromium(write(tmp_path, tree_page(CLOUD)), f"--print-to-pdf={tmp_path / 'page.pdf'}")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
