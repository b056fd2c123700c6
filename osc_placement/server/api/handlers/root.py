# SPDX-License-Identifier: Apache-2.0
"""The root of the service: which microversions there are. Public, so that clients can ask before all else."""

from __future__ import annotations

from typing import Any

from osc_placement import microversion
from osc_placement.server.api.http import Request, reply


def show_versions(request: Request) -> Any:
    """GET /: the version document. The link is empty, which is "this same URL", wherever that is mounted."""
    version = {
        "id": f"v{microversion.MIN}",
        "max_version": str(microversion.MAX),
        "min_version": str(microversion.MIN),
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return reply(request, {"versions": [version]})
