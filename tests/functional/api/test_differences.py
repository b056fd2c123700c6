# SPDX-License-Identifier: Apache-2.0
"""Where our server answers otherwise than openstack-placement, on purpose: see differences.rst."""

import io
import json
import os
import sqlite3
import uuid

import pytest
import webob

pytestmark = pytest.mark.skipif(
    "OSC_PLACEMENT_TEST_ENDPOINT" in os.environ, reason="the endpoint need not be our server"
)


@pytest.fixture
def send(application):
    """A function that sends a request as an administrator, at the newest microversion."""

    def send_(method, path, body=None, *, version="1.39", **headers):
        request = webob.Request.blank(path, method=method)
        request.headers["x-auth-token"] = "admin"
        request.headers["openstack-api-version"] = f"placement {version}"
        if body is not None:
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.content_type = "application/json"
        request.headers.update(headers)
        return request.get_response(application)

    return send_


@pytest.fixture
def provider(send):
    """A new provider with 8 VCPU, as its UUID; at generation 1."""
    uuid_ = str(uuid.uuid4())
    assert send("POST", "/resource_providers", {"uuid": uuid_, "name": uuid_}).status_int == 200
    inventory = {"resource_class": "VCPU", "total": 8}
    assert send("POST", f"/resource_providers/{uuid_}/inventories", inventory).status_int == 201
    return uuid_


def detail(response):
    """What the error of a response says after its explanation."""
    return response.json["errors"][0]["detail"].split("\n\n ", 1)[1].strip()


