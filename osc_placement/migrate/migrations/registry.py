# SPDX-License-Identifier: Apache-2.0
"""The migrations of ``online_data_migrations``, in the order in which they run.

Aggregates first, as sharing follows them; ratios and bare metal before allocations, as those need the
capacity and the classes. The audit is not among them: it removes allocations, which needs a decision. Nor is
the comparison of flavors: a name that placement does not know may be misspelt, and no migration needs it.
Neither are the repair of providers, which is several runs, and the decommissioning of one host: they need
nova's databases, and are commands of ``placement-migrate`` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from osc_placement.migrate.migrations.audit import Audit
from osc_placement.migrate.migrations.base import Migration
from osc_placement.migrate.migrations.carry_ratios import CarryRatios
from osc_placement.migrate.migrations.flavors import Flavors
from osc_placement.migrate.migrations.heal_allocations import HealAllocations
from osc_placement.migrate.migrations.mirror_aggregates import MirrorAggregates
from osc_placement.migrate.migrations.move_baremetal import MoveBaremetal
from osc_placement.migrate.nova.shard import WHOLE, Shard


def make_all(shard: Shard = WHOLE) -> tuple[Migration, ...]:
    """Return the migrations, in order, for a shard of the hosts."""
    return (
        MirrorAggregates(shard=shard),
        CarryRatios(shard=shard),
        MoveBaremetal(shard=shard),
        HealAllocations(shard=shard),
    )


#: whatever can be asked for by its name
BY_NAME: Final[Mapping[str, Migration]] = {
    migration.name: migration for migration in (*make_all(), Audit(), Flavors())
}

_OLD_NAMES: Final[Mapping[str, str]] = {
    "aggregates": "mirror-aggregates",
    "allocations": "heal-allocations",
    "baremetal": "move-baremetal",
    "ratios": "carry-ratios",
    **{name.replace("-", "_"): name for name in BY_NAME},
}


def current_name(name: str) -> str:
    """Return the present name of a migration that is given by an older one; any other text as it is."""
    return _OLD_NAMES.get(name, name)
