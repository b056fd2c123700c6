# SPDX-License-Identifier: Apache-2.0
"""The errors of the client's side, and how an error answer of the server becomes one of them.

    PlacementError                     exit status 1; an osc_lib CommandError
    |- UsageError                      an argument cannot be read; also a ValueError; exit status 2 of the
    |                                  commands that the reference plugin does not have, but with
    |                                  --detailed-exitcode 1
    |- VersionTooLow                   the API version in use is too low for the arguments; also a ValueError
    |- NameNotFound                    no provider has the name that was given
    |- EndpointMissing                 the service catalog has no placement endpoint
    |- Unreachable                     no answer came: refused, reset, TLS failure
    |  `- TimedOut                     no answer came in the time allowed
    |- BadAnswer                       an answer came, but not one of the placement API: a proxy's page
    |- Unconfirmed                     a page refuses a write; what placement did is unknown
    |  |- UnconfirmedUnauthorized      also Unauthorized
    |  `- UnconfirmedForbidden         also Forbidden
    |- OutcomeUnknown                  a command ended with one of these, maybe after a write
    `- HttpError                       placement refused the request
       |- BadRequest 400  Unauthorized 401  Forbidden 403  NotFound 404  Conflict 409  OverLimit 413
       |                               each is also the osc_lib exception of that status
       |- NotAcceptable 406            the server does not speak the version that was sent
       `- ServerError 5xx

This module does no I/O and knows no URL of the API.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from osc_lib import exceptions as osc

from osc_placement import codes

Document = dict[str, Any]

#: the statuses of a server that has no such route, or of a proxy that lets nobody through to it
NO_ROUTE = (403, 404, 405)

_TAG = re.compile(r"<[^<>]*>")
_TITLE = re.compile(r"<title[^<>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
#: the message with which servers older than 1.23, which send no code, report a concurrent update
_CONCURRENT_UPDATE_TEXTS = (
    "generation conflict",
    "generation already changed",
    "thread concurrently updated",
)


class PlacementError(osc.CommandError):
    """The base of all errors of a command; its text is one line."""

    @property
    def error_code(self) -> str | None:
        """Return what is wrong, for programs; of an error that has no code, that of its cause."""
        return getattr(self.__cause__, "error_code", None)


class UsageError(PlacementError, ValueError):
    """An argument of the operator cannot be read."""


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
    """No resource provider has this name.

    :param guess: a text with the names that are similar, from `api.names.suggest`
    """

    def __init__(self, name: str, guess: str = "") -> None:
        self.name = name
        super().__init__(
            f"No resource provider named {name!r} was found{guess}; "
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
    """No answer came to a request; ``reason`` is the network library's message.

    :param proxy: the address of the proxy to which the environment sends the request, if there is one
    """

    def __init__(self, method: str, url: str, reason: str, proxy: str = "") -> None:
        self.method = method
        self.url = url
        self.reason = reason
        advice = _name_proxy(proxy) or (
            "; check that the placement service runs and that its endpoint is this address"
        )
        super().__init__(f"{method} {url} got no answer: {reason}{advice}")


class TimedOut(Unreachable):
    """No answer came in the time allowed; the request may have been carried out all the same."""

    def __init__(self, method: str, url: str, seconds: float, proxy: str = "") -> None:
        super().__init__(method, url, "timed out")
        self.seconds = seconds
        text = (
            f"{method} {url} got no answer within {seconds:g} seconds; what it asked for may be done or not"
        )
        more = "--os-placement-timeout, of placement-migrate --timeout, allows more time"
        self.args = (f"{text}{_name_proxy(proxy)}. {more}",)


class BadAnswer(PlacementError):
    """An answer came that placement does not give, such as a proxy's page."""

    def __init__(self, method: str, url: str, status: int, answer: str, proxy: str = "") -> None:
        self.method = method
        self.url = url
        self.http_status = status
        self.answer = answer
        super().__init__(
            f"{method} {url} was answered with {answer} (HTTP {status}), which is not an answer of the "
            "placement API; check that placement is at this address (openstack endpoint list --service "
            f"placement) and that no proxy in front of it answers in its place{_name_proxy(proxy)}"
        )


