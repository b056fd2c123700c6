# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.base: versions, names and exit statuses, for every command."""

import configparser
import io
import logging
import pathlib

import pytest
import yaml

from osc_placement import errors, microversion
from osc_placement.commands import base
from osc_placement.commands.tree import ShowTree
from osc_placement.terminal.screen import break_log_lines
from tests.unit.commands.shell import make, run
from tests.unit.commands.test_requests import load
from tests.unit.fake_placement import FakePlacement, error

UUID = "c0ffee00-0000-4000-8000-000000000001"


class Sample(base.Lister):
    """List samples, with names from {LIST_BY_TRAITS}."""

    minimum = microversion.TRAITS

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument("--number")
        self.add_option(parser, "--count", type=int, since=microversion.LIST_BY_TRAITS, help="How many.")
        self.add_option(parser, "--all", action="store_true", since=microversion.LIST_BY_TRAITS, help="All.")
        parser.add_argument(
            "--owner",
            required=base.required_when(self, lambda version: version >= microversion.LIST_BY_TRAITS),
        )
        parser.add_argument(
            "--type",
            required=base.required_when(
                self, lambda version: version >= microversion.CONSUMER_TYPES, asked=True
            ),
        )
        return parser

    def read_arguments(self, parsed_args):
        if parsed_args.number == "wrong":
            raise errors.UsageError("wrong number")

    def take_action(self, parsed_args):
        self.exit_status = 3
        return ("column",), [["row"]]


def test_exit_status_is_set_after_the_rows():
    """cliff itself always ends a command that prints with 0."""
    assert run(Sample, FakePlacement("1.6").client(), "-f value") == ("row\n", 3)


class Mixed(base.Lister):
    """List rows whose cells are of several types."""

    def take_action(self, parsed_args):
        rows = [["a", "", {"x": 2}], ["b", 9.5, {"x": 1}], ["c", 50, {}], ["d", None, {"x": 10}]]
        return ("name", "percent", "parts"), rows


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--sort-column percent", "bcad"),
        ("--sort-column Percent --sort-descending", "cbad"),
        ("--sort-column percent --sort-column name --sort-descending", "cbda"),
        ("--sort-column parts", "dbac"),
        ("--sort-column missing", "abcd"),
    ],
)
def test_rows_are_sorted_by_a_column_with_empty_cells_and_other_types(caplog, options, names):
    """Numbers are compared as numbers, and an empty cell is last in either direction."""
    output, _ = run(Mixed, FakePlacement().client(), f"-f value -c name {options}")
    assert ("".join(output.split()), caplog.records) == (names, [])


@pytest.mark.parametrize("api_version", ["1", "1.5"])
def test_a_command_below_its_minimum_does_nothing(api_version):
    """Neither where the operator chose the version nor where the server is old."""
    fake = FakePlacement("1.5")
    with pytest.raises(
        errors.VersionTooLow, match=r"version 1\.5.*; requires at least version 1\.6"
    ) as caught:
        run(Sample, fake.client(api_version=api_version))
    assert fake.lines == (["GET /"] if api_version == "1" else [])
    # that of the reference where the version was chosen
    assert ("the highest that this server speaks" in str(caught.value)) == (api_version == "1")


@pytest.mark.parametrize("line", ["--count 5", "--count 0", "--all"])
def test_an_option_below_its_minimum_is_refused(line):
    """A count of 0 is given as well."""
    with pytest.raises(errors.VersionTooLow, match=r"version 1\.17; requires at least version 1\.18"):
        run(Sample, FakePlacement().client(api_version="1.17"), line)


def test_invalid_argument_sends_no_request():
    """Arguments are read before a server is asked, even for its version."""
    fake = FakePlacement()
    with pytest.raises(errors.UsageError, match="wrong number"):
        run(Sample, fake.client(), "--owner x --number wrong")
    assert fake.asked == []


