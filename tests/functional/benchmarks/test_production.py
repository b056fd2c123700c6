# SPDX-License-Identifier: Apache-2.0
"""Every request of the production family is answered by both servers on database servers of their own."""

import pathlib
import shutil
import sys
from dataclasses import replace

import pytest

from benchmarks.case import Scale, Workspace
from benchmarks.cases import production
from benchmarks.database_servers import find_galera_library
from benchmarks.runner import run_case
from tests import databases

BINARIES = pathlib.Path(sys.executable).parent


def measure(tmp_path, choice):
    """The case in its quick form, with its result."""
    if shutil.which("mariadb-install-db") is None:
        databases.skip_or_fail("there is no mariadb-install-db (on Debian: install mariadb-server)")
    (case,) = production.make_cases(Scale(1000), choice)
    workspace = Workspace(tmp_path, ours=BINARIES, reference=BINARIES, bare=BINARIES)
    return case, run_case(replace(case, samples=1, warm_up=0), workspace, lambda line: None)


def check(case, measurement):
    """Every figure has a sample of this side, and processor time is that of all its parts."""
    assert measurement.left_out is None
    for figure in case.figures:
        samples = measurement.samples[figure.name]
        assert len(samples) >= 1
        parts = [measurement.samples[figure.part(part)][0] for part in figure.parts]
        # a server without work may not compute at all for a moment
        assert all(part > 0 or figure == production.IDLE for part in parts)
        assert not parts or sum(parts) == pytest.approx(samples[0])
        assert figure == production.FAILURES or min(samples) > 0


def test_both_servers_answer_every_request_of_production(tmp_path):
    """A request that is answered wrongly ends the run, so each one here was answered rightly."""
    databases.require_reference()
    case, result = measure(tmp_path, production.Choice(hosts=(1_000,)))
    check(case, result.reference)
    check(case, result.ours[0])
    assert result.ours[0].samples[production.FAILURES.name] == [0]
    assert result.reference.samples[production.FAILURES.name] == [0]


def test_production_is_measured_on_galera(tmp_path):
    """The one node of the cluster takes claims and other writes, and one side can be measured alone."""
    if find_galera_library() is None:
        databases.skip_or_fail("there is no libgalera_smm.so (on Debian: install galera-4)")
    only = ("candidates-10-claims", "put", "claim-8")
    choice = production.Choice(hosts=(1_000,), galera=True, side="ours", only=only)
    case, result = measure(tmp_path, choice)
    assert result.reference is None
    check(case, result.ours[0])
