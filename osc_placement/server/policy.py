# SPDX-License-Identifier: Apache-2.0
"""May this caller do this? One `Policy` per application; the rules themselves are in `policies`."""

from __future__ import annotations

import logging
import os
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
    """The rules in force: the defaults, and the operator's overrides, read again when their files change.

    oslo.policy empties its rules and fills them again, one by one: what other threads ask meanwhile it
    refuses, and where a file turns out to be bad it goes on with those it had come to. It also takes a file
    for the same that has an older time. So files are read into an enforcer of their own, by one thread at a
    time, which takes the place of the one before once it has all of them.
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._conf = conf
        self._enforcer: oslo_policy.Enforcer | None = None
        self._turn = threading.Lock()
        self._next_look = 0.0
        self._seen: object = None

    def load(self) -> None:
        """Read the rules now and not when they are first asked for; raises whatever hinders that."""
        self._present()

    def authorize(
        self, context: RequestContext, rule: str, target: Mapping[str, object] | None = None
    ) -> None:
        """Return if the rule lets the caller act on the target, by default the caller's own project.

        :raises errors.Forbidden: it does not
        :raises errors.WrongScope: it is for callers with another kind of token
        """
        if target is None:
            target = {"project_id": context.project_id, "user_id": context.user_id}
        enforcer = self._present()
        try:
            enforcer.authorize(rule, target, context, do_raise=True)
        except oslo_policy.InvalidScope as error:
            raise errors.WrongScope(rule) from error
        except oslo_policy.PolicyNotAuthorized as error:
            raise errors.Forbidden(rule) from error

    def _present(self) -> oslo_policy.Enforcer:
        """The rules of now, or of a second ago.

        PERF: a look is a dozen system calls, a tenth of a request for candidates.
        """
        if time.monotonic() >= self._next_look:
            with self._turn:
                # whoever had the turn before may have looked just now
                if time.monotonic() >= self._next_look:
                    self._look()
                    self._next_look = time.monotonic() + LOOK_SECONDS
        assert self._enforcer is not None, "a first look that finds no rules raises"
        return self._enforcer

    def _look(self) -> None:
        found = _describe_files(self._conf)
        if found == self._seen:
            return
        try:
            self._enforcer = _load(self._conf)
        except Exception as error:  # whatever oslo.policy makes of a text
            if self._enforcer is None:
                raise
            LOG.error("The policy stays as it was: %s", error)
        self._seen = found


def _load(conf: ConfigOpts) -> oslo_policy.Enforcer:
    """All rules there are now, which stay as they are."""
    enforcer = _make_enforcer(conf)
    enforcer.load_rules()
    # from now on it looks at no files by itself
    enforcer.set_rules(dict(enforcer.rules), use_conf=False)
    return enforcer


def _describe_files(conf: ConfigOpts) -> list[tuple[object, ...]]:
    """What is another when one of the files of the policy is."""
    options = conf.oslo_policy
    # the last is what oslo.policy turns to where there is no policy.yaml
    paths = [conf.find_file(name) for name in (options.policy_file, *options.policy_dirs, "policy.json")]
    files = [path for path in paths if path]
    for directory in filter(os.path.isdir, tuple(files)):
        files += [entry.path for entry in os.scandir(directory)]
    return sorted(filter(None, map(_describe_file, files)))


def _describe_file(path: str) -> tuple[object, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        # it has just gone
        return None
    return path, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


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
