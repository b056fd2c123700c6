# SPDX-License-Identifier: Apache-2.0
"""The files under `etc/` and the Containerfile: run where that can be done, and read where it cannot."""

import ast
import configparser
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest
import requests

from osc_placement.server import conf as configuration
from osc_placement.server.main import make_parser as make_server_parser
from tests.functional import containers, servers
from tests.functional.packaging.conftest import ROOT
from tests.functional.server.test_restart import Burst
from tests.migrate_parsers import read as read_migrate_options

ETC = ROOT / "etc"
UNITS = sorted((ETC / "systemd").glob("*.[so]*"))
ADMIN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.20"}


def test_placement_conf_has_known_options_only():
    """placement.conf is read, and names no option that there is not."""
    path = ETC / "placement.conf"
    conf = configuration.load(config_files=[str(path)], config_dirs=[])
    assert conf.api.auth_strategy == "keystone"
    check_names(path.read_text(), conf)


def test_placement_conf_trusts_no_proxy_by_default(tmp_path):
    """Clients may reach the service itself; what is for a proxy in front is there to be switched on."""
    text = (ETC / "placement.conf").read_text()
    path = tmp_path / "placement.conf"
    for trusting, written in ((False, text), (True, re.sub(r"(?m)^#(?=\w+ = )", "", text))):
        path.write_text(written)
        conf = configuration.load(config_files=[str(path)], config_dirs=[])
        assert conf.metrics.public is trusting
        assert conf.oslo_middleware.enable_proxy_headers_parsing is trusting
    check_names(path.read_text(), conf)


def check_names(written, conf):
    """Fail if a file names an option that there is not."""
    text = configparser.ConfigParser()
    text.read_string(written)
    for group in set(text.sections()) - {"keystone_authtoken"}:
        for name in text[group]:
            assert name in conf[group], f"[{group}] {name}"


def test_server_starts_with_placement_conf(tmp_path):
    """With addresses where nobody is: a token that cannot be checked is answered with 503."""
    text = (ETC / "placement.conf").read_text()
    for there, here in (
        ("mysql+pymysql://placement:PASSWORD@DATABASE/placement", f"sqlite:///{tmp_path}/placement.db"),
        ("https://KEYSTONE:5000", f"http://127.0.0.1:{containers.find_free_port()}"),
        ("127.0.0.1:11211", f"127.0.0.1:{containers.find_free_port()}"),
    ):
        assert there in text, there
        text = text.replace(there, here)
    path = tmp_path / "placement.conf"
    path.write_text(text)
    environment = servers.make_environment(OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP="true")
    with servers.running(tmp_path, "--config-file", path, environment=environment) as server:
        assert requests.get(f"{server.url}/-/readyz", timeout=30).json() == {"status": "ready"}
        answer = requests.get(f"{server.url}/resource_providers", headers=ADMIN, timeout=60)
        assert answer.status_code == 503, answer.text
        server.process.terminate()
        # a worker that hangs is killed after 30 seconds
        assert server.process.wait(20) == 0


def read_unit(path):
    """The settings of a unit, by section and name."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(path)
    return unit


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_units(path, tmp_path):
    """`systemd-analyze verify` finds nothing to say, with the programs where they are here."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for each in UNITS:
        text = each.read_text().replace("/usr/local/bin/", f"{pathlib.Path(sys.executable).parent}/")
        # the account is the operator's to make
        text = re.sub("^User=.*$", "User=root", text, flags=re.MULTILINE)
        (tmp_path / each.name).write_text(text)
    unit = tmp_path / path.name
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if path.name in line]
    assert said == [], done.stderr


def test_deploying_page_installs_the_program_of_the_unit():
    """The account, and the program in its virtual environment, are those of the commands of the page."""
    page = (ROOT / "doc/source/admin/deploying.rst").read_text()
    (edit,) = re.findall(r"\$ (sed .*) > /etc/systemd/", page)
    edited = subprocess.run(edit, shell=True, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string(edited)
    service = unit["Service"]
    program = service["ExecStart"].split()[0]
    assert f"$ runuser -u {service['User']} -- {program} db sync " in page


@pytest.mark.parametrize(
    ("name", "read_options", "read"),
    [
        (
            "placement-server",
            lambda words: vars(make_server_parser().parse_args(words)),
            {"config_file": ["/etc/placement/placement.conf"], "host": None, "port": None, "workers": 4},
        ),
        (
            "placement-mirror",
            read_migrate_options,
            {"config_files": ["/etc/nova/nova.conf"], "follow": True, "interval": 60.0},
        ),
    ],
)
def test_command_of_each_unit_has_known_options(name, read_options, read):
    """The program reads them as they are meant."""
    unit = read_unit(ETC / "systemd" / f"{name}.service")
    _, *arguments = shlex.split(unit["Service"]["ExecStart"])
    options = read_options(arguments)
    assert options == options | read


def list_server_arguments(directory):
    """What the unit of the server gives it, with files and port of a test."""
    unit = read_unit(ETC / "systemd" / "placement-server.service")
    _, action, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert action == "serve"
    return [
        argument.replace("/etc/placement/placement.conf", str(directory / "placement.conf"))
        for argument in arguments
    ]


def write_conf(directory):
    """A placement.conf without authentication."""
    (directory / "placement.conf").write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n"
    )


