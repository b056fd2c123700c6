# SPDX-License-Identifier: Apache-2.0
"""The parsers of `placement-migrate`."""

from osc_placement.migrate.main import COMMANDS, Application


def make_parsers():
    """Those of its commands by their names, and its own, whose options all commands have, by that of it."""
    application = Application()
    found = {}
    for name in (f"placement-migrate {name}" for name in COMMANDS):
        command, _ = application.find_command(name.split()[1:])
        found[name] = command.get_parser(name)
    return {"placement-migrate": application.parser, **found}


def read(words):
    """Parse a command line; all options."""
    application = Application()
    _, options = application.parse(words)
    return {**vars(application.access), **vars(options)}


def find(words):
    """The parser of a command, and the words after its name, without the options that all commands have.

    It is that of the program for the name of a group.
    """
    application = Application()
    _, rest = application.parser.parse_known_args(words)
    if not any(" ".join(rest).startswith(name) for name in COMMANDS):
        return application.parser, rest
    command, arguments = application.find_command(rest)
    return command.get_parser("placement-migrate"), arguments
