# SPDX-License-Identifier: Apache-2.0
"""Pages: one file, well-formed, that asks for nothing and takes names for nothing but text."""

import html.parser
import json
import re
from datetime import UTC, datetime

import pytest

from osc_placement.report.capacity_page import Rows, capacity_page
from osc_placement.report.page import PLAIN_ROWS, Origin
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
    "dl",
    "dt",
    "dd",
    "time",
    "code",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "bdi",
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


ORIGIN = Origin(EVIL, datetime(2026, 11, 22, 23, 50, 9, tzinfo=UTC), f"openstack {EVIL}")
#: what would end the JSON of a page, or what no parser of JSON takes
HARMFUL = "</script><!-- \u2028 \x1b \ud800 \\ \" '"
PAGES = {
    "tree": tree_page(CLOUD, ORIGIN),
    "empty": tree_page(cloud()),
    "capacity": capacity_page(
        CLOUD,
        Rows(
            f"By {EVIL}",
            ("provider", "resource_class", "capacity", "used", "free", "reserved", "percent"),
            [(EVIL, QUOTES, 10, 9, 1, 0, 90.0)],
        ),
        ORIGIN,
    ),
    "fits": capacity_page(CLOUD, Rows("Fits", ("host", "fits", "limited_by"), [(QUOTES, 3, EVIL)])),
}


