# SPDX-License-Identifier: Apache-2.0
"""Running nova's real API application for tests, on the databases of a test."""

import contextlib
import subprocess

from tests.functional import servers
from tests.functional.forking import ForkedProcess, find_server
from tests.functional.migrate import nova_databases as nova

PROGRAM = "tests.functional.migrate.nova_api:main"
PASTE = """\
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: versions
/v2.1: version
/v2.1/+: compute
[pipeline:versions]
pipeline = faultwrap oscomputeversionapp
[pipeline:version]
pipeline = faultwrap oscomputeversionapp_v2
[pipeline:compute]
pipeline = compute_req_id faultwrap keystonecontext osapi_compute_app_v21
[filter:compute_req_id]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory
[filter:faultwrap]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:keystonecontext]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory
[app:osapi_compute_app_v21]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[app:oscomputeversionapp]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
[app:oscomputeversionapp_v2]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
"""


@contextlib.contextmanager
def serving(directory):
    """Nova's API with the nova.conf of a directory; the URL of its version 2.1."""
    (directory / "api-paste.ini").write_text(PASTE)
    log = directory / "nova-api.log"
    with log.open("w") as stderr:
        process = ForkedProcess(
            find_server(PROGRAM, nova.find_nova() / "python"),
            (),
            cwd=directory,
            env=servers.make_environment(OS_NOVA_CONFIG_DIR=str(directory)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http"), log.read_text()
        yield url
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
