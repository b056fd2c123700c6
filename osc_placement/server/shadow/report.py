# SPDX-License-Identifier: Apache-2.0
"""The report of a shadow: what was forwarded and compared, by route and microversion, and what differed.

It is written to a file as JSON, which `read_file` reads back, so that a shadow that is started again goes on
with its report.
"""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import math
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prettytable import PrettyTable

from osc_placement.server.process.opening import CannotRun
from osc_placement.whole_file import write_whole

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator, Mapping

LOG = logging.getLogger(__name__)

#: the number of the format of the file
FORMAT: Final = 1
#: differences that are kept whole: in all, of one route and microversion, and of one reason
MOST_EXAMPLES: Final = 100
_MOST_OF_A_KEY: Final = 5
_MOST_OF_A_REASON: Final = 2
#: different notes that are kept
_MOST_NOTES: Final = 100
#: seconds for which a note that was logged is not logged again
_NOTE_AGAIN: Final = 60.0
#: the ratio of two neighbouring limits of latency: quantiles are 3 % away at most
_STEP: Final = 1.05


class Key(NamedTuple):
    """What is counted separately; the microversion is empty if the answer had none."""

    method: str
    route: str
    microversion: str


class Latencies:
    """The number of requests by their duration, in classes whose limits grow by 5 %."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts = collections.Counter({int(number): count for number, count in (counts or {}).items()})

    def add(self, seconds: float) -> None:
        """Count a request."""
        self._counts[round(math.log(max(seconds, 1e-6), _STEP))] += 1

    def find_quantile(self, part: float) -> float | None:
        """Return the seconds within which this part of the requests was answered; None without requests."""
        rest = part * self._counts.total()
        for number in sorted(self._counts):
            rest -= self._counts[number]
            if rest <= 0:
                return float(_STEP**number)
        return None

    def to_document(self) -> dict[str, Any]:
        """Return the quantiles, in seconds, and the counts."""
        counts = {str(number): count for number, count in sorted(self._counts.items())}
        return {"median": self.find_quantile(0.5), "p99": self.find_quantile(0.99), "classes": counts}


@dataclass
class Tally:
    """What happened to the requests of one route and microversion.

    :ivar different: comparisons with a difference that nothing explains
    :ivar explained: comparisons with an intended difference, by its reason
    """

    forwarded: int = 0
    failed: collections.Counter[str] = field(default_factory=collections.Counter)
    equal: int = 0
    asked_again: int = 0
    different: int = 0
    explained: collections.Counter[str] = field(default_factory=collections.Counter)
    skipped: collections.Counter[str] = field(default_factory=collections.Counter)
    upstream: Latencies = field(default_factory=Latencies)
    ours: Latencies = field(default_factory=Latencies)

    @property
    def compared(self) -> int:
        """Return the number of comparisons that came to a result."""
        return self.equal + self.different + self.explained.total()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a comparison.

    :ivar skipped: why there is no result
    :ivar example: request and both answers, without secrets, if they differ
    :ivar explained: the reason of an intended difference
    :ivar asked_again: whether both sides were asked more than once
    :ivar seconds: the duration of our answer
    """

    skipped: str | None = None
    example: dict[str, Any] | None = None
    explained: str | None = None
    asked_again: bool = False
    seconds: float = 0.0


