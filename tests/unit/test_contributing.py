# SPDX-License-Identifier: Apache-2.0
"""The pages for contributors tell what is so, and what their lists ask for has been done."""

import configparser
import pathlib
import re

import pytest
import yaml

from osc_placement import microversion
from osc_placement.server.api import routes

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "osc_placement"
PAGES = ROOT / "doc/source/contributor"
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")
COMMANDS = sorted(
    line.partition(" = ")[0].replace("_", " ")
    for line in CONFIG["options.entry_points"]["openstack.placement.v1"].split("\n")
    if line
)
NOTES = sorted((ROOT / "releasenotes/notes").iterdir())
#: the headings of a note, each over a list of texts; and the one over a text
SECTIONS = {"features", "issues", "upgrade", "deprecations", "critical", "security", "fixes", "other"}
PRELUDE = "prelude"


@pytest.mark.parametrize("page", ["adding", "releasing", "testing", "map"])
def test_names_in_contributor_pages_exist(page):
    """Files, directories and tests that a page names exist."""
    text = (PAGES / f"{page}.rst").read_text()
    for name in re.findall(r"``((?:tests|osc_placement|doc|tools|releasenotes)/[^`\s]+)", text):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        if test:
            assert re.search(rf"^def {test}\(", (ROOT / path).read_text(), re.MULTILINE), name


def test_the_picture_has_every_part():
    """Every module and directory at the top, and every directory of the server."""
    picture = (PAGES / "map.rst").read_text()
    for path in (*PACKAGE.iterdir(), *(PACKAGE / "server").iterdir()):
        is_part = (path.is_dir() and path.name != "__pycache__") or (
            path.parent == PACKAGE and path.suffix == ".py" and path.name != "__init__.py"
        )
        if is_part:
            assert re.search(rf"\b{path.stem}\b", picture), path.relative_to(ROOT)


def test_every_tool_is_documented():
    """The page on tests has each of them, and so has what contributors read first."""
    tools = [path.name for path in (ROOT / "tools").iterdir() if not path.suffix]
    for path in (PAGES / "testing.rst", ROOT / "CONTRIBUTING.rst"):
        page = path.read_text()
        assert [name for name in tools if f"``tools/{name}``" not in page] == [], path.name


def read_words(path):
    """What a file types, with lists of words, and names of lists, as they would be typed."""
    text = path.read_text()
    # such as BATCH = ("resource", "provider", "batch"), RUN = (*BATCH, "run"), and then (*RUN, "show")
    for _ in range(2):
        for name, words in re.findall(r"^([A-Z_]+) = \((\S.*)\)$", text, re.MULTILINE):
            text = text.replace(f"*{name},", f"{words},")
    return re.sub(r"""["'],\s*["']""", " ", text)


def read_tests():
    """What the tests of commands type, and the pages whose lines are run."""
    tests = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tests").rglob("*.yaml")]
    pages = [path for path in (ROOT / "doc/source").rglob("*.rst") if "$ openstack" in path.read_text()]
    files = [path for path in (*tests, *pages, ROOT / "README.rst") if path != pathlib.Path(__file__)]
    return "\n".join(map(read_words, files))


def is_typed(words, text):
    """Whether a command is in a text, be it that its verb is a parameter of the test."""
    noun = words.rpartition(" ")[0]
    return re.search(rf"\b{words}\b", text) or f'{noun}", verb' in text


def test_every_command_is_run_by_a_test():
    """Its words are typed somewhere, by a test or in a page whose lines are run."""
    text = read_tests()
    assert len(COMMANDS) > 60
    assert [words for words in COMMANDS if not is_typed(words, text)] == []


def test_every_own_route_is_documented():
    """The page for operators has its method and its path."""
    page = (ROOT / "doc/source/admin/own-routes.rst").read_text()
    own = [
        f"{method} {path}" for path, table in routes.ROUTES.items() for method in table if path[:3] == "/-/"
    ]
    assert own
    assert [operation for operation in own if f"``{operation}``" not in page] == []


def test_every_migration_has_its_tests():
    """A file of functional tests, named like its module."""
    modules = [path for path in (PACKAGE / "migrate/migrations").glob("*.py") if path.name != "base.py"]
    migrations = {path.stem for path in modules if "    def assess(self, context" in path.read_text()}
    assert {"mirror_aggregates", "audit", "flavors"} <= migrations
    names = {path.stem.removeprefix("test_") for path in (ROOT / "tests/functional/migrate").glob("*.py")}
    assert migrations <= names


#: the names of microversions, with their remarks
NAMED = re.findall(
    r"^([A-Z_]+) = Version\((\d+), (\d+)\)(?:  # (\S.*))?$",
    (PACKAGE / "microversion.py").read_text(),
    re.MULTILINE,
)


def test_every_microversion_has_a_name_and_a_remark():
    """One for each, in order; the first needs no remark."""
    numbers = [microversion.Version(int(major), int(minor)) for _, major, minor, _ in NAMED]
    assert tuple(numbers) == microversion.ALL
    assert [name for name, *_, remark in NAMED if not remark] == ["MIN"]


def test_every_microversion_is_used_by_its_name():
    """Nothing is named that nobody asks for, and nobody compares with a number."""
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "microversion.py"}
    text = "\n".join(sources.values())
    assert [name for name, *_ in NAMED if not re.search(rf"microversion\.{name}\b", text)] == []
    numbers = re.compile(r"version\s*[<>=]=?\s*\(1,|Version\(1, \d")
    assert [path.name for path, source in sources.items() if numbers.search(source)] == []


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_a_release_note_can_be_read_by_reno(path):
    """Its name ends in an ID, and it has lists of texts under headings that reno knows."""
    assert re.fullmatch(r"[a-z0-9-]+-[0-9a-f]{16}\.yaml", path.name)
    note = yaml.safe_load(path.read_text())
    assert note
    assert set(note) <= {*SECTIONS, PRELUDE}
    for section, texts in note.items():
        assert texts, section
        for text in [texts] if section == PRELUDE else texts:
            assert isinstance(text, str), section
            assert text.strip().endswith((".", "::")), text


def test_the_changelog_has_this_version():
    """The newest section is that of setup.cfg."""
    sections = re.findall(r"^(\d+\.\d+\.\d+)\n-+$", (ROOT / "CHANGELOG.rst").read_text(), re.MULTILINE)
    assert sections[0] == CONFIG["metadata"]["version"]
    numbers = [[int(part) for part in section.split(".")] for section in sections]
    assert numbers == sorted(numbers, reverse=True)
