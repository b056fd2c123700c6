# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on the client's side, as one tree, and how a refusal of the server becomes one of it.

    PlacementError                     exit status 1; an osc_lib CommandError
    |- UsageError                      what was typed cannot be read; also a ValueError
    |- VersionTooLow                   the API version in use lacks what was asked; also a ValueError
    |- NameNotFound                    no provider has the name that was given
    |- EndpointMissing                 the service catalog has no placement endpoint
    |- Unreachable                     no answer came: refused, reset, TLS failure
    |  `- TimedOut                     or not in the time allowed
    |- BadAnswer                       an answer came, but not placement's: a proxy's page, garbage, bad shape
    |- Unconfirmed                     a page refuses a write, which says nothing of what placement did
    |  |- UnconfirmedUnauthorized      also Unauthorized
    |  `- UnconfirmedForbidden         also Forbidden
    |- OutcomeUnknown                  one of these ended a command that writes
    `- HttpError                       placement said no
       |- BadRequest 400  Unauthorized 401  Forbidden 403  NotFound 404  Conflict 409  OverLimit 413
       |                               each is also the osc_lib exception of that status
       |- NotAcceptable 406            the server does not speak the version that was sent
       `- ServerError 5xx

No I/O happens here, and nothing here knows a URL of the API.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any

from osc_lib import exceptions as osc

from osc_placement import codes

Document = dict[str, Any]

