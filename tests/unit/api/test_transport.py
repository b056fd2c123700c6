# SPDX-License-Identifier: Apache-2.0
"""osc_placement.api.transport: versions, addresses, connections, and failures below the API."""

import http.server
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from keystoneauth1 import exceptions as keystone
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement import errors, microversion
from osc_placement.api.client import PlacementClient
from tests.unit.fake_placement import ENDPOINT, FakePlacement, error

USAGES = "/resource_providers/u/usages"


@pytest.fixture
def fake():
    """A service that answers one request besides the root."""
    return FakePlacement().on("GET", USAGES, {"usages": {"VCPU": 1}})


def test_constructing_a_client_sends_no_request(fake):
    """OpenStackClient may construct one at every access."""
    fake.client()
    fake.client(api_version="1.5")
    assert fake.asked == []


@pytest.mark.parametrize(
    ("servers", "version"),
    [("1.0", "1.0"), ("1.14", "1.14"), ("1.39", "1.39"), ("1.99", "1.39"), ("2.5", "1.39")],
)
def test_the_highest_version_of_both_sides_is_used(servers, version):
    """The root document says what the server speaks."""
    fake = FakePlacement(servers).on("GET", USAGES, {"usages": {}})
    client = fake.client()
    client.provider_usages("u")
    assert client.api_version == version
    assert fake.asked[-1].headers["OpenStack-API-Version"] == f"placement {version}"


def test_negotiation_is_one_request_without_a_token(fake):
    """However many requests and clients follow on one session."""
    client = fake.client()
    client.provider_usages("u")
    client.provider_usages("u")
    PlacementClient(client._session).provider_usages("u")
    assert fake.lines == ["GET /", *[f"GET {USAGES}"] * 3]
    assert "X-Auth-Token" not in fake.asked[0].headers
    assert fake.asked[1].headers["X-Auth-Token"] == "secret"


def test_threads_that_start_together_negotiate_once(fake):
    """The first asks, the others wait for its answer."""
    client = fake.client()
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda _: client.provider_usages("u"), range(64)))
    assert fake.lines.count("GET /") == 1


def test_an_explicit_version_is_used_as_given(fake):
    """Without a question to the server, even where the server would refuse it."""
    fake.client(api_version="1.77").provider_usages("u")
    assert fake.lines == [f"GET {USAGES}"]
    assert fake.asked[0].headers["OpenStack-API-Version"] == "placement 1.77"


@pytest.mark.parametrize("text", ["1.x", "one", "", "1.2.3"])
def test_a_malformed_version_is_refused_before_any_request(fake, text):
    """It cannot wait for the first request."""
    with pytest.raises(ValueError, match="invalid version number"):
        fake.client(api_version=text)


def test_highest_version_is_read_from_a_406():
    """A 406 in the way of the root document carries the server's highest version."""
    fake = FakePlacement().on("GET", "/", error(406, "Unacceptable version header", max_version="1.14"))
    assert fake.client().version == microversion.NESTED_PROVIDERS


@pytest.mark.parametrize(
    "answer",
    [
        (404, "<html>not here</html>"),
        (200, "<html>a dashboard</html>"),
        {"versions": []},
        {"versions": [{"max_version": "latest"}]},
        {"versions": {"values": []}},
        error(406, "Unacceptable version header"),
        (401, "who are you?"),
    ],
)
def test_unreadable_root_document_selects_the_default_version(answer):
    """Some proxies hide it; the plugin then takes the version it always took."""
    fake = FakePlacement().on("GET", "/", answer).on("GET", USAGES, {"usages": {}})
    client = fake.client()
    assert client.provider_usages("u") == {}
    assert client.version == microversion.NESTED_CANDIDATES


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_error_at_the_root_ends_the_negotiation(status):
    """There is no sense in asking a server further that is out of order."""
    fake = FakePlacement().on("GET", "/", (status, ""))
    with pytest.raises(errors.ServerError):
        fake.client().provider_usages("u")
    assert fake.lines == ["GET /"]


