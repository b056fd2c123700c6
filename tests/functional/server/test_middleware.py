# SPDX-License-Identifier: Apache-2.0
"""What stands between container and handlers: proxies, CORS, request ids, policy files, no database."""

import json
import logging
import os
import re
import time

import pytest
import webob
from oslo_config import cfg
from oslo_context.context import get_current

from osc_placement.server import conf as server_conf
from osc_placement.server import deploy, policy

ORIGIN = "https://dashboard.example"
ID = "370e0647-88ee-4a72-a9ba-8cf5d1adf41c"


@pytest.fixture
def make_application(tmp_path):
    """A function that makes the application with some options set, on a SQLite file."""

    def make(*, connection=f"sqlite:///{tmp_path}/placement.db", **options):
        conf = cfg.ConfigOpts()
        server_conf.register_opts(conf)
        conf.set_default("connection", connection, "placement_database")
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override("sync_on_startup", connection.startswith("sqlite"), "placement_database")
        conf.set_override("auth_strategy", "noauth2", "api")
        for name, (group, value) in options.items():
            conf.set_override(name, value, group)
        return deploy.loadapp(conf)

    return make


def send(application, method, path, *, token="admin", body=None, **headers):
    """The answer to one request, of an administrator at the newest microversion."""
    request = webob.Request.blank(path, method=method)
    request.headers.update({"openstack-api-version": "placement 1.39", **headers})
    if token is not None:
        request.headers["x-auth-token"] = token
    if body is not None:
        request.body = json.dumps(body).encode()
        request.content_type = "application/json"
    return request.get_response(application)


@pytest.fixture
def cors(make_application):
    """An application that pages of one origin may use."""
    return make_application(allowed_origin=("cors", [ORIGIN]))


def test_cors_preflight_needs_no_token(cors):
    """A preflight needs no token, and says which methods and headers may follow."""
    headers = {
        "origin": ORIGIN,
        "access-control-request-method": "PUT",
        "access-control-request-headers": "x-auth-token,openstack-api-version",
    }
    answer = send(cors, "OPTIONS", "/resource_providers", token=None, **headers)
    assert answer.status_int == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert answer.headers["access-control-allow-methods"] == "PUT"
    assert answer.headers["access-control-allow-headers"] == "x-auth-token,openstack-api-version"


def test_allowed_origin_gets_cors_headers(cors):
    """The answer names the origin, and the headers that the page may see."""
    answer = send(cors, "GET", "/resource_providers", origin=ORIGIN)
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "OpenStack-API-Version" in answer.headers["access-control-expose-headers"]


def test_other_origin_gets_no_cors_headers(cors):
    """Others get no permission."""
    answer = send(cors, "GET", "/resource_providers", origin="https://elsewhere.example")
    assert "access-control-allow-origin" not in answer.headers


FORWARDED = {
    "x-forwarded-proto": "https",
    "x-forwarded-host": "cloud.example",
    "x-forwarded-prefix": "/placement",
    "x-forwarded-for": "203.0.113.7",
}


def test_proxy_headers_are_used_if_enabled(make_application, caplog):
    """Locations, links and log lines are those that the client of the proxy sees."""
    application = make_application(enable_proxy_headers_parsing=("oslo_middleware", True))
    caplog.set_level(logging.INFO, logger=deploy.__name__)
    answer = send(application, "POST", "/resource_providers", body={"name": "host"}, **FORWARDED)
    path = f"/placement/resource_providers/{answer.json['uuid']}"
    assert answer.headers["location"] == f"https://cloud.example{path}"
    assert answer.json["links"][0]["href"] == path
    assert '203.0.113.7 "POST /placement/resource_providers" status: 200' in caplog.text


def test_proxy_headers_are_ignored_by_default(make_application):
    """Anybody can send such headers."""
    answer = send(make_application(), "POST", "/resource_providers", body={"name": "host"}, **FORWARDED)
    assert answer.headers["location"] == f"http://localhost/resource_providers/{answer.json['uuid']}"


def test_errors_in_authentication_show_no_internals(make_application, monkeypatch):
    """An error before the handlers is a 500 with the id of the request, and is logged."""

    def fail(*arguments):
        raise RuntimeError("secret")

    application = make_application()
    monkeypatch.setattr("osc_placement.server.api.auth.NoAuth.__call__", fail)
    answer = send(application, "GET", "/traits")
    assert (answer.status_int, "secret" in answer.text) == (500, False)
    assert answer.json["errors"][0]["request_id"] == answer.headers["x-openstack-request-id"]


