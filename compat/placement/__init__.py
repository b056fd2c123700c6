# SPDX-License-Identifier: Apache-2.0
"""The import package of openstack-placement, with what deployment tools import of it."""

from osc_placement_compat import reference

reference.refuse()
