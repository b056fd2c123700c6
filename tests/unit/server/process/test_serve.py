# SPDX-License-Identifier: Apache-2.0
"""What `placement-server serve` prints."""

import sys

from osc_placement.server.process.serve import tell_ready

FACTS = "database sqlite:////var/lib/placement/placement.db, noauth2, 2 workers"


def test_address_of_a_ready_server_is_whole_on_a_terminal(monkeypatch, capsys):
    """A script reads one line; on a terminal lines end between words."""
    line = f"placement-server: ready at http://127.0.0.1:8778 ({FACTS})"
    tell_ready("http://127.0.0.1:8778", FACTS)
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    tell_ready("http://127.0.0.1:8778", FACTS)
    lines = capsys.readouterr().out.splitlines()
    assert (max(map(len, lines)) <= 60, " ".join(lines)) == (True, line)
