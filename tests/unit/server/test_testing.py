# SPDX-License-Identifier: Apache-2.0
"""What we offer to the tests of others: the service in the process, in a thread, as two kinds of fixture."""

import pathlib
import subprocess
import sys

import pytest
import requests
from keystoneauth1 import exceptions

from osc_placement.server import testing


def list_names(client):
    """The names of the providers there are."""
    return [provider["name"] for provider in client.get("/resource_providers").json()["resource_providers"]]


def test_direct_speaks_to_the_service():
    """Requests through the adapter are answered as over HTTP, body and headers, for an administrator."""
    with testing.direct(default_microversion="1.39") as client:
        created = client.post("/resource_providers", json={"name": "höst"})
        assert (created.status_code, created.json()["name"]) == (200, "höst")
        assert created.headers["OpenStack-API-Version"] == "placement 1.39"
        assert client.get("/resource_providers?name=höst").json()["resource_providers"] != []
        assert client.put("/resource_classes/CUSTOM_X").status_code == 201
        assert client.delete("/resource_classes/CUSTOM_X").status_code == 204


def test_direct_raises_nothing_unless_told_to():
    """An error is an answer, as with placement.direct; raise_exc=True makes it an exception."""
    with testing.direct() as client:
        assert client.get("/resource_providers/nothing").status_code == 404
    with testing.direct(raise_exc=True) as client, pytest.raises(exceptions.NotFound):
        client.get("/resource_providers/nothing")


def test_direct_starts_empty():
    """Without a configuration each has a database of its own, two at once too."""
    with testing.direct(default_microversion="1.39") as one, testing.direct() as other:
        one.post("/resource_providers", json={"name": "host"})
        assert (list_names(one), list_names(other)) == (["host"], [])


def test_direct_uses_a_configuration(tmp_path):
    """The database of a configuration is used, without authentication; the configuration stays as it was."""
    conf = testing.make_conf(f"sqlite:///{tmp_path}/placement.db")
    for expected in ([], ["host"]):
        with testing.direct(conf, default_microversion="latest") as client:
            assert list_names(client) == expected
            client.post("/resource_providers", json={"name": "host"})
        assert conf.api.auth_strategy == "keystone"


@pytest.mark.parametrize("use", [testing.direct, testing.run_server])
@pytest.mark.parametrize("strategy", ["noauth2", "keystone"])
def test_an_override_of_the_callers_stays(use, strategy):
    """What a configuration was told about authentication before holds again afterwards."""
    conf = testing.make_conf()
    conf.set_default("auth_strategy", "noauth2" if strategy == "keystone" else "keystone", group="api")
    conf.set_override("auth_strategy", strategy, group="api")
    with use(conf):
        assert conf.api.auth_strategy == "noauth2"
    assert conf.api.auth_strategy == strategy


def test_options_of_the_service_are_used():
    """make_conf takes options of [placement]."""
    conf = testing.make_conf(max_allocation_candidates=7)
    assert conf.placement.max_allocation_candidates == 7


def test_server_answers_over_http():
    """The server in a thread has an address, a session, a client that raises, and variables for commands."""
    with testing.run_server() as server:
        assert server.session.get(f"{server.url}/resource_providers").status_code == 200
        assert server.client.get("/traits/HW_CPU_X86_AVX").status_code == 204
        server.client.post("/resource_providers", json={"name": "host"})
        assert list_names(server.client) == ["host"]
        with pytest.raises(exceptions.NotFound):
            server.client.get("/resource_providers/nothing")
        program = pathlib.Path(sys.executable).with_name("openstack")
        command = [program, "resource", "provider", "list", "-f", "value", "-c", "name"]
        done = subprocess.run(command, env=server.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "host\n", "")
    with pytest.raises(exceptions.ConnectFailure):
        server.session.get(server.url)


def test_servers_are_independent():
    """Two servers at once share nothing; the token may be that of somebody else."""
    with testing.run_server() as one, testing.run_server(token="guest") as other:
        one.client.post("/resource_providers", json={"name": "host"})
        assert list_names(one.client) == ["host"]
        with pytest.raises(exceptions.Forbidden):
            other.client.get("/resource_providers")


