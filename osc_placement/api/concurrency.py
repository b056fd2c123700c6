# SPDX-License-Identifier: Apache-2.0
"""Call a function for many items in several threads, and return its values in the order of the items."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")

#: how many requests are under way at once unless the caller says otherwise: beyond 3 it gets no faster with
#: two server workers on two cores, and servers that are further away, or larger, have use for more
CONCURRENCY: Final = 8
#: seconds of one wait, after which a pending KeyboardInterrupt is raised: a signal that arrives just before
#: the wait, or in another thread, does not end it
_LONGEST_WAIT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings of a long reading: requests at once, and callbacks for the number of items and each item."""

    concurrency: int = CONCURRENCY
    on_total: Callable[[int], None] = field(default=lambda _total: None)
    on_item: Callable[[object], None] | None = None


def map_in_order(
    function: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    threads: int = CONCURRENCY,
    on_result: Callable[[Value], None] | None = None,
) -> list[Value]:
    """Return the function's values in the order of the items.

    ``on_result`` is called in the caller's thread with each value as soon as it is there. After an exception
    no further item is started. An Exception is raised when the items in progress have ended;
    KeyboardInterrupt at once, as an answer that is waited for may never come.
    """
    return map_many(lambda item: (function(item),), items, threads=threads, on_result=on_result)


def map_many(
    function: Callable[[Item], Iterable[Value]],
    items: Sequence[Item],
    *,
    threads: int = CONCURRENCY,
    on_result: Callable[[Value], None] | None = None,
) -> list[Value]:
    """Do the same for a function that yields any number of values for an item."""
    futures: list[Future[list[Value]]] = [Future() for _ in items]
    waiting = deque(zip(futures, items, strict=True))
    news: SimpleQueue[_News[Value]] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                future, item = waiting.popleft()
            except IndexError:
                return
            try:
                values = []
                for value in function(item):
                    news.put(_News((value,)))
                    values.append(value)
                future.set_result(values)
            except BaseException as error:  # it is raised in the caller's thread
                future.set_exception(error)
            news.put(_News(finished=future))

    # daemons, or the end of the process would wait for them; ThreadPoolExecutor has none
    workers = [threading.Thread(target=work, daemon=True) for _ in range(max(1, min(threads, len(items))))]
    left = len(items)
    try:
        for worker in workers:
            worker.start()
        while left:
            try:
                piece = news.get(timeout=_LONGEST_WAIT)
            except Empty:
                continue
            if on_result:
                for value in piece.values:
                    on_result(value)
            if piece.finished:
                piece.finished.result()
                left -= 1
        _join(workers)
    except BaseException as error:
        waiting.clear()
        if isinstance(error, Exception):
            _join(workers)
        raise
    return [value for future in futures for value in future.result()]


@dataclass(frozen=True, slots=True)
class _News(Generic[Value]):
    """A message of a worker: new values, or that an item is finished."""

    values: Sequence[Value] = ()
    finished: Future[list[Value]] | None = None


def _join(workers: Sequence[threading.Thread]) -> None:
    for worker in workers:
        if worker.ident is not None:
            worker.join()
