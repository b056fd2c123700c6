# SPDX-License-Identifier: Apache-2.0
"""As much of a compute service, over HTTP, as has host aggregates."""

import contextlib
import http.server
import json
import threading


@contextlib.contextmanager
def compute_with(aggregates):
    """The URL of a compute API with these host aggregates, UUIDs by name; and what it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["OpenStack-API-Version"], self.headers["X-Auth-Token"]))
            listed = [{"name": name, "uuid": uuid, "hosts": []} for name, uuid in aggregates.items()]
            body = json.dumps({"aggregates": listed}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v2.1", asked
        server.shutdown()
        thread.join()
