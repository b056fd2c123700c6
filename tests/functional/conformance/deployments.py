# SPDX-License-Identifier: Apache-2.0
"""Exchanging the package below deployments of openstack-placement, and exchanging it back.

For each deployment tool, its scripts start openstack-placement on a new database, which is filled. Then the
package is exchanged and nothing else, and the same scripts start our server, which has to answer as
openstack-placement did. After some claims the package is exchanged back, and openstack-placement has to
answer as our server did.
"""

import contextlib
import itertools
import os
import pathlib
import tempfile
import time
import uuid
from functools import partial

import requests
import sqlalchemy as sa

from benchmarks import environments
from benchmarks.processes import find_free_port
from osc_placement.server.shadow import differences
from osc_placement.server.shadow.exchange import Answer, Request
from tests import databases
from tests.functional.conformance import images, kolla, openstack_helm
from tests.functional.conformance.distributions import OURS, REFERENCE, Distributions
from tests.functional.keystone import cloud

#: seconds in which a service has to answer
PATIENCE = 60
VERSION = "1.39"
#: microversions at which all is read
VERSIONS = ("1.0", "1.20", VERSION)
PROJECT, USER = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
HOSTS = 3
#: the paths that are read of a provider
FACETS = ("", "/inventories", "/traits", "/aggregates", "/usages", "/allocations")
CANDIDATES = (
    "resources=VCPU:1,MEMORY_MB:512,DISK_GB:10",
    "resources=VCPU:1&required=HW_CPU_X86_AVX2",
    "resources=VCPU:1&resources1=SRIOV_NET_VF:1&group_policy=none",
    "resources=VCPU:100000",
)


def run(chart=None, *, mirror=images.MIRROR):
    """Exchange the package below deployments, and print what came of it; the exit status.

    :param chart: the directory of openstack-helm; without it kolla only
    :raises images.NotPossible: containers cannot be made here
    :raises environments.NotInstallable: something of a deployment tool cannot be installed
    :raises openstack_helm.NoChart: the directory has no charts
    """
    images.require()
    # the directories of an image have the modes that Debian gives them
    os.umask(0o022)
    makers = {kolla.Deployment.name: kolla.Deployment}
    if chart:
        openstack_helm.require(chart)
        makers[openstack_helm.Deployment.name] = partial(openstack_helm.Deployment, chart=chart)
    base = images.make_base(mirror)
    failed = 0
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=environments.CACHE)))
        directory.chmod(0o755)
        (directory / "distributions").mkdir()
        distributions = Distributions(directory / "distributions")
        keystone = stack.enter_context(_serving_keystone(directory))
        memcached_port = stack.enter_context(_serving_memcached(base, directory))
        for tool, make in makers.items():
            place = directory / tool
            place.mkdir()
            database = sa.make_url(stack.enter_context(databases.make_database("mariadb", place)))
            try:
                deployment = make(base, place, distributions)
                deployment.configure(database, keystone.url.removesuffix("/v3"), memcached_port)
                take_over_and_give_back(deployment, Asker(keystone), place)
            except images.Failed as error:
                failed += 1
                print(f"{tool}: FAILED: {error}", flush=True)
    if not chart:
        print("openstack-helm: not run, as --openstack-helm names no charts")
    print(f"{len(makers)} deployments, {failed} failed")
    return 1 if failed else 0


@contextlib.contextmanager
def _serving_keystone(directory):
    """Keystone with the account of a placement service."""
    place = directory / "keystone"
    place.mkdir()
    port = cloud.find_free_port()
    binaries = cloud.install()
    with cloud.serving(binaries, cloud.bootstrap(binaries, place, port), port) as keystone:
        cloud.add_service(keystone, "placement")
        yield keystone


@contextlib.contextmanager
def _serving_memcached(base, directory):
    """Memcached, for the tokens that the service has validated; its port."""
    port = find_free_port()
    command = ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(port), "-U", "0"]
    with base.running(command, images.Options(), directory / "memcached.log"):
        yield port


