# SPDX-License-Identifier: Apache-2.0
"""The pages: every command in them is run by a test, or at least there is one with these options."""

import argparse
import fnmatch
import pathlib
import re
import runpy
import shlex
from importlib.metadata import distribution

import pytest

from osc_placement.commands.deferred import find
from osc_placement.migrate.main import make_parser as make_migrate_parser
from osc_placement.server.main import make_parser as make_server_parser
from tests.transcripts import DOCUMENTS, PAGES, read_steps
from tests.unit.commands.shell import make

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("*.rst"), *(ROOT / "doc" / "source").rglob("*.rst")])
#: pages that a test of their own runs
WITH_A_TEST = {
    "doc/source/admin/baremetal.rst": "tests/functional/migrate/test_move_baremetal.py",
    "doc/source/admin/flavors.rst": "tests/functional/migrate/test_flavors.py",
}
#: pages whose commands are not run as they stand there, and why
NOT_RUN = {
    "doc/source/admin/compat.rst": "the index of packages; tests/functional/packaging/test_compat.py",
    "doc/source/admin/deploying.rst": "containers and the index of packages; tests/functional/packaging",
    "doc/source/admin/drop-in.rst": "random requests for minutes; tests/reliability runs the tool",
    "doc/source/admin/leaving-caching-scheduler.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/admin/mirroring-aggregates.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/admin/repairing-providers.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/admin/own-routes.rst": "answers that are cut short; tests/functional/api asks for them",
    "doc/source/admin/operations.rst": "states that a server has to be brought into; tests/functional/server",
    "doc/source/admin/shadow.rst": "a placement in service; tests/functional/server/test_shadow.py has some",
    "doc/source/cli/placement-migrate.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/contributor/reliability.rst": "minutes of load; tests/reliability runs short forms",
    "doc/source/contributor/schedules.rst": "minutes of schedules; tests/reliability runs a short form",
    "doc/source/contributor/testing.rst": "hours of nova; tests/functional/conformance runs a short form",
    "doc/source/contributor/benchmarks.rst": "an hour of measuring; tests/functional/benchmarks runs --quick",
}
#: what osc-placement 4.9.1 has
OLD = frozenset(
    (
        "allocation candidate list",
        "resource class create",
        "resource class delete",
        "resource class list",
        "resource class set",
        "resource class show",
        "resource provider aggregate list",
        "resource provider aggregate set",
        "resource provider allocation delete",
        "resource provider allocation set",
        "resource provider allocation show",
        "resource provider allocation unset",
        "resource provider create",
        "resource provider delete",
        "resource provider inventory class set",
        "resource provider inventory delete",
        "resource provider inventory list",
        "resource provider inventory set",
        "resource provider inventory show",
        "resource provider list",
        "resource provider set",
        "resource provider show",
        "resource provider trait delete",
        "resource provider trait list",
        "resource provider trait set",
        "resource provider usage show",
        "resource usage show",
        "trait create",
        "trait delete",
        "trait list",
        "trait show",
    )
)


def relative(path):
    """A path as the tables have it."""
    return str(path.relative_to(ROOT))


def commands_of(path):
    """Every command of a page, as words: those of blocks and those in prose."""
    text = path.read_text()
    lines = [step.command for step in read_steps(text)]
    for block in re.findall(r"^\.\. code-block:: shell\n\n((?:   .*\n|\n)+)", text, re.MULTILINE):
        lines += [line.strip() for line in block.splitlines() if line.strip()]
    lines += [" ".join(literal.split()) for literal in re.findall(r"``([^`]+)``", text)]
    for line in lines:
        yield from split(line)


