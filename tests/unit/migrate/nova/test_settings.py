# SPDX-License-Identifier: Apache-2.0
"""The way to the services: which endpoints of the catalog, and how long to wait there for an answer."""

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from oslo_config import cfg

from osc_placement.errors import TimedOut, UsageError
from osc_placement.migrate.nova import database, rest
from osc_placement.migrate.nova.settings import Misconfigured, Settings
from osc_placement.migrate.nova.source import Unreadable

INTERFACES = ("public", "internal", "admin")
SERVICES = ("placement", "baremetal", "network", "image", "compute")


class Identity(BaseHTTPRequestHandler):
    """As much of Keystone as logging in takes; the address of an endpoint says what it is."""

    def do_GET(self):
        version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": self._url("/v3")}]}
        self._answer({"version": version}, {})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        catalog = [
            {"type": service, "name": service, "endpoints": [self._endpoint(service, kind) for kind in kinds]}
            for service, kinds in self.server.catalog.items()
        ]
        token = {"methods": ["password"], "expires_at": "2999-01-01T00:00:00.000000Z", "catalog": catalog}
        user = {"id": "u", "name": "u", "domain": {"id": "default", "name": "Default"}}
        roles = [{"id": name, "name": name} for name in self.server.roles]
        token["roles"] = roles
        self._answer({"token": {**token, "user": user, "issued_at": "2026-01-01T00:00:00.000000Z"}}, {}, 201)

    def _endpoint(self, service, interface):
        url = f"http://{service}.{interface}.example.net"
        return {"id": url, "interface": interface, "region": "one", "region_id": "one", "url": url}

    def _url(self, path):
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def _answer(self, document, headers, status=200):
        self.send_response(status)
        body = json.dumps(document).encode()
        for name, value in {"X-Subject-Token": "t", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        """Say nothing."""


@pytest.fixture
def identity():
    """A catalog with every service behind every kind of endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Identity)
    server.catalog = dict.fromkeys(SERVICES, INTERFACES)
    server.roles = ["service"]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def configure(identity, tmp_path):
    """A function that writes a nova.conf with these lines more for both services; the settings of it."""

    def write(more=""):
        auth = (
            f"auth_type = password\nauth_url = http://127.0.0.1:{identity.server_port}/v3\nusername = u\n"
            "password = p\nuser_domain_id = default\nproject_name = p\nproject_domain_id = default\n"
        )
        path = tmp_path / "nova.conf"
        groups = ("placement", "ironic", "neutron", "glance")
        path.write_text("".join(f"[{group}]\n{auth}{more}\n" for group in groups))
        return Settings((str(path),))

    return write


def endpoints(settings):
    """Where placement, Ironic, neutron, glance and nova's API are taken to be."""
    opened = (settings.open_ironic(), settings.open_neutron(), settings.open_glance())
    others = (*opened, settings._open_api()._api)
    return settings.open_client().endpoint, *(each._adapter.get_endpoint() for each in others)


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("", "internal"),
        ("valid_interfaces = public", "public"),
        ("valid_interfaces = admin,public", "admin"),
        ("interface = admin", "admin"),
    ],
)
def test_endpoints_are_those_that_nova_takes(configure, more, kind):
    """Internal ones before public ones, unless nova.conf says otherwise."""
    expected = [f"http://{service}.{kind}.example.net" for service in SERVICES]
    assert list(endpoints(configure(more))) == expected


def test_second_choice_is_taken_where_the_first_is_missing(configure, identity):
    """A catalog without internal endpoints has public ones."""
    identity.catalog = dict.fromkeys(SERVICES, ("public",))
    assert endpoints(configure())[0] == "http://placement.public.example.net"