class HttpError(PlacementError):
    """Placement refused a request.

    ``code`` and ``http_status`` are the HTTP status (``code`` because osc_lib's exceptions call it so),
    ``error_code`` is the API's own code (see codes.py), None if the server sent none.
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
        #: the whole answer, which may have several errors; ``document`` is the first
        self.answer: Document = {}

    def __str__(self) -> str:
        return f"{self.message} (HTTP {self.code})"

    @property
    def error_code(self) -> str | None:
        """Return the API's own code for the error; servers older than 1.23 send none."""
        return self.document.get("code")

    @property
    def request_id(self) -> str | None:
        """Return the request ID, which is in the server's log too."""
        return self.document.get("request_id")


class BadRequest(HttpError, osc.BadRequest):
    """400: the request is not valid."""


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
        """Return the highest version that the server supports, if the answer names it."""
        return self.document.get("max_version")

    def __str__(self) -> str:
        known = f"; the server speaks up to {self.max_version}" if self.max_version else ""
        return f"{self.message}{known} (HTTP {self.code})"


class Conflict(HttpError, osc.Conflict):
    """409: the request does not fit the state of the server."""

    @classmethod
    def found_here(cls, text: str) -> Conflict:
        """Return the conflict of a concurrent update that was noticed before the request was sent."""
        return cls(409, text, document={"code": codes.CONCURRENT_UPDATE})

    @property
    def concurrent_update(self) -> bool:
        """Return whether another client changed a provider or consumer meanwhile, so that a retry may
        succeed.

        False for a lack of capacity, a duplicate name, an inventory in use: a retry does not help.
        """
        if self.error_code is None:
            return any(text in self.message for text in _CONCURRENT_UPDATE_TEXTS)
        # openstack-placement also sends this code when an inventory that is in use is to be deleted
        return self.error_code == codes.CONCURRENT_UPDATE and not self.message.endswith("in use.")


class OverLimit(HttpError, osc.OverLimit):
    """413: the request is too large."""


class ServerError(HttpError):
    """5xx: the server, or the proxy before it, failed."""


class Unconfirmed(PlacementError):
    """A page in place of placement's answer refuses a write; it may come from a proxy."""


class UnconfirmedUnauthorized(Unconfirmed, Unauthorized):
    """401 without an error document and without a challenge, which token checks always send."""


class UnconfirmedForbidden(Unconfirmed, Forbidden):
    """403 without an error document."""


#: errors after which it is unknown whether a write was done
ANSWER_LOST = (Unreachable, ServerError, BadAnswer, Unconfirmed)


