# SPDX-License-Identifier: Apache-2.0
"""What `resource provider apply` says of a file before it talks to the server."""

import pytest

from osc_placement.commands import state
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
