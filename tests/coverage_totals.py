# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.coverage_totals``: how much of the package the tests reached, from coverage's data.

Prints the files that are reached least and the totals; exit status 1 if they are less than asked for.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile

import coverage

#: per cent that have to be reached, by what
LEAST = {"lines": 95.0, "branches": 90.0}
#: so many files are shown
WORST = 10


def main() -> int:
    """Print, and return the exit status."""
    report = _read()
    files = sorted(report["files"].items(), key=lambda item: item[1]["summary"]["percent_covered"])
    for name, file in files[:WORST]:
        print(f"{file['summary']['percent_covered']:6.1f} % {name}")
    reached = {
        "lines": _per_cent(report["totals"], "covered_lines", "num_statements"),
        "branches": _per_cent(report["totals"], "covered_branches", "num_branches"),
    }
    told = (f"{reached[what]:.1f} % of {what} (at least {least:.0f})" for what, least in LEAST.items())
    print(f"coverage of {len(files)} files: {', '.join(told)}")
    return int(any(reached[what] < least for what, least in LEAST.items()))


def _read() -> dict[str, dict[str, dict]]:
    measured = coverage.Coverage()
    measured.load()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        measured.json_report(outfile=file.name)
        return json.loads(pathlib.Path(file.name).read_text())


def _per_cent(totals: dict[str, float], reached: str, all_: str) -> float:
    return 100 * totals[reached] / totals[all_]


if __name__ == "__main__":
    sys.exit(main())
