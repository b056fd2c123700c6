# SPDX-License-Identifier: Apache-2.0
"""The transcripts of README.rst and of the manual: their commands, run in order, print what is written."""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import termios

import pytest

from tests.functional import forking
from tests.functional.commands.pty_run import WholeTerminal
from tests.transcripts import DOCUMENTS, MANUAL, README, ROOT, read_steps

#: lines of a transcript that stand for any number of lines
LEFT_OUT = "..."
#: the ID of a run in a text that is escaped, and what stands for that of any run
WRITTEN_ID = re.compile(r"\d{8}T\d{6}\\-[0-9a-f]{6}")
ANY_ID = r"\d{8}T\d{6}-[0-9a-f]{6}"
#: gives a command the variables and the directory of the one before
TAKE_VARIABLES = '. "$VARIABLES"\ncd "$PWD"\n'
#: prints the variables of the shell after a command, so that the next one has them
KEEP_VARIABLES = '\nstatus=$?\nset +o xtrace\nexport -p >"$VARIABLES"\nexit $status'

#: what pages have run
PROGRAMS = ("openstack", "placement-server")
#: what a command says every few seconds of its way to the end, on a machine where that takes so long
PROGRESS = re.compile(r"^\w+: \d+( of \d+)?, [\d.]+ a second.*\n", re.MULTILINE)
#: what it says on a terminal if it takes longer than half a second, and the line of the erased bar
CONTROL = re.compile(r"^Run \S+; to control it \(.*\):\s+echo pause > .*\n\n?", re.MULTILINE)
PROMPT = "$ "
QUESTION = "[y/N] "


REHEARSAL = "doc/source/cli/rehearsal.rst"
STEPS = {document: read_steps((ROOT / document).read_text()) for document in DOCUMENTS}


class Shell:
    """A shell that keeps its variables from one command to the next, in a directory with the examples.

    The programs that are ``forked`` come from fork servers; the others are started as people start them.
    """

    def __init__(self, directory, forked=()):
        shutil.copytree(ROOT / "examples", directory / "examples")
        self.directory = directory
        self.programs = directory / "programs"
        self.programs.mkdir()
        self.inherited = [forking.find_server(program).write_program(self.programs) for program in forked]
        self.variables = directory / "variables.sh"
        self.variables.write_text("")
        self.background = []
        self.ports = set()

    def run(self, command):
        """Run a command; what it prints, stdout and stderr as they come."""
        if command.endswith(" &"):
            return self.start(command.removesuffix(" &"))
        script = f"{TAKE_VARIABLES}set -o allexport\n{command}{KEEP_VARIABLES}"
        done = subprocess.run(["sh", "-c", script], **self.settings(), stdout=subprocess.PIPE, check=False)
        assert done.returncode == 0, done.stdout
        return PROGRESS.sub("", done.stdout)

    def start(self, command):
        """Start a server on a free port; its first line, with the port that the command would have taken."""
        port = (re.findall(r"--port (\d+)", command) or ["8778"])[0]
        assert port == "0" or port not in self.ports, f"{command}: another server listens there"
        self.ports.add(port)
        script = f"{TAKE_VARIABLES}exec {command} --port 0"
        process = subprocess.Popen(["sh", "-c", script], **self.settings(), stdout=subprocess.PIPE)
        self.background.append(process)
        return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", process.stdout.readline())

    def settings(self):
        """Return how every process is run: in the tests' environment, but with no cloud configured."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        programs = f"{self.programs}:{pathlib.Path(sys.executable).parent}:{inherited['PATH']}"
        home = {"HOME": str(self.directory), "VARIABLES": str(self.variables)}
        return {
            "cwd": self.directory,
            "env": {**inherited, **home, "PATH": programs, "COLUMNS": "200", "LC_ALL": "C.UTF-8"},
            "pass_fds": self.inherited,
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.STDOUT,
            "text": True,
        }

    def stop(self):
        """Stop what runs in the background."""
        for process in self.background:
            process.send_signal(signal.SIGTERM)
            process.wait()
            process.stdout.close()


@pytest.fixture
def make_shell(tmp_path):
    """A function that makes a shell in a directory of its own."""
    with contextlib.ExitStack() as made:

        def make(forked=()):
            shell = Shell(tmp_path, forked)
            made.callback(shell.stop)
            return shell

        yield make


def assert_matches(step, actual):
    """Compare what is shown with what came; three dots stand for any lines, and an ID for that of any run."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == LEFT_OUT else re.escape(line) + r"\n" for line in step.output.splitlines()
    )
    pattern = WRITTEN_ID.sub(lambda _: ANY_ID, pattern)
    assert re.fullmatch(pattern, actual), f"{step.command}\nwritten is:\n{step.output}\nit prints:\n{actual}"


def test_readme_is_short_and_its_links_lead_somewhere():
    """At most 450 words, with one session; and files that there are."""
    text = (ROOT / README).read_text()
    assert len(text.split()) <= 450
    assert text.count(".. code-block:: console") == 1
    links = re.findall(r"<([^<>\s]+)>`__", text)
    assert len(links) == text.count("`__")
    assert [link for link in links if not (ROOT / link).is_file()] == []


