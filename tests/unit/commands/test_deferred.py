# SPDX-License-Identifier: Apache-2.0
"""What a start of ``openstack`` loads of us, and the commands it leaves for later."""

import inspect
import subprocess
import sys
from importlib.metadata import distribution

import pytest
from cliff.command import Command

from osc_placement.commands import deferred

COMMANDS = sorted(distribution("osc-placement").entry_points.select(group="openstack.placement.v1"))

#: all that the start may load beyond the client: what is added here, every command of every service pays for
LOADED = {
    "osc_placement",
    "osc_placement.commands",
    "osc_placement.commands.deferred",
    "osc_placement.microversion",
    "osc_placement.plugin",
}
START = """
import sys
import openstackclient.shell
# the client has loaded our plugin by now; what that brings is in test_layers.py
before = {name for name in sys.modules if not name.startswith("osc_placement")}
from importlib.metadata import distribution
points = distribution("osc-placement").entry_points
for group in ("openstack.cli.extension", "openstack.placement.v1"):
    for point in points.select(group=group):
        point.load()
print(*sorted(set(sys.modules) - before))
"""


def test_a_start_loads_no_command():
    """All our entry points, loaded as OpenStackClient does, bring no module but those named here."""
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    # how an editable install is found
    loaded = {name for name in done.stdout.split() if not name.startswith("__editable__")}
    assert loaded == LOADED


@pytest.mark.parametrize("entry_point", COMMANDS, ids=lambda entry_point: entry_point.name)
def test_an_entry_point_makes_its_command(entry_point):
    """What is loaded is a class of commands, and what it makes is of the class that the entry point names."""
    found = entry_point.load()
    assert issubclass(found, Command)
    real = deferred.find(*entry_point.attr.split("."))
    assert found.__name__ == real.__name__
    assert type(found(None, None, cmd_name=None)) is real


def test_a_deferred_class_is_told_the_name_of_its_command():
    """cliff gives the name only to a class whose constructor has a parameter for it."""
    assert "cmd_name" in inspect.getfullargspec(COMMANDS[0].load().__init__).args


def test_a_name_that_is_not_there_is_found_out_when_it_is_used():
    """Nothing is loaded before, so that is when the module can say so."""
    with pytest.raises(AttributeError, match="NoSuchCommand"):
        deferred.defer("tree", "NoSuchCommand")(None, None)