def claim(amounts, generation=None):
    """The body of a claim."""
    return {
        "allocations": {uuid_: {"resources": {"VCPU": amount}} for uuid_, amount in amounts.items()},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


SPELLINGS = (str.upper, lambda text: text.replace("-", ""), lambda text: "{" + text + "}")


@pytest.mark.parametrize("spell", SPELLINGS, ids=("capitals", "without dashes", "in braces"))
def test_provider_is_found_by_every_spelling_of_its_uuid(send, provider, spell):
    """Paths, queries and bodies take every spelling of a UUID; answers have one."""
    assert send("GET", f"/resource_providers/{spell(provider)}").json["uuid"] == provider
    assert send("PUT", f"/resource_providers/{spell(provider)}", {"name": spell(provider)}).status_int == 200
    child = {"name": str(uuid.uuid4()), "parent_provider_uuid": spell(provider)}
    assert send("POST", "/resource_providers", child).json["root_provider_uuid"] == provider
    candidates = send("GET", f"/allocation_candidates?resources=VCPU:1&in_tree={spell(provider)}").json
    assert provider in candidates["provider_summaries"]


def test_that_there_is_no_candidate_is_said_only_where_it_is_known(send, provider):
    """A search that takes too many steps before it finds one is an error, which says what to do."""
    for _ in range(12):
        device = {"uuid": str(uuid.uuid4()), "parent_provider_uuid": provider}
        assert send("POST", "/resource_providers", {"name": device["uuid"], **device}).status_int == 200
        inventory = {"resource_class": "PGPU", "total": 100}
        path = f"/resource_providers/{device['uuid']}/inventories"
        assert send("POST", path, inventory).status_int == 201
    # all but one are multiples of three, so that a device of a hundred has one unit left over
    amounts = [*[27, 33, 39] * 12, 4]
    groups = [f"resources_{number}=PGPU:{amount}" for number, amount in enumerate(amounts)]
    answer = send("GET", f"/allocation_candidates?{'&'.join(groups)}&group_policy=none")
    assert answer.status_int == 400
    assert answer.json["errors"][0]["code"] == "placement.allocation_candidates.search_cut"
    assert "whether there is a candidate is not known. Ask for fewer groups" in detail(answer)
    # without the one it is known how they fit
    answer = send("GET", f"/allocation_candidates?{'&'.join(groups[:-1])}&group_policy=none&limit=2")
    assert (answer.status_int, len(answer.json["allocation_requests"])) == (200, 2)


def test_a_thousand_groups_are_answered(send, provider):
    """The reference answers them, too."""
    device = {"uuid": str(uuid.uuid4()), "name": str(uuid.uuid4()), "parent_provider_uuid": provider}
    assert send("POST", "/resource_providers", device).status_int == 200
    inventory = {"resource_class": "PGPU", "total": 2000}
    path = f"/resource_providers/{device['uuid']}/inventories"
    assert send("POST", path, inventory).status_int == 201
    groups = "&".join(f"resources_{number}=PGPU:1" for number in range(1500))
    answer = send("GET", f"/allocation_candidates?{groups}&group_policy=none&in_tree_1={provider}&limit=1")
    assert answer.status_int == 200
    (candidate,) = answer.json["allocation_requests"]
    assert candidate["allocations"] == {device["uuid"]: {"resources": {"PGPU": 1500}}}


def test_consumer_is_found_by_every_spelling_of_its_uuid(send, provider):
    """What a consumer claims in capitals is held by the one in small letters."""
    consumer = str(uuid.uuid4())
    body = {consumer.upper(): claim({provider.upper(): 2})}
    assert send("POST", "/allocations", body).status_int == 204
    held = send("GET", f"/allocations/{consumer.replace('-', '')}").json
    assert held["allocations"][provider]["resources"] == {"VCPU": 2}
    assert send("PUT", f"/allocations/{consumer}", claim({provider: 3}, 1)).status_int == 204
    assert send("DELETE", f"/allocations/{consumer.upper()}").status_int == 204


@pytest.mark.parametrize("of", ["consumer", "provider"])
def test_same_uuid_in_two_spellings_is_refused(send, provider, of):
    """Two claims for one consumer, or two amounts of one provider, are not added up or dropped."""
    consumer = str(uuid.uuid4())
    if of == "consumer":
        body = {consumer: claim({provider: 1}), consumer.upper(): claim({provider: 1})}
    else:
        body = {consumer: claim({provider: 1, provider.upper(): 1})}
    response = send("POST", "/allocations", body)
    assert response.status_int == 400
    assert "more than once" in detail(response)


def test_reshaper_finds_a_provider_by_every_spelling_of_its_uuid(send, provider):
    """Inventories in capitals are those of the provider in small letters; both at once are refused."""
    roles = {"x-roles": "admin,service"}
    new = {"inventories": {"VCPU": {"total": 4}}, "resource_provider_generation": 1}
    twice = {"inventories": {provider: new, provider.upper(): new}, "allocations": {}}
    assert send("POST", "/reshaper", twice, **roles).status_int == 400
    once = {"inventories": {provider.upper(): new}, "allocations": {}}
    assert send("POST", "/reshaper", once, **roles).status_int == 204
    assert send("GET", f"/resource_providers/{provider}/inventories/VCPU").json["total"] == 4


def test_provider_keeps_an_aggregate_that_is_written_in_capitals(send, provider):
    """Where the database takes both spellings for one, the provider stays in it; elsewhere it changes."""
    aggregate = "abcdef01" + str(uuid.uuid4())[8:]
    path = f"/resource_providers/{provider}/aggregates"
    for generation, spelling in enumerate((aggregate, aggregate.upper()), start=1):
        body = {"aggregates": [spelling], "resource_provider_generation": generation}
        assert send("PUT", path, body).json["aggregates"] == [spelling]
    (kept,) = send("GET", path).json["aggregates"]
    assert kept.lower() == aggregate
    found = send("GET", f"/resource_providers?member_of={kept}").json
    assert [item["uuid"] for item in found["resource_providers"]] == [provider]


@pytest.mark.parametrize("version", ["1.18", "1.39"])
@pytest.mark.parametrize("form", ["{{{}}}", "urn:uuid:{}", "-{}"], ids=("braces", "urn", "dash"))
def test_aggregate_uuid_longer_than_the_column_is_refused(send, provider, form, version):
    """A spelling that is longer than the column is refused where the database does not take it."""
    aggregate = form.format(uuid.uuid4())
    body = {"aggregates": [aggregate], "resource_provider_generation": 1}
    path = f"/resource_providers/{provider}/aggregates"
    answer = send("PUT", path, body if version == "1.39" else [aggregate], version=version)
    if answer.status_int == 400:
        assert detail(answer) == "The request contains a value that the database cannot store."
        assert send("GET", path).json["aggregates"] == []
    else:
        assert answer.status_int == 200
        assert send("GET", path).json["aggregates"] == [aggregate]


@pytest.mark.parametrize("ratio", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_ratio_nan_or_infinity_is_refused(send, provider, ratio):
    """JSON has no such numbers, and a capacity computed with one would be none."""
    body = f'{{"resource_provider_generation": 1, "total": 4, "allocation_ratio": {ratio}}}'.encode()
    response = send("PUT", f"/resource_providers/{provider}/inventories/VCPU", body)
    assert response.status_int == 400
    assert detail(response) == f"Malformed JSON: {ratio} is not a number that can be worked with"


@pytest.mark.parametrize("total", ["1", "1.0"])
def test_ratio_too_large_for_a_float_is_refused(send, provider, total):
    """Neither is it stored, nor is a capacity computed with it."""
    inventory = f'{{"total": {total}, "reserved": 2, "allocation_ratio": -{"9" * 400}'
    set_ = f'{{"resource_provider_generation": 1, "inventories": {{"VCPU": {inventory}}}}}}}'
    path = f"/resource_providers/{provider}/inventories"
    for answer in (
        send("POST", path, f'{inventory}, "resource_class": "DISK_GB"}}'.encode()),
        send("PUT", f"{path}/VCPU", f'{inventory}, "resource_provider_generation": 1}}'.encode()),
        send("PUT", path, set_.encode()),
        send("POST", "/-/providers", f'{{"changes": [{{"uuid": "{provider}", {set_[1:]}]}}'.encode()),
    ):
        assert answer.status_int == 400
        assert detail(answer).endswith("99 is not a number that can be worked with")


@pytest.mark.parametrize("name", [b'"a\\u0000b"', b'"half \\ud800"', b'"\xed\xa0\x80"'])
def test_name_with_nul_or_a_lone_surrogate_is_refused(send, name):
    """NUL, and half a character, cannot be stored everywhere, so they are nowhere."""
    response = send("POST", "/resource_providers", b'{"name": ' + name + b"}")
    assert response.status_int == 400
    assert detail(response).startswith("Malformed JSON: ")


@pytest.mark.parametrize("path", ["/traits/%00", "/resource_providers/a%00b", "/resource_classes/%00"])
def test_path_with_nul_is_answered_with_404(send, path):
    """NUL in a path never reaches the database."""
    assert send("GET", path).status_int == 404


@pytest.mark.parametrize("query", ["name=%00", "name=%ff"])
@pytest.mark.parametrize("path", ["/resource_providers", "/traits", "/usages"])
def test_query_with_nul_or_invalid_utf8_is_refused(send, path, query):
    """Neither NUL nor bytes that are not UTF-8 are taken, wherever the query is read first."""
    assert send("GET", f"{path}?project_id=p&{query}").status_int == 400


@pytest.mark.parametrize("body", [b"[" * 100_000, b"[" * 900 + b"]" * 900], ids=("open", "closed"))
def test_deeply_nested_body_is_refused(send, body):
    """What is nested too deeply to be looked at is malformed."""
    response = send("POST", "/resource_providers", body)
    assert response.status_int == 400


@pytest.mark.parametrize("depth", [700, 900])
def test_deeply_nested_inventory_is_refused(send, provider, depth):
    """It is malformed also where the schema of the body does not look, and only itself among changes."""
    deep = json.loads("[" * depth + "]" * depth)
    new = {"resource_provider_generation": 1, "inventories": {"no class": deep}}
    body = {"inventories": {provider: new}, "allocations": {}}
    assert send("PUT", f"/resource_providers/{provider}/inventories", new).status_int == 400
    assert send("POST", "/reshaper", body, **{"x-roles": "admin,service"}).status_int == 400
    other = {"uuid": str(uuid.uuid4()), "resource_provider_generation": 0, "traits": []}
    for change in (new, {**new, "inventories": deep}):
        answer = send("POST", "/-/providers", {"changes": [{"uuid": provider, **change}, other]})
        assert [item["errors"][0]["status"] for item in answer.json["results"]] == [400, 404]


def test_chunked_body_is_read_up_to_the_limit(application, monkeypatch):
    """No more of it is read than of one that says its length."""
    monkeypatch.setattr("osc_placement.server.deploy.LARGEST_BODY", 1000)
    request = webob.Request.blank("/resource_providers", method="POST")
    request.headers.update({"x-auth-token": "admin", "content-type": "application/json"})
    request.body_file = body = io.BytesIO(b" " * 1_000_000)
    assert request.get_response(application).status_int == 413
    assert body.tell() < 100_000


def test_body_with_a_content_length_over_the_limit_is_not_read(send):
    """It is refused before a byte of it has come."""
    assert send("POST", "/traits", b"{}", **{"content-length": str(1 << 27)}).status_int == 413


@pytest.mark.parametrize("inventory", [{}, 5, {"total": "many"}])
def test_malformed_inventory_of_an_invalid_class_name_is_refused(send, provider, inventory):
    """Inventories are checked by their form also where the name of the class is wrong."""
    body = {"resource_provider_generation": 1, "inventories": {"not a class": inventory}}
    response = send("PUT", f"/resource_providers/{provider}/inventories", body)
    assert response.status_int == 400
    assert detail(response).startswith("JSON does not validate: ")


@pytest.mark.parametrize("ratio", [-1.7e308, 1.7e308])
def test_very_large_ratio_gives_a_valid_answer(send, provider, ratio):
    """What it makes of the total is no number that Python has."""
    inventories = {"VCPU": {"total": 2**31 - 1, "allocation_ratio": ratio}}
    body = {"resource_provider_generation": 1, "inventories": inventories}
    answer = send("PUT", f"/resource_providers/{provider}/inventories", body)
    assert answer.status_int in (200, 400)


def test_unknown_provider_is_reported_before_a_malformed_inventory(send):
    """That there is no such provider comes before what is wrong with its inventories, as in the reference."""
    body = {"resource_provider_generation": 0, "inventories": {"no-class": ""}}
    assert send("PUT", f"/resource_providers/{uuid.uuid4()}/inventories", body).status_int == 404


@pytest.mark.parametrize("limit", ["x", "-5", "0", "", "1.5"])
def test_first_limit_is_used_and_checked(send, limit):
    """Of several the first counts, and all that counts is judged."""
    path = "/allocation_candidates?resources=VCPU:1"
    assert send("GET", f"{path}&limit={limit}&limit=1").status_int == 400
    assert send("GET", f"{path}&limit=1&limit={limit}").status_int == 400


def test_very_large_limit_means_no_limit(send, provider):
    """A number that Python does not read is more than there are candidates."""
    path = f"/allocation_candidates?resources=VCPU:1&in_tree={provider}"
    assert len(send("GET", f"{path}&limit={'9' * 5000}").json["allocation_requests"]) == 1


@pytest.mark.parametrize("query", ["required=CUSTOM_NO_SUCH", "resources=CUSTOM_NO_SUCH:1"])
def test_an_unknown_name_is_refused_even_if_nothing_else_matches(send, query):
    """Whether a name exists does not depend on what another filter leaves."""
    response = send("GET", f"/resource_providers?in_tree={uuid.uuid4()}&{query}")
    assert response.status_int == 400
    assert "No such" in detail(response)


@pytest.mark.parametrize("prefix", ["%25", "_", "HW_CPU%25"])
def test_wildcards_of_sql_are_literal_in_a_trait_prefix(send, prefix):
    """A prefix of traits is text and no pattern."""
    assert send("GET", f"/traits?name=startswith:{prefix}").json["traits"] == []


def test_refused_claim_leaves_no_consumer(send, provider):
    """The consumer of a claim that failed is still new, and its first generation is still null."""
    consumer = str(uuid.uuid4())
    unknown = send("PUT", f"/allocations/{consumer}", claim({str(uuid.uuid4()): 1}))
    assert (unknown.status_int, "does not exist" in detail(unknown)) == (400, True)
    assert send("PUT", f"/allocations/{consumer}", claim({})).status_int == 204
    assert send("PUT", f"/allocations/{consumer}", claim({provider: 9})).status_int == 409
    assert send("PUT", f"/allocations/{consumer}", claim({provider: 8})).status_int == 204


def test_conflict_message_shows_no_sql(send, provider):
    """Adding an inventory twice is answered without a statement of SQL."""
    inventory = {"resource_class": "VCPU", "total": 8}
    response = send("POST", f"/resource_providers/{provider}/inventories", inventory)
    assert response.status_int == 409
    assert detail(response) == (
        "Update conflict: Another thread concurrently updated the data. Please retry your update"
    )


def test_renaming_to_the_same_name_returns_last_modified(send, provider):
    """A change that changes nothing is answered like one that does."""
    response = send("PUT", f"/resource_providers/{provider}", {"name": provider})
    assert response.status_int == 200
    assert response.last_modified is not None


@pytest.mark.parametrize("accept", ["application/json", "text/plain"])
def test_error_message_quotes_long_input_in_part(send, accept):
    """What was sent is quoted in part; what is wrong with it is told."""
    answer = send("POST", "/resource_providers", {"name": "<" * 40_000}, accept=accept)
    assert answer.status_int == 400
    assert "<' is too long" in answer.text
    assert len(answer.body) < 5000


@pytest.mark.parametrize("accept", ["application/json", "text/plain"])
@pytest.mark.parametrize("version", ["<" * 4000, "1.39" + " " * 4000])
def test_very_long_version_header_is_refused(send, version, accept):
    """It is refused before it is read, with or without a version in it."""
    answer = send("GET", "/", version=version, accept=accept)
    assert answer.status_int == 400
    assert "may have 4000 characters at most" in answer.text


def test_message_shows_a_utf8_path_decoded(send):
    """A path in UTF-8 is repeated as such."""
    response = send("GET", "/resource_classes/%C3%A9")
    assert detail(response) == "No such resource class é."


def test_trailing_newline_in_a_path_is_part_of_the_name(send):
    """It is no letter of a trait's name, and it is not dropped."""
    assert send("PUT", "/traits/CUSTOM_NEWLINE%0A").status_int == 400


def test_class_name_with_a_quote_is_refused_by_the_schema(send):
    """The name is checked as it is, not as part of a JSON text."""
    response = send("PUT", "/resource_classes/CUSTOM_%22")
    assert response.status_int == 400
    assert "does not match '^CUSTOM_[A-Z0-9_]+$'" in detail(response)


def test_path_unknown_to_the_version_is_404_for_any_content_type(send, provider):
    """A path is looked up before the content type is."""
    path = f"/resource_providers/{provider}/aggregates"
    assert send("PUT", path, [], version="1.0", **{"content-type": "text/plain"}).status_int == 404


def test_very_large_amount_matches_no_provider(send, provider):
    """An amount that no database can count matches no provider."""
    response = send("GET", f"/resource_providers?resources=VCPU:{10**40}&uuid={provider}")
    assert response.json == {"resource_providers": []}


def test_root_without_a_slash_needs_no_token(application):
    """The empty path is the root, which needs no token."""
    request = webob.Request.blank("/", environ={"SCRIPT_NAME": "/placement", "PATH_INFO": ""})
    assert request.get_response(application).json["versions"][0]["id"] == "v1.0"


def test_server_error_shows_only_the_request_id(application, monkeypatch, caplog):
    """The body of a 500 names the request; the log has the rest."""

    def fail(*arguments, **keywords):
        raise sqlite3.InterfaceError("secret")

    monkeypatch.setattr("osc_placement.server.db.engine.Database.read_on_kept_connection", fail)
    request = webob.Request.blank("/resource_providers", headers={"x-auth-token": "admin"})
    response = request.get_response(application)
    assert response.status_int == 500
    assert "secret" not in response.text
    assert response.json["errors"][0]["request_id"] == response.headers["x-openstack-request-id"]
    assert "secret" in caplog.text
