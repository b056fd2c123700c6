# SPDX-License-Identifier: Apache-2.0
"""Nova's own API application on a free port. A program of nova's Python, not of that of the tests.

OS_NOVA_CONFIG_DIR has nova.conf and api-paste.ini. Nova has no application without authentication any more,
so that file leaves keystonemiddleware out, and the headers that it would set are set here: everybody is the
administrator. Beside nova there is as much of neutron as a list of servers asks for: no ports.
"""

import os
import socketserver
import sys
import wsgiref.simple_server

# before anything else of nova, as in nova.wsgi.osapi_compute
from nova import monkey_patch

monkey_patch.patch(backend="threading")

# what is loaded where the application is made
import nova.api.auth  # noqa: E402
import nova.api.compute_req_id  # noqa: E402
import nova.api.openstack.compute  # noqa: E402
import nova.api.openstack.urlmap  # noqa: E402
import nova.api.openstack.wsgi_app  # noqa: E402, F401

ROLES = {"HTTP_X_USER_ID": "admin", "HTTP_X_PROJECT_ID": "admin", "HTTP_X_ROLES": "admin"}


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    """A handler that keeps its log to itself."""

    def log_message(self, *_arguments):
        """Say nothing."""


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A server that answers while it answers: nova asks for ports."""

    daemon_threads = True
    request_queue_size = 64


def main():
    """Print the URL of nova's version 2.1 and serve it, or a network service without ports."""

    def serve(environment, start_response):
        if environment["PATH_INFO"].startswith("/network/"):
            start_response("200 OK", [("Content-Type", "application/json")])
            return [b'{"ports": [], "security_groups": []}']
        return application({**environment, **ROLES}, start_response)

    server = wsgiref.simple_server.make_server("127.0.0.1", 0, serve, Server, Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    os.environ["OS_NEUTRON__ENDPOINT_OVERRIDE"] = f"{url}/network"
    # of which nova writes URLs of images into notifications
    os.environ["OS_GLANCE__ENDPOINT_OVERRIDE"] = f"{url}/image"
    sys.argv[1:] = []
    # makes the application with the configuration that the environment names
    from nova.wsgi.osapi_compute import application

    print(f"{url}/v2.1", flush=True)
    server.serve_forever()