def test_an_operation_the_version_lacks_is_refused_before_it_is_sent(fake):
    """With the text that the reference has for it."""
    client = fake.client(api_version="1.5")
    with pytest.raises(errors.VersionTooLow) as caught:
        client.list_traits()
    assert str(caught.value) == (
        "Operation or argument is not supported with version 1.5; requires at least version 1.6"
    )
    client.require(microversion.DELETE_INVENTORIES)
    assert fake.asked == []


def test_refused_connection_is_a_one_line_error():
    """What was asked, what happened, what to do."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(errors.Unreachable) as caught:
        PlacementClient(Session(auth=Token(url, "t"))).list_providers()
    assert str(caught.value).startswith(f"GET {url}/ got no answer: Connection refused; check that ")
    assert caught.value.reason == "Connection refused"


@pytest.fixture
def dead_proxy(monkeypatch):
    """The address of a proxy that does not run, which the environment names with a password."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://joe:s3cret@{address}")
    return f"http://{address}"


@pytest.mark.parametrize("scheme", ["", "http://", "http://joe:s3cret@"])
def test_dead_proxy_of_the_environment_is_named(monkeypatch, dead_proxy, scheme):
    """Placement may run, as it was not asked; the password of the proxy is not shown."""
    monkeypatch.setenv("http_proxy", dead_proxy.replace("http://", scheme))
    with pytest.raises(errors.Unreachable) as caught:
        PlacementClient(Session(auth=Token(ENDPOINT, "t"))).list_providers()
    assert str(caught.value) == (
        f"GET {ENDPOINT}/ got no answer: no connection to the proxy: Connection refused; http_proxy or "
        f"https_proxy sends it through {dead_proxy}: correct them, or add its host to no_proxy"
    )


@pytest.mark.parametrize("is_read_by_many", [False, True])
@pytest.mark.parametrize(("status", "is_ours"), [(403, False), (407, False), (502, False), (403, True)])
def test_page_of_a_proxy_of_the_environment_names_the_proxy(
    fake, dead_proxy, status, is_ours, is_read_by_many
):
    """An error of placement itself does not."""
    page = error(status, "no") if is_ours else (status, "<html>Denied</html>")
    client = fake.on("GET", USAGES, page).client(api_version="1.5")
    if is_read_by_many:
        client.allow_concurrency(2)
    with pytest.raises(errors.PlacementError) as caught:
        client.provider_usages("u")
    assert (f"sends it through {dead_proxy}:" in str(caught.value)) != is_ours


def test_password_of_a_proxy_without_a_scheme_is_not_shown(fake, monkeypatch, dead_proxy):
    """Libraries take what is before the colon for the scheme."""
    monkeypatch.setenv("http_proxy", dead_proxy.replace("http://", "joe:s3cret@"))
    fake.on("GET", USAGES, (502, "<html>Denied</html>"))
    with pytest.raises(errors.ServerError) as caught:
        fake.client(api_version="1.5").provider_usages("u")
    assert (f"through {dead_proxy}:" in str(caught.value), "s3cret" in str(caught.value)) == (True, False)


