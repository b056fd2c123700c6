# SPDX-License-Identifier: Apache-2.0
"""The program `placement-completion`."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osc_placement.completion import main as module
from osc_placement.completion import programs
from osc_placement.completion.main import SHELLS, main
from osc_placement.completion.programs import Answer

BREAKS = " \t\n\"'@><=;|&(:"
#: what names are made of, and nothing that breaks lines
TEXT = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1)


@pytest.mark.parametrize("shell", SHELLS)
def test_code_for_a_shell_calls_this_program(shell, capsys, monkeypatch):
    """By its whole path, quoted."""
    monkeypatch.setattr(sys, "argv", ["/opt/a b/bin/placement-completion", shell])
    assert main() == 0
    code = capsys.readouterr().out
    assert f"'/opt/a b/bin/placement-completion' --complete {shell} " in code
    assert "@PROGRAM@" not in code


@pytest.mark.parametrize("arguments", [[], ["fish"], ["bash", "zsh"]])
def test_other_arguments_are_refused(arguments, capsys):
    """In two lines."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("placement-completion: error: ")
    assert hint == "See: placement-completion --help"


@pytest.fixture
def answer(monkeypatch, capsys):
    """A function that gives the lines printed for a command line in which some words follow."""

    def ask(words, *arguments):
        monkeypatch.setattr(programs, "complete", lambda line, text: Answer(dict.fromkeys(words, ""), 3))
        assert main(["--complete", *arguments]) == 3
        return capsys.readouterr().out.split("\n")[:-1]

    return ask


@pytest.mark.parametrize(
    ("line", "words", "printed"),
    [
        ("openstack x", ["x y"], [r"x\ y"]),
        ("openstack 'x", ["x's", "x y"], [r"x'\''s", "x y"]),
        ("openstack 'x", ["x'"], [r"x'\'''"]),
        ('openstack "x', ['x"$`!', "x y"], ['x\\"\\$\\`"\'!\'"', "x y"]),
        ('openstack "x', ['x"'], ['x\\""']),
        ("openstack a:b:c", ["a:b:cd"], ["cd"]),
        ("openstack --name=c", ["--name=cd"], ["cd"]),
        ("openstack a@b", ["a@bc"], ["@bc"]),
        ("openstack 'a:b", ["a:bc"], ["a:bc"]),
    ],
)
def test_words_for_bash_are_quoted_as_the_line_is(line, words, printed, answer):
    """Without what bash leaves in the line, which is all up to the last character that breaks words."""
    assert answer(words, "bash", line, str(len(line)), BREAKS) == printed


def test_words_for_zsh_are_as_they_are(answer):
    """zsh quotes them; a description follows the tab."""
    assert answer(["a b:c", "--d"], "zsh", "openstack", "") == ["a b:c\t", "--d\t"]


@given(TEXT, st.sampled_from(["", "'", '"']))
def test_quoted_word_means_the_word(word, quote):
    """For bash, in each kind of quotes."""
    command = f"printf %s {quote}{module._quote(word, quote, 0)}{quote}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == word


def test_program_loads_little_for_the_words_of_commands():
    """They are completed at each key, and need neither the client nor a command."""
    code = (
        "import sys; from osc_placement.completion.main import main; "
        "main(['--complete', 'zsh', 'openstack', 'resource', '']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("class\t\nprovider\t\nusage\t\n")
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint(
        ("requests", "cliff", "osc_lib", "yaml", "sqlalchemy", "osc_placement.batch", "openstack")
    )


def test_code_for_bash_does_not_end_a_shell_with_errexit(tmp_path, capsys, monkeypatch):
    """Neither where it is read nor where it completes."""
    program = tmp_path / "placement-completion"
    program.write_text("#!/bin/sh\necho show\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "argv", [str(program), "bash"])
    assert main() == 0
    code = capsys.readouterr().out
    complete = (
        'COMP_LINE="openstack sh" COMP_POINT=12\n_placement_completion openstack\necho "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", f"set -eu\n{code}\n{complete}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "show\n")
