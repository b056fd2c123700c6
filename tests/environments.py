# SPDX-License-Identifier: Apache-2.0
"""Virtual environments of what the project is tested beside, made from PyPI once and kept with the clone."""

import fcntl
import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


class NotInstallable(Exception):
    """pip could not install it; the text is what pip said last."""


def make(name, requirements, *, constraints=None):
    """Make the environment that has these, unless it is there; its bin directory.

    :param constraints: a file of versions for everything else
    :raises NotInstallable: it cannot be made
    """
    versions = constraints.read_text() if constraints else ""
    content = " ".join([sys.version, *requirements, versions])
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or ROOT / ".cache")
    directory = cache / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{directory.name}.lock").open("w") as lock:
        # tests of several processes may want it at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            _install(directory, [*requirements, *(["--constraint", str(constraints)] if constraints else [])])
            (directory / "complete").touch()
    return directory / "bin"


def _install(directory, arguments):
    subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
    command = [directory / "bin" / "python", "-m", "pip", "install", "-qq", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstallable(f"pip: {done.stderr.strip().splitlines()[-1:]}")
