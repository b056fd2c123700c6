# SPDX-License-Identifier: Apache-2.0
"""The documentation of what all modules that change something as a run have."""


class ModuleDocFragment:
    """The fragment ``osc_placement.placement.run``."""

    DOCUMENTATION = r"""
options:
  journal_directory:
    description: Directory of the journal. The default is the one in which the C(openstack) command looks.
    type: path
attributes:
  check_mode:
    support: full
    description: Nothing is written, and C(changed) says whether something would be.
  diff_mode:
    support: full
    description: Shows what changes as YAML.
"""