class OutcomeUnknown(PlacementError):
    """A command failed, and it is unknown whether what it wrote was done."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        known = "" if isinstance(reason, TimedOut) else "; it is not known whether it was done"
        super().__init__(f"{reason}{known}, so look before you try it again")


def is_outcome_unknown(error: Exception) -> bool:
    """Return whether the error leaves it unknown whether a write was done."""
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
#: statuses that are believed even without an error document: a proxy or an authentication filter may send
#: them
_TRUSTED_WITHOUT_DOCUMENT = {
    401: "the token was not accepted, with {}; check the credentials in use, and proxies before placement",
    403: "access was denied with {}; placement sends no such answer, so check the proxies and web servers in "
    "front of it",
    413: "the request is larger than the server, or what stands in front of it, takes",
}


def from_answer(
    method: str,
    url: str,
    status: int,
    reason: str,
    body: str,
    *,
    is_challenge: bool = False,
    proxy: str = "",
) -> PlacementError:
    """Make the error for an answer with a status of 400 and above, whatever its body is.

    :param is_challenge: whether the answer names a way to authenticate, as that of a token check must
    :param proxy: the address of the proxy to which the environment sent the request, if there is one
    """
    answer: Document = {}
    try:
        answer = json.loads(body)
        document: Document | None = answer["errors"][0]
    except (ValueError, LookupError, TypeError):
        document = None
    if not (isinstance(document, dict) and isinstance(document.get("detail"), str)):
        document = None
    kinds = _BY_STATUS
    if document is None and method != "GET" and not is_challenge:
        kinds = {**_BY_STATUS, **_UNCONFIRMED}
    error = _make(method, url, status, reason, body, document, kinds, proxy)
    if document is not None and isinstance(error, HttpError):
        error.answer = answer
    return error


def from_document(method: str, url: str, answer: Document) -> PlacementError:
    """Make the error for an error document that is a part of an answer; raise LookupError if it is none."""
    document = answer["errors"][0]
    return _make(method, url, document["status"], document["title"], "", document)


def _make(
    method: str,
    url: str,
    status: int,
    reason: str,
    body: str,
    document: Document | None,
    kinds: Mapping[int, type[HttpError]] = _BY_STATUS,
    proxy: str = "",
) -> PlacementError:
    error = kinds.get(status, HttpError)
    if status >= 500:
        if document:
            answer = last_line(document["detail"]) or reason
            request = document.get("request_id")
            # a proxy that answers in placement's place gives none
            where = f"request {request} in the placement server's log" if request else "the server's log"
            message = f"{method} {url} failed: {answer.rstrip('.')}; see {where}"
        else:
            message = (
                f"{method} {url} failed: {reason or 'an error'}, {describe_body(body)}; "
                f"check that the placement service runs behind this address{_name_proxy(proxy)}"
            )
        return ServerError(status, message, method=method, url=url, document=document)
    if document is not None:
        message = last_line(document["detail"]) or reason
        return error(status, message, method=method, url=url, document=document)
    if status in _TRUSTED_WITHOUT_DOCUMENT:
        told = _TRUSTED_WITHOUT_DOCUMENT[status].format(describe_body(body))
        return error(status, f"{method} {url}: {told}{_name_proxy(proxy)}", method=method, url=url)
    return BadAnswer(method, url, status, describe_body(body), proxy)


def _name_proxy(proxy: str) -> str:
    """Return what to do about a proxy that the environment names; nothing if there is none."""
    if not proxy:
        return ""
    return f"; http_proxy or https_proxy sends it through {proxy}: correct them, or add its host to no_proxy"


def advise_on_policy(error: Exception) -> str:
    """Return what to do where placement's policy refused the request, behind a semicolon; otherwise ""."""
    if not (isinstance(error, Forbidden) and error.document):
        return ""
    return (
        "; the user of the token has no role for it, which is usually admin: check which token is in use "
        "(openstack token issue), or placement's policy.yaml"
    )


def one_line(error: object) -> str:
    """Return the text of an error without line breaks."""
    return " ".join(str(error).split())


def without_password(url: str) -> str:
    """Return an address without a user and a password in it: it is shown, and stored in journals."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def network_reason(failure: BaseException) -> str:
    """Return the text of the innermost cause of a connection failure, which is the most specific one."""
    causes = [failure]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    # each networking library has a class of this name
    is_proxy = any(type(each).__name__ == "ProxyError" for each in causes)
    reason = getattr(causes[-1], "strerror", None) or str(causes[-1]) or type(causes[-1]).__name__
    return f"no connection to the proxy: {reason}" if is_proxy else reason


def last_line(detail: str) -> str:
    """Return the last line of an error's detail, which describes this case."""
    return detail.strip().rsplit("\n", 1)[-1].strip()


def describe_body(body: str) -> str:
    """Describe in a few words a body that is not what was expected."""
    text = body.strip()
    if not text:
        return "an empty body"
    if text.startswith("<"):
        title = _TITLE.search(text)
        words = one_line(html.unescape(_TAG.sub(" ", title[1] if title else text)))
        return f"an HTML page ({_shorten(words)})" if words else "an HTML page"
    return repr(_shorten(one_line(text)))


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."
