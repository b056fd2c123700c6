# SPDX-License-Identifier: Apache-2.0
"""A proxy before a placement server, through which a test interferes with single requests."""

import contextlib
import http.client
import http.server
import json
import threading
from urllib.parse import urlsplit

DROP = object()
LOSE = object()
#: the bulk write, and how a server answers that has the bulk read alone
BULK_WRITE = ("POST", "/-/providers")
_NO_BULK_WRITE = (405, "application/json", '{"errors": [{"status": 405, "detail": "not allowed"}]}')
_NOT_FORWARDED = {"connection", "transfer-encoding", "keep-alive", "host", "content-length"}


@contextlib.contextmanager
def proxy_to(endpoint, interfere, *, bulk_write=False):
    """The URL of a proxy to `endpoint` which calls `interfere(method, path)` before it passes a request on.

    It is not called for requests that ask for the right to a transaction and cannot change anything. None
    passes the request on, DROP closes the connection, (status, content type, body) is the answer, and LOSE
    passes the request on and closes the connection in place of the answer. Without `bulk_write` it is as a
    server that has none: a change is one request for each provider.
    """
    target = urlsplit(endpoint)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # else the content of an answer waits until the receipt of its headers is confirmed, up to 40 ms
        disable_nagle_algorithm = True

        def handle_request(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            request = self.command, urlsplit(self.path).path.removeprefix(target.path)
            has_no_such = request == BULK_WRITE and not bulk_write
            answer = _NO_BULK_WRITE if has_no_such else None if asks(*request, body) else interfere(*request)
            if answer is LOSE:
                self.forward(body)
            if answer in (DROP, LOSE):
                self.close_connection = True
                return
            status, headers, content = answer_of(answer) if answer else self.forward(body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815

        def forward(self, body):
            connection = http.client.HTTPConnection(target.hostname, target.port)
            with contextlib.closing(connection):
                connection.request(self.command, self.path, body or None, kept(self.headers))
                response = connection.getresponse()
                return response.status, kept(response.headers), response.read()

        def log_message(self, *_):
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    # looks so often whether it has to end
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{target.path}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def asks(method, path, body):
    """Whether a request asks for a right to a transaction: it is about nothing, or about no provider."""
    if method != "POST" or path not in ("/reshaper", "/-/providers"):
        return False
    document = json.loads(body)
    if path == "/reshaper":
        return not document["inventories"]
    changes = document["changes"]
    return document.get("atomic", False) and [each["resource_provider_generation"] for each in changes] == [0]


def kept(headers):
    """The headers that belong to the message and not to the connection."""
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_FORWARDED}


def answer_of(answer):
    """A canned answer, in the shape of one that was passed on."""
    status, content_type, text = answer
    return status, {"content-type": content_type}, text.encode()
