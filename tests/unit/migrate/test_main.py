# SPDX-License-Identifier: Apache-2.0
"""What the command line of `placement-migrate` refuses."""

import pytest

from osc_placement.migrate.main import main


@pytest.mark.parametrize("command", ["ratios", "baremetal"])
def test_nova_exit_codes_are_refused_for_commands_nova_manage_lacks(command, capsys):
    """Its exit codes are for the commands that it has."""
    with pytest.raises(SystemExit, match="2"):
        main([command, "--nova-exit-codes"])
    assert "unrecognized arguments: --nova-exit-codes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--interval 5", "--notifications", "--notifications rabbit://x", "--notifications-topic t"]
)
def test_options_of_follow_are_refused_without_follow(option, capsys):
    """Who gives it and forgets --follow would wait for a mirror that has ended."""
    with pytest.raises(SystemExit, match="2"):
        main(["aggregates", *option.split()])
    assert f"{option.split()[0]} can be used with --follow only" in capsys.readouterr().err
