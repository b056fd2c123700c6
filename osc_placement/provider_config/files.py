# SPDX-License-Identifier: Apache-2.0
"""Reading of provider configuration files from the disk, in the order and with the choice of nova.

Of a directory nova reads ``*.yaml``, in the order of the names, but no name that begins with a dot. What
cannot be read is a problem, and never taken for absent.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from osc_placement.errors import PlacementError
from osc_placement.provider_config.compare import Location
from osc_placement.provider_config.document import ConfigFile, Level, Problem, find_duplicates, parse_file

#: where nova looks unless ``[compute]provider_config_location`` says otherwise
DEFAULT_LOCATION: Final = "/etc/nova/provider_config"
_SUFFIX: Final = ".yaml"


def read_locations(names: Sequence[str], read_input: Callable[[], str]) -> tuple[Location, ...]:
    """Read the files and directories that an operator named.

    A directory is what one nova-compute reads. One that has no file but directories is a set of these, each
    for the host of its name. Single files count together as one directory.

    :param read_input: reads what ``-`` stands for, standard input
    """
    single: list[ConfigFile] = []
    locations: list[Location] = []
    for name in dict.fromkeys(names):
        path = pathlib.Path(name)
        if name == "-":
            single.append(parse_file(read_input(), "standard input"))
        elif os.path.isdir(path):
            locations += _read_directory(path)
        else:
            single.append(_read_file(path))
            if path.suffix != _SUFFIX and not single[-1].problems:
                single[-1] = _warn(single[-1], f"nova reads no file whose name does not end with {_SUFFIX}")
    if single:
        locations.append(Location(tuple(single)))
    return tuple(locations)


def _read_directory(path: pathlib.Path) -> list[Location]:
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        return [Location((_fail(str(path), f"cannot be read: {error.strerror}"),))]
    entries = [entry for entry in entries if not entry.name.startswith(".")]
    files = [entry for entry in entries if entry.suffix == _SUFFIX]
    hosts = [entry for entry in entries if entry.is_dir() and entry.suffix != _SUFFIX]
    if hosts and not files:
        return [replace(each, host=host.name) for host in hosts for each in _read_directory(host)]
    read = [_read_file(entry) for entry in files]
    ignored = [
        ConfigFile(str(entry), problems=(_ignored(entry),))
        for entry in entries
        if entry not in files and not entry.is_dir()
    ]
    if not files:
        problem = Problem(str(path), None, Level.WARNING, f"there is no file whose name ends with {_SUFFIX}")
        ignored.append(ConfigFile(str(path), problems=(problem,)))
    return [Location((*read, *ignored))]


def _ignored(path: pathlib.Path) -> Problem:
    text = f"nova reads no file whose name does not end with {_SUFFIX}"
    return Problem(str(path), None, Level.WARNING, text)


def _warn(file: ConfigFile, text: str) -> ConfigFile:
    problem = Problem(file.source, None, Level.WARNING, text)
    return replace(file, problems=(*file.problems, problem))


def _fail(source: str, text: str) -> ConfigFile:
    return ConfigFile(source, problems=(Problem(source, None, Level.ERROR, text),))


def _read_file(path: pathlib.Path) -> ConfigFile:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        return _fail(str(path), f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return _fail(str(path), f"cannot be read: byte {error.start} is not UTF-8 text")
    return parse_file(text, str(path))


def list_problems(locations: Sequence[Location]) -> list[Problem]:
    """Return the problems of all files, those that they have together included."""
    problems = []
    for location in locations:
        repeated = find_duplicates(location.files)
        for each in location.files:
            own = [*each.problems, *(problem for problem in repeated if problem.source == each.source)]
            problems += sorted(own, key=lambda problem: problem.line or 0)
    return problems


class FilesRefused(PlacementError):
    """Some files have errors, so that what they say is not known."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}; see all with: openstack resource provider config lint")


def require_good(locations: Sequence[Location]) -> None:
    """Raise FilesRefused if nova would refuse any of the files."""
    errors = [problem for problem in list_problems(locations) if problem.level is Level.ERROR]
    if errors:
        raise FilesRefused(errors)
