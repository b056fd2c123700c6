# SPDX-License-Identifier: Apache-2.0
"""Requests read and responses made, without an application around them."""

import datetime
import json

import jsonschema
import pytest
import webob
import webob.exc
from hypothesis import given
from hypothesis import strategies as st

from osc_placement import codes, microversion
from osc_placement.server import errors
from osc_placement.server.api import http

ANYTHING = {}
NAMED = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}, "required": ["name"]}


def make_request(body=b"", query="", version=microversion.MAX, **environ):
    """A request as a handler gets it; no service is behind it."""
    web = webob.Request.blank(f"/?{query}", method="POST", body=body, environ=environ)
    return http.Request(web, version, {}, None, None)


def read(body, schema=ANYTHING):
    """The body."""
    return make_request(body).json(schema)


def read_in_vain(body, schema=ANYTHING):
    """The complaint about a body."""
    with pytest.raises(errors.HTTPError) as caught:
        read(body, schema)
    assert caught.value.status == 400
    return caught.value.message


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_is_read(data):
    """What is JSON without NUL is read as it was meant, escaped or not."""
    for ascii_ in (True, False):
        text = json.dumps(data, ensure_ascii=ascii_)
        if "\\u0000" not in text:
            assert read(text.encode()) == data


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "Malformed JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{", "Malformed JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", "Malformed JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"\xef\xbb\xbf{}", "Malformed JSON: Unexpected UTF-8 BOM"),
        ("{}".encode("utf-16"), "Malformed JSON: 'utf-8' codec can't decode"),
        (b"NaN", "Malformed JSON: NaN is not a number that can be worked with"),
        (b"[-1e999]", "Malformed JSON: -1e999 is not a number that can be worked with"),
        (b"9" * 5000, "Malformed JSON: 9999"),
        (b"-" + b"9" * 309, f"Malformed JSON: -{'9' * 309} is not a number that can be worked with"),
        (b'"\\u0000"', "Malformed JSON: text must not contain the character NUL"),
        (b'[{"\\ud800": 1}]', "Malformed JSON: 'utf-8' codec can't encode character '\\ud800'"),
        (b"[" * 100_000, "Malformed JSON: "),
    ],
)
def test_malformed_json_is_refused(body, complaint):
    """The complaint says where it went wrong."""
    assert read_in_vain(body).startswith(complaint)


def test_a_pair_of_surrogates_is_a_character():
    """What JSON escapes in two halves is whole."""
    assert read(b'"\\ud83d\\udca5"') == "\N{COLLISION SYMBOL}"


@pytest.mark.parametrize("number", [10**308, -(10**308), 2**31, 0])
def test_an_integer_that_a_float_can_be_is_read(number):
    """To the last digit."""
    assert read(str(number).encode()) == number


def test_the_last_value_of_a_repeated_key_is_used():
    """As it does in openstack-placement."""
    assert read(b'{"name": "a", "name": "b"}', NAMED) == {"name": "b"}


def test_a_body_has_to_match_the_schema():
    """The complaint is jsonschema's, schema and instance included."""
    assert read_in_vain(b'{"name": "too long"}', NAMED) == (
        "JSON does not validate: 'too long' is too long\n\n"
        "Failed validating 'maxLength' in schema['properties']['name']:\n"
        "    {'type': 'string', 'maxLength': 5}\n\n"
        "On instance['name']:\n    'too long'"
    )


def test_a_body_that_ends_early_is_refused():
    """A client that promises more than it sends gets an answer."""
    web = webob.Request.blank("/", method="POST")
    web.environ |= {"CONTENT_LENGTH": "10", "wsgi.input": Broken()}
    with pytest.raises(errors.HTTPError) as caught:
        http.Request(web, microversion.MAX, {}, None, None).json(ANYTHING)
    assert caught.value.status == 400


class Broken:
    """The input of a client that went away."""

    def read(self, size=-1):
        """Fail as WebOb does when the input is shorter than it should be."""
        raise OSError("the client disconnected while sending the body")


