# SPDX-License-Identifier: Apache-2.0
"""Who is calling: the two ways of telling, keystone and noauth2, and the request context made of the answer.

The root of the service is public, because clients read the range of microversions there before they have a
token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import webob.exc
from oslo_context.context import RequestContext

from osc_placement.server.http import ENV_CONTEXT, ENV_REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from oslo_config.cfg import ConfigOpts

ROOT_PATHS = frozenset(("", "/"))


class NoAuth:
    """Believes what the token says: ``USER[:PROJECT]``, where the user ``admin`` is an administrator.

    For tests and for trying things out; roles may also be given in ``X-Roles``, as keystone would.
    """

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") not in ROOT_PATHS:
            token = environ.get("HTTP_X_AUTH_TOKEN")
            if token is None:
                return _unauthorized(environ, start_response)
            self._identify(environ, token)
        return self._application(environ, start_response)

    def _identify(self, environ: WSGIEnvironment, token: str) -> None:
        user, _, project = token.partition(":")
        environ["HTTP_X_USER_ID"] = user
        if not environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"):
            environ["HTTP_X_TENANT_ID"] = project or user
        environ.setdefault("HTTP_X_ROLES", "admin" if user == "admin" else "")


class Context:
    """Makes the request context of oslo.context, which policy and logging read, from the identity headers."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        context = RequestContext.from_environ(environ, request_id=environ.get(ENV_REQUEST_ID))
        if context.user_id is None and environ.get("PATH_INFO", "") not in ROOT_PATHS:
            return _unauthorized(environ, start_response)
        environ[ENV_CONTEXT] = context
        return self._application(environ, start_response)


def _unauthorized(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    response: Iterable[bytes] = webob.exc.HTTPUnauthorized()(environ, start_response)
    return response


def keystone(application: WSGIApplication, conf: ConfigOpts) -> WSGIApplication:
    """Keystone's middleware in front of the application, its root excepted."""
    # importing it takes as long as the rest of the server, and noauth2 does without
    from keystonemiddleware import auth_token

    guarded = auth_token.AuthProtocol(application, {"oslo_config_config": conf})

    def public_root(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_root = environ.get("PATH_INFO", "") in ROOT_PATHS
        body: Iterable[bytes] = (application if is_root else guarded)(environ, start_response)
        return body

    return public_root
