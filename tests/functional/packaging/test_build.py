# SPDX-License-Identifier: Apache-2.0
"""`tools/build`: the same tree gives the same files, and they have all they need."""

import os
import subprocess
import tarfile
import zipfile

from tests.functional.packaging.conftest import EPOCH, ROOT, build


def test_build_is_reproducible(built, tmp_path):
    """Another directory, other times of files and another umask make no difference, to the last byte.

    The second build is of what the first one's source distribution has, so that is whole as well.
    """
    with tarfile.open(built[1]) as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
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
    made = {"PKG-INFO", "osc_placement.egg-info"}
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


def test_invalid_argument_prints_the_usage():
    """A word that is no directory is refused with the usage."""
    done = subprocess.run(
        ["sh", ROOT / "tools" / "build", "--nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: tools/build")