UUID_SCHEMA = {"type": "string", "format": "uuid"}


def test_a_uuid_in_a_body_may_lack_dashes_but_not_in_a_query():
    """Which is odd, and openstack-placement's."""
    undashed = "12345678123412341234123456789012"
    assert read(json.dumps(undashed).encode(), UUID_SCHEMA) == undashed
    schema = {"properties": {"uuid": UUID_SCHEMA}}
    with pytest.raises(errors.HTTPError) as caught:
        make_request(query=f"uuid={undashed}").query(schema)
    assert caught.value.message.startswith(f"Invalid query string parameters: '{undashed}' is not a 'uuid'")


@pytest.mark.parametrize("name", ["ABC\n", "\nABC", "abc"])
def test_a_pattern_does_not_match_before_a_final_newline(name):
    """JSON Schema's "$" is the end, though Python's lets a newline follow."""
    with pytest.raises(errors.HTTPError) as caught:
        http.check(name, {"type": "string", "pattern": "^[A-Z]+$"})
    assert caught.value.message.startswith(f"JSON does not validate: {name!r} does not match '^[A-Z]+$'")
    http.check("ABC", {"type": "string", "pattern": "^[A-Z]+$"})


UNIQUE = {"type": "array", "uniqueItems": True}


class Compared(dict):
    """A dictionary that counts what it takes to compare it with another."""

    looks = 0

    def __len__(self):
        Compared.looks += 1
        return super().__len__()


def test_unique_items_are_checked_in_linear_time():
    """Those that cannot be sorted neither."""
    http.check([Compared(number=number) for number in range(300)], UNIQUE)
    assert Compared.looks < 3000


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, True, "1", "true", None, [1], [True], {"a": 1}, {"a": True}, {}, []], True),
        (["a", "b", "a"], False),
        ([{"a": 1, "b": [2]}, 3, {"b": [2], "a": 1}], False),
    ],
)
def test_items_are_compared_as_json_values(items, unique):
    """A boolean does not equal a number, and the order of properties does not matter."""
    assert jsonschema.Draft202012Validator(UNIQUE).is_valid(items) == unique
    if unique:
        http.check(items, UNIQUE)
    else:
        with pytest.raises(errors.HTTPError, match="has non-unique elements"):
            http.check(items, UNIQUE)


def test_the_last_value_of_a_repeated_parameter_is_used():
    """All values are available as well."""
    request = make_request(query="a=1&b=2&a=3")
    assert request.query(ANYTHING) == {"a": "3", "b": "2"}
    assert request.values("a") == ["1", "3"]
    assert request.values("c") == []


@pytest.mark.parametrize("query", ["a=%ff", "%ff=a", "a=%00", "%00=a", "a=%00&a=b"])
def test_a_query_has_to_be_text(query):
    """Bytes that are none, and NUL, are refused before the schema is asked."""
    with pytest.raises(errors.HTTPError) as caught:
        make_request(query=query).query(ANYTHING)
    assert caught.value.status == 400


def test_links_start_where_the_service_is_mounted():
    """SCRIPT_NAME is the mount point."""
    assert make_request(SCRIPT_NAME="/placement").link("traits", "X") == "/placement/traits/X"
    assert make_request().link("traits", "X") == "/traits/X"


