# SPDX-License-Identifier: Apache-2.0
"""What nova's own ironic driver tells placement of a node. Run by nova's Python, not by that of the tests.

Reads a JSON list of nodes, with the attributes that the driver reads, and prints a JSON list of inventories.
"""

import json
import sys
from types import SimpleNamespace

import nova.conf
from nova.virt.ironic.driver import IronicDriver

nova.conf.CONF([], project="nova", default_config_files=[])


class Driver(IronicDriver):
    """The driver without a connection to Ironic."""

    def __init__(self, node):
        self._node = node

    def _node_from_cache(self, node_id):
        return self._node


class Tree:
    """Keeps what it is told."""

    def update_inventory(self, name, inventory):
        """Keep the inventory of a provider."""
        self.inventory = inventory

    def update_traits(self, name, traits):
        """Forget them."""


def report(fields):
    """The inventory of one node."""
    node = SimpleNamespace(**fields, id="node", properties={"cpu_arch": "x86_64"}, traits=[])
    tree = Tree()
    Driver(node).update_provider_tree(tree, "node")
    return tree.inventory


print(json.dumps([report(fields) for fields in json.load(sys.stdin)]))
