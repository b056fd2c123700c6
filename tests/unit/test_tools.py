# SPDX-License-Identifier: Apache-2.0
"""The scripts in tools/ are what a POSIX shell can run, and explain themselves."""

import pathlib
import re
import subprocess

import pytest

from tests import conftest

ROOT = pathlib.Path(__file__).parents[2]


def run(*command):
    """Run a command with nothing on its standard input."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", sorted((ROOT / "tools").iterdir()), ids=lambda path: path.name)
def test_tool_is_posix_shell(path):
    """Every script parses in the POSIX mode of the shell that is sh here."""
    assert path.read_text().startswith("#!/bin/sh\n") or path.suffix == ".sh"
    done = run("sh", "-n", path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["build", "demo", "pin", "reliability", "test"])
def test_help_names_every_option(name):
    """The help text of a tool has every option that the script reads, and the tool ends well."""
    path = ROOT / "tools" / name
    done = run(path, "--help")
    options = set(re.findall(r"^ *(--[a-z-]+)\)", path.read_text(), re.MULTILINE))
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: tools/{name}")
    assert [option for option in options if option not in done.stdout] == []


@pytest.mark.parametrize("name", ["build", "demo", "pin", "reliability"])
def test_unknown_option_is_refused(name):
    """An argument that a tool does not know makes nothing and ends with usage on stderr and status 2."""
    done = run(ROOT / "tools" / name, "--no-such-option")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: tools/{name}")


@pytest.mark.parametrize(
    "name", ["bench", "cloud", "conformance", "demo", "differential", "docs", "pin", "reliability", "test"]
)
def test_unsuitable_python_is_refused_in_one_line(name, tmp_path):
    """A Python that is too old, or none, ends a tool with one line that names it."""
    done = subprocess.run(
        [ROOT / "tools" / name],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": "/no/such/python"},
    )
    assert done.returncode == 1
    assert done.stderr == f"tools/{name}: PYTHON=/no/such/python is not a Python 3.11 or newer\n"


def test_the_files_that_tests_begin_with_are_there():
    """A file that was renamed would be run last, and one core wait for it."""
    tests = ROOT / "tests"
    assert [name for name in conftest.LONGEST if not (tests / name).is_file()] == []
