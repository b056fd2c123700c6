# SPDX-License-Identifier: Apache-2.0
"""The claims of flavors, compared with those of nova's own scheduler."""

import json
import pathlib
import random
import subprocess

from osc_placement.flavor import Flavor, NoClaim, resources_of
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES
from tests.functional.migrate.nova_databases import find_nova

SCRIPT = pathlib.Path(__file__).with_name("nova_scheduler.py")
CASES = 3000

AMOUNTS = ("0", "1", "3", " 2 ", "-1", "x", "1.5", "")
CLASSES = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_GOLD", "NO_SUCH_CLASS", "custom_x")
MASKS = ("^0", "0", "0-1", "0-1,^1", "^0-1", "9", "x", "0-3", " ^1", "1,,2")


def choose_specs(chance):
    """Extra specs at random: more often of those that meet in the scheduler's arithmetic."""
    specs = {}
    for _ in range(chance.choice((0, 1, 2, 3))):
        group = chance.choice(("", "", "1", "_x"))
        specs[f"resources{group}:{chance.choice(CLASSES)}"] = chance.choice(AMOUNTS)
    choices = {
        "hw:cpu_policy": ("dedicated", "dedicated", "mixed", "mixed", "shared", "odd"),
        "hw:cpu_dedicated_mask": MASKS,
        "hw:emulator_threads_policy": ("isolate", "share"),
        "hw:cpu_realtime": ("yes", "no"),
        "hw:cpu_realtime_mask": MASKS,
        "hw:mem_encryption": ("true", "0", "On"),
        "hw:pmem": ("4GB", "4GB, 16GB,4GB", ","),
        "trait:HW_CPU_X86_AVX": ("required",),
        "group_policy": ("none",),
    }
    for key, values in choices.items():
        if chance.random() < 0.35:
            specs[key] = chance.choice(values)
    return specs


def choose_case(chance):
    """A flavor, where it boots from, and the properties of its image, at random."""
    flavor = {
        "vcpus": chance.choice((1, 2, 4)),
        "memory_mb": chance.choice((64, 2048)),
        "root_gb": chance.choice((0, 20)),
        "ephemeral_gb": chance.choice((0, 5)),
        "swap": chance.choice((0, 1, 1024, 1025)),
        "extra_specs": choose_specs(chance),
        "name": "m1",
    }
    # what encryption of memory insists on
    image = {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}
    if chance.random() < 0.3:
        image["hw_cpu_policy"] = chance.choice(("dedicated", "mixed", "shared"))
    if chance.random() < 0.2:
        image["hw_cpu_realtime_mask"] = chance.choice(MASKS)
    return {"flavor": flavor, "volume_root": chance.random() < 0.3, "image": image}


def ask_nova(cases):
    """What nova's scheduler says to all cases."""
    python = find_nova() / "python"
    done = subprocess.run(
        [python, SCRIPT], input=json.dumps(cases), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask_ours(case):
    """What we say to one; None if we refuse to say."""
    sizes = dict(case["flavor"])
    flavor = Flavor(swap_mb=sizes.pop("swap"), **sizes)
    try:
        return resources_of(flavor, STANDARD_CLASSES, volume_root=case["volume_root"], image=case["image"])
    except NoClaim:
        return None


def test_claims_equal_those_of_nova_scheduler():
    """For any flavor and image, the resources are the scheduler's; where it refuses, so do we."""
    chance = random.Random(8)
    cases = [choose_case(chance) for _ in range(CASES)]
    refused = 0
    for case, theirs in zip(cases, ask_nova(cases), strict=True):
        ours = ask_ours(case)
        if isinstance(theirs, str):
            refused += 1
            assert ours is None, (case, theirs)
        else:
            assert ours == theirs, case
    assert 0 < refused < CASES / 2
