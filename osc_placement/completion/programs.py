# SPDX-License-Identifier: Apache-2.0
"""The words that can follow in a command line of ``openstack`` or of one of our own programs."""

from __future__ import annotations

import argparse
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distribution
from types import SimpleNamespace
from typing import Any, Final

from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder

from osc_placement.completion.names import list_clouds
from osc_placement.completion.values import Access, FilesWanted, find_offer

#: exit statuses, which tell the shell what it has to add
EXIT_WHOLE: Final = 0
#: the words that others complete: the command is not ours, or may still become another
EXIT_OTHERS: Final = 3
EXIT_FILES: Final = 4

#: options of ``openstack`` without a value; those with one begin with ``--os-``
_FLAGS: Final = frozenset(
    ("-q", "--quiet", "-v", "--verbose", "--debug", "--insecure", "--os-beta-command", "--timing", "--verify")
)
_LOG_FILE: Final = "--log-file"
_CLOUD: Final = "--os-cloud"
#: the options with a value that are offered, of the hundred that there are
_OFFERED: Final = (
    _CLOUD,
    "--os-interface",
    "--os-placement-api-version",
    "--os-placement-timeout",
    "--os-region-name",
)
_SPECIAL: Final = re.compile(r"([^\w@%+=:,./-])")


@dataclass(frozen=True, slots=True)
class Answer:
    """Words with their descriptions, which may be empty, and the exit status."""

    words: Mapping[str, str] = field(default_factory=dict)
    status: int = EXIT_WHOLE


def complete(line: Sequence[str], text: str) -> Answer:
    """Return the words that begin with a text and can follow in a command line."""
    program, *arguments = line
    try:
        match os.path.basename(program):
            case "placement-migrate":
                return _complete_migrate(arguments, text)
            case "placement-server":
                from osc_placement.server.main import make_parser as make_server_parser

                return Answer(_complete_arguments("", make_server_parser(), arguments, text))
            case _:
                # or an alias
                return _complete_openstack(arguments, text)
    except FilesWanted:
        return Answer(status=EXIT_FILES)


def _complete_openstack(arguments: Sequence[str], text: str) -> Answer:
    rest, access, waiting = _take_global_options(
        arguments, lambda name: name == _LOG_FILE or (name.startswith("--os-") and name not in _FLAGS)
    )
    access.pop(_LOG_FILE, None)
    if waiting:
        return Answer(_choose(dict.fromkeys(list_clouds() if waiting == _CLOUD else (), ""), text))
    points = distribution("osc-placement").entry_points.select(group="openstack.placement.v1")
    commands = {tuple(point.name.split("_")): point.attr for point in points}

    def make_parser(command: tuple[str, ...]) -> argparse.ArgumentParser:
        # PERF: the module of a command takes 0.2 s to load, and the words of commands need none
        from osc_placement.commands.deferred import find

        app: Any = SimpleNamespace(client_manager=SimpleNamespace())
        return find(*commands[command].split("."))(app, None).get_parser("openstack")

    options = dict.fromkeys(_OFFERED, "")
    return _complete_command(dict.fromkeys(commands, ""), make_parser, rest, text, options, access)


def _complete_migrate(arguments: Sequence[str], text: str) -> Answer:
    from osc_placement.migrate.main import COMMANDS, Application

    app = Application()
    # every command accepts these, and its help does not list them
    options = {name: action for action in app.parser._actions for name in action.option_strings}
    rest, access, waiting = _take_global_options(
        arguments, lambda name: name in options and options[name].nargs is None
    )
    if waiting:
        return Answer(_complete_arguments("", app.parser, [waiting], text))
    commands = {tuple(name.split()): told for name, (_, told) in COMMANDS.items()}
    cloud = {_CLOUD: access[_CLOUD]} if _CLOUD in access else None
    answer = _complete_command(
        commands,
        lambda command: app.find_command([*command])[0].get_parser(" ".join(command)),
        rest,
        text,
        {name: action.help or "" for name, action in options.items()},
        cloud,
    )
    return Answer(answer.words)


