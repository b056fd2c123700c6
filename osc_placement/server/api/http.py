# SPDX-License-Identifier: Apache-2.0
"""Requests and responses: the parts of HTTP that several handlers need.

A handler takes a `Request` and returns a WebOb response made by a function of this module, such as `reply` or
`no_content`, which set the headers; the handler adds only the location of a new object, or a time of
modification.
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import jsonschema
import webob
import webob.exc
from jsonschema.exceptions import best_match

from osc_placement import codes, microversion
from osc_placement.microversion import Version
from osc_placement.model import check_text, is_uuid
from osc_placement.server import errors
from osc_placement.server.api.matching import Match, compile_schema
from osc_placement.server.api.schemas import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from oslo_config.cfg import ConfigOpts
    from oslo_context.context import RequestContext

    from osc_placement.candidates.node import Node
    from osc_placement.server.db.claim_queue import ClaimQueue
    from osc_placement.server.db.engine import Database
    from osc_placement.server.policy import Policy
    from osc_placement.server.process.cloud_metrics import CloudMetrics
    from osc_placement.server.process.health import Health, Patience
    from osc_placement.server.process.metrics import Metrics
    from osc_placement.server.snapshot.current import Current
    from osc_placement.server.snapshot.load import Loaded

P = ParamSpec("P")
T = TypeVar("T")

SERVICE_TYPE = "placement"
ENV_MICROVERSION = "placement.microversion"
ENV_REQUEST_ID = "openstack.request_id"
ENV_CONTEXT = "placement.context"
#: the path of the requested endpoint, as in the url table
ENV_ROUTE = "placement.route"

JSON = "application/json"

#: the limit, in characters, on an error's message, and on jsonschema's text before schema and data
LONGEST_MESSAGE: Final = 4000
_LONGEST_FAULT: Final = 1000


@dataclass(frozen=True, slots=True)
class Service:
    """The state of one application; made by `deploy.loadapp`, shared by its requests."""

    conf: ConfigOpts
    database: Database
    policy: Policy
    current: Current
    claims: ClaimQueue
    health: Health
    patience: Patience
    metrics: Metrics
    cloud: CloudMetrics


@dataclass(frozen=True, slots=True)
class Request:
    """A request with its microversion, path parameters, caller, and the service it is sent to."""

    web: webob.Request
    version: Version
    path: Mapping[str, str]
    context: RequestContext
    service: Service

    @property
    def database(self) -> Database:
        """Return the database that the handler reads and writes."""
        return self.service.database

    @property
    def current(self) -> Current:
        """Return the holder of the snapshot, which handlers search in place of the database."""
        return self.service.current

    def search(
        self,
        operation: Callable[Concatenate[Any, P], T],
        nothing: T,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Read the database, and return ``nothing`` if it cannot store a value that is searched for."""
        try:
            return self.database.read(operation, *args, **kwargs)
        except errors.Unstorable:
            return nothing

    def find_known(self) -> tuple[Loaded, Node] | None:
        """Return the provider in the path with the snapshot it is in.

        None means that the database has to be asked: the snapshot has no such provider, or reading it costs
        more than that (see `Current.get_if_cheap`).
        """
        loaded = self.current.get_if_cheap()
        slot = None if loaded is None else loaded.snapshot.slot_by_uuid.get(self.path["uuid"])
        return None if loaded is None or slot is None else (loaded, loaded.snapshot.nodes[slot])

    def authorize(self, rule: str, target: Mapping[str, object] | None = None) -> None:
        """Check the policy; :raises errors.Forbidden: the caller may not do this."""
        self.service.policy.authorize(self.context, rule, target)

    def json(self, schema: Schema) -> Any:
        """Read the body, which has to match the schema.

        :raises errors.HTTPError: 400 if the body is not JSON or does not match
        """
        try:
            text = self.web.body.decode()
            data = json.loads(
                text, parse_int=_parse_int, parse_float=_parse_float, parse_constant=_parse_float
            )
            if "\\u" in text:
                # only an escape can contain characters that are not text
                _check_texts(data)
            check(data, schema)
        except (ValueError, RecursionError) as error:
            raise errors.HTTPError(400, f"Malformed JSON: {error}") from error
        except OSError as error:
            raise errors.HTTPError(400, "The request body ended before its content-length.") from error
        return data

    @property
    def parameters(self) -> dict[str, str]:
        """Return the parameters of the query string, unchecked; of a repeated key the last value counts.

        :raises errors.HTTPError: 400 if the query string is not text
        """
        try:
            for pair in self.web.GET.items():
                check_text("".join(pair))
        except ValueError as error:
            raise errors.HTTPError(400, f"Invalid query string parameters: {error}") from error
        return dict(self.web.GET)

    def query(self, schema: Schema) -> dict[str, str]:
        """Read the query string, which has to match the schema."""
        parameters = self.parameters
        if problem := _find_problem(parameters, schema, _QUERY_FORMATS):
            raise errors.HTTPError(400, f"Invalid query string parameters: {problem}")
        return parameters

    def values(self, key: str) -> list[str]:
        """Return every value of a key in the query string, in order."""
        return list(self.web.GET.getall(key))

    def link(self, *parts: str) -> str:
        """Return the path of an object as clients see it, below the mount point of the service."""
        return "/".join((self.web.environ.get("SCRIPT_NAME", ""), *parts))


