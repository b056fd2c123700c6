# SPDX-License-Identifier: Apache-2.0
"""May this caller do this? One `Policy` per application; the rules themselves are in `policies`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_policy import policy as oslo_policy

from osc_placement.server import errors, policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oslo_config.cfg import ConfigOpts
    from oslo_context.context import RequestContext


class Policy:
    """The rules in force: the defaults, and the operator's overrides, read again when their file changes."""

    def __init__(self, conf: ConfigOpts) -> None:
        self._enforcer = oslo_policy.Enforcer(conf)
        # the defaults moved to new roles years ago; warning of each at every start helps nobody
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        self._enforcer.register_defaults(policies.list_rules())

    def authorize(
        self, context: RequestContext, rule: str, target: Mapping[str, object] | None = None
    ) -> None:
        """Return if the rule lets the caller act on the target, by default the caller's own project.

        :raises errors.Forbidden: it does not
        :raises errors.WrongScope: it is for callers with another kind of token
        """
        if target is None:
            target = {"project_id": context.project_id, "user_id": context.user_id}
        try:
            self._enforcer.authorize(rule, target, context, do_raise=True)
        except oslo_policy.InvalidScope as error:
            raise errors.WrongScope(rule) from error
        except oslo_policy.PolicyNotAuthorized as error:
            raise errors.Forbidden(rule) from error
