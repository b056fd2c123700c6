# SPDX-License-Identifier: Apache-2.0
"""Random clouds of nova with a placement, and all ways in which somebody may look at the wrong nova.

Who lives is decided when a claim is made, by the state that its instance is given, and by nothing that is
under test: ``living`` has what must stay whatever nova is looked at, ``dead`` what an audit of the right one
is to remove.
"""

import contextlib
import random
import shutil
from collections import defaultdict
from dataclasses import dataclass, field

import sqlalchemy as sa

from osc_placement.model import Inventory
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import NOW, PROJECT, Cloud, tell_time
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import give, hold_all, provide

CELLS = ("cell1", "cell2")
#: by the number of the row in cell_mappings
CELL2_ID = 3
LARGE = {"VCPU": Inventory(100_000), "MEMORY_MB": Inventory(100_000_000), "DISK_GB": Inventory(100_000)}
SIZES = {"VCPU": 2, "MEMORY_MB": 2048}
DISK = {"DISK_GB": 20}


@dataclass
class Host:
    """A host with its compute node; ``disk`` is the provider that its instances have their disks on."""

    name: str
    cell: str
    node: str
    disk: str
    is_up: bool

    def claim(self):
        """What an instance holds here."""
        if self.disk == self.node:
            return {self.node: SIZES | DISK}
        return {self.node: dict(SIZES), self.disk: dict(DISK)}