class Report:
    """The counts and examples; threads may share it."""

    def __init__(self, upstream: str) -> None:
        self._lock = threading.Lock()
        self._upstream = upstream
        self._began = _now()
        self._tallies: collections.defaultdict[Key, Tally] = collections.defaultdict(Tally)
        self._examples: list[dict[str, Any]] = []
        self._kept: collections.Counter[tuple[str, ...]] = collections.Counter()
        self._notes: dict[str, dict[str, Any]] = {}
        self._logged_at: dict[str, float] = {}
        self._restarts = 0

    def forwarded(self, key: Key) -> None:
        """Count a request that upstream answered."""
        with self._lock:
            self._tallies[key].forwarded += 1

    def failed(self, key: Key, status: int) -> None:
        """Count a request that upstream did not answer, by the status that the client got."""
        with self._lock:
            self._tallies[key].failed[str(status)] += 1

    def skipped(self, key: Key, reason: str) -> None:
        """Count a request that is not compared."""
        with self._lock:
            self._tallies[key].skipped[reason] += 1

    def restarted(self) -> None:
        """Count a restart of the process that compares."""
        with self._lock:
            self._restarts += 1

    def compared(self, key: Key, verdict: Verdict, upstream_seconds: float) -> None:
        """Count a comparison, and keep its example while there is room."""
        with self._lock:
            tally = self._tallies[key]
            if verdict.skipped is not None:
                tally.skipped[verdict.skipped] += 1
                return
            tally.upstream.add(upstream_seconds)
            tally.ours.add(verdict.seconds)
            tally.asked_again += verdict.asked_again
            if verdict.example is None:
                tally.equal += 1
                return
            if verdict.explained is None:
                tally.different += 1
            else:
                tally.explained[verdict.explained] += 1
            self._keep({**key._asdict(), "explained": verdict.explained, "at": _now(), **verdict.example})

    def _keep(self, example: dict[str, Any]) -> None:
        reason = example["explained"]
        kind = (reason,) if reason else (example["method"], example["route"], example["microversion"])
        most = _MOST_OF_A_REASON if reason else _MOST_OF_A_KEY
        if self._kept[kind] < most and len(self._examples) < MOST_EXAMPLES:
            self._kept[kind] += 1
            self._examples.append(example)

    def note(self, text: str) -> None:
        """Log and keep something that an operator has to know; the same text is logged once a minute."""
        with self._lock:
            now = time.monotonic()
            is_new = now > self._logged_at.get(text, -math.inf) + _NOTE_AGAIN
            if text in self._notes or len(self._notes) < _MOST_NOTES:
                self._logged_at[text] = now if is_new else self._logged_at[text]
                note = self._notes.setdefault(text, {"text": text, "first": _now(), "times": 0})
                note["times"] += 1
                note["last"] = _now()
        if is_new:
            LOG.warning("%s", text)

    def to_document(self) -> dict[str, Any]:
        """Return the report as it is written."""
        with self._lock:
            return {
                "format": FORMAT,
                "upstream": self._upstream,
                "began": self._began,
                "updated": _now(),
                "restarts": self._restarts,
                "notes": [dict(note) for note in self._notes.values()],
                "routes": [
                    {
                        **key._asdict(),
                        "forwarded": tally.forwarded,
                        "failed": dict(tally.failed),
                        "compared": tally.compared,
                        "equal": tally.equal,
                        "different": tally.different,
                        "explained": dict(tally.explained),
                        "skipped": dict(tally.skipped),
                        "asked_again": tally.asked_again,
                        "upstream_seconds": tally.upstream.to_document(),
                        "our_seconds": tally.ours.to_document(),
                    }
                    for key, tally in sorted(self._tallies.items())
                ],
                "differences": list(self._examples),
            }

    def save(self, path: pathlib.Path) -> None:
        """Write the report to a file that only its owner may read; :raises OSError: that fails."""
        write_whole(path, [json.dumps(self.to_document()), "\n"], 0o600)

    @classmethod
    def resume(cls, upstream: str, path: pathlib.Path) -> Report:
        """Return the report that a file has, or an empty one if there is no such file.

        :raises CannotRun: the file is no report, or that of another service
        """
        report = cls(upstream)
        if not path.exists():
            return report
        document = read_file(path)
        if document["upstream"] != upstream:
            raise CannotRun(
                f"{path} is the report of a shadow of {document['upstream']}; name another file with --report"
            )
        with _refusing(path):
            report._began = document["began"]
            report._restarts = document["restarts"]
            report._notes = {note["text"]: note for note in document["notes"]}
            for row in document["routes"]:
                report._tallies[Key(*(row[name] for name in Key._fields))] = Tally(
                    row["forwarded"],
                    collections.Counter(row["failed"]),
                    row["equal"],
                    row["asked_again"],
                    row["different"],
                    collections.Counter(row["explained"]),
                    collections.Counter(row["skipped"]),
                    Latencies(row["upstream_seconds"]["classes"]),
                    Latencies(row["our_seconds"]["classes"]),
                )
            for example in document["differences"]:
                report._keep(example)
        return report


