# SPDX-License-Identifier: Apache-2.0
"""Asking for a decision while rules are read from their file."""

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
        configuration = make_conf("sqlite://")
        configuration.set_override("policy_file", str(path), group="oslo_policy")
        configuration.set_override("policy_dirs", [str(path.parent / "policy.d")], group="oslo_policy")
        self.policy = policy.Policy(configuration)

    def write(self, text):
        self.path.write_text(text)

    def allows(self, context):
        try:
            self.policy.authorize(context, RULE)
        except errors.Forbidden:
            return False
        return True


#: no YAML, no mapping, no rule
BAD_TEXTS = ("{", "- a\n", "text", '"x": 1\n')


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
def test_no_request_is_refused_while_rules_are_read(rules):
    """Threads ask continuously while unrelated parts of the file change."""
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
    for number, text in enumerate(BAD_TEXTS, start=1):
        rules.write(text)
        for _ in range(3):
            assert rules.allows(NOBODY)
        assert caplog.text.count("The policy stays as it was: ") == number
    rules.write(f'"{RULE}": "role:admin"\n')
    assert not rules.allows(NOBODY)


def test_a_bad_file_among_several_leaves_those_of_the_others_in_force(rules):
    """Also those that come after it, at which oslo.policy does not arrive."""
    directory = rules.path.parent / "policy.d"
    directory.mkdir()
    (directory / "b.yaml").write_text(f'"{RULE}": "!"\n')
    assert not rules.allows(SERVICE)
    (directory / "a.yaml").write_text("{")
    for _ in range(3):
        assert not rules.allows(SERVICE)
    (directory / "a.yaml").unlink()
    (directory / "b.yaml").unlink()
    assert rules.allows(SERVICE)


def test_nothing_is_allowed_before_all_files_could_be_read(rules):
    rules.write(f'"{RULE}": "@"\n')
    directory = rules.path.parent / "policy.d"
    directory.mkdir()
    (directory / "a.yaml").write_text("{")
    for _ in range(3):
        with pytest.raises(ValueError, match="while parsing"):
            rules.allows(NOBODY)


def test_a_restored_policy_file_is_read_again(rules):
    """The file is read although its time is the old one."""
    rules.write(f'"{RULE}": "@"\n')
    assert rules.allows(NOBODY)
    away = rules.path.rename(rules.path.with_suffix(".away"))
    assert not rules.allows(NOBODY)
    away.rename(rules.path)
    assert rules.allows(NOBODY)


@pytest.fixture
def judged(monkeypatch):
    """The credentials for which oslo.policy was asked."""
    found = []
    judge = policy.oslo_policy.Enforcer.authorize

    def note(self, rule, target, credentials, **more):
        found.append(credentials)
        return judge(self, rule, target, credentials, **more)

    monkeypatch.setattr(policy.oslo_policy.Enforcer, "authorize", note)
    return found


def test_a_permission_is_remembered_until_the_rules_change(rules, judged):
    for text in ('"x": "@"\n', '"y": "@"\n'):
        rules.write(text)
        judged.clear()
        assert [rules.allows(SERVICE) for _ in range(3)] == [True] * 3
        assert judged == [SERVICE]


def test_a_refusal_is_not_remembered(rules, judged):
    assert [rules.allows(NOBODY) for _ in range(2)] == [False] * 2
    assert judged == [NOBODY] * 2


@pytest.mark.parametrize(
    ("check", "values"),
    [
        ("user_id:a", {"user_id": "a"}),
        ("project_id:a", {"project_id": "a"}),
        ("role:reader", {"system_scope": None, "roles": ["reader"]}),
        ("role:a and role:b", {"roles": ["a", "b"]}),
        ("'a':%(user_id)s", {"user_id": "a"}),
        ("service_roles:service", {"service_roles": ["service"]}),
        ("is_admin_project:False", {"is_admin_project": False}),
    ],
)
def test_permission_of_a_caller_is_not_that_of_another(rules, check, values):
    rules.write(f'"{RULE}": "{check}"\n')
    assert rules.allows(RequestContext(**values))
    for name, value in values.items():
        other = ["a,b"] if isinstance(value, list) else not value if isinstance(value, bool) else "b"
        assert not rules.allows(RequestContext(**values | {name: other}))


def test_permission_on_a_target_is_not_that_on_another(rules):
    rules.write(f'"{RULE}": "project_id:%(project_id)s"\n')
    assert rules.allows(NOBODY)
    rules.policy.authorize(NOBODY, RULE, {"project_id": "none"})
    with pytest.raises(errors.Forbidden):
        rules.policy.authorize(NOBODY, RULE, {"project_id": "other"})


@pytest.mark.parametrize("check", ["http://policy.example/ask", "role:admin and not rule:elsewhere"])
def test_a_service_that_decides_is_asked_each_time(rules, monkeypatch, check):
    """So is a service that another rule asks, as rules refer to each other."""
    answers = iter([check.startswith("http"), not check.startswith("http")])
    monkeypatch.setattr("oslo_policy._external.HttpCheck.__call__", lambda *arguments: next(answers))
    rules.write(f'"{RULE}": "{check}"\n"elsewhere": "http://policy.example/ask"\n')
    assert [rules.allows(SERVICE) for _ in range(2)] == [True, False]


def test_every_decision_is_in_the_log_at_debug(rules, caplog):
    assert rules.allows(SERVICE)
    caplog.set_level("DEBUG", logger="oslo_policy.policy")
    for _ in range(2):
        assert rules.allows(SERVICE)
    assert caplog.text.count(f'enforce: rule="{RULE}"') == 2


def test_number_of_remembered_permissions_is_limited(rules, judged, monkeypatch):
    monkeypatch.setattr(policy, "_MOST_PERMITTED", 2)
    rules.write(f'"{RULE}": "@"\n')
    users = [RequestContext(user_id=name) for name in ("a", "b", "c", "a", "c")]
    assert all(rules.allows(user) for user in users)
    assert judged == [users[0], users[1], users[2], users[3]]