def _check_texts(data: object) -> None:
    if isinstance(data, str):
        check_text(data)
    elif isinstance(data, list):
        for item in data:
            _check_texts(item)
    elif isinstance(data, dict):
        _check_texts([*data, *data.values()])


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        # calculations with it, also in the database, would fail or be wrong
        raise ValueError(f"{text} is not a number that can be worked with")
    return number


def _parse_int(text: str) -> int:
    if len(text) > sys.float_info.max_10_exp:
        # the number must also fit a float, for multiplication with a ratio and for storage
        _parse_float(text)
    return int(text)


def require_json(web: webob.Request) -> None:
    """Check the content type of the body; :raises errors.HTTPError: 415 if it is not JSON."""
    if web.content_type != JSON:
        # WebOb quotes the header, which may be absent, in its message
        web.content_type = given = web.content_type or "None"
        raise errors.HTTPError(415, f"The media type {given} is not supported, use {JSON}")


def require_json_accepted(web: webob.Request) -> None:
    """Check what the client accepts; :raises errors.HTTPError: 406 if JSON is not among it."""
    # PERF: WebOb parses the header each time that it is read
    if web.environ.get("HTTP_ACCEPT") == JSON:
        return
    if (accepted := web.accept) and not accepted.acceptable_offers([JSON]):
        raise errors.HTTPError(406, f"Only {JSON} is provided")


_QUERY_FORMATS: Final = jsonschema.FormatChecker()
_BODY_FORMATS: Final = jsonschema.FormatChecker(formats=())
# bodies may have a UUID without dashes or in capitals; query strings may not
_BODY_FORMATS.checks("uuid")(lambda value: not isinstance(value, str) or is_uuid(value))


def _check_pattern(validator: Any, pattern: str, instance: object, schema: Schema) -> Iterator[Any]:
    # in JSON Schema, "$" matches the end of the text; in Python, also before a final newline
    if isinstance(instance, str) and not re.search(pattern.replace("$", r"\Z"), instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _check_unique(validator: Any, unique: bool, instance: object, schema: Schema) -> Iterator[Any]:
    # jsonschema compares each item with all others if it cannot sort them
    if isinstance(instance, list):
        texts = {json.dumps(item, sort_keys=True) for item in instance}
        if unique and len(texts) < len(instance):
            yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")


_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"pattern": _check_pattern, "uniqueItems": _check_unique}
)


#: validators by identity of their schemas, which are module constants, and of the format checker
_validators: dict[tuple[int, int], Any] = {}


#: functions that accept what certainly matches, by identity of the schemas, which are kept with them
_matches: dict[int, tuple[Match, Schema]] = {}


def _find_problem(data: object, schema: Schema, formats: jsonschema.FormatChecker) -> str | None:
    """Return jsonschema's message about the most relevant mismatch, or None if data match the schema."""
    key = id(schema), id(formats)
    # a validator refers to its schema, so that no other object gets the identity
    validator = _validators.get(key) or _validators.setdefault(
        key, _Validator(schema, format_checker=formats)
    )
    problem = best_match(validator.iter_errors(data))
    if problem is None:
        return None
    # the message begins with the invalid value, followed by the reason
    fault, rule, place = str(problem).partition("\n\n")
    return f"{shorten(fault, _LONGEST_FAULT)}{rule}{place}"


def check(data: object, schema: Schema) -> None:
    """Validate data; :raises errors.HTTPError: 400, with jsonschema's message, if they do not match."""
    match, _ = _matches.get(id(schema)) or _matches.setdefault(id(schema), (compile_schema(schema), schema))
    try:
        if match(data):
            return
        problem = _find_problem(data, schema, _BODY_FORMATS)
    except RecursionError as error:
        raise errors.HTTPError(400, f"Malformed JSON: {error}") from error
    if problem is not None:
        raise errors.HTTPError(400, f"JSON does not validate: {problem}")


