# SPDX-License-Identifier: Apache-2.0
"""The rules of provider configuration files, compared with nova's own loader."""

import json
import pathlib
import random
import subprocess

import pytest
import yaml

from osc_placement.model import MAX_AMOUNT, Inventory
from osc_placement.provider_config.document import Entry, Level, format_file
from osc_placement.provider_config.files import list_problems, read_locations
from tests.functional.migrate.nova_databases import find_nova

SCRIPT = pathlib.Path(__file__).with_name("nova_loader.py")
CASES = yaml.safe_load(pathlib.Path(__file__).with_name("cases.yaml").read_text())
#: values that are put in place of parts of a good file
ODD = (
    None,
    "",
    0,
    1,
    -1,
    1.5,
    True,
    [],
    {},
    [[]],
    ["CUSTOM_A"],
    "CUSTOM_A",
    "x",
    {"total": 1},
    "$COMPUTE_NODE",
)
KEYS = (
    "uuid",
    "name",
    "total",
    "reserved",
    "additional",
    "traits",
    "__source_file",
    "CUSTOM_A",
    "VCPU",
    "other",
)
MUTATIONS = 400


def write(directory, case):
    """Make the directory of a case."""
    directory.mkdir()
    files = case.get("files", {"a.yaml": case.get("text", "")})
    for name, text in files.items():
        if name.endswith("/"):
            (directory / name).mkdir()
        else:
            (directory / name).write_text(text)
    if "binary" in case:
        (directory / "a.yaml").write_bytes(bytes.fromhex(case["binary"]))
    return str(directory)


def ask_nova(cases, script=SCRIPT):
    """What nova's code says to all of them."""
    done = subprocess.run(
        [find_nova() / "python", script],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The directory of each case, with what nova says of it, by its name."""
    root = tmp_path_factory.mktemp("cases")
    directories = [write(root / str(number), case) for number, case in enumerate(CASES)]
    names = [case["name"] for case in CASES]
    return dict(zip(names, zip(directories, ask_nova(directories), strict=True), strict=True))


def errors_of(directory):
    """The problems of a directory that are errors."""
    problems = list_problems(read_locations([directory], str))
    return [problem for problem in problems if problem.level is Level.ERROR]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"].replace(" ", "-"))
def test_lint_has_an_error_where_nova_refuses(judged, case):
    """And none where nova loads the files; the text names the reason."""
    directory, theirs = judged[case["name"]]
    assert ("loaded" in theirs) == case["accepted"], theirs
    problems = list_problems(read_locations([directory], str))
    errors = [problem for problem in problems if problem.level is Level.ERROR]
    assert bool(errors) == (not case["accepted"]), problems
    told = errors or problems
    assert not (case.get("clean") and told)
    assert not told or any(case.get("says", "") in problem.text for problem in told), told


def test_lines_of_problems_are_those_of_the_file(tmp_path):
    """A problem has the line of the value that is wrong."""
    path = tmp_path / "a.yaml"
    path.write_text(
        'meta:\n  schema_version: "1.0"\nproviders:\n  - identification:\n      name: a\n'
        "    traits:\n      additional:\n        - CUSTOM_A\n        - HW_CPU_X86_AVX\n"
        "    inventories:\n      additional:\n        - CUSTOM_B:\n"
        "            total: 1\n            reserved: 2\n"
    )
    told = [str(problem) for problem in list_problems(read_locations([str(path)], str))]
    assert [text.split(": ")[0] for text in told] == [f"{path}:9", f"{path}:14"]


def mutate(chance, value):
    """A value with one part replaced, removed or added, at random."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.25:
        return chance.choice(ODD)
    copy = value.copy()
    place = chance.choice(list(copy)) if isinstance(copy, dict) else chance.randrange(len(copy))
    turn = chance.random()
    if turn < 0.1:
        del copy[place]
    elif turn < 0.25 and isinstance(copy, dict):
        copy[chance.choice(KEYS)] = chance.choice(ODD)
    elif turn < 0.35 and isinstance(copy, list):
        copy.append(copy[place])
    else:
        copy[place] = mutate(chance, copy[place])
    return copy


def test_mutated_files_are_judged_as_by_nova(tmp_path):
    """A part of a good file is replaced, removed or repeated at random."""
    chance = random.Random(34)
    good = yaml.safe_load(CASES[0]["text"])
    good["providers"].append(
        {"identification": {"uuid": "$COMPUTE_NODE"}, "traits": {"additional": ["CUSTOM_A"]}}
    )
    directories = []
    for number in range(MUTATIONS):
        text = yaml.safe_dump(mutate(chance, good), sort_keys=False)
        directories.append(write(tmp_path / str(number), {"text": text}))
    refused = 0
    for directory, theirs in zip(directories, ask_nova(directories), strict=True):
        ours = errors_of(directory)
        refused += "refused" in theirs
        text = pathlib.Path(directory, "a.yaml").read_text()
        assert bool(ours) == ("refused" in theirs), (text, ours, theirs)
    assert MUTATIONS / 10 < refused < MUTATIONS * 9 / 10


def choose_entry(chance, key, by):
    """An entry with any content."""
    inventories = {
        f"CUSTOM_CLASS_{number}": Inventory(
            total=chance.randint(1, 100),
            reserved=chance.choice((0, 1)),
            max_unit=chance.choice((MAX_AMOUNT, 5)),
            allocation_ratio=chance.choice((1.0, 16.0, 1.5)),
        )
        for number in range(chance.randrange(3))
    }
    traits = frozenset(f"CUSTOM_TRAIT_{number}" for number in range(chance.randint(1, 3)))
    return Entry(key, traits, inventories, by)


def test_nova_loads_formatted_files_with_the_same_content(tmp_path):
    """Names that YAML would read as something else included."""
    chance = random.Random(1)
    keys = [
        ("compute-1", "name"),
        ("1.0", "name"),
        ("yes", "name"),
        ("ä: [b] #c", "name"),
        ("line\nend", "name"),
        ("6b2f5a3e-1111-4222-8333-94a4bcd21a3e", "uuid"),
        ("$COMPUTE_NODE", "uuid"),
    ]
    entries = [choose_entry(chance, *key) for key in keys]
    directory = write(tmp_path / "d", {"text": format_file(entries)})
    (theirs,) = ask_nova([directory])
    assert list(theirs["loaded"]) == [entry.key for entry in entries]
    for entry in entries:
        loaded = theirs["loaded"][entry.key]
        assert loaded["identification"] == {entry.by: entry.key}
        assert set(loaded["traits"]["additional"]) == entry.traits
        found = {
            name: Inventory.from_json(fields)
            for item in loaded.get("inventories", {}).get("additional", ())
            for name, fields in item.items()
        }
        assert found == entry.inventories
    ((location),) = read_locations([directory], str)
    assert [(each.key, each.traits, each.inventories) for each in location.entries] == [
        (each.key, each.traits, each.inventories) for each in entries
    ]