@dataclass
class RandomCloud:
    """A cloud, with what of its claims is living and what is dead: amounts by provider, by consumer."""

    cloud: Cloud
    client: object
    chance: random.Random
    hosts: list = field(default_factory=list)
    living: dict = field(default_factory=lambda: defaultdict(dict))
    dead: dict = field(default_factory=lambda: defaultdict(dict))
    types: dict = field(default_factory=dict)
    pool: str = ""

    def fill(self):
        """Make hosts, and on each of them instances in every state."""
        shared = self._provide("shared", {"DISK_GB": Inventory(1_000_000)}, sharing=True)
        self.pool = self._provide("pool", {"IPV4_ADDRESS": Inventory(10_000)})
        for cell in CELLS:
            for number in range(self.chance.randint(2, 4)):
                self._add_host(f"{cell}-host{number}", cell, shared)
        states = [name for name in dir(self) if name.startswith("state_")]
        for host in self.hosts:
            for name in self.chance.sample(states, len(states) // 2):
                getattr(self, name)(host)
        for name in states:
            getattr(self, name)(self.chance.choice(self.hosts))
        consumers = {*self.living, *self.dead}
        claims = {uuid: {**self.living.get(uuid, {}), **self.dead.get(uuid, {})} for uuid in consumers}
        hold_all(self.client, claims, {uuid: self.types.get(uuid, "INSTANCE") for uuid in consumers})

    def _provide(self, name, inventories, *, sharing=False):
        uuid = self.client.create_provider(name)["uuid"]
        traits, aggregates = (["MISC_SHARES_VIA_AGGREGATE"], [uuid]) if sharing else ((), ())
        give(self.client, uuid, inventories, traits, aggregates)
        return uuid

    def _add_host(self, name, cell, shared):
        is_up = self.chance.random() < 0.7
        (node,) = self.cloud.add_host(name, cell, is_up=is_up).values()
        if self.chance.random() < 0.5:
            provide(self.client, [(name, node, LARGE, (), ())])
            self.hosts.append(Host(name, cell, node, node, is_up))
        else:
            provide(self.client, [(name, node, {key: LARGE[key] for key in SIZES}, (), [shared])])
            self.hosts.append(Host(name, cell, node, shared, is_up))

    def _other(self, host):
        """Another host of the same cell."""
        return self.chance.choice([each for each in self.hosts if each.cell == host.cell and each != host])

    def _elsewhere(self, host):
        """A host of the other cell."""
        return self.chance.choice([each for each in self.hosts if each.cell != host.cell])

    def _type(self, consumer, kind="INSTANCE"):
        """Half of the consumers are from before there were types."""
        self.types[consumer] = self.chance.choice((kind, None))
        return consumer

    def _instance(self, host, **columns):
        return self._type(self.cloud.add_instance(host.name, host.cell, **columns))

    def _move(self, instance, source, target, status):
        uuid = self.cloud.add_migration(instance, source.name, target.name, source.cell, status=status)
        return self._type(uuid, "MIGRATION")

    # what lives

    def state_running(self, host):
        """Instances that are there, in whatever state and task."""
        for vm_state in ("active", "stopped", "error", "soft-delete", "paused", "shelved"):
            uuid = self._instance(
                host, vm_state=vm_state, task_state=self.chance.choice((None, None, "rebuilding"))
            )
            self.living[uuid] = host.claim()

    def state_building(self, host):
        """One that is scheduled and in no cell, and some that are in their cell and on no host."""
        request = new_uuid()
        columns = {"project_id": PROJECT, "created_at": tell_time()}
        self.cloud.insert("api", "build_requests", instance_uuid=request, **columns)
        self.living[request] = host.claim()
        for columns in ({"vm_state": "building"}, {"vm_state": "building", "updated_at": NOW}):
            self.living[self.cloud.add_instance(None, host.cell, **columns)] = host.claim()
        unshelved = {"vm_state": "shelved_offloaded", "task_state": "unshelving", "updated_at": NOW}
        self.living[self.cloud.add_instance(None, host.cell, **unshelved)] = host.claim()

    def state_moving(self, host):
        """A live migration or resize that is under way, and a resize that awaits its confirmation."""
        target = self._other(host)
        for place, status in ((host, "running"), (host, "migrating"), (target, "finished")):
            uuid = self._instance(place)
            self.living[uuid] = target.claim()
            self.living[self._move(uuid, host, target, status)] = host.claim()

    def state_moving_between_cells(self, host):
        """The row of the cell where it is not is hidden."""
        target = self._elsewhere(host)
        uuid = self.cloud.add_instance(target.name, target.cell)
        hidden = {"host": host.name, "node": host.name, "deleted": 0, "hidden": True, "created_at": NOW}
        self.cloud.insert(host.cell, "instances", uuid=uuid, **hidden)
        self.living[uuid] = target.claim()
        move = self._move(uuid, host, target, "finished")
        self.living[move] = host.claim()
        # nova keeps the record in both cells
        columns = {"status": "finished", "source_compute": host.name, "dest_compute": target.name}
        self.cloud.insert(target.cell, "migrations", uuid=move, instance_uuid=uuid, deleted=0, **columns)

    def state_evacuated(self, host):
        """The source is up again and was not restarted, so that it has the guest still; or it is down."""
        target = self._other(host)
        uuid = self._instance(target)
        self._move(uuid, host, target, "done")
        self.living[uuid] = target.claim()
        (self.living if host.is_up else self.dead)[uuid][host.node] = host.claim()[host.node]

    def state_of_other_services(self, host):
        """Consumers of another type on the host, and without one on what is not nova's."""
        volume, address = new_uuid(), new_uuid()
        self.types |= {volume: "VOLUME", address: None}
        self.living[volume] = {host.node: {"MEMORY_MB": 1}}
        self.living[address] = {self.pool: {"IPV4_ADDRESS": 1}}

    # what lives in part

    def state_move_failed(self, host):
        """The migration holds what the instance uses, and the instance what it does not."""
        target = self._other(host)
        uuid = self._instance(host, vm_state="error")
        self.living[self._move(uuid, host, target, "error")] = host.claim()
        self.dead[uuid] = {target.node: target.claim()[target.node]}

    def state_doubled(self, host):
        """It holds what it uses, and something of a host that it is not on."""
        other = self._other(host)
        uuid = self._instance(host)
        self.living[uuid] = host.claim()
        self.dead[uuid] = {other.node: other.claim()[other.node]}

    # what is dead

    def state_moved(self, host):
        """What the migration held has been forgotten."""
        target = self._other(host)
        uuid = self._instance(target)
        self.living[uuid] = target.claim()
        self.dead[self._move(uuid, host, target, "confirmed")] = host.claim()

    def state_deleted(self, host):
        """Instances that nova marks as deleted, never scheduled, or has never heard of."""
        self.dead[self._type(self.cloud.add_instance(host.name, host.cell, deleted=77))] = host.claim()
        self.dead[self._type(self.cloud.add_instance(None, "cell0", vm_state="error"))] = host.claim()
        self.dead[self._type(new_uuid())] = host.claim()

    def state_on_no_host(self, host):
        """Nova did not give back what it had claimed when a build or an offloading failed."""
        for vm_state in ("error", "shelved_offloaded"):
            self.dead[self._type(self.cloud.add_instance(None, host.cell, vm_state=vm_state))] = host.claim()

    def find_lost(self):
        """The living claims that are not there any more."""
        now = {each["uuid"]: each["allocations"] for each in self.client.list_consumers()}
        return [
            (consumer, provider)
            for consumer, claims in self.living.items()
            for provider, amounts in claims.items()
            if now.get(consumer, {}).get(provider, {}).get("resources") != amounts
        ]

    def find_left(self):
        """The dead claims that are still there."""
        now = {each["uuid"]: each["allocations"] for each in self.client.list_consumers()}
        return [
            (consumer, provider)
            for consumer, claims in self.dead.items()
            for provider in claims
            if provider in now.get(consumer, {})
        ]


class Look:
    """A copy of nova's databases, to be spoiled."""

    def __init__(self, urls, directory, other):
        directory.mkdir()
        self.other = other
        self.urls = {}
        for name, url in urls.items():
            shutil.copy(url.removeprefix("sqlite:///"), directory / f"{name}.db")
            self.urls[name] = f"sqlite:///{directory}/{name}.db"
        for name in (*CELLS, "cell0"):
            self.connect(name, self.urls[name])
        self.api_url = self.urls["api"]

    def run(self, database, statement, **values):
        """Run a statement."""
        engine = sa.create_engine(self.urls[database], poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text(statement) if isinstance(statement, str) else statement, values)

    def connect(self, cell, url):
        """Give a cell another database."""
        statement = "UPDATE cell_mappings SET database_connection = :url WHERE name = :cell"
        self.run("api", statement, url=url, cell=cell)

    def clear(self, database, *tables):
        """Delete all rows of tables."""
        for table in tables:
            self.run(database, sa.delete(sa.table(table)))

    # the ways to look at the wrong nova

    def spoil_empty_cell(self):
        """The database of a cell is a schema without rows."""
        self.connect("cell2", self.urls["cell0"])

    def spoil_empty_cells(self):
        """Of all cells."""
        for cell in CELLS:
            self.connect(cell, self.urls["cell0"])

    def spoil_wrong_cell(self):
        """Two cells have the database of one of them."""
        self.connect("cell2", self.urls["cell1"])

    def spoil_swapped_cells(self):
        """Each of two cells has the database of the other."""
        self.connect("cell1", self.urls["cell2"])
        self.connect("cell2", self.urls["cell1"])

    def spoil_unreadable_cell(self):
        """The database of a cell is not there."""
        self.connect("cell1", "sqlite:////no/such/file")

    def spoil_cell_of_another_region(self):
        """The database of a cell is that of a cell of the same host names elsewhere."""
        self.connect("cell2", self.other["cell2"])

    def spoil_deleted_mapping(self):
        """The mapping of a cell was deleted, and not what refers to it."""
        self.run("api", "DELETE FROM cell_mappings WHERE name = 'cell2'")

    def spoil_deleted_mapping_and_hosts(self):
        """With the mappings of its hosts."""
        self.run("api", "DELETE FROM host_mappings WHERE cell_id = :cell", cell=CELL2_ID)
        self.spoil_deleted_mapping()

    def spoil_half_of_the_cells(self):
        """As if nova had never had the other half."""
        self.run("api", "DELETE FROM instance_mappings WHERE cell_id = :cell", cell=CELL2_ID)
        self.spoil_deleted_mapping_and_hosts()

    def spoil_no_cells(self):
        """No cell is mapped any more."""
        self.run("api", "DELETE FROM cell_mappings WHERE name <> 'cell0'")

    def spoil_lost_instances(self):
        """The instances of a cell are gone, and its hosts are not."""
        self.clear("cell2", "instances")

    def spoil_lost_half_of_the_instances(self):
        """As an old backup has them."""
        self.run("cell1", "DELETE FROM instances WHERE id % 2 = 0")

    def spoil_lost_half_of_the_nodes(self):
        """As an old backup has them."""
        self.run("cell1", "DELETE FROM compute_nodes WHERE id % 2 = 0")

    def spoil_other_region(self):
        """The API database is another region's, with hosts and cells of the same names."""
        self.api_url = self.other["api"]

    def spoil_other_api(self):
        """The API database is another region's, and its cells lead here."""
        for cell in CELLS:
            self.connect(cell, self.other[cell])

    def spoil_empty_api(self):
        """The API database is a schema without rows."""
        self.clear("api", "host_mappings", "instance_mappings", "cell_mappings", "build_requests")

    def spoil_nothing(self):
        """It is the right nova."""


SPOILS = sorted(name for name in dir(Look) if name.startswith("spoil_") and name != "spoil_nothing")


@contextlib.contextmanager
def make_region(directory, random_cloud):
    """Another region with hosts of the same names and instances of its own; the URLs of its databases."""
    directory.mkdir()
    with nova.copy_files(directory) as made:
        other = Cloud(made.urls)
        with other.together():
            for host in random_cloud.hosts:
                other.add_host(host.name, host.cell)
                other.add_instance(host.name, host.cell)
        yield made.urls
