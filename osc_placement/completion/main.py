# SPDX-License-Identifier: Apache-2.0
"""The console script ``placement-completion``: print the code for a shell, and answer what that code asks."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from osc_placement.package import BriefParser

SHELLS: Final = ("bash", "zsh")
#: begins the command lines that the code for the shells calls
_ASK: Final = "--complete"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == [_ASK]:
        if words[1] == "bash":
            return _answer_bash(*words[2:])
        # unquoted, each with its description after a tab
        from osc_placement.completion import programs

        *line, text = words[2:]
        answer = programs.complete(line, text)
        for word, description in answer.words.items():
            print(f"{word}\t{' '.join(description.split())}")
        return answer.status
    shell = make_parser().parse_args(words).shell
    code = files(__package__).joinpath(f"completion.{shell}").read_text("utf-8")
    # by its whole path, as another environment may be active when it is called
    print(code.replace("@PROGRAM@", shlex.quote(os.path.abspath(sys.argv[0]))), end="")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = BriefParser(
        prog="placement-completion",
        description="Print the code with which a shell completes placement-server, placement-migrate and "
        "the placement commands of openstack, with the names that the cloud has.",
        epilog="Add one line to ~/.bashrc: source <(placement-completion bash), or to ~/.zshrc: "
        "source <(placement-completion zsh).",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the code")
    return parser


def _answer_bash(line: str, point: str, word_breaks: str) -> int:
    """Print the completions of a line at a point, quoted as what is typed there, and without what bash keeps.

    Bash replaces the text after the last of the characters in ``word_breaks``.
    """
    from argcomplete.lexers import split_line

    from osc_placement.completion import programs

    os.environ["_ARGCOMPLETE_COMP_WORDBREAKS"] = word_breaks
    quote, text, _suffix, words, last_break = split_line(line, int(point))
    answer = programs.complete(words, text)
    # of the characters that break words, only @ begins the text that is replaced
    kept = 0 if last_break is None else last_break + (text[last_break] != "@")
    quoted = [_quote(word, quote, kept) for word in answer.words]
    if quote and len(quoted) == 1 and quoted[0].endswith(quote):
        # readline takes the last character for the closing quote, and adds none
        quoted[0] += quote
    print(*quoted, sep="\n")
    return answer.status


def _quote(word: str, quote: str, kept: int) -> str:
    """Return a word as it has to follow in a command line of bash, after a quote or none."""
    if quote == "'":
        return word.replace("'", "'\\''")
    if quote == '"':
        # nothing quotes an exclamation mark within double quotes
        return re.sub(r'([\\"`$])', r"\\\1", word).replace("!", "\"'!'\"")
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", word[kept:])
