# SPDX-License-Identifier: Apache-2.0
"""The name by which programs import the client; the package itself uses `osc_placement.api.client`."""

from osc_placement.api.client import PlacementClient

__all__ = ["PlacementClient"]
