# SPDX-License-Identifier: Apache-2.0
"""What instances should hold by nova's databases, and what is held: read with SQL, without code of ours.

An instance that is on a host holds its flavor there. One whose resize waits for confirmation holds the new
flavor there, and its migration the old one where it was. Any other instance holds nothing.
"""

import json
from dataclasses import dataclass

from tests import databases
from tests.reliability import truth
from tests.reliability.cloud import plane

CELLS = ("nova_cell0", "nova_cell1")
INSTANCES = """
    SELECT i.uuid, i.host, i.node, i.vm_state, i.task_state, x.flavor
    FROM instances i LEFT JOIN instance_extra x ON x.instance_uuid = i.uuid WHERE i.deleted = 0
"""
RESIZES = """
    SELECT instance_uuid, uuid, source_node FROM migrations
    WHERE deleted = 0 AND status = 'finished' AND migration_type IN ('resize', 'migration')
"""
MOVING = """
    SELECT instance_uuid FROM migrations WHERE deleted = 0 AND migration_type <> 'evacuation'
    AND status IN ('accepted', 'queued', 'preparing', 'running', 'pre-migrating', 'migrating',
                   'post-migrating', 'reverting', 'confirming')
    UNION
    SELECT instance_uuid FROM migrations WHERE deleted = 0 AND migration_type = 'evacuation'
    AND status IN ('accepted', 'pre-migrating', 'queued')
"""
#: what takes an hour to pass, of what nova has not ended
AGING = {
    "instances": "deleted = 0 AND (task_state IS NOT NULL OR vm_state IS NULL OR vm_state = 'building')",
    "migrations": "deleted = 0 AND status NOT IN ('done', 'finished')",
}
REQUESTED = "SELECT instance_uuid FROM build_requests"
HELD = """
    SELECT a.consumer_id, p.name, c.name, SUM(a.used) FROM allocations a
    JOIN resource_providers p ON p.id = a.resource_provider_id
    JOIN resource_classes c ON c.id = a.resource_class_id GROUP BY a.consumer_id, p.name, c.name
"""
MEMBERS = """
    SELECT p.name, g.uuid FROM resource_provider_aggregates m
    JOIN resource_providers p ON p.id = m.resource_provider_id
    JOIN placement_aggregates g ON g.id = m.aggregate_id
"""
AGGREGATES = "SELECT h.host, a.uuid FROM aggregate_hosts h JOIN aggregates a ON a.id = h.aggregate_id"
RATIOS = """
    SELECT p.name, i.allocation_ratio FROM inventories i
    JOIN resource_providers p ON p.id = i.resource_provider_id
    JOIN resource_classes c ON c.id = i.resource_class_id WHERE c.name = 'VCPU'
"""


@dataclass(frozen=True)
class Books:
    """Both sides.

    :ivar due: by consumer and provider's name, the amounts that nova's database says
    :ivar held: the same of placement
    :ivar unsettled: instances that nova has in a task, a build or a move, each with its state
    :ivar states: by instance, its state and host
    """

    due: dict
    held: dict
    unsettled: dict
    states: dict

    def compare(self):
        """A line for each consumer and provider that differ, by consumer."""
        found = {}
        for consumer, provider in sorted({*self.due, *self.held}):
            due, held = (side.get((consumer, provider), {}) for side in (self.due, self.held))
            if due != held:
                state = self.states.get(consumer, "no instance")
                line = f"{consumer} ({state}) holds {_format(held)} of {provider}, and should {_format(due)}"
                found.setdefault(consumer, []).append(line)
        return found


def _format(amounts):
    return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items())) or "nothing"


def read():
    """Read both; placement first, so that what nova claims meanwhile is not taken for a difference."""
    held = {}
    for consumer, provider, name, used in query("placement", HELD):
        held.setdefault((consumer, provider), {})[name] = int(used)
    unsettled = dict.fromkeys((uuid for (uuid,) in query("nova_api", REQUESTED)), "requested")
    due, states = {}, {}
    for cell in CELLS:
        unsettled |= dict.fromkeys((uuid for (uuid,) in query(cell, MOVING)), "moving")
        resizes = {instance: (uuid, node) for instance, uuid, node in query(cell, RESIZES)}
        for uuid, host, node, state, task, flavor in query(cell, INSTANCES):
            states[uuid] = f"{state} {task or ''} on {host}".replace("  ", " ")
            if task or state == "building" or not state:
                unsettled[uuid] = states[uuid]
            if not host or state in ("shelved_offloaded", "deleted"):
                continue
            flavors = json.loads(flavor)
            due[uuid, node] = _amounts(flavors["cur"])
            if state == "resized" and uuid in resizes:
                due[resizes[uuid]] = _amounts(flavors["old"])
    return Books(due, held, unsettled, states)


def _amounts(flavor):
    fields = flavor["nova_object.data"]
    amounts = {
        "VCPU": fields["vcpus"],
        "MEMORY_MB": fields["memory_mb"],
        "DISK_GB": fields["root_gb"] + fields["ephemeral_gb"] + -(-fields["swap"] // 1024),
    }
    return {name: amount for name, amount in amounts.items() if amount}


def age():
    """Have nova have done for an hour what it does not end."""
    hour = "SET created_at = created_at - INTERVAL 1 HOUR, updated_at = updated_at - INTERVAL 1 HOUR"
    for cell in CELLS:
        for table, condition in AGING.items():
            execute(cell, f"UPDATE {table} {hour} WHERE {condition}")
    for table in ("build_requests", "instance_mappings"):
        execute("nova_api", f"UPDATE {table} {hour}")


def compare_aggregates():
    """A line for each provider that is not in the aggregates of its host."""
    sides = []
    for database, statement in (("nova_api", AGGREGATES), ("placement", MEMBERS)):
        members = {}
        for name, uuid in query(database, statement):
            members.setdefault(name, set()).add(uuid)
        sides.append(members)
    nova, placement = sides
    providers = {name for (name,) in query("placement", "SELECT name FROM resource_providers")}
    return [
        f"{name} is in {sorted(placement.get(name, ()))}, and should be in {sorted(nova.get(name, ()))}"
        for name in sorted(providers)
        if placement.get(name, set()) != nova.get(name, set())
    ]


def read_ratios():
    """The allocation ratio of VCPU by the name of the provider."""
    return dict(query("placement", RATIOS))


def query(database, statement):
    """The rows that a statement finds in a database of the control plane."""
    return truth.rows(plane.find_database(database), statement)


def execute(database, statement):
    """Run a statement in a database of the control plane."""
    databases.execute(plane.find_database(database), statement)


def find_torn():
    """What is wrong with the content of placement's database by itself, in words."""
    return truth.find_problems(plane.find_database("placement"))
