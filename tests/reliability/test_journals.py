# SPDX-License-Identifier: Apache-2.0
"""Journals that were damaged on the disk: nothing is undone wrongly, and nothing ends in a traceback."""

import collections
import contextlib
import functools
import json
import random
from dataclasses import dataclass

import pytest

from osc_placement.batch import journal
from osc_placement.errors import PlacementError
from tests.reliability import scale
from tests.unit.batch import journals

#: of each kind of run, in the short form
ROUNDS = 60
VALUES = (None, True, 0, -1, 3, 1.5, "", "a", "A", [], ["A"], {}, {"VCPU": 1}, "applied", "skipped", 2**70)
DOCUMENTS = (
    b"[]",
    b"null",
    b"7",
    b'"run"',
    b"{}",
    b'{"record":"new"}',
    b'{"record":["run"]}',
    b"[" * 5000,
    b"\xff",
)


def split(content):
    return content.splitlines(keepends=True)


def flip_bits(rng, content, _others):
    """One to three bits of the file."""
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def delete_lines(rng, content, _others):
    """One line or some in a row."""
    lines = split(content)
    first = rng.randrange(len(lines))
    del lines[first : first + rng.randint(1, 3)]
    return b"".join(lines)


def double_line(rng, content, _others):
    """A line once more, anywhere behind it."""
    lines = split(content)
    number = rng.randrange(len(lines))
    lines.insert(rng.randint(number + 1, len(lines)), lines[number])
    return b"".join(lines)


def swap_lines(rng, content, _others):
    """Two lines in each other's place."""
    lines = split(content)
    one, other = rng.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def truncate(rng, content, _others):
    """The end is missing, at any byte or at the end of a line."""
    if rng.random() < 0.5:
        return content[: rng.randrange(len(content))]
    lines = split(content)
    return b"".join(lines[: rng.randrange(len(lines))])


def join_lines(rng, content, _others):
    """A line end, or some bytes, are missing in the middle."""
    lines = split(content)
    number = rng.randrange(len(lines))
    lines[number] = lines[number][: -rng.randint(1, 20)]
    return b"".join(lines)


def find_places(value):
    """The containers and keys of all values of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from find_places(inner)


def rewrite(rng, content, change):
    """Change a record, or two of them, and write them as a run does."""
    records = [json.loads(line) for line in content.splitlines()]
    number = rng.randrange(len(records))
    change(records, number)
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def swap_fields(rng, content, _others):
    """Two values of one record, or of two."""

    def change(records, number):
        other = number if rng.random() < 0.5 else rng.randrange(len(records))
        one, key = rng.choice(list(find_places(records[number])))
        two, second = rng.choice(list(find_places(records[other])))
        one[key], two[second] = two[second], one[key]

    with contextlib.suppress(ValueError):  # a value that went into itself
        return rewrite(rng, content, change)
    return flip_bits(rng, content, _others)


def replace_value(rng, content, _others):
    """A value of another type, or another value."""

    def change(records, number):
        place, key = rng.choice(list(find_places(records[number])))
        place[key] = rng.choice(VALUES)

    return rewrite(rng, content, change)


def delete_field(rng, content, _others):
    """A member of an object, or of a list."""

    def change(records, number):
        place, key = rng.choice(list(find_places(records[number])))
        del place[key]

    return rewrite(rng, content, change)


def replace_line(rng, content, _others):
    """JSON that no run writes, or none."""
    lines = split(content)
    lines[rng.randrange(len(lines))] = rng.choice(DOCUMENTS) + b"\n"
    return b"".join(lines)


def take_line_of_another(rng, content, others):
    """A line of another run in place of one, or between two."""
    lines = split(content)
    number = rng.randrange(len(lines))
    lines[number : number + rng.randint(0, 1)] = [rng.choice(split(rng.choice(others)))]
    return b"".join(lines)


DAMAGES = (
    flip_bits,
    delete_lines,
    double_line,
    swap_lines,
    truncate,
    join_lines,
    swap_fields,
    replace_value,
    delete_field,
    replace_line,
    take_line_of_another,
)


def try_it(do, cloud):
    """Do something with a damaged journal: how it ended, and what was said if it was refused."""
    try:
        report = do(cloud)
    except PlacementError as error:
        return "refused", str(error)
    status = report if isinstance(report, int) else 0 if report is None else report.exit_status
    return ("done", "") if status == 0 else ("told", "")


@dataclass(frozen=True)
class Found:
    """A journal as it is found on the disk, with its mark."""

    run: journals.Made
    content: bytes
    mark: str

    def write(self, directory, content):
        """Put it into a directory with other content."""
        path = directory / self.run.path.name
        path.write_bytes(content)
        path.with_suffix(".mark").write_text(self.mark)


def kill(run, content):
    """The journal as it was when the process died before the last outcome, and synchronized before that."""
    lines = split(content[: content.rindex(b'{"record":"outcome"')])
    synced = max(
        number
        for number, line in enumerate(lines, 1)
        if json.loads(line)["record"] in ("intent", "planned", "end")
    )
    return Found(run, b"".join(lines), f"{synced} {json.loads(lines[synced - 1])['sum']}\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The journals of a run of each kind: whole, and of a process that died."""
    found = {}
    for kind in journals.KINDS:
        run = journals.make(kind, tmp_path_factory.mktemp(kind))
        content = run.path.read_bytes()
        mark = run.path.with_suffix(".mark").read_text()
        found[kind] = Found(run, content, mark), kill(run, content)
    return found


def take_others(made, kind):
    """The journals of the other kinds."""
    return [whole.content for other, (whole, _) in made.items() if other != kind]


DEEDS = {
    "undo": journals.undo,
    "forced undo": functools.partial(journals.undo, force=True),
    "resume": journals.resume,
}


@pytest.mark.parametrize("kind", journals.KINDS)
def test_a_damaged_journal_is_refused_or_harmless(made, kind, tmp_path, capsys):
    """An undo that ends with 0 leads back to the start, a resume to the end; a refusal changes nothing."""
    counts = collections.Counter()
    for number in scale.rounds(ROUNDS):
        rng = random.Random(f"{kind} {number}")
        damage = DAMAGES[number % len(DAMAGES)]
        found = rng.choice(made[kind])
        damaged = damage(rng, found.content, take_others(made, kind))
        run, after = found.run, found.run.cloud.contents
        counts["journals"] += damaged != found.content
        for verb, do in DEEDS.items():
            found.write(tmp_path, damaged)
            cloud = run.cloud.copy()
            ending, message = try_it(functools.partial(do, run_id=run.id, directory=tmp_path), cloud)
            counts[f"{verb} {ending}"] += 1
            goal = {"refused": after, "done": after if verb == "resume" else run.before}
            assert cloud.contents == goal.get(ending, cloud.contents), (verb, damage, number)
            assert "\n" not in message
            assert ending != "refused" or str(tmp_path) in message or run.id in message
            assert len(list(journal.Journals(tmp_path).read_all())) == 1
            for path in tmp_path.iterdir():
                path.unlink()
    report(capsys, kind, counts)


def report(capsys, what, counts):
    """Print how often what came of it, where somebody asked for more than the short form."""
    if scale.is_full():
        with capsys.disabled():
            print(f"\n{what}: {', '.join(f'{number} {name}' for name, number in sorted(counts.items()))}")
