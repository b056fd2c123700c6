# SPDX-License-Identifier: Apache-2.0
"""One request to placement: its address, its microversion, and the error that its failure raises.

Only client.py and operations.py import it. It knows no operation of the API.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

import requests
from keystoneauth1 import exceptions as keystone
from keystoneauth1.session import Session

from osc_placement import errors, microversion
from osc_placement.microversion import Version
from osc_placement.model import check_text

NEGOTIATE = "1"
#: what a server is taken to speak whose root document cannot be read, as the plugin's earlier releases did
ASSUMED = microversion.NESTED_CANDIDATES
#: seconds to wait for an answer where neither the operator nor the session says; more than proxies do
PATIENCE = 600.0
#: and where somebody says more: twelve days, of the 24 that a socket can be told
LONGEST_PATIENCE = 1e6
#: how many redirects of one request are followed
_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 305, 307, 308)

Document = dict[str, Any]
Response = requests.Response
Params = Mapping[str, Any] | Sequence[tuple[str, Any]]
#: what JSON has to be: a type; a list of one shape; an object with these keys, of which ... is every one
Shape = Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an operation that succeeds: it has one of ``statuses``, and a document or none.

    ``shape`` is that of the document; None for an empty body.
    """

    statuses: tuple[int, ...]
    shape: Shape = None


def document(shape: Shape) -> Answer:
    """Return the answer of an operation that answers 200 with a document of this shape."""
    return Answer((200,), shape)


_VERSIONS: Final = document({"versions": [dict]})

#: what each endpoint was found to speak, kept as long as the session that asked: one request per process
_negotiated: WeakKeyDictionary[Session, dict[str, Version]] = WeakKeyDictionary()
_negotiating = threading.Lock()


class Transport:
    """A connection to placement, with its address and the version in use, for any number of threads."""

    def __init__(
        self,
        session: Session,
        *,
        service_type: str = "placement",
        region_name: str | None = None,
        interface: str | list[str] | None = None,
        api_version: str = NEGOTIATE,
        endpoint: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self._session = session
        #: the session as it was given, for what is remembered of it
        self._given_session = session
        self._service_type = service_type
        self._region_name = region_name
        self._interface = interface
        self._endpoint = endpoint
        #: seconds to wait for an answer, where that was said
        self.timeout = timeout
        self._version = None if api_version == NEGOTIATE else microversion.parse(api_version)
        #: whether the version in use is for the client to choose
        self.negotiates = self._version is None
        #: how many writes were confirmed by placement; more or less, as threads do not wait for each other
        self.writes = 0
        #: the resource classes and traits that this client has made or found to exist
        self.made: set[str] = set()

    # versions

    @property
    def version(self) -> Version:
        """Return the version in use; the first call may ask the server which versions it speaks."""
        if self._version is None:
            with _negotiating:
                known = _negotiated.setdefault(self._session, {})
                endpoint = self.endpoint
                if endpoint not in known:
                    known[endpoint] = min(microversion.MAX, self._server_maximum())
                self._version = known[endpoint]
        return self._version

    @property
    def api_version(self) -> str:
        """Return the version in use as text."""
        return str(self.version)

    def require(self, threshold: Version, what: str | None = None) -> None:
        """Raise VersionTooLow unless the version in use is at least ``threshold``."""
        if self.version < threshold:
            raise errors.VersionTooLow(self.version, threshold, what, negotiated=self.negotiates)

    def versions(self) -> list[Document]:
        """Return the entries of the root document; needs no token."""
        response = self._send("GET", "/", headers={}, authenticated=False)
        versions: list[Document] = read_answer(response, _VERSIONS)["versions"]
        return versions

    def _server_maximum(self) -> Version:
        try:
            return microversion.parse(self.versions()[0]["max_version"])
        except errors.NotAcceptable as refusal:
            return microversion.parse(refusal.max_version) if refusal.max_version else ASSUMED
        except (errors.Unreachable, errors.ServerError):
            raise
        except (errors.PlacementError, LookupError, TypeError, ValueError):
            return ASSUMED

    # requests

    @property
    def endpoint(self) -> str:
        """Return the address of the service, without a slash at the end; the first call may fetch a token."""
        if self._endpoint is None:
            with contextlib.suppress(keystone.EndpointNotFound):
                self._endpoint = self._session.get_endpoint(
                    service_type=self._service_type, region_name=self._region_name, interface=self._interface
                )
        if not self._endpoint:
            raise errors.EndpointMissing(self._service_type, self._region_name, self._interface)
        return self._endpoint.rstrip("/")

    def allow_concurrency(self, threads: int) -> None:
        """Prepare for many requests by as many threads; call it before they start."""
        original, url = self._session.session, self.endpoint
        if original.trust_env:
            # PERF: look up proxies, CA bundles and .netrc once: requests does for every request, which is a
            # third of its processor time. The connections are those of the original session, which is not
            # changed
            own = self._session
            settings = original.merge_environment_settings(url, {}, None, own.verify, own.cert)
            settled = copy.copy(original)
            settled.trust_env = False
            settled.proxies = settings["proxies"]
            settled.auth = original.auth or requests.utils.get_netrc_auth(url)
            self._session = copy.copy(own)
            self._session.session = settled
            self._session.verify, self._session.cert = settings["verify"], settings["cert"]
        for adapter in self._session.session.adapters.values():
            if isinstance(adapter, requests.adapters.HTTPAdapter) and adapter._pool_maxsize < threads:
                adapter.init_poolmanager(adapter._pool_connections, threads, adapter._pool_block)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Params | None = None,
        version: Version | None = None,
    ) -> requests.Response:
        """Send one request and return its answer if it succeeds; raise one of errors.py otherwise.

        Raise PlacementError, and send nothing, if it has text that cannot be sent or stored.
        """
        check_texts([json, list(params.items()) if isinstance(params, Mapping) else list(params or ())])
        headers = {
            "OpenStack-API-Version": f"{self._service_type} {version or self.version}",
            "Accept": "application/json",
        }
        return self._send(method, path, headers=headers, json=json, params=params)

    def _send(self, method: str, path: str, **options: Any) -> requests.Response:
        url = self.endpoint + path
        timeout = min(self.timeout or self._session.timeout or PATIENCE, LONGEST_PATIENCE)
        target, redirects = url, _MOST_REDIRECTS if self._session.redirect else 0
        while True:
            try:
                response = self._session.request(
                    target, method, raise_exc=False, redirect=False, timeout=timeout, **options
                )
            except keystone.ConnectionError as failure:
                if target not in str(failure):
                    raise
                shown, proxy = errors.without_password(target), self._find_proxy(target)
                if isinstance(failure, keystone.ConnectTimeout):
                    raise errors.TimedOut(method, shown, timeout, proxy) from failure
                reason = errors.network_reason(failure)
                raise errors.Unreachable(method, shown, reason, proxy) from failure
            location = response.headers.get("location") if response.status_code in _REDIRECTS else None
            if not location or not redirects:
                break
            # keystoneauth follows none that is relative, and a failure there looks like one of Keystone
            target, redirects = urljoin(target, location), redirects - 1
            options["params"] = None
        if response.status_code >= 400:
            raise errors.from_answer(
                method,
                errors.without_password(target),
                response.status_code,
                response.reason,
                response.text,
                is_challenge="www-authenticate" in response.headers,
                proxy=self._find_proxy(target),
            )
        return response

    def _find_proxy(self, url: str) -> str:
        """Return the address of the proxy to which the environment sends requests; "" where there is none."""
        settings = self._session.session.merge_environment_settings(url, {}, None, None, None)
        proxy = requests.utils.select_proxy(url, settings["proxies"]) or ""
        return errors.without_password(proxy if "://" in proxy or not proxy else f"http://{proxy}")


