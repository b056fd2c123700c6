# SPDX-License-Identifier: Apache-2.0
"""What nova ignores of a flavor, and what its API refuses; test_extra_specs.py compares it with nova."""

import pytest

from osc_placement.candidates.flavor import find_contradiction
from osc_placement.flavor import Flavor
from osc_placement.migrate.nova.flavors import find_ignored


def flavor(**specs):
    """A flavor of two CPUs."""
    return Flavor(2, 2048, 20, extra_specs=specs, name="m1")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("resources:VCPU", "abc", "it is no amount"),
        ("resources:VCPU", "-1", "it is no amount"),
        ("resources_x:vcpu", "1", "vcpu is no resource class"),
        ("resources:", "1", "an empty name is no resource class"),
        ("trait1:CUSTOM_X", "Required", "it is neither required nor forbidden"),
        ("group_policy", "isolated", "it is none of none, isolate"),
    ],
)
def test_extra_spec_that_nova_ignores_is_found(key, value, reason):
    """With the reason."""
    assert list(find_ignored(flavor(**{key: value}))) == [(key, reason)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resources:VCPU", " 2 "),
        ("resources:CUSTOM_x", "0"),
        ("trait:avx", "required"),
        ("traits:avx", "required"),
        ("resource:VCPU", "abc"),
        ("resources.1:VCPU", "abc"),
        ("group_policy", "none"),
        ("hw:cpu_policy", "odd"),
    ],
)
def test_extra_spec_that_nova_reads_or_never_looks_at_is_none(key, value):
    """Names that placement does not know are sent to it."""
    assert list(find_ignored(flavor(**{key: value}))) == []


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ({"hw:cpu_policy": "dedicated", "resources:VCPU": "2"}, "hw:cpu_policy and resources:VCPU"),
        ({"resources1:VCPU": "1", "resources:PCPU": "2"}, "resources:VCPU and resources:PCPU"),
        ({"resources:PCPU": "1"}, "resources:PCPU has to be 2"),
        ({"resources:PCPU": "2", "hw:emulator_threads_policy": "isolate"}, "resources:PCPU has to be 3"),
        ({"hw:cpu_policy": "mixed"}, "needs hw:cpu_dedicated_mask"),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0", "hw:cpu_realtime": "1"},
            "hw:cpu_dedicated_mask and hw:cpu_realtime",
        ),
        ({"hw:cpu_policy": "dedicated", "hw:cpu_dedicated_mask": "0"}, "hw:cpu_policy=dedicated contradict"),
        ({"hw:cpu_policy": "shared", "hw:cpu_realtime": "yes"}, "hw:cpu_policy=shared contradict"),
    ],
)
def test_contradiction_is_named(specs, reason):
    """Those about CPUs that hold for every image."""
    assert reason in find_contradiction(flavor(**specs))


@pytest.mark.parametrize(
    "specs",
    [
        {},
        {"resources:PCPU": "2"},
        {"resources:VCPU": "0", "hw:cpu_policy": "dedicated"},
        {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"},
        {"hw:cpu_dedicated_mask": "^0"},
    ],
)
def test_flavor_without_contradiction_has_none(specs):
    """An image may give the policy that a mask needs."""
    assert find_contradiction(flavor(**specs)) == ""
