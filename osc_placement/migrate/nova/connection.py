# SPDX-License-Identifier: Apache-2.0
"""The connection of a cell: a template of nova, filled from the connection in nova.conf. Pure."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from osc_placement.migrate.nova.source import Unreadable


def resolve_connection(template: str, main: str | None, label: str) -> str:
    """Fill a cell's connection template with the parts of ``[database]/connection``.

    What has no parts to fill in stays as it is; without a main connection so does everything, as in nova.
    """
    if not main or "{" not in template:
        return template
    try:
        return template.format(**describe_url(main))
    except (KeyError, ValueError, IndexError) as error:
        reason = f"its connection template {error} cannot be filled from [database]/connection"
        raise Unreadable(label, reason) from error


def describe_url(url: str) -> dict[str, str]:
    """The parts of a URL under the names that nova gives them; of several hosts, each has a number too."""
    parts = urlsplit(url)
    hosts = parts.netloc.split(",")
    described = {
        "scheme": parts.scheme,
        "path": parts.path.lstrip("/"),
        "query": parts.query,
        "fragment": parts.fragment,
        **_describe_host(parts, hosts[0], ""),
    }
    for number, host in enumerate(hosts, 1):
        if len(hosts) > 1:
            described |= _describe_host(parts, host, str(number))
    return described


def _describe_host(parts: SplitResult, netloc: str, number: str) -> dict[str, str]:
    host = parts._replace(netloc=netloc)
    return {
        f"username{number}": host.username or "",
        f"password{number}": host.password or "",
        f"hostname{number}": host.hostname or "",
        f"port{number}": str(host.port or ""),
    }
