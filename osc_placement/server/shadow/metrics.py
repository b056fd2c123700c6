# SPDX-License-Identifier: Apache-2.0
"""The counts of a report as metrics of Prometheus, on an address of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from osc_placement.server.shadow.report import Report

_KEY = ("method", "route", "version")


class Collector:
    """A collector for prometheus_client that reads a report."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        """Return the metrics as they are now."""
        document = self._report.to_document()
        forwarded = CounterMetricFamily(
            "placement_shadow_forwarded", "Requests that upstream answered.", labels=_KEY
        )
        failed = CounterMetricFamily(
            "placement_shadow_failed", "Requests that upstream did not answer.", labels=(*_KEY, "status")
        )
        compared = CounterMetricFamily(
            "placement_shadow_compared",
            "Reads that were compared; an intended difference is in the documentation.",
            labels=(*_KEY, "result"),
        )
        skipped = CounterMetricFamily(
            "placement_shadow_skipped", "Requests that were not compared.", labels=(*_KEY, "reason")
        )
        latency = GaugeMetricFamily(
            "placement_shadow_latency_seconds",
            "Duration of the compared answers of each side.",
            labels=(*_KEY, "side", "quantile"),
        )
        restarts = CounterMetricFamily(
            "placement_shadow_restarts", "Restarts of the process that compares.", document["restarts"]
        )
        for row in document["routes"]:
            key = (row["method"], row["route"], row["microversion"])
            forwarded.add_metric(key, row["forwarded"])
            for status, count in row["failed"].items():
                failed.add_metric((*key, status), count)
            for reason, count in row["skipped"].items():
                skipped.add_metric((*key, reason), count)
            if not row["compared"]:
                continue
            intended = sum(row["explained"].values())
            for result, count in (
                ("equal", row["equal"]),
                ("intended", intended),
                ("different", row["different"]),
            ):
                compared.add_metric((*key, result), count)
            for side in ("upstream", "our"):
                for name, quantile in (("median", "0.5"), ("p99", "0.99")):
                    labels = (*key, "upstream" if side == "upstream" else "ours", quantile)
                    latency.add_metric(labels, row[f"{side}_seconds"][name])
        yield from (forwarded, failed, compared, skipped, latency, restarts)


def serve(report: Report, host: str, port: int) -> None:
    """Serve the metrics of a report in a thread, at any path; :raises OSError: the address cannot be used."""
    registry = CollectorRegistry()
    registry.register(Collector(report))
    start_http_server(port, host, registry)
