# SPDX-License-Identifier: Apache-2.0
"""Migrations as commands of ``openstack``."""

from osc_placement.batch.plan import Plan
from osc_placement.batch.repeat import Recorded
from osc_placement.commands.migration import _name_grants
from osc_placement.migrate.migrations.base import Assessment, Grant
from osc_placement.migrate.migrations.port_claims import describe_grant
from osc_placement.migrate.nova.ports import Port
from osc_placement.migrate.problem import Problem, Reason


def test_binding_profiles_that_are_not_written_are_named():
    """Each has one line, with the command that writes it."""
    grants = {name: (Grant(Port(f"port of {name}", name), {"g": "rp"}),) for name in ("healed", "held")}
    other = Problem(Reason.BUSY, "instance x", "it is moving")
    problems = (other, describe_grant("held", grants["held"][0]))
    plan = Plan(Recorded("title", ("allocations",)), ())
    named = _name_grants(Assessment(plan, problems, grants=grants)).problems
    assert named[0] == other
    assert [each.subject for each in named[1:]] == ["instance healed", "instance held"]
    assert all(each.text.endswith("placement-migrate heal-allocations writes it") for each in named[1:])
