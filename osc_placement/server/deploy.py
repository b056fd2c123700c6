# SPDX-License-Identifier: Apache-2.0
"""`loadapp`: the WSGI application for a configuration: the middleware, in order, around the url table.

No engine, rule or cache is global to the process: each belongs to one application.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import re
import time
import weakref
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import microversion_parse
import webob
import webob.exc
from oslo_context.context import RequestContext

from osc_placement import microversion
from osc_placement.microversion import Version
from osc_placement.model import check_text
from osc_placement.server import errors
from osc_placement.server.api import auth, http, routes
from osc_placement.server.db import resource_class, upgrade, usage
from osc_placement.server.db.claim_queue import ClaimQueue
from osc_placement.server.db.engine import Database
from osc_placement.server.policy import Policy
from osc_placement.server.process.cloud_metrics import CloudMetrics
from osc_placement.server.process.flavors import FlavorsFile
from osc_placement.server.process.health import Health, Patience
from osc_placement.server.process.limits import LARGEST_BODY
from osc_placement.server.process.metrics import Metrics
from osc_placement.server.snapshot.current import Current

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from wsgiref.types import InputStream, StartResponse, WSGIApplication, WSGIEnvironment

    from oslo_config.cfg import ConfigOpts

    from osc_placement.candidates.node import Node
    from osc_placement.server.observer import Observer

LOG = logging.getLogger(__name__)

#: the key of the WSGI environment from which oslo.context reads the id given by the caller
ENV_GLOBAL_REQUEST_ID = "openstack.global_request_id"
_REQUEST_ID = re.compile("req-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}")


def loadapp(conf: ConfigOpts, project_name: str | None = None) -> WSGIApplication:
    """Return the application for a configuration whose options `conf.register_opts` has registered.

    It may be called any number of times in one process, with different configurations.

    :param project_name: accepted because openstack-placement's ``loadapp`` does, and ignored as there
    """
    database = Database.from_conf(conf)
    atexit.register(_dispose, weakref.ref(database))
    if conf.placement_database.sync_on_startup:
        upgrade.upgrade(database)
    return make_application(conf, database)


def _dispose(reference: weakref.ref[Database]) -> None:
    """Close the connections of a process that ends."""
    if (database := reference()) is not None:
        database.dispose()


def make_application(conf: ConfigOpts, database: Database) -> WSGIApplication:
    """Return the application for a database that the caller has opened, and will close.

    The middleware is added innermost first, so a request passes it in reverse order. The order matters: the
    address of the caller is determined before it is logged; the request gets its id before an error is
    possible; CORS answers preflights, which carry no token, before authentication; an unexpected error is
    answered with the microversion's headers already decided.
    """
    metrics = Metrics()
    database.tell(metrics)
    current = Current(database, compare=conf.placement_database.other_programs_write)
    current.observer = metrics
    health = Health(database, current)

    def read_nodes() -> Sequence[Node]:
        health.get_ready()
        return current.get().snapshot.nodes

    def read_projects() -> list[tuple[str, str, int]]:
        return database.read(usage.by_project)

    flavors = FlavorsFile(conf.metrics.flavors_file)

    def read_flavors() -> list[tuple[str, int]]:
        classes = {each.name for each in database.read(resource_class.load_all)}
        return flavors.count(current.get().snapshot, classes)

    cloud = CloudMetrics(
        read_nodes,
        metrics.directory,
        by_provider=conf.metrics.by_provider,
        exporter_names=conf.metrics.openstack_exporter_names,
        read_projects=read_projects if conf.metrics.by_project else None,
        read_flavors=read_flavors if conf.metrics.flavors_file else None,
    )
    service = http.Service(
        conf,
        database,
        Policy(conf),
        current,
        ClaimQueue(database),
        health,
        Patience(conf.placement_database.write_patience),
        metrics,
        cloud,
    )
    # the paths that need no token; the root may be written without its slash
    public = {"", *(path for path, methods in routes.ROUTES.items() if routes.is_public(methods))}
    if conf.metrics.public:
        public.add("/-/metrics")
    application: WSGIApplication = Dispatcher(service)
    application = Negotiation(application)
    application = FaultWrapper(application)
    application = auth.Context(application, public)
    if conf.api.auth_strategy == "noauth2":
        application = auth.NoAuth(application, public)
    else:
        application = auth.keystone(application, conf, public)
    if conf.cors.allowed_origin:
        application = _allow_origins(application, conf)
    # errors in Keystone's middleware, such as for a catalog without Keystone, must not be shown to the client
    # either
    application = FaultWrapper(application)
    application = RequestLog(application, service.metrics)
    if conf.oslo_middleware.enable_proxy_headers_parsing:
        application = _read_proxy_headers(application, conf)
    return application


def _allow_origins(application: WSGIApplication, conf: ConfigOpts) -> WSGIApplication:
    """Return the application behind CORS; the middleware changes nothing for other clients than browsers."""
    from oslo_middleware import CORS

    cors = CORS(application, conf)

    def choose(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # PERF: the middleware makes two WebOb responses of each answer
        concerns = "HTTP_ORIGIN" in environ or environ["REQUEST_METHOD"] == "OPTIONS"
        body: Iterable[bytes] = (cors if concerns else application)(environ, start_response)
        return body

    return choose


def _read_proxy_headers(application: WSGIApplication, conf: ConfigOpts) -> WSGIApplication:
    """Return the application for requests that a proxy forwards."""
    from oslo_middleware import HTTPProxyToWSGI

    proxy = HTTPProxyToWSGI(application, conf)

    def read(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # PERF: called as an application, the middleware makes two WebOb responses of each answer
        proxy.process_request(webob.Request(environ))
        return application(environ, start_response)

    return read


class Negotiation:
    """Middleware that finds the microversion of a request, and adds it to the headers of the answer.

    PERF: microversion_parse has such a middleware, which copies all headers of the request and makes two more
    WebOb responses: a quarter of a small request.
    """

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body: Iterable[bytes]
        try:
            version = _find_version(environ.get("HTTP_OPENSTACK_API_VERSION", ""))
        except errors.HTTPError as error:
            body = http.error_response(error)(environ, start_response)
            return body
        environ[http.ENV_MICROVERSION] = version
        chosen = microversion_parse.STANDARD_HEADER, f"{http.SERVICE_TYPE} {version}"

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers += chosen, ("vary", microversion_parse.STANDARD_HEADER)
            return start_response(status, headers, exc_info)

        try:
            return self._application(environ, start)
        except webob.exc.HTTPError as answer:
            # an answer that is raised has no "vary" header
            answer.headerlist.append(chosen)
            body = answer(environ, start_response)
            return body


#: the methods of requests that change nothing
_READING = ("GET", "HEAD", "OPTIONS")
_VERSIONS = {str(version): version for version in microversion.ALL}
#: the versions by the headers that nearly all clients send
_USUAL = {f"{http.SERVICE_TYPE} {text}": version for text, version in _VERSIONS.items()}


def _find_version(header: str) -> Version:
    """Return the microversion that a header asks for, by default the oldest.

    :raises errors.HTTPError: 400 if the header is malformed or too long, 406 if there is no such version
    """
    if usual := _USUAL.get(header):
        return usual
    if len(header) > http.LONGEST_MESSAGE:
        # errors quote it
        problem = f"The header openstack-api-version may have {http.LONGEST_MESSAGE} characters at most."
        raise errors.HTTPError(400, problem)
    headers = {microversion_parse.STANDARD_HEADER: header}
    try:
        found = microversion_parse.extract_version(headers, http.SERVICE_TYPE, list(_VERSIONS))
    except ValueError as error:
        raise errors.HTTPError(406, f"Invalid microversion: {error}") from error
    except TypeError as error:
        raise errors.HTTPError(400, f"Invalid microversion: {error}") from error
    return _VERSIONS[str(found)]


class Dispatcher:
    """The innermost application: finds the endpoint of a request, checks it, and calls the handler."""

    def __init__(self, service: http.Service) -> None:
        self._service = service
        service.health.start()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            response = self._answer(environ)
        except errors.PlacementError as error:
            if error.status == 409:
                self._service.metrics.conflicted(error.code)
            response = http.error_response(error)
            if not error.varies:
                # `Negotiation` adds no "vary" header to an answer that is raised
                raise response from error
        body: Iterable[bytes] = response(environ, start_response)
        return body

    def _answer(self, environ: WSGIEnvironment) -> Any:
        web = webob.Request(environ)
        try:
            length = int(environ.get("CONTENT_LENGTH") or 0)
        except ValueError:
            raise errors.BadContentHeaders("content-length header must be an integer") from None
        _check_size(length)
        if length > 0 and not environ.get("CONTENT_TYPE"):
            raise errors.BadContentHeaders("content-type header required when content-length > 0")
        if not environ.get("CONTENT_LENGTH"):
            environ["wsgi.input"] = BoundedInput(environ["wsgi.input"])
        path: str = environ.get("PATH_INFO", "") or "/"
        # servers pass the bytes of the path as latin-1, callers in the process may pass text
        with contextlib.suppress(UnicodeEncodeError):
            path = path.encode("latin-1").decode("utf-8", "replace")
        try:
            check_text(path)
        except ValueError as error:
            raise errors.PathNotFound from error
        endpoint, parameters = routes.find(path, web.method)
        environ[http.ENV_ROUTE] = endpoint.path
        version: Version = environ[http.ENV_MICROVERSION]
        if version < endpoint.since:
            raise errors.HTTPError(endpoint.below)
        endpoint.require_media_types(web, version)
        request = http.Request(web, version, parameters, environ[http.ENV_CONTEXT], self._service)

        def answer() -> Any:
            if endpoint.needs_database:
                self._service.health.get_ready()
            return endpoint.answer(request)

        try:
            if web.method in _READING:
                return answer()
            return self._service.patience.repeat(answer, environ)
        except errors.Unstorable as error:
            if path.isascii():
                raise
            # the names that paths contain are ASCII
            raise errors.PathNotFound from error


def _check_size(length: int) -> None:
    if length > LARGEST_BODY:
        raise errors.HTTPError(413, f"A request body may have {LARGEST_BODY} bytes at most.")


class BoundedInput:
    """A reader for a body in chunks, without a known length, up to the largest size."""

    def __init__(self, source: InputStream) -> None:
        self._source = source
        self._length = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, no more than ``size``.

        :raises OSError: the bytes do not arrive
        :raises errors.HTTPError: 413 if the body is too long, 400 if the chunks are malformed
        """
        try:
            data = self._source.read(size)
        except OSError:
            raise
        except Exception as error:  # each server has its own error for malformed chunks
            LOG.debug("failed", exc_info=True)
            raise errors.HTTPError(400, "The request body is not in well-formed chunks.") from error
        self._length += len(data)
        _check_size(self._length)
        return data


