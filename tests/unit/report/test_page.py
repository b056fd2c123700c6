# SPDX-License-Identifier: Apache-2.0
"""Pages: one file, well-formed, that asks for nothing and takes names for nothing but text."""

import html.parser
import re

import pytest

from osc_placement.report.capacity_page import Rows, capacity_page
from osc_placement.report.tree_page import tree_page
from tests.unit.report.clouds import cloud, node, stock

EVIL = "<script>alert(1)</script>"
QUOTES = "\" onmouseover='alert(1)' x=\""
CLOUD = cloud(
    node(EVIL, traits=[EVIL], aggregates=[QUOTES], **{EVIL: stock(10, 9)}),
    node(QUOTES, EVIL, VCPU=stock(4, 1)),
    node("plain", VCPU=stock(0, 1), **{QUOTES: stock(3)}),
)
VOID = {"meta", "input", "rect", "line"}
ALLOWED = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "header",
    "h1",
    "p",
    "main",
    "section",
    "h2",
    "div",
    "span",
    "figure",
    "figcaption",
    "svg",
    "g",
    "rect",
    "text",
    "line",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "ul",
    "li",
    "bdi",
    "i",
    "b",
    "input",
    "button",
    "footer",
    "script",
}


class Reader(html.parser.HTMLParser):
    """Checks that tags nest, and keeps what stands in them."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.tags = []
        self.attributes = []
        self.words = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


PAGES = {
    "tree": tree_page(CLOUD),
    "empty": tree_page(cloud()),
    "capacity": capacity_page(
        CLOUD,
        Rows(
            f"By {EVIL}",
            ("provider", "resource_class", "capacity", "used", "free", "reserved", "percent"),
            [(EVIL, QUOTES, 10, 9, 1, 0, 90.0)],
        ),
    ),
    "fits": capacity_page(CLOUD, Rows("Fits", ("host", "fits", "limited_by"), [(QUOTES, 3, EVIL)])),
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_names_are_escaped(page):
    """No name opens a tag or an attribute: tags nest, and the only script is ours."""
    reader = read(page)
    assert reader.tags.count("script") == 1
    assert page.count("<script>") == 1
    assert set(reader.tags) <= ALLOWED
    assert [key for key, _ in reader.attributes if key.startswith("on")] == []


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_loads_nothing(page):
    """No address in it, and a policy that forbids whatever else would connect."""
    reader = read(page)
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"(?m)^\s*//.*$", "", page))
    assert {value for key, value in reader.attributes if key in ("src", "href")} == {"#main"}
    assert [value for _, value in reader.attributes if str(value).startswith("default-src 'none';")]


def test_the_tree_page_has_everything():
    """Every provider once in a branch, with classes, traits and aggregates."""
    reader = read(PAGES["tree"])
    assert reader.tags.count("details") == 3
    words = "".join(reader.words)
    for text in (EVIL, QUOTES, "plain", "90 %", "9 of 10 used, on 1 provider"):
        assert text in words


def test_a_plot_has_a_text_alternative():
    """Each plot has a label that says what it shows."""
    reader = read(PAGES["tree"])
    labels = [value for key, value in reader.attributes if key == "aria-label"]
    plots = [label for label in labels if "providers by how full" in label]
    assert reader.tags.count("svg") == len(plots) == 3
