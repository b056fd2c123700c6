# SPDX-License-Identifier: Apache-2.0
"""Pages in a browser: Chromium without a window, light and dark, with names that mean harm."""

import base64
import json

import pytest

from benchmarks.chromium import browsing, find_chromium
from osc_placement.report.bar import format_percent
from osc_placement.report.capacity_page import Rows, capacity_page
from osc_placement.report.headroom import DOMAIN_COLUMNS
from osc_placement.report.tree_page import tree_page
from tests import databases
from tests.unit.report.clouds import cloud, node, stock

EVIL = "<img src=x onerror=\"document.title='taken over'\"></script><!--"
CLOUD = cloud(
    node("host", aggregates=["rack"], VCPU=stock(8, 7)),
    node("gpu", "host", traits=["HW_GPU"], PGPU=2),
    node(EVIL, VCPU=stock(4, 1)),
)
COLUMNS = ("provider", "resource_class", "capacity", "used", "percent")
NAMES = "[...document.querySelectorAll('.live tbody .name')].map((cell) => cell.textContent)"


@pytest.fixture(scope="module")
def browser():
    """Chromium; without it the tests are skipped, or fail where they must not be."""
    program = find_chromium()
    if program is None:
        databases.skip_or_fail("Chromium is not installed")
    with browsing(program) as page:
        yield page


@pytest.fixture
def show(browser, tmp_path):
    """A function that shows a page in a window of some width; the page must log no error."""

    def show_page(text, width=1000, **settings):
        file = tmp_path / "page.html"
        file.write_text(text)
        browser.resize(width, **settings)
        browser.open(file)
        return browser

    yield show_page
    kinds = [event.get("method") for event in browser.events]
    assert "Runtime.exceptionThrown" not in kinds


def hosts(number, **stocks):
    return cloud(*(node(f"host-{each}", **(stocks or {"VCPU": stock(1000, each)})) for each in range(number)))


def capacity_of(number, totals=()):
    rows = [(f"host-{each}", "VCPU", 1000, each % 1000, 0.0) for each in range(number)]
    return capacity_page(hosts(1), Rows("Capacity", COLUMNS, [*rows, *totals], len(totals)))


def head(browser, number):
    """A selector of the button of a column, from 1."""
    return f".live > thead th:nth-child({number}) button"


def sorting(browser):
    """The columns with aria-sort, and its values."""
    return browser.evaluate(
        "[...document.querySelectorAll('[aria-sort]')].map((cell) => [cell.textContent, cell.ariaSort])"
    )


def test_names_are_shown_as_text(show):
    """No name becomes an element, runs, or ends the data of the page."""
    browser = show(tree_page(CLOUD))
    assert browser.evaluate("document.title") == "Resource providers"
    assert browser.evaluate("document.images.length") == 0
    assert EVIL in browser.evaluate(NAMES)


def test_only_our_script_runs(show):
    """The policy of the page names it by its hash; without it there is the plain table."""
    browser = show(tree_page(CLOUD).replace("<script>", "<script>throw 1;"))
    assert browser.evaluate("document.querySelector('.tools, .live')") is None
    assert "The script of this page did not run" in browser.evaluate("document.body.innerText")
    assert "VCPU: 7 of 8" in browser.evaluate("document.body.innerText")


@pytest.mark.parametrize("name", ["tree", "capacity"])
def test_page_is_rendered_in_light_and_dark(show, tmp_path, name):
    """Two pictures that are not the same, neither of them empty."""
    pictures = []
    for dark in (False, True):
        browser = show(tree_page(CLOUD) if name == "tree" else capacity_of(3), dark=dark)
        browser.screenshot(tmp_path / "picture.png")
        pictures.append((tmp_path / "picture.png").read_bytes())
    assert pictures[0] != pictures[1]
    assert min(map(len, pictures)) > 10_000


