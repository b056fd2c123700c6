# SPDX-License-Identifier: Apache-2.0
"""The directory in which the workers of ``placement-server serve`` keep their numbers for each other.

It is in memory, and goes when the server does. A server that was killed leaves its own behind, which the next
one takes away: all processes of a server hold a lock on theirs, and the last to end lets go of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "placement-metrics-"
SHARED_MEMORY: Final = "/dev/shm"
#: directories that may be lost to servers that start at the same moment
TRIES: Final = 10


@contextlib.contextmanager
def provided(variable: str) -> Iterator[Path]:
    """A directory, named in the environment for as long as this lasts; what somebody else named stays."""
    if os.environ.get(variable):
        yield Path(os.environ[variable])
        return
    parent = find_memory() or tempfile.gettempdir()
    _remove_leftovers(Path(parent))
    # workers inherit the descriptor, and with it the lock
    directory, held = _make(parent)
    os.environ[variable] = str(directory)
    owner = os.getpid()
    try:
        yield directory
    finally:
        # where a worker ends, the others go on
        if os.getpid() == owner:
            del os.environ[variable]
            shutil.rmtree(directory, ignore_errors=True)
            if held is not None:
                os.close(held)


def _make(parent: str) -> tuple[Path, int | None]:
    """A directory, and the descriptor that holds its lock; None where a file system has no locks.

    Before it is locked, a server that starts at the same moment may take it for one that was left behind.
    """
    for _ in range(TRIES):
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        held = _try_to_lock(directory)
        if held is not None:
            if _is_at(directory, held):
                return directory, held
            os.close(held)
        shutil.rmtree(directory, ignore_errors=True)
    # then the others have none either, and remove nothing
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)), None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def find_memory() -> str | None:
    """A directory in memory, where this system has one that can be written to."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK | os.X_OK) else None


def forget_this_process(directory: Path) -> None:
    """Forget what this process has counted so far; its children count on by themselves."""
    for path in directory.glob(f"*_{os.getpid()}.db"):
        path.unlink(missing_ok=True)


def _try_to_lock(directory: Path) -> int | None:
    """A descriptor that holds the lock of a directory; None if it is held, or the directory is no longer."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_leftovers(parent: Path) -> None:
    for directory in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if directory.stat().st_uid != os.getuid():
                continue
        if (descriptor := _try_to_lock(directory)) is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(descriptor)
