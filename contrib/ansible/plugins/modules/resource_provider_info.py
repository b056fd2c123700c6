#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_provider_info
short_description: Read resource providers of OpenStack Placement
version_added: 5.0.0
author: the authors of osc-placement (!UNKNOWN)
description:
  - Returns resource providers with their inventories, usages, traits and aggregates.
  - If none meets the conditions, the list is empty.
options:
  name:
    description: Name or UUID of one resource provider. Use O(select) for conditions.
    type: str
attributes:
  check_mode:
    support: full
    description: The module writes nothing.
extends_documentation_fragment:
  - osc_placement.placement.cloud
  - osc_placement.placement.selection
"""

EXAMPLES = r"""
- name: One host
  osc_placement.placement.resource_provider_info:
    cloud: prod
    name: compute-1
  register: host

- name: What is free on it
  ansible.builtin.debug:
    msg: "{{ host.resource_providers[0].usages }}"

- name: All hosts of a rack with local SSDs
  osc_placement.placement.resource_provider_info:
    cloud: prod
    select:
      aggregate: rack-1
      required: [CUSTOM_SSD]
"""

RETURN = r"""
resource_providers:
  description: The resource providers, sorted by name.
  returned: success
  type: list
  elements: dict
  sample:
    - uuid: 11111111-0000-4000-8000-000000000001
      name: compute-1
      generation: 3
      parent_provider_uuid: null
      root_provider_uuid: 11111111-0000-4000-8000-000000000001
      inventories:
        VCPU: {total: 64, reserved: 2, min_unit: 1, max_unit: 64, step_size: 1, allocation_ratio: 4.0}
      traits: [COMPUTE_NODE, CUSTOM_GOLD]
      aggregates: [aaaaaaaa-0000-4000-8000-000000000001]
      usages: {VCPU: 12}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.osc_placement.placement.plugins.module_utils.selection import (
    SELECT,
    describe_provider,
    make_selection,
)
from ansible_collections.osc_placement.placement.plugins.module_utils.session import (
    Cloud,
    importing,
    run_module,
)

with importing():
    from osc_placement.batch import Selection


OPTIONS = {"name": {"type": "str"}, "select": SELECT}


def act(module: AnsibleModule, cloud: Cloud) -> dict[str, Any]:
    """Read the providers."""
    name, select = module.params["name"], module.params["select"]
    if name is not None:
        found = cloud.find_provider(name)
        filters: dict[str, Any] | None = {"uuid": found["uuid"]} if found else None
        selection = Selection(everything=True)
    else:
        selection = make_selection(cloud, select) if select else Selection(everything=True)
        filters = dict(selection.filters)
    records = [] if filters is None else cloud.client.read_providers(filters)
    by_uuid = {record.provider.uuid: record for record in records}
    chosen = selection.choose([record.provider for record in by_uuid.values()])
    found_all = [describe_provider(by_uuid[provider.uuid]) for provider in chosen]
    return {"changed": False, "resource_providers": sorted(found_all, key=lambda found: found["name"])}


def main() -> None:
    """Run the module."""
    run_module(act, OPTIONS, mutually_exclusive=[("name", "select")])


if __name__ == "__main__":
    main()
