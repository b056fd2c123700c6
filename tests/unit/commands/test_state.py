# SPDX-License-Identifier: Apache-2.0
"""What `resource provider apply` says of a file before it talks to the server."""

from dataclasses import replace

import pytest

from osc_placement.batch.journal.file import Journal
from osc_placement.batch.journal.run import JournalError
from osc_placement.commands import state
from osc_placement.state.document import Document
from osc_placement.state.plan import Current, plan_apply, plan_run
from tests.unit.commands.shell import make
from tests.unit.fake_placement import FakePlacement


def test_ctrl_c_while_the_file_is_read_changes_nothing(monkeypatch):
    """A large file takes seconds, and who ends that wants to know what was done."""

    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(state, "parse_text", interrupt)
    monkeypatch.setattr(state, "read_file", lambda *_arguments: "{}")
    fake = FakePlacement()
    command = make(state.ApplyState, fake.client())
    with pytest.raises(KeyboardInterrupt):
        command.run(command.get_parser("openstack").parse_args(["-f", "cloud.yaml"]))
    assert command.app.stderr.getvalue() == "Interrupted; nothing was changed.\n"
    assert fake.asked == []


def fail_to_record(*_arguments):
    raise JournalError("no space left on device")


def fail_at_the_end(_journal, report):
    return replace(report, halted="no space left on device")


@pytest.mark.parametrize(
    ("method", "fail", "counts", "last"),
    [
        ("end", fail_to_record, "traits: 1 created, 1 skipped\n", "Some changes were not made; run the same"),
        ("end_sitting", fail_at_the_end, "traits: 2 created\n", "Run 20"),
    ],
)
def test_an_apply_whose_journal_cannot_be_written_says_so(monkeypatch, tmp_path, method, fail, counts, last):
    """The status is not that of an interruption, and what was made is not said to be missing."""
    plan = plan_apply(Document(traits=("CUSTOM_A", "CUSTOM_B")), Current())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(Journal, method, fail)
    monkeypatch.setattr(state, "read_file", lambda *_arguments: "version: 1\nproviders: []\n")
    monkeypatch.setattr(state.ApplyState, "_make_plan", lambda *_arguments: (plan, plan_run(plan, "apply")))
    fake = FakePlacement().on("PUT", "/traits/CUSTOM_A", (201, "")).on("PUT", "/traits/CUSTOM_B", (201, ""))
    command = make(state.ApplyState, fake.client())
    line = ["-f", "cloud.yaml", "--concurrency", "1"]
    status = command.run(command.get_parser("openstack").parse_args(line))
    assert (status, command.app.stdout.getvalue()) == (3, counts)
    told = command.app.stderr.getvalue().splitlines()
    assert told[0].endswith("no space left on device")
    assert told[-1].startswith(last)