def data_of(page):
    """The data from which the script makes the table."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_names_are_escaped(page):
    """No name opens a tag or an attribute: tags nest, and the only script is ours, beside its data."""
    reader = read(page)
    assert reader.tags.count("script") == 2
    assert page.count("<script>") == 1
    assert page.count('<script type="application/json" id="data">') == 1
    assert set(reader.tags) <= ALLOWED
    assert [key for key, _ in reader.attributes if key.startswith("on")] == []


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_loads_nothing(page):
    """No address in it, and a policy that forbids whatever else would connect."""
    reader = read(page)
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"(?m)^\s*//.*$|/\*\*.*\*/", "", page))
    assert {value for key, value in reader.attributes if key in ("src", "href")} == {"#main"}
    assert [value for _, value in reader.attributes if str(value).startswith("default-src 'none';")]


def test_harmful_names_stay_inside_the_data():
    """No text ends the data, or is a control character or half of a character in it."""
    page = tree_page(cloud(node(HARMFUL, traits=[HARMFUL], **{HARMFUL: stock(1)})))
    page.encode()
    assert read(page).tags.count("script") == 2
    (provider,) = data_of(page)["providers"]
    assert provider[0] == HARMFUL.replace("\u2028", "\\u2028").replace("\x1b", "\\x1b").replace(
        "\ud800", "\\ud800"
    )
    assert "<" not in re.search(r'id="data">(.*?)</script>', page)[1]


def test_tree_data_has_every_provider_after_its_parent():
    """With its classes, traits and aggregates, each of which is there once."""
    data = data_of(PAGES["tree"])
    evil, quotes, plain = data["providers"]
    assert (evil[0], evil[2], quotes[0], quotes[2], plain[0], plain[2]) == (EVIL, -1, QUOTES, 0, "plain", -1)
    assert data["kinds"][evil[5][0]] == [EVIL, 10, ""]
    assert data["sets"][evil[3]] == [EVIL]
    assert data["sets"][evil[4]] == [QUOTES]
    assert data["sets"].count([]) == 1


def test_the_plain_tree_table_has_everything():
    """Where no script runs, providers are there with their inventories, traits and aggregates."""
    words = "".join(read(PAGES["tree"]).words)
    for text in (EVIL, QUOTES, "plain", "90 %", "VCPU: 1 of 4", "9 of 10 used, on 1 provider"):
        assert text in words


def test_the_plain_table_of_a_large_cloud_says_how_much_it_lacks():
    """It has the first rows, and a note that the others need the script."""
    page = tree_page(cloud(*(node(f"host{number:04}", VCPU=1) for number in range(PLAIN_ROWS + 900))))
    words = "".join(read(page).words)
    assert "these are the first 100 of 1,000 resource providers" in words
    assert page.count('<th scope="row"') == PLAIN_ROWS


def test_a_page_says_where_it_is_from():
    """The cloud, the time with its zone, and the command."""
    words = "".join(read(PAGES["tree"]).words)
    assert f"Cloud{EVIL}Read2026-11-22 23:50:09 UTCCommandopenstack {EVIL}" in words
    assert '<time datetime="2026-11-22T23:50:09+00:00">' in PAGES["tree"]


def test_a_plot_has_a_text_alternative():
    """Each plot has a label that says what it shows."""
    reader = read(PAGES["tree"])
    labels = [value for key, value in reader.attributes if key == "aria-label"]
    plots = [label for label in labels if "providers by how full" in label]
    assert reader.tags.count("svg") == len(plots) == 3


def test_columns_are_of_the_kind_of_their_values():
    """A column that the page does not know, such as the name of an aggregate, is text."""
    rows = Rows(
        "Capacity by aggregate",
        ("aggregate", "name", "resource_class", "capacity", "used", "reserved", "percent"),
        [("a", "fast", "VCPU", 1000, 10, 1, 1.0), ("-", "", "VCPU", 0, 0, "", "")],
    )
    page = capacity_page(CLOUD, rows)
    data = data_of(page)
    kinds = [column["kind"] for column in data["columns"]]
    assert kinds == ["name", "text", "text", "number", "number", "number", "percent"]
    assert data["texts"] == ["a", "fast", "VCPU", "-", ""]
    assert data["rows"] == [[0, 1, 2, 1000, 10, 1, None], [3, 4, 2, 0, 0, None, None]]
    assert re.search(r"<td[^>]*>1,000</td><td[^>]*>10</td><td[^>]*>1</td><td[^>]*>1 %</td>", page)


def test_a_page_has_its_verdict_first_and_no_column_twice():
    """The table is before the plots; a column that is empty or repeats the name is left out."""
    values = [
        ("rack", "rack", "not found", 50, "MEMORY_MB=2048,VCPU=2", ""),
        ("(all)", "", "0 of 1 fit", "", "", ""),
    ]
    columns = ("domain", "uuid", "verdict", "hosts", "missing", "reason")
    page = capacity_page(CLOUD, Rows("Headroom", columns, values, 1, "No place was found.", "high"))
    assert [column["label"] for column in data_of(page)["columns"]] == [
        "domain",
        "verdict",
        "hosts",
        "missing",
    ]
    places = [page.index(text) for text in ('share-high">No place', 'id="rows"', 'id="use"')]
    assert places == sorted(places)


def test_memory_is_in_gib():
    """In plots and tables; the data that the script reads have what placement has."""
    memory = cloud(node("host", MEMORY_MB=stock(257_536, 24_576, reserved=512)))
    columns = ("provider", "resource_class", "capacity", "used")
    rows = Rows("Capacity", columns, [("host", "MEMORY_MB", 257_024, 24_576)])
    page = capacity_page(memory, rows)
    assert "24 GiB of 251 GiB used, on 1 provider" in page
    assert re.search(r"<td[^>]*>251 GiB</td><td[^>]*>24 GiB</td>", page)
    assert data_of(page)["rows"] == [[0, 1, 257_024, 24_576]]
    assert data_of(tree_page(memory))["kinds"] == [["MEMORY_MB", 257_024, "0.5 GiB reserved"]]


def test_ten_thousand_providers_with_long_names_are_below_four_megabytes():
    """With names of 50 characters, 60 traits, and inventories of which no two are equal."""
    traits = [f"HW_CPU_X86_EXTENSION_{number}" for number in range(60)]
    nodes = [
        node(
            f"compute-{number:05}.availability-zone-1.production.example.com"[:50].ljust(50, "x"),
            traits=traits,
            aggregates=[f"{number % 100:036}"],
            VCPU=stock(64 + number, number, allocation_ratio=4.0, reserved=2),
            MEMORY_MB=stock(500_000 + number, number, reserved=4096),
            DISK_GB=stock(8000 + number, number, reserved=100),
        )
        for number in range(10_000)
    ]
    whole = cloud(*nodes)
    assert len(tree_page(whole).encode()) < 4_000_000
    rows = [
        (each.name, name, each_stock.capacity, each_stock.used, each_stock.free, 0, 0.0)
        for each in whole.nodes
        for name, each_stock in each.stocks.items()
    ]
    columns = ("provider", "resource_class", "capacity", "used", "free", "reserved", "percent")
    assert len(capacity_page(whole, Rows("Capacity", columns, rows)).encode()) < 4_000_000
