# SPDX-License-Identifier: Apache-2.0
"""Neutron's own API application on a free port. Run by neutron's Python, not by that of the tests.

The arguments are those of neutron's programs. The schema is made first, as neutron's own tests make it on
SQLite. The configuration leaves keystonemiddleware out, and the headers that it would set are set here:
everybody is an administrator, and a service, which may write binding profiles.
"""

import socketserver
import sys
import threading
import wsgiref.simple_server

import sqlalchemy as sa
from neutron.db.migration.models import head
from oslo_config import cfg

IDENTITY = {"HTTP_X_USER_ID": "admin", "HTTP_X_PROJECT_ID": "admin", "HTTP_X_ROLES": "admin,service"}


one_at_a_time = threading.Lock()


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    """A handler that keeps its log to itself."""

    def log_message(self, *_arguments):
        """Say nothing."""


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A server that answers several requests at once."""

    daemon_threads = True
    request_queue_size = 64


def serve(environment, start_response):
    """Let everybody in, one after the other: SQLite refuses a second writer, others hold it up."""
    with one_at_a_time:
        return list(application({**environment, **IDENTITY}, start_response))


def make_schema():
    """Make neutron's tables in the configured database."""
    found = cfg.ConfigOpts()
    found.register_opts([cfg.StrOpt("connection")], group="database")
    found(sys.argv[1:], project="neutron")
    head.get_metadata().create_all(sa.create_engine(found.database.connection))


make_schema()

from neutron.plugins.ml2 import managers  # noqa: E402
from neutron.wsgi.api import application  # noqa: E402


def bind(_manager, context, _level, segments, *_arguments, **_fields):
    """Bind a port on its host, as the driver of an agent that is up does."""
    (segment, *_) = segments
    context._prepare_to_bind(segments)
    context.set_binding(segment["id"], "ovs", {})
    return True


managers.MechanismManager._bind_port_level = bind

server = wsgiref.simple_server.make_server("127.0.0.1", 0, serve, Server, Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