@pytest.mark.parametrize(("number", "opened"), [(300, 300), (600, 0)])
def test_all_rows_are_printed(show, number, opened):
    """On paper every row is there, and trees that are not too many are open; afterwards it is as before."""
    browser = show(tree_page(hosts(number)))
    assert base64.b64decode(browser.call("Page.printToPDF")["data"]).startswith(b"%PDF")
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(browser.evaluate(NAMES)) == number
    assert browser.evaluate("document.querySelectorAll('.opened').length") == opened
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    browser.settle()
    assert len(browser.evaluate(NAMES)) < number
    assert browser.evaluate("document.querySelectorAll('.opened').length") == 0


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", ["tree", "capacity", "headroom", "plain"])
def test_nothing_is_wider_than_the_window(show, width, name):
    """With long names, long classes and deep trees, opened, there is nothing to scroll to the side."""
    long = "x" * 120
    chain = [node(f"{number}{long}", f"{number - 1}{long}" if number else None) for number in range(12)]
    stocks = {f"CUSTOM_{long}": stock(10**15, 10**14)}
    deep = cloud(*chain, node("host", f"11{long}", ["T" * 150], ["A" * 150], **stocks))
    row = (long, f"CUSTOM_{long}", 10**15, 10**14, 10.0)
    rows = Rows(long, COLUMNS, [row])
    if name == "headroom":
        classes = ",".join(f"CUSTOM_{number}_{long}=1" for number in range(4))
        values = (long, "A" * 36, "not found", 50, 500, 3, classes, f"CUSTOM_{long}: 10 asked, 3 free")
        rows = Rows("Headroom", DOMAIN_COLUMNS, [values])
    text = capacity_page(deep, rows) if name in ("capacity", "headroom") else tree_page(deep)
    browser = show(text.replace("<script>", "<script>throw 1;") if name == "plain" else text, width)
    if name == "tree":
        browser.evaluate("document.querySelector('.tools button').click()")
        assert len(browser.evaluate(NAMES)) == 13
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [400, 1030, 1400])
def test_no_number_is_broken_across_lines(show, width):
    """The memory of 10,000 hosts, in GiB."""
    row = ("host", "MEMORY_MB", 2_621_440_000, 1_310_720_000, 50.0)
    browser = show(capacity_page(CLOUD, Rows("Capacity", COLUMNS, [row])), width)
    lines = (
        "[...document.querySelectorAll('.live tbody .number')].map((cell) => {"
        "const range = document.createRange();"
        "range.selectNodeContents(cell); return [cell.textContent, range.getClientRects().length]; })"
    )
    assert browser.evaluate(lines) == [["2,560,000 GiB", 1], ["1,280,000 GiB", 1]]


def test_a_click_sorts_rows_and_a_second_one_reverses_them(show):
    """Numbers begin with the largest, names with the first, by their numbers; sums stay last."""
    browser = show(capacity_of(12, totals=[("(all)", "VCPU", 12000, 66, 0.6)]))
    assert sorting(browser) == []
    browser.click(head(browser, 4))
    assert sorting(browser) == [["used", "descending"]]
    assert browser.evaluate(NAMES)[:3] == ["host-11", "host-10", "host-9"]
    assert browser.evaluate(NAMES)[-1] == "(all)"
    browser.click(head(browser, 4))
    assert sorting(browser) == [["used", "ascending"]]
    assert browser.evaluate(NAMES)[:3] == ["host-0", "host-1", "host-2"]
    browser.click(head(browser, 1))
    assert sorting(browser) == [["provider", "ascending"]]
    assert browser.evaluate(NAMES)[8:] == ["host-8", "host-9", "host-10", "host-11", "(all)"]


def test_the_keyboard_sorts_opens_and_filters(show):
    """Buttons are reached by Tab and pressed with Enter, and keep the focus; / leads to the filter."""
    browser = show(tree_page(hosts(30)))
    browser.press("/", "/")
    assert browser.evaluate("document.activeElement.type") == "search"
    browser.call("Input.insertText", text="HOST-2")
    browser.settle()
    assert browser.evaluate("document.querySelector('[role=status]').textContent") == "11 of 30 trees"
    # the two buttons beside the filter, then the heads
    for _ in range(4):
        browser.press("Tab")
    browser.press("Enter", "\r")
    assert sorting(browser) == [["VCPU", "descending"]]
    assert browser.evaluate(NAMES)[0] == "host-29"
    browser.press("Tab")
    browser.press("Enter", "\r")
    assert browser.evaluate("document.activeElement.ariaExpanded") == "true"
    assert browser.evaluate("document.activeElement.ariaLabel") == "host-29"
    assert browser.evaluate("document.querySelectorAll('.opened').length") == 1