class FaultWrapper:
    """Middleware that answers unexpected errors with a 500 that has the request's id and no internals."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return self._application(environ, start_response)
        except Exception:
            path = _quote(environ["PATH_INFO"])
            LOG.exception("unexpected error answering %s %s", environ["REQUEST_METHOD"], path)
            body: Iterable[bytes] = http.error_response(errors.HTTPError(500))(environ, start_response)
            return body


class RequestLog:
    """Middleware that gives each request an id, and counts and logs it when it is answered.

    A caller that is itself a service sends the id of the request it serves, so that the logs of all services
    involved can be matched; this is the "global" id of the context, and of log lines.
    """

    def __init__(self, application: WSGIApplication, observer: Observer) -> None:
        self._application = application
        self._observer = observer

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if _REQUEST_ID.fullmatch(inbound := environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")):
            environ[ENV_GLOBAL_REQUEST_ID] = inbound
        # log lines take the ids from the newest context of the thread: until authentication from this one,
        # which has no caller, as the headers about it are not verified yet
        request_id = RequestContext(
            request_id=environ.get(http.ENV_REQUEST_ID),
            global_request_id=environ.get(ENV_GLOBAL_REQUEST_ID),
        ).request_id
        environ[http.ENV_REQUEST_ID] = request_id
        # errors are JSON if the client accepts anything
        if environ.get("HTTP_ACCEPT", "") in ("", "*/*"):
            environ["HTTP_ACCEPT"] = http.JSON
        started = time.monotonic()

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers.append(("x-openstack-request-id", request_id))
            seconds = time.monotonic() - started
            version = environ.get(http.ENV_MICROVERSION)
            self._observer.answered(
                environ["REQUEST_METHOD"],
                # a request that was refused earlier, such as without a token, has no endpoint
                environ.get(http.ENV_ROUTE, ""),
                status[:3],
                "" if version is None else str(version),
                seconds,
            )
            if LOG.isEnabledFor(logging.INFO):
                _log_request(environ, status, headers, seconds)
            return start_response(status, headers, exc_info)

        return self._application(environ, start)


def _quote(text: str, safe: str = "") -> str:
    """Return a path or query for the log, quoted again as it was sent, so that no line can be forged."""
    return quote(text, f"/:@!$&'()*+,;={safe}", encoding="latin-1", errors="backslashreplace")


def _log_request(
    environ: WSGIEnvironment, status: str, headers: list[tuple[str, str]], seconds: float
) -> None:
    uri = _quote(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
    if environ.get("QUERY_STRING"):
        # existing quotes are kept
        uri += "?" + _quote(environ["QUERY_STRING"], "%?")
    length = next((value for name, value in headers if name.lower() == "content-length"), "-")
    facts = {
        "remote_address": environ.get("REMOTE_ADDR", "-"),
        "method": environ["REQUEST_METHOD"],
        "uri": uri,
        "status": status.split(None, 1)[0],
        "length": length,
        "microversion": str(environ.get(http.ENV_MICROVERSION, "-")),
        "seconds": round(seconds, 6),
    }
    text = '%s "%s %s" status: %s len: %s microversion: %s time: %.6f'
    # if oslo.log writes JSON, the facts are also included by name
    LOG.info(text, *facts.values(), extra={"extra": facts})
