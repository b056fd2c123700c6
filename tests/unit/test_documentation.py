# SPDX-License-Identifier: Apache-2.0
"""The pages: every command in them is run by a test, or at least there is one with these options."""

import argparse
import ast
import fnmatch
import pathlib
import re
import runpy
import shlex
import warnings
from importlib.metadata import distribution

import pytest

from osc_placement.commands.deferred import find
from osc_placement.server.main import make_parser as make_server_parser
from tests.migrate_parsers import find as find_migrate_parser
from tests.transcripts import DOCUMENTS, PAGES, read_steps
from tests.unit.commands.shell import make

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("*.rst"), *(ROOT / "doc" / "source").rglob("*.rst")])
#: pages that a test of their own runs
WITH_A_TEST = {
    "doc/source/admin/audit.rst": "tests/functional/migrate/test_pages.py",
    "doc/source/admin/baremetal.rst": "tests/functional/migrate/test_move_baremetal.py",
    "doc/source/admin/flavors.rst": "tests/functional/migrate/test_flavors.py",
    "doc/source/admin/leaving-caching-scheduler.rst": "tests/functional/migrate/test_pages.py",
    "doc/source/admin/mirroring-aggregates.rst": "tests/functional/migrate/test_pages.py",
}
#: pages whose commands are not run as they stand there, and why
NOT_RUN = {
    "doc/source/admin/compat.rst": "the index of packages; tests/functional/packaging/test_compat.py",
    "doc/source/admin/deploying.rst": "containers and the index of packages; tests/functional/packaging",
    "doc/source/admin/drop-in.rst": "random requests for minutes; tests/reliability runs the tool",
    "doc/source/admin/cve-2026-46448.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/admin/repairing-providers.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/admin/removing-hosts.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/admin/ports.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/admin/own-routes.rst": "answers that are cut short; tests/functional/api asks for them",
    "doc/source/admin/operations.rst": "states that a server has to be brought into; tests/functional/server",
    "doc/source/admin/shadow.rst": "a placement in service; tests/functional/server/test_shadow.py has some",
    "doc/source/cli/placement-migrate.rst": "a whole nova; tests/functional/migrate has one",
    "doc/source/contributor/cloud.rst": "a whole nova; tests/reliability/test_cloud.py",
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


#: a program, and what follows it in a message up to the end of the clause
COMMAND = re.compile(
    r"\b(openstack|placement-(?:migrate|server|manage)|nova-manage) (?!and |can )([a-z][^;,()'\"`|]*)"
)
#: plugins of the client that are not installed here
OTHER_PLUGINS = ("baremetal ",)


def messages_of(path):
    """Every string of a module but docstrings, with 1 in place of what is filled in."""
    tree = ast.parse(path.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    skipped |= {id(each) for node in joined for each in node.values}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.replace("{}", "1")
        elif isinstance(node, ast.JoinedStr):
            yield "".join(each.value if isinstance(each, ast.Constant) else "1" for each in node.values)


def commands_in_messages(path):
    """Every command in the strings of a module, as words; prose may follow."""
    for text in messages_of(path):
        for program, rest in COMMAND.findall(" ".join(text.split())):
            yield [program, *(word.rstrip(".:") for word in rest.split())]


POINTS = {
    point.name.replace("_", " "): point.attr
    for point in distribution("osc-placement").entry_points.select(group="openstack.placement.v1")
}
#: the commands of the client itself
CLIENT_POINTS = {
    point.name.replace("_", " "): point
    for point in distribution("python-openstackclient").entry_points
    if re.fullmatch(r"openstack\.(common|compute|identity|image|network)(\.v[23])?", point.group)
}
#: the first words that are ours
OURS = re.compile("allocation candidate|resource (class|provider|usage)|trait")


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
        parser, arguments = find_migrate_parser(rest)
        return judge_program(arguments, parser)
    if program.startswith("tools/"):
        return None if (ROOT / program).is_file() else "there is no such tool"
    return None


def find_parser(words):
    """The parser of a command, and the words after its name; None without one, as in the name of a group."""
    program, *rest = words
    text = " ".join(rest)
    if program == "placement-migrate":
        return find_migrate_parser(rest)
    if program != "openstack":
        return make_server_parser(), rest
    known = {**CLIENT_POINTS, **POINTS}
    named = [name for name in known if f"{text} ".startswith(f"{name} ")]
    if not named:
        return None
    name = max(named, key=len)
    with warnings.catch_warnings():
        # other releases of the libraries of the client have other ones
        warnings.simplefilter("ignore", DeprecationWarning)
        command = find(*POINTS[name].split(".")) if name in POINTS else CLIENT_POINTS[name].load()
    return make(command).get_parser("openstack"), rest[len(name.split()) :]


def judge_message(words):
    """What is wrong with a command that prose may follow; None if nothing is."""
    if words[1:] and f"{words[1]} ".startswith(OTHER_PLUGINS):
        return None
    found = find_parser(words)
    if found is None:
        is_group = any(f"{name} ".startswith(f"{' '.join(words[1:])} ") for name in POINTS)
        return None if is_group else "there is no such command"
    parser, arguments = found
    if fault := judge_program(arguments, parser):
        return fault
    last = max((place for place, word in enumerate(arguments) if re.match("--?[a-z]", word)), default=-1)
    faults = []
    for end in range(len(arguments), last, -1):
        try:
            parse(parser, arguments[:end])
        except ValueError as error:
            faults.append(str(error))
        else:
            return None
    # a command may be named without its arguments
    bare = "the following arguments are required"
    wrong = [fault for fault in faults if bare not in fault]
    is_named = len(wrong) < len(faults) and not any("invalid choice" in fault for fault in wrong)
    return None if is_named or not arguments else wrong[0]


def parse(parser, words):
    """Parse words; raise ValueError with what the parser says."""

    def fail(message):
        raise ValueError(message)

    for each in parsers_of(parser):
        each.error = fail
    parser.parse_args(words)


def parsers_of(parser):
    """A parser and all parsers below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers_of(inner)


MODULES = [
    path
    for path in sorted((ROOT / "osc_placement").rglob("*.py"))
    if any(words[0] != "nova-manage" for words in commands_in_messages(path))
]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_commands_in_messages_are_parsed(path):
    """By the client itself, its plugin and our programs, with the options that they are given."""
    commands = [words for words in commands_in_messages(path) if words[0] != "nova-manage"]
    wrong = {" ".join(words): judge_message(words) for words in commands}
    assert {command: fault for command, fault in wrong.items() if fault} == {}


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
    """One that a test runs; but for those of the plugin before this one."""
    if command in OLD:
        return
    pages = [ROOT / name for name in DOCUMENTS] + list(PAGES)
    lines = [step.command for page in pages for step in read_steps(page.read_text())]
    assert any(f"openstack {command} " in f"{line} " for line in lines)
