# SPDX-License-Identifier: Apache-2.0
"""The directory in which the workers of ``placement-server serve`` share their numbers.

It is in memory and is removed when the server ends. If a server was killed, the next one removes its
directory: all processes of a server hold a lock on theirs, which the last to end releases.
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
#: attempts to create a directory that servers starting at the same moment may remove
TRIES: Final = 10


@contextlib.contextmanager
def provided(variable: str) -> Iterator[Path]:
    """Provide a directory named in the environment variable; a directory that is set already is used."""
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
        # only the end of the first process removes it, not that of a worker
        if os.getpid() == owner:
            del os.environ[variable]
            shutil.rmtree(directory, ignore_errors=True)
            if held is not None:
                os.close(held)


def _make(parent: str) -> tuple[Path, int | None]:
    """Create a directory; return it with the descriptor that holds its lock, or None without locks.

    Until it is locked, a server that starts at the same moment may remove it as the directory of a dead one.
    """
    for _ in range(TRIES):
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        held = _try_to_lock(directory)
        if held is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(held), directory.stat()):
                    return directory, held
            os.close(held)
        shutil.rmtree(directory, ignore_errors=True)
    # the file system has no locks, so other servers have none either, and remove nothing
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)), None


def find_memory() -> str | None:
    """Return a writable directory in memory, or None if the system has none."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK | os.X_OK) else None


def forget_this_process(directory: Path) -> None:
    """Remove the numbers of this process, whose children count for themselves."""
    for path in directory.glob(f"*_{os.getpid()}.db"):
        path.unlink(missing_ok=True)


def _try_to_lock(directory: Path) -> int | None:
    """Return a descriptor that holds the lock of a directory; None if it is locked or does not exist."""
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
