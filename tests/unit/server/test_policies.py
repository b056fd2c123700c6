# SPDX-License-Identifier: Apache-2.0
"""The policy rules are openstack-placement's, so an operator's policy.yaml goes on working."""

import pytest
from oslo_policy import policy

from osc_placement.server import policies
from osc_placement.server.policy import list_rules
from tests import databases


def describe(rule):
    """What decides, and what operators may have overridden: the check, its scopes, and its older form."""
    deprecated = rule.deprecated_rule
    return {
        "check": rule.check_str,
        "scopes": rule.scope_types,
        "deprecated": deprecated and (deprecated.name, deprecated.check_str, deprecated.deprecated_since),
    }


def list_operations(rule):
    """The methods and paths a rule governs; a path's parameters are called differently in places."""
    return sorted((item["method"], item["path"].split("{")[0]) for item in rule.operations)


@pytest.fixture
def theirs():
    """The rules of openstack-placement."""
    try:
        from placement import policies as reference
    except ImportError:
        databases.skip_or_fail("openstack-placement is not installed (extra 'reference')")
    return list(reference.list_rules())


def test_rules_are_those_of_openstack_placement(theirs):
    """Names, check strings, scopes and deprecations are the same."""
    ours = {rule.name: describe(rule) for rule in list_rules()}
    assert ours == {rule.name: describe(rule) for rule in theirs}


def test_operations_are_those_of_openstack_placement(theirs):
    """Each documented rule governs the same methods of the same paths."""
    ours = {rule.name: list_operations(rule) for rule in list_rules() if is_documented(rule)}
    assert ours == {rule.name: list_operations(rule) for rule in theirs if is_documented(rule)}


def is_documented(rule):
    """Whether the rule is about operations, not a role that others refer to."""
    return isinstance(rule, policy.DocumentedRuleDefault)


def test_each_rule_is_named_once():
    """The enforcer would refuse a second one only at start."""
    names = [rule.name for rule in list_rules()]
    assert len(names) == len(set(names))


def test_each_constant_names_a_rule():
    """A handler cannot ask for a rule that there is not."""
    rules = {value for name, value in vars(policies).items() if name[0] != "_" and isinstance(value, str)}
    constants = {value for value in rules if value.startswith("placement:")}
    assert constants == {rule.name for rule in list_rules() if is_documented(rule)}
