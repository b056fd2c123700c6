# SPDX-License-Identifier: Apache-2.0
"""Authentication by keystone or noauth2, and the request context made from its result.

Some paths are public: the root, because clients read the range of microversions there before they have a
token, and the paths for clients without a token, such as load balancers.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

import webob.exc
from oslo_context.context import RequestContext

from osc_placement.server.api.http import ENV_CONTEXT, ENV_REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from oslo_config.cfg import ConfigOpts

#: the distributions of the modules that connect to memcached; the second is used with a password or TLS
_MEMCACHED_LIBRARIES = {"memcache": "python-memcached", "bmemcached": "python-binary-memcached"}


class NoAuth:
    """Middleware that trusts the token: ``USER[:PROJECT]``, where the user ``admin`` is an administrator.

    It is for tests and trials; ``X-Roles`` may give roles, as from keystone.
    """

    def __init__(self, application: WSGIApplication, public: Collection[str]) -> None:
        self._application = application
        self._public = public

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") not in self._public:
            token = environ.get("HTTP_X_AUTH_TOKEN")
            if token is None:
                return _unauthorized(environ, start_response)
            user, _, project = token.partition(":")
            environ["HTTP_X_USER_ID"] = user
            if not environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"):
                environ["HTTP_X_TENANT_ID"] = project or user
            environ.setdefault("HTTP_X_ROLES", "admin" if user == "admin" else "")
        return self._application(environ, start_response)


class Context:
    """Middleware that makes the request context, for policy and logging, from the identity headers."""

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
    """Return the application behind Keystone's middleware, except for public paths.

    :raises ImportError: the cache is in memcached, and the library for that is not installed
    """
    # imported late: it takes as long as the rest of the server, and noauth2 does not need it
    from keystonemiddleware import auth_token

    guarded = auth_token.AuthProtocol(application, {"oslo_config_config": conf})
    _load_cache(conf)

    def guard(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_public = environ.get("PATH_INFO", "") in public
        body: Iterable[bytes] = (application if is_public else guarded)(environ, start_response)
        return body

    return guard


def check_tokens(conf: ConfigOpts) -> None:
    """Find out whether tokens can be judged with a configuration, without asking Keystone.

    :raises Exception: they cannot, so that each request would fail: `keystone` does not accept it, or it does
        not say how to ask Keystone
    """
    if conf.api.auth_strategy != "keystone":
        return
    keystone(lambda environ, start_response: (), conf, ())
    # the type may be in another group, which the middleware has looked into
    options = conf.keystone_authtoken
    if not (options.auth_section or options.auth_type):
        raise ValueError(
            "[keystone_authtoken] has no auth_type, so no token can be checked; set it, with the address and "
            "the account for Keystone"
        )


def _load_cache(conf: ConfigOpts) -> None:
    """Import the libraries that the middleware would import at the first token.

    A missing library would fail every request. oslo.cache also imports eventlet if it is installed, which
    prevents a thread other than the main one from ending, so no worker would stop.
    """
    options = conf.keystone_authtoken
    if not options.memcached_servers:
        return
    # the oldest supported middleware does not have the second option
    secured = any(
        options[name] for name in ("memcache_sasl_enabled", "memcache_tls_enabled") if name in options
    )
    try:
        with warnings.catch_warnings():
            # eventlet warns at import that it is deprecated
            warnings.simplefilter("ignore")
            import_module(f"oslo_cache.{'_bmemcache_pool' if secured else '_memcache_pool'}")
    except ModuleNotFoundError as error:
        raise ImportError(
            "memcached_servers in [keystone_authtoken] needs "
            f"{_MEMCACHED_LIBRARIES.get(error.name or '', error.name)}, which is not installed"
        ) from error
