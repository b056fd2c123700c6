# SPDX-License-Identifier: Apache-2.0
"""The queries of flavors, images and request filters, compared with those of nova's own scheduler."""

import json
import pathlib
import random
import subprocess
from urllib.parse import parse_qsl

from osc_placement.candidates.flavor import find_contradiction, make_groups
from osc_placement.candidates.image import make_image
from osc_placement.candidates.nova_filters import Boot, HostAggregate, Options, ask_filters
from osc_placement.candidates.request import NotCountable
from osc_placement.commands.candidate_query import join_conditions
from osc_placement.commands.nova_query import filter_conditions, flavor_conditions
from osc_placement.commands.nova_request import NovaRequest
from osc_placement.flavor import Flavor, NoClaim
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES
from tests.functional.migrate.nova_databases import copy_files, find_nova

SCRIPT = pathlib.Path(__file__).with_name("nova_request_filters.py")
CLOUDS, CASES = 8, 100
SWITCHES = (
    "limit_tenants_to_placement_aggregate",
    "placement_aggregate_required_for_tenants",
    "query_placement_for_image_type_support",
    "enable_isolated_aggregate_filtering",
    "image_metadata_prefilter",
)
PORTS = {"a" * 32: "remote-managed", "b" * 32: "normal"}
PROJECTS = ("a" * 32, "b" * 32, "c" * 32)
ZONES = ("az1", "az2", "nova")
#: the version from which a compute service reports OWNER_NOVA, and one before it
VERSIONS = (73, 72)
#: the exceptions with which nova refuses a request; another one is a mistake of this test
REFUSALS = (
    "FlavorImageConflict",
    "ImageCPUThreadPolicyForbidden",
    "ImagePCINUMAPolicyForbidden",
    "Invalid",
    "RequestFilterFailed",
    # of the image's properties
    "ValueError",
    "InvalidMachineType",
    "InvalidVideoMode",
    "StatelessFirmwareRequired",
)
TRAITS = ("HW_CPU_X86_AVX", "CUSTOM_GOLD", "HW_CPU_HYPERTHREADING", "COMPUTE_NET_VIRTIO_PACKED")
BOOLEANS = ("true", "false", "yes", "0")

SPECS = {
    "trait:HW_CPU_X86_AVX": ("required", "forbidden", "odd"),
    "trait:CUSTOM_GOLD": ("required", "required", "forbidden"),
    "resources:VCPU": ("1", "0"),
    "resources1:VGPU": ("1", "2"),
    "resources2:VGPU": ("1",),
    "trait1:CUSTOM_GOLD": ("required",),
    "group_policy": ("none", "isolate", "isolate", "odd"),
    "accel:device_profile": ("fpga", ""),
    "hw:virtio_packed_ring": BOOLEANS,
    "hw:ephemeral_encryption": BOOLEANS,
    "hw:ephemeral_encryption_format": ("plain", "luks", "luksv2", "odd"),
    "hw:sound_model": ("virtio", "virtio", "ac97", "odd"),
    "hw:tpm_version": ("1.2", "2.0", "2.0", "3"),
    "hw:tpm_model": ("tpm-tis", "tpm-crb", "odd"),
    "hw:tpm_secret_security": ("user", "host", "deployment", "odd"),
    "hw:cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw:cpu_policy": ("dedicated", "shared"),
    "hw:pci_numa_affinity_policy": ("required", "legacy", "preferred", "socket"),
    "hw:maxphysaddr_mode": ("passthrough", "emulate"),
    "hw:mem_encryption": BOOLEANS,
    "hw:mem_encryption_model": ("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx", "odd"),
    "os:secure_boot": ("required", "disabled", "optional", "odd"),
}
PROPERTIES = {
    "trait:HW_CPU_X86_AVX": ("required", "odd"),
    "trait:CUSTOM_GOLD": ("required",),
    "hw_cdrom_bus": ("ide", "sata", "scsi", "fdc", "odd"),
    "hw_disk_bus": ("virtio", "scsi", "usb", "uml", "odd"),
    "vmware_adaptertype": ("ide", "lsiLogic"),
    "hw_video_model": ("virtio", "vga", "none", "qxl", "gop"),
    "hw_vif_model": ("virtio", "e1000", "spapr-vlan", "VirtualE1000", "VirtualVmxnet3", "igb", "odd"),
    "hw_architecture": ("x86_64", "AMD64", "aarch64", "i386", "odd"),
    "architecture": ("x86_64", "i486"),
    "hw_emulation_architecture": ("aarch64", "x86_64", "ppc64le"),
    "hw_viommu_model": ("intel", "smmuv3", "virtio", "auto"),
    "hw_virtio_packed_ring": BOOLEANS,
    "hw_ephemeral_encryption": BOOLEANS,
    "hw_ephemeral_encryption_format": ("plain", "luks", "luksv2"),
    "hw_sound_model": ("virtio", "ac97"),
    "hw_tpm_version": ("1.2", "2.0"),
    "hw_tpm_model": ("tpm-tis", "tpm-crb"),
    "hw_cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw_pci_numa_affinity_policy": ("required", "socket"),
    "hw_maxphysaddr_mode": ("passthrough", "emulate"),
    "hw_mem_encryption": BOOLEANS,
    "hw_mem_encryption_model": ("amd-sev", "amd-sev-snp"),
    "hw_firmware_type": ("uefi", "uefi", "bios"),
    "hw_firmware_stateless": BOOLEANS,
    "hw_machine_type": ("q35", "pc-q35-9.0", "pc"),
    "os_secure_boot": ("required", "optional"),
}