MODIFIED = datetime.datetime(2030, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("dated", [True, False])
def test_answers_are_dated_from_1_15_on(dated):
    """Before, neither header is there."""
    version = microversion.LAST_MODIFIED if dated else microversion.POST_ALLOCATIONS
    response = http.reply(make_request(version=version), {}, modified=MODIFIED)
    assert response.headers.get("last-modified") == ("Wed, 02 Jan 2030 03:04:05 GMT" if dated else None)
    assert response.headers.get("cache-control") == ("no-cache" if dated else None)


def test_an_answer_with_a_body_says_what_it_is():
    """JSON, without a character set, in UTF-8."""
    response = http.reply(make_request(), {"a": "é"}, status=201)
    assert (response.status_int, response.headers["content-type"]) == (201, "application/json")
    assert response.json == {"a": "é"}


def test_an_answer_without_a_body_has_no_type():
    """Nor a date, unless asked for."""
    response = http.no_content(make_request(), location="/x")
    assert (response.status_int, response.content_type, response.last_modified) == (204, None, None)
    assert response.location == "/x"
    assert http.no_content(make_request(), dated=True, modified=MODIFIED).last_modified.year == 2030


def answer(error, version=None, **environ):
    """The response to an error, as the client of a microversion gets it."""
    environ["HTTP_ACCEPT"] = environ.get("HTTP_ACCEPT", http.JSON)
    if version is not None:
        environ[http.ENV_MICROVERSION] = version
    request = webob.Request.blank("/", environ=environ)
    return request.get_response(http.error_response(error))


def test_an_error_is_told_in_the_form_of_the_api_guidelines():
    """Status, title, explanation and message; the request's id where it has one."""
    response = answer(errors.ProviderNotFound("x"), **{http.ENV_REQUEST_ID: "req-1"})
    assert response.json == {
        "errors": [
            {
                "status": 404,
                "title": "Not Found",
                "detail": "The resource could not be found.\n\n No resource provider with uuid x found  ",
                "request_id": "req-1",
            }
        ]
    }


@pytest.mark.parametrize(("version", "known"), [((1, 22), False), ((1, 23), True), ((1, 39), True)])
def test_an_error_has_a_code_from_1_23_on(version, known):
    """The code of the class, or the default one."""
    for error, code in (
        (errors.ProviderInUse(), codes.PROVIDER_IN_USE),
        (errors.TreeRefused("create", "of this"), codes.UNDEFINED),
    ):
        entry = answer(error, version).json["errors"][0]
        assert entry.get("code") == (code if known else None)


def test_a_message_stays_on_one_line_and_is_no_markup():
    """Clients show the last line of the detail; tags are taken out, in HTML escaped."""
    error = errors.HTTPError(400, "one\ntwo <b>three</b>")
    assert answer(error).json["errors"][0]["detail"].endswith("\n\n one two three  ")
    page = answer(error, HTTP_ACCEPT="text/html")
    assert page.content_type == "text/html"
    assert "&lt;b&gt;three" in page.text


@given(st.lists(st.sampled_from(["<", ">", "<!--", "-->", "<BR", "br", "/", "x", "\n", "\r"])).map("".join))
def test_markup_is_taken_out_as_webob_does(text):
    """Whatever is opened, closed, or neither."""
    assert http.strip_tags(text) == webob.exc.strip_tags(text)


def test_a_long_message_keeps_its_beginning_and_end():
    """A long quotation at the beginning or end does not hide the error."""
    complaint = read_in_vain(json.dumps({"name": "x" * 9000}).encode(), NAMED)
    assert "xxx' is too long\n\nFailed validating 'maxLength'" in complaint
    told = answer(errors.HTTPError(400, complaint)).json["errors"][0]["detail"]
    assert "xxx' is too long  Failed validating 'maxLength'" in told
    assert len(told) < http.LONGEST_MESSAGE + 200


@pytest.mark.parametrize("tag", ["<", "<br"])
def test_unclosed_markup_is_searched_in_linear_time(tag):
    """Searching the rest of the text after each bracket would take hours."""
    text = "<b>" + tag * 1_000_000
    assert http.strip_tags(text) == text[3:]


def test_a_503_has_a_retry_after_header():
    """A client that may try again is told when."""
    response = answer(errors.TooMuchContention())
    assert (response.status_int, response.headers["retry-after"]) == (503, "1")


def test_a_406_lists_the_supported_versions():
    """The list is in a 406 before a microversion is negotiated, and not afterwards."""
    before = answer(errors.HTTPError(406, "no")).json["errors"][0]
    assert (before["min_version"], before["max_version"]) == ("1.0", "1.39")
    assert "min_version" not in answer(errors.HTTPError(406, "no"), (1, 39)).json["errors"][0]
