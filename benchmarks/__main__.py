# SPDX-License-Identifier: Apache-2.0
"""Measure this project beside the reference, in one run, on this machine: all cases, or those named."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from benchmarks import cases, environments, report
from benchmarks.case import Case, Scale, Side, Workspace
from benchmarks.cases import production
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
    scale = QUICK if options.quick else Scale()
    if options.case == [production.FAMILY]:
        every = tuple(production.make_cases(scale, _choose(options)))
    else:
        every = cases.make_all(scale)
    chosen = [
        _adapt(case, options) for case in every if not options.case or _is_named(case.name, options.case)
    ]
    results = []
    for result in _run(chosen):
        results.append(result)
        document = report.to_json(results, _find_versions())
        if options.json:
            # after each case: a run takes an hour, and may be ended before its end
            _keep(options.json, document, is_partial=bool(options.only))
    print(report.format_table(document))


def _is_named(name: str, wanted: Sequence[str]) -> bool:
    return name in wanted or (production.FAMILY in wanted and name.startswith(f"{production.FAMILY}-"))


def _choose(options: argparse.Namespace) -> production.Choice:
    hosts = tuple(sorted(set(options.hosts or production.HOSTS)))
    return production.Choice(hosts, options.galera, options.side, tuple(options.only or ()))


def _keep(path: pathlib.Path, document: Mapping[str, Any], *, is_partial: bool) -> None:
    if path.exists():
        old = json.loads(path.read_text())
        order = _order(case["name"] for part in (old, document) for case in part["cases"])
        document = report.merge(old, document, order, is_partial=is_partial)
    path.write_text(json.dumps(document, indent=1) + "\n")


def _order(names: Iterable[str]) -> list[str]:
    """The names of all cases in the order of the table, with those of the family in other forms after it."""
    every = [case.name for case in cases.make_all(Scale())]
    forms = {name for name in names if _is_named(name, [production.FAMILY])} - set(every)
    last = max(index for index, name in enumerate(every) if _is_named(name, [production.FAMILY])) + 1
    return [*every[:last], *sorted(forms), *every[last:]]


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
    parser.add_argument(
        "case",
        nargs="*",
        metavar="CASE",
        help=f"which to run, of those that --list shows, or {production.FAMILY}",
    )
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    parser.add_argument(
        "--quick", action="store_true", help="50 times smaller clouds, one sample, no targets"
    )
    parser.add_argument("--samples", type=int, metavar="N", help="how often each side is measured")
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        metavar="FILE",
        help="write all samples; cases of FILE not run now stay, and so do figures that --only omits",
    )
    parser.add_argument("--show", type=pathlib.Path, metavar="FILE", help="print the table of such a file")
    _add_options_of_production(parser)
    options = parser.parse_args()
    unknown = set(options.case) - {case.name for case in cases.make_all(Scale())} - {production.FAMILY}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; see --list")
    of_production = options.hosts or options.galera or options.side or options.only
    if of_production and options.case != [production.FAMILY]:
        parser.error(f"--hosts, --galera, --side and --only go with the case {production.FAMILY} alone")
    if options.only and (missing := set(options.only) - set(production.names())):
        parser.error(
            f"no such request: {', '.join(sorted(missing))}; there are {', '.join(production.names())}"
        )
    return options


def _add_options_of_production(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(f"options of the case {production.FAMILY}")
    group.add_argument(
        "--hosts",
        type=_parse_hosts,
        nargs="+",
        metavar="N",
        help=f"sizes of the cloud (default: {' '.join(map(str, production.HOSTS))}); openstack-placement is"
        f" left out beyond {production.LARGEST_OF_REFERENCE} unless --side names it",
    )
    group.add_argument("--galera", action="store_true", help="use a Galera cluster of one node")
    group.add_argument("--side", choices=production.SIDES, help="measure this side only")
    group.add_argument(
        "--only", nargs="+", metavar="REQUEST", help=f"measure these only: {', '.join(production.names())}"
    )


def _parse_hosts(text: str) -> int:
    if not text.isdecimal() or int(text) < production.LEAST_HOSTS:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from {production.LEAST_HOSTS} on")
    return int(text)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