class Asker:
    """A client of a service, with a token of the administrator."""

    def __init__(self, keystone):
        self._token = keystone.issue_token("admin", "admin")
        self.url = None

    def send(self, method, path, body=None, *, version=VERSION, token=True):
        """Send a request; request and answer as values that can be compared."""
        headers = {"openstack-api-version": f"placement {version}"}
        if token:
            headers["x-auth-token"] = self._token
        answer = requests.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=PATIENCE)
        found = {name.lower(): value for name, value in answer.headers.items()}
        plain, _, query = path.partition("?")
        return Request(method, plain, query, headers), Answer(answer.status_code, found, answer.content)

    def write(self, method, path, body):
        """Send a request that has to succeed.

        :raises images.Failed: it does not
        """
        _, answer = self.send(method, path, body)
        if answer.status not in (200, 201, 204):
            raise images.Failed(f"{method} {path}: {answer.status} {answer.data}")

    def is_ours(self):
        """Return whether our server answers: it has routes of its own."""
        return self.send("GET", "/-/healthz", token=False)[1].status == 200


def take_over_and_give_back(deployment, asker, directory):
    """Run one deployment tool.

    :raises images.Failed: an answer is not what it has to be
    :raises images.Failed: a script of the tool fails
    """
    with _started(deployment, asker, directory, REFERENCE) as checked:
        fill(asker)
        before = read_all(asker)
    deployment.install(OURS, instead_of=REFERENCE)
    with _started(deployment, asker, directory, OURS) as checked_again:
        _expect_equal(deployment.name, before, read_all(asker))
        if checked != checked_again:
            raise images.Failed(f"the tool's checks differ: {checked} / {checked_again}")
        print(f"{deployment.name}: checks equal: {'; '.join(checked)}", flush=True)
        for number in range(HOSTS, 2 * HOSTS):
            claim(asker, number)
        between = read_all(asker)
    deployment.install(REFERENCE, instead_of=OURS)
    with _started(deployment, asker, directory, REFERENCE):
        _expect_equal(deployment.name, between, read_all(asker))
        claim(asker, 2 * HOSTS)


@contextlib.contextmanager
def _started(deployment, asker, directory, package):
    """Run the scripts of the tool, and have the client ask the service; what the tool's checks say."""
    log = directory / f"{len(list(directory.glob('*.log')))}-{package}.log"
    began = time.monotonic()
    _expect_no_traceback({"db sync": deployment.synchronize()})
    synchronized = time.monotonic()
    with deployment.serving(log) as (url, container):
        asker.url = url
        _await_answer(asker, container)
        ready = time.monotonic()
        if asker.is_ours() != (package == OURS):
            raise images.Failed(f"{package} is installed, and another server answers")
        yield deployment.check(container)
    ended = time.monotonic()
    _expect_no_traceback({"output": log.read_text(), **deployment.read_logs()})
    print(
        f"{deployment.name}: {package}: tables {synchronized - began:.1f} s, "
        f"ready after {ready - synchronized:.1f} s, asked for {ended - ready:.1f} s",
        flush=True,
    )


def _await_answer(asker, container):
    until = time.monotonic() + PATIENCE
    while container.is_running() and time.monotonic() < until:
        with contextlib.suppress(requests.ConnectionError):
            if asker.send("GET", "/", token=False)[1].status == 200:
                return
        time.sleep(0.1)
    raise images.Failed(f"the service does not answer: {container.log.read_text()[-3000:]}")


def _expect_no_traceback(texts):
    for name, text in texts.items():
        if "Traceback" in text:
            raise images.Failed(f"{name} has a traceback: {text[text.index('Traceback') :][:3000]}")


