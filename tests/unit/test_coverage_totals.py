# SPDX-License-Identifier: Apache-2.0
"""What `tools/test --coverage` prints and fails for."""

import pytest

from tests import coverage_totals


def make_report(lines, branches):
    totals = {"covered_lines": lines, "num_statements": 100, "covered_branches": branches, "num_branches": 50}
    files = {f"{name}.py": {"summary": {"percent_covered": 50.0}} for name in "ab"}
    return {"files": files, "totals": totals}


@pytest.mark.parametrize(("lines", "branches", "status"), [(95, 45, 0), (94, 50, 1), (100, 44, 1)])
def test_less_than_agreed_is_a_failure(monkeypatch, capsys, lines, branches, status):
    monkeypatch.setattr(coverage_totals, "_read", lambda: make_report(lines, branches))
    assert coverage_totals.main() == status
    told = capsys.readouterr().out
    assert f"{lines:.1f} % of lines (at least 95), {2 * branches:.1f} % of branches" in told
