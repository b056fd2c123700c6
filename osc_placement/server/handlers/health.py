# SPDX-License-Identifier: Apache-2.0
"""What load balancers and supervisors ask: does it live, and can it answer? Public: they have no token."""

from __future__ import annotations

from typing import Any

from osc_placement.server.http import Request, reply


def show_life(request: Request) -> Any:
    """GET /-/healthz: that this process answers; the database is not asked."""
    return reply(request, {"status": "alive"})


def show_readiness(request: Request) -> Any:
    """GET /-/readyz: whether requests can be answered; 503 with the reason if not."""
    fault = request.service.health.find_fault()
    if fault is None:
        return reply(request, {"status": "ready"})
    body = {"status": "not ready", "reasons": [{"check": fault.check, "reason": fault.reason}]}
    response = reply(request, body, status=503)
    response.retry_after = 1
    return response
