# SPDX-License-Identifier: Apache-2.0
"""Addresses that a server listens on, as its clients on this machine see them."""

from __future__ import annotations

import ipaddress

#: the addresses that mean all addresses of this machine, and the one at which it reaches itself then
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


def find_own(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on an address."""
    return _WILDCARDS.get(host, host)


def format_url(host: str, port: int, scheme: str = "http") -> str:
    """Return the URL at which clients on this machine reach a server that listens on an address."""
    host = find_own(host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