# openstacksdk has words about other libraries
@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(("interface", "kind"), [(None, "public"), ("internal", "internal")])
def test_interface_of_clouds_yaml_chooses_the_endpoints(identity, tmp_path, monkeypatch, interface, kind):
    """The interface of a cloud in clouds.yaml is that of all services."""
    auth = {"auth_url": f"http://127.0.0.1:{identity.server_port}/v3", "username": "u", "password": "p"}
    auth |= {"user_domain_id": "default", "project_name": "p", "project_domain_id": "default"}
    cloud = {"auth": auth, "region_name": "one", **({"interface": interface} if interface else {})}
    path = tmp_path / "clouds.yaml"
    path.write_text(json.dumps({"clouds": {"c": cloud}}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
    expected = [f"http://{service}.{kind}.example.net" for service in SERVICES]
    assert list(endpoints(Settings(cloud="c"))) == expected


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(), []),
        (Settings(("a", "b"), timeout=3), ["--config-file", "a", "--config-file", "b"]),
        (Settings(("a",), cloud="c"), ["--os-cloud", "c"]),
        (
            Settings(("a",), placement_endpoint="http://p", placement_token="admin"),
            ["--placement-endpoint", "http://p"],
        ),
        (
            Settings(placement_endpoint="http://p", placement_token="secret"),
            ["--placement-endpoint", "http://p", "--placement-token", "TOKEN"],
        ),
    ],
)
def test_placement_options_hide_the_token(settings, words):
    """Who repeats it meets the same placement, and who reads it over a shoulder learns no secret."""
    assert settings.placement_options == words


@pytest.mark.parametrize("address", ["controller", "http://", "http://[::1", "http://controller:port"])
@pytest.mark.parametrize("service", ["placement", "ironic", "neutron", "glance", "nova"])
def test_malformed_endpoint_is_refused_before_any_request(service, address):
    """One line names the option, whatever the libraries would make of it."""
    with pytest.raises(UsageError, match=f"^--{service}-endpoint is an address such as"):
        Settings(**{f"{service}_endpoint": address})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("timeout = abc", "option timeout .*'abc'$"),
        ("endpoint_override = http://[::1", r"\]/endpoint_override is no address: 'http://\[::1'$"),
    ],
)
def test_wrong_option_is_one_line(configure, more, text):
    """Options are read where they are needed, and those of Ironic are nobody else's concern."""
    settings = configure(more)
    with pytest.raises(Misconfigured, match=f"^The access to placement cannot be set up: .*{text}"):
        settings.open_client()
    with pytest.raises(Misconfigured, match=f"^The access to nova cannot be set up: .*{text}"):
        settings._open_api()
    with pytest.raises(Unreadable, match=f"^Ironic: the access to it cannot be set up: .*{text}"):
        settings.open_ironic()
    with pytest.raises(Unreadable, match=f"^glance: the access to it cannot be set up: .*{text}"):
        settings.open_glance()


@pytest.mark.parametrize(
    ("more", "endpoint"),
    [
        ("", None),
        ("endpoint_override = http://glance.example.net", "http://glance.example.net"),
        ("api_servers = http://first.example.net,http://second.example.net", "http://first.example.net"),
        ("api_servers = http://first.example.net\nendpoint_override = http://g.test", "http://g.test"),
    ],
)
def test_glance_without_a_catalog_needs_an_address(tmp_path, more, endpoint):
    """A token alone says where placement is, and not where glance is."""
    path = tmp_path / "nova.conf"
    access = "auth_type = admin_token\nendpoint = http://placement.example.net\ntoken = admin\n"
    path.write_text(f"[placement]\n{access}[glance]\n{more}\n")
    glance = Settings((str(path),)).open_glance()
    assert (glance._adapter.get_endpoint() if glance else None) == endpoint


def test_glance_shows_all_images_to_an_administrator(configure, identity):
    """Others see those of their own project, and public ones."""
    assert not configure().open_glance().sees_all()
    identity.roles = ["reader", "admin"]
    assert configure().open_glance().sees_all()


def test_glance_is_at_the_address_of_the_command_line(configure):
    """Whatever nova.conf says."""
    path = configure().config_files
    glance = Settings(path, glance_endpoint="http://127.0.0.1:1").open_glance()
    assert glance._adapter.get_endpoint() == "http://127.0.0.1:1"


def test_undefined_variable_in_nova_conf_is_one_line(tmp_path):
    """What oslo.config would fill in is not there."""
    path = tmp_path / "nova.conf"
    path.write_text("[api_database]\nconnection = mysql://${nothing}@db/nova_api\n")
    with pytest.raises(Misconfigured, match=r"^The access to nova cannot be set up: .*nothing"):
        Settings((str(path),)).open_source()


