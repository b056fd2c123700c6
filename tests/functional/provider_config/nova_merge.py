# SPDX-License-Identifier: Apache-2.0
"""What nova-compute adds to its providers. Run by nova's Python, not by that of the tests.

Reads a JSON list of cases: a directory of provider configuration files, and providers with name, uuid, parent
and traits, parents first, and the inventories that the driver leaves them. Prints a JSON list of the same
length: the traits and inventories of each provider by its UUID, or the text of the exception that nova's
resource tracker raises in each update.
"""

import json
import sys

from nova.compute import resource_tracker
from nova.compute.provider_config import get_provider_configs
from nova.compute.provider_tree import ProviderTree


def merge(case):
    """The providers of one case after an update."""
    tracker = resource_tracker.ResourceTracker.__new__(resource_tracker.ResourceTracker)
    tracker.absent_providers = set()
    tree = ProviderTree()
    for provider in case["providers"]:
        if provider["parent"]:
            tree.new_child(provider["name"], provider["parent"], uuid=provider["uuid"])
        else:
            tree.new_root(provider["name"], provider["uuid"])
        tree.add_traits(provider["uuid"], *provider["traits"])
        tree.update_inventory(provider["uuid"], provider.get("inventories", {}))
    try:
        tracker._merge_provider_configs(get_provider_configs(case["directory"]), tree)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    found = {uuid: tree.data(uuid) for uuid in tree.get_provider_uuids()}
    return {"merged": {uuid: [sorted(data.traits), data.inventory] for uuid, data in found.items()}}


print(json.dumps([merge(case) for case in json.load(sys.stdin)]))
