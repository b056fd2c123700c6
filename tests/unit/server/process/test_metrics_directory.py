# SPDX-License-Identifier: Apache-2.0
"""The directory that workers count in, and servers that start at the same moment."""

import os
import sys
import tempfile
import types

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


def test_directory_of_a_container_is_not_made_where_memory_is_short(memory, monkeypatch):
    """A process is killed when there is no space for its numbers, so it keeps them to itself."""
    monkeypatch.delitem(sys.modules, "prometheus_client", raising=False)
    monkeypatch.setattr(metrics_directory, "LEAST_SPACE", 2**60)
    metrics_directory.join(VARIABLE)
    assert VARIABLE not in os.environ
    assert list(memory.iterdir()) == []


def test_directory_of_another_user_is_not_used(memory, monkeypatch):
    monkeypatch.delitem(sys.modules, "prometheus_client", raising=False)
    real = os.getuid()
    monkeypatch.setattr(metrics_directory.os, "getuid", lambda: real + 1)
    metrics_directory.join(VARIABLE)
    assert VARIABLE not in os.environ


def test_processes_of_one_apache_group_share_a_directory(monkeypatch):
    """The groups of one Apache are separate services."""
    names = []
    for group in ("placement", "placement", "other/one"):
        monkeypatch.setitem(sys.modules, "mod_wsgi", types.SimpleNamespace(process_group=group))
        names.append(metrics_directory._identify_container())
    assert names[0] == names[1] != names[2]
    assert names[0].startswith(f"{os.getppid()}-")
    assert "/" not in names[2]
