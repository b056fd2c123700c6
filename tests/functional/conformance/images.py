# SPDX-License-Identifier: Apache-2.0
"""Images made of directories, and containers of them in namespaces of their own, without a container engine.

An image is a stack of directories, which overlayfs shows as one root directory. A container writes to
memory, and what it wrote is gone when it ends. It has processes and mounts of its own, but the network of
this machine, so it reaches databases on loopback. All of this needs root, on Linux.
"""

import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from benchmarks import environments

SUITE = "trixie"
MIRROR = "http://deb.debian.org/debian"
#: what the scripts of images call, and what pip needs to build uWSGI
PACKAGES = (
    "ca-certificates",
    "curl",
    "dumb-init",
    "gcc",
    "libc6-dev",
    "libpcre2-dev",
    "memcached",
    "procps",
    "python3-dev",
    "python3-pip",
    "python3-venv",
    "python3-yaml",
    "sudo",
    "uwsgi-core",
    "uwsgi-plugin-python3",
)
PROGRAMS = ("debootstrap", "mount", "nsenter", "unshare")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: variables of this process by which pip finds an index while an image is built
PIP_VARIABLES = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
#: files of this machine by which names and certificates are looked up while an image is built
NETWORK = ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")
#: seconds after which a container that was told to end is killed, by default of docker
GRACE = 10


class NotPossible(Exception):
    """Containers cannot be made here; the text says why."""


class Failed(Exception):
    """A step failed; the text says which, and has what a command wrote last."""


@dataclass(frozen=True)
class Mount:
    """A file or directory of this machine at a path of a container, or an empty directory in memory."""

    target: str
    source: pathlib.Path | None = None
    read_only: bool = False

    def make_commands(self, root):
        """Return the commands that mount it below a root directory."""
        place = f"{root}{self.target}"
        if self.source is None:
            return [["mkdir", "-p", place], ["mount", "-t", "tmpfs", "-o", "mode=0777", "none", place]]
        if self.source.is_dir():
            make = ["mkdir", "-p", place]
        else:
            make = ["sh", "-c", '[ -e "$0" ] || install -D /dev/null "$0"', place]
        commands = [make, ["mount", "--bind", self.source, place]]
        if self.read_only:
            commands.append(["mount", "-o", "remount,bind,ro", place])
        return commands


