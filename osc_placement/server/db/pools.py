# SPDX-License-Identifier: Apache-2.0
"""The count of open connections of a pool, and of those in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import event
from sqlalchemy.pool import QueuePool

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from osc_placement.server.observer import Observer


def watch(engine: Engine, pool: str, observer: Observer) -> None:
    """Tell an observer of every connection that an engine opens, closes, takes or gives back.

    A detached connection does not count as one of the pool any more.
    """

    def listen(name: str, *, opened: int = 0, taken: int = 0) -> None:
        def tell(*_given: object) -> None:
            observer.pool_changed(pool, opened=opened, taken=taken)

        event.listen(engine, name, tell)

    if isinstance(engine.pool, QueuePool):
        # connections opened before, such as for a change to the schema; other pools keep one until the end
        observer.pool_changed(pool, opened=engine.pool.checkedin())
    listen("connect", opened=1)
    listen("close", opened=-1)
    listen("checkout", taken=1)
    listen("checkin", taken=-1)
    listen("detach", opened=-1, taken=-1)
