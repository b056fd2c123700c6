# SPDX-License-Identifier: Apache-2.0
"""What the command line of `placement-migrate` refuses."""

import json
import subprocess
import sys

import pytest

from osc_placement.batch import journal
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Plan
from osc_placement.completion.main import main as completion_main
from osc_placement.migrate.main import main
from osc_placement.server.main import main as server_main
from tests.migrate_parsers import read

RUNS = [f"run {verb}" for verb in ("list", "show", "resume", "undo", "delete")]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
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
    ],
)
def test_wrong_choice_is_refused_in_one_line(arguments, reason, capsys):
    """The exit status is that of a wrong command line, and no cloud is asked."""
    assert main(arguments.split()) == 2
    assert capsys.readouterr() == ("", f"placement-migrate: {reason}\n")


@pytest.mark.parametrize(
    ("arguments", "command", "reason"),
    [
        (
            "status --watch 0",
            "placement-migrate status",
            "argument --watch: must be a number of seconds, at least 0.1, not '0'",
        ),
        ("run undo", "placement-migrate run undo", "one of the arguments <run> --last is required"),
        (
            "run resume ID --last",
            "placement-migrate run resume",
            "argument --last: not allowed with argument <run>",
        ),
        (
            "run delete",
            "placement-migrate run delete",
            "one of the arguments <run> --last --older-than is required",
        ),
        (
            "run delete ID --older-than 3",
            "placement-migrate run delete",
            "argument --older-than: not allowed with argument <run>",
        ),
        ("run", "placement-migrate", "give one of: run list, run show, run resume, run undo, run delete"),
        ("runs list", "placement-migrate", "there is no command runs list"),
        # what begins a name may begin two of them one day
        ("online", "placement-migrate", "there is no command online"),
        ("help runs", "placement-migrate", "there is no command runs"),
        ("flavors --frobnicate", "placement-migrate flavors", "unrecognized arguments: --frobnicate"),
        ("run list --frobnicate", "placement-migrate run list", "unrecognized arguments: --frobnicate"),
        ("--frobnicate flavors", "placement-migrate", "unrecognized arguments: --frobnicate"),
    ],
)
def test_what_cannot_be_read_is_told_with_the_help_of_its_command(arguments, command, reason, capsys):
    """The help of the program does not have the options of its commands."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert capsys.readouterr().err == f"{command}: error: {reason}\nSee: {command} --help\n"


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
    assert read(f"{access} {command}".split()) == read(f"{command} {access}".split())


def test_access_before_the_command_stays_when_there_is_some_after_it():
    """The later of two values counts, and files are read in the order in which they are given."""
    line = "--config-file a --source api --timeout 5 run --config-file b show --config-file c ID --timeout 6"
    options = read(line.split())
    assert (options["config_files"], options["source"], options["timeout"]) == (["a", "b", "c"], "api", 6)
    assert read(["status"])["config_files"] == []


def test_abbreviation_after_the_command_means_an_option_of_the_command():
    """Options of access are accepted there, and make no abbreviation ambiguous."""
    assert read(["mirror-aggregates", "--follow", "--int", "5"])["interval"] == 5
    assert read(["carry-ratios", "--conf", "min"])["conflict"] == "min"


def test_help_lists_the_commands_without_loading_them():
    """Of all, and of those that begin with the same word."""
    loaded = "import sys; from osc_placement.migrate.main import main\n"
    loaded += "try: main(['--help'])\nexcept SystemExit: pass\n"
    loaded += "print(*(name for name in sys.modules if name.startswith('osc_placement.migrate.migrations')))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    *told, modules = done.stdout.split("\n")[:-1]
    assert [line.split("  ")[1] for line in told if line.startswith(("  audit ", "  run "))] == [
        "audit",
        *RUNS,
    ]
    assert modules == ""


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
    assert main(["mirror-aggregates", *option.split()]) == 2
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
    assert (captured.out, hint) == ("", "--all-clouds lists 1 run of other clouds.")
    assert str(tmp_path / "nova.conf") in error
    assert main([*access, "run", "list", "--all-clouds", "-f", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
