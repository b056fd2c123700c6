# SPDX-License-Identifier: Apache-2.0
"""``placement-server demo``: a server with the example cloud, for as long as a shell or a command runs."""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from osc_placement.server.process.clouds_yaml import CLOUD_NAME
from osc_placement.server.process.opening import CannotRun
from osc_placement.terminal.screen import is_terminal, wrap_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: the cloud that examples/ has a link to
EXAMPLE: Final = Path(__file__).with_name("example") / "cloud.yaml"
#: what a terminal is told before its shell starts
GREETING: Final = (
    "This shell has a placement service of its own, with 200 hosts in 4 racks.",
    "Try first: openstack resource provider tree compute-r3-01",
    "To stop the service and remove all its data: exit",
)
#: what stops the demo
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: of these, what a terminal sends to all of its processes, so that the shell or command decides
_OF_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
#: seconds that the server gets to start
_STARTING: Final = 30
#: seconds that a shell or command gets to end
_PATIENCE: Final = 5


def demo(command: Sequence[str]) -> int:
    """Run a command, or else a shell, with a server of its own; return its exit status.

    :raises CannotRun: something that is needed is not there, or does not work
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    words = command or (os.environ.get("SHELL") or "/bin/sh",)
    _check(words, path, is_shell=not command)
    with _signals_as_exits(), _temporary_directory() as place:
        environment = _make_environment(place, path)
        with _serving(place, environment):
            _load(environment)
            if not command:
                lines = (line for text in GREETING for line in wrap_for(sys.stdout, text))
                print(*lines, sep="\n", flush=True)
            return _run(words, environment)


def _check(words: Sequence[str], path: str, *, is_shell: bool) -> None:
    """Find out what is missing before anything is started; :raises CannotRun: something is."""
    if is_shell and not is_terminal(sys.stdin):
        raise CannotRun(
            "There is no terminal for a shell: name a command, such as placement-server demo -- openstack "
            "resource provider list"
        )
    if shutil.which(words[0], path=path) is None:
        remedy = "; set SHELL to the path of a shell" if is_shell else ""
        raise CannotRun(f"There is no program {words[0]}{remedy}")
    if importlib.util.find_spec("openstackclient") is None:
        raise CannotRun("openstackclient is not installed: run pip install python-openstackclient")
    if not EXAMPLE.is_file():
        raise CannotRun(f"The example cloud, {EXAMPLE}, is missing: install osc-placement again")


@contextmanager
def _signals_as_exits() -> Iterator[None]:
    """Have signals end the program with an exception, so that what it has started is stopped."""

    def end(number: int, _frame: object) -> None:
        _set_handlers(_ENDING, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    _set_handlers(_ENDING, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _set_handlers(numbers: Sequence[int], handler: signal._HANDLER) -> None:
    """Set the handler of signals that are not ignored already, as they are by nohup."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    try:
        directory = TemporaryDirectory(prefix="placement-demo-")
    except OSError as error:
        raise CannotRun(
            f"Cannot make a temporary directory: {error.strerror}; set TMPDIR to a directory with space"
        ) from error
    with directory as name:
        yield Path(name)


def _make_environment(place: Path, path: str) -> dict[str, str]:
    """Return the variables that lead to the server in a directory, and to no other cloud or proxy."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    for name in ("NO_PROXY", "no_proxy"):
        inherited[name] = ",".join(filter(None, (inherited.get(name), "127.0.0.1")))
    return {
        **inherited,
        "OS_CLIENT_CONFIG_FILE": str(place / "clouds.yaml"),
        "OS_CLOUD": CLOUD_NAME,
        "XDG_STATE_HOME": str(place / "state"),
        "PATH": path,
    }


@contextmanager
def _serving(place: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Serve from a directory; :raises CannotRun: the server does not start."""
    command = (sys.executable, "-m", "osc_placement.server.main", "serve")
    log = place / "server.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*command, "--port", "0", "--write-clouds-yaml", "clouds.yaml"],
            cwd=place,
            # without the cloud, whose variables would be options of the server
            env={name: value for name, value in environment.items() if not name.startswith("OS_")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            # Ctrl-C is for the shell or command
            process_group=0,
        ) as server,
    ):
        try:
            # a line when it is ready, nothing if it ends before
            output = server.stdout
            if not (output and select.select([output], [], [], _STARTING)[0] and output.readline()):
                raise CannotRun(f"The server does not start: {_last_line(log.read_text())}")
            yield
        finally:
            _set_handlers(_ENDING, signal.SIG_IGN)
            # unlike SIGTERM, it has a server that is still starting remove what it made
            server.send_signal(signal.SIGINT)
            try:
                server.wait(_PATIENCE)
            except subprocess.TimeoutExpired:  # a client holds a request open
                os.killpg(server.pid, signal.SIGKILL)


def _load(environment: Mapping[str, str]) -> None:
    """Load the example cloud; :raises CannotRun: it was not loaded."""
    command = (sys.executable, "-m", "openstackclient.shell", "resource", "provider", "apply", "--yes")
    done = subprocess.run(
        [*command, "-f", EXAMPLE.name],
        cwd=EXAMPLE.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotRun(f"The example cloud cannot be loaded: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    """Return the reason that a program gave at the end, without what the log has before it."""
    lines = text.strip().splitlines()
    return re.sub(r"^(placement-server: |.* \[-\] )", "", lines[-1]) if lines else "it does not say why"


def _run(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program and return its exit status as a shell would; :raises CannotRun: it cannot be run."""
    # a handler, and not SIG_IGN, which the program would inherit
    _set_handlers(_OF_TERMINAL, lambda *_: None)
    try:
        process = subprocess.Popen(words, env=environment)
    except OSError as error:
        raise CannotRun(f"Cannot run {words[0]}: {error.strerror}") from error
    try:
        status = process.wait()
    except SystemExit:
        # interactive shells ignore SIGTERM
        process.send_signal(signal.SIGHUP)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    return status if status >= 0 else 128 - status
