# SPDX-License-Identifier: Apache-2.0
"""The enforcement of policy, by one `Policy` per application; the rules themselves are in `policies`."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg
from oslo_policy import opts as policy_opts
from oslo_policy import policy as oslo_policy

from osc_placement.server import errors, policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oslo_config.cfg import ConfigOpts
    from oslo_context.context import RequestContext

LOG = logging.getLogger(__name__)
#: seconds after the change of a policy file until which the old rules may be in force
LOOK_SECONDS: Final = 1.0
#: the logger on which oslo.policy writes every decision at level DEBUG
_DECISIONS: Final = logging.getLogger(oslo_policy.__name__)
#: the limit on the number of remembered permissions
_MOST_PERMITTED: Final = 10_000
#: the module with the checks that depend on nothing but rule, target and caller; others ask another service
_PURE_CHECKS: Final = oslo_policy.Check.__module__


class _Rules:
    """The rules of one reading of the files, and who was permitted what by them.

    PERF: oslo.policy inspects the signature of each check that it calls, which took a quarter of a small
    request. The credentials are all values that rules can compare, so the same ones are permitted the same.
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._enforcer = _make_enforcer(conf)
        self._enforcer.load_rules()
        # from now on the enforcer reads no files by itself
        self._enforcer.set_rules(dict(self._enforcer.rules), use_conf=False)
        self._are_pure = all(map(_is_pure, self._enforcer.rules.values()))
        self._permitted: set[tuple[str, str]] = set()

    def authorize(self, context: RequestContext, rule: str, target: Mapping[str, object] | None) -> None:
        """Raise oslo.policy's error if the rule does not permit the caller to act on the target."""
        key = rule, str(context.to_policy_values())
        is_remembered = target is None and self._are_pure and not _DECISIONS.isEnabledFor(logging.DEBUG)
        if is_remembered and key in self._permitted:
            return
        if target is None:
            target = {"project_id": context.project_id, "user_id": context.user_id}
        self._enforcer.authorize(rule, target, context, do_raise=True)
        if is_remembered:
            if len(self._permitted) >= _MOST_PERMITTED:
                self._permitted.clear()
            self._permitted.add(key)


def _is_pure(check: Any) -> bool:
    if isinstance(check, oslo_policy.AndCheck | oslo_policy.OrCheck):
        return all(map(_is_pure, check.rules))
    if isinstance(check, oslo_policy.NotCheck):
        return _is_pure(check.rule)
    return type(check).__module__ == _PURE_CHECKS


class Policy:
    """The rules in force: the defaults and the operator's overrides, read again when their files change.

    oslo.policy clears its rules and adds them again one by one: requests of other threads are refused
    meanwhile, and after an error in a file only the rules before it are in force. It also regards a file with
    an older time as unchanged. So one thread at a time reads the files into a new enforcer, which replaces
    the old one once it has all rules.
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._conf = conf
        self._rules: _Rules | None = None
        self._turn = threading.Lock()
        self._next_look = 0.0
        self._seen: object = None

    def load(self) -> None:
        """Read the rules now and not at their first use; raise the error if they cannot be read."""
        self._present()

    def authorize(
        self, context: RequestContext, rule: str, target: Mapping[str, object] | None = None
    ) -> None:
        """Check that the rule permits the caller to act on the target, by default the caller's own project.

        :raises errors.Forbidden: the rule does not permit it
        :raises errors.WrongScope: the rule requires another kind of token
        """
        rules = self._present()
        try:
            rules.authorize(context, rule, target)
        except oslo_policy.InvalidScope as error:
            raise errors.WrongScope(rule) from error
        except oslo_policy.PolicyNotAuthorized as error:
            raise errors.Forbidden(rule) from error

    def _present(self) -> _Rules:
        """Return the present rules, at most a second old.

        PERF: checking the files takes a dozen system calls, a tenth of a request for candidates.
        """
        if time.monotonic() >= self._next_look:
            with self._turn:
                # the previous holder of the lock may have checked just now
                if time.monotonic() >= self._next_look:
                    found = _describe_files(self._conf)
                    try:
                        if found != self._seen:
                            self._rules = _Rules(self._conf)
                    except Exception as error:  # any error of oslo.policy about a text
                        if self._rules is None:
                            raise
                        LOG.error("The policy stays as it was: %s", error)
                    self._seen = found
                    self._next_look = time.monotonic() + LOOK_SECONDS
        assert self._rules is not None, "a first look that finds no rules raises"
        return self._rules


def _describe_files(conf: ConfigOpts) -> list[tuple[object, ...]]:
    """Return a description of the policy files that differs if one of them changes."""
    options = conf.oslo_policy
    # oslo.policy falls back to the last one if there is no policy.yaml
    paths = [conf.find_file(name) for name in (options.policy_file, *options.policy_dirs, "policy.json")]
    files = [path for path in paths if path]
    for directory in filter(os.path.isdir, tuple(files)):
        files += [entry.path for entry in os.scandir(directory)]
    described = []
    for path in files:
        # a file may have been deleted just now
        with contextlib.suppress(OSError):
            status = os.stat(path)
            facts = status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
            described.append((path, *facts))
    return sorted(described)


def list_rules() -> list[oslo_policy.RuleDefault]:
    """Return every rule with its default, in a stable order, for the enforcer and oslopolicy's generators."""
    # the table leads to handlers, which ask for rules
    from osc_placement.server.api import routes

    operations: dict[str, list[Any]] = {name: [] for name in policies.DESCRIPTIONS}
    for path, methods in routes.ROUTES.items():
        for method, endpoint in methods.items():
            if not path.startswith(routes.OWN):
                for rule in endpoint.rules:
                    operations[rule].append({"method": method, "path": path})
    return [
        *policies.ROLES,
        *(
            oslo_policy.DocumentedRuleDefault(
                name,
                policies.CHECKS.get(name, policies.USUAL_CHECK),
                description,
                operations[name],
                scope_types=["project"],
            )
            for name, description in policies.DESCRIPTIONS.items()
        ),
    ]


def _make_enforcer(conf: ConfigOpts) -> oslo_policy.Enforcer:
    enforcer = oslo_policy.Enforcer(conf)
    # the defaults moved to new roles years ago, so a warning for each rule at every start is useless
    enforcer.suppress_default_change_warnings = True
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(list_rules())
    return enforcer


def get_enforcer() -> oslo_policy.Enforcer:
    """Return the enforcer for oslopolicy's tools, which find it by an entry point and pass no configuration.

    They have parsed their command line into the global configuration of the process, so that is used here; if
    it names no file, the policy is that of the ``placement.conf`` where oslo.config searches for one.
    """
    if not cfg.CONF.config_file:
        cfg.CONF([], project="placement")
    policy_opts.set_defaults(cfg.CONF, "policy.yaml")
    enforcer = _make_enforcer(cfg.CONF)
    enforcer.load_rules()
    return enforcer
