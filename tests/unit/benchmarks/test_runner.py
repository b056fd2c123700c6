# SPDX-License-Identifier: Apache-2.0
"""The order in which samples are taken, which of them count, and how results are told."""

import contextlib
import json
import pathlib

import pytest

from benchmarks import report
from benchmarks.case import Case, Scale, Side, Unavailable, Workspace
from benchmarks.figure import Cut, Figure, Target
from benchmarks.runner import run_case

TIME = Figure("time", "ms")


@pytest.fixture
def workspace():
    """A workspace whose environments nobody looks into."""
    nowhere = pathlib.Path("/nowhere")
    return Workspace(directory=nowhere, ours=nowhere, reference=nowhere, bare=nowhere)


def make_side(name, values, *, log=None, **targets):
    """A side that gives these values, one a round, and writes its name to a log."""
    remaining = iter(values)

    @contextlib.contextmanager
    def prepare(workspace):
        def probe():
            if log is not None:
                log.append(name)
            return {"time": next(remaining)}

        yield [probe]

    return Side(name, prepare, targets)


def make_case(reference, *ours, **more):
    """A case of one figure."""
    return Case("case", "a case", (TIME,), tuple(ours), reference, **more)


def run(case, workspace):
    """The result, with nothing told."""
    return run_case(case, workspace, lambda line: None)


def test_sides_take_turns(workspace):
    """Each round samples every side once, so that a slow minute hits them all."""
    log = []
    case = make_case(make_side("a", range(9), log=log), make_side("b", range(9), log=log), samples=2)
    run(case, workspace)
    assert log == ["a", "b"] * 3


def test_first_round_does_not_count(workspace):
    """What a cold start costs is thrown away."""
    result = run(make_case(None, make_side("b", [99.0, 1.0, 2.0]), samples=2), workspace)
    assert result.ours[0].samples == {"time": [1.0, 2.0]}


def test_side_that_was_cut_off_is_not_asked_again(workspace):
    """One round shows that it does not end; the others have their rounds, and the cut sample counts."""
    log = []
    case = make_case(make_side("a", [Cut(30.0)], log=log), make_side("b", range(9), log=log), samples=2)
    result = run(case, workspace)
    assert log == ["a", "b", "b", "b"]
    assert result.reference.samples == {"time": [Cut(30.0)]}


def test_side_beyond_its_budget_is_not_asked_again(workspace):
    """A slow side keeps what it has, its warm-up if there is nothing else."""
    case = make_case(make_side("a", [5.0]), make_side("b", [6.0]), samples=3, budget=0)
    result = run(case, workspace)
    assert (result.reference.samples, result.ours[0].samples) == ({"time": [5.0]}, {"time": [6.0]})


def test_many_values_of_one_reading_all_count(workspace):
    """The answers of a storm are samples one by one."""
    result = run(make_case(None, make_side("b", [[1.0, 2.0], [3.0]]), samples=1, warm_up=0), workspace)
    assert result.ours[0].samples == {"time": [1.0, 2.0]}


def test_side_that_is_unavailable_is_left_out_with_its_reason(workspace):
    """The table shows why, and the other sides are measured."""

    @contextlib.contextmanager
    def prepare(workspace):
        raise Unavailable("there is none")
        yield

    result = run(make_case(Side("a", prepare), make_side("b", [1.0, 2.0]), samples=1), workspace)
    document = report.to_json([result], {})
    assert report.format_table(document).endswith("left out: a case, a: there is none")
    assert document["cases"][0]["figures"][0]["ours"][0]["value"] == 2.0


def test_table_shows_ratio_and_verdict(workspace):
    """A row has both numbers with their unit, how many times better ours is, and whether that is enough."""
    ours = make_side("server", [1.0, 2.0], time=Target(times=1000))
    result = run(make_case(make_side("a", [1.0, 3000.0]), ours, samples=1), workspace)
    row = next(
        line for line in report.format_table(report.to_json([result], {})).splitlines() if "server" in line
    )
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["a case", "time", "server", "3,000 ms", "2.00 ms", "1,500", "at least 1000 times", "yes"]


