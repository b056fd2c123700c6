# SPDX-License-Identifier: Apache-2.0
"""What the command line of `placement-migrate` refuses."""

import json
import re
import sys

import pytest

from osc_placement.batch import journal
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Plan
from osc_placement.completion.main import main as completion_main
from osc_placement.migrate.main import main, make_parser, parse
from osc_placement.server.main import main as server_main


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("run undo", "Give either the ID of a run or --last"),
        ("run resume ID --last", "Give either the ID of a run or --last"),
        ("run delete", "Give either IDs of runs, --last or --older-than"),
        ("run delete ID --older-than 3", "Give either IDs of runs, --last or --older-than"),
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
    command = re.search(r"(?:^| )((?:run )?[a-z]+(?:-[a-z]+)*)(?= |$)", arguments.split("//no/x")[-1])[1]
    assert error == f"placement-migrate {command}: error: {reason}"
    assert hint == f"See: placement-migrate {command} --help"


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ("flavors --frobnicate", "placement-migrate flavors"),
        ("run list --frobnicate", "placement-migrate run list"),
        ("--frobnicate flavors", "placement-migrate"),
    ],
)
def test_unknown_option_is_told_with_the_help_of_its_command(arguments, command, capsys):
    """The help of the program does not have the options of its commands."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert capsys.readouterr().err == (
        f"{command}: error: unrecognized arguments: --frobnicate\nSee: {command} --help\n"
    )


ACCESS = [
    "--config-file a",
    "--config-file a --config-file b --nova-api-db sqlite:// --source api --nova-endpoint http://nova",
    "--nova-token t --os-cloud c --placement-endpoint http://p --placement-token u --timeout 5",
    "--ironic-endpoint http://i --neutron-db sqlite:// --neutron-endpoint http://n --glance-endpoint http://g",
]


@pytest.mark.parametrize("command", ["heal-allocations", "decommission compute1", "run show ID"])
@pytest.mark.parametrize("access", ACCESS)
def test_access_is_accepted_before_and_after_the_command(command, access):
    """It means the same there."""
    before, after = (vars(parse(words.split())) for words in (f"{access} {command}", f"{command} {access}"))
    for options in (before, after):
        options.pop("parser")
        for name in ("command_config_file", "action_config_file"):
            options.pop(name, None)
    assert before == after


def test_access_before_the_command_stays_when_there_is_some_after_it():
    """The later of two values counts, and files are read in the order in which they are given."""
    line = "--config-file a --source api --timeout 5 run --config-file b show --config-file c ID --timeout 6"
    options = parse(line.split())
    assert (options.config_file, options.source, options.timeout) == (["a", "b", "c"], "api", 6)
    assert parse(["status"]).config_file == []


def test_abbreviation_after_the_command_means_an_option_of_the_command():
    """Options of access are accepted there, and make no abbreviation ambiguous."""
    assert parse(["mirror-aggregates", "--follow", "--int", "5"]).interval == 5
    assert make_parser().parse_args(["carry-ratios", "--conf", "min"]).conflict == "min"


@pytest.mark.parametrize("command", ["heal-allocations", "flavors", "run", "run list"])
def test_help_of_a_command_says_where_the_options_of_access_are(command, capsys):
    """They are explained once, in the help of the program."""
    with pytest.raises(SystemExit, match="0"):
        main([*command.split(), "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "--config-file, --neutron-db and the other options that 'placement-migrate --help' explains" in text
    )


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (main, "--config-file /nonexistent/nova-with-a-name.conf move-baremetel"),
        (main, "heal-allocations --throttle 2 /nonexistent/directory/of/somebody/nova-with-a-name.conf"),
        (server_main, "db sink /nonexistent/directory/of/somebody/placement-with-a-name.conf"),
        (completion_main, ["/nonexistent/directory/of/somebody/else"]),
    ],
)
def test_wrong_command_line_is_told_in_whole_words_on_a_terminal(program, line, monkeypatch, capsys):
    """The terminal would break it in the middle of a word; a pipe gets one line."""
    arguments = line if isinstance(line, list) else line.split()
    monkeypatch.setenv("COLUMNS", "40")

    def read_error():
        with pytest.raises(SystemExit, match="2"):
            program(arguments)
        *error, _hint = capsys.readouterr().err.splitlines()
        return error

    (whole,) = read_error()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    lines = read_error()
    assert " ".join(lines) == whole
    assert all(len(each) <= 40 or " " not in each for each in lines)
    assert len(lines) > 1


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
    journal.Journals().create("http://placement.test", Plan(TraitEdit("add", frozenset({"A"})), ())).close()
    assert main([*access, "run", "list"]) == 1
    captured = capsys.readouterr()
    hint, error = captured.err.splitlines()
    assert (captured.out, hint) == ("", "placement-migrate: --all-clouds lists 1 run of other clouds.")
    assert str(tmp_path / "nova.conf") in error
    assert main([*access, "run", "list", "--all-clouds", "-f", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1
