# SPDX-License-Identifier: Apache-2.0
"""The parts that all HTML pages share: one file that loads nothing, for light, dark and printed. Pure.

The table of a page is data, from which page.js makes the rows that are in the window; where no script runs,
the page has a plain table of the first rows. Everything from the server is escaped, by ``text`` or as JSON,
and a content security policy in the head forbids every script but ours and every connection.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from string import Template
from typing import Any, Final

from osc_placement.candidates.cloud import CloudView
from osc_placement.report.bar import HIGH, MEMORY, MIDDLE, format_amount, format_percent, level_of, percent_of
from osc_placement.terminal.escape import printable
from osc_placement.terminal.lines import count_providers, count_things
from osc_placement.terminal.screen import Style

#: the number of rows that the page has without scripts
PLAIN_ROWS: Final = 100
#: the number of bins in the histogram of a class
_BINS: Final = 10
_PLOT_WIDTH: Final = 220
_PLOT_HEIGHT: Final = 50

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
$verdict
<p class="aside">$subtitle</p>
$origin
</header>
<main id="main">
$sections
</main>
<footer>Capacity is (total &minus; reserved) &times; allocation ratio.
From $middle&nbsp;% on a bar is amber, from $high&nbsp;% red; more than 100&nbsp;% is over-allocated.</footer>
<script type="application/json" id="data">$data</script>
<script>$script</script>
</body>
</html>
""")