def _complete_command(
    commands: Mapping[tuple[str, ...], str],
    make_parser: Callable[[tuple[str, ...]], argparse.ArgumentParser],
    rest: Sequence[str],
    text: str,
    options: Mapping[str, str],
    access: Access,
) -> Answer:
    """Return the words that can follow in a command line of a program with many commands.

    :param commands: their words, with a description
    :param rest: the command line without the options that all commands have
    :param options: these, with a description; they are offered if they are asked for
    """
    options = _choose(options, text) if text.startswith("-") else {}
    command = next((words for words in commands if words == tuple(rest[: len(words)])), None)
    if command is not None:
        parser = make_parser(command)
        found = _complete_arguments(" ".join(command), parser, rest[len(command) :], text, access)
        return Answer({**found, **options})
    given = tuple(rest[1:] if rest[:1] == ["help"] else rest)
    following = {
        words[len(given)]: told if words[:-1] == given else ""
        for words, told in commands.items()
        if words[: len(given)] == given != words
    }
    # no other command begins with a word that begins one of ours
    status = EXIT_WHOLE if given and given[0] in {words[0] for words in commands} else EXIT_OTHERS
    return Answer({**_choose(following, text), **options}, status)


def _choose(words: Mapping[str, str], text: str) -> dict[str, str]:
    return {word: words[word] for word in sorted(words) if word.startswith(text)}


def _take_global_options(
    arguments: Sequence[str], takes_value: Callable[[str], bool]
) -> tuple[list[str], dict[str, str], str]:
    """Return the arguments without the options of the program, which may stand anywhere, and these options.

    The third value is the option whose value is missing at the end, or empty.
    """
    rest, access, waiting = [], {}, ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if waiting:
            access[waiting] = argument
            waiting = ""
        elif takes_value(name):
            if equals:
                access[name] = value
            else:
                waiting = name
        elif argument not in _FLAGS:
            rest.append(argument)
    return rest, access, waiting


class _Finder(CompletionFinder):
    """Finds words by means of a parser, and leaves them as they are."""

    def quote_completions(
        self, completions: list[str], cword_prequote: str, last_wordbreak_pos: int | None
    ) -> list[str]:
        self.found = {word: self.get_display_completions().get(word) or "" for word in completions}
        return completions

    def _init_debug_stream(self) -> None:
        """Leave descriptor 9 alone, which may be somebody else's."""


def _complete_arguments(
    command: str,
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    text: str,
    access: Access = None,
) -> Mapping[str, str]:
    """Return the words that a parser can read next; options if asked for, or if there is nothing else."""
    for action in _list_actions(parser):
        offer = find_offer(command, action)
        if offer and not action.choices:
            # argcomplete reads this attribute
            action.completer = _Completer(offer, access)  # type: ignore[attr-defined]
    line = " ".join(_SPECIAL.sub(r"\\\1", word) for word in ("program", *arguments, text))
    os.environ.update(_ARGCOMPLETE="1", COMP_LINE=line, COMP_POINT=str(len(line)))
    os.environ.pop("_ARGCOMPLETE_COMP_WORDBREAKS", None)
    finder = _Finder()
    for with_options in (False, True):
        finder(
            parser,
            always_complete_options=with_options,
            exit_method=lambda _status: None,
            output_stream=io.StringIO(),
            default_completer=SuppressCompleter(),
        )
        if finder.found or text:
            break
    return finder.found


def _list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _list_actions(inner)


class _Completer:
    """An offer as argcomplete calls it."""

    def __init__(self, offer: Any, access: Access) -> None:
        self._offer = offer
        self._access = access

    def __call__(self, prefix: str, **_: Any) -> list[str]:
        return list(self._offer(self._access, prefix))
