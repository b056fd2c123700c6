# SPDX-License-Identifier: Apache-2.0
"""What we read of extra specs, compared with what nova's own code reads of them."""

import json
import pathlib
import random
import subprocess
from dataclasses import replace

import pytest

from osc_placement.candidates.flavor import NotCountable, find_contradiction, make_groups
from osc_placement.flavor import Flavor
from osc_placement.migrate.nova.flavors import STANDARD_CLASSES, find_ignored
from tests.functional.migrate.nova_databases import find_nova

SCRIPT = pathlib.Path(__file__).with_name("nova_extra_specs.py")
CASES = 3000
GROUPS = ("", "", "", "1", "_x", "s", ".1")
NAMES = (
    "HW_CPU_X86_AVX2",
    "CUSTOM_GOLD",
    "CUSTOM_gold",
    "hw_cpu_x86_avx2",
    "NO_SUCH",
    "VCPU",
    "PCPU",
    "MEMORY_MB",
    "vcpu",
    "VGPU",
    "",
    "A B",
)
AMOUNTS = ("0", "1", "2", "3", "4", " 2 ", "-1", "abc", "1.5", "")
CHOICES = {
    "group_policy": ("none", "isolate", "isolated", ""),
    "hw:cpu_policy": ("dedicated", "mixed", "shared"),
    "hw:cpu_dedicated_mask": ("0", "^0", "0-1"),
    "hw:cpu_realtime": ("yes", "no"),
    "hw:cpu_realtime_mask": ("^0",),
    "hw:emulator_threads_policy": ("isolate", "share"),
    "hw:cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw:tpm_version": ("1.2", "2.0"),
    "hw:tpm_model": ("tpm-tis", "tpm-crb"),
    "hw:pci_numa_affinity_policy": ("socket", "legacy"),
    "os:secure_boot": ("required", "optional"),
}


def choose_flavor(chance):
    """A flavor with extra specs at random."""
    specs = {}
    for _ in range(chance.choice((0, 1, 2, 3))):
        specs[f"resources{chance.choice(GROUPS)}:{chance.choice(NAMES)}"] = chance.choice(AMOUNTS)
    for _ in range(chance.choice((0, 1, 2))):
        value = chance.choice(("required", "required", "forbidden", "Required", "yes", ""))
        specs[f"trait{chance.choice(GROUPS)}:{chance.choice(NAMES)}"] = value
    for key, values in CHOICES.items():
        if chance.random() < 0.15:
            specs[key] = chance.choice(values)
    return Flavor(chance.choice((1, 2, 4)), 2048, 20, extra_specs=specs, name="m1")


def ask_nova(flavors):
    """What nova says to all flavors."""
    documents = [
        {
            "vcpus": each.vcpus,
            "memory_mb": each.memory_mb,
            "root_gb": each.root_gb,
            "ephemeral_gb": 0,
            "swap": 0,
            "extra_specs": each.extra_specs,
            "name": each.name,
        }
        for each in flavors
    ]
    python = find_nova() / "python"
    done = subprocess.run(
        [python, SCRIPT],
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def cases():
    """Flavors, each with what nova says to it."""
    chance = random.Random(23)
    flavors = [choose_flavor(chance) for _ in range(CASES)]
    return list(zip(flavors, ask_nova(flavors), strict=True))


def test_ignored_extra_specs_are_those_of_which_nova_warns(cases):
    """Each of them is one warning of nova."""
    found = 0
    for flavor, theirs in cases:
        if "error" not in theirs:
            ignored = list(find_ignored(flavor))
            found += len(ignored)
            assert len(ignored) == theirs["warnings"], flavor
    assert found > CASES / 10


def test_groups_equal_those_of_nova(cases):
    """What is left without the ignored ones gives nova's groups, with their resources and traits."""
    compared = 0
    for flavor, theirs in cases:
        ignored = {key for key, _ in find_ignored(flavor)}
        specs = {key: value for key, value in flavor.extra_specs.items() if key not in ignored}
        try:
            asked = make_groups(replace(flavor, extra_specs=specs), STANDARD_CLASSES)
        except NotCountable:
            continue
        groups = {
            group.suffix: [
                dict(group.resources),
                sorted(name for (name,) in group.traits.required),
                sorted(name for (name,) in group.traits.forbidden),
            ]
            for group in asked.groups
        }
        assert (groups, asked.isolated) == (theirs.get("groups"), theirs["policy"] == "isolate"), flavor
        compared += 1
    assert compared > CASES / 3


def test_contradictions_are_refused_by_nova(cases):
    """What we call a contradiction nova's API refuses for the CPUs."""
    found = 0
    for flavor, theirs in cases:
        if find_contradiction(flavor):
            found += 1
            assert "error" in theirs or theirs["refusal"], flavor
    assert found > CASES / 20


@pytest.mark.parametrize(
    "specs", [{"hw:cpu_policy": "mixed"}, {"hw:cpu_policy": "shared", "hw:cpu_realtime": "yes"}]
)
def test_broken_cpu_policy_is_found(specs):
    """It is found by us, too, and not only by nova."""
    flavor = Flavor(2, 2048, 20, extra_specs=specs, name="m1")
    (theirs,) = ask_nova([flavor])
    assert "error" in theirs or theirs["refusal"]
    assert find_contradiction(flavor)