@pytest.fixture
def contexts(make_application, monkeypatch):
    """An application, and the contexts of its log lines."""
    application = make_application()
    found = []

    def log(*arguments, **kwargs):
        found.append(get_current())

    monkeypatch.setattr(deploy.LOG, "info", log)
    monkeypatch.setattr(deploy.LOG, "isEnabledFor", lambda level: True)
    return application, found


def test_global_request_id_is_taken_from_the_header(contexts):
    """What another service calls the request is in the context that log lines are made from."""
    application, found = contexts
    inbound = f"req-{ID}"
    answer = send(application, "GET", "/traits", **{"x-openstack-request-id": inbound})
    own = answer.headers["x-openstack-request-id"]
    assert own != inbound
    assert [(context.request_id, context.global_request_id) for context in found] == [(own, inbound)]


@pytest.mark.parametrize("inbound", ["", "1", "req-1", f"req-{ID}\nx", f"REQ-{ID}"])
def test_invalid_global_request_id_is_ignored(contexts, inbound):
    """Nobody can write into the log whatever they like."""
    application, found = contexts
    environ = webob.Request.blank("/traits", headers={"x-auth-token": "admin"}).environ
    environ["HTTP_X_OPENSTACK_REQUEST_ID"] = inbound
    assert webob.Request(environ).get_response(application).status_int == 404
    assert [context.global_request_id for context in found] == [None]


def test_refused_request_is_logged_with_its_request_id(contexts):
    """Also where there is no caller yet, and after somebody else was served."""
    application, found = contexts
    answers = [send(application, "GET", "/traits"), send(application, "GET", "/traits", token=None)]
    assert answers[1].status_int == 401
    told = [answer.headers["x-openstack-request-id"] for answer in answers]
    assert [context.request_id for context in found] == told
    assert [context.user_id for context in found] == ["admin", None]


def test_unverified_caller_is_not_logged(contexts):
    """A request that is refused for want of a token may claim to be anybody's."""
    application, found = contexts
    answer = send(application, "GET", "/traits", token=None, **{"x-user-id": "somebody", "x-roles": "admin"})
    assert answer.status_int == 401
    assert [(context.user_id, context.roles) for context in found] == [(None, [])]


VERSION = ("openstack-api-version", "placement 1.39")
VARY = ("vary", "openstack-api-version")


@pytest.mark.parametrize(
    ("method", "path", "status", "headers"),
    [
        (
            "GET",
            "/traits?name=in:X",
            200,
            ["Content-Type", "Content-Length", "Last-Modified", "Cache-Control"],
        ),
        ("PUT", "/traits/CUSTOM_X", 201, ["Content-Length", "Location", "Last-Modified", "Cache-Control"]),
        ("GET", "/traits/HW_CPU_X86_AVX", 204, ["Last-Modified", "Cache-Control"]),
        ("GET", "/traits/NONE", 404, ["Content-Length", "Content-Type"]),
    ],
)
def test_headers_of_an_answer(make_application, method, path, status, headers):
    """The microversion, what answers vary with, and the id of the request come last."""
    answer = send(make_application(), method, path)
    assert answer.status_int == status
    assert [name for name, _ in answer.headerlist[:-3]] == headers
    assert answer.headerlist[-3:-1] == [VERSION, VARY]
    assert answer.headerlist[-1][0] == "x-openstack-request-id"


def test_answer_about_an_unknown_path_does_not_vary(make_application):
    answer = send(make_application(), "GET", "/none")
    assert answer.status_int == 404
    assert VERSION in answer.headerlist
    assert "vary" not in answer.headers


@pytest.mark.parametrize(
    ("header", "version"),
    [
        ("", "1.0"),
        ("placement latest", "1.39"),
        ("compute 2.1, Placement  1.6 ", "1.6"),
        ("placement 01.7", "1.7"),
        ("compute 2.1", "1.0"),
    ],
)
def test_version_is_found_in_the_header(make_application, header, version):
    answer = send(make_application(), "GET", "/", **{"openstack-api-version": header})
    assert answer.headers["openstack-api-version"] == f"placement {version}"


