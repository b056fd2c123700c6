#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write examples/cloud.yaml: ``python3 examples/make_cloud.py > examples/cloud.yaml``.

Change the cloud here, not there. UUIDs can be read: aaaaaaaa is an aggregate, bbbbbbbb an instance, cccccccc
a compute host, dddddddd disk, eeeeeeee a NUMA node, ffffffff a GPU; the second group is the rack.
"""

from __future__ import annotations

from collections.abc import Iterator

RACKS = (1, 2, 3, 4)
HOSTS_PER_RACK = 50
NESTED_RACK = 4
SHARED_STORAGE_RACKS = (1, 2)
INSTANCES_PER_RACK = 8
PROJECTS = (("web-shop", "alice"), ("data-lake", "bob"), ("rendering", "carol"))

HEADER = """\
# A small cloud: 200 compute hosts in 4 racks, one aggregate for each rack.
# Racks 1 and 2 keep their disks on a shared storage, rack 3 on local NVMe; the hosts of rack 4 have their
# processors, memory and GPUs in nested providers, one for each NUMA node.
#
#   openstack resource provider apply -f examples/cloud.yaml
#
# Format: a provider is as its keys say; what it has no key for (parent, aggregates, traits, inventories) is
# left as it is on the server, and empty for a new provider. A field of an inventory has the API's default
# unless it is given; total must be. Parents and the providers of allocations are named by name or UUID, and
# are in this file. Custom resource classes and traits are listed before they are used. Top-level keys that
# begin with x- mean nothing: they hold what &anchors name and *aliases repeat, which is plain YAML.
# Written by make_cloud.py.

version: 1

resource_classes: [CUSTOM_NVME_SLOT]

traits: [CUSTOM_GPU_L40S, CUSTOM_LIQUID_COOLED]

x-racks:
- &rack1 aaaaaaaa-0001-4000-8000-000000000000
- &rack2 aaaaaaaa-0002-4000-8000-000000000000
- &rack3 aaaaaaaa-0003-4000-8000-000000000000
- &rack4 aaaaaaaa-0004-4000-8000-000000000000

x-cpu-traits: &cpu-traits [COMPUTE_NODE, HW_CPU_X86_AVX, HW_CPU_X86_AVX2, HW_CPU_X86_SSE42, HW_CPU_X86_VMX]

x-host1: &host1
  aggregates: [*rack1]
  traits: *cpu-traits
  inventories: &diskless
    VCPU: {total: 64, reserved: 2, max_unit: 64, allocation_ratio: 4.0}
    MEMORY_MB: {total: 262144, reserved: 8192, max_unit: 262144, step_size: 256}

x-host2: &host2
  aggregates: [*rack2]
  traits: *cpu-traits
  inventories: *diskless

x-host3: &host3
  aggregates: [*rack3]
  traits: *cpu-traits
  inventories:
    <<: *diskless
    DISK_GB: {total: 3840, reserved: 100, max_unit: 3840, allocation_ratio: 1.0}
    CUSTOM_NVME_SLOT: {total: 8, max_unit: 8}

x-host4: &host4
  aggregates: [*rack4]
  traits: [COMPUTE_NODE, CUSTOM_LIQUID_COOLED]
  inventories:
    DISK_GB: {total: 1920, reserved: 100, max_unit: 1920}

x-numa: &numa
  traits: [HW_CPU_X86_AVX512F, HW_NUMA_ROOT]
  inventories:
    VCPU: {total: 48, reserved: 2, max_unit: 48}
    MEMORY_MB: {total: 393216, reserved: 4096, max_unit: 393216, step_size: 256}

x-gpu: &gpu
  traits: [CUSTOM_GPU_L40S, HW_GPU_API_VULKAN]
  inventories:
    PGPU: {total: 2, max_unit: 2}

providers:

- name: shared-storage
  uuid: dddddddd-0000-4000-8000-000000000001
  aggregates: [*rack1, *rack2]
  traits: [MISC_SHARES_VIA_AGGREGATE, STORAGE_DISK_SSD]
  inventories:
    DISK_GB: {total: 500000, reserved: 5000, max_unit: 10000, allocation_ratio: 1.5}
"""


def uuid(kind: str, rack: int, number: int, part: int = 0) -> str:
    return f"{kind * 8}-{rack:04}-4000-{8000 + part}-{number:012}"


def host_name(rack: int, number: int) -> str:
    return f"compute-r{rack}-{number:02}"


def providers(rack: int) -> Iterator[str]:
    for number in range(1, HOSTS_PER_RACK + 1):
        host = host_name(rack, number)
        yield f"- {{<<: *host{rack}, name: {host}, uuid: {uuid('c', rack, number)}}}"
        if rack == NESTED_RACK:
            yield from nested_providers(rack, number)


def nested_providers(rack: int, number: int) -> Iterator[str]:
    host = host_name(rack, number)
    for part in (0, 1):
        numa = f"{host}-numa{part}"
        gpu = f"{host}-gpu{part}"
        yield f"- {{<<: *numa, name: {numa}, uuid: {uuid('e', rack, number, part)}, parent: {host}}}"
        yield f"- {{<<: *gpu, name: {gpu}, uuid: {uuid('f', rack, number, part)}, parent: {numa}}}"


def instance(rack: int, number: int) -> str:
    project, user = PROJECTS[number % len(PROJECTS)]
    resources = "\n".join(f"    {provider}: {{{amounts}}}" for provider, amounts in claims(rack, number))
    return (
        f"- consumer: {uuid('b', rack, number)}\n"
        f"  project: {project}\n  user: {user}\n  type: INSTANCE\n  resources:\n{resources}"
    )


def claims(rack: int, number: int) -> Iterator[tuple[str, str]]:
    host = host_name(rack, (number + 1) // 2)
    size = 2 ** (number % 4)
    processors = f"VCPU: {2 * size}, MEMORY_MB: {4096 * size}"
    disk = f"DISK_GB: {20 * size}"
    if rack in SHARED_STORAGE_RACKS:
        yield host, processors
        yield "shared-storage", disk
    elif rack == NESTED_RACK:
        yield host, disk
        yield f"{host}-numa{number % 2}", processors
        yield f"{host}-gpu{number % 2}", "PGPU: 1"
    else:
        yield host, f"{processors}, {disk}"


def main() -> None:
    print(HEADER)
    for rack in RACKS:
        print(f"# rack {rack}", *providers(rack), "", sep="\n")
    print("allocations:\n")
    for rack in RACKS:
        print(
            f"# rack {rack}",
            *(instance(rack, number) for number in range(1, INSTANCES_PER_RACK + 1)),
            sep="\n",
        )


if __name__ == "__main__":
    main()
