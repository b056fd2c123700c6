# SPDX-License-Identifier: Apache-2.0
"""What the command line of `placement-migrate` refuses."""

import json
import re

import pytest

from osc_placement.batch import journal
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Plan
from osc_placement.migrate.main import main, make_parser
from osc_placement.migrate.migrations import registry

OLD_NAMES = {
    "aggregates": "mirror-aggregates",
    "mirror_aggregates": "mirror-aggregates",
    "ratios": "carry-ratios",
    "carry_ratios": "carry-ratios",
    "baremetal": "move-baremetal",
    "move_baremetal": "move-baremetal",
    "allocations": "heal-allocations",
    "heal_allocations": "heal-allocations",
}


@pytest.mark.parametrize("old", OLD_NAMES)
def test_old_name_of_a_migration_is_accepted(old):
    """The command is that of the present name."""
    parser = make_parser()
    assert parser.parse_args([old]) == parser.parse_args([OLD_NAMES[old]])


def test_help_and_errors_show_the_present_names_only(capsys):
    """The migrations have the names that `openstack placement migration` knows."""
    for arguments in (["--help"], ["nonsense"]):
        with pytest.raises(SystemExit):
            main(arguments)
    captured = capsys.readouterr()
    for names in (re.findall(r"(?m)^    (\S+)", captured.out), re.findall(r"'(\S+)'", captured.err)):
        assert registry.BY_NAME.keys() <= set(names)
        assert OLD_NAMES.keys().isdisjoint(names)


def test_old_name_of_the_commands_on_runs_is_accepted():
    """They were called `runs`, and are called `run` as those of batches are."""
    parser = make_parser()
    assert parser.parse_args(["runs", "undo", "ID"]) == parser.parse_args(["run", "undo", "ID"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("run undo", "Give either the ID of a run or --last"),
        ("run resume ID --last", "Give either the ID of a run or --last"),
        ("run delete", "Give either IDs of runs or --older-than"),
        ("run delete ID --older-than 3", "Give either IDs of runs or --older-than"),
        ("heal-allocations --rate 5", "argument --rate: this option is called --throttle"),
        ("status --watch 2", "--watch needs a terminal as standard output; leave it out to read once"),
        (
            "run show ID --watch 2 -f json",
            "--watch cannot be used with -f json; it shows what a terminal shows",
        ),
        (
            "heal-allocations --write-neutron-db",
            "--write-neutron-db needs --neutron-db, which names the database to write to",
        ),
        (
            "--neutron-db sqlite:////no/x heal-allocations --write-neutron-db --skip-port-allocations",
            "--write-neutron-db cannot be used with --skip-port-allocations, which leaves ports alone",
        ),
        ("status --watch 0", "argument --watch: must be a number of seconds, at least 0.1, not '0'"),
    ],
)
def test_wrong_choice_is_refused_without_the_usage_text(arguments, reason, capsys):
    """The exit status is that of a wrong command line, no cloud is asked, and a hint at the help follows."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    error, hint = capsys.readouterr().err.splitlines()
    assert error.endswith(f": error: {reason}")
    assert hint.startswith("See: placement-migrate ")


@pytest.mark.parametrize("command", ["carry-ratios", "move-baremetal"])
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
        main(["mirror-aggregates", *option.split()])
    assert f"{option.split()[0]} can be used with --follow only" in capsys.readouterr().err


def test_list_without_nova_conf_mentions_the_runs_of_all_clouds(tmp_path, monkeypatch, capsys):
    """The list for all clouds needs no address of placement."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    access = ["--config-file", str(tmp_path / "nova.conf")]
    assert main([*access, "run", "list"]) == 1
    assert "--all-clouds" not in capsys.readouterr().err
    journal.create("http://placement.test", Plan(TraitEdit("add", frozenset({"A"})), ())).close()
    assert main([*access, "run", "list"]) == 1
    captured = capsys.readouterr()
    hint, error = captured.err.splitlines()
    assert (captured.out, hint) == ("", "placement-migrate: --all-clouds lists 1 run of other clouds.")
    assert str(tmp_path / "nova.conf") in error
    assert main([*access, "run", "list", "--all-clouds", "-f", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1
