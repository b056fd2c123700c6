# SPDX-License-Identifier: Apache-2.0
"""osc_placement.api.client: what each operation sends, and what it gives back."""

import json
import uuid

import pytest

from osc_placement import client, codes, errors, microversion
from osc_placement.api import operations
from osc_placement.api.client import PlacementClient
from osc_placement.api.consumer import Consumer
from tests.unit.fake_placement import FakePlacement, error

PROVIDER = {"uuid": "u", "name": "host1", "generation": 3}
INVENTORIES = {"inventories": {"VCPU": {"total": 8}}, "resource_provider_generation": 4}
TRAITS = {"traits": ["A"], "resource_provider_generation": 4}
AGGREGATES = {"aggregates": ["a"], "resource_provider_generation": 4}
ALLOCATIONS = {"allocations": {}}
CANDIDATES = {"allocation_requests": [], "provider_summaries": {}}


def asked(call, method, path, answer=(204,), **settings):
    """The request that a call makes, and its result."""
    fake = FakePlacement().on(method, path, answer)
    result = call(fake.client(**settings))
    assert fake.lines[-1] == f"{method} {path}"
    assert len(fake.asked) <= 2
    return fake.asked[-1], result


READS = [
    (
        lambda c: c.list_providers(),
        "/resource_providers",
        [],
        {"resource_providers": [PROVIDER]},
        [PROVIDER],
    ),
    (
        lambda c: c.list_providers(
            name="host1",
            uuid="u",
            member_of=["in:a,b", "!in:c"],
            resources={"VCPU": 2, "DISK_GB": 1},
            in_tree="t",
            required=["in:A,B", "C,!D"],
        ),
        "/resource_providers",
        [
            ("name", "host1"),
            ("uuid", "u"),
            ("in_tree", "t"),
            ("member_of", "in:a,b"),
            ("member_of", "!in:c"),
            ("required", "in:A,B"),
            ("required", "C,!D"),
            ("resources", "VCPU:2,DISK_GB:1"),
        ],
        {"resource_providers": []},
        [],
    ),
    (lambda c: c.show_provider("u"), "/resource_providers/u", [], PROVIDER, PROVIDER),
    (
        lambda c: c.list_inventories("u"),
        "/resource_providers/u/inventories",
        [],
        INVENTORIES,
        INVENTORIES,
    ),
    (
        lambda c: c.show_inventory("u", "VCPU"),
        "/resource_providers/u/inventories/VCPU",
        [],
        {"total": 8},
        {"total": 8},
    ),
    (
        lambda c: c.list_provider_aggregates("u"),
        "/resource_providers/u/aggregates",
        [],
        AGGREGATES,
        AGGREGATES,
    ),
    (lambda c: c.list_provider_traits("u"), "/resource_providers/u/traits", [], TRAITS, TRAITS),
    (lambda c: c.list_traits(), "/traits", [], {"traits": ["A"]}, ["A"]),
    (
        lambda c: c.list_traits(name="startswith:CUSTOM", associated=True),
        "/traits",
        [("name", "startswith:CUSTOM"), ("associated", "True")],
        {"traits": []},
        [],
    ),
    (
        lambda c: c.list_resource_classes(),
        "/resource_classes",
        [],
        {"resource_classes": [{"name": "X"}]},
        [{"name": "X"}],
    ),
    (lambda c: c.show_resource_class("X"), "/resource_classes/X", [], {"name": "X"}, {"name": "X"}),
    (lambda c: c.list_allocations("c"), "/allocations/c", [], ALLOCATIONS, ALLOCATIONS),
    (
        lambda c: c.list_provider_allocations("u"),
        "/resource_providers/u/allocations",
        [],
        ALLOCATIONS,
        ALLOCATIONS,
    ),
    (
        lambda c: c.provider_usages("u"),
        "/resource_providers/u/usages",
        [],
        {"usages": {"VCPU": 1}},
        {"VCPU": 1},
    ),
    (
        lambda c: c.total_usages("p", user_id="u", consumer_type="INSTANCE"),
        "/usages",
        [("project_id", "p"), ("user_id", "u"), ("consumer_type", "INSTANCE")],
        {"usages": {"VCPU": 1}},
        {"VCPU": 1},
    ),
    (
        lambda c: c.allocation_candidates([("resources", "VCPU:1"), ("required1", "A"), ("required1", "B")]),
        "/allocation_candidates",
        [("resources", "VCPU:1"), ("required1", "A"), ("required1", "B")],
        CANDIDATES,
        CANDIDATES,
    ),
    (lambda c: c.versions(), "/", [], {"versions": [{"id": "v1.0"}]}, [{"id": "v1.0"}]),
]


