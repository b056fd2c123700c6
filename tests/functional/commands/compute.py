# SPDX-License-Identifier: Apache-2.0
"""As much of a compute service, over HTTP, as has host aggregates and the names of instances."""

import contextlib
import http.server
import json
import threading
from urllib.parse import parse_qsl, urlsplit


@contextlib.contextmanager
def compute_with(aggregates, servers=()):
    """The URL of a compute API, and what it was asked.

    It has these host aggregates, UUIDs by name, and these servers, each its node, its UUID and its name.
    """
    asked = []

    def answer(url):
        path, query = url.path.removeprefix("/v2.1"), dict(parse_qsl(url.query))
        if path == "/os-aggregates":
            listed = [{"name": name, "uuid": uuid, "hosts": []} for name, uuid in aggregates.items()]
            return 200, {"aggregates": listed}
        found = [
            {"id": uuid, "name": name}
            for node, uuid, name in servers
            if query.get("node", node) == node and "marker" not in query
        ]
        if path == "/servers":
            return 200, {"servers": found}
        for server in found:
            if path == f"/servers/{server['id']}":
                return 200, {"server": server}
        return 404, {"itemNotFound": {"code": 404, "message": "no such instance"}}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["OpenStack-API-Version"], self.headers["X-Auth-Token"]))
            status, document = answer(urlsplit(self.path))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v2.1", asked
        server.shutdown()
        thread.join()
