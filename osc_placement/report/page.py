# SPDX-License-Identifier: Apache-2.0
"""The parts that all HTML pages share: one file that loads nothing, for light, dark and printed. Pure.

Everything from the server is escaped by ``text``, and a content security policy in the head forbids every
script but ours and every connection.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import Final

from osc_placement.report.bar import MIDDLE, format_percent, level_of, percent_of
from osc_placement.report.cloud import Cloud
from osc_placement.terminal.escape import printable
from osc_placement.terminal.screen import Style

#: the number of bins in the histogram of a class
_BINS: Final = 10
_PLOT_WIDTH: Final = 220
_PLOT_HEIGHT: Final = 46

_PAGE: Final = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<a class="skip" href="#main">To the contents</a>
<header>
<h1>$title</h1>
<p class="aside">$subtitle</p>
</header>
<main id="main">
$content
</main>
<footer>Capacity is (total &minus; reserved) &times; allocation ratio.
From $middle&nbsp;% on a bar is amber, from 90&nbsp;% red; more than 100&nbsp;% is over-allocated.</footer>
<script>$script</script>
</body>
</html>
""")


def text(value: object) -> str:
    """Escape a text from the server for the page."""
    return html.escape(printable(str(value)))


def name(value: str) -> str:
    """Escape a name and isolate it, so that right-to-left letters do not reorder the text around it."""
    return f"<bdi>{text(value)}</bdi>"


def make_page(title: str, subtitle: str, sections: Iterable[str]) -> str:
    """Return a whole page; title and subtitle are text, sections are HTML."""
    package = resources.files("osc_placement.report")
    script = package.joinpath("page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.substitute(
        title=text(title),
        subtitle=text(subtitle),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        style=package.joinpath("page.css").read_text("utf-8"),
        script=script,
        content="\n".join(sections),
        middle=MIDDLE,
    )


def describe_cloud(cloud: Cloud) -> str:
    """Return a line with the number of trees and providers."""
    return (
        f"{len(cloud.nodes):,} resource providers in {len(cloud.roots):,} trees, "
        f"{len(cloud.classes):,} resource classes"
    )


def tools(what: str, *, folds: bool) -> str:
    """Return the row with the filter and the fold buttons; hidden where scripts do not run."""
    buttons = (
        '<button type="button" data-open="yes">Open all</button>'
        '<button type="button" data-open="no">Close all</button>'
        if folds
        else ""
    )
    return (
        '<div class="tools" hidden>'
        f'<input type="search" placeholder="Filter" aria-label="Filter {text(what)}">'
        f'{buttons}<span role="status" class="label"></span></div>'
    )


def meter(used: int, capacity: int) -> str:
    """Return a bar with its percentage."""
    level: str = level_of(used, capacity)
    percent = percent_of(used, capacity)
    if not used:
        level += " none"
    # screen readers skip the bar, because the number says the same
    width = min(100.0, percent if percent is not None else 100.0)
    return (
        f'<span class="meter {level}"><i aria-hidden="true"><b style="--p:{width}"></b></i>'
        f"<span>{format_percent(used, capacity)}</span></span>"
    )


def class_panels(cloud: Cloud) -> str:
    """Return a panel for each class: its usage, and a histogram of how full its providers are."""
    panels = "\n".join(_class_panel(cloud, resource_class) for resource_class in cloud.classes)
    return (
        '<section aria-labelledby="use"><h2 id="use">Use per resource class</h2>\n'
        f'<div class="classes">{panels}</div></section>'
        if panels
        else ""
    )


def _class_panel(cloud: Cloud, resource_class: str) -> str:
    stocks = [node.stocks[resource_class] for node in cloud.nodes if resource_class in node.stocks]
    used, capacity = sum(stock.used for stock in stocks), sum(stock.capacity for stock in stocks)
    bins = [0] * _BINS
    for stock in stocks:
        bins[_bin_of(stock.used, stock.capacity)] += 1
    level = level_of(used, capacity)
    return (
        f'<figure><div class="title"><span class="class">{text(resource_class)}</span>'
        f'<span class="share share-{level}">{format_percent(used, capacity)}</span></div>'
        f"{_histogram(resource_class, bins)}"
        f"<figcaption>{used:,} of {capacity:,} used, on {_count(len(stocks), 'provider')}</figcaption>"
        "</figure>"
    )


def _bin_of(used: int, capacity: int) -> int:
    percent = percent_of(used, capacity)
    if percent is None:
        return _BINS - 1 if used else 0
    return min(_BINS - 1, int(percent * _BINS / 100))


def _histogram(resource_class: str, bins: Sequence[int]) -> str:
    """Count the providers that are up to a tenth full, up to two tenths and so on."""
    step, highest = _PLOT_WIDTH / _BINS, max(*bins, 1)
    bars = "".join(_histogram_bar(number, count, step, highest) for number, count in enumerate(bins))
    labels = (
        f'<text x="0" y="{_PLOT_HEIGHT + 11}">empty</text>'
        f'<text x="{_PLOT_WIDTH}" y="{_PLOT_HEIGHT + 11}" text-anchor="end">full</text>'
    )
    fullest = bins[-1]
    label = (
        f"{text(resource_class)}: providers by how full they are; "
        f"{_count(bins[0], 'provider')} below 10 %, {fullest} at 90 % and above"
    )
    return (
        f'<svg viewBox="0 0 {_PLOT_WIDTH} {_PLOT_HEIGHT + 14}" role="img" aria-label="{label}">'
        f'{bars}<line class="axis" x1="0" y1="{_PLOT_HEIGHT}" x2="{_PLOT_WIDTH}" y2="{_PLOT_HEIGHT}"/>'
        f"{labels}</svg>"
    )


def _histogram_bar(number: int, count: int, step: float, highest: int) -> str:
    height = round((_PLOT_HEIGHT - 10) * count / highest, 1)
    if count:
        height = max(height, 1.5)
    level: Style = level_of(number * 100 // _BINS, 100)
    top = round(_PLOT_HEIGHT - height, 1)
    left, width = round(number * step, 1), step - 2
    value = (
        f'<text x="{round(left + width / 2, 1)}" y="{top - 2.5}" text-anchor="middle">{count}</text>'
        if count
        else ""
    )
    return (
        f"<g><title>{number * 10} to {number * 10 + 10} %: {_count(count, 'provider')}</title>"
        f'<rect class="fill-{level}" x="{left}" y="{top}" width="{width}" height="{height}"/>{value}</g>'
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
