# SPDX-License-Identifier: Apache-2.0
"""GET /-/providers: what the requests about each provider would tell, in one answer."""

import json
import uuid

import pytest
import webob

from tests import databases
from tests.functional.api.conftest import make_application

BASE = "/resource_providers"


@pytest.fixture(scope="module")
def own_application(backend, tmp_path_factory):
    """A server on a database that nobody else fills."""
    with databases.make_database(backend, tmp_path_factory.mktemp("bulk")) as url:
        yield make_application(url)


@pytest.fixture
def send(own_application):
    """A function that sends a request as an administrator, or somebody else."""

    def send_(method, path, body=None, user="admin"):
        request = webob.Request.blank(path, method=method)
        request.headers["x-auth-token"] = user
        request.headers["openstack-api-version"] = "placement 1.39"
        if body is not None:
            request.json_body = body
            request.content_type = "application/json"
        return request.get_response(own_application)

    return send_


@pytest.fixture
def provider(send):
    """A provider with a bit of everything, below another."""
    parent, child, member_of = (str(uuid.uuid4()) for _ in range(3))
    send("POST", BASE, {"uuid": parent, "name": parent})
    send("POST", BASE, {"uuid": child, "name": 'a "quoted" ünïcode', "parent_provider_uuid": parent})
    send("POST", f"{BASE}/{child}/inventories", {"resource_class": "VCPU", "total": 8})
    about = {"resource_provider_generation": 1}
    send("PUT", f"{BASE}/{child}/traits", {"traits": ["HW_CPU_X86_AVX"], **about})
    about = {"resource_provider_generation": 2}
    send("PUT", f"{BASE}/{child}/aggregates", {"aggregates": [member_of], **about})
    claim = {
        "allocations": {child: {"resources": {"VCPU": 2}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    consumer = str(uuid.uuid4())
    assert send("PUT", f"/allocations/{consumer}", claim).status_int == 204
    yield child
    send("DELETE", f"/allocations/{consumer}")
    send("DELETE", f"{BASE}/{child}")
    send("DELETE", f"{BASE}/{parent}")


def test_bulk_read_equals_single_requests(send, provider):
    """Provider, inventories, usages, traits and aggregates are those of the other routes."""
    answer = send("GET", f"/-/providers?in_tree={provider}")
    assert (answer.status_int, answer.content_type) == (200, "application/json")
    _, record = answer.json["providers"]
    shown = send("GET", f"{BASE}/{provider}").json
    shown.pop("links")
    for part in ("inventories", "usages", "traits", "aggregates"):
        shown[part] = send("GET", f"{BASE}/{provider}/{part}").json[part]
    assert record == shown
    assert record["usages"] == {"VCPU": 2}


def test_answer_has_only_the_requested_parts(send, provider):
    """A part that is not wanted is not there."""
    _, record = send("GET", f"/-/providers?in_tree={provider}&want=traits").json["providers"]
    assert set(record) == {
        "uuid",
        "name",
        "generation",
        "parent_provider_uuid",
        "root_provider_uuid",
        "traits",
    }


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2),
        ("required=HW_CPU_X86_AVX", 1),
        ("required=!HW_CPU_X86_AVX", 1),
        ("resources=VCPU:6", 1),
        ("resources=VCPU:7", 0),
        ("name=nobody", 0),
        (f"member_of={uuid.UUID(int=5)}", 0),
    ],
)
def test_bulk_read_filters_like_the_provider_list(send, provider, query, count):
    """Each parameter chooses the providers that it chooses of the list."""
    chosen = [item["uuid"] for item in send("GET", f"/-/providers?{query}").json["providers"]]
    assert chosen == [item["uuid"] for item in send("GET", f"{BASE}?{query}").json["resource_providers"]]
    assert len(chosen) == count


@pytest.mark.parametrize("query", ["want=everything", "required=NOBODY_KNOWS", "x=1", "resources=VCPU"])
def test_invalid_query_is_refused_with_400(send, query):
    """What is not understood is a 400 with a reason."""
    answer = send("GET", f"/-/providers?{query}")
    assert answer.status_int == 400
    assert answer.json["errors"][0]["detail"]


def test_bulk_read_needs_the_policy_rule_of_each_part(send, provider):
    """The rules are those of the single requests."""
    assert send("GET", "/-/providers", user="somebody").status_int == 403


def test_bulk_read_shows_a_change_at_once(send, provider):
    """What was put together before is not what is told after a change."""
    before = send("GET", "/-/providers").json["providers"]
    send("PUT", f"{BASE}/{provider}", {"name": "renamed"})
    after = send("GET", "/-/providers").json["providers"]
    assert {item["name"] for item in after} - {item["name"] for item in before} == {"renamed"}
    assert json.loads(send("GET", BASE).body)["resource_providers"][1]["name"] == "renamed"


def test_bulk_read_of_allocations_equals_single_requests(send, provider):
    """What a consumer holds, and whose it is, is as the route of the consumer tells it."""
    answer = send("GET", "/-/allocations")
    assert (answer.status_int, answer.content_type) == (200, "application/json")
    (consumer,) = answer.json["consumers"]
    shown = send("GET", f"/allocations/{consumer.pop('uuid')}").json
    for entry in shown["allocations"].values():
        entry.pop("generation")
    assert consumer == shown
    assert consumer["allocations"] == {provider: {"resources": {"VCPU": 2}}}


def test_bulk_read_without_allocations_is_an_empty_document(send):
    """A server on which nobody holds anything says so in JSON as well."""
    assert send("GET", "/-/allocations").json == {"consumers": []}


def test_bulk_read_of_allocations_needs_the_rule_of_each_part(send, provider):
    """The rules are those of the single requests."""
    assert send("GET", "/-/allocations", user="somebody").status_int == 403
