# SPDX-License-Identifier: Apache-2.0
"""Names of a cloud that are read in the background and kept for a short time."""

import fcntl
import os
import pathlib
import stat

import pytest

from osc_placement.completion import names

PRODUCTION = {"--os-cloud": "production"}


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """The directory of the files, and no cloud in the environment or beside it."""
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # as long as it takes
    monkeypatch.setattr(names, "PATIENCE", None)
    return tmp_path / "cache/osc-placement/completion"


@pytest.fixture
def cloud(monkeypatch):
    """A function that says what the cloud answers, and from when on."""

    def answer(read):
        monkeypatch.setattr(names, "_open_cloud", lambda _access: None)
        monkeypatch.setattr(names, "READERS", {"traits": lambda _manager: read()})

    return answer


def fail():
    raise OSError("there is no cloud")


def make_old(directory):
    """Let the names be older than they may be."""
    for path in directory.iterdir():
        os.utime(path, (1, 1))


def test_names_are_sorted_and_kept_for_their_owner(directory, cloud):
    """Nobody else can read them; a name that would break the line is left out."""
    cloud(lambda: ["b", "a", "c\nd", "e\x1b[2J"])
    assert names.read_names("traits", PRODUCTION) == ["a", "b"]
    (path,) = directory.glob("*-traits")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_fresh_names_are_not_read_again(directory, cloud):
    """Old ones are."""
    cloud(lambda: ["a"])
    assert names.read_names("traits", {}) == ["a"]
    cloud(lambda: ["b"])
    assert names.read_names("traits", {}) == ["a"]
    make_old(directory)
    assert names.read_names("traits", {}) == ["b"]


def test_old_names_stay_where_the_cloud_does_not_answer(directory, cloud, tmp_path):
    """It is asked once, and then left alone for a while."""
    cloud(lambda: ["a"])
    names.read_names("traits", {})
    make_old(directory)
    asked = tmp_path / "asked"

    def note_and_fail():
        asked.write_text(asked.read_text() + "." if asked.exists() else ".")
        fail()

    cloud(note_and_fail)
    assert names.read_names("traits", {}) == ["a"]
    assert names.read_names("traits", {}) == ["a"]
    assert asked.read_text() == "."


def test_no_names_where_the_cloud_never_answered(cloud):
    """There is no error."""
    cloud(fail)
    assert list(names.read_names("traits", {})) == []


def test_key_waits_once_for_a_slow_cloud(directory, cloud, monkeypatch, tmp_path):
    """The next one uses what there is, and when the cloud has answered there are names."""
    monkeypatch.setattr(names, "PATIENCE", 0)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    cloud(lambda: gate.read_text().split())
    assert list(names.read_names("traits", {})) == []
    monkeypatch.setattr(names, "PATIENCE", None)
    assert list(names.read_names("traits", {})) == []
    gate.write_text("a b")
    (lock,) = directory.glob("*.lock")
    with lock.open() as file:
        # free when the process has ended
        fcntl.flock(file, fcntl.LOCK_EX)
    assert names.read_names("traits", {}) == ["a", "b"]


def test_process_that_reads_has_no_terminal(cloud, capfd):
    """What libraries print goes nowhere, nothing can be asked for, and no descriptor of the shell is open."""
    opened = os.open(os.devnull, os.O_RDONLY)

    def look():
        for number in (1, 2):
            os.write(number, b"a warning")
        yield "ours" if os.getsid(0) == os.getpid() else "theirs"
        yield os.readlink("/proc/self/fd/0").replace("/", "-")
        yield str(os.path.exists(f"/proc/self/fd/{opened}"))

    cloud(look)
    assert names.read_names("traits", {}) == ["-dev-null", "False", "ours"]
    assert capfd.readouterr() == ("", "")
    os.close(opened)


def test_names_that_nobody_used_are_removed(directory, cloud):
    """A directory does not grow for ever."""
    cloud(lambda: ["a"])
    names.read_names("traits", {})
    make_old(directory)
    names.read_names("traits", PRODUCTION)
    assert len(list(directory.glob("*-traits"))) == 1


def test_each_cloud_has_names_of_its_own(monkeypatch, tmp_path):
    """Options, variables and files tell clouds apart; secrets do not, as names of files show them."""
    keys = [names._identify({}), names._identify(PRODUCTION), names._identify({"--os-cloud": "test"})]
    (tmp_path / "clouds.yaml").touch()
    keys.append(names._identify({}))
    assert len(set(keys)) == 4
    same = names._identify(PRODUCTION)
    monkeypatch.setenv("OS_CLOUD", "production")
    monkeypatch.setenv("OS_PASSWORD", "secret")
    assert names._identify({}) == same
    assert names._identify({"--os-token": "secret"}) == same


def test_cache_is_below_home_if_the_variable_is_not_absolute(cloud, monkeypatch, tmp_path):
    """As the specification of these directories has it."""
    cloud(lambda: ["a"])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert names.read_names("traits", {}) == ["a"]
    assert len(list((tmp_path / ".cache/osc-placement/completion").glob("*-traits"))) == 1
    assert not (tmp_path / "relative").exists()


def test_names_that_another_shell_removes_meanwhile_are_read_again(directory, cloud, monkeypatch):
    """It removes old files at any moment, also between two looks at one of them."""
    cloud(lambda: ["a"])
    monkeypatch.setattr(pathlib.Path, "exists", lambda _path: True)
    assert names.read_names("traits", {}) == ["a"]
