# SPDX-License-Identifier: Apache-2.0
"""The differential tester as a program: options to conversations, and what is printed of them."""

from __future__ import annotations

import argparse
import logging
import pathlib
import secrets
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random

import sqlalchemy as sa

from osc_placement.server.shadow.exchange import Request
from tests.reliability.differential import runner
from tests.reliability.differential.sides import Ours, Reference


def main(arguments: list[str] | None = None) -> int:
    """Run, and return the exit status."""
    options = _parse(arguments)
    # the reference warns of its own use of libraries, and logs what it answers with 500
    warnings.simplefilter("ignore")
    logging.disable()
    with _databases(options.database) as (left, right):
        pair = runner.Pair(Reference(left), Ours(right))
        if options.replay:
            return _replay(pair, options.replay)
        return _explore(pair, options)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/differential",
        description="Send the same random requests to this project's server and to openstack-placement, and "
        "compare what they answer and what is then in their databases.",
        epilog="Exit status: 0 no difference that has no reason, 1 differences (printed, each with the "
        "requests that lead to it), 2 a command line that cannot be read.",
    )
    parser.add_argument("--minutes", type=float, help="go on for so long")
    parser.add_argument("--requests", type=int, help="go on until so many are sent (default: 10000)")
    parser.add_argument("--seed", type=int, help="begin with this one; otherwise one is chosen, and printed")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="a database server on which two databases are made, for the time: "
        "mysql+pymysql://root@127.0.0.1/ (default: two SQLite files)",
    )
    parser.add_argument(
        "--clouds",
        action="store_true",
        help="make a cloud in each conversation, and ask for its candidates and providers without a limit",
    )
    parser.add_argument("--max-differences", type=int, default=10, help="stop after so many (default: 10)")
    parser.add_argument("--replay", type=pathlib.Path, help="send the requests of this file instead")
    return parser.parse_args(arguments)


def _explore(pair: runner.Pair, options: argparse.Namespace) -> int:
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    random = Random(seed)
    converse = runner.ask_about_a_cloud if options.clouds else runner.converse
    began, tally = time.monotonic(), pair.tally
    found = 0
    while found < options.max_differences and not _is_enough(tally.requests, began, options):
        difference = converse(pair, random)
        if difference is not None:
            found += 1
            sent = tally.requests
            print(f"difference {found}: {runner.shrink(pair, difference)}\n", flush=True)
            # what was sent again to find less of it does not count
            tally.requests = sent
    _print_tally(tally, time.monotonic() - began)
    print(f"seed {seed}: {tally.requests} requests, {found} unexplained differences")
    return 1 if found else 0


def _is_enough(sent: int, began: float, options: argparse.Namespace) -> bool:
    if options.minutes is not None and time.monotonic() - began >= options.minutes * 60:
        return True
    limit = options.requests if options.requests or options.minutes else 10_000
    return limit is not None and sent >= limit


def _print_tally(tally: runner.Tally, seconds: float) -> None:
    print(f"{tally.conversations} conversations in {seconds:.0f} s")
    print("answers: " + ", ".join(f"{count} of {status}" for status, count in sorted(tally.statuses.items())))
    for reason, count in tally.explained.most_common():
        print(f"explained: {count} times: {reason}")


def _replay(pair: runner.Pair, path: pathlib.Path) -> int:
    requests = [Request.from_json(line) for line in path.read_text().splitlines() if line.strip()]
    difference = runner.replay(pair, requests)
    print(difference or "no difference")
    return 1 if difference else 0


@contextmanager
def _databases(server: str | None) -> Iterator[list[str]]:
    """Two empty databases, as URLs; gone afterwards."""
    with ExitStack() as made:
        if server is None:
            directory = made.enter_context(tempfile.TemporaryDirectory())
            yield [f"sqlite:///{directory}/{side}.db" for side in ("reference", "ours")]
            return
        yield [made.enter_context(_database(sa.make_url(server))) for _ in range(2)]


@contextmanager
def _database(server: sa.URL) -> Iterator[str]:
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    name = f"osc_placement_differential_{secrets.token_hex(6)}"
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    try:
        yield server.set(database=name).render_as_string(hide_password=False)
    finally:
        force = " WITH (FORCE)" if server.get_backend_name() == "postgresql" else ""
        with engine.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name}{force}"))


if __name__ == "__main__":
    sys.exit(main())
