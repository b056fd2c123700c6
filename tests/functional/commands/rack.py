# SPDX-License-Identifier: Apache-2.0
"""A small rack of hosts for tests of batch commands."""

import uuid


class Rack:
    """Four hosts in an aggregate, with processors, memory and a trait; and one host outside."""

    def __init__(self, client):
        self.client = client
        self.aggregate = str(uuid.uuid4())
        self.traits = {"HW_CPU_X86_AVX"}
        self.hosts = [self._make_host(number, [self.aggregate]) for number in range(4)]
        self.outsider = self._make_host(4, [str(uuid.uuid4())])
        self.select = ("--aggregate", self.aggregate)

    def _make_host(self, number, aggregates):
        host = self.client.create_provider(f"{self.aggregate[:8]}-host{number}")["uuid"]
        inventories = {
            "VCPU": {"total": 8, "reserved": 1, "max_unit": 8, "allocation_ratio": 16.0},
            "MEMORY_MB": {"total": 4096, "step_size": 2, "min_unit": 2},
        }
        self.client.set_inventories(host, inventories, 0)
        self.client.set_provider_traits(host, sorted(self.traits), 1)
        self.client.set_provider_aggregates(host, aggregates, 2)
        return host

    def traits_of(self, host):
        return set(self.client.list_provider_traits(host)["traits"])

    def inventory_of(self, host, resource_class="VCPU"):
        return self.client.list_inventories(host)["inventories"][resource_class]

    def ratios(self):
        return {self.inventory_of(host)["allocation_ratio"] for host in self.hosts}

    def generations(self):
        return [self.client.show_provider(host)["generation"] for host in [*self.hosts, self.outsider]]

    def close(self):
        for host in [*self.hosts, self.outsider]:
            self.client.delete_provider(host)
