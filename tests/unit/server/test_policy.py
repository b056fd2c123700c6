# SPDX-License-Identifier: Apache-2.0
"""Asking for a decision while rules are read from their file."""

import os
import sys
import threading

import pytest
from oslo_context.context import RequestContext

from osc_placement.server import errors, policy
from osc_placement.server.testing import make_conf

RULE = "placement:allocations:list"
SERVICE = RequestContext(user_id="nova", project_id="service", roles=["service", "admin"])
NOBODY = RequestContext(user_id="nobody", project_id="none", roles=[])


class Rules:
    """A policy file, and the policy that is read from it."""

    def __init__(self, path):
        self.path = path
        self._writes = 0
        configuration = make_conf("sqlite://")
        configuration.set_override("policy_file", str(path), group="oslo_policy")
        self.policy = policy.Policy(configuration)

    def write(self, text):
        self.path.write_text(text)
        self._writes += 1
        # the time of the file is what is looked at, and two writes may be of one moment
        os.utime(self.path, (self._writes * 1000, self._writes * 1000))

    def allows(self, context):
        try:
            self.policy.authorize(context, RULE)
        except errors.Forbidden:
            return False
        return True


@pytest.fixture
def hasty():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def rules(monkeypatch, tmp_path):
    monkeypatch.setattr(policy, "LOOK_SECONDS", 0)
    return Rules(tmp_path / "policy.yaml")


@pytest.mark.usefixtures("hasty")
def test_nobody_is_refused_because_rules_are_being_read(rules):
    """Threads that ask all the time, while the file changes all the time in what is of no concern to them."""
    rules.write('"placement:usages": "@"\n')
    refused = []
    ended = threading.Event()

    def ask():
        while not ended.is_set():
            refused.append(not rules.allows(SERVICE))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(100):
        rules.write(f'"placement:usages": "role:{number}"\n')
    ended.set()
    for thread in threads:
        thread.join()
    assert refused
    assert not any(refused)


def test_a_file_that_cannot_be_read_changes_nothing(rules, caplog):
    rules.write(f'"{RULE}": "@"\n')
    assert rules.allows(NOBODY)
    rules.write("{")
    assert rules.allows(NOBODY)
    assert "The policy stays as it was: " in caplog.text
    rules.write(f'"{RULE}": "role:admin"\n')
    assert not rules.allows(NOBODY)
