# SPDX-License-Identifier: Apache-2.0
"""`tools/conformance nova`: which modules are run, and what is said of their outcomes; without nova."""

import json

import pytest

from benchmarks import environments
from tests.functional.conformance import __main__ as tool
from tests.functional.conformance import nova
from tests.functional.conformance.nova import OURS, PACKAGE, REFERENCE, Outcomes

#: whether each module uses placement
MODULES = {
    f"{PACKAGE}.db.test_cell": False,
    f"{PACKAGE}.regressions.test_bug_1": True,
    f"{PACKAGE}.regressions.test_bug_2": False,
    f"{PACKAGE}.test_servers": True,
    f"{PACKAGE}.test_servers_more": True,
}
TRACEBACK = """\
2026-11-23 INFO [nova] a line of the log
Traceback (most recent call last):
  File "test_servers.py", line 7, in test_resize
    self.assertEqual(1, used)
testtools.matchers._impl.MismatchError: 1 != 2
"""


class Pair:
    """Both sides, with the outcomes of each run: the next ones of a list, by side."""

    def __init__(self, *runs):
        self.names = []
        self._runs = list(runs)

    def run(self, name):
        """Return the outcomes of the next run."""
        self.names.append(name)
        return self._runs.pop(0)


def outcomes_of_one(ours, reference, *, asked=(5, 5)):
    """Return the outcomes of one test on both sides."""
    tests = {OURS: ours, REFERENCE: reference}
    return {
        side: Outcomes({"test_servers.T.test_resize(v2)": (outcome, TRACEBACK)}, requests)
        for (side, outcome), requests in zip(tests.items(), asked, strict=True)
    }


def find_users(modules):
    """Return those of the modules that use placement."""
    return [name for name in modules if MODULES[name]]


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Have the tool find an environment with files for these modules."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in MODULES:
        path = packages / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        (path.parent / "base.py").touch()
    monkeypatch.setattr(environments, "make_nova_tests", lambda: tmp_path / "bin")
    monkeypatch.setattr(nova, "find_users", lambda python, modules: find_users(modules))


def test_modules_that_use_placement_are_chosen_by_default():
    """The others cannot differ."""
    assert nova.choose(list(MODULES), [PACKAGE], find_users) == find_users(MODULES)


def test_module_is_chosen_by_name_even_if_it_uses_no_placement():
    """With and without the name of the package; nobody asks which modules use placement, which takes long."""
    names = ["db.test_cell", f"{PACKAGE}.test_servers"]
    found = nova.choose(list(MODULES), names, lambda modules: pytest.fail("asked"))
    assert found == [f"{PACKAGE}.db.test_cell", f"{PACKAGE}.test_servers"]


def test_package_stands_for_its_modules_that_use_placement():
    """Each once, whatever else names it."""
    names = ["regressions", "regressions.test_bug_1"]
    assert nova.choose(list(MODULES), names, find_users) == [f"{PACKAGE}.regressions.test_bug_1"]


@pytest.mark.parametrize("name", ["nonsense", "test_serv", "base", "--", ""])
def test_unknown_module_is_refused_in_one_line(installed, capsys, name):
    """The line names the command that lists the modules; nothing is run."""
    assert tool.main(["nova", "--", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"tools/conformance: nova has no functional tests {name!r}")
    assert "'tools/conformance nova --list'" in line


def test_list_prints_modules_and_runs_nothing(installed, capsys):
    """By the names that the command line takes."""
    assert tool.main(["nova", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["regressions.test_bug_1", "test_servers", "test_servers_more"]


def test_same_outcomes_are_no_difference(capsys):
    """Failures of both included, which are named."""
    pair = Pair(outcomes_of_one("passed", "passed"), outcomes_of_one("failed", "failed"))
    assert nova.report(pair, [f"{PACKAGE}.test_servers", f"{PACKAGE}.test_servers_more"]) == 0
    first, second, *others = capsys.readouterr().out.splitlines()
    assert first == (
        "test_servers: 1 tests; ours 1 passed, 0 failed, 0 skipped, 5 requests; "
        "reference 1 passed, 0 failed, 0 skipped, 5 requests; 0 differ"
    )
    assert "ours 0 passed, 1 failed" in second
    assert "failed with both servers:" in others
    assert others[-1] == "2 modules, 0 differences"


def test_difference_is_printed_with_the_error(capsys):
    """A test that fails again with ours only, run by the name without its scenario."""
    pair = Pair(outcomes_of_one("failed", "passed"), outcomes_of_one("failed", "passed"))
    assert nova.report(pair, [f"{PACKAGE}.test_servers"]) == 1
    assert pair.names == [f"{PACKAGE}.test_servers", "test_servers.T.test_resize"]
    output = capsys.readouterr().out
    assert "1 modules, 1 differences" in output
    assert "\n    ours: failed\n        testtools.matchers._impl.MismatchError: 1 != 2\n" in output
    assert "a line of the log" not in output


def test_difference_that_does_not_come_again_is_printed_and_not_counted(capsys):
    """Nova's tests have races of their own."""
    same = outcomes_of_one("passed", "passed")
    pair = Pair(outcomes_of_one("failed", "passed"), *[same] * nova.REPEATS)
    assert nova.report(pair, [f"{PACKAGE}.test_servers"]) == 0
    output = capsys.readouterr().out
    assert f"differed once, and not when they were run again {nova.REPEATS} times:" in output
    assert "test_servers.T.test_resize(v2)\n    ours: failed" in output


def test_difference_that_cannot_be_run_by_itself_is_counted(capsys):
    """Such as one in the set-up of a class, whose name is that of no test."""
    first = {OURS: Outcomes({"setUpClass (T)": ("failed", "")}, 5), REFERENCE: Outcomes({}, 5)}
    again = {side: Outcomes({"unittest.loader._FailedTest.setUpClass ": ("failed", "")}, 0) for side in first}
    assert nova.report(Pair(first, again), [f"{PACKAGE}.test_servers"]) == 1
    assert "1 modules, 1 differences" in capsys.readouterr().out


def test_test_that_only_one_side_has_run_is_a_difference():
    """It is "not run" on the other."""
    ours, reference = Outcomes({}, 1), Outcomes({"t": ("passed", "")}, 1)
    assert nova.compare(ours, reference) == ["t"]
    assert "    ours: not run" in nova.describe("t", ours, reference)


def test_module_in_which_only_the_reference_was_asked_is_a_difference(capsys):
    """Tests that pass without a request say nothing of our server."""
    pair = Pair(outcomes_of_one("passed", "passed", asked=(0, 5)))
    assert nova.report(pair, [f"{PACKAGE}.test_servers"]) == 1
    assert "only one of the two servers was asked anything" in capsys.readouterr().out


def test_process_that_ends_fails_the_module_and_is_started_again(tmp_path):
    """A program in place of Python reads a name, ends the first time, and answers the second time."""
    mark = tmp_path / "started"
    answer = json.dumps({"tests": {"t": ["passed", ""]}, "requests": 1})
    program = tmp_path / "python"
    program.write_text(
        f"#!/bin/sh\nread name\n[ -e {mark} ] || {{ touch {mark}; exit 7; }}\necho '{answer}'\n"
    )
    program.chmod(0o755)
    side = nova.Side(program, OURS, str(tmp_path))
    try:
        with pytest.raises(nova.Ended, match="status 7"):
            side.run("test_servers")
        assert side.run("test_servers").get("t") == "passed"
    finally:
        side.close()
