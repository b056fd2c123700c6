# SPDX-License-Identifier: Apache-2.0
"""The directory in memory in which the processes of a service share their numbers.

``placement-server serve`` creates it before it starts workers, and removes it when it ends. The processes of
a WSGI container, which may each import the application by itself, find it by the id of the process that
started them. All processes hold a lock on it, so that the next service can remove the directory of one that
ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "placement-metrics-"
SHARED_MEMORY: Final = "/dev/shm"
#: attempts to create a directory that servers starting at the same moment may remove
TRIES: Final = 10
#: seconds between two attempts to lock the directory of a container
PAUSE: Final = 0.01
#: bytes that have to be free; a process is killed if there is no space left for its numbers
LEAST_SPACE: Final = 16 * 1024**2


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


def join(variable: str) -> None:
    """Name a directory in the environment variable that all processes of this container find, and lock it.

    Do nothing if the variable names an operator's directory, if prometheus_client has been imported, which
    reads the variable then, or if there is no space in memory: each process counts for itself then. A process
    that has become another user's after the import takes another directory, since that of the first user is
    closed to it.
    """
    if named := os.environ.get(variable):
        # a container that starts itself again keeps the environment, but no lock
        if not Path(named).name.startswith(PREFIX) or _lock_shared(Path(named)):
            return
        del os.environ[variable]
    parent = find_memory()
    if "prometheus_client" in sys.modules or parent is None:
        return
    space = os.statvfs(parent)
    if space.f_bavail * space.f_frsize < LEAST_SPACE:
        return
    _remove_leftovers(Path(parent))
    directory = Path(parent) / f"{PREFIX}{os.getuid()}-{_identify_container()}"
    if _lock_shared(directory):
        os.environ[variable] = str(directory)


def _lock_shared(directory: Path) -> bool:
    """Create the directory if it does not exist, and hold a lock on it until this process ends.

    Another service may remove it before it is locked, so its identity is compared afterwards.

    :returns: whether it belongs to this user and could be locked
    """
    for _ in range(TRIES):
        descriptor = None
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if os.fstat(descriptor).st_uid != os.getuid():
                os.close(descriptor)
                return False
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), directory.stat()):
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError:
            if descriptor is not None:
                os.close(descriptor)
            return False
        if descriptor is not None:
            os.close(descriptor)
        time.sleep(PAUSE)
    return False


def _identify_container() -> str:
    """Return a name that the processes of this container share, and no others of this machine."""
    group = ""
    if "mod_wsgi" in sys.modules:
        # one Apache may start several groups of processes, each with an application of its own
        pid = os.getppid()
        group = "-" + "".join(c if c.isalnum() else "_" for c in sys.modules["mod_wsgi"].process_group)
    elif "uwsgi" in sys.modules and sys.modules["uwsgi"].masterpid():
        pid = sys.modules["uwsgi"].masterpid()
    else:
        # a forked process has the command line of its parent, unless it executes another program
        pid = os.getpid()
        own = _read_command(pid)
        while own:
            fields = _read_state(pid)
            parent = int(fields[1]) if fields else 0
            if _read_command(parent) != own:
                break
            pid = parent
    # the moment at which the process started tells it from others that had its id
    fields = _read_state(pid)
    return f"{pid}-{fields[19].decode() if fields else '0'}{group}"


def _read_process(pid: int, name: str) -> bytes:
    """Return a file of a process under /proc; empty if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _read_command(pid: int) -> bytes:
    """Return the command line of a process; with setproctitle, gunicorn tells there what it does."""
    command = _read_process(pid, "cmdline").rstrip(b"\0 ")
    return command.replace(b"gunicorn: worker [", b"gunicorn: master [", 1)


def _read_state(pid: int) -> list[bytes]:
    """Return the fields of a process after its command, which is in parentheses; see proc(5)."""
    return _read_process(pid, "stat").rpartition(b")")[2].split()


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
