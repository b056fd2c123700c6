# SPDX-License-Identifier: Apache-2.0
"""The metrics of the server and of its cloud, for Prometheus."""

from __future__ import annotations

from typing import Any, Final

from osc_placement.server import errors, policies
from osc_placement.server.api.http import Request, reply_text
from osc_placement.server.process.metrics import CONTENT_TYPE, DIRECTORY_VARIABLE

#: the rules of the requests that return the same data
_RULES: Final = (
    policies.PROVIDER_LIST,
    policies.INVENTORY_LIST,
    policies.PROVIDER_USAGES,
    policies.AGGREGATE_LIST,
)


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