def test_trees_are_sorted_with_their_branches(show):
    """By the sums with all below; children among themselves; what lacks the class is last in both orders."""
    trees = cloud(
        node("a", VCPU=stock(10, 5)),
        node("b"),
        node("b1", "b", VCPU=stock(10, 1)),
        node("b2", "b", VCPU=stock(10, 10)),
        node("c", DISK_GB=1),
    )
    browser = show(tree_page(trees))
    assert browser.evaluate(NAMES) == ["a", "b", "b1", "b2", "c"]
    browser.click(head(browser, 3))
    assert browser.evaluate(NAMES) == ["b", "b2", "b1", "a", "c"]
    browser.click(head(browser, 3))
    assert browser.evaluate(NAMES) == ["a", "b", "b1", "b2", "c"]


def test_a_tree_opens_where_it_is(show):
    """A click opens and closes a provider far down, which stays where it is in the window."""
    nodes = [node(f"host-{each:05}", traits=["T"], VCPU=1) for each in range(3000)]
    browser = show(tree_page(cloud(*nodes, node("child", "host-02000"))))
    browser.evaluate("scrollTo(0, document.body.scrollHeight * 2 / 3)")
    browser.settle()
    place = (
        "(() => { const rows = [...document.querySelectorAll('.live > tbody > tr')];"
        "const row = rows.find((each) => each.getBoundingClientRect().top > 300);"
        "row.classList.add('chosen'); return [row.querySelector('.name').textContent,"
        "row.getBoundingClientRect().top]; })()"
    )
    name, top = browser.evaluate(place)
    again = (
        "[...document.querySelectorAll('.live > tbody > tr')].find((each) =>"
        f"each.querySelector('.name').textContent === {json.dumps(name)})"
    )
    for opened in (1, 0):
        browser.evaluate(f"{again}.querySelector('.toggle').click()")
        browser.settle()
        assert browser.evaluate("document.querySelectorAll('.opened').length") == opened
        assert abs(browser.evaluate(f"{again}.getBoundingClientRect().top") - top) < 2


def test_filter_shows_the_providers_that_it_finds(show):
    """Trees are found by name, UUID, class, trait and aggregate; all words must be in a tree."""
    found = "[...document.querySelectorAll('.live tbody .name')].map((cell) => cell.textContent).join()"
    trees = cloud(
        *(node(f"host-{number}", VCPU=1) for number in range(20)),
        node("numa", "host-7", ["HW_NUMA_ROOT"], MEMORY_MB=1),
        node("gpu", "numa", ["HW_GPU"], ["rack-9"], PGPU=1),
    )
    browser = show(tree_page(trees))
    expected = {
        "GPU": "host-7,numa,gpu",
        "hw_numa": "host-7",
        "rack-9": "host-7",
        "memory_mb gpu": "host-7,numa,gpu",
        "host-7 absent": "",
    }
    for words, names in expected.items():
        browser.evaluate(
            f"(() => {{ const input = document.querySelector('input'); input.value = {json.dumps(words)};"
            "input.dispatchEvent(new Event('input')); })()"
        )
        assert browser.evaluate(found) == names
    assert "Nothing matches the filter." in browser.evaluate("document.body.innerText")


@pytest.mark.parametrize("name", ["tree", "capacity"])
def test_rows_are_made_when_they_are_scrolled_to(show, name):
    """Of ten thousand, some hundred are in the page; after a jump to the end, the last one is among them."""
    browser = show(tree_page(hosts(10_000)) if name == "tree" else capacity_of(10_000))
    count = "document.querySelectorAll('.live > tbody > tr').length"
    assert browser.evaluate(count) < 300
    assert browser.evaluate("document.querySelector('.live').ariaRowCount") == "10001"
    last = "host-9999"
    browser.evaluate("scrollTo(0, document.body.scrollHeight)")
    for _ in range(20):
        browser.settle()
        if last in browser.evaluate(NAMES):
            break
    assert last in browser.evaluate(NAMES)
    assert browser.evaluate(count) < 300
    assert browser.evaluate("[...document.querySelectorAll('[aria-rowindex]')].pop().ariaRowIndex") == "10001"


def test_percentages_are_those_of_the_terminal(show):
    """Rounded in the same way, at halves and near 0 and 100."""
    pairs = [(used, capacity) for capacity in (0, 1, 3, 8, 1000, 2000) for used in range(capacity + 3)]
    browser = show(tree_page(CLOUD))
    shown = browser.evaluate(f"{json.dumps(pairs)}.map((pair) => formatPercent(percentOf(...pair)))")
    assert shown == [format_percent(*pair) for pair in pairs]
