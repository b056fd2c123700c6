# SPDX-License-Identifier: Apache-2.0
"""Lines that fit a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from osc_placement.terminal.lines import (
    align,
    count_lines,
    count_things,
    cut,
    cut_middle,
    fit,
    fit_heading,
    wrap,
    wrap_each,
    wrap_fact,
)


def test_things_are_counted_in_english():
    """A vowel before the last y keeps it."""
    counted = ["1 day", "2 days", "2 policies", "2 resource classes", "1,000 trees"]
    numbers = [(1, "day"), (2, "day"), (2, "policy"), (2, "resource class"), (1000, "tree")]
    assert [count_things(number, noun) for number, noun in numbers] == counted


@given(
    st.lists(st.text("ab ", max_size=300), max_size=50),
    st.integers(min_value=2, max_value=20),
    st.integers(min_value=30, max_value=100),
)
def test_text_takes_at_most_the_lines_there_are(texts, most, width):
    """However many and long the texts are; nothing is cut that fits."""
    lines = fit(texts, most, width, "more")
    assert len(lines) <= most
    assert all(len(line) <= width for line in lines)
    if count_lines(texts, width) <= most:
        assert "".join(lines).replace(" ", "") == "".join(texts).replace(" ", "")


def test_text_is_broken_between_words():
    """What begins a line stays there; a word that is longer than a line fills lines."""
    assert wrap("  one two-three four", 10) == ["  one", "two-three", "four"]
    assert wrap("see " + "a" * 20, 10) == ["see aaaaaa", "a" * 10, "a" * 4]
    assert wrap("see " + "a" * 20, 10, whole_words=True) == ["see", "a" * 20]
    assert wrap("", 10) == [""]


def test_error_is_broken_between_words_but_not_in_its_command():
    """The command is whole, however long, so that it can be copied; short errors are one line."""
    command = "openstack resource provider batch run show 20261123T154355"
    assert wrap_each(f"Interrupted while the change was under way; to see it: {command}", 30) == [
        "Interrupted while the change",
        "was under way; to see it:",
        command,
    ]
    assert wrap_each("one two three", 8) == ["one two", "three"]
    assert wrap_each(f"see: {command}", 80) == [f"see: {command}"]


def test_last_words_of_a_heading_are_left_out_before_its_end():
    """The first name the run; what follows is whole."""
    heading = "undo of 20261126T164036-3c6886 (inventory set VCPU:reserved=2 MEMORY_MB:reserved=16384)"
    end = ": 48 resource providers to change, 2 unchanged"
    shown = fit_heading(heading, 2, 60, end)
    assert shown == f"undo of 20261126T164036-3c6886 (inventory set ...){end}"
    assert len(wrap(shown, 60)) == 2
    # whatever the end
    assert fit_heading(heading, 2, 60, end * 3) == f"undo of 20261126T164036-3c6886 ...{end * 3}"
    assert fit_heading("one two", 1, 40) == "one two"
    path = f"apply /home/{'operator/' * 20}cloud.yaml"
    assert fit_heading(path, 2, 80, ": 12 changes to make").startswith("apply /home/operator/")
    assert fit_heading("x" * 99, 1, 40, ": 50 applied, 3 failed") == f"{'x' * 32}...: 50 applied, 3 failed"


def test_last_line_says_how_many_are_left_out():
    """The first are shown."""
    assert fit(list("abcdef"), 3, 80, "more failures") == ["a", "b", "... and 4 more failures"]


def test_long_texts_share_the_lines():
    """Each is cut to as many lines as all can have."""
    lines = fit(["a" * 500, "b " * 250], 5, 80, "more")
    assert lines == ["a" * 80, f"{'a' * 77}...", ("b " * 40).strip(), f"{'b ' * 38}b..."]


def test_text_is_cut_at_its_end_or_in_its_middle():
    """To the length that is wanted."""
    assert cut("abcdefghij", 8) == "abcde..."
    assert cut_middle("abcdefghij", 8) == "a...ghij"
    assert cut("abc", 3) == cut_middle("abc", 3) == "abc"


def test_last_column_is_cut_and_the_others_are_whole():
    """No line is longer than the terminal is wide."""
    rows = [("id", "what"), ("20261121T152452-057d23", "ratio set VCPU=8.0 MEMORY_MB=1.5")]
    assert align(rows, 40) == [
        "id                      what",
        "20261121T152452-057d23  ratio set VCP...",
    ]


def test_fact_is_wrapped_below_its_text_with_whole_words():
    """An ID or a path is never broken, even if it is longer than a line."""
    path = "/srv/" + "x" * 30
    assert wrap_fact(f"command:   apply {path} by run 20261121T152452-057d23", 34) == [
        "command:   apply",
        f"           {path}",
        "           by run",
        "           20261121T152452-057d23",
    ]
    assert wrap_fact("state:     done", 34) == ["state:     done"]
    command = "openstack resource provider batch run resume 20261121T152452-057d23 --force"
    assert wrap_fact(f"To make them all the same: {command}", 34) == ["To make them all the same:", command]