@pytest.mark.parametrize(("call", "path", "query", "answer", "result"), READS)
def test_read_returns_the_document_of_its_operation(call, path, query, answer, result):
    """One GET, and the API's own document or list."""
    request, given = asked(call, "GET", path, answer, api_version="1.39")
    assert request.query == query
    assert request.body is None
    assert given == result


WRITES = [
    (lambda c: c.create_provider("n"), "POST", "/resource_providers", {"name": "n"}, PROVIDER),
    (
        lambda c: c.create_provider("n", uuid="u", parent="p"),
        "POST",
        "/resource_providers",
        {"name": "n", "uuid": "u", "parent_provider_uuid": "p"},
        PROVIDER,
    ),
    (lambda c: c.update_provider("u", "n"), "PUT", "/resource_providers/u", {"name": "n"}, PROVIDER),
    (
        lambda c: c.update_provider("u", "n", parent=None),
        "PUT",
        "/resource_providers/u",
        {"name": "n", "parent_provider_uuid": None},
        PROVIDER,
    ),
    (lambda c: c.delete_provider("u"), "DELETE", "/resource_providers/u", None, (204,)),
    (
        lambda c: c.set_inventories("u", {"VCPU": {"total": 8}}, 3),
        "PUT",
        "/resource_providers/u/inventories",
        {"inventories": {"VCPU": {"total": 8}}, "resource_provider_generation": 3},
        INVENTORIES,
    ),
    (
        lambda c: c.set_inventory("u", "VCPU", {"total": 8}, 3),
        "PUT",
        "/resource_providers/u/inventories/VCPU",
        {"total": 8, "resource_provider_generation": 3},
        {"total": 8},
    ),
    (
        lambda c: c.delete_inventory("u", "VCPU"),
        "DELETE",
        "/resource_providers/u/inventories/VCPU",
        None,
        (204,),
    ),
    (lambda c: c.delete_inventories("u"), "DELETE", "/resource_providers/u/inventories", None, (204,)),
    (
        lambda c: c.set_provider_aggregates("u", {"a"}, 3),
        "PUT",
        "/resource_providers/u/aggregates",
        {"aggregates": ["a"], "resource_provider_generation": 3},
        AGGREGATES,
    ),
    (
        lambda c: c.set_provider_traits("u", ("A",), 3),
        "PUT",
        "/resource_providers/u/traits",
        {"traits": ["A"], "resource_provider_generation": 3},
        TRAITS,
    ),
    (lambda c: c.delete_provider_traits("u"), "DELETE", "/resource_providers/u/traits", None, (204,)),
    (lambda c: c.show_trait("A"), "GET", "/traits/A", None, (204,)),
    (lambda c: c.delete_trait("A"), "DELETE", "/traits/A", None, (204,)),
    (lambda c: c.create_resource_class("X"), "POST", "/resource_classes", {"name": "X"}, (201,)),
    (lambda c: c.delete_resource_class("X"), "DELETE", "/resource_classes/X", None, (204,)),
    (lambda c: c.set_allocations("c", ALLOCATIONS), "PUT", "/allocations/c", ALLOCATIONS, (204,)),
    (lambda c: c.delete_allocations("c"), "DELETE", "/allocations/c", None, (204,)),
    (
        lambda c: c.set_many_allocations({"c": ALLOCATIONS}),
        "POST",
        "/allocations",
        {"c": ALLOCATIONS},
        (204,),
    ),
    (lambda c: c.reshape({"inventories": {}}), "POST", "/reshaper", {"inventories": {}}, (204,)),
]


@pytest.mark.parametrize(("call", "method", "path", "body", "answer"), WRITES)
def test_write_sends_the_body_of_its_operation(call, method, path, body, answer):
    """One request; what the API answers comes back, or nothing."""
    request, given = asked(call, method, path, answer, api_version="1.39")
    assert request.body == body
    assert given == (answer if isinstance(answer, dict) else None)


