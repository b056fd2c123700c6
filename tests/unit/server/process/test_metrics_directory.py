# SPDX-License-Identifier: Apache-2.0
"""The directory that workers count in, and servers that start at the same moment."""

import os
import tempfile

import pytest

from osc_placement.server.process import metrics_directory

VARIABLE = "PLACEMENT_TEST_DIRECTORY"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """What stands for the directory in memory."""
    monkeypatch.setattr(metrics_directory, "SHARED_MEMORY", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def test_directory_removed_before_it_was_locked_is_made_again(memory, monkeypatch):
    """It is gone before it could be locked; the next one is there, and stays."""
    make, made = tempfile.mkdtemp, []

    def make_and_lose(**given):
        made.append(make(**given))
        if len(made) == 1:
            metrics_directory._remove_leftovers(memory)
        return made[-1]

    monkeypatch.setattr(metrics_directory.tempfile, "mkdtemp", make_and_lose)
    with metrics_directory.provided(VARIABLE) as directory:
        assert str(directory) == made[1] == os.environ[VARIABLE]
        metrics_directory._remove_leftovers(memory)
        assert directory.is_dir()
    assert list(memory.iterdir()) == []


def test_directory_removed_while_it_was_locked_is_made_again(memory, monkeypatch):
    """The other let go of the lock with the directory gone; what is locked then is no directory any more."""
    lock, locked = metrics_directory._try_to_lock, []

    def lose_and_lock(directory):
        descriptor = lock(directory)
        locked.append(directory)
        if len(locked) == 1:
            directory.rmdir()
        return descriptor

    monkeypatch.setattr(metrics_directory, "_try_to_lock", lose_and_lock)
    with metrics_directory.provided(VARIABLE) as directory:
        assert directory == locked[-1]
        assert directory.is_dir()
    assert len(locked) == 2
    assert list(memory.iterdir()) == []


def test_directory_is_made_without_locks_of_the_file_system(memory, monkeypatch):
    """One, and not all that were tried."""
    monkeypatch.setattr(metrics_directory, "_try_to_lock", lambda _directory: None)
    with metrics_directory.provided(VARIABLE) as directory:
        assert list(memory.iterdir()) == [directory]
    assert list(memory.iterdir()) == []
