# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, so that an incomplete file is never read as a complete one."""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterable
from functools import partial
from typing import Final

_ANYBODY: Final = 0o666


def find_user_directory(variable: str, default: str) -> pathlib.Path:
    """Return our directory below a base directory of the XDG specification, ``default`` below the home."""
    root = os.environ.get(variable) or ""
    # the specification wants a relative path to be ignored
    base = pathlib.Path(root) if root.startswith("/") else pathlib.Path.home() / default
    return base / "osc-placement"


def write_whole(
    path: pathlib.Path, pieces: Iterable[str], mode: int = _ANYBODY, *, keep_mode: bool = True
) -> None:
    """Write or replace a file; a link stays a link, a pipe or device is written into.

    A new file has ``mode``, less the umask; one that is replaced keeps its mode if ``keep_mode``. Raises
    OSError.
    """
    if path.exists() and not path.is_file():
        _write(path, pieces)
        return
    # unlike `resolve`, `realpath` does not raise at links that only lead to each other
    target = pathlib.Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    keeps = keep_mode and target.exists()
    # set the mode before the first byte is written: the file that is replaced may be private
    mode = stat.S_IMODE(target.stat().st_mode) if keeps else mode
    try:
        _write(part, pieces, mode)
        if keeps:
            part.chmod(mode)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def replace_file(name: str, pieces: Iterable[str]) -> None:
    """Write or replace the file that an operator named; raise PlacementError if that fails."""
    # PERF: the server, which writes files too, need not load the errors of the client's side
    from osc_placement.errors import PlacementError

    try:
        write_whole(pathlib.Path(name), pieces)
    except OSError as error:
        raise PlacementError(
            f"{pathlib.Path(name).absolute()} cannot be written: {error.strerror}"
        ) from error


def _write(path: pathlib.Path, pieces: Iterable[str], mode: int = _ANYBODY) -> None:
    with open(path, "w", encoding="utf-8", opener=partial(os.open, mode=mode)) as file:
        file.writelines(pieces)