@pytest.mark.parametrize(("status", "is_new"), [(201, True), (204, False)])
@pytest.mark.parametrize(
    ("ensure", "path"),
    [
        (lambda c: c.create_trait("A"), "/traits/A"),
        (lambda c: c.ensure_resource_class("X"), "/resource_classes/X"),
    ],
)
def test_creation_of_a_name_tells_whether_it_was_there(ensure, path, status, is_new):
    """Both count as writes."""
    fake = FakePlacement().on("PUT", path, (status,))
    client = fake.client()
    assert (ensure(client), client.writes, fake.asked[-1].body) == (is_new, 1, None)


PAGE = "<html><title>Welcome</title></html>"
#: a page with each status that means success, documents of other kinds, and nothing at all from somebody else
STRANGE = {
    **{
        f"a page with {status}": (status, PAGE, {"content-type": "text/html"})
        for status in (200, 201, 204, 302)
    },
    **{
        f"an empty {status}": (status, "", {"openstack-api-version": ""})
        for status in (200, 201, 202, 204, 304)
    },
    "another service's 204": (204, "", {"openstack-api-version": "compute 2.1"}),
    "another document": {"message": "done"},
    "a list": (200, "[]", {"content-type": "application/json"}),
    "a number": (200, "17", {"content-type": "application/json"}),
    "truncated JSON": (200, '{"uuid": "u", "na', {"content-type": "application/json"}),
}
OPERATIONS = [(call, "GET", path, answer) for call, path, _, answer, _ in READS] + [
    (call, method, path, answer) for call, method, path, _, answer in WRITES
]


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize(("call", "method", "path", "answer"), OPERATIONS)
def test_operation_raises_bad_answer_at_an_answer_of_something_else(call, method, path, answer, strange):
    """Each knows the statuses, the content type and the shape of the answer, and believes no other."""
    fake = FakePlacement().on(method, path, strange)
    with pytest.raises(errors.BadAnswer) as caught:
        call(fake.client(api_version="1.39"))
    assert errors.is_outcome_unknown(caught.value) is (method != "GET")
    assert fake.client().writes == 0


@pytest.mark.parametrize(("call", "method", "path", "answer"), OPERATIONS)
def test_operation_raises_bad_answer_at_a_document_of_wrong_types(call, method, path, answer):
    """The keys are right, and what is in them is not; and a document that is right, called something else."""
    if not isinstance(answer, dict):
        return
    wrong = dict.fromkeys(answer)
    for strange in (wrong, (200, json.dumps(answer), {"content-type": "text/html"})):
        with pytest.raises(errors.BadAnswer):
            call(FakePlacement().on(method, path, strange).client(api_version="1.39"))


def test_a_provider_created_at_no_location_is_a_bad_answer():
    """Before 1.20 its address is all that is answered."""
    fake = FakePlacement("1.19").on("POST", "/resource_providers", (201,))
    with pytest.raises(errors.BadAnswer) as caught:
        fake.client().create_provider("host1")
    assert errors.is_outcome_unknown(caught.value)