class Window:
    """Starts programs that control their terminal, as the window of a terminal emulator does."""

    def __init__(self, shell):
        self._settings = shell.settings()

    def start(self, *command, endpoint, environment, **streams):
        """Begin a program."""
        # this TERM leaves colours out
        env = {**self._settings["env"], "TERM": "dumb", **dict(environment)}
        del env["COLUMNS"]
        return subprocess.Popen(
            command,
            **{**self._settings, **streams, "env": env},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )


class Session:
    """Commands on a terminal of 80 columns and 24 lines; the programs come from fork servers."""

    def __init__(self, shell):
        self._shell = shell
        self._demo = None

    def run(self, step):
        """Run a command, and give the answers that are shown; what it prints."""
        if step.command == "placement-server demo":
            return self._start_demo()
        if step.command.endswith(" &"):
            return self._shell.start(step.command.removesuffix(" &"))
        script = f"{TAKE_VARIABLES}set -o allexport\n{step.command}{KEEP_VARIABLES}"
        terminal = self._open("sh", "-c", script)
        begun = 0
        for answer in re.findall(rf"{re.escape(QUESTION)}(.*)", step.output):
            begun = terminal.read_until(QUESTION, begun)
            terminal.write(f"{answer}\n")
        shown, status = terminal.finish()
        assert status == 0, f"{step.command}\n{shown}"
        return CONTROL.sub("", PROGRESS.sub("", shown))

    def _start_demo(self):
        """Start a demo whose shell hands its variables over, with the forked programs before others."""
        shell = self._shell.directory / "demo-shell"
        shell.write_text(
            f'#!/bin/sh\nPATH="{self._shell.programs}:$PATH"\nexport -p >"$VARIABLES"\necho\nexec cat\n'
        )
        shell.chmod(0o755)
        self._demo = self._open("placement-server", "demo", environment={"SHELL": str(shell)})
        end = self._demo.read_until("\n\n")
        return self._demo.shown[: end - 1]

    def _open(self, *command, environment=()):
        return WholeTerminal(Window(self._shell), *command, columns=80, rows=24, environment=environment)

    def close(self):
        """End the demo, if there is one."""
        if self._demo:
            self._demo.write("\x04")
            self._demo.finish()


def assert_steps_match(shell, steps):
    """Every command, run in order from a fresh server, ends well and prints what is shown."""
    assert steps
    with contextlib.closing(Session(shell)) as session:
        for step in steps:
            assert_matches(step, session.run(step))


def read_lines(text):
    """Return the lines of all shell blocks, in order, without their comments."""
    blocks = re.findall(r"^\.\. code-block:: shell\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    return [re.sub(" +#.*", "", line.strip()) for block in blocks for line in block.splitlines() if line]


def test_session_of_the_readme_is_what_a_terminal_shows(make_shell, tmp_path):
    """Typed into a shell on a terminal of 80 columns, from the first prompt to the last; nothing is left."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    variables = {"PS1": PROMPT, "SHELL": "/bin/sh", "TMPDIR": str(temporary)}
    terminal = WholeTerminal(Window(make_shell()), "/bin/sh", "-i", columns=80, environment=variables)
    place = terminal.read_until(PROMPT)
    for step in STEPS[README]:
        terminal.write(f"{step.command}\n")
        begun = terminal.read_until(f"{step.command}\n", place)
        for answer in re.findall(rf"{re.escape(QUESTION)}(.*)", step.output):
            terminal.read_until(QUESTION, begun)
            terminal.write(f"{answer}\n")
        place = terminal.read_until(f"\n{PROMPT}", begun - 1)
        assert_matches(step, CONTROL.sub("", terminal.shown[begun : place - len(PROMPT)]))
    assert list(temporary.iterdir()) == []
    terminal.write("exit\n")
    terminal.finish()


def test_cloud_of_ones_own_is_copied_as_the_manual_says(make_shell):
    """With a cloud that is in the usual place, and another directory for the copy."""
    shell = make_shell()
    cloud, *_ = STEPS[REHEARSAL]
    shell.run(cloud.command)
    shell.run("OS_CLOUD=placement openstack resource provider apply -f examples/cloud.yaml --yes")
    own = shell.directory / ".config" / "openstack"
    own.mkdir(parents=True)
    clouds = shell.directory / "clouds.yaml"
    (own / "clouds.yaml").write_text(clouds.read_text().replace(" placement:", " production:"))
    clouds.unlink()
    said = [shell.run(line) for line in read_lines((ROOT / REHEARSAL).read_text())]
    assert "resource providers: 401 created\n" in said[-1]


@pytest.mark.parametrize("document", MANUAL)
def test_commands_of_the_manual_print_what_it_shows(make_shell, document):
    """Those of the manual."""
    assert_steps_match(make_shell(PROGRAMS), STEPS[document])


def test_rehearsal_changes_only_the_copy():
    """What is tried, and what takes all of it back, is for the second server."""
    cloud, tried = None, []
    for step in STEPS[REHEARSAL]:
        cloud = step.command.partition("export OS_CLOUD=")[2] or cloud
        if re.search("trait add|provider create|apply -f production.yaml", step.command):
            tried.append(cloud)
    assert set(tried) == {"placement"}
