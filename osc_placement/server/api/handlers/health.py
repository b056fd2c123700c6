# SPDX-License-Identifier: Apache-2.0
"""Liveness and readiness for load balancers and supervisors. Public: they have no token."""

from __future__ import annotations

from typing import Any

from osc_placement.server.api.http import Request, reply


def show_life(request: Request) -> Any:
    """GET /-/healthz: that this process answers; the database is not asked."""
    return reply(request, {"status": "alive"})


def show_readiness(request: Request) -> Any:
    """GET /-/readyz: whether requests can be answered; 503 with the reason if not.

    A database that cannot be changed is a reason and no 503: a balancer that took away every server for it
    would end the reads, too.
    """
    fault = request.service.health.find_fault()
    if fault is None:
        return reply(request, {"status": "ready"})
    reasons = [{"check": fault.check, "reason": fault.reason}]
    if fault.reads_go_on:
        return reply(request, {"status": "read-only", "reasons": reasons})
    body = {"status": "not ready", "reasons": reasons}
    response = reply(request, body, status=503)
    response.retry_after = 1
    return response
