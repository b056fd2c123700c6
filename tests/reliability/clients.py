# SPDX-License-Identifier: Apache-2.0
"""Clients that speak to a server all at once, and remember every answer."""

import contextlib
import http.client
import json
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass

#: seconds after which a request that is not answered counts as one that starves
PATIENCE = 90
HEADERS = {
    "X-Auth-Token": "admin",
    # only services may reshape
    "X-Roles": "admin,service",
    "OpenStack-API-Version": "placement 1.39",
    "Accept": "application/json",
}


@dataclass(frozen=True)
class Answer:
    """What came back; status 0 means that the connection broke before anything did."""

    status: int
    body: object = None
    headers: object = None
    seconds: float = 0.0


class Client:
    """One connection, made anew when it breaks; for one thread."""

    def __init__(self, url, patience=PATIENCE):
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=patience)

    def send(self, method, path, body=None):
        """Send a request and read the answer."""
        content = None if body is None else json.dumps(body)
        headers = HEADERS if body is None else {**HEADERS, "Content-Type": "application/json"}
        started = time.monotonic()
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            data = response.read()
        except TimeoutError:
            self._connection.close()
            raise
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return Answer(0, seconds=time.monotonic() - started)
        parsed = json.loads(data) if data else None
        return Answer(response.status, parsed, response.headers, time.monotonic() - started)

    def insist(self, method, path, body=None):
        """Send a request that has to succeed; what its answer says."""
        answer = self.send(method, path, body)
        assert 200 <= answer.status < 300, (method, path, body, answer)
        return answer.body

    def close(self):
        """Close the connection."""
        self._connection.close()


def run_together(url, scripts):
    """Run each script with a client of its own, all from the same moment; their results, in order.

    :param url: of the server, or of several, which then get their share of the clients in turn
    """
    urls = [url] if isinstance(url, str) else list(url)
    results = [None] * len(scripts)
    failures = []
    start = threading.Barrier(len(scripts))

    def run(number, script):
        with contextlib.closing(Client(urls[number % len(urls)])) as client:
            start.wait()
            try:
                results[number] = script(client)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(scripts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


@dataclass(frozen=True)
class Claim:
    """What a new consumer asks for: amounts of VCPU, by UUID of provider; an owner of its own by default."""

    amounts: dict
    consumer: str
    project: str
    generation: int | None = None

    @classmethod
    def of(cls, amounts, *, consumer=None, project=None, generation=None):
        """A claim; consumer and project are new ones if they are not given."""
        consumer = consumer or str(uuid.uuid4())
        return cls(amounts, consumer, project or f"project of {consumer}", generation)

    @property
    def body(self):
        """The claim as the API takes it."""
        return {
            "allocations": {of: {"resources": {"VCPU": amount}} for of, amount in self.amounts.items()},
            "project_id": self.project,
            "user_id": self.project,
            "consumer_generation": self.generation,
            "consumer_type": "INSTANCE",
        }

    def put(self, client):
        """Send the claim by itself."""
        return client.send("PUT", f"/allocations/{self.consumer}", self.body)


def post(client, group):
    """Send several claims as one request."""
    return client.send("POST", "/allocations", {claim.consumer: claim.body for claim in group})


def make_provider(client, total=None, parent=None, **fields):
    """A new provider, with so much VCPU; its UUID."""
    uuid_ = str(uuid.uuid4())
    body = {"uuid": uuid_, "name": uuid_}
    if parent is not None:
        body["parent_provider_uuid"] = parent
    client.insist("POST", "/resource_providers", body)
    if total is not None:
        inventory = {"resource_class": "VCPU", "total": total, **fields}
        client.insist("POST", f"/resource_providers/{uuid_}/inventories", inventory)
    return uuid_
