# SPDX-License-Identifier: Apache-2.0
"""Whatever a proxy puts in place of an answer, no command says more than is known."""

import random

import pytest

from tests import databases
from tests.reliability import faults, scale
from tests.reliability.differential import sides

#: faults at each side in the short form
SHORT = 18
SHORT_OF_MIGRATIONS = 4


@pytest.fixture
def _state(monkeypatch):
    """Have what is put into the environment taken out again."""
    for name in ("XDG_STATE_HOME", "OS_OSLO_POLICY__POLICY_FILE"):
        monkeypatch.setenv(name, "")


@pytest.mark.usefixtures("_state")
@pytest.mark.parametrize("kind", [sides.Ours, sides.Reference])
def test_commands_report_no_wrong_outcome_after_faults(kind, tmp_path):
    """The faults are error pages, cut answers and broken connections, before and after the effect."""
    if kind is sides.Reference:
        databases.require_reference()
    number = sum(1 for _ in scale.rounds(SHORT))
    with faults.opened(kind, tmp_path) as bench:
        assert faults.hunt(bench, random.Random(18), number) == []


@pytest.mark.usefixtures("_state")
def test_migrations_report_no_wrong_outcome_after_faults(tmp_path):
    """The same faults are injected for `placement-migrate`, whose nova works all the time."""
    number = sum(1 for _ in scale.rounds(SHORT_OF_MIGRATIONS))
    with faults.opened(sides.Ours, tmp_path, with_nova=True) as bench:
        assert faults.hunt(bench, random.Random(18), number, faults.MIGRATIONS) == []
