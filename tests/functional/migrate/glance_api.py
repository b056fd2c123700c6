# SPDX-License-Identifier: Apache-2.0
"""Glance's own API application on a free port. Run by glance's Python, not by that of the tests.

OS_GLANCE_CONFIG_DIR has glance-api.conf and glance-api-paste.ini. That file leaves keystonemiddleware out,
and the headers that it would set are set here: everybody is the administrator.
"""

import socketserver
import sys
import wsgiref.simple_server

IDENTITY = {
    "HTTP_X_IDENTITY_STATUS": "Confirmed",
    "HTTP_X_USER_ID": "admin",
    "HTTP_X_PROJECT_ID": "admin",
    "HTTP_X_TENANT_ID": "admin",
    "HTTP_X_ROLES": "admin,member,reader",
}


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    """A handler that keeps its log to itself."""

    def log_message(self, *_arguments):
        """Say nothing."""


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A server that answers several requests at once."""

    daemon_threads = True


def serve(environment, start_response):
    """Let everybody in."""
    return application({**environment, **IDENTITY}, start_response)


sys.argv[1:] = []

from glance.common.wsgi_app import init_app  # noqa: E402

application = init_app()
server = wsgiref.simple_server.make_server("127.0.0.1", 0, serve, Server, Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
