# SPDX-License-Identifier: Apache-2.0
"""A placement service in memory for tests of the client: canned answers, and a record of what was asked."""

import json
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import requests
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient

ENDPOINT = "http://placement.test/placement"
PREFIX = urlsplit(ENDPOINT).path


class FakePlacement(requests.adapters.BaseAdapter):
    """Answers each method and path with what `on` was told; the root document gives `max_version`."""

    def __init__(self, max_version="1.39"):
        super().__init__()
        self.asked = []
        self._answers = {}
        self.on("GET", "/", {"versions": [{"id": "v1.0", "min_version": "1.0", "max_version": max_version}]})
        self.session = requests.Session()
        self.session.mount("http://", self)

    def on(self, method, path, *answers):
        """Give these answers in turn, the last for ever: a document, (status, body, ...) or an exception."""
        self._answers[method, path] = list(answers)
        return self

    def client(self, **settings):
        """A client whose requests end here."""
        return PlacementClient(Session(auth=Token(ENDPOINT, "secret"), session=self.session), **settings)

    @property
    def lines(self):
        """What was asked, each request as `METHOD path`."""
        return [f"{request.method} {request.path}" for request in self.asked]

    def send(self, request, timeout=None, **_):
        """Answer a request, as requests wants it of an adapter."""
        url = urlsplit(request.url)
        path = url.path.removeprefix(PREFIX) or "/"
        self.asked.append(
            SimpleNamespace(
                method=request.method,
                path=path,
                query=parse_qsl(url.query),
                raw_query=url.query,
                body=json.loads(request.body) if request.body else None,
                headers=request.headers,
                timeout=timeout,
            )
        )
        answers = self._answers.get((request.method, path)) or [error(404, f"fake has no {path}")]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return (
            make_response(request, *answer)
            if isinstance(answer, tuple)
            else make_response(request, 200, answer)
        )

    def close(self):
        """Nothing to close."""


def make_response(request, status, body="", headers=None):
    """A requests.Response with placement's headers; a body that is not text is JSON."""
    response = requests.Response()
    response.status_code = status
    response.reason = requests.status_codes._codes.get(status, ("unknown",))[0].replace("_", " ").title()
    response._content = (body if isinstance(body, str) else json.dumps(body)).encode()
    response.headers["openstack-api-version"] = "placement 1.39"
    if not isinstance(body, str):
        response.headers["content-type"] = "application/json"
    response.headers.update(headers or {})
    response.request = request
    response.url = request.url
    return response


def error(status, detail, **facts):
    """An answer with a placement error document."""
    explanation = "The server says no.\n\n "
    entry = {
        "status": status,
        "title": "No",
        "detail": f"{explanation}{detail}  ",
        "request_id": "req-1",
        **facts,
    }
    return status, {"errors": [entry]}
