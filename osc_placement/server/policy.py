# SPDX-License-Identifier: Apache-2.0
"""May this caller do this? One `Policy` per application; the rules themselves are in `policies`."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from oslo_config import cfg
from oslo_policy import opts as policy_opts
from oslo_policy import policy as oslo_policy

from osc_placement.server import errors, policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oslo_config.cfg import ConfigOpts
    from oslo_context.context import RequestContext

LOG = logging.getLogger(__name__)
#: how long at most the rules of before are in force when a file of them changes
LOOK_SECONDS: Final = 1.0


class Policy:
    """The rules in force: the defaults, and the operator's overrides, read again when their file changes.

    oslo.policy empties its rules and fills them again, one by one, and refuses what is asked meanwhile. So
    one enforcer reads files, for one thread at a time, and another is asked, which gets all rules at once.
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._reading = _make_enforcer(conf)
        self._asked = _make_enforcer(conf)
        self._turn = threading.Lock()
        self._next_look = 0.0

    def authorize(
        self, context: RequestContext, rule: str, target: Mapping[str, object] | None = None
    ) -> None:
        """Return if the rule lets the caller act on the target, by default the caller's own project.

        :raises errors.Forbidden: it does not
        :raises errors.WrongScope: it is for callers with another kind of token
        """
        if target is None:
            target = {"project_id": context.project_id, "user_id": context.user_id}
        self._look_for_changes()
        try:
            self._asked.authorize(rule, target, context, do_raise=True)
        except oslo_policy.InvalidScope as error:
            raise errors.WrongScope(rule) from error
        except oslo_policy.PolicyNotAuthorized as error:
            raise errors.Forbidden(rule) from error

    def _look_for_changes(self) -> None:
        """Look at the files once a second, where oslo.policy does so at each question.

        PERF: a look is a dozen system calls, a tenth of a request for candidates.
        """
        if time.monotonic() < self._next_look:
            return
        with self._turn:
            now = time.monotonic()
            # whoever had the turn before may have looked just now
            if now >= self._next_look:
                self._load()
                self._next_look = now + LOOK_SECONDS

    def _load(self) -> None:
        try:
            self._reading.load_rules()
        except (ValueError, OSError, cfg.Error) as error:
            if not self._asked.rules:
                raise
            LOG.error("The policy stays as it was: %s", error)
        else:
            self._asked.set_rules(dict(self._reading.rules), use_conf=False)


def _make_enforcer(conf: ConfigOpts) -> oslo_policy.Enforcer:
    enforcer = oslo_policy.Enforcer(conf)
    # the defaults moved to new roles years ago; warning of each at every start helps nobody
    enforcer.suppress_default_change_warnings = True
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(policies.list_rules())
    return enforcer


def get_enforcer() -> oslo_policy.Enforcer:
    """The enforcer for oslopolicy's tools, which find it by an entry point and hand over no configuration.

    They have parsed their command line into the one that is global to their process, so it is used here; if
    it names no file, the policy is that of the ``placement.conf`` where oslo.config looks for one.
    """
    if not cfg.CONF.config_file:
        cfg.CONF([], project="placement")
    policy_opts.set_defaults(cfg.CONF, "policy.yaml")
    enforcer = _make_enforcer(cfg.CONF)
    enforcer.load_rules()
    return enforcer