def _expect_equal(tool, before, after):
    """Print how many answers are equal.

    :raises images.Failed: some are not
    """
    different = []
    for (request, theirs), (_, ours) in zip(before, after, strict=True):
        if lines := differences.find(request, theirs, ours):
            path = f"{request.path}?{request.query}" if request.query else request.path
            different += [f"{request.method} {path} at {request.microversion}", *lines]
    if different:
        raise images.Failed("\n    ".join(["answers differ:", *different]))
    print(f"{tool}: {len(before)} answers equal", flush=True)


def fill(asker):
    """Make hosts with a network card each, which share a storage, and claim from them."""
    storage = str(uuid.uuid4())
    pool = str(uuid.uuid4())
    asker.write("PUT", "/traits/CUSTOM_FAST", None)
    asker.write("PUT", "/resource_classes/CUSTOM_LICENCE", None)
    make_provider(asker, storage, "storage", {"DISK_GB": 10000}, ["MISC_SHARES_VIA_AGGREGATE"], pool)
    for number in range(HOSTS):
        host, card = str(uuid.uuid4()), str(uuid.uuid4())
        inventories = {"VCPU": 16, "MEMORY_MB": 65536, "CUSTOM_LICENCE": number + 1}
        make_provider(asker, host, f"host{number}", inventories, ["HW_CPU_X86_AVX2", "CUSTOM_FAST"], pool)
        make_provider(asker, card, f"host{number}-card", {"SRIOV_NET_VF": 8}, ["HW_NIC_SRIOV"], parent=host)
    for number in range(HOSTS):
        claim(asker, number)


def make_provider(asker, provider, name, inventories, traits, aggregate=None, parent=None):
    """Create a provider with all that belongs to it."""
    body = {"uuid": provider, "name": name, "parent_provider_uuid": parent}
    asker.write("POST", "/resource_providers", body)
    path = f"/resource_providers/{provider}"
    generations = itertools.count()
    totals = {name: {"total": total} for name, total in inventories.items()}
    for facet, value in (
        ("inventories", totals),
        ("traits", traits),
        ("aggregates", [aggregate] if aggregate else []),
    ):
        generation = {"resource_provider_generation": next(generations)}
        asker.write("PUT", f"{path}/{facet}", {facet: value, **generation})


def claim(asker, number):
    """Claim the first candidate for a consumer with this number.

    :raises images.Failed: there is none, or it is refused
    """
    _, answer = asker.send("GET", f"/allocation_candidates?{CANDIDATES[0]}&limit=1")
    if answer.status != 200 or not answer.data["allocation_requests"]:
        raise images.Failed(f"no candidate: {answer.status} {answer.data}")
    (found,) = answer.data["allocation_requests"]
    owner = {"project_id": PROJECT, "user_id": USER, "consumer_generation": None, "consumer_type": "INSTANCE"}
    body = {"allocations": found["allocations"], "mappings": found["mappings"], **owner}
    asker.write("PUT", f"/allocations/{make_consumer(number)}", body)


def make_consumer(number):
    """Return the UUID of the consumer with this number."""
    return str(uuid.UUID(int=100 + number))


def read_all(asker):
    """Return what the service answers about all that it has, and to some requests that it refuses."""
    _, answer = asker.send("GET", "/resource_providers")
    providers = sorted(provider["uuid"] for provider in answer.data["resource_providers"])
    paths = [
        "/",
        "/resource_providers",
        "/resource_providers?in_tree=nothing",
        "/resource_providers?required=CUSTOM_FAST",
        "/traits",
        "/traits?associated=true",
        "/resource_classes",
        f"/usages?project_id={PROJECT}",
        "/nothing",
        *(f"/resource_providers/{provider}{facet}" for provider in providers for facet in FACETS),
        *(f"/allocations/{make_consumer(number)}" for number in range(2 * HOSTS + 1)),
        *(f"/allocation_candidates?{query}" for query in CANDIDATES),
    ]
    read = [asker.send("GET", path, version=version) for path in paths for version in VERSIONS]
    return [*read, asker.send("GET", "/resource_providers", token=False)]
