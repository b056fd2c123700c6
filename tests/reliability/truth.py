# SPDX-License-Identifier: Apache-2.0
"""What the database itself says, read without the server's code: is it whole, is anything sold twice?"""

import contextlib

import sqlalchemy as sa

_USED = """
    SELECT p.uuid, c.name, SUM(a.used), MAX((i.total - i.reserved) * i.allocation_ratio)
    FROM allocations a
    JOIN resource_providers p ON p.id = a.resource_provider_id
    JOIN resource_classes c ON c.id = a.resource_class_id
    LEFT JOIN inventories i
        ON i.resource_provider_id = a.resource_provider_id AND i.resource_class_id = a.resource_class_id
    GROUP BY p.uuid, c.name
"""

#: what refers to nothing, or is there for nothing: no row may ever come of these
_TORN = {
    "allocations without provider": "SELECT a.id FROM allocations a "
    "LEFT JOIN resource_providers p ON p.id = a.resource_provider_id WHERE p.id IS NULL",
    "allocations without inventory": "SELECT a.id FROM allocations a LEFT JOIN inventories i "
    "ON i.resource_provider_id = a.resource_provider_id AND i.resource_class_id = a.resource_class_id "
    "WHERE i.id IS NULL",
    "allocations without consumer": "SELECT a.consumer_id FROM allocations a "
    "LEFT JOIN consumers c ON c.uuid = a.consumer_id WHERE c.id IS NULL",
    "allocations twice": "SELECT consumer_id FROM allocations "
    "GROUP BY consumer_id, resource_provider_id, resource_class_id HAVING COUNT(*) > 1",
    "consumers without allocations": "SELECT c.uuid FROM consumers c "
    "LEFT JOIN allocations a ON a.consumer_id = c.uuid WHERE a.id IS NULL",
    "consumers without project": "SELECT c.uuid FROM consumers c "
    "LEFT JOIN projects p ON p.id = c.project_id WHERE p.id IS NULL",
    "consumers without user": "SELECT c.uuid FROM consumers c "
    "LEFT JOIN users u ON u.id = c.user_id WHERE u.id IS NULL",
    "inventories without provider": "SELECT i.id FROM inventories i "
    "LEFT JOIN resource_providers p ON p.id = i.resource_provider_id WHERE p.id IS NULL",
    "inventories without class": "SELECT i.id FROM inventories i "
    "LEFT JOIN resource_classes c ON c.id = i.resource_class_id WHERE c.id IS NULL",
    "members without provider": "SELECT m.aggregate_id FROM resource_provider_aggregates m "
    "LEFT JOIN resource_providers p ON p.id = m.resource_provider_id WHERE p.id IS NULL",
    "members without aggregate": "SELECT m.aggregate_id FROM resource_provider_aggregates m "
    "LEFT JOIN placement_aggregates g ON g.id = m.aggregate_id WHERE g.id IS NULL",
}


@contextlib.contextmanager
def _reading(url):
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        yield connection


def rows(url, statement, **parameters):
    """What a statement finds in a database."""
    with _reading(url) as connection:
        return connection.execute(sa.text(statement), parameters).all()


def used(url):
    """The VCPU used of each provider that is used at all."""
    return {uuid: int(amount) for uuid, name, amount, _ in rows(url, _USED) if name == "VCPU"}


def held(url):
    """What each consumer holds: amounts by (provider, class), by consumer."""
    query = (
        "SELECT a.consumer_id, p.uuid, c.name, a.used FROM allocations a "
        "JOIN resource_providers p ON p.id = a.resource_provider_id "
        "JOIN resource_classes c ON c.id = a.resource_class_id"
    )
    found = {}
    for consumer, provider, name, amount in rows(url, query):
        found.setdefault(consumer, {})[provider, name] = amount
    return found


def known(url, table, column):
    """Every name in a table of names."""
    return [name for (name,) in rows(url, f"SELECT {column} FROM {table}")]  # noqa: S608  # of the test's own


def find_problems(url, oversold=()):
    """Everything that is wrong with the content of a placement database, in words.

    :param oversold: providers that may be, because their inventory shrank
    """
    problems = [
        f"{provider} has {capacity} {name} of which {amount} are used"
        for provider, name, amount, capacity in rows(url, _USED)
        if provider not in oversold and (capacity is None or amount > capacity)
    ]
    for what, query in _TORN.items():
        problems += [f"{what}: {row[0]}" for row in rows(url, query)]
    return problems + _find_torn_trees(url)


def _find_torn_trees(url):
    query = "SELECT id, parent_provider_id, root_provider_id FROM resource_providers"
    found = {id_: (parent, root) for id_, parent, root in rows(url, query)}
    problems = []
    for id_, (parent, root) in found.items():
        top, seen = id_, {id_}
        while parent is not None and parent in found and parent not in seen:
            seen.add(parent)
            top, parent = parent, found[parent][0]
        if parent is not None:
            problems.append(f"provider {id_} has a loop or a gap above it")
        elif root != top:
            problems.append(f"provider {id_} is in the tree of {top}, but says {root}")
    return problems
