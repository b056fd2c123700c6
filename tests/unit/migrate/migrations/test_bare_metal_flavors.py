# SPDX-License-Identifier: Apache-2.0
"""Which flavors are reported, and the command that mends each."""

import shlex

import pytest

from osc_placement.flavor import Flavor
from osc_placement.migrate.migrations.move_baremetal import FlavorUse, judge_flavors, mend
from osc_placement.migrate.nova.facts import Instance

SIZELESS = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
CLASSES = {"CUSTOM_X", "CUSTOM_Y"}


def flavor(name="f", **extra_specs):
    return Flavor(2, 1024, 10, extra_specs=extra_specs, name=name, flavorid=name)


def use(*classes, is_complete=True):
    """The use of the flavor f on nodes of these classes; None is a virtual machine, "?" any node."""
    used = FlavorUse(is_complete=is_complete)
    for each in classes:
        instance = Instance("i", "p", "u", "h", "n", flavor=flavor())
        if each is None:
            used.note_elsewhere(instance)
        else:
            used.note_metal(instance, None if each == "?" else each)
    return used


def judge(one, used, chosen=CLASSES):
    return [(str(problem.reason), problem.text) for problem in judge_flavors([one], used, CLASSES, chosen)]


@pytest.mark.parametrize(
    ("one", "used", "problem"),
    [
        (flavor(), use(), None),
        (flavor(), use(None), None),
        (flavor(), use("CUSTOM_X"), "flavor asks for sizes"),
        (flavor(), use("CUSTOM_X", None), "ambiguous"),
        (flavor(), use("CUSTOM_X", "CUSTOM_Y"), "ambiguous"),
        (flavor(), use("CUSTOM_X", "?"), "ambiguous"),
        (flavor(), use("?"), None),
        (flavor(), use("CUSTOM_X", is_complete=False), "unknown"),
        (flavor(**{"resources:CUSTOM_X": "1"}), use(None, is_complete=False), "flavor asks for sizes"),
        (flavor(**{"resources:CUSTOM_X": "1", "resources:CUSTOM_Y": "1"}), use(), "ambiguous"),
        (flavor(**{"resources:CUSTOM_X": "1"}, **SIZELESS), use("CUSTOM_X"), None),
        (flavor(**{"resources:CUSTOM_X": "2"}, **SIZELESS), use(), "flavor asks for sizes"),
        (flavor(**SIZELESS), use("CUSTOM_X"), "flavor asks for sizes"),
        (flavor(**{"resources:CUSTOM_OTHER": "1"}), use(), None),
        (flavor(**{"hw:cpu_policy": "sometimes"}), use("CUSTOM_X"), None),
    ],
)
def test_flavor_of_bare_metal_is_reported_until_it_asks_for_one_node(one, used, problem):
    """Named or used, and nobody else's: then there is a command; where that is not clear, there is none."""
    found = judge(one, used)
    assert [kind for kind, _ in found] == ([problem] if problem else [])
    assert all(("openstack flavor set" in text) == (kind == "flavor asks for sizes") for kind, text in found)


def test_command_sets_what_is_missing_and_quotes_the_name():
    """What is right already is left out."""
    one = flavor("it's 1", **{"resources:CUSTOM_X": "1", "resources:VCPU": "2"})
    assert shlex.split(mend(one, "CUSTOM_X")) == [
        *("openstack", "flavor", "set", "--property", "resources:VCPU=0"),
        *("--property", "resources:MEMORY_MB=0", "--property", "resources:DISK_GB=0", "it's 1"),
    ]


def test_numbered_group_is_for_people():
    """No property of the unnumbered group takes back what another group asks for."""
    one = flavor(**{"resources:CUSTOM_X": "1", "resources1:VCPU": "2"}, **SIZELESS)
    ((_, text),) = judge(one, use())
    assert "numbered groups" in text


def test_flavor_of_other_nodes_is_not_spoken_of():
    """Who asks for some nodes hears of the flavors for these."""
    one = flavor(**{"resources:CUSTOM_X": "1"})
    assert judge(one, use(), {"CUSTOM_Y"}) == []
    assert [kind for kind, _ in judge(one, use(), {"CUSTOM_X"})] == ["flavor asks for sizes"]
