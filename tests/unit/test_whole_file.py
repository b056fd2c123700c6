# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole: what is there while they are written, and when that fails."""

import stat

import pytest

from osc_placement.errors import PlacementError
from osc_placement.whole_file import replace_file, write_whole


def test_a_private_file_is_private_from_the_first_byte(tmp_path):
    """What is written beside it, to take its place, is nobody else's business either."""
    path = tmp_path / "clouds.yaml"
    path.write_text("old")
    path.chmod(0o600)
    modes = []

    def write():
        modes.extend(stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir())
        yield "new"

    write_whole(path, write())
    assert modes == [0o600, 0o600]
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


def test_file_that_cannot_be_written_is_told_with_its_directory(tmp_path, monkeypatch):
    """A relative name does not say where that was."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlacementError, match=f"^{tmp_path}/none/export.yaml cannot be written: No such file"):
        replace_file("none/export.yaml", ["text"])


def test_a_failed_write_keeps_the_old_file(tmp_path):
    """No temporary file is left beside it."""
    path = tmp_path / "export.yaml"
    path.write_text("old")

    def fail():
        yield "half"
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_whole(path, fail())
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("export.yaml", "old")]