def choose_some(chance, choices, share):
    """Some of the keys, each with one of its values."""
    return {key: chance.choice(values) for key, values in choices.items() if chance.random() < share}


def choose_case(chance):
    """A request and the options of nova.conf that are on, at random: of most, few settings contradict."""
    share = chance.choice((0, 0.05, 0.12))
    return {
        "enabled": [name for name in SWITCHES if chance.random() < 0.6],
        "flavor": {
            "vcpus": 4,
            "memory_mb": 2048,
            "root_gb": 20,
            "ephemeral_gb": 0,
            "swap": 0,
            "extra_specs": choose_some(chance, SPECS, share),
            "name": "m1",
        },
        "image": choose_some(chance, PROPERTIES, share),
        "disk_format": chance.choice(("qcow2", "raw", "vhd", "ploop", "no-such")),
        "volume_root": chance.random() < 0.2,
        "project": chance.choice(PROJECTS),
        "zone": chance.choice((None, *ZONES)),
        "ports": chance.choice(([], [], [*PORTS], [*PORTS][1:])),
    }


def choose_aggregates(chance):
    """Host aggregates at random, of which several may have the same zone, project and trait."""
    aggregates = {}
    for number in range(chance.choice((0, 2, 5))):
        choices = {
            "availability_zone": ZONES[:2],
            "filter_tenant_id": PROJECTS[:2],
            "filter_tenant_id7": PROJECTS[:2],
            "owner": PROJECTS,
            **{f"trait:{trait}": ("required", "required", "odd") for trait in TRAITS},
        }
        aggregates[f"aggregate-{number}"] = choose_some(chance, choices, 0.3)
    return aggregates


def choose_cloud(chance):
    return {
        "aggregates": choose_aggregates(chance),
        "version": chance.choice(VERSIONS),
        "cases": [choose_case(chance) for _ in range(CASES)],
    }


def ask_nova(clouds, urls):
    """The answers of nova's scheduler."""
    given = {
        "api": urls["api"],
        "cell0": urls["cell0"],
        "cell": urls["cell1"],
        "ports": PORTS,
        "clouds": clouds,
    }
    done = subprocess.run(
        [find_nova() / "python", SCRIPT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def read_flavor(case):
    """The flavor of one case."""
    sizes = dict(case["flavor"])
    return Flavor(swap_mb=sizes.pop("swap"), **sizes)


def ask_ours(case, cloud, uuids, traits):
    """Our query for one case; the reason if we refuse."""
    flavor = read_flavor(case)
    aggregates = [
        HostAggregate(uuids[name], name, metadata) for name, metadata in cloud["aggregates"].items()
    ]
    try:
        image = make_image({**case["image"], "disk_format": case["disk_format"]})
        request = make_groups(flavor, STANDARD_CLASSES, image, volume_root=case["volume_root"])
        boot = Boot(
            flavor,
            request.required,
            image,
            case["volume_root"],
            case["project"],
            case["zone"],
            traits,
            aggregates,
            "" if cloud["version"] == VERSIONS[0] else "old compute services",
            any(PORTS[port] == "remote-managed" for port in case["ports"]),
        )
        asked = ask_filters(boot, Options(**dict.fromkeys(case["enabled"], True)))
    except (NoClaim, NotCountable) as error:
        return str(error)
    nova = NovaRequest(request, asked=asked)
    return join_conditions([*flavor_conditions("m1", request), *filter_conditions(nova)], None)


def normalize(params):
    """A query as a value: the order of its parameters and of the names in them is of no account."""
    found = set()
    for key, value in params:
        if key == "limit" or (key, value) == ("group_policy", "none"):
            continue
        prefix = next((each for each in ("in:", "!in:") if value.startswith(each)), "")
        found.add((key, prefix, frozenset(value.removeprefix(prefix).split(","))))
    return found


def test_queries_equal_those_of_nova_scheduler(tmp_path):
    """For any flavor, image, aggregates and options; where the scheduler refuses, so do we."""
    chance = random.Random(34)
    clouds = [choose_cloud(chance) for _ in range(CLOUDS)]
    with copy_files(tmp_path) as databases:
        theirs = ask_nova(clouds, databases.urls)
    refused = compared = 0
    for cloud, answered in zip(clouds, theirs["clouds"], strict=True):
        for case, answer in zip(cloud["cases"], answered["answers"], strict=True):
            ours = ask_ours(case, cloud, answered["aggregates"], theirs["traits"])
            told = (case, cloud["aggregates"], answer)
            if "refused" in answer:
                refused += 1
                assert answer["refused"] in REFUSALS, told
                assert isinstance(ours, str), told
            elif isinstance(ours, str):
                # placement would refuse the query, or nova's API the server: see test_extra_specs.py
                assert "which placement refuses" in ours or find_contradiction(read_flavor(case)), told
                refused += 1
            else:
                compared += 1
                assert normalize(ours) == normalize(parse_qsl(answer["query"])), (ours, told)
    assert compared > CLOUDS * CASES / 2
    assert refused > CLOUDS * CASES / 20