@dataclass(frozen=True, slots=True)
class Origin:
    """The cloud that a page shows, the time at which it was read, and the command that wrote the page."""

    cloud: str
    time: datetime
    command: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The table of a page.

    ``heading`` is shown above it; ``data`` is what page.js makes it from. ``plain_columns`` and
    ``plain_rows`` are the table where no script runs; of the rows, ``PLAIN_ROWS`` are enough. ``total`` is
    the number of all ``things``. A ``verdict`` is said first, in the colour of its level, and the table
    comes before the plots.
    """

    heading: str
    data: Mapping[str, Any]
    plain_columns: Sequence[str]
    plain_rows: Sequence[Sequence[str]]
    total: int
    things: str
    verdict: str = ""
    level: Style = "low"


def text(value: object) -> str:
    """Escape a text from the server for the page."""
    return html.escape(printable(str(value)))


def make_page(title: str, cloud: CloudView, contents: Contents, origin: Origin | None) -> str:
    """Return a whole page: its origin, the plots of all classes, and the table."""
    package = resources.files("osc_placement.report")
    script = package.joinpath("page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    panels = "\n".join(_class_panel(cloud, resource_class) for resource_class in cloud.classes)
    if panels:
        panels = (
            '<section aria-labelledby="use"><h2 id="use">Use per resource class</h2>\n'
            '<p class="label">Each bar is the number of providers that are used to that degree.</p>\n'
            f'<div class="classes">{panels}</div></section>'
        )
    sections = (panels, _format_contents(contents))
    about = ""
    if origin:
        time = f"{origin.time:%Y-%m-%d %H:%M:%S} {origin.time.tzname() or ''}".rstrip()
        rows = {
            "Cloud": text(origin.cloud),
            "Read": f'<time datetime="{origin.time.isoformat(timespec="seconds")}">{text(time)}</time>',
            "Command": f"<code>{text(origin.command)}</code>",
        }
        terms = "".join(f"<div><dt>{term}</dt><dd>{value}</dd></div>" for term, value in rows.items())
        about = f'<dl class="origin">{terms}</dl>'
    # no text in it can end the script: without "<", it has neither tags nor comments of HTML
    known = {"levels": [MIDDLE, HIGH], "memory": MEMORY, **contents.data}
    data = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
    return _PAGE.substitute(
        title=text(title),
        subtitle=text(describe_size(cloud)),
        origin=about,
        verdict=(
            f'<p class="verdict share-{contents.level}">{text(contents.verdict)}</p>'
            if contents.verdict
            else ""
        ),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        style=package.joinpath("page.css").read_text("utf-8"),
        sections="\n".join(sections[::-1] if contents.verdict else sections),
        data=data.replace("<", "\\u003c"),
        script=script,
        middle=MIDDLE,
        high=HIGH,
    )


def describe_size(cloud: CloudView) -> str:
    """Return the numbers of providers, trees and classes, in words."""
    return (
        f"{count_providers(len(cloud.nodes))} in {count_things(len(cloud.roots), 'tree')}, "
        f"{count_things(len(cloud.classes), 'resource class')}"
    )


def _format_contents(contents: Contents) -> str:
    """Return the section of the table, with the plain table that page.js replaces."""
    # names are isolated, so that right-to-left letters do not reorder the text around them
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in contents.plain_columns)
    rows = "\n".join(
        f'<tr><th scope="row" class="name"><bdi>{text(first)}</bdi></th>'
        + "".join(
            f'<td data-label="{text(column)}">{text(value)}</td>'
            for column, value in zip(contents.plain_columns[1:], others, strict=True)
        )
        + "</tr>"
        for first, *others in contents.plain_rows[:PLAIN_ROWS]
    )
    shown = min(len(contents.plain_rows), PLAIN_ROWS)
    note = (
        f"There are no {text(contents.things)}."
        if not contents.total
        else f"The script of this page did not run: these are the first {shown} of {contents.total:,} "
        f"{text(contents.things)}, which cannot be sorted, filtered or opened."
        if shown < contents.total
        else "The script of this page did not run: the table cannot be sorted, filtered or opened."
    )
    table = f'<table class="plain"><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>'
    plain = f'<div class="wide">{table if rows else ""}</div>\n<p class="note">{note}</p>'
    return (
        f'<section aria-labelledby="rows"><h2 id="rows">{text(contents.heading)}</h2>\n'
        f'<div id="table">{plain}</div></section>'
    )


def _class_panel(cloud: CloudView, resource_class: str) -> str:
    """Return the usage of a class, with a histogram of how full its providers are."""
    stocks = [node.stocks[resource_class] for node in cloud.nodes if resource_class in node.stocks]
    used, capacity = sum(stock.used for stock in stocks), sum(stock.capacity for stock in stocks)
    bins = [0] * _BINS
    for stock in stocks:
        percent = percent_of(stock.used, stock.capacity)
        if percent is None:
            percent = 100 if stock.used else 0
        bins[min(_BINS - 1, int(percent * _BINS / 100))] += 1
    level = level_of(used, capacity)
    amounts = " of ".join(format_amount(resource_class, amount) for amount in (used, capacity))
    return (
        f'<figure><div class="title"><span class="class">{text(resource_class)}</span>'
        f'<span class="share share-{level}">{format_percent(used, capacity)}</span></div>'
        f"{_histogram(resource_class, bins)}"
        f"<figcaption>{amounts} used, on {count_things(len(stocks), 'provider')}</figcaption>"
        "</figure>"
    )


def _histogram(resource_class: str, bins: Sequence[int]) -> str:
    """Count the providers that are up to a tenth full, up to two tenths and so on."""
    step, highest = _PLOT_WIDTH / _BINS, max(*bins, 1)
    width = step - 2
    bars = ""
    for number, count in enumerate(bins):
        height = round((_PLOT_HEIGHT - 14) * count / highest, 1)
        if count:
            height = max(height, 1.5)
        level: Style = level_of(number * 100 // _BINS, 100)
        left, top = round(number * step, 1), round(_PLOT_HEIGHT - height, 1)
        value = (
            f'<text x="{round(left + width / 2, 1)}" y="{top - 2.5}" text-anchor="middle">{count}</text>'
            if count
            else ""
        )
        bars += (
            f"<g><title>{number * 10} to {number * 10 + 10} %: {count_things(count, 'provider')}</title>"
            f'<rect class="fill-{level}" x="{left}" y="{top}" width="{width}" height="{height}"/>{value}</g>'
        )
    labels = (
        f'<text x="0" y="{_PLOT_HEIGHT + 14}">empty</text>'
        f'<text x="{_PLOT_WIDTH}" y="{_PLOT_HEIGHT + 14}" text-anchor="end">full</text>'
    )
    label = (
        f"{text(resource_class)}: providers by how full they are; "
        f"{count_things(bins[0], 'provider')} below 10 %, {bins[-1]} at 90 % and above"
    )
    return (
        f'<svg viewBox="0 0 {_PLOT_WIDTH} {_PLOT_HEIGHT + 18}" role="img" aria-label="{label}">'
        f'{bars}<line class="axis" x1="0" y1="{_PLOT_HEIGHT}" x2="{_PLOT_WIDTH}" y2="{_PLOT_HEIGHT}"/>'
        f"{labels}</svg>"
    )
