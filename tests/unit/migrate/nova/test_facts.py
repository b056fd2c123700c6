# SPDX-License-Identifier: Apache-2.0
"""Which services are up, and the providers of which the ports of an instance hold something."""

from datetime import UTC, datetime, timedelta

import pytest

from osc_placement.migrate.nova.facts import UNREADABLE_PORT, ServiceGroup, parse_ports

CLOCK = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "seen", "created", "is_up"),
    [
        ({}, 60, 9999, True),
        ({}, 61, 61, False),
        ({}, -9999, 9999, True),
        # it has not reported yet, or not in time
        ({}, None, 60, True),
        ({}, None, 61, False),
        ({}, None, None, True),
        ({"service_down_time": 7200}, 7200, 9999, True),
        ({"service_down_time": 7200}, 7201, 9999, False),
        ({"service_down_time": 10**30}, 10**9, 10**9, True),
        # nova waits for two and a half reports, rounded down, if it would not wait for one
        ({"report_interval": 59}, 61, 9999, False),
        ({"report_interval": 60}, 150, 9999, True),
        ({"report_interval": 60}, 151, 9999, False),
        ({"report_interval": 61}, 152, 9999, True),
        ({"report_interval": 61}, 153, 9999, False),
        ({"report_interval": 10**400}, 9999, 9999, True),
        ({"service_down_time": 0}, 25, 9999, True),
        ({"service_down_time": 0}, 26, 9999, False),
        # nothing is in the database
        ({"servicegroup_driver": "mc"}, None, 9999, True),
        ({"servicegroup_driver": "mc"}, 9999, 9999, True),
        ({"report_interval": 0}, None, 9999, True),
    ],
)
def test_service_is_up_by_the_rule_of_nova(options, seen, created, is_up):
    """One that is forced down is down always, and none is known to be down if no service reports."""
    group = ServiceGroup(**options)
    times = {
        name: None if ago is None else CLOCK - timedelta(seconds=ago)
        for name, ago in (("last_seen_up", seen), ("created_at", created))
    }
    assert group.is_up({"forced_down": False, **times}, CLOCK) is is_up
    assert group.is_up({"forced_down": None, **times}, None)
    assert not group.is_up({"forced_down": True, **times}, CLOCK)


@pytest.mark.parametrize("text", ["{", "[1]", '[{"profile": "x"}]'])
def test_port_that_cannot_be_read_may_hold_anything(text):
    """What is there and does not parse is not nothing."""
    assert parse_ports(text) == {UNREADABLE_PORT}


@pytest.mark.parametrize("text", [None, "", "[]", "[{}]", '[{"profile": {"allocation": {}}}]'])
def test_port_without_resources_holds_nothing(text):
    """Most ports are like that."""
    assert parse_ports(text) == frozenset()