def test_command_of_the_server_unit_starts_reloads_and_stops(tmp_path):
    """Its command line starts the server, its reload and its end leave nothing undone."""
    write_conf(tmp_path)
    unit = read_unit(ETC / "systemd" / "placement-server.service")["Service"]
    assert unit["ExecReload"] == "/bin/kill -HUP $MAINPID"
    host, port = read_unit(ETC / "systemd" / "placement-server.socket")["Socket"]["ListenStream"].split(":")
    assert port == "8778"
    with (
        socket.create_server((host, 0)) as listener,
        servers.running(tmp_path, *list_server_arguments(tmp_path), listener=listener) as server,
    ):
        assert server.facts.endswith(f"noauth2, {4} workers")
        server.process.send_signal(signal.SIGHUP)
        check_service(server.url)


def check_service(url):
    """It is ready, answers the API, and tells what all processes counted."""
    assert requests.get(f"{url}/-/readyz", timeout=30).json() == {"status": "ready"}
    for number in range(20):
        requests.get(f"{url}/resource_providers?name=h{number}", headers=ADMIN, timeout=30).raise_for_status()
    text = requests.get(f"{url}/-/metrics", headers=ADMIN, timeout=30).text
    (line,) = re.findall(
        r'^placement_requests_total{.*route="/resource_providers".*} (\S+)$', text, re.MULTILINE
    )
    assert float(line) == 20


def place(name, directory, port):
    """A file of etc/ with the paths and the port of a test."""
    text = (ETC / name).read_text()
    for there, here in (
        ("/etc/placement", directory),
        ("127.0.0.1:8778", f"127.0.0.1:{port}"),
    ):
        assert there in text, f"{name} does not have {there}"
        text = text.replace(there, str(here))
    path = directory / name
    path.write_text(text)
    return path


def make_command(name, path):
    """The command line that the head of the file gives, with the file of a test."""
    if name == "uwsgi.ini":
        return [containers.find_uwsgi(), "--home", sys.prefix, "--ini", path]
    return [containers.GUNICORN, "--config", path]


@pytest.mark.parametrize("name", ["uwsgi.ini", "gunicorn.conf.py"])
def test_wsgi_container_serves_and_stops_gracefully(name, tmp_path):
    """It serves, and at SIGTERM it answers what has begun before it ends."""
    write_conf(tmp_path)
    port = containers.find_free_port()
    command = make_command(name, place(name, tmp_path, port))
    with containers.running(command, tmp_path, servers.make_environment(), port) as process:
        check_service(f"http://127.0.0.1:{port}")
        with socket.create_connection(("127.0.0.1", port)) as client:
            body = b'{"name": "late"}'
            head = "POST /resource_providers HTTP/1.1\r\nHost: placement\r\nX-Auth-Token: admin\r\n"
            client.sendall(
                f"{head}OpenStack-API-Version: placement 1.20\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body[:4]
            )
            time.sleep(0.5)
            process.terminate()
            time.sleep(0.5)
            client.sendall(body[4:])
            client.settimeout(30)
            answer = client.recv(1000)
        assert answer.split(b" ")[1] == b"200", answer
        process.wait(40)
    assert "Traceback" not in (tmp_path / "container.log").read_text()