def split(line):
    """The simple commands of a line of shell."""
    lexer = shlex.shlex(line.replace("$(", "; "), posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        return
    words = []
    for token in [*tokens, ";"]:
        if set(token) <= set("|&;<>()"):
            if words:
                yield words
            words = []
        else:
            words.append(token)


def options_of(parser):
    """The options of a parser, long and short."""
    return {option for action in parser._actions for option in action.option_strings}


POINTS = {
    point.name.replace("_", " "): point.attr
    for point in distribution("osc-placement").entry_points.select(group="openstack.placement.v1")
}
#: the first words that are ours
OURS = re.compile("allocation candidate|placement migration|resource (class|provider|usage)|trait")


def judge_openstack(words):
    """What is wrong with a command of the plugin; None if nothing is."""
    words = words[: words.index("...")] if "..." in words else words
    while words and words[0].startswith("-"):
        words = words[1:] if "=" in words[0] else words[2:]
    if words[:1] == ["help"]:
        words = words[1:]
    text = " ".join(words)
    if not OURS.match(text):
        return None
    named = [name for name in POINTS if f"{text} ".startswith(f"{name} ")]
    if not named:
        groups = [name for name in POINTS if f"{name} ".startswith(f"{text} ")]
        return None if groups else "there is no such command"
    name = max(named, key=len)
    parser = make(find(*POINTS[name].split("."))).get_parser("openstack")
    return judge_options(words[len(name.split()) :], options_of(parser))


def judge_options(words, options):
    """What is wrong with the options among these words."""
    given = {word.partition("=")[0] for word in words if re.match("--[a-z]", word)}
    unknown = given - options
    return f"there is no {', '.join(sorted(unknown))}" if unknown else None


def judge_program(words, parser):
    """What is wrong with a command of a program with subcommands."""
    options = options_of(parser)
    for word in list(words):
        choices = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not choices or word.startswith("-"):
            continue
        if word in choices[0].choices:
            parser = choices[0].choices[word]
            options |= options_of(parser)
    return judge_options(words, options)


def judge(words):
    """What is wrong with a command; None if nothing is, or if it is not ours."""
    program, *rest = words
    if program == "openstack":
        return judge_openstack(rest)
    if program == "placement-server":
        return judge_program(rest, make_server_parser())
    if program == "placement-migrate":
        return judge_program(rest, make_migrate_parser())
    if program.startswith("tools/"):
        return None if (ROOT / program).is_file() else "there is no such tool"
    return None


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_commands_of_the_pages_exist(path):
    """With the options that they are given, in blocks and in prose."""
    wrong = {" ".join(words): judge(words) for words in commands_of(path)}
    assert {command: fault for command, fault in wrong.items() if fault} == {}


def test_every_command_has_one_manual_page():
    """The pages of the reference share the commands out."""
    pages = (ROOT / "doc/source/cli").glob("openstack-*.rst")
    patterns = [line for page in pages for line in re.findall(r"   :command: (.*)", page.read_text())]
    counts = {name: sum(fnmatch.fnmatch(name, pattern) for pattern in patterns) for name in POINTS}
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_every_page_of_the_reference_is_a_manual_page():
    """conf.py names them, and the table of contents has them."""
    configuration = runpy.run_path(str(ROOT / "doc/source/conf.py"))
    manual = {pathlib.Path(name).name for name, *_ in configuration["man_pages"]}
    pages = {page.stem for page in (ROOT / "doc/source/cli").glob("*-*.rst")}
    assert manual == pages
    contents = (ROOT / "doc/source/cli/reference.rst").read_text().split()
    assert {page for page in pages if page.startswith("openstack-")} <= set(contents)


def test_every_page_with_commands_is_run():
    """Or it says here why not."""
    with_commands = {relative(path) for path in SOURCES if ".. code-block:: console" in path.read_text()}
    run = {*DOCUMENTS, *map(relative, PAGES), *WITH_A_TEST}
    assert with_commands - run <= set(NOT_RUN)
    assert run.isdisjoint(NOT_RUN)


def test_pages_that_a_test_of_their_own_runs_are_named_there():
    """The test reads the page itself."""
    for page, test in WITH_A_TEST.items():
        assert pathlib.Path(page).name in (ROOT / test).read_text()


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_one_run_is_meant_where_there_may_be_many(path):
    """A command about a run takes the last of those that are listed, whatever was done before."""
    for step in read_steps(path.read_text()):
        for listing in re.findall(r"\$\(([^)]* run list [^)]*)\)", step.command):
            assert listing.endswith("| tail -1"), step.command


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_what_is_installed_by_name_is_this(path):
    """Under its name there is the plugin before it, too, which pip takes where it finds no other."""
    named = [words for words in commands_of(path) if words[:2] == ["pip", "install"]]
    named = [word for words in named for word in words if word.startswith("osc-placement")]
    assert [word for word in named if not word.endswith((">=5", "<5"))] == []


@pytest.mark.parametrize("command", sorted(POINTS))
def test_new_commands_have_a_worked_example(command):
    """One that a test runs; but for those of the plugin before this one, and what needs a nova."""
    if command in OLD or command in ("placement migration check", "placement migration run"):
        return
    pages = [ROOT / name for name in DOCUMENTS] + list(PAGES)
    lines = [step.command for page in pages for step in read_steps(page.read_text())]
    assert any(f"openstack {command} " in f"{line} " for line in lines)
