# SPDX-License-Identifier: Apache-2.0
"""What we give to a bare metal node is what nova's own ironic driver reports of it."""

import itertools
import json
import pathlib
import subprocess

from osc_placement.batch.facets import ProviderState
from osc_placement.migrate.migrations.move_baremetal import NodeEdit, class_of_node
from osc_placement.migrate.nova.facts import IronicNode
from osc_placement.model import Inventory
from tests.functional.migrate.nova_databases import find_nova

PROVISION = (None, "available", "active", "enroll", "manageable", "cleaning", "clean wait", "deploy failed")
POWER = (None, "power on", "power off", "error", "rebooting")
CLASSES = ("gold", "Bare.metal-gold  2", "straße", "_x_", "CUSTOM_A")


def make_nodes():
    """Nodes in all states, with and without maintenance and an instance; and some with odd classes."""
    for states in itertools.product(PROVISION, POWER, (False, True), (None, "instance")):
        yield IronicNode("node", "", "gold", *states)
    for name in CLASSES:
        yield IronicNode("node", "", name, "available", "power off")


def ask_driver(nodes):
    """What nova's driver reports of each node."""
    cases = [
        {
            "provision_state": node.provision_state,
            "power_state": node.power_state,
            "is_maintenance": node.maintenance,
            "instance_id": node.instance_uuid,
            "resource_class": node.resource_class,
        }
        for node in nodes
    ]
    program = pathlib.Path(__file__).with_name("nova_ironic.py")
    done = subprocess.run(
        [find_nova() / "python", program],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_inventory_equals_that_of_the_nova_driver():
    """In every state the class, its total and what is reserved of it are the same."""
    nodes = list(make_nodes())
    reports = ask_driver(nodes)
    assert {next(iter(report.values()))["reserved"] for report in reports} == {0, 1}
    for node, report in zip(nodes, reports, strict=True):
        edit = NodeEdit(
            class_of_node(node), is_occupied=bool(node.instance_uuid), is_available=node.is_available
        )
        after = edit.decide(ProviderState(inventories={}, allocations={})).after
        assert after.inventories == {name: Inventory.from_json(each) for name, each in report.items()}, node
