# SPDX-License-Identifier: Apache-2.0
"""Who is calling: the two ways of telling, keystone and noauth2, and the request context made of the answer.

Some paths are public: the root, because clients read the range of microversions there before they have a
token, and what those ask who have none, such as load balancers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import webob.exc
from oslo_context.context import RequestContext

from osc_placement.server.http import ENV_CONTEXT, ENV_REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from oslo_config.cfg import ConfigOpts


class NoAuth:
    """Believes what the token says: ``USER[:PROJECT]``, where the user ``admin`` is an administrator.

    For tests and for trying things out; roles may also be given in ``X-Roles``, as keystone would.
    """

    def __init__(self, application: WSGIApplication, public: Collection[str]) -> None:
        self._application = application
        self._public = public

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") not in self._public:
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

    def __init__(self, application: WSGIApplication, public: Collection[str]) -> None:
        self._application = application
        self._public = public

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        context = RequestContext.from_environ(environ, request_id=environ.get(ENV_REQUEST_ID))
        if context.user_id is None and environ.get("PATH_INFO", "") not in self._public:
            return _unauthorized(environ, start_response)
        environ[ENV_CONTEXT] = context
        return self._application(environ, start_response)


def _unauthorized(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    response: Iterable[bytes] = webob.exc.HTTPUnauthorized()(environ, start_response)
    return response


def keystone(application: WSGIApplication, conf: ConfigOpts, public: Collection[str]) -> WSGIApplication:
    """Keystone's middleware in front of the application, its public paths excepted."""
    # importing it takes as long as the rest of the server, and noauth2 does without
    from keystonemiddleware import auth_token

    guarded = auth_token.AuthProtocol(application, {"oslo_config_config": conf})

    def guard(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_public = environ.get("PATH_INFO", "") in public
        body: Iterable[bytes] = (application if is_public else guarded)(environ, start_response)
        return body

    return guard