def read_answer(response: requests.Response, answer: Answer) -> Document:
    """Return the document of an answer, {} where there is none; raise BadAnswer if it is no such answer.

    An answer without a document must have the header with the API version, which placement sends with every
    answer and a proxy does not.
    """
    if response.status_code not in answer.statuses:
        raise _bad_answer(response)
    if answer.shape is None:
        versions = response.headers.get("openstack-api-version", "")
        if response.content or not versions.startswith("placement "):
            raise _bad_answer(response)
        return {}
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        found: Document | None = response.json() if kind == "application/json" else None
    except ValueError:
        found = None
    if found is None or not _has_shape(found, answer.shape):
        raise _bad_answer(response)
    return found


def _has_shape(value: object, shape: Shape) -> bool:
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(item, shape[0]) for item in value)
    if not isinstance(shape, dict):
        return isinstance(value, shape)
    if not isinstance(value, dict):
        return False
    if ... in shape:
        return all(_has_shape(item, shape[...]) for item in value.values())
    return all(key in value and _has_shape(value[key], wanted) for key, wanted in shape.items())


def _bad_answer(response: requests.Response) -> errors.BadAnswer:
    request, status = response.request, response.status_code
    what = errors.describe_body(response.text)
    if status in _REDIRECTS:
        what = f"a redirect to {response.headers.get('location', 'nowhere')}"
    elif not response.content:
        what = f"{what} and {response.headers.get('openstack-api-version') or 'no API version'}"
    return errors.BadAnswer(str(request.method), errors.without_password(str(request.url)), status, what)


def check_texts(data: object) -> None:
    """Raise PlacementError if there is text in plain data that cannot be sent or stored."""
    if isinstance(data, str):
        try:
            check_text(data)
        except ValueError as error:
            raise errors.PlacementError(f"{data!r} cannot be sent to placement: {error}") from None
    elif isinstance(data, list | tuple):
        for item in data:
            check_texts(item)
    elif isinstance(data, dict):
        check_texts([*data, *data.values()])
