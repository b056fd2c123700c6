# SPDX-License-Identifier: Apache-2.0
"""A real glance from PyPI on SQLite, and a stand-in that fails as it is told to."""

import contextlib
import http.server
import json
import pathlib
import subprocess
import threading
import urllib.parse

from benchmarks import environments
from tests import databases
from tests.functional import servers

REQUIREMENTS = ("glance==33.0.0", "setuptools<81")
PROGRAM = pathlib.Path(__file__).with_name("glance_api.py")
PASTE = """\
[composite:glance-api]
paste.composite_factory = glance.api:root_app_factory
/: api
[composite:api]
paste.composite_factory = glance.api:pipeline_factory
default = versionnegotiation context rootapp
[composite:rootapp]
paste.composite_factory = glance.api:root_app_factory
/: apiversions
/v2: apiv2app
[app:apiversions]
paste.app_factory = glance.api.versions:create_resource
[app:apiv2app]
paste.app_factory = glance.api.v2.router:API.factory
[filter:versionnegotiation]
paste.filter_factory = glance.api.middleware.version_negotiation:VersionNegotiationFilter.factory
[filter:context]
paste.filter_factory = glance.api.middleware.context:ContextMiddleware.factory
"""
CONFIGURATION = """\
[DEFAULT]
enabled_backends = files:file
log_file = {directory}/glance.log
workers = 1
[database]
connection = sqlite:///{directory}/glance.db
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {directory}/images
[os_glance_tasks_store]
filesystem_store_datadir = {directory}/tasks
[os_glance_staging_store]
filesystem_store_datadir = {directory}/staging
"""


def configure(directory, binaries, more):
    """Write glance-api.conf, with more sections, and make the empty database and the directories."""
    for name in ("images", "tasks", "staging"):
        (directory / name).mkdir(parents=True)
    configuration = directory / "glance-api.conf"
    configuration.write_text(CONFIGURATION.format(directory=directory) + more)
    manage = [binaries / "glance-manage", "--config-file", configuration, "db", "sync"]
    environment = servers.make_environment()
    subprocess.run(manage, env=environment, check=True, capture_output=True, timeout=120)


@contextlib.contextmanager
def serving_real_glance(directory):
    """Serve a glance without images from a directory; its URL."""
    try:
        binaries = environments.make("glance", REQUIREMENTS)
    except environments.NotInstallable as error:
        databases.skip_or_fail(f"glance cannot be installed: {error}")
    environment = servers.make_environment(OS_GLANCE_CONFIG_DIR=str(directory))
    paste = directory / "paste.ini"
    configure(directory, binaries, f"[paste_deploy]\nconfig_file = {paste}\n")
    paste.write_text(PASTE)
    process = subprocess.Popen(
        [binaries / "python", "-P", PROGRAM],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        # its log may be on standard output, too
        url = next((line.strip() for line in process.stdout if line.startswith("http")), "")
        assert url, "glance does not start"
        yield url
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Glance(http.server.BaseHTTPRequestHandler):
    """Glance's list of images, as its API documents it, in pages of two."""

    images = ()
    status = 200

    def do_GET(self):
        """Answer with a page."""
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        kind = query.get("visibility") or ("hidden" if query.get("os_hidden") else "public")
        after = [
            each for each in self.images if each["kind"] == kind and each["id"] > query.get("marker", "")
        ]
        document = {"images": after[:2], "first": "/v2/images"}
        if after[2:]:
            document["next"] = f"/v2/images?marker={after[1]['id']}"
        is_right = parts.path == "/v2/images" and query["sort_key"] == "id"
        body = json.dumps(document).encode()
        self.send_response(self.status if is_right else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        """Say nothing."""


@contextlib.contextmanager
def serving_glance():
    """Serve on a free port; the handler, whose images may be set, and the URL."""
    handler = type("Handler", (Glance,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield handler, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
