# SPDX-License-Identifier: Apache-2.0
"""The service itself over HTTP: its microversions, its health and its metrics.

The microversions are public, so that clients can ask for them first; so is the health, because load balancers
have no token.
"""

from __future__ import annotations

from typing import Any, Final

from osc_placement import microversion
from osc_placement.server import errors, policies
from osc_placement.server.api.http import Request, reply, reply_text
from osc_placement.server.process.metrics import CONTENT_TYPE, DIRECTORY_VARIABLE

#: the rules of the requests that return the same data as the metrics
_RULES: Final = (
    policies.PROVIDER_LIST,
    policies.INVENTORY_LIST,
    policies.PROVIDER_USAGES,
    policies.AGGREGATE_LIST,
)


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


def show_life(request: Request) -> Any:
    """GET /-/healthz: that this process answers; the database is not asked."""
    return reply(request, {"status": "alive"})


def show_readiness(request: Request) -> Any:
    """GET /-/readyz: whether requests can be answered; 503 with the reason if not.

    A database that cannot be changed is a reason and no 503: a balancer that took away every server for it
    would end the reads, too.
    """
    faults = request.service.health.find_faults()
    if not faults:
        return reply(request, {"status": "ready"})
    reasons = [{"check": fault.check, "reason": fault.reason} for fault in faults]
    body = {"status": faults[0].status, "reasons": reasons}
    if faults[0].status != "not ready":
        return reply(request, body)
    response = reply(request, body, status=503)
    response.retry_after = 1
    return response


def show_metrics(request: Request) -> Any:
    """GET /-/metrics: in the text format of Prometheus."""
    service = request.service
    if not service.conf.metrics.public:
        for rule in _RULES:
            request.authorize(rule)
    if service.metrics.directory is None and request.web.environ.get("wsgi.multiprocess"):
        raise errors.HTTPError(
            503,
            "Several processes serve here, and each has counted for itself: start the service with "
            f"{DIRECTORY_VARIABLE} set to a directory that they can share.",
        )
    return reply_text(request, service.metrics.render() + service.cloud.get(), CONTENT_TYPE)
