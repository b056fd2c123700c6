# SPDX-License-Identifier: Apache-2.0
"""The commands of openstack-placement, for the server of osc-placement."""