@pytest.mark.parametrize(
    ("header", "status", "detail"),
    [
        ("placement 1.40", 406, "Invalid microversion: Unacceptable version header: 1.40"),
        ("placement x", 400, "Invalid microversion: invalid version string: x"),
        (f"placement 1.{'0' * 4000}", 400, "may have 4000 characters at most"),
    ],
)
def test_version_that_does_not_exist_is_refused(make_application, header, status, detail):
    """The answer has no version; one that is not supported is answered with the range of those that are."""
    answer = send(make_application(), "GET", "/", **{"openstack-api-version": header})
    (error,) = answer.json["errors"]
    assert (answer.status_int, detail in error["detail"]) == (status, True)
    assert ("max_version" in error) == (status == 406)
    assert "openstack-api-version" not in answer.headers


def test_a_request_is_one_line_in_the_log(make_application, caplog):
    """Method, path, status, length, microversion and seconds."""
    application = make_application()
    caplog.set_level(logging.INFO, logger=deploy.__name__)
    answer = send(application, "GET", "/resource_providers?name=x")
    (line,) = [record.getMessage() for record in caplog.records if record.name == deploy.__name__]
    assert re.fullmatch(
        r'\S+ "GET /resource_providers\?name=x" status: 200 '
        rf"len: {answer.content_length} microversion: 1\.39 time: \d+\.\d{{6}}",
        line,
    )


PATHS = {
    "/unauth%0Aforged%0D%0Btoo": "/unauth%0Aforged%0D%0Btoo",
    "/traits%C2%85/%E2%82%AC%22": "/traits%C2%85/%E2%82%AC%22",
    "/usages/in:a,b;c@d!$&'()*+~=-._": "/usages/in:a,b;c@d!$&'()*+~=-._",
    '/usages?name=in:A,%0AB&x=["\n]?': "/usages?name=in:A,%0AB&x=%5B%22%0A%5D?",
}


@pytest.mark.parametrize("path", PATHS)
def test_path_is_quoted_in_the_request_log(make_application, caplog, path):
    """It is in its line as it was sent, quoted; whoever has no token forges nothing."""
    application = make_application()
    caplog.set_level(logging.INFO, logger=deploy.__name__)
    assert send(application, "GET", path, token=None).status_int == 401
    (line,) = [record.getMessage() for record in caplog.records if record.name == deploy.__name__]
    assert f' "GET {PATHS[path]}" status: 401 ' in line


def test_decoded_path_is_logged(make_application, caplog):
    """Callers in the process may pass one that has been decoded already."""
    application = make_application()
    caplog.set_level(logging.INFO, logger=deploy.__name__)
    environ = webob.Request.blank("/").environ | {"PATH_INFO": "/\N{EURO SIGN}\n"}
    assert webob.Request(environ).get_response(application).status_int == 401
    assert ' "GET /%5Cu20ac%0A" status: 401 ' in caplog.text


def test_path_is_quoted_in_the_error_log(make_application, monkeypatch, caplog):
    """The path is quoted where what went wrong is told, too."""

    def fail(*arguments):
        raise RuntimeError

    application = make_application()
    monkeypatch.setattr("osc_placement.server.api.auth.NoAuth.__call__", fail)
    assert send(application, "GET", "/traits/a%0Aforged").status_int == 500
    (message,) = [record.getMessage() for record in caplog.records if record.exc_info]
    assert message == "unexpected error answering GET /traits/a%0Aforged"


def test_a_policy_file_is_read_again_when_it_changes(make_application, tmp_path):
    """Overrides appear, change and go without a restart; a 403 names the rule."""
    path = tmp_path / "policy.yaml"
    application = make_application(policy_file=("oslo_policy", str(path)))

    def may_list(token="user:project"):
        return send(application, "GET", "/resource_providers", token=token).status_int

    assert may_list() == 403
    for number, (rule, status) in enumerate((("@", 200), ("role:nobody", 403), ("@", 200)), 1):
        path.write_text(json.dumps({"placement:resource_providers:list": rule}))
        # the time of the file is what is looked at, and two writes may be of one moment
        os.utime(path, (number * 1000, number * 1000))
        # files are looked at once in a while
        time.sleep(policy.LOOK_SECONDS)
        assert may_list() == status
    answer = send(application, "GET", "/traits", token="user:project")
    assert (
        "Policy does not allow placement:traits:list to be performed." in answer.json["errors"][0]["detail"]
    )


def test_root_is_answered_without_a_database(make_application):
    """Which versions there are is known before the database is; everything else has to wait for it."""
    application = make_application(connection="mysql+pymysql://nobody@127.0.0.1:1/placement")
    assert send(application, "GET", "/", token=None).json["versions"][0]["max_version"] == "1.39"
    answer = send(application, "GET", "/traits")
    assert (answer.status_int, answer.headers["retry-after"]) == (503, "1")
