# SPDX-License-Identifier: Apache-2.0
"""The network information of an instance: the providers of which its ports hold something."""

import pytest

from osc_placement.migrate.nova.facts import UNREADABLE_PORT, parse_ports


@pytest.mark.parametrize("text", ["{", "[1]", '[{"profile": "x"}]'])
def test_port_that_cannot_be_read_may_hold_anything(text):
    """What is there and does not parse is not nothing."""
    assert parse_ports(text) == {UNREADABLE_PORT}


@pytest.mark.parametrize("text", [None, "", "[]", "[{}]", '[{"profile": {"allocation": {}}}]'])
def test_port_without_resources_holds_nothing(text):
    """Most ports are like that."""
    assert parse_ports(text) == frozenset()
