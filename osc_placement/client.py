# SPDX-License-Identifier: Apache-2.0
"""The public name of the client for programs; the package itself uses `osc_placement.api.client`."""

from osc_placement.api.client import PlacementClient

__all__ = ["PlacementClient"]