@dataclass(frozen=True)
class Options:
    """How a command is run in a container.

    :ivar user: a name, with the groups that the image gives it, or a number; by default root
    """

    environment: dict = field(default_factory=dict)
    mounts: tuple = ()
    user: str | int = ""
    read_only: bool = False
    no_new_privileges: bool = False

    def make_command(self, command):
        """Return the command line that becomes the command, with these variables and this account."""
        privileges = ["--no-new-privs"] if self.no_new_privileges else []
        if isinstance(self.user, int):
            privileges += [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        elif self.user:
            privileges += [f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"]
        variables = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", **self.environment}
        settings = [f"{name}={value}" for name, value in variables.items()]
        return [*(["setpriv", *privileges] if privileges else []), "env", "-i", *settings, *command]


@dataclass(frozen=True)
class Image:
    """A stack of directories, the lowest first."""

    layers: tuple

    def extend(self, directory, commands, *, mounts=()):
        """Run commands that change a new layer; the image with this layer on top.

        :param directory: that of the layer, which may have files already
        :param commands: lines of a shell, as root, with the network of this machine
        :raises Failed: one of them failed
        """
        names = [name for name in os.environ if name.upper().startswith(PIP_VARIABLES)]
        found = [path for path in map(pathlib.Path, NETWORK) if path.exists()]
        network = (Mount(str(path), path, read_only=True) for path in found)
        options = Options({name: os.environ[name] for name in names}, (*network, *mounts))
        line = ["sh", "-ec", "\n".join(commands)]
        with _working_directory() as work:
            run(_make_script(self, line, options, work, layer=directory))
        return Image((*self.layers, directory))

    def run(self, command, options):
        """Run a command in a container until it ends; what it wrote.

        :raises Failed: its exit status is not 0
        """
        with _working_directory() as work:
            return run(_make_script(self, command, options, work))

    @contextlib.contextmanager
    def running(self, command, options, log):
        """Run a command in a container that is told to end at the end; a `Container`.

        :param log: the file for what it writes
        :raises Failed: it did not end in `GRACE` seconds
        """
        with _working_directory() as work, log.open("a") as file:
            script = _make_script(self, command, options, work)
            process = subprocess.Popen(script, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
            container = Container(process, log)
            try:
                yield container
                container.stop()
            finally:
                container.kill()


class Container:
    """A container that runs."""

    def __init__(self, process, log):
        self._process = process
        self.log = log

    def is_running(self):
        """Return whether its first process has not ended."""
        return self._process.poll() is None

    def execute(self, command, options):
        """Run a command beside the first process, as ``docker exec`` does; status, output and errors."""
        enter = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--root", "--wd"]
        line = [*enter, *options.make_command(command)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    def stop(self):
        """Tell the first process to end.

        :raises Failed: it had ended before, or did not end in `GRACE` seconds
        """
        if not self.is_running():
            raise Failed(f"ended by itself: {_cut(self.log.read_text())}")
        os.kill(self.first, signal.SIGTERM)
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end in {GRACE} seconds: {_cut(self.log.read_text())}") from None

    def kill(self):
        """Kill what is left: the first process, which takes all others of its namespace along.

        Killing ``unshare`` is not enough: its ``--kill-child`` does not reach a process of another account.
        """
        if self.is_running():
            # ``unshare`` ends with its child
            for pid in self._find_children() or [self._process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()

    @property
    def first(self):
        """Return the number of the first process of the container, the only child of ``unshare``."""
        until = time.monotonic() + GRACE
        while not (found := self._find_children()):
            if time.monotonic() > until:
                raise Failed("did not start")
            time.sleep(0.05)
        return found[0]

    def _find_children(self):
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return list(map(int, children.read_text().split()))


def require(programs=PROGRAMS):
    """Raise `NotPossible` unless containers can be made here, and these programs are installed."""
    if os.geteuid():
        raise NotPossible("containers are made of namespaces and overlayfs here, which needs root")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if missing := [name for name in programs if not shutil.which(name, path=path)]:
        raise NotPossible(f"not installed: {', '.join(missing)}")
    with _working_directory() as work:
        layer = work.with_name("empty")
        layer.mkdir()
        probe = ["unshare", "--mount", "sh", "-ec", _join(_mount_root(Image((layer,)), work))]
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPossible(f"overlayfs cannot be mounted here: {done.stderr.strip()}")


def make_base(mirror=MIRROR):
    """Make Debian's root directory unless it is in the cache; the image.

    :raises NotPossible: debootstrap fails
    """

    def install(directory):
        shutil.rmtree(directory, ignore_errors=True)
        packages = f"--include={','.join(PACKAGES)}"
        line = ["debootstrap", "--variant=minbase", packages, SUITE, directory, mirror]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotPossible(f"debootstrap: {_cut(done.stdout)}")

    return Image((environments.keep("debian", " ".join([SUITE, *PACKAGES]), install),))


def run(command):
    """Run a command of this machine; what it wrote.

    :raises Failed: its exit status is not 0
    """
    output = subprocess.STDOUT
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=output, text=True, check=False)
    if done.returncode:
        raise Failed(f"exit status {done.returncode}: {_cut(done.stdout)}")
    return done.stdout


@contextlib.contextmanager
def _working_directory():
    """An empty directory, on a file system that layers may be on."""
    environments.CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=environments.CACHE) as directory:
        work = pathlib.Path(directory) / "mounts"
        work.mkdir()
        yield work


def _mount_root(image, work, layer=None):
    """Return the commands that mount the root directory of a container at ``work/root``.

    :param layer: the directory that changes go to, by default one in memory
    """
    root, writes, upper = f"{work}/root", f"{work}/work", layer or f"{work}/upper"
    commands = []
    if layer is None:
        commands.append(["mount", "-t", "tmpfs", "-o", "mode=0755", "none", work])
    else:
        # overlayfs wants both on one file system
        writes = f"{layer}.work"
    commands.append(["mkdir", "-p", root, writes, upper])
    lower = ":".join(map(str, reversed(image.layers)))
    options = f"lowerdir={lower},upperdir={upper},workdir={writes}"
    commands.append(["mount", "-t", "overlay", "-o", options, "none", root])
    return commands


def _make_script(image, command, options, work, layer=None):
    """Return the command line that runs a command in a container."""
    root = f"{work}/root"
    commands = _mount_root(image, work, layer)
    commands += [["mount", "-t", "proc", "none", f"{root}/proc"], ["mount", "--rbind", "/dev", f"{root}/dev"]]
    for mount in sorted(options.mounts, key=lambda mount: mount.target.rstrip("/").count("/")):
        commands += mount.make_commands(root)
    if options.read_only:
        commands.append(["mount", "-o", "remount,ro", root])
    commands.append(["exec", "chroot", root, *options.make_command(command)])
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    return [*namespaces, "sh", "-ec", f"umask 022\n{_join(commands)}"]


def _join(commands):
    return "\n".join(shlex.join(map(str, command)) for command in commands)


def _cut(text):
    """Return the last lines of a text."""
    return "\n".join(text.strip().splitlines()[-20:])
