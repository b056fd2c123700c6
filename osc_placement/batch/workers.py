# SPDX-License-Identifier: Apache-2.0
"""One function over many items by several threads: order in is order out. Knows nothing of placement."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")

#: how many requests are under way at once unless the caller says otherwise. Measured with 500 providers and
#: two server workers on two cores: beyond 8 it gets no faster on loopback
CONCURRENCY: Final = 8


def map_in_order(
    function: Callable[[Item], Value],
    items: Sequence[Item],
    *,
    threads: int = CONCURRENCY,
    on_result: Callable[[Value], None] | None = None,
) -> list[Value]:
    """The function's values in the order of the items.

    ``on_result`` is called in the caller's thread as values come, in the order in which they come. What has
    not begun when an exception comes is dropped. An Exception is raised when what is under way has ended;
    KeyboardInterrupt at once, as an answer that is waited for may never come.
    """
    futures: list[Future[Value]] = [Future() for _ in items]
    waiting = deque(zip(futures, items, strict=True))
    done: SimpleQueue[Future[Value]] = SimpleQueue()
    workers = [
        # daemons, or the end of the process would wait for them; ThreadPoolExecutor has none
        threading.Thread(target=_work, args=(function, waiting, done), daemon=True)
        for _ in range(max(1, min(threads, len(items))))
    ]
    try:
        _collect(workers, done, len(items), on_result)
    except BaseException as error:
        waiting.clear()
        if isinstance(error, Exception):
            _join(workers)
        raise
    return [future.result() for future in futures]


def _collect(
    workers: Sequence[threading.Thread],
    done: SimpleQueue[Future[Value]],
    number: int,
    on_result: Callable[[Value], None] | None,
) -> None:
    for worker in workers:
        worker.start()
    for _ in range(number):
        value = done.get().result()
        if on_result:
            on_result(value)
    _join(workers)


def _work(
    function: Callable[[Item], Value],
    waiting: deque[tuple[Future[Value], Item]],
    done: SimpleQueue[Future[Value]],
) -> None:
    while True:
        try:
            future, item = waiting.popleft()
        except IndexError:
            return
        try:
            future.set_result(function(item))
        except BaseException as error:  # it is raised in the caller's thread
            future.set_exception(error)
        done.put(future)


def _join(workers: Sequence[threading.Thread]) -> None:
    for worker in workers:
        if worker.ident is not None:
            worker.join()
