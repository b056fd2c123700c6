# SPDX-License-Identifier: Apache-2.0
"""The report of a shadow: counting, the file, and the text."""

import json
import stat

import pytest

from osc_placement.server import main
from osc_placement.server.process.opening import CannotRun
from osc_placement.server.shadow import report as module
from osc_placement.server.shadow.report import Key, Latencies, Report, Verdict

TRAITS = Key("GET", "/traits", "1.39")
EXAMPLE = {
    "path": "/traits",
    "query": "",
    "headers": {},
    "lines": ["status: 200 / 404"],
    "upstream": {},
    "ours": {},
}


def make_report():
    report = Report("http://upstream")
    for _ in range(3):
        report.forwarded(TRAITS)
    report.compared(TRAITS, Verdict(seconds=0.001), 0.01)
    report.compared(TRAITS, Verdict(example=EXAMPLE, seconds=0.002), 0.02)
    report.compared(TRAITS, Verdict(skipped="busy"), 0.03)
    report.skipped(TRAITS, "not in the sample")
    report.failed(TRAITS, 502)
    report.note("it cannot be reached")
    return report


def test_quantiles_are_within_three_percent():
    """The median and the 99th percentile of known durations."""
    latencies = Latencies()
    assert latencies.find_quantile(0.5) is None
    for number in range(1, 1001):
        latencies.add(number / 1000)
    assert latencies.find_quantile(0.5) == pytest.approx(0.5, rel=0.03)
    assert latencies.find_quantile(0.99) == pytest.approx(0.99, rel=0.03)


def test_report_is_resumed_from_its_file(tmp_path):
    """A file that is written and read back gives the same document, and only its owner may read it."""
    path = tmp_path / "report.json"
    first = make_report()
    first.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = Report.resume("http://upstream", path)
    assert {**second.to_document(), "updated": ""} == {**first.to_document(), "updated": ""}
    row = second.to_document()["routes"][0]
    assert (row["forwarded"], row["compared"], row["equal"], row["different"]) == (3, 2, 1, 1)
    assert row["skipped"] == {"busy": 1, "not in the sample": 1}
    assert row["failed"] == {"502": 1}


def test_report_of_another_service_is_not_resumed(tmp_path):
    """Counts of two services are not mixed."""
    path = tmp_path / "report.json"
    make_report().save(path)
    with pytest.raises(CannotRun, match="is the report of a shadow of http://upstream"):
        Report.resume("http://other", path)


def test_number_of_examples_is_limited():
    """Differences beyond the limit are counted and not kept."""
    report = Report("http://upstream")
    for _ in range(20):
        report.compared(TRAITS, Verdict(example=EXAMPLE), 0.01)
        report.compared(TRAITS, Verdict(example=EXAMPLE, explained="a reason"), 0.01)
    document = report.to_document()
    assert document["routes"][0]["different"] == 20
    assert document["routes"][0]["explained"] == {"a reason": 20}
    kept = [one["explained"] for one in document["differences"]]
    assert (kept.count(None), kept.count("a reason")) == (5, 2)
    for number in range(300):
        report.compared(Key("GET", str(number), ""), Verdict(example=EXAMPLE), 0.01)
    assert len(report.to_document()["differences"]) == module.MOST_EXAMPLES


def test_note_is_logged_once_a_minute(caplog):
    """A line that repeats is counted, and logged once."""
    report = Report("http://upstream")
    for _ in range(5):
        report.note("it cannot be reached")
    assert [record.message for record in caplog.records] == ["it cannot be reached"]
    assert report.to_document()["notes"][0]["times"] == 5


def test_command_prints_text_or_json_and_says_whether_there_are_differences(tmp_path, capsys):
    """Exit status 3 with a difference that nothing explains, 0 without."""
    path = tmp_path / "report.json"
    make_report().save(path)
    assert main.main(["shadow", "report", str(path)]) == main.DIFFERS
    text = capsys.readouterr().out
    assert "3 requests forwarded, 2 compared: 1 equal, 1 different, 0 different as intended" in text
    assert "1 not in the sample" in text
    assert "GET /traits" in text
    assert "status: 200 / 404" in text
    assert main.main(["shadow", "report", str(path), "--json"]) == main.DIFFERS
    assert json.loads(capsys.readouterr().out)["routes"][0]["different"] == 1
    Report("http://upstream").save(path)
    assert main.main(["shadow", "report", str(path)]) == 0


@pytest.mark.parametrize(
    "content", [None, "text", "{}", "[]", '{"format": 99, "routes": []}', '{"format": 1, "routes": [{}]}']
)
def test_file_that_is_no_report_is_refused_in_one_line(content, tmp_path, capsys):
    """No traceback for a missing file, text, or another document."""
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content)
    assert main.main(["shadow", "report", str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("placement-server: ")
    assert err.count("\n") == 1
    assert str(path) in err
