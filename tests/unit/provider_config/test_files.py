# SPDX-License-Identifier: Apache-2.0
"""Reading of files and directories."""

import os

import pytest

from osc_placement.provider_config.document import Level
from osc_placement.provider_config.files import FilesRefused, list_problems, read_locations, require_good

TEXT = """
meta: {schema_version: "1.0"}
providers:
- {identification: {name: KEY}, traits: {additional: [CUSTOM_A]}}
"""


@pytest.fixture
def write(tmp_path):
    """Writes a file that identifies a provider by name."""

    def make(name, key="a"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT.replace("KEY", key))
        return str(path)

    return make


def read(*names):
    return read_locations([str(name) for name in names], lambda: TEXT)


def keys(location):
    return [entry.key for entry in location.entries]


def test_directory_is_read_as_by_nova(write, tmp_path):
    """In the order of names; no other suffix and no hidden file."""
    for name, key in (("b.yaml", "b"), ("a.yaml", "a"), (".c.yaml", "c"), ("d.yml", "d")):
        write(name, key)
    (location,) = read(tmp_path)
    assert keys(location) == ["a", "b"]
    (problem,) = list_problems([location])
    assert (problem.source, problem.level) == (str(tmp_path / "d.yml"), Level.WARNING)


def test_directory_of_directories_is_one_for_each_host(write, tmp_path):
    """Their files may identify the same; single files together may not."""
    one, other = write("compute-1/a.yaml"), write("compute-2/a.yaml")
    locations = read(tmp_path)
    assert [location.host for location in locations] == ["compute-1", "compute-2"]
    assert list_problems(locations) == []
    (problem,) = list_problems(read(one, other))
    assert problem.level is Level.ERROR


def test_files_beside_directories_with_files_are_an_error(write, tmp_path):
    """Which of both is read cannot be told; directories without files are no matter."""
    write("compute-1/a.yaml")
    write("common.yaml", "b")
    with pytest.raises(FilesRefused, match=r"compute-1: error: is a directory with \*\.yaml beside "):
        require_good(read(tmp_path))
    (tmp_path / "compute-1" / "a.yaml").rename(tmp_path / "compute-1" / "a.old")
    (location,) = read(tmp_path)
    assert (keys(location), list_problems([location])) == (["b"], [])


@pytest.mark.parametrize("name", ["az1/compute-1/a.yaml", "az1/rack/compute-1/a.yaml"])
def test_directories_of_hosts_within_others_are_an_error(write, tmp_path, name):
    """The host would be taken for the outer directory."""
    write(name)
    write("compute-2/a.yaml")
    with pytest.raises(FilesRefused, match=r"is a directory with .* within the directory of a host"):
        require_good(read(tmp_path))


@pytest.mark.parametrize("name", ["compute-2", "compute-1/b.yaml", "compute-1/b"])
def test_link_to_nothing_is_an_error(write, tmp_path, name):
    """What it should lead to is not known."""
    write("compute-1/a.yaml")
    (tmp_path / name).symlink_to(tmp_path / "no-such")
    with pytest.raises(FilesRefused, match=f"{name}: error: is neither a file nor a directory"):
        require_good(read(tmp_path))


def test_pipe_in_a_directory_is_an_error(tmp_path):
    """It is not waited for."""
    os.mkfifo(tmp_path / "a.yaml")
    with pytest.raises(FilesRefused, match="is neither a file nor a directory"):
        require_good(read(tmp_path))


def test_files_that_nova_does_not_read_beside_directories_of_hosts(write, tmp_path):
    """They are told of."""
    write("compute-1/a.yaml")
    write("common.yml")
    (problem,) = list_problems(read(tmp_path))
    assert (problem.source, problem.level) == (str(tmp_path / "common.yml"), Level.WARNING)


def test_same_argument_twice_is_read_once(write):
    """As a shell pattern and a name may give it."""
    path = write("a.yaml")
    assert list_problems(read(path, path)) == []


def test_standard_input():
    (location,) = read("-")
    assert (keys(location), location.files[0].source) == (["KEY"], "standard input")


def test_what_cannot_be_read_is_an_error(tmp_path):
    """Never an empty file."""
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    with pytest.raises(
        FilesRefused, match=r"a\.yaml: error: cannot be read: byte 0 is not UTF-8 text; see all"
    ):
        require_good(read(tmp_path))
    with pytest.raises(FilesRefused, match=r"No such file or directory, and 1 more;"):
        require_good(read(tmp_path / "no", tmp_path / "none"))


def test_file_after_one_that_is_no_yaml_is_read(write, tmp_path):
    """A value that does not fit its tag is a problem of its file alone."""
    (tmp_path / "a.yaml").write_text("x-a: !!bool abc")
    write("b.yaml")
    ((location),) = read(tmp_path)
    assert keys(location) == ["a"]
    (problem,) = list_problems([location])
    assert (problem.source, problem.level) == (str(tmp_path / "a.yaml"), Level.ERROR)


def test_directory_that_may_not_be_read(write, tmp_path, monkeypatch):
    """Nova takes it for empty."""

    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    with pytest.raises(FilesRefused, match="cannot be read: Permission denied"):
        require_good(read(tmp_path))