def test_document_survives_json_and_shows_what_was_cut(workspace):
    """The table can be made again from the file, and a sample that was given up is more than its limit."""
    result = run(make_case(make_side("a", [Cut(30000.0)]), make_side("b", [1.0, 2.0]), samples=1), workspace)
    document = report.to_json([result], {"osc-placement": "5"})
    again = json.loads(json.dumps(document))
    assert again == document
    assert "> 30,000 ms" in report.format_table(again)
    assert "> 15,000" in report.format_table(again)


def test_samples_of_a_storm_are_kept_as_what_they_are_like(workspace):
    """Thousands of answers would make a file that nobody reads."""
    values = [float(number) for number in range(1, 1001)]
    result = run(make_case(None, make_side("b", [values]), samples=1, warm_up=0), workspace)
    samples = report.to_json([result], {})["cases"][0]["figures"][0]["ours"][0]["samples"]
    expected = {"least": 1.0, "median": 500.0, "p90": 900.0, "p99": 990.0, "most": 1000.0}
    assert samples == {"count": 1000, **expected}


def test_merge_keeps_cases_that_were_not_run_again():
    """A noisy case can be repeated by itself; the order stays that of the cases."""
    old = {"cases": [{"name": "a", "title": "old"}, {"name": "b", "title": "old"}, {"name": "gone"}]}
    new = {"cases": [{"name": "b", "title": "new"}], "versions": {}}
    merged = report.merge(old, new, ["a", "b"])
    assert [(case["name"], case["title"]) for case in merged["cases"]] == [("a", "old"), ("b", "new")]


def test_merge_of_a_partial_run_keeps_the_other_figures_of_a_case():
    """One request can be measured again by itself; a whole run replaces all figures of its cases."""
    old = {"cases": [{"name": "a", "figures": [{"name": "x", "unit": "s"}, {"name": "y", "unit": "s"}]}]}
    new = {"cases": [{"name": "a", "figures": [{"name": "x", "unit": "ms"}, {"name": "z", "unit": "ms"}]}]}

    def units(merged):
        return {figure["name"]: figure["unit"] for figure in merged["cases"][0]["figures"]}

    assert units(report.merge(old, new, ["a"], is_partial=True)) == {"x": "ms", "y": "s", "z": "ms"}
    assert units(report.merge(old, new, ["a"])) == {"x": "ms", "z": "ms"}


def test_table_shows_the_parts_of_a_figure(workspace):
    """A sum is followed by what it is made of, each part with a median of its own."""
    time = Figure("time", "ms", parts=("server", "database"))

    @contextlib.contextmanager
    def prepare(workspace):
        values = iter([(9.0, 9.0), (1.0, 2.0), (2.0, 4.0), (3.0, 3.0)])

        def probe():
            server, database = next(values)
            return {"time": server + database, time.part("server"): server, time.part("database"): database}

        yield [probe]

    case = Case("case", "a case", (time,), (Side("b", prepare),), samples=3)
    document = report.to_json([run(case, workspace)], {})
    assert document["cases"][0]["figures"][0]["ours"][0]["parts"]["database"]["samples"] == [2.0, 4.0, 3.0]
    assert "6.00 ms (2.00 + 3.00)" in report.format_table(document)


def test_table_has_a_row_for_the_reference_alone(workspace):
    """A run of one side shows its figures, whichever side it is."""
    document = report.to_json([run(make_case(make_side("a", [9.0, 5.0]), samples=1), workspace)], {})
    row = next(line for line in report.format_table(document).splitlines() if "a case" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "a case",
        "time",
        "",
        "5.00 ms",
        *[""] * 4,
    ]


def test_scale_leaves_the_full_size_alone():
    """A smaller cloud has some providers left, a shorter storm a second."""
    assert (Scale().size(10_000), Scale().seconds(10)) == (10_000, 10)
    assert (Scale(50).size(10_000), Scale(50).size(50)) == (200, 10)
    assert (Scale(50).seconds(100), Scale(50).seconds(10)) == (2, 1)
