# SPDX-License-Identifier: Apache-2.0
"""A case of the benchmarks from end to end: both servers, the same cloud in each, answers that agree."""

import pathlib
import sys
from dataclasses import replace

import pytest

from benchmarks import cases
from benchmarks.case import Scale, Workspace
from benchmarks.cases import shadow
from benchmarks.runner import run_case

BINARIES = pathlib.Path(sys.executable).parent


def test_quick_benchmark_of_a_shadow_loses_no_request(tmp_path):
    """The requests of a second are forwarded by a shadow of our server."""
    case = next(case for case in cases.make_all(Scale(1000)) if case.name == "shadow")
    workspace = Workspace(tmp_path, ours=BINARIES, reference=BINARIES, bare=BINARIES)
    result = run_case(replace(case, samples=1, warm_up=0), workspace, lambda line: None)
    samples = result.ours[0].samples
    assert samples[shadow.FAILURES.name] == [0]
    assert samples[shadow.THROUGH.name][0] > 0


@pytest.mark.parametrize("name", ["nested-sqlite", "web-layer"])
def test_quick_benchmark_gives_figures_for_both_servers(tmp_path, name):
    """Both servers start on a database filled without them, and answer what the case expects of them."""
    case = next(case for case in cases.make_all(Scale(1000)) if case.name == name)
    workspace = Workspace(tmp_path, ours=BINARIES, reference=BINARIES, bare=BINARIES)
    result = run_case(replace(case, samples=1, warm_up=0), workspace, lambda line: None)
    for measurement in (result.reference, *result.ours):
        for figure in case.figures:
            (milliseconds,) = measurement.samples[figure.name]
            assert milliseconds > 0
