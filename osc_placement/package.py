# SPDX-License-Identifier: Apache-2.0
"""What all programs of this package share: the version, errors of command lines and settings, and more."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TextIO

#: the status of a program that SIGPIPE ended
EXIT_CLOSED_PIPE: Final = 128 + signal.SIGPIPE

#: the extra with a driver for each kind of database, and the name of that driver
_EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "mysql": ("mysql", "pymysql"),
    "mariadb": ("mysql", "pymysql"),
    "postgresql": ("postgresql", "psycopg2"),
}


#: how oslo.config and Python tell a wrong value
_WRONG_VALUE: Final = re.compile(
    r"Value for option (?P<name>\S+) from LocationInfo\(.*?, detail='(?P<place>.*?)'\) is not valid: "
)
_WRONG_NUMBERS: Final = {
    re.compile(r"invalid literal for int\(\) with base 10: ('.*?')"): r"\1 is no whole number",
    re.compile(r"could not convert string to float: ('.*?')"): r"\1 is no number",
}


class ShowVersion(argparse.Action):
    """The action of ``--version``, which reads the version only when it is asked for."""

    def __init__(self, option_strings: Any, dest: str, **settings: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> None:
        from importlib.metadata import version

        print(parser.prog, version("osc-placement"))
        parser.exit()


class BriefParser(argparse.ArgumentParser):
    """A parser, and parsers of subcommands, whose errors are two lines and no usage text."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse words that are not known, so that the error names the command that was given them."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Print the error with the command that shows the usage, and end the process with 2."""
        refuse_usage(self, message)


def refuse_usage(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Print what is wrong with a command line and how to see its usage; end the process with 2."""
    from osc_placement.terminal.screen import wrap_for

    told = (*wrap_for(sys.stderr, f"{parser.prog}: error: {message}"), f"See: {parser.prog} --help")
    parser.exit(2, "".join(f"{line}\n" for line in told))


def discard(stream: TextIO) -> None:
    """Redirect unwritten output to the null device, or the interpreter reports an error when it exits."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def explain_setting(error: object, where: str = "") -> str:
    """Return the text of an error in one line; for a wrong value, without the objects of oslo.config.

    :param where: the group of the option, which the error does not tell
    """
    text = _WRONG_VALUE.sub(rf"\g<name>{where} of \g<place>: ", " ".join(str(error).split()))
    for pattern, told in _WRONG_NUMBERS.items():
        text = pattern.sub(told, text)
    return text


def how_to_install_driver(database: str, driver: str) -> str:
    """Return how to install a driver for a kind of database, and how to name it if another one is named."""
    if database not in _EXTRAS:
        return f"install {driver}"
    extra, brought = _EXTRAS[database]
    name = "" if driver == brought else f" and name its driver in the URL: {database}+{brought}://"
    return f"run pip install 'osc-placement[{extra}]'{name}"
