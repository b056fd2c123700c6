# SPDX-License-Identifier: Apache-2.0
"""osc_placement.errors: the tree, and what an answer of the server becomes."""

import inspect
import json

import pytest
from osc_lib import exceptions as osc

from osc_placement import codes, errors

URL = "http://placement.test/resource_providers"


def document(detail, **facts):
    """The body of a placement error."""
    return json.dumps({"errors": [{"status": 400, "title": "No", "detail": detail, **facts}]})


def translate(status, body, reason="Reason"):
    """The error for an answer to a GET."""
    return errors.from_answer("GET", URL, status, reason, body)


@pytest.mark.parametrize(
    ("status", "ours", "theirs"),
    [
        (400, errors.BadRequest, osc.BadRequest),
        (401, errors.Unauthorized, osc.Unauthorized),
        (403, errors.Forbidden, osc.Forbidden),
        (404, errors.NotFound, osc.NotFound),
        (405, errors.HttpError, osc.CommandError),
        (406, errors.NotAcceptable, osc.CommandError),
        (409, errors.Conflict, osc.Conflict),
        (413, errors.OverLimit, osc.OverLimit),
        (415, errors.HttpError, osc.CommandError),
        (500, errors.ServerError, osc.CommandError),
        (503, errors.ServerError, osc.CommandError),
    ],
)
def test_each_status_has_a_class_that_is_also_osc_libs(status, ours, theirs):
    """Callers that catch osc_lib's exception of a status catch ours."""
    error = translate(status, document("explanation\n\n what happened  "))
    assert type(error) is ours
    assert isinstance(error, theirs)
    assert error.code == error.http_status == status


def test_every_osc_lib_exception_of_a_status_has_a_counterpart():
    """No 4xx exception that osc_lib knows was forgotten."""
    for theirs in osc.ClientException.__subclasses__():
        if 400 <= theirs.http_status < 500:
            assert isinstance(translate(theirs.http_status, document("x")), theirs)


def test_a_refusal_prints_the_last_line_of_its_detail_and_the_status():
    """The explanation before it is the same for all errors of a status, so it is left out."""
    error = translate(
        404, document("The resource could not be found.\n\n No resource provider with uuid x found  ")
    )
    assert str(error) == "No resource provider with uuid x found (HTTP 404)"


@pytest.mark.parametrize(
    ("code", "detail", "expected"),
    [
        (codes.CONCURRENT_UPDATE, "anything", True),
        (codes.CONCURRENT_UPDATE, "Inventory for 'VCPU' on resource provider 'x' in use.", False),
        (codes.UNDEFINED, "Unable to allocate inventory: exceed the capacity", False),
        (codes.UNDEFINED, "consumer generation conflict", False),
        (codes.DUPLICATE_NAME, "Conflicting resource provider name: x already exists.", False),
        (None, "resource provider generation conflict", True),
        (None, "Resource provider's generation already changed. Please update", True),
        (None, "update conflict: Another thread concurrently updated the data.", True),
        (None, "Conflicting resource provider name: x already exists.", False),
    ],
)
def test_a_conflict_knows_whether_trying_again_can_help(code, detail, expected):
    """The server's code decides; servers older than 1.23 send none, so there its words do."""
    facts = {"code": code} if code else {}
    error = translate(409, document(detail, **facts))
    assert error.error_code == code
    assert error.concurrent_update is expected


def test_a_refused_version_says_what_the_server_speaks():
    """406 carries the highest version of the server."""
    error = translate(
        406, document("Unacceptable version header: 1.39", max_version="1.14", min_version="1.0")
    )
    assert error.max_version == "1.14"
    assert str(error) == "Unacceptable version header: 1.39; the server speaks up to 1.14 (HTTP 406)"


@pytest.mark.parametrize(
    ("status", "body", "ours", "words"),
    [
        (
            502,
            "<html><head><title>502 Bad Gateway</title></head></html>",
            errors.ServerError,
            "(502 Bad Gateway)",
        ),
        (500, "", errors.ServerError, "an empty body"),
        (500, document("Boom", request_id="req-7"), errors.ServerError, "Boom; see request req-7 in"),
        (503, document("A table is missing."), errors.ServerError, "failed: A table is missing; see the"),
        (503, document("maintenance"), errors.ServerError, "failed: maintenance; see the server's log"),
        (503, "no healthy upstream", errors.ServerError, "'no healthy upstream'"),
        (404, "<html><body><h1>Not Found</h1></body></html>", errors.BadAnswer, "an HTML page (Not Found)"),
        (404, "", errors.BadAnswer, "an empty body"),
        (400, '{"errors": []}', errors.BadAnswer, '{"errors": []}'),
        (400, '{"errors": [{"title": "x"}]}', errors.BadAnswer, "title"),
        (400, '{"errors": {"detail": "x"}}', errors.BadAnswer, "detail"),
        (409, "[1, 2", errors.BadAnswer, "'[1, 2'"),
        (429, "slow down", errors.BadAnswer, "'slow down'"),
        (401, "<html>Authentication required</html>", errors.Unauthorized, "the token was not accepted"),
        (
            401,
            '{"error": {"code": 401, "title": "Unauthorized"}}',
            errors.Unauthorized,
            "token was not accepted",
        ),
        (
            403,
            "denied by proxy",
            errors.Forbidden,
            "access was denied with 'denied by proxy'; placement sends no",
        ),
        (
            403,
            "<html><title>ERR_ACCESS_DENIED</title></html>",
            errors.Forbidden,
            "with an HTML page (ERR_ACCESS_DENIED); placement sends no such answer, so check the proxies",
        ),
        (
            413,
            "<html><h1>Request Entity Too Large</h1></html>",
            errors.OverLimit,
            "the request is larger than",
        ),
        (413, "", errors.OverLimit, "the request is larger than"),
    ],
)
def test_an_answer_of_something_else_becomes_one_line(status, body, ours, words):
    """Whatever a proxy or a broken server sends: what was asked, what came, what to do, on one line."""
    error = translate(status, body)
    assert type(error) is ours
    text = str(error)
    assert text.startswith(f"GET {URL}")
    assert words in text
    assert f"(HTTP {status})" in text
    assert "\n" not in text


def test_a_long_page_is_shortened():
    """A proxy's page does not fill the terminal."""
    assert len(str(translate(502, "<p>" + "word " * 1000))) < 300


def test_every_class_of_the_tree_is_drawn():
    """The docstring of the module shows each class."""
    classes = [
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if value.__module__ == errors.__name__
    ]
    assert errors.Conflict in classes
    for error in classes:
        assert issubclass(error, errors.PlacementError)
        assert error.__name__ in errors.__doc__


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            errors.VersionTooLow("1.5", "1.6"),
            "Operation or argument is not supported with version 1.5; requires at least version 1.6",
        ),
        (errors.NameNotFound("host1"), "No resource provider named 'host1' was found; "),
        (
            errors.EndpointMissing("placement", None, None),
            "no public endpoint of type 'placement' in any region",
        ),
        (
            errors.EndpointMissing("placement", "R", "internal"),
            "no internal endpoint of type 'placement' in region R",
        ),
        (
            errors.Unreachable("GET", URL, "Connection refused"),
            f"GET {URL} got no answer: Connection refused; ",
        ),
    ],
)
def test_an_error_makes_its_sentence_of_its_facts(error, text):
    """What was asked, what is so, and where there is something to do, that too."""
    assert text in str(error)


@pytest.mark.parametrize("error", [errors.VersionTooLow, errors.UsageError])
def test_usage_error_is_a_value_error(error):
    """The reference raised ValueError there."""
    assert issubclass(error, ValueError)
