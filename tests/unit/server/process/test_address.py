# SPDX-License-Identifier: Apache-2.0
"""Addresses that a server listens on."""

import pytest

from osc_placement.server.process.address import format_url, is_loopback


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8778"),
        ("controller", "http://controller:8778"),
        ("0.0.0.0", "http://127.0.0.1:8778"),
        ("", "http://127.0.0.1:8778"),
        ("::1", "http://[::1]:8778"),
        ("::", "http://[::1]:8778"),
    ],
)
def test_url_is_that_for_clients_on_this_machine(host, url):
    """The addresses that mean all of this machine become that of loopback; one of IPv6 is in brackets."""
    assert format_url(host, 8778) == url


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.0.2.1", False),
        ("controller", False),
        ("", False),
    ],
)
def test_loopback_cannot_be_reached_from_elsewhere(host, expected):
    """Names but localhost are not looked up."""
    assert is_loopback(host) is expected