UNKNOWN_YET = error(400, "Unknown resource class in inventory for u: No such resource class CUSTOM_X.")
TRAIT_UNKNOWN_YET = error(400, "No such trait CUSTOM_X")


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that were made, without their time."""
    made = []
    monkeypatch.setattr(operations.time, "sleep", made.append)
    return made


@pytest.mark.parametrize(
    ("path", "refusal", "answer", "make", "write"),
    [
        (
            "/resource_providers/u/inventories",
            UNKNOWN_YET,
            INVENTORIES,
            lambda c: c.ensure_resource_class("CUSTOM_X"),
            lambda c: c.set_inventories("u", {"CUSTOM_X": {"total": 1}}, 1),
        ),
        (
            "/resource_providers/u/traits",
            TRAIT_UNKNOWN_YET,
            TRAITS,
            lambda c: c.create_trait("CUSTOM_X"),
            lambda c: c.set_provider_traits("u", ["CUSTOM_X"], 1),
        ),
    ],
    ids=("class", "trait"),
)
def test_request_is_repeated_while_a_class_or_trait_just_made_is_unknown(
    pauses, path, refusal, answer, make, write
):
    """Another process of the server may not see it yet; what this client did not make is wrong at once."""
    fake = FakePlacement().on("PUT", path, refusal, refusal, answer)
    for kind in ("resource_classes", "traits"):
        fake.on("PUT", f"/{kind}/CUSTOM_X", (201,))
    client = fake.client()
    make(client)
    assert write(client) == answer
    assert fake.lines.count(f"PUT {path}") == 3
    fake.on("PUT", path, refusal)
    with pytest.raises(errors.BadRequest):
        write(client)
    assert fake.lines.count(f"PUT {path}") == 9
    with pytest.raises(errors.BadRequest):
        write(fake.client())
    assert fake.lines.count(f"PUT {path}") == 10
    assert sum(pauses) < 3


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"], ids=("NUL", "half a character"))
@pytest.mark.parametrize(
    "call",
    [
        lambda c, text: c.create_provider(text),
        lambda c, text: c.list_providers(name=text),
        lambda c, text: c.delete_trait(text),
        lambda c, text: c.set_allocations("c", {"allocations": {}, "project_id": text}),
        lambda c, text: c.set_many_allocations({text: {}}),
    ],
)
def test_text_that_cannot_be_stored_is_refused_before_it_is_sent(call, text):
    """In a path, a query, a body and its keys."""
    fake = FakePlacement()
    with pytest.raises(errors.PlacementError, match="cannot be sent to placement") as caught:
        call(fake.client(), text)
    assert not isinstance(caught.value, errors.UsageError)
    assert set(fake.lines) <= {"GET /"}


def test_aggregates_are_a_bare_list_before_generations():
    """1.1 to 1.18 know no generation there."""
    request, _ = asked(
        lambda c: c.set_provider_aggregates("u", ["a", "b"], None),
        "PUT",
        "/resource_providers/u/aggregates",
        {"aggregates": ["a", "b"]},
        api_version="1.18",
    )
    assert request.body == ["a", "b"]


def test_created_provider_is_read_back_before_1_20():
    """Before 1.20 there is only its address, in which a proxy may have put another host."""
    fake = FakePlacement("1.19")
    fake.on("POST", "/resource_providers", (201, "", {"Location": "http://inner:8778/resource_providers/u"}))
    fake.on("GET", "/resource_providers/u", PROVIDER)
    assert fake.client().create_provider("host1") == PROVIDER
    assert fake.lines == ["GET /", "POST /resource_providers", "GET /resource_providers/u"]


def test_names_are_quoted_in_paths():
    """A slash or a question mark in a name is part of the name."""
    fake = FakePlacement()
    with pytest.raises(errors.NotFound):
        fake.client().delete_trait("A/../B?x=y")
    assert fake.asked[-1].path == "/traits/A%2F..%2FB%3Fx%3Dy"
    assert fake.asked[-1].query == []


def test_an_empty_name_is_sent_as_a_condition():
    """Leaving it out would list, and then perhaps delete, any provider."""
    request, _ = asked(
        lambda c: c.list_providers(name=""),
        "GET",
        "/resource_providers",
        {"resource_providers": []},
        api_version="1.39",
    )
    assert "name=" in request.raw_query


@pytest.mark.parametrize(
    ("call", "minimum"),
    [
        (lambda c: c.list_provider_aggregates("u"), microversion.PROVIDER_AGGREGATES),
        (lambda c: c.set_provider_aggregates("u", [], None), microversion.PROVIDER_AGGREGATES),
        (lambda c: c.list_resource_classes(), microversion.RESOURCE_CLASSES),
        (lambda c: c.show_resource_class("X"), microversion.RESOURCE_CLASSES),
        (lambda c: c.create_resource_class("X"), microversion.RESOURCE_CLASSES),
        (lambda c: c.delete_resource_class("X"), microversion.RESOURCE_CLASSES),
        (lambda c: c.delete_inventories("u"), microversion.DELETE_INVENTORIES),
        (lambda c: c.list_traits(), microversion.TRAITS),
        (lambda c: c.show_trait("A"), microversion.TRAITS),
        (lambda c: c.create_trait("A"), microversion.TRAITS),
        (lambda c: c.delete_trait("A"), microversion.TRAITS),
        (lambda c: c.list_provider_traits("u"), microversion.TRAITS),
        (lambda c: c.set_provider_traits("u", [], 0), microversion.TRAITS),
        (lambda c: c.delete_provider_traits("u"), microversion.TRAITS),
        (lambda c: c.ensure_resource_class("X"), microversion.PUT_RESOURCE_CLASS_WITHOUT_BODY),
        (lambda c: c.total_usages("p"), microversion.TOTAL_USAGES),
        (lambda c: c.allocation_candidates([]), microversion.ALLOCATION_CANDIDATES),
        (lambda c: c.set_many_allocations({}), microversion.POST_ALLOCATIONS),
        (lambda c: c.create_provider("n", parent="p"), microversion.NESTED_PROVIDERS),
        (lambda c: c.update_provider("u", "n", parent="p"), microversion.NESTED_PROVIDERS),
        (lambda c: c.reshape({}), microversion.RESHAPER),
    ],
)
def test_an_operation_names_the_version_it_needs(call, minimum):
    """An old server would answer 404, which says nothing."""
    before = microversion.Version(1, minimum.minor - 1)
    fake = FakePlacement(str(before))
    with pytest.raises(errors.VersionTooLow) as caught:
        call(fake.client())
    assert caught.value.required == minimum
    assert fake.lines == ["GET /"]
    with pytest.raises(errors.NotFound):
        call(FakePlacement(str(minimum)).client())


def test_a_refusal_names_the_request_and_the_servers_code():
    """Facts for callers that decide by them."""
    fake = FakePlacement().on(
        "PUT", "/resource_providers/u/traits", error(409, "changed", code="placement.concurrent_update")
    )
    with pytest.raises(errors.Conflict) as caught:
        fake.client().set_provider_traits("u", ["A"], 1)
    assert (caught.value.method, caught.value.url[-27:]) == ("PUT", "/resource_providers/u/traits"[-27:])
    assert caught.value.concurrent_update
    assert caught.value.request_id == "req-1"


def test_request_can_use_another_version():
    """Where another version of one request does what the version in use cannot."""
    fake = FakePlacement().on("PUT", "/allocations/c", (204,))
    fake.client().set_allocations("c", ALLOCATIONS, microversion.REPARENTING)
    assert fake.asked[-1].headers["OpenStack-API-Version"] == "placement 1.37"


RECORD = {
    **PROVIDER,
    "inventories": {"VCPU": {"total": 8}},
    "usages": {"VCPU": 1},
    "traits": ["A"],
    "aggregates": ["a"],
}


def offer_each(fake):
    """Let a fake answer what there is to ask about one provider."""
    fake.on("GET", "/resource_providers", {"resource_providers": [PROVIDER]})
    fake.on("GET", "/resource_providers/u/inventories", INVENTORIES | {"resource_provider_generation": 3})
    fake.on("GET", "/resource_providers/u/usages", {"usages": {"VCPU": 1}})
    fake.on("GET", "/resource_providers/u/traits", TRAITS)
    return fake.on("GET", "/resource_providers/u/aggregates", AGGREGATES)


def test_a_bulk_read_is_one_request():
    """What is wanted, and the conditions, are in the query."""
    fake = FakePlacement().on("GET", "/-/providers", {"providers": [RECORD]})
    [record] = fake.client().read_providers({"required": ["A"], "in_tree": "u"})
    assert (record.provider.name, record.usages, record.traits) == ("host1", {"VCPU": 1}, {"A"})
    assert record.inventories["VCPU"].total == 8
    assert fake.asked[-1].query == [
        ("in_tree", "u"),
        ("required", "A"),
        ("want", "inventories,usages,traits,aggregates"),
    ]


def test_without_a_bulk_read_each_provider_is_read():
    """The values are the same, and whether there is a bulk read is asked once."""
    bulk = FakePlacement().on("GET", "/-/providers", {"providers": [RECORD]})
    fake = offer_each(FakePlacement())
    client = fake.client()
    assert list(client.read_providers()) == list(bulk.client().read_providers())
    list(client.read_providers(want=["traits"]))
    assert fake.lines.count("GET /-/providers") == 1
    assert fake.lines.count("GET /resource_providers/u/traits") == 2
    assert fake.lines.count("GET /resource_providers/u/usages") == 1


CONCURRENT = codes.CONCURRENT_UPDATE
CHANGES = [{"uuid": uuid, "resource_provider_generation": 3, "traits": ["A"]} for uuid in "uvw"]
RESULTS = {
    "results": [
        {"uuid": "u", "resource_provider_generation": 4},
        {"uuid": "v", "errors": [{"status": 409, "title": "Conflict", "detail": "no\n", "code": CONCURRENT}]},
        {"uuid": "w", "errors": [{"status": 404, "title": "Not Found", "detail": "gone"}]},
    ]
}


def test_bulk_write_returns_a_result_for_each_provider():
    """A generation, or the error that a write of its own would have raised."""
    fake = FakePlacement().on("POST", "/-/providers", RESULTS)
    moved, overtaken, gone = fake.client().change_many(CHANGES)
    assert (moved, str(gone)) == (4, "gone (HTTP 404)")
    assert isinstance(overtaken, errors.Conflict)
    assert overtaken.concurrent_update
    assert isinstance(gone, errors.NotFound)
    assert fake.asked[-1].body == {"changes": CHANGES}


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"errors": [{"status": 404, "detail": "no such path"}]}),
        (405, "<html><title>Method Not Allowed</title></html>"),
        (403, "<html><title>Forbidden</title></html>"),
    ],
    ids=("a server before", "a proxy", "a strict proxy"),
)
def test_missing_bulk_write_is_asked_for_once(answer):
    """It may have the bulk read all the same; where a proxy says so, it is not known whether it was done."""
    fake = FakePlacement().on("GET", "/-/providers", {"providers": []}).on("POST", "/-/providers", answer)
    client = fake.client()
    assert client.can_change_many("u")
    if isinstance(answer[1], dict):
        assert client.change_many(CHANGES) is None
    else:
        with pytest.raises(errors.ANSWER_LOST):
            client.change_many(CHANGES)
    assert not client.can_change_many("u")
    assert fake.lines.count("GET /-/providers") == 1


def test_no_bulk_write_is_sent_to_a_server_without_bulk_reads():
    """Only an answer in JSON proves that something there understands."""
    fake = FakePlacement().on("GET", "/-/providers", (200, "<html>Welcome</html>"))
    assert not fake.client().can_change_many("u")
    assert not FakePlacement("1.18").client().can_change_many("u")


@pytest.mark.parametrize(
    "answer",
    [{"results": [what] * 3} for what in ({"uuid": "u"}, 4, {"errors": []})]
    + [{"results": RESULTS["results"][:1]}, {"results": None}, {"done": True}],
    ids=str,
)
def test_results_of_a_bulk_write_that_cannot_be_read_are_a_bad_answer(answer):
    """What was done is not known then."""
    fake = FakePlacement().on("POST", "/-/providers", answer)
    with pytest.raises(errors.BadAnswer):
        fake.client().change_many(CHANGES)


#: how a server refuses to change a provider that does not exist, among changes that are all or none
NO_PROVIDER = {"errors": [{"uuid": "u", "status": 404, "title": "Not Found", "detail": "gone"}], "refused": 1}


@pytest.mark.parametrize(
    ("answer", "has_it"),
    [
        ((409, NO_PROVIDER), True),
        ((400, {"errors": [{"status": 400, "detail": "'atomic' was unexpected"}]}), False),
        ((404, {"errors": [{"status": 404, "detail": "no such path"}]}), False),
        ((405, {"errors": [{"status": 405, "detail": "not allowed"}]}), False),
        ((404, "<html>Not Found</html>"), False),
        ((403, "<html>Forbidden</html>"), False),
        ((200, "<html>Welcome</html>"), False),
    ],
    ids=("ours", "ours before", "another", "bulk reads alone", "a page", "a strict proxy", "a portal"),
)
def test_atomic_changes_are_asked_for_once_with_a_request_that_changes_nothing(answer, has_it):
    """It is about a provider that does not exist, with each part that is to be changed."""
    fake = FakePlacement().on("POST", "/-/providers", answer)
    client = fake.client()
    assert [client.can_change_atomically({"traits", "inventories"}) for _ in range(2)] == [has_it] * 2
    (asked,) = [request.body for request in fake.asked if request.method == "POST"]
    (change,) = asked["changes"]
    assert asked["atomic"]
    assert uuid.UUID(change.pop("uuid")).version == 4
    assert change == {"resource_provider_generation": 0, "inventories": {}, "traits": []}


def test_atomic_changes_are_asked_for_again_for_other_parts():
    """A caller may change traits and not aggregates."""
    refused = (403, {"errors": [{"status": 403, "title": "Forbidden", "detail": "not aggregates"}]})
    fake = FakePlacement().on("POST", "/-/providers", (409, NO_PROVIDER), refused)
    client = fake.client()
    assert client.can_change_atomically(["traits"])
    with pytest.raises(errors.Forbidden, match="not aggregates"):
        client.can_change_atomically(["aggregates"])


@pytest.mark.parametrize("answer", [(401, ""), (500, ""), (503, "<html></html>")], ids=str)
def test_server_that_fails_is_not_taken_for_one_without_atomic_changes(answer):
    """Nobody knows then."""
    fake = FakePlacement().on("POST", "/-/providers", answer)
    with pytest.raises(errors.PlacementError):
        fake.client().can_change_atomically(["traits"])


def test_old_version_has_no_atomic_changes():
    """Aggregates had no generation before; nothing is asked."""
    fake = FakePlacement("1.18")
    assert not fake.client().can_change_atomically(["traits"])
    assert "POST /-/providers" not in fake.lines


def test_right_to_reshape_is_asked_for_once_with_a_request_that_changes_nothing():
    """A reshape without inventories is refused, but not for the lack of a right."""
    fake = FakePlacement().on(
        "POST", "/reshaper", (400, {"errors": [{"status": 400, "detail": "should be non-empty"}]})
    )
    client = fake.client()
    for _ in range(2):
        client.require_reshape()
    (asked,) = [request.body for request in fake.asked if request.method == "POST"]
    assert asked == {"inventories": {}, "allocations": {}}


def test_missing_right_to_reshape_is_an_error_each_time():
    """The answer may change with the policy."""
    fake = FakePlacement().on("POST", "/reshaper", (403, {"errors": [{"status": 403, "detail": "not you"}]}))
    client = fake.client()
    for _ in range(2):
        with pytest.raises(errors.Forbidden):
            client.require_reshape()


def test_parts_that_were_not_asked_for_are_none():
    """Only what was asked for is read."""
    [record] = offer_each(FakePlacement()).client().read_providers(want=["traits"])
    assert (record.inventories, record.usages, record.aggregates) == (None, None, None)
    assert record.provider.generation == 4


def offer_consumers(fake):
    """Offer two providers, one of them gone, and a consumer that holds something elsewhere as well."""
    held = {"a": {"resources": {"VCPU": 1}}, "z": {"resources": {"VCPU": 2}}}
    told = {"project_id": "p", "user_id": "u", "consumer_generation": 4, "consumer_type": "INSTANCE"}
    listed = {"c": {"resources": {"VCPU": 1}}}
    fake.on("GET", "/resource_providers/a/allocations", {"allocations": listed})
    fake.on("GET", "/allocations/c", {"allocations": held, **told})
    other = {"uuid": "other", "allocations": {"z": held["z"]}, **told}
    return fake, {"consumers": [{"uuid": "c", "allocations": held, **told}, other]}


WHOLE = Consumer("c", 4, "p", "u", "INSTANCE", {"a": {"VCPU": 1}, "z": {"VCPU": 2}})


def test_consumers_of_providers_are_read_in_one_request():
    fake, consumers = offer_consumers(FakePlacement())
    fake.on("GET", "/-/allocations", consumers)
    assert list(fake.client().read_consumers(["a", "b"])) == [WHOLE]
    assert fake.lines == ["GET /", "GET /-/allocations"]


@pytest.mark.parametrize(
    ("settings", "found"),
    [({}, WHOLE), ({"whole": False}, Consumer("c", allocations={"a": {"VCPU": 1}}))],
    ids=("whole", "what they hold"),
)
def test_consumers_are_read_one_by_one_where_there_is_no_bulk_read(settings, found):
    """A provider that is gone by then has none."""
    fake, _ = offer_consumers(FakePlacement())
    client = fake.client(api_version="1.39")
    assert list(client.read_consumers(["a", "b"], **settings)) == [found]
    assert ("GET /allocations/c" in fake.lines) is (not settings)


def test_only_used_providers_are_asked_for_their_consumers():
    fake, _ = offer_consumers(FakePlacement())
    assert list(fake.client(api_version="1.28").read_consumers(["a", "b"], used=["b"])) == []
    assert fake.lines == ["GET /resource_providers/b/allocations"]


def test_programs_import_the_client_by_its_public_name():
    """The documentation of osc_placement.batch names it so."""
    assert client.PlacementClient is PlacementClient
