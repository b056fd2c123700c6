# SPDX-License-Identifier: Apache-2.0
"""Virtual environments of what the project is tested and compared with, made from PyPI once and kept.

Each lies in the clone's .cache. The reference is openstack-placement, its plugin and OpenStackClient, and the
bare client OpenStackClient alone, with the versions that constraints.txt gives for what they share with the
project, so that all are compared on the same libraries. Nova and neutron are not held to them: they need an
older SQLAlchemy.
"""

from __future__ import annotations

import fcntl
import hashlib
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PINS = ("openstack-placement==16.0.0", "osc-placement==4.9.1")
OTHERS = ("gunicorn", "PyMySQL", "psycopg2-binary", "python-openstackclient")
BARE = ("python-openstackclient",)
UWSGI = "uwsgi==2.0.31"
NOVA = "nova==34.0.0"
NOVA_PINS = (NOVA, "SQLAlchemy<2.1", "PyMySQL")
NEUTRON_PINS = ("neutron==29.0.0", "SQLAlchemy<2.1", "PyMySQL", "gunicorn")
#: what nova's functional tests need beside it
NOVA_TESTS = (
    "ddt",
    "oslotest",
    "osprofiler",
    "requests-mock",
    "testresources",
    "testscenarios",
    "wsgi-intercept",
)
#: what these tests read of nova's source, which is not in its wheel, or is elsewhere
NOVA_FILES = ("doc/api_samples", "doc/notification_samples", "etc/nova")
CACHE = ROOT / ".cache"


class NotInstallable(Exception):
    """It could not be installed; the text is what pip, uv or venv said last."""


def make_reference() -> pathlib.Path:
    """Make the environment of the reference unless it is there; its bin directory."""
    return make("bench-reference", [*PINS, *OTHERS], constraints=CONSTRAINTS)


def make_bare() -> pathlib.Path:
    """Make the environment of the client without any plugin for placement; its bin directory."""
    return make("bench-bare", BARE, constraints=CONSTRAINTS)


def make_uwsgi() -> pathlib.Path:
    """Build uWSGI for this interpreter unless it is there; its program."""
    return make("uwsgi", [UWSGI]) / "uwsgi"


def make_nova() -> pathlib.Path:
    """Make the environment of nova unless it is there; its bin directory."""
    return make("nova", NOVA_PINS)


def make_neutron() -> pathlib.Path:
    """Make the environment of neutron unless it is there; its bin directory."""
    return make("neutron", NEUTRON_PINS)


def make_nova_tests() -> pathlib.Path:
    """Make the environment of nova's functional tests unless it is there; its bin directory.

    It has openstack-placement, and this project as it lies here with the dependencies of the server.
    """
    project = ("--editable", f"{ROOT}[server]")
    return make("nova-tests", [*NOVA_PINS, PINS[0], *NOVA_TESTS, *project], finish=_add_nova_files)


def _add_nova_files(directory: pathlib.Path) -> None:
    """Put the files that nova's tests need beside the package nova, where the tests look for them."""
    (packages,) = directory.glob("lib/python*/site-packages")
    with tempfile.TemporaryDirectory() as downloads:
        archive = download_source(NOVA, pathlib.Path(downloads))
        with tarfile.open(archive) as source:
            for member in source:
                member.name = member.name.partition("/")[2]
                if member.name.startswith(NOVA_FILES):
                    source.extract(member, packages, filter="data")


def download_source(requirement: str, directory: pathlib.Path) -> pathlib.Path:
    """Download the source distribution of a pinned requirement into an empty directory; the archive.

    :raises NotInstallable: it cannot be had
    """
    name = requirement.partition("==")[0]
    _run_module(
        "pip", "download", "-qq", "--no-deps", "--no-binary", name, "--dest", str(directory), requirement
    )
    (archive,) = directory.glob("*.tar.gz")
    return archive


def make(
    name: str,
    requirements: Sequence[str],
    *,
    constraints: pathlib.Path | None = None,
    finish: Callable[[pathlib.Path], None] | None = None,
) -> pathlib.Path:
    """Make the environment that has these unless it is there; its bin directory.

    :param constraints: a file of versions for everything else
    :param finish: called with the directory of a new environment
    :raises NotInstallable: it cannot be made
    """
    versions = constraints.read_text() if constraints else ""

    def install(directory: pathlib.Path) -> None:
        _install(directory, [*requirements, *(["--constraint", str(constraints)] if constraints else [])])
        if finish:
            finish(directory)

    return keep(name, " ".join([sys.version, *requirements, versions]), install) / "bin"


def keep(name: str, content: str, make_directory: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """Make a directory in the cache unless it is there; its path.

    :param content: what the directory is made of; another text means another directory
    :param make_directory: makes it, or makes it again if it was interrupted
    """
    directory = CACHE / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests ask from several processes at once
        if not (directory / "complete").exists():
            make_directory(directory)
            (directory / "complete").touch()
    return directory


def compile_all(binaries: pathlib.Path) -> pathlib.Path:
    """Compile what an environment has, so that no run that is measured has to; its bin directory again."""
    command = [sys.executable, "-m", "compileall", "-qq", "-j", "0", str(binaries.parent / "lib")]
    # of some packages there are files that no Python of today can read
    subprocess.run(command, check=False)
    return binaries


def _install(directory: pathlib.Path, arguments: Sequence[str]) -> None:
    """Install without compiling: most modules of nova and its like are never imported.

    What is imported is compiled then; not so where runs are measured, see :func:`compile_all`.

    PERF: with uv, the environment of nova takes 3 s of processor time; with pip it took 19.
    """
    _run_module("venv", "--clear", "--without-pip", str(directory))
    where = ("--python", str(directory / "bin" / "python"))
    try:
        _run_module("uv", "pip", "install", "--quiet", *where, *arguments)
    except NotInstallable:  # it knows neither pip's settings nor the certificates of the system
        _run_module("pip", *where, "install", "--quiet", "--no-compile", *arguments)


def _run_module(name: str, *arguments: str) -> None:
    command = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise NotInstallable(f"{name}: {lines[-1]}")