def read_file(path: pathlib.Path) -> dict[str, Any]:
    """Return the report in a file; :raises CannotRun: there is none that can be read."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotRun(f"The report, {path}, cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CannotRun(f"{path} is no report of a shadow: it is not JSON") from error
    if not (isinstance(document, dict) and document.get("format") == FORMAT and "routes" in document):
        raise CannotRun(f"{path} is no report of a shadow, or of another release")
    with _refusing(path):
        render(document)
    return document


@contextlib.contextmanager
def _refusing(path: pathlib.Path) -> Iterator[None]:
    """Raise CannotRun for a document that is not as `Report.to_document` makes it."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CannotRun(f"{path} is no report of a shadow: it is damaged") from error


def render(document: Mapping[str, Any]) -> str:
    """Return a report as text, for people."""
    lines: list[str] = []
    rows = document["routes"]
    totals = {
        name: sum(row[name] for row in rows) for name in ("forwarded", "compared", "equal", "different")
    }
    explained = _add(row["explained"] for row in rows)
    skipped = _add(row["skipped"] for row in rows)
    failed = _add(row["failed"] for row in rows)
    lines.append(f"Shadow of {document['upstream']} from {document['began']} to {document['updated']}")
    lines.append(
        f"{totals['forwarded']} requests forwarded, {totals['compared']} compared: {totals['equal']} equal, "
        f"{totals['different']} different, {explained.total()} different as intended"
    )
    for title, counts in (
        ("Different as intended", explained),
        ("Not compared", skipped),
        ("Not answered by upstream, with status", failed),
    ):
        if counts:
            lines.append(f"{title}:")
            lines.extend(f"  {count} {reason}" for reason, count in counts.most_common())
    if document["notes"]:
        lines.append("Notes:")
        lines.extend(
            f"  {note['text']} ({note['times']} times, last at {note['last']})" for note in document["notes"]
        )
    compared = [row for row in rows if row["compared"]]
    if compared:
        table = PrettyTable(["Request", "Version", "Equal", "Intended", "Different", "Upstream", "Ours"])
        table.align = "r"
        table.align["Request"] = "l"
        for row in compared:
            table.add_row(
                [
                    f"{row['method']} {row['route']}",
                    row["microversion"],
                    row["equal"],
                    sum(row["explained"].values()),
                    row["different"],
                    _show(row["upstream_seconds"]),
                    _show(row["our_seconds"]),
                ]
            )
        lines.append("Comparisons, and the median and 99th percentile of both sides in milliseconds:")
        lines.append(table.get_string())
    for number, one in enumerate(document["differences"], 1):
        meaning = f"intended: {one['explained']}" if one["explained"] else "not explained"
        query = f"?{one['query']}" if one["query"] else ""
        lines.append(f"Difference {number}, {meaning}, at {one['at']}:")
        lines.append(f"  {one['method']} {one['path']}{query} {one['headers']}")
        lines.extend(f"  {line}" for line in one["lines"])
    return "\n".join(lines)


def _add(counts: Any) -> collections.Counter[str]:
    total: collections.Counter[str] = collections.Counter()
    for one in counts:
        total.update(one)
    return total


def _show(latencies: Mapping[str, Any]) -> str:
    return " / ".join(f"{latencies[name] * 1000:.1f}" for name in ("median", "p99"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
