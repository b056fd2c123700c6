# SPDX-License-Identifier: Apache-2.0
"""The documentation of the parameter that selects resource providers."""


class ModuleDocFragment:
    """The fragment ``osc_placement.placement.selection``."""

    DOCUMENTATION = r"""
options:
  select:
    description:
      - Which resource providers the task is about. All conditions that are given must hold.
      - They are those of C(openstack resource provider batch). None but C(providers) may be empty.
    type: dict
    suboptions:
      all:
        description: All resource providers.
        type: bool
        default: false
      providers:
        description: Names or UUIDs. Each of them must exist. A text that looks like a UUID is never taken
          for a name.
        type: list
        elements: str
      name:
        description: Pattern for the name with C(*), C(?) and C([...]), such as V(rack1-*).
        type: str
      aggregates:
        description: UUIDs of aggregates, or names of host aggregates of the compute service. Members of any
          of them are selected.
        type: list
        elements: str
        aliases: [aggregate, member_of]
      in_tree:
        description: Name or UUID of a resource provider, whose whole tree is selected.
        type: str
      required:
        description: Traits. Those who have all of them are selected; of V(A,B) one is enough.
        type: list
        elements: str
      forbidden:
        description: Traits. Those who have none of them are selected.
        type: list
        elements: str
      resources:
        description: Amounts by resource class. Those with at least so much free are selected.
        type: dict
"""
