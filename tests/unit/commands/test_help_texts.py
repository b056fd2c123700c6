# SPDX-License-Identifier: Apache-2.0
"""Help texts at 80 columns, of every command and of both programs."""

import argparse
import re
import shlex
from importlib.metadata import distribution

import pytest

from osc_placement.commands.base import BriefUsage
from osc_placement.server.main import make_parser as make_server_parser
from tests.migrate_parsers import make_parsers, read
from tests.unit.commands.shell import make
from tests.unit.commands.test_requests import load

COMMANDS = [
    point.name.replace("_", " ")
    for point in distribution("osc-placement").entry_points.select(group="openstack.placement.v1")
]
MIGRATE_PARSERS = make_parsers()
#: those that the reference plugin lacks
EXAMPLES = {name: example for name in COMMANDS if (example := load(name).example)}
#: a word that begins a sentence of a help text, after something that ends none
RUN_TOGETHER = re.compile(
    r"\S*[^\s.:;?!-] (?:This|These|That|The|May|With|Without|For|By|It|Exit|Requires|If|An?|All|Each|What|"
    r"Where|Only|Not|One|Of|In|To|Default) [^.]*"
)


def parsers_below(parser):
    """The parser of a program and those of all its commands, by their names."""
    yield parser.prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers_below(inner)


PARSERS = {
    **{name: make(load(name)).get_parser(f"openstack {name}") for name in COMMANDS},
    **MIGRATE_PARSERS,
    **dict(parsers_below(make_server_parser())),
}


def paragraphs_of(parser, text):
    """A description as it is shown."""
    formatter = parser._get_formatter()
    formatter.add_text(text)
    return formatter.format_help().split("\n\n")


@pytest.mark.parametrize("name", PARSERS)
def test_help_text_does_not_run_sentences_together(name, monkeypatch):
    """Neither two paragraphs of a description, nor two parts of the help for an option."""
    monkeypatch.setenv("COLUMNS", "80")
    parser = PARSERS[name]
    groups = [group.description for group in parser._action_groups]
    texts = [
        text
        for whole in (parser.description, parser.epilog, *groups)
        for text in paragraphs_of(parser, whole)
    ]
    texts += [action.help or "" for action in parser._actions]
    flat = [" ".join(text.split()) for text in texts]
    assert [found[0] for text in flat if (found := RUN_TOGETHER.search(text))] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_of_our_commands_begins_with_what_one_needs(name, monkeypatch):
    """A short usage and an example that the command takes; what a formatter takes comes last."""
    parser = PARSERS[name]
    monkeypatch.setenv("COLUMNS", "80")
    text = parser.format_help()
    assert max(map(len, text.split("\n"))) <= 80
    assert text.startswith(f"usage: openstack {name} [options]")
    before = text.partition("\npositional arguments:")[0]
    assert f"openstack {EXAMPLES[name]}" in re.sub(r" \\\n +", " ", before)
    parser.parse_args(shlex.split(EXAMPLES[name].removeprefix(name)))
    assert "==SUPPRESS==" not in text
    options, *_ = (place for place in (text.find("formatter options"), len(text)) if place >= 0)
    assert max(text.find("\n  --yes "), text.find("\n  --dry-run ")) < options
    if name.startswith("resource provider batch") and "\n  --yes " in text:
        # what to change, where, and whether to ask: about one screen
        assert text[: text.find("\n  --yes ")].count("\n") < 46
    assert "See: " not in text
    assert all(
        option in text for action in parser._actions for option in action.option_strings if shown(action)
    )


@pytest.mark.parametrize("name", [name for name in MIGRATE_PARSERS if " " in name])
def test_help_of_migrations_begins_with_what_one_needs(name, monkeypatch):
    """As that of our commands of `openstack`, and the options of formatters are last."""
    monkeypatch.setenv("COLUMNS", "80")
    text = MIGRATE_PARSERS[name].format_help()
    assert max(map(len, text.split("\n"))) <= 80
    assert text.startswith(f"usage: {name} [options]")
    example = re.search(r"For example:\n\n  (.+)\n", text)[1]
    assert example.startswith(name)
    assert read(example.split()[1:])
    places = [
        text.find(part) for part in ("For example:", "\nexecution:", "\noptions:", "\noutput formatters:")
    ]
    assert [place for place in places if place >= 0] == sorted(place for place in places if place >= 0)


def shown(action):
    """Whether help has an option."""
    return action.help != argparse.SUPPRESS


def test_usage_of_commands_of_the_reference_plugin_is_that_of_argparse():
    """Scripts may match what is printed before an error."""
    classes = {name: PARSERS[name].formatter_class for name in COMMANDS}
    assert {name for name, kind in classes.items() if issubclass(kind, BriefUsage)} == EXAMPLES.keys()
