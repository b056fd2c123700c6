# SPDX-License-Identifier: Apache-2.0
"""The functional tests of placement that openstacksdk's wheel carries, run against any placement server.

Run as a module with the URL of a server whose ``auth_strategy`` is ``noauth2`` and whose database is empty,
in a process of its own: the tests read their cloud from the environment when they are imported. A host and an
instance are made first, as there are in a devstack, for which the tests were written. Prints one JSON object:
how many tests there were, how many passed, and what came of the others.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

#: the clouds that the tests name, which are all the one server
CLOUDS = ("devstack", "devstack-alt", "devstack-admin", "devstack-system-admin")
TESTS = "openstack.tests.functional.placement"
#: whoever sends this to a server with ``noauth2`` is an administrator
TOKEN = "admin"
PROJECT, USER = "admin-project", "admin-user"
NEVER = "2999-01-01T00:00:00.000000Z"


def describe_token(url):
    """Return what Keystone says of a token with which there is nothing but placement."""
    domain = {"id": "default", "name": "Default"}
    endpoint = {"id": "e", "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": url}
    return {
        "token": {
            "methods": ["password"],
            "expires_at": NEVER,
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "user": {"id": USER, "name": "admin", "domain": domain},
            "project": {"id": PROJECT, "name": "admin", "domain": domain},
            "roles": [{"id": "r", "name": "admin"}],
            "catalog": [{"type": "placement", "name": "placement", "id": "s", "endpoints": [endpoint]}],
        }
    }


@contextlib.contextmanager
def issuing_tokens(url):
    """Answer each log-in with the token of `noauth2` and a catalog of this server; the URL to log in at."""

    class Identity(BaseHTTPRequestHandler):
        """As much of Keystone as a password needs."""

        def do_POST(self):
            """Answer with a token, whoever asks."""
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps(describe_token(url)).encode()
            self.send_response(201)
            self.send_header("x-subject-token", TOKEN)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            """Write nothing beside the report."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Identity) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v3"
        finally:
            server.shutdown()
            thread.join()


def describe_cloud(auth_url):
    """Return the entry of a clouds.yaml."""
    return {
        "auth_type": "v3password",
        "auth": {
            "auth_url": auth_url,
            "username": "admin",
            "password": "any",
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        },
        "region_name": "RegionOne",
    }


def run(url):
    """Run the tests against a server; what came of them."""
    furnish(url)
    with tempfile.TemporaryDirectory() as directory, issuing_tokens(url) as auth_url:
        clouds = pathlib.Path(directory) / "clouds.yaml"
        # JSON is YAML too
        clouds.write_text(json.dumps({"clouds": {name: describe_cloud(auth_url) for name in CLOUDS}}))
        settings = {"OS_CLIENT_CONFIG_FILE": str(clouds), "OS_TEST_TIMEOUT": "60", "OS_LOG_CAPTURE": "true"}
        os.environ.update(settings)
        suite = unittest.defaultTestLoader.loadTestsFromNames(find_modules())
        result = unittest.TestResult()
        suite.run(result)
    bad = {test.id(): text[-1500:] for test, text in result.failures + result.errors}
    skipped = {test.id(): reason for test, reason in result.skipped}
    passed = result.testsRun - len(bad) - len(skipped)
    return {"run": result.testsRun, "passed": passed, "failed": bad, "skipped": skipped}


def furnish(url):
    """Make a host and an instance on it."""
    host, instance = str(uuid.uuid4()), str(uuid.uuid4())
    headers = {"x-auth-token": TOKEN, "openstack-api-version": "placement 1.39"}
    allocation = {
        "allocations": {host: {"resources": {"VCPU": 1}}},
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    inventory = {"resource_class": "VCPU", "total": 8}
    for method, path, body in (
        ("POST", "/resource_providers", {"uuid": host, "name": "host"}),
        ("POST", f"/resource_providers/{host}/inventories", inventory),
        ("PUT", f"/allocations/{instance}", allocation),
    ):
        answer = requests.request(method, url + path, json=body, headers=headers, timeout=60)
        answer.raise_for_status()


def find_modules():
    """Return the names of the modules with tests, of openstacksdk as it is installed."""
    package = __import__(TESTS, fromlist=["__path__"])
    directory = pathlib.Path(package.__path__[0])
    paths = (path.relative_to(directory).with_suffix("") for path in directory.rglob("test_*.py"))
    return sorted(".".join((TESTS, *path.parts)) for path in paths)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
