# SPDX-License-Identifier: Apache-2.0
"""Measure this project beside the reference, in one run, on this machine: all cases, or those named."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from benchmarks import cases, environments, report
from benchmarks.case import Case, Scale, Side, Workspace
from benchmarks.runner import Result, run_case

VERSIONS = ("osc-placement", "gunicorn", "SQLAlchemy", "PyMySQL", "python-openstackclient")
#: how much smaller --quick is
QUICK = Scale(divisor=50)


def main() -> None:
    """Run the cases that were asked for and print the figures."""
    options = _parse_arguments()
    if options.show:
        print(report.format_table(json.loads(options.show.read_text())))
    elif options.list:
        for case in cases.make_all(Scale()):
            print(f"{case.name:20} {case.title}")
    else:
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    every = cases.make_all(QUICK if options.quick else Scale())
    chosen = [_adapt(case, options) for case in every if not options.case or case.name in options.case]
    results = []
    for result in _run(chosen):
        results.append(result)
        document = report.to_json(results, _find_versions())
        if options.json:
            # after each case: a run takes an hour, and may be ended before its end
            _keep(options.json, document, [case.name for case in every])
    print(report.format_table(document))


def _keep(path: pathlib.Path, document: Mapping[str, Any], order: Sequence[str]) -> None:
    if path.exists():
        document = report.merge(json.loads(path.read_text()), document, order)
    path.write_text(json.dumps(document, indent=1) + "\n")


def _run(chosen: Sequence[Case]) -> Iterator[Result]:
    _tell("making the environments of the reference and of the bare client, once")
    workspace = Workspace(
        directory=pathlib.Path.cwd(),
        ours=environments.compile_all(pathlib.Path(sys.executable).parent),
        reference=environments.compile_all(environments.make_reference()),
        bare=environments.compile_all(environments.make_bare()),
    )
    return (run_case(case, workspace, _tell) for case in chosen)


def _adapt(case: Case, options: argparse.Namespace) -> Case:
    """A case as it was asked for; what it has to reach, it has to at the full size."""
    if options.quick:
        ours = tuple(Side(side.name, side.prepare) for side in case.ours)
        case = replace(case, ours=ours, samples=1)
    return replace(case, samples=options.samples or case.samples)


def _find_versions() -> dict[str, str]:
    pinned = dict(pin.split("==") for pin in environments.PINS if "osc-placement" not in pin)
    return {name: version(name) for name in VERSIONS} | pinned


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__)
    parser.add_argument("case", nargs="*", metavar="CASE", help="which to run, of those that --list shows")
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    parser.add_argument(
        "--quick", action="store_true", help="50 times smaller clouds, one sample, no targets"
    )
    parser.add_argument("--samples", type=int, metavar="N", help="how often each side is measured")
    parser.add_argument(
        "--json", type=pathlib.Path, metavar="FILE", help="write all samples; cases of FILE not run now stay"
    )
    parser.add_argument("--show", type=pathlib.Path, metavar="FILE", help="print the table of such a file")
    options = parser.parse_args()
    unknown = set(options.case) - {case.name for case in cases.make_all(Scale())}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; see --list")
    return options


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
