# SPDX-License-Identifier: Apache-2.0
"""Many requests at the same moment, through the whole application."""

import collections
import json
import os
import threading
import uuid

import pytest
import webob

pytestmark = pytest.mark.skipif(
    "OSC_PLACEMENT_TEST_ENDPOINT" in os.environ, reason="the endpoint need not be our server"
)


def send(application, method, path, body=None):
    """Send a request as an administrator, at the newest microversion."""
    headers = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
    request = webob.Request.blank(path, method=method, headers=headers)
    if body is not None:
        request.body = json.dumps(body).encode()
        request.content_type = "application/json"
    return request.get_response(application)


def send_together(application, requests):
    """Send all requests at the same moment; how often each status was answered."""
    statuses = collections.Counter()
    start = threading.Barrier(len(requests))

    def run(request):
        start.wait()
        statuses[send(application, *request).status_int] += 1

    threads = [threading.Thread(target=run, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def make_claim(provider, project):
    """A new consumer of a new project that asks for one unit."""
    body = {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": project,
        "user_id": project,
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    return "PUT", f"/allocations/{uuid.uuid4()}", body


@pytest.mark.parametrize("projects", [1, 24])
def test_claims_never_exceed_the_capacity(application, projects):
    """Of 24 claims on 12 units 12 are granted, and the others conflict, whoever they belong to."""
    provider = str(uuid.uuid4())
    assert (
        send(application, "POST", "/resource_providers", {"uuid": provider, "name": provider}).status_int
        == 200
    )
    inventory = {"resource_class": "VCPU", "total": 12}
    path = f"/resource_providers/{provider}"
    assert send(application, "POST", f"{path}/inventories", inventory).status_int == 201
    claims = [make_claim(provider, f"{provider} {number % projects}") for number in range(24)]
    assert send_together(application, claims) == {204: 12, 409: 12}
    assert send(application, "GET", f"{path}/usages").json["usages"] == {"VCPU": 12}
