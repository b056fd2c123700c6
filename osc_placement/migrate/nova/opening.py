# SPDX-License-Identifier: Apache-2.0
"""A source that is opened in a thread of its own while placement is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from osc_placement.migrate.nova.source import ClosableSource


class Opening:
    """Calling it gives the source, once it is open, or raises why it cannot be.

    PERF: to load SQLAlchemy and to connect takes a third of a second, in which placement finds its answer.
    """

    def __init__(self, open_source: Callable[[], ClosableSource]) -> None:
        self._opened: Future[ClosableSource] = Future()
        # a daemon, or the end of the process would wait for a database that does not answer
        threading.Thread(target=self._open, args=(open_source,), daemon=True).start()

    def _open(self, open_source: Callable[[], ClosableSource]) -> None:
        try:
            source = open_source()
            source.prepare()
            self._opened.set_result(source)
        except BaseException as error:  # it is raised where the source is wanted
            self._opened.set_exception(error)

    def __call__(self) -> ClosableSource:
        return self._opened.result()

    def close(self) -> None:
        """Give back what the source has open, as soon as it is; nobody waits for that."""
        self._opened.add_done_callback(_close)


def _close(opened: Future[ClosableSource]) -> None:
    if opened.exception() is None:
        opened.result().close()
