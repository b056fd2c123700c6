# SPDX-License-Identifier: Apache-2.0
"""Judge 100,000 instances, simulated, in a process of its own; prints problems, changes and MiB at most.

Rows and answers are made as they are asked for, as those of a database and of a server are. The argument says
whether the instances hold what they should, or nothing.
"""

import json
import pathlib
import re
import sys
import uuid

from osc_placement.api.consumer import Consumer
from osc_placement.migrate.migrations.base import Context
from osc_placement.migrate.migrations.heal_allocations import HealAllocations
from osc_placement.migrate.nova.facts import BootRequest, Cell, ComputeNode, Instance
from osc_placement.migrate.nova.flavors import parse_flavor
from osc_placement.model import Inventory, Provider, ProviderRecord

INSTANCES, HOSTS, PROJECTS = 100_000, 10_000, 100
CLAIM = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}
DATA = {"vcpus": 2, "memory_mb": 2048, "root_gb": 20, "ephemeral_gb": 0, "swap": 0, "name": "m1"}
FLAVOR = json.dumps({"cur": {"nova_object.data": {**DATA, "extra_specs": {}}}})


def name(kind, number):
    """A UUID."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{kind}{number}"))


class Source:
    """Nova with one cell."""

    def list_cells(self):
        return [Cell("cell", "cell1")]

    def map_hosts(self):
        return {f"host{number}": "cell" for number in range(HOSTS)}

    def list_compute_nodes(self, _cell):
        return [ComputeNode(name("host", n), f"host{n}", f"host{n}") for n in range(HOSTS)]

    def count_instances(self):
        return {"cell": INSTANCES}

    def list_migrations(self, _cell):
        return []

    def list_aggregates(self):
        return []

    def read_requests(self, _cell, uuids):
        image = {f"property{number}": "value" for number in range(20)}
        return {uuid: BootRequest("zone", image=dict(image)) for uuid in uuids}

    def iterate_instances(self, _cell):
        for number in range(INSTANCES):
            host = f"host{number % HOSTS}"
            project, user = f"project{number % PROJECTS}", f"user{number % PROJECTS}"
            flavor = parse_flavor(FLAVOR)
            yield Instance(name("instance", number), project, user, host, host, "active", None, flavor)


class Client:
    """Placement with the bulk reads."""

    def __init__(self, full):
        self._full = full

    def require(self, *_arguments):
        """It speaks every version."""

    def allow_concurrency(self, _number):
        """It answers at once."""

    def list_traits(self):
        return []

    def read_providers(self, **_settings):
        for number in range(HOSTS):
            uuid = name("host", number)
            inventories = {resource: Inventory(1_000_000) for resource in CLAIM}
            provider = Provider(uuid, f"host{number}", 1, None, uuid)
            yield ProviderRecord(
                provider, inventories=inventories, traits=frozenset(), aggregates=frozenset()
            )

    def read_consumers(self, *_arguments, **_settings):
        # as text first, which is how it comes
        consumers = ",".join(map(self._consumer, range(INSTANCES if self._full else 0)))
        documents = json.loads(f"[{consumers}]")
        return (Consumer.from_json(document["uuid"], document) for document in documents)

    def _consumer(self, number):
        provider = {"generation": 1, "resources": CLAIM}
        consumer = {
            "uuid": name("instance", number),
            "project_id": f"project{number % PROJECTS}",
            "user_id": f"user{number % PROJECTS}",
            "consumer_generation": 1,
            "consumer_type": "INSTANCE",
            "allocations": {name("host", number % HOSTS): provider},
        }
        return json.dumps(consumer)


context = Context(Source, Client(sys.argv[1] == "full"), 1)
assessment = HealAllocations().assess(context)
# what getrusage tells begins with the memory of the process that started this one
status = pathlib.Path("/proc/self/status").read_text()
memory = int(re.search(r"^VmHWM:\s+(\d+)", status, re.MULTILINE)[1]) / 1024
print(len(assessment.problems), len(assessment.plan.changes), memory)
