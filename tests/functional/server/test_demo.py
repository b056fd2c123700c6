# SPDX-License-Identifier: Apache-2.0
"""`placement-server demo`, as a process: a cloud for a shell or a command, of which nothing is left."""

import fcntl
import os
import pathlib
import re
import signal
import subprocess
import termios

import pytest

from osc_placement.server import main
from osc_placement.server.process import demo
from tests.functional import servers
from tests.functional.commands.pty_run import WholeTerminal
from tests.waiting import wait_until

#: seconds for all that a demo does
PATIENCE = 120
#: prints a line when the shell runs that is given it, and goes on until a signal comes
WAIT = "echo waiting; exec sleep 600"


class Program:
    """`placement-server demo`, with its temporary directory in one of the test's."""

    def __init__(self, directory, **variables):
        self.place = directory / "tmp"
        self.place.mkdir()
        self.variables = {"TMPDIR": str(self.place), "SHELL": "/bin/sh", "PS1": "$ ", "TERM": "dumb"}
        self.variables |= variables

    def start(self, *command, environment=(), endpoint=None, **settings):
        """Begin to run it, in a session of its own."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        env = servers.make_environment(**{**self.variables, **dict(environment)})
        # the width is that of the terminal
        env.pop("COLUMNS", None)
        line = [*servers.make_command(), "demo", *(("--", *command) if command else ())]

        def prepare():
            # which workers of pytest ignore
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if os.isatty(0):
                # the terminal that it controls, so that Ctrl-C comes from there
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        settings = {**pipes, "start_new_session": True, **settings}
        return subprocess.Popen(line, env=env, text=True, preexec_fn=prepare, **settings)

    def run(self, *command, **variables):
        """Run a command in it; its status, and what came on stdout and stderr."""
        with self.start(*command, environment=variables, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def find_left(self):
        """What is in the temporary directory, and the processes that work there."""
        found = [path.name for path in self.place.iterdir()]
        for process in pathlib.Path("/proc").glob("[0-9]*/cwd"):
            # some end meanwhile, and some are those of other people
            try:
                if os.readlink(process).startswith(str(self.place)):
                    found.append(str(process))
            except OSError:
                continue
        return found


@pytest.fixture
def program(tmp_path):
    """The program, of which nothing may be left at the end."""
    started = Program(tmp_path)
    yield started
    assert started.find_left() == []


def test_a_command_has_the_example_cloud_and_no_other(program):
    """Whatever variables and proxy the caller has; the status of the command is passed on."""
    script = (
        "env; openstack resource provider list -f value -c name | wc -l;"
        " openstack resource provider batch run list -f value -c what; exit 3"
    )
    others = {
        "OS_AUTH_URL": "http://127.0.0.1:1",
        "OS_PLACEMENT_DATABASE__CONNECTION": "sqlite:////nowhere/at/all",
        "http_proxy": "http://127.0.0.1:1",
        "NO_PROXY": "example.org",
        "no_proxy": "example.org",
    }
    status, out, err = program.run("sh", "-c", script, **others)
    assert (status, err) == (3, "")
    assert out.endswith("\n401\napply cloud.yaml\n")
    variables = re.findall(r"^(OS_\w+|XDG_STATE_HOME|no_proxy)=(.*)", out, re.MULTILINE)
    place = rf"{re.escape(str(program.place))}/placement-demo-\w+"
    assert sorted(name for name, _ in variables) == [
        "OS_CLIENT_CONFIG_FILE",
        "OS_CLOUD",
        "XDG_STATE_HOME",
        "no_proxy",
    ]
    variables = dict(variables)
    assert re.fullmatch(f"{place}/clouds.yaml", variables["OS_CLIENT_CONFIG_FILE"])
    assert re.fullmatch(f"{place}/state", variables["XDG_STATE_HOME"])
    assert (variables["OS_CLOUD"], variables["no_proxy"]) == ("placement", "example.org,127.0.0.1")


def test_a_command_keeps_its_arguments_and_its_signal(program):
    """Two dashes and options of its own are for the command; one that is killed ends as in a shell."""
    assert program.run("sh", "-c", 'echo "$@"; kill -9 $$', "sh", "--", "--help")[:2] == (137, "-- --help\n")


def test_a_shell_on_a_terminal_is_told_what_to_do(program):
    """Three lines, then the shell of $SHELL, and at its end the status of it."""
    terminal = WholeTerminal(program, columns=80)
    terminal.read_until("$ ")
    terminal.write('echo "$OS_CLOUD, $?"\n')
    terminal.read_until("placement, 0\n$ ")
    terminal.write("exit 4\n")
    shown, status = terminal.finish()
    assert status == 4
    assert shown.splitlines()[: len(demo.GREETING)] == list(demo.GREETING)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_signal_ends_the_shell_and_the_server(program, number):
    """Also SIGTERM, which interactive shells ignore."""
    terminal = WholeTerminal(program, columns=80)
    terminal.read_until("$ ")
    terminal.process.send_signal(number)
    assert terminal.finish()[1] == 128 + number


def test_signal_ends_a_command_that_ignores_it(program):
    """It gets some seconds before it is killed."""
    with program.start("sh", "-c", f"trap '' HUP TERM; {WAIT}") as process:
        assert process.stdout.readline() == "waiting\n"
        process.terminate()
        assert process.wait(PATIENCE) == 143


def test_ctrl_c_is_for_the_command(program):
    """One that goes on after it goes on with its server; at the end of the other, the demo ends."""
    count = "openstack resource provider list -f value -c name | wc -l"
    # a shell that has just forked may lose the signal for its child, and would wait for that
    script = f"trap '{count}; exit 5' INT; echo waiting; while :; do sleep 0.1; done"
    terminal = WholeTerminal(program, "sh", "-c", script, columns=80)
    terminal.read_until("waiting\n")
    terminal.write("\x03")
    shown, status = terminal.finish()
    assert status == 5
    assert shown.endswith("401\n")


def test_signal_while_the_server_starts_leaves_nothing(program):
    """Neither the directory nor the server."""
    with program.start("true") as process:
        wait_until(lambda: any(program.place.glob("placement-demo-*/server.log")))
        process.terminate()
        assert process.wait(PATIENCE) == 143


def refuse(program, *command, **variables):
    """Run a demo that is refused; the line that says why."""
    status, out, err = program.run(*command, **variables)
    assert (status, out) == (1, "")
    match = re.fullmatch(r"placement-server: (.*)\n", err)
    assert match, err
    return match[1]


def test_no_terminal_and_no_command_is_refused(program):
    """The line shows how to name a command."""
    assert refuse(program) == (
        "There is no terminal for a shell: name a command, such as placement-server demo -- openstack "
        "resource provider list"
    )


def test_a_command_that_there_is_not_is_refused(program, tmp_path):
    """At once, and so is a file that the system cannot run."""
    assert refuse(program, "no-such-program") == "There is no program no-such-program"
    (tmp_path / "program").write_text("\x00")
    (tmp_path / "program").chmod(0o755)
    refused = refuse(program, str(tmp_path / "program"))
    assert refused == f"Cannot run {tmp_path}/program: Exec format error"


def test_a_shell_that_there_is_not_is_refused(program):
    """The line says which variable names it."""
    terminal = WholeTerminal(program, columns=120, environment={"SHELL": "/no/such/shell"})
    assert terminal.finish() == (
        "placement-server: There is no program /no/such/shell; set SHELL to the path of a shell\n",
        1,
    )


def test_an_option_that_there_is_not_is_refused(program):
    """As by the other commands."""
    done = subprocess.run(
        [*servers.make_command(), "demo", "--port", "1"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("See: placement-server demo --help\n")


def test_a_server_that_does_not_start_is_reported(program):
    """With the reason that it gives; here it may not open its files and connections."""
    limit = ("sh", "-c", 'ulimit -n 40; exec "$@"', "sh")
    done = subprocess.run(
        [*limit, servers.PROGRAM, "demo", "--", "true"],
        env=servers.make_environment(**program.variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("placement-server: The server does not start: A process may have 40 open")


@pytest.fixture
def refuse_here(capsys):
    """A function that runs a demo which is refused, in this process, and returns the line that says why."""

    def refuse_here():
        assert main.main(["demo", "--", "true"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        return err.removeprefix("placement-server: ").removesuffix("\n")

    return refuse_here


def test_a_cloud_that_cannot_be_loaded_is_reported(refuse_here, monkeypatch, tmp_path):
    """With the reason of the command that loads it; one that is missing is noticed before."""
    monkeypatch.setattr(demo, "EXAMPLE", tmp_path / "cloud.yaml")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert refuse_here().startswith(f"The example cloud, {tmp_path}/cloud.yaml, is missing: install ")
    (tmp_path / "cloud.yaml").write_text("providers: [{name: 1}]\n")
    before = signal.getsignal(signal.SIGINT)
    assert refuse_here().startswith("The example cloud cannot be loaded: cloud.yaml, line 1: ")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_missing_client_is_reported(refuse_here, monkeypatch):
    """With the package that has it."""
    find = demo.importlib.util.find_spec
    monkeypatch.setattr(
        demo.importlib.util, "find_spec", lambda name: None if name == "openstackclient" else find(name)
    )
    assert refuse_here() == "openstackclient is not installed: run pip install python-openstackclient"


def test_a_temporary_directory_that_cannot_be_made_is_reported(refuse_here, monkeypatch):
    """With the variable that names another."""

    def fail(**_settings):
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(demo, "TemporaryDirectory", fail)
    assert refuse_here() == (
        "Cannot make a temporary directory: No usable temporary directory found in ['/tmp']; set TMPDIR to a "
        "directory with space"
    )