def test_password_in_an_address_is_not_in_errors():
    """The text of an error is shown, and stored in the journal of a run."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(errors.Unreachable) as caught:
        PlacementClient(Session(auth=Token(f"http://joe:s3cret@{address}", "t"))).list_providers()
    assert str(caught.value).startswith(f"GET http://{address}/ got no answer: ")
    assert errors.without_password("https://[::1]:8778/p?q") == "https://[::1]:8778/p?q"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (requests.exceptions.ReadTimeout("read timed out"), "timed out"),
        (requests.exceptions.SSLError("certificate has expired"), "certificate has expired"),
        (requests.exceptions.ChunkedEncodingError("connection broken"), "connection broken"),
        (requests.exceptions.ConnectionError(), "ConnectionError"),
    ],
)
def test_every_failure_of_the_network_is_unreachable(fake, failure, reason):
    """The innermost cause is what is shown."""
    fake.on("GET", USAGES, failure)
    with pytest.raises(errors.Unreachable) as caught:
        fake.client().provider_usages("u")
    assert caught.value.reason == reason
    assert caught.value.url == ENDPOINT + USAGES


@pytest.mark.parametrize(
    ("timeout", "of_session", "waited"),
    [(None, None, 600.0), (None, 5.0, 5.0), (2.0, 5.0, 2.0), (1e99, None, 1e6)],
)
def test_every_request_has_a_timeout(timeout, of_session, waited):
    """What the operator says counts, then what the session has; each request is bounded."""
    fake = FakePlacement().on("GET", USAGES, {"usages": {}})
    client = fake.client(timeout=timeout)
    client._session.timeout = of_session
    client.provider_usages("u")
    assert [request.timeout for request in fake.asked] == [waited, waited]


def test_timeout_is_a_one_line_error():
    """It takes the connection and is silent: how long was waited is said, and how to wait longer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.TimedOut) as caught:
            PlacementClient(Session(auth=Token(url, "t")), timeout=0.1).list_providers()
    assert str(caught.value) == (
        f"GET {url}/ got no answer within 0.1 seconds; what it asked for may be done or not. "
        "--os-placement-timeout, of placement-migrate --timeout, allows more time"
    )


class FailingAuth(BaseAuthPlugin):
    """Keystone cannot be reached."""

    def __init__(self, failure):
        super().__init__()
        self.failure = failure

    def get_token(self, session, **_):
        """Fail, as at the first request that needs a token."""
        raise self.failure

    def get_endpoint(self, session, **_):
        """The catalog was read before."""
        return ENDPOINT


@pytest.mark.parametrize(
    "failure",
    [
        keystone.ConnectFailure("Unable to establish connection to http://keystone/v3/auth/tokens: refused"),
        keystone.Unauthorized("The request you have made requires authentication."),
        keystone.MissingRequiredOptions([]),
    ],
)
def test_a_failure_of_keystone_is_raised_unchanged(fake, failure):
    """It is one clear line already, and not about placement."""
    client = PlacementClient(Session(auth=FailingAuth(failure), session=fake.session), api_version="1.5")
    with pytest.raises(type(failure)) as caught:
        client.provider_usages("u")
    assert caught.value is failure


class Catalog(BaseAuthPlugin):
    """A service catalog with one entry."""

    def get_token(self, session, **_):
        """Any token."""
        return "secret"

    def get_endpoint(self, session, **query):
        """The entry, if it is what is asked for."""
        wanted = {"service_type": "placement", "region_name": "R", "interface": "internal"}
        return f"{ENDPOINT}/" if query.items() >= wanted.items() else None


def test_the_endpoint_comes_from_the_catalog(fake):
    """By service type, region and interface; a slash at its end does no harm."""
    session = Session(auth=Catalog(), session=fake.session)
    PlacementClient(session, region_name="R", interface="internal").provider_usages("u")
    assert fake.lines == ["GET /", f"GET {USAGES}"]


def test_missing_catalog_entry_is_a_one_line_error(fake):
    """It says what was looked for."""
    session = Session(auth=Catalog(), session=fake.session)
    with pytest.raises(errors.EndpointMissing, match="no internal endpoint of type 'placement' in region X"):
        PlacementClient(session, region_name="X", interface="internal").provider_usages("u")
    assert fake.asked == []


def test_an_endpoint_can_be_given_without_a_catalog(fake):
    """For Python callers: no keystone is needed then."""
    client = PlacementClient(Session(session=fake.session), endpoint=ENDPOINT)
    assert client.provider_usages("u") == {"VCPU": 1}


