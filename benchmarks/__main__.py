# SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks``: measure this project beside the reference; tools/bench sets up what it needs."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from dataclasses import replace
from importlib.metadata import version

from benchmarks import cases, environments, report
from benchmarks.runner import run_case

VERSIONS = ("osc-placement", "gunicorn", "SQLAlchemy", "PyMySQL", "python-openstackclient")


def main() -> None:
    """Run the cases that were asked for and print the figures."""
    options = _parse_arguments()
    chosen = [case for case in cases.ALL if not options.case or case.name in options.case]
    _tell("making the environment of the reference, once")
    reference = environments.make_reference()
    ours = pathlib.Path(sys.executable).parent
    results = []
    for case in chosen:
        if options.samples:
            case = replace(case, samples=options.samples)
        results.append(run_case(case, ours=ours, reference=reference, tell=_tell))
    print(report.format_table(results))
    if options.json:
        versions = {name: version(name) for name in VERSIONS}
        versions |= dict(pin.split("==") for pin in environments.PINS if "osc-placement" not in pin)
        document = report.to_json(results, versions)
        options.json.write_text(json.dumps(document, indent=2) + "\n")


def _parse_arguments() -> argparse.Namespace:
    names = ", ".join(case.name for case in cases.ALL)
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__)
    parser.add_argument("case", nargs="*", metavar="CASE", help=f"which to run: {names}; all by default")
    parser.add_argument("--samples", type=int, metavar="N", help="how often each side is measured")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all samples to a file, too")
    options = parser.parse_args()
    unknown = set(options.case) - {case.name for case in cases.ALL}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are: {names}")
    return options


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
