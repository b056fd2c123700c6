# SPDX-License-Identifier: Apache-2.0
"""One request to placement: where it goes, in which version, and what its failure means.

What client.py and operations.py stand on, and nothing else uses: nothing here knows what the API can do.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import requests
from keystoneauth1 import exceptions as keystone
from keystoneauth1.session import Session

from osc_placement import errors, microversion
from osc_placement.microversion import Version

NEGOTIATE = "1"
#: what a server is taken to speak whose root document cannot be read, as the plugin's earlier releases did
ASSUMED = microversion.NESTED_CANDIDATES
#: seconds to wait for an answer where neither the operator nor the session says; more than proxies do
PATIENCE = 600.0
#: and where somebody says more: twelve days, of the 24 that a socket can be told
LONGEST_PATIENCE = 1e6

Document = dict[str, Any]
Params = Mapping[str, Any] | Sequence[tuple[str, Any]]

#: what each endpoint was found to speak, kept as long as the session that asked: one request per process
_negotiated: WeakKeyDictionary[Session, dict[str, Version]] = WeakKeyDictionary()
_negotiating = threading.Lock()


class Transport:
    """Placement's address, the version in use and the way to send a request, for any number of threads."""

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

    # versions

    @property
    def version(self) -> Version:
        """The version in use; the first call may ask the server which versions it speaks."""
        if self._version is None:
            self._version = self._negotiate()
        return self._version

    @property
    def api_version(self) -> str:
        """The version in use, as text."""
        return str(self.version)

    def require(self, threshold: Version, what: str | None = None) -> None:
        """Raise VersionTooLow unless the version in use is at least ``threshold``."""
        if self.version < threshold:
            raise errors.VersionTooLow(self.version, threshold, what, negotiated=self.negotiates)

    def versions(self) -> list[Document]:
        """The entries of the root document; needs no token."""
        response = self._send("GET", "/", headers={}, authenticated=False)
        versions: list[Document] = read_document(response, "versions")["versions"]
        return versions

    def _negotiate(self) -> Version:
        with _negotiating:
            known = _negotiated.setdefault(self._session, {})
            endpoint = self.endpoint
            if endpoint not in known:
                known[endpoint] = min(microversion.MAX, self._server_maximum())
            return known[endpoint]

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
        """The address of the service, without a slash at the end; the first call may fetch a token."""
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
        self._session = _settle_environment(self._session, self.endpoint)
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
        """Send one request and return its answer, which succeeded; raise one of errors.py otherwise."""
        headers = {
            "OpenStack-API-Version": f"{self._service_type} {version or self.version}",
            "Accept": "application/json",
        }
        return self._send(method, path, headers=headers, json=json, params=params)

    def _send(self, method: str, path: str, **options: Any) -> requests.Response:
        url = self.endpoint + path
        timeout = min(self.timeout or self._session.timeout or PATIENCE, LONGEST_PATIENCE)
        try:
            response = self._session.request(url, method, raise_exc=False, timeout=timeout, **options)
        except keystone.ConnectionError as failure:
            if url not in str(failure):
                raise
            if isinstance(failure, keystone.ConnectTimeout):
                raise errors.TimedOut(method, url, timeout) from failure
            raise errors.Unreachable(method, url, _network_reason(failure)) from failure
        if response.status_code >= 400:
            raise errors.from_answer(method, url, response.status_code, response.reason, response.text)
        return response


def read_document(response: requests.Response, *expected: str) -> Document:
    """The document of an answer; BadAnswer unless it is a JSON object with the keys ``expected``."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict) and all(key in document for key in expected):
        return document
    request = response.request
    raise errors.BadAnswer(
        str(request.method), str(request.url), response.status_code, errors.describe_body(response.text)
    )


def _settle_environment(session: Session, url: str) -> Session:
    """A session that does the same, but looks up proxies, CA bundles and .netrc once instead of every time.

    PERF: these lookups, by requests, are a third of the processor time of a request. The connections are
    those of the original session, which is not changed.
    """
    original = session.session
    if not original.trust_env:
        return session
    settings = original.merge_environment_settings(url, {}, None, session.verify, session.cert)
    settled = copy.copy(original)
    settled.trust_env = False
    settled.proxies = settings["proxies"]
    settled.auth = original.auth or requests.utils.get_netrc_auth(url)
    same = copy.copy(session)
    same.session, same.verify, same.cert = settled, settings["verify"], settings["cert"]
    return same


def _network_reason(failure: Exception) -> str:
    """The innermost cause of a connection failure, which is the one that says something."""
    cause: BaseException = failure
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
