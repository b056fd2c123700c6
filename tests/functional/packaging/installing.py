# SPDX-License-Identifier: Apache-2.0
"""A directory of what pip would install with a distribution, as links to what is installed here."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys

from tests.functional import servers

REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([\w,\s-]+)\])?\s*([^;]*)(?:;\s*(.*))?")


def list_required(metadata, extras):
    """The distributions that one asks for, with their extras, given extras of its own."""
    for line in metadata.get_all("Requires-Dist") or ():
        name, wanted, _versions, marker = REQUIREMENT.fullmatch(line.strip()).groups()
        of_extras = re.findall(r"""extra == ["']([\w-]+)["']""", marker or "")
        if not of_extras or set(of_extras) & set(extras):
            yield name, tuple((wanted or "").replace(" ", "").split(",")), bool(marker) and not of_extras


def find_all(metadata, extras):
    """Every distribution that an install brings, by its name."""
    found, waiting, seen = {}, list(list_required(metadata, extras)), set()
    while waiting:
        name, wanted, is_conditional = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # it is for other interpreters or systems
            assert is_conditional, f"{name} is not installed here"
            continue
        waiting += list_required(found[name].metadata, wanted)
    return found.values()


class Installed:
    """A directory of what is installed, and an interpreter that sees nothing else."""

    def __init__(self, directory):
        self.directory = directory

    def link(self, distribution):
        """Put a distribution there."""
        for name in {path.parts[0] for path in distribution.files} - {"..", "__pycache__"}:
            target = self.directory / name
            if not target.exists():
                target.symlink_to(pathlib.Path(distribution.locate_file(name)).resolve())

    def run(self, code, *arguments, **variables):
        """Run a program; what came of it."""
        # without site there are no packages but those of the path
        environment = servers.make_environment(
            PYTHONPATH=str(self.directory), HOME=str(self.directory), **variables
        )
        return subprocess.run(
            [sys.executable, "-S", "-W", "ignore", "-c", code, *arguments],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def call(self, module, *arguments, **variables):
        """Run the console script that is a module's main."""
        return self.run(f"import sys; from {module} import main; sys.exit(main())", *arguments, **variables)