def shorten(text: str, most: int = LONGEST_MESSAGE) -> str:
    """Return the text, without its middle if it is longer than ``most``."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def reply(request: Request, body: object, *, status: int = 200, modified: datetime | None = None) -> Any:
    """Answer with JSON; ``modified`` (UTC) defaults to now and is shown from 1.15 on."""
    return reply_bytes(request, json.dumps(body).encode(), status=status, modified=modified)


def reply_bytes(request: Request, body: bytes, *, status: int = 200, modified: datetime | None = None) -> Any:
    """Answer with JSON that is encoded already; otherwise as `reply`."""
    response = webob.Response(status=status, headerlist=[("Content-Type", JSON)], body=body)
    stamp(request, response, modified)
    return response


def reply_text(request: Request, body: bytes, content_type: str) -> Any:
    """Answer with something that is not JSON."""
    response = webob.Response(body=body, conditional_response=False)
    response.headers["Content-Type"] = content_type
    stamp(request, response, None)
    return response


def stream(
    request: Request, pieces: Iterator[bytes], *, length: int | None = None, modified: datetime | None = None
) -> Any:
    """Answer with JSON that is encoded in pieces, as fast as the client reads it.

    :param length: of all pieces in bytes; without it the answer is sent in chunks
    """
    response = webob.Response(headerlist=[("Content-Type", JSON)], app_iter=pieces)
    response.content_length = length
    stamp(request, response, modified)
    return response


def no_content(
    request: Request,
    *,
    status: int = 204,
    location: str | None = None,
    modified: datetime | None = None,
    dated: bool = False,
) -> Any:
    """Answer without a body, and so without a content type; ``dated`` ones carry last-modified from 1.15."""
    response = webob.Response(status=status, headerlist=[])
    if location is not None:
        response.location = location
    if dated:
        stamp(request, response, modified)
    return response


def stamp(request: Request, response: Any, modified: datetime | None) -> None:
    """Add the headers about caching that answers carry from 1.15 on; the response must not have them yet."""
    if request.version >= microversion.LAST_MODIFIED:
        time = format_datetime((modified or datetime.now(UTC)).replace(tzinfo=UTC), usegmt=True)
        # PERF: WebOb's attributes for these headers take ten times as long
        response.headerlist += ("Last-Modified", time), ("Cache-Control", "no-cache")


def find_latest(times: Iterable[datetime | None]) -> datetime | None:
    """Return the latest of the times of modification that are known; other programs store none."""
    return max((time for time in times if time is not None), default=None)


def error_response(error: errors.PlacementError) -> webob.exc.HTTPException:
    """Return the WebOb exception that answers an error in the format that the client accepts."""
    status = error.status
    message = error.message if isinstance(error, errors.HTTPError) else str(error)
    headers = list(error.headers.items()) if isinstance(error, errors.HTTPError) else []
    if status == 503:
        headers.append(("retry-after", "1"))
    exception_class = webob.exc.status_map[status]
    formatter = partial(error_document, code=error.code)
    return exception_class(message and shorten(message), headers=headers, json_formatter=formatter)


def describe_error(request: Request, error: errors.PlacementError) -> dict[str, Any]:
    """Return the document that would answer a request with this error, as a part of another answer."""
    environ = {**request.web.environ, "HTTP_ACCEPT": JSON}
    body = error_response(error)(environ, lambda *_given: None)
    document: dict[str, Any] = json.loads(b"".join(body))
    return document


_BREAK = re.compile("<br.*?>", re.DOTALL | re.IGNORECASE)
_COMMENT = re.compile("<!--|-->")
_TAG = re.compile("<.*?>", re.DOTALL)


def strip_tags(text: str) -> str:
    """Do the same as WebOb's function, whose time is quadratic in the length of the text."""
    text = text.replace("\n", " ").replace("\r", "")
    text = _COMMENT.sub("", _replace_closed(_BREAK, "\n", text))
    return _replace_closed(_TAG, "", text)


def _replace_closed(tag: re.Pattern[str], replacement: str, text: str) -> str:
    # no tag can end after the last ">", so the rest is not searched
    head, closing, rest = text.rpartition(">")
    return tag.sub(replacement, head + closing) + rest


def error_document(
    *, body: str, status: str, title: str, environ: Mapping[str, Any], code: str = codes.UNDEFINED
) -> dict[str, Any]:
    """Return the JSON body of an error, in the format of the API working group's guideline.

    The signature is that of WebOb's ``json_formatter``. Before the microversion is known, a 406 lists the
    supported versions.
    """
    number = int(status.split(None, 1)[0])
    entry: dict[str, Any] = {"status": number, "title": title, "detail": strip_tags(body)}
    version = environ.get(ENV_MICROVERSION)
    if version is not None and tuple(version) >= microversion.ERROR_CODES:
        entry["code"] = code
    if ENV_REQUEST_ID in environ:
        entry["request_id"] = environ[ENV_REQUEST_ID]
    if number == 406 and version is None:
        entry["max_version"] = str(microversion.MAX)
        entry["min_version"] = str(microversion.MIN)
    return {"errors": [entry]}
