# SPDX-License-Identifier: Apache-2.0
"""A placement service in memory, as the client presents one: providers with generations, and no HTTP."""

import copy
import string
import threading

import os_resource_classes
import os_traits

from osc_placement import codes, errors, microversion
from osc_placement.api.consumer import Consumer
from osc_placement.model import Inventory, Provider


def conflict():
    """What a server says to a write with an old generation."""
    return errors.Conflict(409, "generation conflict", document={"code": codes.CONCURRENT_UPDATE})


class FakeCloud:
    """Knows inventories, traits and aggregates of providers; `before_write` is called before each write."""

    def __init__(self, *names, inventories=None, traits=(), takes_many=False, takes_atomic=False):
        #: whether many may be changed by one write; an error instead is how such a write ends
        self.takes_many = takes_many
        #: whether many may be changed all or none
        self.takes_atomic = takes_atomic
        #: why providers refuse a write among others, by UUID
        self.refusals = {}
        self._lock = threading.Lock()
        self.calls = []
        self.before_write = lambda uuid: None
        self.failing = {}
        self.version = microversion.MAX
        self.claims = {}
        #: names of traits and classes
        self.deleted = set()
        self.facets = {
            name: {
                "inventories": dict(inventories or {}),
                "traits": sorted(traits),
                "aggregates": [],
                "resource_provider_generation": 0,
            }
            for name in names
        }

    @property
    def providers(self):
        """All providers as a batch would have selected them; name and UUID are the same here."""
        return [
            Provider(name, name, facets["resource_provider_generation"])
            for name, facets in self.facets.items()
        ]

    def list_traits(self):
        """The standard traits, and those of tests."""
        names = (*os_traits.get_traits(), *string.ascii_uppercase, "CUSTOM_A", "CUSTOM_B", "CUSTOM_C")
        return [name for name in names if name not in self.deleted]

    def list_resource_classes(self):
        """The standard classes, and a custom one."""
        names = (*os_resource_classes.STANDARDS, "CUSTOM_CLASS")
        return [{"name": name} for name in names if name not in self.deleted]

    def allow_concurrency(self, threads):
        """Nothing to prepare."""

    def list_providers(self, **conditions):
        """All providers."""
        self.calls.append(("list", conditions))
        return [{"uuid": p.uuid, "name": p.name, "generation": p.generation} for p in self.providers]

    def touch(self, uuid, **facets):
        """Change a provider, as somebody else would."""
        with self._lock:
            self.facets[uuid].update(facets)
            self.facets[uuid]["resource_provider_generation"] += 1

    def _read(self, uuid, facet):
        self.calls.append(("read", uuid))
        if uuid in self.failing:
            raise self.failing[uuid]
        answer = self.facets[uuid]
        return {key: answer[key] for key in (facet, "resource_provider_generation")}

    def _write(self, uuid, facet, value, generation):
        self.calls.append(("write", uuid))
        self.before_write(uuid)
        if uuid in self.failing:
            raise self.failing[uuid]
        if generation != self.facets[uuid]["resource_provider_generation"]:
            raise conflict()
        self.touch(uuid, **{facet: value})
        return dict(self.facets[uuid])

    def read_providers_at_once(self, _filters=None, *, want=()):
        """As the client's, where the server has no bulk read."""

    def list_inventories(self, uuid):
        """As the client's."""
        return self._read(uuid, "inventories")

    def list_provider_traits(self, uuid):
        """As the client's."""
        return self._read(uuid, "traits")

    def list_provider_aggregates(self, uuid):
        """As the client's."""
        return self._read(uuid, "aggregates")

    def require(self, threshold, what=None):
        """Every version is there."""

    def list_allocations(self, consumer):
        """As the client's."""
        self.calls.append(("read", consumer))
        return self.claims.get(consumer, {"allocations": {}})

    def read_consumer(self, consumer, _version=None):
        """As the client's."""
        return Consumer.from_json(consumer, self.list_allocations(consumer))

    def set_allocations(self, consumer, payload, _version=None):
        """As the client's."""
        self.calls.append(("write", consumer))
        self.before_write(consumer)
        if payload["consumer_generation"] != self.claims.get(consumer, {}).get("consumer_generation"):
            raise conflict()
        self.claims[consumer] = payload | {"consumer_generation": (payload["consumer_generation"] or 0) + 1}

    def set_inventories(self, uuid, inventories, generation):
        """As the client's."""
        return self._write(uuid, "inventories", inventories, generation)

    def set_inventory(self, uuid, resource_class, fields, generation):
        """As the client's."""
        inventories = {**self.facets[uuid]["inventories"], resource_class: fields}
        return self._write(uuid, "inventories", inventories, generation)

    def set_provider_traits(self, uuid, traits, generation):
        """As the client's."""
        return self._write(uuid, "traits", traits, generation)

    def can_change_many(self, uuid):
        """As the client's."""
        return bool(self.takes_many)

    def change_many(self, changes):
        """As the client's."""
        self.calls.append(("write many", [change["uuid"] for change in changes]))
        if self.takes_many == "no more":
            return None
        results = [self._change(dict(change)) for change in changes]
        if isinstance(self.takes_many, Exception):
            raise self.takes_many
        return results

    def can_change_atomically(self, parts):
        """As the client's."""
        return bool(self.takes_atomic)

    def change_atomically(self, changes):
        """As the client's; `refusals` tell why, as for single ones."""
        self.calls.append(("write atomically", [change["uuid"] for change in changes]))
        for change in changes:
            self.before_write(change["uuid"])
        before = copy.deepcopy(self.facets)
        for change in changes:
            result = self._change(dict(change))
            if isinstance(result, Exception):
                self.facets = before
                raise result

    def require_reshape(self):
        """As the client's: everybody may."""

    def _change(self, change):
        uuid, generation = change.pop("uuid"), change.pop("resource_provider_generation")
        self.before_write(uuid)
        if uuid in self.refusals:
            return self.refusals[uuid]
        if generation != self.facets[uuid]["resource_provider_generation"]:
            return conflict()
        self.touch(uuid, **change)
        return self.facets[uuid]["resource_provider_generation"]

    def set_provider_aggregates(self, uuid, aggregates, generation):
        """As the client's."""
        return self._write(uuid, "aggregates", aggregates, generation)


class NamedCloud(FakeCloud):
    """A cloud of providers whose names, of which each is taken once at most, can be changed."""

    def __init__(self, names):
        super().__init__(*names)
        #: names of providers by UUID
        self.names = dict(names)

    def show_provider(self, uuid):
        """As the client's."""
        self.calls.append(("read", uuid))
        if uuid in self.failing:
            raise self.failing[uuid]
        generation = self.facets[uuid]["resource_provider_generation"]
        return {"uuid": uuid, "name": self.names[uuid], "generation": generation}

    def update_provider(self, uuid, name, parent=...):
        """As the client's."""
        self.calls.append(("rename", uuid))
        self.before_write(uuid)
        if name in (other for each, other in self.names.items() if each != uuid):
            document = {"code": codes.DUPLICATE_NAME}
            raise errors.Conflict(409, f"{name} is taken", method="PUT", document=document)
        self.names[uuid] = name
        return self.show_provider(uuid)


def processors(ratio):
    """Inventories of processors and memory with this ratio of the former, as the API has them."""
    return {"VCPU": Inventory(8, allocation_ratio=ratio).to_json(), "MEMORY_MB": Inventory(1024).to_json()}
