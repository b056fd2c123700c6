# SPDX-License-Identifier: Apache-2.0
"""As much of the compute, image and identity services, over HTTP, as a request of nova's scheduler needs."""

import contextlib
import http.server
import json
import threading
from urllib.parse import parse_qsl, urlsplit

#: the services, each below a path of its own
SERVICES = ("compute", "image", "identity")


class OtherServices:
    """The answers of these services.

    ``flavors``, ``aggregates``, ``images`` and ``projects`` are lists of documents, ``zones`` of names;
    ``failing`` has the paths that end with an error, with its status.
    """

    def __init__(self):
        self.flavors, self.aggregates, self.images, self.projects, self.zones = [], [], [], [], []
        self.failing = {}
        self.url = ""

    def add_flavor(self, name, vcpus=1, **extra_specs):
        """Add a flavor; extra specs are written with `__` for a colon."""
        specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
        sizes = {"vcpus": vcpus, "ram": 64, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": 0, "swap": ""}
        self.flavors.append({"id": f"id-of-{name}", "name": name, **sizes, "extra_specs": specs})

    def answer(self, path, query):
        """The status and the document for a request."""
        for start, status in self.failing.items():
            if path.startswith(start):
                return status, {"forbidden": {"code": status, "message": "not for you"}}
        zones = [{"zoneName": name, "zoneState": {"available": True}} for name in self.zones]
        lists = {
            "/image/v2": {"versions": [describe_version("v2.16", f"{self.url}/image/v2/")]},
            "/identity/v3": {"version": describe_version("v3.14", f"{self.url}/identity/v3/")},
            "/compute/flavors/detail": {"flavors": self.flavors},
            "/compute/os-aggregates": {"aggregates": self.aggregates},
            "/compute/os-availability-zone": {"availabilityZoneInfo": zones},
            "/image/v2/images": {"images": find(self.images, query)},
            "/identity/v3/projects": {"projects": find(self.projects, query)},
        }
        if path.rstrip("/") in lists:
            return 200, lists[path.rstrip("/")]
        for document in self.images:
            if path == f"/image/v2/images/{document['id']}":
                return 200, document
        return 404, {"itemNotFound": {"code": 404, "message": "there is none"}}

    def clouds(self, directory, placement):
        """The environment of a cloud with these services and a placement service."""
        file = directory / "other-services.yaml"
        cloud = {
            "auth_type": "admin_token",
            "auth": {"endpoint": placement, "token": "admin"},
            "placement_endpoint_override": placement,
            "compute_endpoint_override": f"{self.url}/compute",
            "image_endpoint_override": f"{self.url}/image/v2",
            "identity_endpoint_override": f"{self.url}/identity/v3",
        }
        file.write_text(json.dumps({"clouds": {"test": cloud}}))
        return {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "test"}


def describe_version(number, url):
    """A version of an API, as clients discover it."""
    return {"id": number, "status": "CURRENT", "links": [{"rel": "self", "href": url}]}


def find(documents, query):
    """Those with the name that is asked for."""
    return [each for each in documents if each["name"] == query.get("name", each["name"])]


@contextlib.contextmanager
def serving():
    """These services on a free port."""
    services = OtherServices()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            status, document = services.answer(url.path, dict(parse_qsl(url.query)))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        services.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield services
        server.shutdown()
        thread.join()
