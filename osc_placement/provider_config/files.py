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
_NOT_READ: Final = f"nova reads no file whose name does not end with {_SUFFIX}"


def read_locations(names: Sequence[str], read_input: Callable[[], str]) -> tuple[Location, ...]:
    """Read the files and directories that an operator named.

    A directory is what one nova-compute reads. One that has no ``*.yaml`` but directories is a set of these,
    each for the host of its name. Single files count together as one directory. Files that would be left out,
    because they are beside or within others, are an error, as what they say would count as absent.

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
                single[-1] = _warn(single[-1], _NOT_READ)
    if single:
        locations.append(Location(tuple(single)))
    return tuple(locations)


def _read_directory(path: pathlib.Path, host: str | None = None) -> list[Location]:
    """Read a directory of nova, or one with a directory for each host; ``host`` is the one it is for."""
    try:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        files = [entry for entry in entries if entry.suffix == _SUFFIX]
        directories = [entry for entry in entries if entry not in files and entry.is_dir()]
        with_files = [each for each in directories if _has_files(each)]
        odd = [entry for entry in entries if not (entry.is_file() or entry.is_dir())]
    except OSError as error:
        return [Location((_fail(error.filename or str(path), f"cannot be read: {error.strerror}"),))]
    read = [_read_file(entry) for entry in files if entry not in odd]
    read += [_fail(str(entry), "is neither a file nor a directory, or a link to nothing") for entry in odd]
    read += [
        _warn(ConfigFile(str(entry)), _NOT_READ)
        for entry in entries
        if entry not in (*files, *directories, *odd)
    ]
    if directories and not files and host is None:
        hosts = [location for each in directories for location in _read_directory(each, each.name)]
        return [*hosts, Location(tuple(read))] if read else hosts
    where = f"within the directory of a host, {path}" if host else f"beside {', '.join(map(str, files[:1]))}"
    read += [
        _fail(str(each), f"is a directory with *{_SUFFIX} {where}; nova does not read it")
        for each in with_files
    ]
    if not files:
        read.append(_warn(ConfigFile(str(path)), f"there is no file whose name ends with {_SUFFIX}"))
    return [Location(tuple(read), host)]


def _has_files(directory: pathlib.Path) -> bool:
    """Return whether a file of a directory, or of one within it, has the name of one that nova reads."""

    def refuse(error: OSError) -> None:
        raise error

    return any(
        name.endswith(_SUFFIX)
        for _path, directories, files in os.walk(directory, onerror=refuse)
        for name in (*directories, *files)
    )


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