def test_a_version_that_was_chosen_is_checked_before_the_arguments():
    """Nobody needs to be asked for it."""
    with pytest.raises(errors.VersionTooLow):
        run(Sample, FakePlacement().client(api_version="1.5"), "--number wrong")


def test_the_help_text_names_the_minimum_versions(monkeypatch):
    """They are written once, in the code that checks them."""
    monkeypatch.setenv("COLUMNS", "200")
    text = " ".join(make(Sample).get_parser("openstack test").format_help().split())
    assert "List samples, with names from ``--os-placement-api-version 1.18``. This command requires" in text
    assert "This command requires at least ``--os-placement-api-version 1.6``." in text
    assert "How many. This option requires at least ``--os-placement-api-version 1.18``." in text
    assert "Exit status: 0 done; 1 not done" in text


def test_without_a_cloud_nothing_newer_is_required():
    """`openstack help` shows usage as of 1.0."""
    usage = make(Sample).get_parser("openstack test").format_usage()
    assert "[--owner OWNER]" in usage
    assert "[--type TYPE]" in usage


@pytest.mark.parametrize(
    ("servers", "api_version", "line", "missing"),
    [
        ("1.17", "1", "", None),
        ("1.18", "1", "", "--owner"),
        ("1.39", "1", "--owner x", None),
        ("1.39", "1.17", "", None),
        ("1.39", "1.18", "", "--owner"),
        ("1.39", "1.37", "--owner x", None),
        ("1.39", "1.38", "--owner x", "--type"),
    ],
)
def test_required_options_depend_on_the_version(capsys, servers, api_version, line, missing):
    """And with `asked` only on one that the operator asked for."""
    parser = make(Sample, FakePlacement(servers).client(api_version=api_version)).get_parser("openstack test")
    if missing is None:
        parser.parse_args(line.split())
        return
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(line.split())
    assert ended.value.code == 2
    assert f"the following arguments are required: {missing}\n" in capsys.readouterr().err


def test_version_is_negotiated_only_for_a_missing_option():
    """Only a missing option makes the difference."""
    fake = FakePlacement()
    make(Sample, fake.client()).get_parser("openstack test").parse_args(["--owner", "x", "--type", "y"])
    assert fake.asked == []


def test_a_uuid_is_not_looked_up():
    """It costs no request, and is in one spelling however it was typed."""
    fake = FakePlacement()
    spellings = [UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}"]
    assert {base.resolve_provider(fake.client(), text) for text in spellings} == {UUID}
    assert fake.asked == []


def test_a_name_is_looked_up_exactly():
    """The server compares the whole name."""
    provider = {"uuid": UUID, "name": "host 1", "generation": 1}
    fake = FakePlacement().on("GET", "/resource_providers", {"resource_providers": [provider]})
    assert base.resolve_provider(fake.client(api_version="1.0"), "host 1") == UUID
    assert fake.asked[0].query == [("name", "host 1")]


@pytest.mark.parametrize("name", ["host1", ""])
def test_unknown_name_is_a_one_line_error(name):
    """Also the empty name, which must not become any provider."""
    fake = FakePlacement().on("GET", "/resource_providers", {"resource_providers": []})
    with pytest.raises(errors.NameNotFound, match=f"No resource provider named '{name}' was found"):
        base.resolve_provider(fake.client(), name)


def test_similar_names_are_suggested_for_an_unknown_one():
    """They are asked for only if the name is not there."""
    names = ("compute-r4-01", "compute-r4-11", "compute-r4-21")
    hosts = [{"uuid": UUID, "name": name, "generation": 1} for name in names]
    mistyped = {"compute-r4-1": "compute-r4-01", "compte-r4-21": "compute-r4-21", "comp": " or ".join(names)}
    for name, guess in mistyped.items():
        answers = [{"resource_providers": found} for found in ([], hosts)]
        fake = FakePlacement().on("GET", "/resource_providers", *answers)
        with pytest.raises(errors.NameNotFound, match=rf" was found \(is it {guess}\?\); give "):
            base.resolve_provider(fake.client(), name)


