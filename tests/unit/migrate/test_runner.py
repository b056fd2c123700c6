# SPDX-License-Identifier: Apache-2.0
"""Runs that migrations make, and those of others in the same directory."""

import pytest

from osc_placement.batch import journal
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import make_plan
from osc_placement.errors import PlacementError
from osc_placement.migrate import runner
from tests.unit.fake_placement import FakePlacement


@pytest.mark.parametrize("promise", ["atomic", "keeps_capacity"])
def test_promises_of_a_batch_run_are_not_dropped(tmp_path, promise):
    """It is refused with the command that keeps them, and its journal can be gone on with."""
    client = FakePlacement().client()
    plan = make_plan(TraitEdit("add", frozenset({"A"})), [])
    record = journal.create(client.endpoint, plan, directory=tmp_path, settings={promise: True})
    record.close()
    with pytest.raises(PlacementError, match=f"batch run resume {record.id}$"):
        runner.resume(client, record.id, runner.Execution(directory=tmp_path))
    journal.reopen(record.id, tmp_path)[1].close()