_TAG = re.compile(r"<[^<>]*>")
_TITLE = re.compile(r"<title[^<>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
#: how servers older than 1.23, which send no code, say that somebody else was faster
_CONCURRENT_UPDATE_TEXTS = (
    "generation conflict",
    "generation already changed",
    "thread concurrently updated",
)


class PlacementError(osc.CommandError):
    """Whatever a command may end with; its text is one line."""


class UsageError(PlacementError, ValueError):
    """What the operator typed cannot be read."""


class VersionTooLow(PlacementError, ValueError):
    """The API version in use lacks the operation or argument ``what`` (None: the command itself)."""

    def __init__(
        self, version: object, required: object, what: str | None = None, *, negotiated: bool = False
    ) -> None:
        self.version = version
        self.required = required
        self.what = what
        super().__init__(
            f"Operation or argument is not supported with version {version}"
            f"{', the highest that this server speaks' if negotiated else ''}; "
            f"requires at least version {required}"
        )


class NameNotFound(PlacementError):
    """No resource provider has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"No resource provider named {name!r} was found; "
            "give its exact name or its UUID (see: openstack resource provider list)"
        )


class EndpointMissing(PlacementError):
    """The service catalog names no endpoint for placement."""

    def __init__(self, service_type: str, region: str | None, interface: str | Sequence[str] | None) -> None:
        self.service_type = service_type
        self.region = region
        self.interface = interface
        kinds = [interface or "public"] if isinstance(interface, str | None) else interface
        super().__init__(
            f"The service catalog has no {' or '.join(kinds)} endpoint of type {service_type!r} in "
            f"{f'region {region}' if region else 'any region'}; register one, or choose another "
            "with --os-region-name and --os-interface"
        )


class Unreachable(PlacementError):
    """No answer came to a request; ``reason`` is the network's own word for it."""

    def __init__(self, method: str, url: str, reason: str) -> None:
        self.method = method
        self.url = url
        self.reason = reason
        super().__init__(
            f"{method} {url} got no answer: {reason}; check that the placement service runs "
            "and that its endpoint is this address"
        )


class TimedOut(Unreachable):
    """No answer came in the time allowed; what was asked may have been done all the same."""

    def __init__(self, method: str, url: str, seconds: float) -> None:
        super().__init__(method, url, "timed out")
        self.seconds = seconds
        text = (
            f"{method} {url} got no answer within {seconds:g} seconds; what it asked for may be done or not"
        )
        self.args = (f"{text}. --os-placement-timeout, of placement-migrate --timeout, allows more time",)


class BadAnswer(PlacementError):
    """An answer came that placement does not give."""

    def __init__(self, method: str, url: str, status: int, answer: str) -> None:
        self.method = method
        self.url = url
        self.http_status = status
        self.answer = answer
        super().__init__(
            f"{method} {url} was answered with {answer} (HTTP {status}), which is not placement's; "
            "check that the placement endpoint is this address and what stands in front of it"
        )


class HttpError(PlacementError):
    """Placement refused a request.

    ``code`` and ``http_status`` are the HTTP status (``code`` because osc_lib's exceptions call it so),
    ``error_code`` is the API's own code (see codes.py), None where the server sent none.
    """

    code: int | str
    message: str

    def __init__(
        self, status: int, message: str, *, method: str = "", url: str = "", document: Document | None = None
    ) -> None:
        super().__init__(message)
        self.code = self.http_status = status
        self.message = message
        self.details: str | None = None
        self.method = method
        self.url = url
        self.document = document or {}

    def __str__(self) -> str:
        return f"{self.message} (HTTP {self.code})"

    @property
    def error_code(self) -> str | None:
        """The API's own code for the error; servers older than 1.23 send none."""
        return self.document.get("code")

    @property
    def request_id(self) -> str | None:
        """What finds the request in the server's log."""
        return self.document.get("request_id")


class BadRequest(HttpError, osc.BadRequest):
    """400: the request makes no sense to the server."""


class Unauthorized(HttpError, osc.Unauthorized):
    """401: no token, or one that the server does not accept."""


class Forbidden(HttpError, osc.Forbidden):
    """403: the token's owner may not do this."""


class NotFound(HttpError, osc.NotFound):
    """404: the object named does not exist."""


class NotAcceptable(HttpError):
    """406: the server does not speak the version that was sent."""

    @property
    def max_version(self) -> str | None:
        """The highest version that the server speaks, if it said so."""
        return self.document.get("max_version")

    def __str__(self) -> str:
        known = f"; the server speaks up to {self.max_version}" if self.max_version else ""
        return f"{self.message}{known} (HTTP {self.code})"


class Conflict(HttpError, osc.Conflict):
    """409: the request does not fit the state of the server."""

    @property
    def concurrent_update(self) -> bool:
        """Whether somebody else changed a provider or consumer meanwhile: read again, then try again.

        False for a lack of capacity, a duplicate name, an inventory in use: trying again does not help.
        """
        if self.error_code is None:
            return any(text in self.message for text in _CONCURRENT_UPDATE_TEXTS)
        # the reference gives this code to the deletion of an inventory that is in use as well
        return self.error_code == codes.CONCURRENT_UPDATE and not self.message.endswith("in use.")


class OverLimit(HttpError, osc.OverLimit):
    """413: the request is too large."""


class ServerError(HttpError):
    """5xx: the server, or the proxy before it, failed."""


class Unconfirmed(PlacementError):
    """A page refuses a write, and a proxy may have put it in place of the answer of placement."""


class UnconfirmedUnauthorized(Unconfirmed, Unauthorized):
    """401 without a document and without a challenge, which whoever checks tokens sends."""


class UnconfirmedForbidden(Unconfirmed, Forbidden):
    """403 without a document."""


#: after these nobody knows whether a write was done
ANSWER_LOST = (Unreachable, ServerError, BadAnswer, Unconfirmed)


class OutcomeUnknown(PlacementError):
    """A command ended with an error that does not tell whether what it wrote was done."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        known = "" if isinstance(reason, TimedOut) else "; it is not known whether it was done"
        super().__init__(f"{reason}{known}, so look before you try it again")


def is_outcome_unknown(error: Exception) -> bool:
    """Return whether this is the failure of a write of which nobody knows whether it was done."""
    return isinstance(error, ANSWER_LOST) and getattr(error, "method", "GET") != "GET"


_BY_STATUS: dict[int, type[HttpError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    406: NotAcceptable,
    409: Conflict,
    413: OverLimit,
}
_UNCONFIRMED: dict[int, type[HttpError]] = {401: UnconfirmedUnauthorized, 403: UnconfirmedForbidden}
#: statuses that mean what they say even when a proxy or an authentication filter sent them
_TRUSTED_WITHOUT_DOCUMENT = {
    401: "the token was not accepted; check the credentials in use",
    403: "access was denied; check the credentials in use",
    413: "the request is larger than the server, or what stands in front of it, takes",
}


def from_answer(
    method: str, url: str, status: int, reason: str, body: str, *, is_challenge: bool = False
) -> PlacementError:
    """Make the error for an answer with a status of 400 and above, whatever its body holds.

    ``is_challenge``: it names a way to authenticate, as an answer must that comes from a check of the token.
    """
    document = _error_document(body)
    if document is None and method != "GET" and not is_challenge and status in _UNCONFIRMED:
        message = f"{method} {url}: {_TRUSTED_WITHOUT_DOCUMENT[status]}"
        return _UNCONFIRMED[status](status, message, method=method, url=url)
    return _make(method, url, status, reason, body, document)


def from_document(method: str, url: str, answer: Document) -> PlacementError:
    """The same for a part of an answer that is placement's error document; LookupError if it is none."""
    document = answer["errors"][0]
    return _make(method, url, document["status"], document["title"], "", document)


def _make(
    method: str, url: str, status: int, reason: str, body: str, document: Document | None
) -> PlacementError:
    error = _BY_STATUS.get(status, HttpError)
    if status >= 500:
        message = _failure_text(method, url, reason, body, document)
        return ServerError(status, message, method=method, url=url, document=document)
    if document is not None:
        message = last_line(document["detail"]) or reason
        return error(status, message, method=method, url=url, document=document)
    if status in _TRUSTED_WITHOUT_DOCUMENT:
        message = f"{method} {url}: {_TRUSTED_WITHOUT_DOCUMENT[status]}"
        return error(status, message, method=method, url=url)
    return BadAnswer(method, url, status, describe_body(body))


def last_line(detail: str) -> str:
    """The part of an error's detail that says what happened in this case: its last line."""
    return detail.strip().rsplit("\n", 1)[-1].strip()


def describe_body(body: str) -> str:
    """Say in a few words what a body is that is not what was expected."""
    text = body.strip()
    if not text:
        return "an empty body"
    if text.startswith("<"):
        title = _TITLE.search(text)
        words = " ".join(html.unescape(_TAG.sub(" ", title[1] if title else text)).split())
        return f"an HTML page ({_shorten(words)})" if words else "an HTML page"
    return f"{_shorten(' '.join(text.split()))!r}"


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


def _error_document(body: str) -> Document | None:
    """The first entry of a placement error document; None if the body is anything else."""
    try:
        entry = json.loads(body)["errors"][0]
    except (ValueError, LookupError, TypeError):
        return None
    if isinstance(entry, dict) and isinstance(entry.get("detail"), str):
        return entry
    return None


def _failure_text(method: str, url: str, reason: str, body: str, document: Document | None) -> str:
    """What to say of a 5xx: the server's own word if it is one, else what came and where to look."""
    if document:
        answer = last_line(document["detail"]) or reason
        return (
            f"{method} {url} failed: {answer}; "
            f"see request {document.get('request_id')} in the placement server's log"
        )
    return (
        f"{method} {url} failed: {reason or 'an error'}, {describe_body(body)}; "
        "check that the placement service runs behind this address"
    )
