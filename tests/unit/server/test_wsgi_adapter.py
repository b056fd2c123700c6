# SPDX-License-Identifier: Apache-2.0
"""The transport without a socket: what an application sees of a request, and a caller of its answer."""

import requests

from osc_placement.server.wsgi_adapter import WSGIAdapter


class Application:
    """Keeps what it was asked, and answers with the body it was sent."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.closed = False

    def __call__(self, environ, start_response):
        self.environ = environ
        self.body = environ["wsgi.input"].read()
        write = start_response(
            "299 Quite Fine", [("Content-Type", "text/plain; charset=utf-8"), ("X-A", "b")]
        )
        write(b"first ")
        return self

    def __iter__(self):
        return iter(self.chunks)

    def close(self):
        self.closed = True


def send(application, method="GET", path="/", **arguments):
    """Send one request."""
    with requests.Session() as session:
        session.mount("http://here.test", WSGIAdapter(application))
        return session.request(method, f"http://here.test:81{path}", **arguments)


def test_answer_is_put_together():
    """Status, headers and body arrive, whichever way the application wrote them, and it is closed."""
    application = Application(b"second ", "dritté".encode())
    response = send(application)
    assert (response.status_code, response.reason, response.headers["x-a"]) == (299, "Quite Fine", "b")
    assert response.text == "first second dritté"
    assert application.closed


def test_request_is_described():
    """Method, path, query and headers are where WSGI has them, with the path's bytes as latin-1."""
    application = Application()
    send(application, "PUT", "/a%20b/ü?x=1&y=%20", headers={"X-Token": b"secret"})
    environ = application.environ
    assert (environ["REQUEST_METHOD"], environ["QUERY_STRING"]) == ("PUT", "x=1&y=%20")
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/a b/ü"
    assert (environ["HTTP_HOST"], environ["SERVER_NAME"], environ["SERVER_PORT"]) == (
        "here.test:81",
        "here.test",
        "81",
    )
    assert environ["HTTP_X_TOKEN"] == "secret"
    assert "CONTENT_TYPE" not in environ


def test_bodies_of_every_kind_arrive():
    """JSON, text, bytes and a generator are all a body with a length."""
    for given, body in (
        ({"json": {"a": 1}}, b'{"a": 1}'),
        ({"data": "é"}, "é".encode()),
        ({"data": b"\xff"}, b"\xff"),
        ({"data": iter([b"a", b"b"])}, b"ab"),
    ):
        application = Application()
        send(application, "POST", **given)
        assert application.body == body
        assert application.environ["CONTENT_LENGTH"] == str(len(body))


def test_request_without_a_body_has_none():
    """Nothing is sent as nothing."""
    application = Application()
    send(application, "DELETE")
    assert application.body == b""
