# SPDX-License-Identifier: Apache-2.0
"""The HTML pages of a large cloud in Chromium: their size, and how soon they can be worked with."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Sequence

from benchmarks.case import Case, Prepare, Probe, Reading, Scale, Side, Unavailable, Workspace
from benchmarks.chromium import Page, browsing, find_chromium
from benchmarks.clouds import FLAT, Cloud
from benchmarks.commands import Shell
from benchmarks.figure import Figure, Target
from benchmarks.servers import OURS, serving

COMMANDS = {"tree": ("resource", "provider", "tree"), "capacity": ("resource", "provider", "capacity")}
SIZE = Figure("size", "MB")
INTERACTIVE = Figure("opened, to a sorted table", "s")
FILTER = Figure("a filter", "ms")
TARGETS = {SIZE.name: Target(at_most=4), INTERACTIVE.name: Target(at_most=5)}
_SORT = "document.querySelector('.live thead th:last-child button').click()"
_FILTER = (
    "(() => { const input = document.querySelector('.tools input');"
    "input.value = '42'; input.dispatchEvent(new Event('input')); })()"
)


def make_cases(scale: Scale) -> Iterator[Case]:
    """A case for each page."""
    hosts = scale.size(10_000)
    for name, words in COMMANDS.items():
        yield Case(
            name=f"page-{name}",
            title=f"page of {name}, {hosts:,} providers",
            figures=(SIZE, INTERACTIVE, FILTER),
            ours=(Side("Chromium", _opening(FLAT.with_trees(hosts), words), TARGETS),),
        )


def _opening(cloud: Cloud, words: Sequence[str]) -> Prepare:
    @contextlib.contextmanager
    def prepare(workspace: Workspace) -> Iterator[Sequence[Probe]]:
        program = find_chromium()
        if program is None:
            raise Unavailable("Chromium is not installed")
        file = workspace.directory / "page.html"
        with serving(workspace, OURS, cloud) as server:
            Shell(workspace.ours, workspace.directory, server.url).openstack(*words, "--html", str(file))
        with browsing(program) as page:
            page.resize(1400)
            yield [lambda: _open(page, file)]

    return prepare


def _open(page: Page, file: pathlib.Path) -> Reading:
    """Load the page, sort it by its last column and filter it; each step ends when its result is painted."""
    page.open(file)
    page.evaluate(_SORT)
    interactive = page.settle()
    if not page.evaluate("document.querySelector('[aria-sort]') !== null"):
        raise RuntimeError(f"{file} is not sorted by a click")
    page.evaluate(_FILTER)
    filtered = page.settle() - interactive
    return {
        SIZE.name: file.stat().st_size / 1e6,
        INTERACTIVE.name: interactive / 1000,
        FILTER.name: filtered,
    }
