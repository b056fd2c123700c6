# SPDX-License-Identifier: Apache-2.0
"""The directive ``argparse-commands``: a section for each command of a program that argparse parses."""

import argparse
import importlib
import re

from docutils import nodes, statemachine
from docutils.parsers.rst import Directive


def _list_commands(parser):
    """Yield the parsers that need no command below them, in the order of the help."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not any(group.required for group in groups):
        yield parser
    for group in groups:
        for inner in group.choices.values():
            yield from _list_commands(inner)


def _escape(text):
    """Return plain text as reStructuredText, in which words with special characters are literal."""
    return re.sub(r"[\w.-]*[*`|_\\][\w.*`|\\-]*", r"``\g<0>``", text)


def _describe(parser):
    """Yield the lines of a command: what it does, its usage, its arguments and its exit statuses."""
    # as wide as on a terminal of 80 columns, on every terminal
    formatter = argparse.HelpFormatter(parser.prog, width=78)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    yield from (_escape(parser.description or ""), "", ".. code-block:: none", "")
    yield from (f"   {line}" for line in formatter.format_help().splitlines())
    yield from ("", f".. program:: {parser.prog}", "")
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(
            action, argparse._HelpAction | argparse._SubParsersAction
        ):
            continue
        value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        names = ", ".join(f"{name} {value}".strip() for name in action.option_strings) or action.dest
        yield from (f".. option:: {names}", "", f"   {_escape(formatter._expand_help(action))}", "")
    yield from (_escape(parser.epilog or ""), "")


class ArgparseCommands(Directive):
    """The commands of the parser that a function returns."""

    required_arguments = 1

    def run(self):
        """Return a section for each command."""
        module, _, function = self.arguments[0].rpartition(".")
        sections = []
        for parser in _list_commands(getattr(importlib.import_module(module), function)()):
            section = nodes.section("", nodes.title(text=parser.prog), ids=[nodes.make_id(parser.prog)])
            lines = statemachine.StringList(list(_describe(parser)), parser.prog)
            self.state.nested_parse(lines, 0, section)
            sections.append(section)
        return sections


def setup(app):
    """Register the directive."""
    app.add_directive("argparse-commands", ArgparseCommands)
    return {"parallel_read_safe": True}
