# SPDX-License-Identifier: Apache-2.0
"""``placement-server db online_data_migrations``: repairs of old rows, in batches, while the service runs.

The output and the exit statuses are those of ``placement-manage``, because deployment tools read them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import prettytable

from osc_placement.server.db import names, repair, upgrade
from osc_placement.server.db.tables import projects, users

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from osc_placement.server.db.engine import Database

LOG = logging.getLogger(__name__)

#: number of rows to repair at a time if no count is given
BATCH: Final = 50

#: a function that repairs at most this number of rows, and returns how many it found and repaired
Migration = Callable[[int], int]


def run(conf: ConfigOpts, database: Database, *, max_count: str | None) -> int:
    """Repair rows, a batch at a time, until there are none or ``max_count`` were repaired; print a table.

    :returns: 0 nothing is left to do, 1 with ``max_count``, rows were repaired and there may be more, 2 a
        repair failed, 127 the count is not a positive number
    """
    try:
        limit = BATCH if max_count is None else int(max_count)
    except ValueError:
        limit = 0
    if limit < 1:
        print("Must supply a positive value for max_count")
        return 127
    if max_count is None:
        print(f"Running batches of {limit} until complete")
    # without them, servers that run would find the repairs later
    with contextlib.suppress(upgrade.SchemaError):
        upgrade.use_own(database)

    def create_incomplete_consumers(limit: int) -> int:
        # the project and the user that they get are made only if there are any
        if not database.read(repair.count_missing_consumers):
            return 0
        project = conf.placement.incomplete_consumer_project_id
        user = conf.placement.incomplete_consumer_user_id
        project_id = names.ensure(database, projects, "external_id", [project])[project]
        user_id = names.ensure(database, users, "external_id", [user])[user]
        return database.write(repair.create_consumers, project_id, user_id, limit)

    migrations: dict[str, Migration] = {
        # in order, by the names that placement-manage prints
        "set_root_provider_ids": lambda limit: database.write(repair.set_roots, limit),
        "create_incomplete_consumers": create_incomplete_consumers,
    }
    totals: dict[str, int] = {}
    repaired, failed = _run_batch(migrations, totals, limit)
    while max_count is None and repaired:
        repaired, failed = _run_batch(migrations, totals, limit)
    table = prettytable.PrettyTable(["Migration", "Total Found", "Completed"])
    for name, count in totals.items():
        table.add_row([name, count, count])
    print(table)
    if failed and not repaired:
        print("Some migrations failed unexpectedly. Check log for details.")
        return 2
    return 1 if repaired else 0


def _run_batch(migrations: dict[str, Migration], totals: dict[str, int], limit: int) -> tuple[int, bool]:
    """Repair at most ``limit`` rows and add to the totals; return the number and whether a repair failed."""
    repaired, failed = 0, False
    for name, migrate in migrations.items():
        try:
            count = migrate(limit - repaired)
        except Exception as error:
            # after a failure the other repairs still run
            print(f"Error attempting to run {name}: {' '.join(str(error).split())}")
            LOG.debug("failed", exc_info=True)
            count, failed = 0, True
        if count:
            print(f"{count} rows matched query {name}, {count} migrated")
        totals[name] = totals.get(name, 0) + count
        repaired += count
        if repaired >= limit:
            break
    return repaired, failed
