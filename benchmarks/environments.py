# SPDX-License-Identifier: Apache-2.0
"""The environment of the reference: openstack-placement, its plugin and OpenStackClient, from PyPI.

Made once, in the clone's .cache, with the versions that constraints.txt gives for what both projects use, so
that the two are compared on the same libraries.
"""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PINS = ("openstack-placement==16.0.0", "osc-placement==4.9.1")
OTHERS = ("gunicorn", "PyMySQL", "psycopg2-binary", "python-openstackclient")


def make_reference(cache: pathlib.Path = ROOT / ".cache") -> pathlib.Path:
    """Make the environment unless it is there; its bin directory."""
    content = "\n".join((sys.version, *PINS, *OTHERS, CONSTRAINTS.read_text()))
    directory = cache / f"bench-reference-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    binaries = directory / "bin"
    if not (directory / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        pip = [str(binaries / "python"), "-m", "pip", "install", "-qq", "--constraint", str(CONSTRAINTS)]
        subprocess.run([*pip, *PINS, *OTHERS], check=True)
        (directory / "complete").touch()
    return binaries
