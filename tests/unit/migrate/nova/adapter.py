# SPDX-License-Identifier: Apache-2.0
"""A keystoneauth adapter of a service that gives prepared answers."""

from types import SimpleNamespace


class Adapter:
    """An adapter that gives these answers in turn: documents, (status, document), or exceptions.

    :param endpoint: the endpoint in the catalog, or None
    :ivar asked: the method, path below the host, and arguments of each request
    """

    HOST = "http://service.test/"

    def __init__(self, *answers, endpoint=HOST):
        self.answers = list(answers)
        self.endpoint = endpoint
        self.asked = []

    def get_endpoint(self):
        """Return the endpoint in the catalog."""
        return self.endpoint

    def get(self, url, **arguments):
        """Answer a GET."""
        return self.request(url, "GET", **arguments)

    def request(self, url, method, *, raise_exc, **arguments):
        """Give the next answer."""
        assert raise_exc is False
        assert url.startswith(self.HOST)
        self.asked.append((method, url.removeprefix(self.HOST), arguments))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, document = answer if isinstance(answer, tuple) else (200, answer)

        def read():
            if document is None:
                raise ValueError("no JSON")
            return document

        return SimpleNamespace(status_code=status, json=read)
