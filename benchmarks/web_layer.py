# SPDX-License-Identifier: Apache-2.0
"""A program that prints the processor time of a request outside the database, in milliseconds, by path.

It is run by the Python of the environment that has the server, and imports nothing of the benchmarks:
``web_layer.py MODULE COUNT PATH...``, with ``OS_PLACEMENT_CONFIG_DIR`` set. The requests are sent to the WSGI
application of the module in this process. What the server reads for a path is remembered from the first
request on.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import sys
import time
from collections.abc import Callable
from typing import Any

#: by package, the functions that read data, as module, class and name; the first argument of each is no key
READERS = {
    "osc_placement": [
        ("osc_placement.server.db.engine", "Database", "read"),
        ("osc_placement.server.snapshot.current", "Current", "get"),
    ],
    "placement": [
        ("placement.objects.resource_provider", "ResourceProvider", "get_by_uuid"),
        ("placement.objects.inventory", "", "get_all_by_resource_provider"),
    ],
}
HEADERS = {
    "HTTP_ACCEPT": "application/json",
    "HTTP_OPENSTACK_API_VERSION": "placement 1.39",
    "HTTP_USER_AGENT": "nova-compute keystoneauth1/5.10.0 python-requests/2.32.3 CPython/3.11.7",
    "HTTP_X_AUTH_TOKEN": "admin",
    "HTTP_X_OPENSTACK_REQUEST_ID": "req-370e0647-88ee-4a72-a9ba-8cf5d1adf41c",
}


def send(application: Any, path: str) -> None:
    """Send a request as a container does, and check that it is answered."""
    environ = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8778",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **HEADERS,
    }
    told: list[str] = []
    body = b"".join(application(environ, lambda status, headers, exc_info=None: told.append(status)))
    if told != ["200 OK"]:
        raise SystemExit(f"{path} is answered {told}: {body[:500]!r}")


def remember(module: str, class_: str, name: str) -> None:
    """Replace a function by one that calls it once for the same arguments."""
    owner: Any = importlib.import_module(module)
    if class_:
        owner = getattr(owner, class_)
    read = getattr(owner, name)
    known: dict[Any, Any] = {}

    def remembered(first: Any, *others: Any, **options: Any) -> Any:
        key = others, tuple(options.items())
        if key not in known:
            known[key] = read(first, *others, **options)
        return known[key]

    setattr(owner, name, staticmethod(remembered) if inspect.ismethod(read) else remembered)


def measure(application: Any, path: str, count: int, statements: list[str]) -> float:
    """Return the milliseconds of a request; raise SystemExit if the database is still asked."""
    for _ in range(10):
        send(application, path)
    statements.clear()
    before = time.process_time()
    for _ in range(count):
        send(application, path)
    spent = time.process_time() - before
    if statements:
        raise SystemExit(f"GET {path} asks the database, which is to be left out: {statements[0]}")
    return spent / count * 1000


def main(module: str, count: int, paths: list[str]) -> None:
    """Print the times as a JSON object."""
    import sqlalchemy as sa

    statements: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        statements.append(statement)

    listen: Callable[..., None] = sa.event.listen
    listen(sa.Engine, "before_cursor_execute", note)
    application = importlib.import_module(module).application
    if module.startswith("osc_placement"):
        # otherwise the snapshot is loaded, and compared from time to time, in the background
        current: Any = importlib.import_module("osc_placement.server.snapshot.current")
        current.Current.get_if_cheap = lambda self: None
    for path in paths:
        # the first request makes the application, and what it needs of the database
        send(application, path)
    for reader in READERS[module.partition(".")[0]]:
        remember(*reader)
    # our server checks once a second that the database is the same, which is then remembered too
    time.sleep(1.1)
    print(json.dumps({path: measure(application, path, count, statements) for path in paths}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
