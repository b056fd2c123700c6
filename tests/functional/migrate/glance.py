# SPDX-License-Identifier: Apache-2.0
"""A stand-in for glance: its list of images, as its API reference documents it."""

import contextlib
import http.server
import json
import threading
import urllib.parse


class Glance(http.server.BaseHTTPRequestHandler):
    """Glance's list of images, as its API documents it, in pages of two."""

    images = ()
    status = 200

    def do_GET(self):
        """Answer with a page."""
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        kind = query.get("visibility") or ("hidden" if query.get("os_hidden") else "public")
        after = [
            each for each in self.images if each["kind"] == kind and each["id"] > query.get("marker", "")
        ]
        document = {"images": after[:2], "first": "/v2/images"}
        if after[2:]:
            document["next"] = f"/v2/images?marker={after[1]['id']}"
        is_right = parts.path == "/v2/images" and query["sort_key"] == "id"
        body = json.dumps(document).encode()
        self.send_response(self.status if is_right else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        """Say nothing."""


@contextlib.contextmanager
def serving_glance():
    """Serve on a free port; the handler, whose images may be set, and the URL."""
    handler = type("Handler", (Glance,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield handler, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
