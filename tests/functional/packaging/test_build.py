# SPDX-License-Identifier: Apache-2.0
"""`tools/build`: the same tree gives the same files, and they have all they need."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest

from tests import databases
from tests.functional.packaging.conftest import EPOCH, ROOT, build


def test_build_is_reproducible(built, tmp_path):
    """Another directory, other times of files and another umask make no difference, to the last byte.

    The second build is of what the first one's source distribution has, so that is whole as well.
    """
    with tarfile.open(built[1]) as archive:
        # releases of Python before 3.11.4 have no filters
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(tmp_path / "elsewhere")
    (tree,) = (tmp_path / "elsewhere").iterdir()
    for path in tree.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    (tmp_path / "dist").mkdir()
    again = build(tree, tmp_path / "dist")
    for first, second in zip(built, again, strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes(), first.name


def test_source_distribution_has_the_files_of_git(built):
    """Whoever gets it can test and document and run it; nothing that lies about is in it."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        # a tree without git is one that was unpacked from it
        return
    with tarfile.open(built[1]) as archive:
        members = archive.getmembers()
        assert {member.mtime for member in members} == {EPOCH}
        assert {(member.uid, member.uname) for member in members} == {(0, "")}
        names = {member.name.partition("/")[2] for member in members if member.isfile()}
    hidden = {name for name in listed.stdout.split("\n") if name.startswith(".")}
    made = {"PKG-INFO", "man", "osc_placement.egg-info"}
    unknown = {name for name in names if name.partition("/")[0] not in made}
    assert unknown - {name for name in listed.stdout.split("\n") if name} - find_new() == set()
    assert {name for name in listed.stdout.split("\n") if name} - hidden - names == set()


def find_new():
    """What is about to be added to git."""
    command = ["git", "ls-files", "--others", "--exclude-standard"]
    return set(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    )


def test_wheel_has_py_typed(built):
    """Type checkers look for py.typed; times are those that were asked for."""
    with zipfile.ZipFile(built[0]) as archive:
        assert "osc_placement/py.typed" in archive.namelist()
        assert {info.date_time[:3] for info in archive.infolist()} == {(2023, 11, 14)}


@pytest.fixture(scope="module")
def manual(built, tmp_path_factory):
    """The directory of the manual pages after an installation of the wheel."""
    if not shutil.which("man"):
        databases.skip_or_fail("man is not installed")
    environment = tmp_path_factory.mktemp("installed")
    venv.create(environment, symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--no-deps"]
    subprocess.run([*command, "--quiet", "--no-compile", built[0]], check=True)
    return environment / "share/man/man1"


def man(*arguments, path=()):
    """Run `man` for a terminal of 80 columns."""
    environment = {"PATH": ":".join([*map(str, path), os.defpath]), "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    return subprocess.run(["man", *arguments], env=environment, capture_output=True, text=True, check=False)


def test_manual_pages_are_installed(manual):
    """`man` finds those of the programs and of the commands' groups beside the programs."""
    names = {path.stem for path in manual.iterdir()}
    assert {"placement-server", "placement-migrate", "openstack-resource-provider-batch"} <= names
    for name in names:
        found = man("-w", name, path=[manual.parents[2] / "bin"])
        assert found.stdout.strip() == str(manual / f"{name}.1"), found.stderr


def test_manual_pages_are_rendered_without_warnings(manual):
    """Each begins with its name, which `apropos` lists, and has text."""
    for path in manual.iterdir():
        shown = man("--warnings=all", "--local-file", str(path))
        assert shown.stderr == "", path.name
        name = shown.stdout.split("\nNAME\n")[1].split(" - ")[0].replace("\u2010\n", "")
        assert "".join(name.split()) == path.stem
        assert len(shown.stdout.splitlines()) > 20, path.name
        assert "Traceback" not in shown.stdout


def test_manual_pages_have_every_command(manual):
    """A page has the options of its commands."""
    text = man("--local-file", str(manual / "openstack-resource-provider-batch.1")).stdout
    assert "RESOURCE PROVIDER BATCH RATIO SET" in text
    assert "--aggregate <aggregate>" in text
    text = man("--local-file", str(manual / "placement-server.1")).stdout
    assert "PLACEMENT-SERVER DB SYNC" in text
    assert "*.conf" in text


def test_invalid_argument_prints_the_usage():
    """A word that is no directory is refused with the usage."""
    done = subprocess.run(
        ["sh", ROOT / "tools" / "build", "--nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: tools/build")