@contextlib.contextmanager
def haproxy(directory, ports):
    """HAProxy with etc/'s file, before two servers; its URL, and a function that sends a command to it."""
    if not (program := shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")):
        pytest.skip("haproxy is not installed")
    text = (ETC / "haproxy" / "placement.cfg").read_text()
    port = containers.find_free_port()
    # the path of a Unix socket is short
    with tempfile.TemporaryDirectory() as short:
        admin = f"{short}/admin.sock"
        for there, here in (
            ("/run/haproxy/admin.sock", admin),
            *(
                (f"127.0.0.1:{one}", f"127.0.0.1:{two}")
                for one, two in zip((8778, 8781, 8782), (port, *ports), strict=True)
            ),
        ):
            assert there in text, there
            text = text.replace(there, here)
        path = directory / "haproxy.cfg"
        path.write_text(text)

        def say(command):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(admin)
                sock.sendall(f"{command}\n".encode())
                return b"".join(iter(lambda: sock.recv(1 << 16), b"")).decode()

        with containers.running([program, "-f", path], directory, servers.make_environment(), port):
            yield f"http://127.0.0.1:{port}", say


def test_no_client_notices_that_servers_behind_haproxy_are_restarted_in_turn(tmp_path):
    """With the commands of the page on operations, before and after each restart."""
    page = (ROOT / "doc/source/admin/operations.rst").read_text()
    drain, ready, show = re.findall(r'\$ echo "(.*)" \| socat stdio /run/haproxy/admin.sock', page)
    ports = [containers.find_free_port() for _ in range(2)]
    options = [("--database", f"sqlite:///{tmp_path}/placement.db", "--port", port) for port in ports]
    with contextlib.ExitStack() as opened:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
        one, two = (
            opened.enter_context(servers.launched(tmp_path / name, *option))
            for name, option in zip(("one", "two"), options, strict=True)
        )
        url, say = opened.enter_context(haproxy(tmp_path, ports))
        clients = Burst(url)
        try:
            time.sleep(1)
            for name, server, option in (("one", one, options[0]), ("two", two, options[1])):
                say(drain.replace("one", name))
                assert server.stop() == 0
                time.sleep(1)
                opened.enter_context(servers.launched(tmp_path / name, *option))
                say(ready.replace("one", name))
                for _ in range(servers.PATIENCE):
                    (state,) = re.findall(f"(?m)^placement,{name},.*$", say(show))
                    if ",UP," in state:
                        break
                    time.sleep(1)
                assert ",UP," in state
        finally:
            clients.stop()
        clients.check(tmp_path / "placement.db")


NGINX = ETC / "nginx" / "placement.conf"


#: where nginx would keep what does not fit into memory
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def find_nginx():
    """Return the path of nginx; skip the test if it is not installed."""
    directories = [os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"]
    return shutil.which("nginx", path=":".join(directories)) or pytest.skip("nginx is not installed")


@pytest.fixture
def nginx(tmp_path):
    """A function that returns the command of nginx, with etc/'s file and a certificate of a test."""
    program = find_nginx()
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=placement"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)

    def make(port, service):
        text = NGINX.read_text()
        for there, here in (
            ("/etc/ssl/placement", str(tmp_path)),
            ("listen 443", f"listen 127.0.0.1:{port}"),
            ("server 127.0.0.1:8778", f"server {service}"),
        ):
            assert there in text, there
            text = text.replace(there, here)
        (tmp_path / "placement.conf").write_text(text)
        places = "".join(f" {name}_temp_path {tmp_path}/{name};\n" for name in TEMPORARY)
        main = tmp_path / "nginx.conf"
        main.write_text(
            f"daemon off;\npid {tmp_path}/nginx.pid;\nevents {{}}\n"
            f"http {{\n access_log off;\n{places} include {tmp_path}/placement.conf;\n}}\n"
        )
        return [program, "-e", tmp_path / "error.log", "-p", tmp_path, "-c", main]

    return make


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_nginx_proxies_tls_locations_and_metrics(nginx, tmp_path):
    """TLS ends there, locations are those of the client, and metrics are for the monitoring only."""
    port = containers.find_free_port()
    environment = servers.make_environment(
        OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING="true", OS_METRICS__PUBLIC="true"
    )
    (tmp_path / "server").mkdir()
    with servers.running(tmp_path / "server", "--log-requests", environment=environment) as server:
        command = nginx(port, server.url.removeprefix("http://"))
        subprocess.run([*command, "-t"], check=True, capture_output=True)
        with (
            containers.running(command, tmp_path, servers.make_environment(), port),
            requests.Session() as session,
        ):
            session.verify, session.trust_env = False, False
            url = f"https://127.0.0.1:{port}"
            created = post(session, f"{url}/resource_providers")
            assert created.headers["location"].startswith("https://127.0.0.1/resource_providers/")
            assert session.get(f"{url}/-/readyz").json() == {"status": "ready"}
            assert session.get(f"{url}/-/metrics").status_code == 403
            assert requests.get(f"{server.url}/-/metrics", timeout=30).status_code == 200
        assert "elsewhere" not in server.log.read_text()


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_nginx_before_uwsgi_answers_each_request(nginx, tmp_path):
    """uWSGI closes each connection after one answer, and nginx does not send the next request on it."""
    (tmp_path / "server").mkdir()
    write_conf(tmp_path / "server")
    port, behind = containers.find_free_port(), containers.find_free_port()
    uwsgi = make_command("uwsgi.ini", place("uwsgi.ini", tmp_path / "server", behind))
    environment = servers.make_environment()
    with (
        containers.running(uwsgi, tmp_path / "server", environment, behind),
        containers.running(nginx(port, f"127.0.0.1:{behind}"), tmp_path, environment, port),
        requests.Session() as session,
    ):
        session.verify, session.trust_env = False, False
        url = f"https://127.0.0.1:{port}/resource_providers"
        statuses = [
            session.post(url, json={"name": f"h{number}"}, headers=ADMIN).status_code for number in range(20)
        ]
    assert statuses == [200] * 20


#: what a client may say of itself, which is not so
SPOOFED = {
    "Forwarded": "for=elsewhere;host=elsewhere;proto=http",
    "X-Forwarded-For": "elsewhere",
    "X-Forwarded-Host": "elsewhere",
    "X-Forwarded-Port": "1",
    "X-Forwarded-Prefix": "/elsewhere",
    "X-Forwarded-Proto": "http",
}


def post(session, url):
    """Create a provider, as a client that pretends to be another."""
    answer = session.post(url, json={"name": "host"}, headers={**ADMIN, **SPOOFED})
    answer.raise_for_status()
    return answer


def test_nginx_configuration_is_well_formed():
    """Its blocks close, its statements end, and it sends to where the service listens."""
    text = re.sub(r"#.*", "", NGINX.read_text())
    depth = 0
    for statement in re.split(r"(?<=[;{}])", text):
        statement = statement.strip()
        assert not statement or statement[-1] in ";{}", statement
        depth += statement.endswith("{") - statement.endswith("}")
        assert depth >= 0
    assert depth == 0
    assert re.search(r"server 127\.0\.0\.1:8778;", text)
    (block,) = re.findall(r"location = /-/metrics {(.*?)}", text, re.DOTALL)
    assert "deny all;" in block


def read_containerfile():
    """Its instructions: name and the rest, with continued lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Containerfile").read_text()).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def test_containerfile_copies_existing_files():
    """Each source of a COPY is in the tree, or in a stage before; the extras exist."""
    stages = {
        rest.split(" AS ")[1] for name, rest in read_containerfile() if name == "FROM" and " AS " in rest
    }
    for name, rest in read_containerfile():
        if name != "COPY":
            continue
        words = rest.split()
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages
            continue
        assert [word for word in words[:-1] if not (ROOT / word).exists()] == []
    (extras,) = re.findall(r"/source\[([\w,]+)\]", (ROOT / "Containerfile").read_text())
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert set(extras.split(",")) <= set(config["options.extras_require"])


def test_files_copied_into_the_image_build_the_wheel(tmp_path):
    """The files that are copied into the first stage make the wheel that is installed there."""
    sources = [
        rest.split()[:-1] for name, rest in read_containerfile() if name == "COPY" and "--from" not in rest
    ]
    for name in [name for words in sources for name in words]:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, tmp_path)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", build],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["Containerfile", "doc/source/admin/deploying.rst"])
def test_image_is_built_in_docker_format_for_its_health_check(name):
    """The format that podman makes by default has none."""
    commands = re.findall(r"podman build.*", (ROOT / name).read_text())
    assert commands
    assert all("--format docker" in command for command in commands)


def test_image_serves_and_is_healthy(tmp_path):
    """Its entry point with its command starts the server, and its health check passes."""
    instructions = dict(read_containerfile())
    (program,), arguments = json.loads(instructions["ENTRYPOINT"]), json.loads(instructions["CMD"])
    assert program == "placement-server"
    assert arguments[0] == "serve"
    write_conf(tmp_path)
    arguments = [word.replace("/etc/placement", str(tmp_path)) for word in arguments[1:]]
    check = json.loads(instructions["HEALTHCHECK"].partition("CMD ")[2])
    assert check[:2] == ["python", "-c"]
    ast.parse(check[2])
    with servers.running(tmp_path, *arguments, "--insecure") as server:
        code = check[2].replace("http://127.0.0.1:8778", server.url)
        assert code != check[2]
        # the container may be told of a proxy, which does not know its loopback interface
        environment = {**os.environ, "http_proxy": "http://127.0.0.1:1", "NO_PROXY": "", "no_proxy": ""}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    done = subprocess.run(
        [sys.executable, "-c", check[2].replace("8778", "1")], capture_output=True, check=False
    )
    assert done.returncode != 0
