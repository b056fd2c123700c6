# SPDX-License-Identifier: Apache-2.0
"""The environments of what the project is compared with, from PyPI: the reference, the bare client, nova.

Each is made once, in the clone's .cache. The reference is openstack-placement, its plugin and
OpenStackClient, and the bare client OpenStackClient alone, with the versions that constraints.txt gives for
what they share with the project, so that all are compared on the same libraries. Nova is not held to them: it
needs an older SQLAlchemy.
"""

from __future__ import annotations

import fcntl
import hashlib
import pathlib
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PINS = ("openstack-placement==16.0.0", "osc-placement==4.9.1")
OTHERS = ("gunicorn", "PyMySQL", "psycopg2-binary", "python-openstackclient")
BARE = ("python-openstackclient",)
NOVA_PINS = ("nova==34.0.0", "SQLAlchemy<2.1", "PyMySQL")
CACHE = ROOT / ".cache"


def make_reference(cache: pathlib.Path = CACHE) -> pathlib.Path:
    """Make the environment of the reference unless it is there; its bin directory."""
    content = (sys.version, *PINS, *OTHERS, CONSTRAINTS.read_text())
    arguments = ("--constraint", str(CONSTRAINTS), *PINS, *OTHERS)
    return _make(cache, "bench-reference", content, arguments)


def make_bare(cache: pathlib.Path = CACHE) -> pathlib.Path:
    """Make the environment of the client without any plugin for placement; its bin directory."""
    content = (sys.version, *BARE, CONSTRAINTS.read_text())
    return _make(cache, "bench-bare", content, ("--constraint", str(CONSTRAINTS), *BARE))


def make_nova(cache: pathlib.Path = CACHE) -> pathlib.Path:
    """Make the environment of nova unless it is there; its bin directory."""
    return _make(cache, "nova", (sys.version, *NOVA_PINS), NOVA_PINS)


def _make(cache: pathlib.Path, name: str, content: Sequence[str], arguments: Sequence[str]) -> pathlib.Path:
    """An environment with what these arguments of pip install; other content means making it anew."""
    digest = hashlib.sha256("\n".join(content).encode()).hexdigest()[:12]
    directory = cache / f"{name}-{digest}"
    binaries = directory / "bin"
    cache.mkdir(exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests ask from several processes at once
        if not (directory / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
            pip = [str(binaries / "python"), "-m", "pip", "install", "-qq"]
            subprocess.run([*pip, *arguments], check=True)
            (directory / "complete").touch()
    return binaries