def test_binary_configuration_file_is_one_line(tmp_path):
    """So is a directory in the place of the file."""
    path = tmp_path / "nova.conf"
    path.write_bytes(b"[placement]\n# \xff\n")
    with pytest.raises(Misconfigured, match=r"nova\.conf cannot be read: .*utf-8"):
        Settings((str(path),)).open_client()
    with pytest.raises(Misconfigured, match=r"cannot be read: .*directory"):
        Settings((str(tmp_path),)).open_client()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"[scheduler]\nimage_metadata_prefilter = perhaps\n", "image_metadata_prefilter"),
        (b"[scheduler]\n# \xff\n", "utf-8"),
        (b"[scheduler\n", "Failed to parse"),
    ],
)
def test_usual_nova_conf_that_is_broken_leaves_the_filters_unknown(tmp_path, monkeypatch, content, text):
    """What is needed of it is on the command line; one that the command line names is an error."""
    path = tmp_path / "nova.conf"
    path.write_bytes(content)
    monkeypatch.setattr(cfg, "find_config_files", lambda **_: [str(path)])
    options, reason = Settings(placement_endpoint="http://127.0.0.1:1").read_scheduler_options()
    assert (options, reason.startswith("nova.conf cannot be read: "), "\n" in reason) == (None, True, False)
    assert text in reason
    with pytest.raises(Misconfigured, match=text):
        Settings((str(path),)).read_scheduler_options()


def test_without_nova_conf_the_filters_are_unknown(monkeypatch):
    """The reason is told."""
    monkeypatch.setattr(cfg, "find_config_files", lambda **_: [])
    assert Settings().read_scheduler_options() == (None, "no nova.conf")


@pytest.fixture
def silent():
    """The URL of a server that takes a request and never answers."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_silent_server_is_given_up_after_the_timeout(silent, monkeypatch):
    """Nobody who never answers holds a run up: neither nova nor Ironic, neutron or placement."""
    began = time.monotonic()
    access = {"placement_endpoint": silent, "nova_endpoint": silent, "ironic_endpoint": silent}
    access["neutron_endpoint"] = silent
    settings = Settings(**access, nova_token="t", placement_token="t", source="api", timeout=0.2)
    with pytest.raises(Unreadable, match=r"nova's API: .* the service is unavailable"):
        settings.open_source().list_aggregates()
    monkeypatch.setattr(rest.NovaApi, "newest", (2, 98))
    with pytest.raises(Unreadable, match=r"nova's API: .* timed out"):
        settings.open_source().list_aggregates()
    with pytest.raises(Unreadable, match=r"Ironic: .* timed out"):
        settings.open_ironic().list_nodes()
    with pytest.raises(Unreadable, match=r"neutron: .* timed out"):
        settings.open_neutron().list_ports()
    with pytest.raises(TimedOut, match=r"within 0\.2 seconds; .*--timeout, allows more time"):
        settings.open_client().list_providers()
    assert time.monotonic() - began < 10


def test_configured_timeout_is_used_unless_an_option_gives_one(configure):
    """[placement]/timeout is for nova's API too; 600 seconds where nobody says anything."""
    assert configure()._open_api()._api._adapter.session.timeout == 600
    patient = configure("timeout = 7")
    assert patient._open_api()._api._adapter.session.timeout == 7
    assert patient.open_ironic()._adapter.session.timeout == 7
    assert Settings(patient.config_files, timeout=3)._open_api()._api._adapter.session.timeout == 3


def test_silent_database_is_given_up_after_the_timeout(silent, monkeypatch):
    """A database server that accepts and says nothing is unreadable in the end."""
    monkeypatch.setattr(database, "_READ_PATIENCE", 1)
    settings = Settings(api_database=f"mysql+pymysql://u:p@{silent.removeprefix('http://')}/nova_api")
    with pytest.raises(Unreadable, match=r"nova's API database: .*timed out"):
        settings.open_source().list_aggregates()