@pytest.mark.parametrize("body", ["", "<html>login</html>", "[]", "null", "17", '{"usage": {}}', "{"])
def test_a_success_from_something_else_is_a_bad_answer(fake, body):
    """A page with status 200, or JSON of another shape."""
    fake.on("GET", USAGES, (200, body))
    with pytest.raises(errors.BadAnswer) as caught:
        fake.client().provider_usages("u")
    assert str(caught.value).startswith(f"GET {ENDPOINT}{USAGES} was answered with ")
    assert "\n" not in str(caught.value)


def test_a_redirect_is_followed(fake):
    """As from http to https; a relative one too, which the conditions in the query go with."""
    fake.on("GET", USAGES, (301, "", {"location": "/placement/there?x=y"}))
    fake.on("GET", "/there", (307, "", {"location": f"{ENDPOINT}/here"}))
    fake.on("GET", "/here", {"usages": {"VCPU": 2}})
    assert fake.client().provider_usages("u") == {"VCPU": 2}
    assert fake.asked[-2].query == [("x", "y")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/there", (200, "<html>login</html>")),
        ("/there", (404, "<html>gone</html>")),
        ("/there", requests.exceptions.ConnectionError("away")),
        ("/traits/A", None),
    ],
    ids=("a login page", "an error page", "nobody", "itself"),
)
def test_redirected_write_has_an_unknown_result(fake, status, path, answer):
    """Whatever is there, it is not placement."""
    fake.on("DELETE", "/there", answer)
    fake.on("DELETE", "/traits/A", (status, "", {"location": f"/placement{path}"}))
    with pytest.raises(errors.ANSWER_LOST) as caught:
        fake.client().delete_trait("A")
    assert errors.is_outcome_unknown(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_write_refused_by_a_web_page_has_an_unknown_result(fake, status):
    """A proxy may have put it in place of placement's answer; who checks tokens says how to get one."""
    fake.on("DELETE", "/traits/A", (status, "<html>no</html>"))
    fake.on("DELETE", "/traits/B", (401, "Authentication required", {"www-authenticate": "Keystone uri='x'"}))
    fake.on("DELETE", "/traits/C", error(403, "Policy does not allow it"))
    client = fake.client()
    with pytest.raises({401: errors.Unauthorized, 403: errors.Forbidden}[status]) as caught:
        client.delete_trait("A")
    assert errors.is_outcome_unknown(caught.value)
    for name, known in (("B", errors.Unauthorized), ("C", errors.Forbidden)):
        with pytest.raises(known) as caught:
            client.delete_trait(name)
        assert not errors.is_outcome_unknown(caught.value)


class CountingHandler(http.server.BaseHTTPRequestHandler):
    """Keeps connections open and counts them; answers when `together` requests are there."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        """Count a connection."""
        super().setup()
        self.server.connections += 1

    def do_GET(self):
        """Answer usages, at the same time as the others."""
        self.server.together.wait()
        body = b'{"usages": {}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def counting_server():
    """A server with real connections."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), CountingHandler)
    server.daemon_threads = True
    server.connections = 0
    server.together = threading.Barrier(1)
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_one_connection_serves_many_requests(counting_server):
    """A new one for each would cost more than most requests."""
    session = Session(auth=Token(counting_server.url, "t"))
    client = PlacementClient(session, api_version="1.5")
    for _ in range(5):
        client.provider_usages("u")
    session.session.close()
    assert counting_server.connections == 1


@pytest.mark.parametrize(("allowed", "kept"), [(None, False), (16, True)])
def test_as_many_connections_are_kept_as_are_allowed(counting_server, caplog, allowed, kept):
    """Without it, urllib3 throws connections away and warns of it on stderr."""
    counting_server.together = threading.Barrier(16)
    session = Session(auth=Token(counting_server.url, "t"))
    client = PlacementClient(session, api_version="1.5")
    if allowed:
        client.allow_concurrency(allowed)
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda _: client.provider_usages("u"), range(32)))
    session.session.close()
    assert ("Connection pool is full" not in caplog.text) is kept
    assert counting_server.connections == 16 or not kept
