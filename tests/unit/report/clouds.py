# SPDX-License-Identifier: Apache-2.0
"""Small clouds for tests of reports."""

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.node import SHARING_TRAIT, Stock
from osc_placement.model import Inventory, Provider, ProviderRecord


def stock(total, used=0, **fields):
    """An inventory and what is used of it."""
    return Stock(Inventory(total, **fields), used)


def node(name, parent=None, traits=(), aggregates=(), **stocks):
    """A provider whose UUID is its name; a stock is `stock(...)` or a total."""
    made = {key: value if isinstance(value, Stock) else stock(value) for key, value in stocks.items()}
    return ProviderRecord(
        Provider(name, name, 1, parent),
        {key: each.inventory for key, each in made.items()},
        {key: each.used for key, each in made.items()},
        frozenset(traits),
        frozenset(aggregates),
    )


def storage(name, aggregates, **stocks):
    """Return a provider that shares with the members of its aggregates."""
    return node(name, traits=[SHARING_TRAIT], aggregates=aggregates, **stocks)


def cloud(*nodes):
    """A cloud of these providers."""
    return CloudView(nodes)
