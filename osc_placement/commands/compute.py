# SPDX-License-Identifier: Apache-2.0
"""Requests to the compute API, with OpenStackClient's session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from osc_placement.errors import PlacementError

BAD_ANSWER: Final = "its answer is not that of the compute API"


class NoAnswer(PlacementError):
    """The compute API did not answer, or not as it should; ``status`` is that of its answer, or 0."""

    def __init__(self, reason: str, status: int = 0, text: str = "") -> None:
        self.reason = reason
        self.status = status
        self.text = text
        super().__init__(f"The compute API cannot be asked: {reason}")

    @property
    def told(self) -> str:
        """Return what the compute service did, for a sentence about it."""
        if self.reason == BAD_ANSWER:
            return "gave an answer that is not that of the compute API"
        return f"answered {self.reason}" if self.status else f"gave no answer ({self.reason})"


def read_compute(
    client_manager: Any, path: str, *, microversion: str | None = None, timeout: float | None = None
) -> Mapping[str, Any]:
    """Return the JSON object at a path of the compute API; raise NoAnswer. ``timeout`` is in seconds."""
    from keystoneauth1 import exceptions

    try:
        document = client_manager.session.get(
            path,
            endpoint_filter={
                "service_type": "compute",
                "interface": client_manager.interface,
                "region_name": client_manager.region_name,
            },
            endpoint_override=client_manager._cli_options.get_endpoint("compute"),
            headers={"Accept": "application/json"},
            microversion=microversion,
            timeout=timeout,
        ).json()
    except exceptions.ClientException as failure:
        reason = str(failure).partition("\n")[0]
        for end in (" (HTTP", " (Request-ID"):
            reason = reason.partition(end)[0]
        response = getattr(failure, "response", None)
        text = "" if response is None else response.text
        status = getattr(failure, "http_status", 0)
        raise NoAnswer(reason or type(failure).__name__, status, text) from failure
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise NoAnswer(BAD_ANSWER)
    return document
