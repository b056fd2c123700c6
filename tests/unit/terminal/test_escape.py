# SPDX-License-Identifier: Apache-2.0
"""Names that would repaint a terminal: spelled out to people, whole to machines and to pipes."""

import io
import json
import sys
import unicodedata
from types import SimpleNamespace

import pytest
import yaml
from cliff.columns import FormattableColumn

from osc_placement.candidates.cloud import CloudView
from osc_placement.commands import base
from osc_placement.commands.tree import _as_yaml
from osc_placement.errors import PlacementError
from osc_placement.migrate.commands import StatusCommand
from osc_placement.migrate.main import Application
from osc_placement.migrate.tool import explain
from osc_placement.model import Provider, ProviderRecord
from osc_placement.state.document import Document, ProviderEntry
from osc_placement.state.text import format_document, parse_text
from osc_placement.terminal import tables
from osc_placement.terminal.confirmation import ConfirmedCommand
from osc_placement.terminal.escape import printable
from osc_placement.terminal.progress import ProgressBar

EVIL = "a\x1b[2J\x07\u202eb\x9bc\u2066\rd"
SHOWN = printable(EVIL)


class Stream(io.StringIO):
    """A terminal, or not."""

    def __init__(self, *, is_terminal):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal


class Nested(FormattableColumn):
    """Lines to people, a list to machines."""

    def human_readable(self):
        return "\n".join(self._value)


class ListNames(base.Lister):
    """Lists a name."""

    def take_action(self, _parsed_args):
        return ("name", "column", "number"), [(EVIL, Nested([EVIL, "z"]), 7)]


class ShowName(base.ShowOne):
    """Shows a name."""

    def take_action(self, _parsed_args):
        return ("name", "column", "number"), (EVIL, Nested([EVIL, "z"]), 7)


class Refuse(base.PlacementCommand):
    """Fails with a name."""

    def take_action(self, _parsed_args):
        raise PlacementError(f"{EVIL} is away")


def print_with(kind, formatter, *, is_terminal):
    """What a command prints."""
    app = SimpleNamespace(
        stdout=Stream(is_terminal=is_terminal),
        stderr=sys.stderr,
        client_manager=SimpleNamespace(
            placement=SimpleNamespace(negotiates=False, writes=0, endpoint="http://x")
        ),
    )
    command = kind(app, None)
    command.run(command.get_parser("x").parse_args(["-f", formatter]))
    return app.stdout.getvalue()


def is_harmless(text):
    """Whether a terminal shows the lines of a text as they are."""
    return text.replace("\n", "").isprintable()


def test_all_characters_that_control_or_turn_round_are_spelled_out():
    """Whatever Unicode has of them."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        if unicodedata.category(letter) in kinds:
            assert printable(letter).isascii(), hex(number)
            assert is_harmless(printable(letter))


@pytest.mark.parametrize("kind", [ListNames, ShowName])
@pytest.mark.parametrize(("formatter", "is_terminal"), [("table", True), ("table", False), ("value", True)])
def test_tables_escape_control_characters(kind, formatter, is_terminal):
    """In every table, and in bare values on a terminal."""
    text = print_with(kind, formatter, is_terminal=is_terminal)
    assert is_harmless(text)
    assert SHOWN in text
    if formatter == "table":
        assert len({len(line) for line in text.splitlines()}) == 1


@pytest.mark.parametrize("kind", [ListNames, ShowName])
def test_a_pipe_gets_bare_values_as_they_are(kind):
    """Byte for byte, as a script needs a name that it goes on with."""
    assert EVIL in print_with(kind, "value", is_terminal=False)


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize(("formatter", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_machine_formats_keep_names_complete(formatter, load, is_terminal):
    """As escapes of their format, which no terminal obeys."""
    text = print_with(ListNames, formatter, is_terminal=is_terminal)
    assert is_harmless(text)
    assert load(text) == [{"name": EVIL, "column": [EVIL, "z"], "number": 7}]


def test_tree_as_yaml_is_complete_and_escaped():
    """Also where a letter that turns others round is all there is."""
    name = "a\u202eb"
    (text,) = _as_yaml(CloudView([ProviderRecord(Provider("u", name, 1))]))
    assert is_harmless(text)
    assert name in json.dumps(yaml.safe_load(text), ensure_ascii=False)
    (text,) = _as_yaml(CloudView([ProviderRecord(Provider("u", "hôte", 1))]))
    assert "hôte" in text


def test_an_error_a_question_and_a_line_of_progress_are_harmless():
    """What is not in a table goes through the same function."""
    app = SimpleNamespace(
        stdout=None,
        stdin=io.StringIO("n\n"),
        stderr=Stream(is_terminal=True),
        client_manager=SimpleNamespace(
            placement=SimpleNamespace(negotiates=False, writes=0, endpoint="http://x")
        ),
    )
    command = Refuse(app, None)
    with pytest.raises(PlacementError) as caught:
        command.run(command.get_parser("x").parse_args([]))
    assert str(caught.value) == f"{SHOWN} is away"
    with pytest.raises(PlacementError, match="not confirmed"):
        ConfirmedCommand.confirm(command, f"Change {EVIL}?")
    with ProgressBar("x", 1, app.stderr) as progress:
        progress.say(EVIL)
    assert is_harmless(app.stderr.getvalue())
    assert app.stderr.getvalue().count(SHOWN) == 2


def test_what_placement_migrate_prints_is_harmless(capsys):
    """Tables, lines and errors; JSON has the name whole."""
    row = {"uuid": "u", "name": EVIL, "before": [EVIL, "x"]}
    table = tables.format_table(("uuid", "name", "before"), [row])
    command = StatusCommand(Application(), None)
    command.options = command.get_parser("x").parse_args([])
    command.show(dict, lambda: [table, f"Run of {EVIL}"])
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert out.count(SHOWN) == 3
    command.options = command.get_parser("x").parse_args(["-f", "json"])
    command.show(lambda: {"rows": [row]}, list)
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert json.loads(out) == {"rows": [row]}
    assert is_harmless(explain(PlacementError(f"no {EVIL}")))


@pytest.mark.parametrize("name", ["a\u202eb", EVIL, "hôte"])
def test_a_state_file_is_whole_and_harmless(name):
    """Letters of other languages stay as they are."""
    document = Document(providers=(ProviderEntry(name),))
    text = "".join(format_document(document))
    assert is_harmless(text)
    assert (name in text) == name.isprintable()
    assert parse_text(text, "the file") == document