def test_fixture_of_the_fixtures_library():
    """PlacementFixture runs a server while it is in use."""
    fixture = testing.PlacementFixture()
    with fixture:
        assert fixture.session.get(f"{fixture.endpoint}/").status_code == 200
        assert list_names(fixture.client) == []
    with pytest.raises(exceptions.ConnectFailure):
        fixture.server.session.get(fixture.server.url)


def test_fixture_of_pytest(placement_server):
    """placement_server is there without being imported."""
    assert list_names(placement_server.client) == []


def test_fixture_of_pytest_starts_empty_each_time(placement_server):
    """Every test has a server of its own."""
    placement_server.client.post("/resource_providers", json={"name": "host"})
    assert list_names(placement_server.client) == ["host"]


@pytest.mark.parametrize("autoload", [True, False])
def test_module_is_a_pytest_plugin(tmp_path, autoload):
    """Naming the module as a plugin gives its fixture, whether pytest looks at entry points or not."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["osc_placement.server.testing"]\n')
    (tmp_path / "test_it.py").write_text("def test_it(placement_server): assert placement_server.url\n")
    environment = {} if autoload else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_plugin_costs_nothing_where_it_is_not_used():
    """pytest imports the plugin at every start; the server comes with the first use of the fixture."""
    code = "import sys, osc_placement.server.pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sqlalchemy", "oslo_config", "keystoneauth1", "webob"} & set(done.stdout.split())


def test_unknown_name_is_none_of_ours():
    """A name that the module does not have is an AttributeError as ever."""
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = testing.nonsense


class Application:
    """Keeps what it was asked, and answers with the body it was sent."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.closed = False

    def __call__(self, environ, start_response):
        self.environ = environ
        self.body = environ["wsgi.input"].read()
        write = start_response(
            "299 Quite Fine", [("Content-Type", "text/plain; charset=utf-8"), ("X-A", "b")]
        )
        write(b"first ")
        return self

    def __iter__(self):
        return iter(self.chunks)

    def close(self):
        self.closed = True


def send(application, method="GET", path="/", **arguments):
    """Send one request."""
    with requests.Session() as session:
        session.mount("http://here.test", testing.WSGIAdapter(application))
        return session.request(method, f"http://here.test:81{path}", **arguments)


def test_answer_is_put_together():
    """Status, headers and body arrive, whichever way the application wrote them, and it is closed."""
    application = Application(b"second ", "dritté".encode())
    response = send(application)
    assert (response.status_code, response.reason, response.headers["x-a"]) == (299, "Quite Fine", "b")
    assert response.text == "first second dritté"
    assert application.closed


def test_request_is_described():
    """Method, path, query and headers are where WSGI has them, with the path's bytes as latin-1."""
    application = Application()
    send(application, "PUT", "/a%20b/ü?x=1&y=%20", headers={"X-Token": b"secret"})
    environ = application.environ
    assert (environ["REQUEST_METHOD"], environ["QUERY_STRING"]) == ("PUT", "x=1&y=%20")
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/a b/ü"
    assert (environ["HTTP_HOST"], environ["SERVER_NAME"], environ["SERVER_PORT"]) == (
        "here.test:81",
        "here.test",
        "81",
    )
    assert environ["HTTP_X_TOKEN"] == "secret"
    assert "CONTENT_TYPE" not in environ


def test_bodies_of_every_kind_arrive():
    """JSON, text, bytes and a generator are all a body with a length."""
    for given, body in (
        ({"json": {"a": 1}}, b'{"a": 1}'),
        ({"data": "é"}, "é".encode()),
        ({"data": b"\xff"}, b"\xff"),
        ({"data": iter([b"a", b"b"])}, b"ab"),
    ):
        application = Application()
        send(application, "POST", **given)
        assert application.body == body
        assert application.environ["CONTENT_LENGTH"] == str(len(body))


def test_request_without_a_body_has_none():
    """Nothing is sent as nothing."""
    application = Application()
    send(application, "DELETE")
    assert application.body == b""