@pytest.mark.parametrize(
    ("servers", "api_version", "version"),
    [("1.37", "1", None), ("1.39", "1", "1.37"), ("1.39", "1.39", None), ("1.39", "1.5", None)],
)
def test_negotiated_version_is_lowered_where_types_are_not_requested(servers, api_version, version):
    """A request whose meaning 1.38 changed is sent in 1.37 where 1.39 was only negotiated."""
    chosen = base.version_before_consumer_types(FakePlacement(servers).client(api_version=api_version))
    assert (str(chosen) if chosen else None) == version


@pytest.mark.parametrize(
    ("name", "answer", "is_advised"),
    [
        ("resource provider tree", error(403, "Policy does not allow it."), True),
        ("resource provider list", error(403, "Policy does not allow it."), False),
        ("resource provider tree", (403, "<html>Denied</html>"), False),
    ],
)
def test_refusal_of_the_policy_has_a_next_step(name, answer, is_advised):
    """Where the reference has the command, the text is its own; a page of a proxy has another advice."""
    fake = FakePlacement().on("GET", "/resource_providers", answer)
    command = make(load(name), fake.client())
    with pytest.raises(errors.PlacementError) as raised:
        command.run(command.get_parser("openstack test").parse_args([]))
    assert ("check which token is in use (openstack token issue)" in str(raised.value)) == is_advised


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


def test_error_and_warning_are_broken_between_words_on_a_terminal_only(monkeypatch):
    """A terminal would break them in the middle of a word; the file of --log-file has a line for each."""
    monkeypatch.setenv("COLUMNS", "40")
    terminal, file = Terminal(), io.StringIO()
    handlers = [logging.StreamHandler(stream) for stream in (terminal, file)]
    monkeypatch.setattr(logging.getLogger(), "handlers", handlers)
    fake = FakePlacement().on("GET", "/resource_providers", {"resource_providers": []})
    for _ in range(2):  # as commands of the interactive mode
        command = make(ShowTree, fake.client())
        with pytest.raises(errors.PlacementError) as raised:
            command.run(command.get_parser("openstack test").parse_args(["no-such-provider"]))
        logging.getLogger("shell").error(raised.value)
        command.warn("it is as long as this, so that it takes more than one line of a narrow terminal")
    lines, logged = terminal.getvalue().splitlines(), file.getvalue().splitlines()
    assert (len(logged), len(lines) > 4) == (4, True)
    assert logged[0] == str(raised.value)
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == " ".join(logged)


def test_traceback_is_whole_on_a_terminal(monkeypatch):
    """--debug shows it, and its lines are code."""
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    handler = logging.StreamHandler(terminal)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    break_log_lines()
    try:
        raise ValueError("longer than a line of the terminal")
    except ValueError as error:
        logging.getLogger("shell").exception(error)
    assert '    raise ValueError("longer than a line of the terminal")\n' in terminal.getvalue()


def test_error_without_usage_text_is_for_commands_that_the_reference_lacks():
    """Commands of the reference plugin keep the text; test_parity.py compares it with the reference."""
    root = pathlib.Path(__file__).parents[3]
    setup = configparser.ConfigParser()
    setup.read(root / "setup.cfg")
    entries = setup["options.entry_points"]["openstack.placement.v1"].strip().splitlines()
    commands = {entry.partition("=")[0].strip().replace("_", " ") for entry in entries}
    parity = yaml.safe_load((root / "tests/functional/commands/parity.yaml").read_text())
    assert commands - set(parity["commands"]) == {name for name in commands if load(name).example}


@pytest.mark.parametrize("program", ["openstack ", ""])
def test_error_of_a_command_line_is_two_lines(capsys, program):
    """Also in the interactive mode of openstack, where commands are named without it."""
    parser = make(ShowTree).get_parser(f"{program}resource provider tree")
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--nothing"])
    name = f"{program}resource provider tree"
    assert capsys.readouterr().err == (
        f"{name}: error: unrecognized arguments: --nothing\nSee: {name} --help\n"
    )
